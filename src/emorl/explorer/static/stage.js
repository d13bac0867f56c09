// Editing on the canvas: drag to move, wheel, pinch or the square handle to resize, the round one to turn, and the keys
// for all of it.

const QUIET = 700; // milliseconds between turns of the wheel or keys that are undone together
const LEAST_DRAG = 0.015; // of the image: a hand is never quite still, and a click is not a drag
const LEAST_TWIST = 0.2; // radians: fingers that go apart also turn a little, and do not mean it
const REACH = { fine: 14, coarse: 22 }; // pixels around a handle that belong to it

// The same angle, as close to `last` as whole turns bring it: past the far side it goes on, instead of jumping back.
const goingOn = (angle, last) => angle + 2 * Math.PI * Math.round((last - angle) / (2 * Math.PI));

export class Stage {
  constructor({ canvas, handles, page }) {
    Object.assign(this, { canvas, handles, page, drag: null, pulled: null, pinch: null, gesture: null, pressed: null, fingers: new Map() });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => page.hover(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    // A finger on an object moves it; elsewhere it scrolls the page.
    canvas.addEventListener("touchstart", (event) => {
      if (event.touches.length > 1 || this.objectAt(this.where(event.touches[0])) !== null) event.preventDefault();
    }, { passive: false });
    for (const name of ["turn", "resize"]) {
      const handle = handles.querySelector(`#${name}`);
      handle.addEventListener("pointerdown", (event) => this.pull(event, handle));
      handle.addEventListener("pointermove", (event) => this.pullMoved(event));
      for (const end of ["pointerup", "pointercancel"]) handle.addEventListener(end, (event) => this.release(event));
    }
  }

  // Where an event is, in units of the image, which reaches from -1 to 1.
  where(event) {
    const box = this.canvas.getBoundingClientRect();
    return { right: (2 * (event.clientX - box.left)) / box.width - 1, down: (2 * (event.clientY - box.top)) / box.height - 1 };
  }

  pixelAt({ right, down }) {
    const size = this.page.size;
    const at = (value) => Math.min(size - 1, Math.max(0, Math.floor(((value + 1) / 2) * size)));
    return at(down) * size + at(right);
  }

  slotAt(where) { return this.page.owner ? this.page.owner[this.pixelAt(where)] : null; }

  // The slot there that can be moved; null where there is only background, or a slot that shows nothing.
  objectAt(where) {
    const slot = this.slotAt(where);
    return slot === null || slot === this.page.background || this.page.shared[this.pixelAt(where)] || !this.page.places[slot] ? null : slot;
  }

  press(event) {
    const from = this.where(event);
    const slot = this.slotAt(from);
    if (slot === null || event.button > 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, from);
    if (this.fingers.size === 2) { this.startPinch(); return; }
    if (this.objectAt(from) === null) { this.pressed = slot; return; } // chosen when it turns out to be a click
    this.page.choose(slot);
    this.canvas.classList.add("dragging");
    this.drag = { slot, from, stroke: this.page.newStroke(), moved: false };
  }

  pointerMoved(event) {
    const here = this.where(event);
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, here);
    if (this.pinch) { this.pinchMoved(); return; }
    if (!this.drag) {
      this.page.hover(this.slotAt(here));
      this.canvas.classList.toggle("background", this.objectAt(here) === null);
      return;
    }
    const by = { right: here.right - this.drag.from.right, down: here.down - this.drag.from.down };
    if (!this.drag.moved && Math.hypot(by.right, by.down) < LEAST_DRAG) return;
    this.drag.moved = true;
    this.page.move(this.drag.slot, { ...by, stroke: this.drag.stroke });
  }

  release(event) {
    this.fingers.delete(event.pointerId);
    this.canvas.classList.remove("dragging");
    if (this.pressed !== null && event.type === "pointerup") this.page.choose(this.pressed);
    this.pressed = null;
    const wasBusy = this.drag?.moved || this.pulled || this.pinch;
    this.drag = this.pulled = this.pinch = null;
    if (wasBusy) this.page.drawStage();
  }

  get fingersApart() {
    const [one, two] = [...this.fingers.values()];
    return { length: Math.hypot(two.right - one.right, two.down - one.down), angle: Math.atan2(two.down - one.down, two.right - one.right) };
  }

