// Editing on the canvas: drag to move, wheel to resize, the handle to turn, and the keys for all of it.

const QUIET = 700; // milliseconds between turns of the wheel or keys that are undone together

export class Stage {
  constructor({ canvas, handles, page }) {
    Object.assign(this, { canvas, handles, page, drag: null, gesture: null });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => this.release());
    canvas.addEventListener("pointerleave", () => page.hover(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    const turn = handles.querySelector("#turn");
    turn.addEventListener("pointerdown", (event) => this.pressTurn(event, turn));
    turn.addEventListener("pointermove", (event) => this.turnMoved(event));
    turn.addEventListener("pointerup", () => this.release());
  }

  // Where an event is, in units of the image, which reaches from -1 to 1.
  where(event) {
    const box = this.canvas.getBoundingClientRect();
    return { right: (2 * (event.clientX - box.left)) / box.width - 1, down: (2 * (event.clientY - box.top)) / box.height - 1 };
  }

  slotAt({ right, down }) {
    const size = this.page.size;
    const at = (value) => Math.min(size - 1, Math.max(0, Math.floor(((value + 1) / 2) * size)));
    return this.page.owner ? this.page.owner[at(down) * size + at(right)] : null;
  }

  press(event) {
    const from = this.where(event);
    const slot = this.slotAt(from);
    if (slot === null) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.classList.add("dragging");
    this.page.choose(slot);
    this.drag = { slot, from, stroke: this.page.newStroke(), moved: false };
  }

  pointerMoved(event) {
    const here = this.where(event);
    if (!this.drag) { this.page.hover(this.slotAt(here)); return; }
    const by = { right: here.right - this.drag.from.right, down: here.down - this.drag.from.down };
    // A hand is never quite still: a click is not a drag.
    if (!this.drag.moved && Math.hypot(by.right, by.down) < 0.015) return;
    this.drag.moved = true;
    this.page.move(this.drag.slot, { ...by, stroke: this.drag.stroke });
  }

  release() {
    this.drag = null;
    this.turning = null;
    this.canvas.classList.remove("dragging");
  }

  pressTurn(event, handle) {
    const slot = this.page.chosen;
    const place = this.page.places[slot];
    if (!place) return;
    handle.setPointerCapture(event.pointerId);
    const here = this.where(event);
    const angle = Math.atan2(here.down - place[0], here.right - place[1]);
    this.turning = { slot, place, angle, stroke: this.page.newStroke() };
  }

  turnMoved(event) {
    if (!this.turning) return;
    const { slot, place, angle, stroke } = this.turning;
    const here = this.where(event);
    const now = Math.atan2(here.down - place[0], here.right - place[1]);
    this.page.move(slot, { turn: now - angle, stroke });
  }

  // Turns of the wheel and presses of keys add up, as long as they follow each other.
  add(slot, change) {
    const now = performance.now();
    if (!this.gesture || this.gesture.slot !== slot || now - this.gesture.last > QUIET) {
      this.gesture = { slot, stroke: this.page.newStroke(), total: { down: 0, right: 0, grow: 0, turn: 0 } };
    }
    this.gesture.last = now;
    for (const [name, value] of Object.entries(change)) this.gesture.total[name] += value;
    this.page.move(slot, { ...this.gesture.total, stroke: this.gesture.stroke });
  }

  wheel(event) {
    const slot = this.page.chosen;
    if (slot === null || this.slotAt(this.where(event)) !== slot) return; // elsewhere the page scrolls
    event.preventDefault();
    this.add(slot, { grow: Math.max(-0.15, Math.min(0.15, -event.deltaY / 800)) });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const slot = this.page.chosen;
    const step = (event.shiftKey ? 10 : 2) / this.page.size;
    const changes = {
      ArrowLeft: { right: -step }, ArrowRight: { right: step }, ArrowUp: { down: -step }, ArrowDown: { down: step },
      "+": { grow: 0.05 }, "=": { grow: 0.05 }, "-": { grow: -0.05 }, "[": { turn: -0.1 }, "]": { turn: 0.1 },
    };
    if (/^[1-9]$/.test(event.key)) this.page.choose(+event.key - 1);
    else if (slot !== null && (event.key === "Delete" || event.key === "Backspace")) this.page.toggleRemoved(slot);
    else if (slot !== null && changes[event.key]) this.add(slot, changes[event.key]);
    else return;
    event.preventDefault();
  }

  draw(place, hasFrame) {
    const [ring, arm, turn] = ["#ring", "#arm", "#turn"].map((name) => this.handles.querySelector(name));
    this.handles.style.display = place ? "" : "none";
    if (!place) return;
    const [down, right, size, angle] = place;
    const radius = Math.min(1.2, Math.max(0.09, 1.55 * size));
    for (const [name, value] of [["cx", right], ["cy", down], ["r", radius]]) ring.setAttribute(name, value);
    for (const one of [arm, turn]) one.style.display = hasFrame && angle !== null ? "" : "none";
    if (angle === null) return;
    const up = -angle - Math.PI / 2;
    const reach = radius + 0.09;
    const end = [right + reach * Math.cos(up), down + reach * Math.sin(up)].map((value) => Math.max(-0.95, Math.min(0.95, value)));
    const values = { x1: right + radius * Math.cos(up), y1: down + radius * Math.sin(up), x2: end[0], y2: end[1] };
    for (const [name, value] of Object.entries(values)) arm.setAttribute(name, value);
    turn.setAttribute("cx", end[0]);
    turn.setAttribute("cy", end[1]);
  }
}