  // What is under a finger or between both, or else the slot that is chosen.
  startPinch() {
    const [one, two] = [...this.fingers.values()];
    const between = this.objectAt({ right: (one.right + two.right) / 2, down: (one.down + two.down) / 2 });
    const slot = this.drag?.slot ?? this.objectAt(two) ?? between ?? this.page.chosen;
    this.drag = this.pressed = null;
    if (slot === null || !this.page.places[slot]) return;
    this.page.choose(slot);
    this.pinch = { slot, start: this.fingersApart, twist: 0, stroke: this.page.newStroke() };
  }

  pinchMoved() {
    if (this.fingers.size < 2) return;
    const { slot, start, stroke } = this.pinch;
    const now = this.fingersApart;
    this.pinch.twist = goingOn(now.angle - start.angle, this.pinch.twist);
    const turn = this.page.about.frame ? Math.sign(this.pinch.twist) * Math.max(0, Math.abs(this.pinch.twist) - LEAST_TWIST) : 0;
    this.page.move(slot, { grow: Math.log(Math.max(0.02, now.length) / Math.max(0.02, start.length)), turn, stroke });
  }

  pull(event, handle) {
    const slot = this.page.chosen;
    const place = this.page.places[slot];
    if (!place) return;
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    const from = this.polar(event, place);
    this.pulled = { slot, place, isTurn: handle.id === "turn", from, turn: 0, before: this.page.frame.turned[slot] ?? 0, stroke: this.page.newStroke() };
  }

  polar(event, place) {
    const here = this.where(event);
    const [down, right] = [here.down - place[0], here.right - place[1]];
    return { angle: Math.atan2(down, right), length: Math.max(0.02, Math.hypot(down, right)) };
  }

  pullMoved(event) {
    if (!this.pulled) return;
    const { slot, place, isTurn, from, stroke } = this.pulled;
    const now = this.polar(event, place);
    this.pulled.turn = goingOn(now.angle - from.angle, this.pulled.turn);
    this.page.move(slot, isTurn ? { turn: this.pulled.turn, stroke } : { grow: Math.log(now.length / from.length), stroke });
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

  // Another edit ends what adds up: after an undo, the next key must not bring back what was undone.
  endGesture(stroke) {
    if (this.gesture?.stroke !== stroke) this.gesture = null;
  }

  // Over an object the wheel resizes it, also while it shrinks away from under the pointer; elsewhere the page scrolls.
  wheel(event) {
    const isGoingOn = this.gesture && performance.now() - this.gesture.last < QUIET;
    const slot = isGoingOn ? this.gesture.slot : this.objectAt(this.where(event));
    if (slot === null || event.ctrlKey) return;
    event.preventDefault();
    this.page.choose(slot);
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

  draw(place) {
    const [ring, arm, turn, resize] = ["#ring", "#arm", "#turn", "#resize"].map((name) => this.handles.querySelector(name));
    this.handles.style.display = place ? "" : "none";
    if (!place) return;
    const [down, right, size, canTurn] = place;
    const { clientWidth: width } = this.canvas;
    const reach = (2 * REACH[window.matchMedia("(pointer: coarse)").matches ? "coarse" : "fine"]) / Math.max(1, width);
    const radius = Math.min(1.2, Math.max(0.09, 1.55 * size));
    const away = Math.max(radius, 1.4 * reach); // a small object can still be taken hold of between its handles
    const inside = (value) => Math.max(-0.94, Math.min(0.94, value));
    const set = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
    const put = (handle, x, y) => {
      set(handle, { transform: `translate(${x} ${y})` });
      set(handle.querySelector(".reach"), { r: reach });
    };
    set(ring, { cx: right, cy: down, r: radius });
    put(resize, inside(right + away * Math.SQRT1_2), inside(down + away * Math.SQRT1_2));
    for (const one of [arm, turn]) one.style.display = canTurn ? "" : "none";
    const up = this.handleAngle; // it rests on top, and goes with the pointer
    const far = away + 0.09;
    const [x, y] = [inside(right + far * Math.cos(up)), inside(down + far * Math.sin(up))];
    set(arm, { x1: right + radius * Math.cos(up), y1: down + radius * Math.sin(up), x2: x, y2: y });
    put(turn, x, y);
  }

  // Where the model turns the object no further, the handle stays behind the pointer.
  get handleAngle() {
    if (!this.pulled?.isTurn) return -Math.PI / 2;
    const { slot, from, turn, before } = this.pulled;
    return from.angle + (this.page.frame.is_held ? (this.page.frame.turned[slot] ?? 0) - before : turn);
  }
}
