// The page: what is shown, what is asked of the server, and what its answers change.

import { Server } from "./socket.js";
import { Stage } from "./stage.js";
import * as compare from "./compare.js";
import * as controls from "./controls.js";
import * as keep from "./keep.js";
import * as link from "./link.js";
import * as paint from "./paint.js";
import * as panels from "./panels.js";
import { say, sayBusy, tell } from "./tell.js";

const $ = (id) => document.getElementById(id);
const isSecond = new URLSearchParams(location.search).has("second");
document.body.classList.toggle("second", isSecond);

const page = {
  models: [], palette: [], scene: null, about: null, frame: null,
  size: 1, count: 0, masks: null, looks: [], result: null, picture: null, owner: null, shared: null, places: [],
  background: null, chosen: null, hovered: null, wanted: link.parsed(location.hash), uploaded: null,
  isBusy: false, pending: null, sentAt: 0, strokes: Date.now(), steps: [], playing: 0, played: null,

  color(k) { return k === this.background ? paint.BACKGROUND : this.palette[k % this.palette.length]; },
  knows(data) {
    const model = this.models.find((one) => one.name === this.scene.model);
    return model.data.includes(data) || model.others.includes(data);
  },
  newStroke() { this.strokes += 1; return this.strokes; },

  // Edits wait for the answer to the one before; of those that wait, the latest wins.
  edit(kind, fields) {
    this.stop();
    stage.endGesture(fields.stroke);
    if (this.isBusy) { this.pending = [kind, fields]; return; }
    this.isBusy = true;
    this.sentAt = performance.now();
    server.ask(kind, fields);
  },
  move(slot, { down = 0, right = 0, grow = 0, turn = 0, stroke }) {
    const within = (value, most) => Math.max(-most, Math.min(most, value));
    this.edit("move", { slot, down: within(down, 4), right: within(right, 4), grow: within(grow, 3), turn, stroke });
  },
  setNumber(dim, value, stroke) { this.edit("set", { slot: this.chosen, dim, value, stroke }); },
  toggleRemoved(slot) { this.edit("remove", { slot, removed: !this.frame.removed.includes(slot) }); },

  choose(k) {
    if (k === this.chosen || k >= this.count) return;
    this.chosen = k;
    $("sliders").replaceChildren();
    this.askSliders();
    this.drawChoice();
    tell(`Slot ${k + 1}${k === this.background ? ", the background" : ""}.`);
  },
  hover(k) {
    if (k === this.hovered) return;
    this.hovered = k;
    this.drawStage();
    this.drawSegmentation();
  },
  askSliders() {
    if (this.chosen !== null) server.ask("sliders", { slot: this.chosen });
  },
  open(changes = {}) {
    this.stop();
    const usual = { model: this.models[0].name, data: null, index: 0, slots: null, steps: null, seed: 0, upload: false };
    const { model, data, index, slots, steps, seed, upload } = { ...usual, ...this.scene, ...changes };
    document.body.setAttribute("aria-busy", "true");
    server.ask("open", { model, data, index, slots, steps, seed, upload });
  },
  copy(from) {
    const free = this.frame.empty.findIndex((isEmpty, k) => isEmpty || this.frame.removed.includes(k));
    const slot = free >= 0 ? free : this.chosen ?? 0;
    this.edit("copy", { from, slot });
    this.choose(slot);
  },
  play(dim) {
    if (this.played === dim) this.stop();
    else server.ask("traverse", { slot: this.chosen, dim, gif: false });
  },
  saveGif(dim) { server.ask("traverse", { slot: this.chosen, dim, gif: true }); },
  stop() {
    if (!this.playing) return;
    clearInterval(this.playing);
    this.playing = 0;
    this.played = null;
    document.body.classList.remove("playing");
    panels.followPlaying($("sliders"), null, null);
    panels.updateSliders($("sliders"), this.frame.edited[this.chosen]);
    this.drawStage();
  },

  drawStage(data = this.result) {
    if (!data) return;
    const { owner, hovered, frame } = this;
    const light = hovered === null || stage.drag ? null : (at) => (owner[at] === hovered ? 1 : 0.4);
    paint.picture($("stage"), data, this.size, light);
    const k = this.chosen;
    stage.draw(k === null || frame.removed.includes(k) ? null : this.places[k]);
  },
  drawSegmentation() {
    const shown = { shared: this.shared, lit: this.hovered, outlined: this.chosen };
    if (this.owner) paint.segmentation($("segmentation"), this.owner, this.masks, this.size, (k) => this.color(k), shown);
  },
  drawChoice() {
    panels.showTitle($("chosen"), this);
    $("remove").disabled = this.chosen === null;
    $("swap").disabled = this.chosen === null || !this.places[this.chosen];
    $("remove").textContent = this.frame && this.frame.removed.includes(this.chosen) ? "Bring back" : "Remove";
    const others = this.places.map((place, k) => k).filter((k) => this.places[k] && k !== this.chosen);
    $("swap").replaceChildren(panels.make("option", { value: "" }, "Swap places…"),
      ...others.map((k) => panels.make("option", { value: k }, `with slot ${k + 1}`)));
    this.drawStage();
    this.drawSegmentation();
    panels.paintCards($("cards"), this);
    this.remember();
  },
  draw() {
    paint.errorMap($("error"), this.picture, this.result, this.size);
    $("mse").textContent = this.frame.error.toFixed(4);
    panels.updateSliders($("sliders"), this.frame.edited[this.chosen]);
    $("undo").disabled = !this.frame.can_undo;
    $("redo").disabled = !this.frame.can_redo;
    $("reset").disabled = !Object.keys(this.frame.edited).length && !this.frame.removed.length;
    this.drawChoice();
  },
  remember() {
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => {
      if (this.scene && this.frame) history.replaceState(null, "", link.written(this.scene, this.frame, this.chosen) || location.pathname + location.search);
    }, 200);
  },
};

const replies = {
  models(head) {
    say(""); // not when the socket opens: one that is too many opens, too, and is closed at once
    page.models = head.models;
    page.palette = head.palette;
    $("model").replaceChildren(...head.models.map((one) => panels.make("option", { value: one.name }, one.title)));
    const wanted = page.wanted?.scene;
    const isKnown = wanted && head.models.some((one) => one.name === wanted.model);
    if (wanted && !isKnown) say(`This link is of a model that is not here: ${wanted.model}`);
    if (page.scene?.upload && page.uploaded) server.sendPicture(page.uploaded);
    else if (isKnown) page.open(wanted);
    else { page.wanted = null; page.open(isSecond && head.models[1] ? { model: head.models[1].name } : {}); }
  },
  scene(head, arrays) {
    page.stop();
    const isOther = !page.scene || ["model", "data", "index", "upload"].some((name) => page.scene[name] !== head.scene[name]);
    Object.assign(page, { scene: head.scene, about: head.about, size: arrays.picture.shape[0], count: head.scene.slots, chosen: null, isBusy: false, pending: null, hovered: null });
    page.picture = arrays.picture.data;
    page.common = paint.commonColor(page.picture);
    page.background = head.area.findIndex((share) => share > 0.5);
    page.looks = [];
    if (isOther) { $("tries").replaceChildren(); $("donor-cards").replaceChildren(); }
    $("trace-view").replaceChildren(); $("step").hidden = true; $("step-name").textContent = ""; $("sliders").replaceChildren();
    paint.picture($("picture"), page.picture, page.size);
    panels.makeCards($("cards"), page);
    controls.show(page);
    replies.frame(head, arrays);
    panels.addTry($("tries"), page, page.scene, head.error.toFixed(4));
    panels.markTry($("tries"), page.scene);
    document.body.removeAttribute("aria-busy");
    document.querySelector("main").inert = false;
    $("waiting").hidden = true;
    const { wanted } = page;
    page.wanted = null;
    if (wanted && (Object.keys(wanted.edits).length || wanted.removed.length)) server.ask("restore", { edits: wanted.edits, removed: wanted.removed });
    page.choose(wanted?.chosen ?? mostLikelyObject(head));
    tell(`${page.scene.upload ? "Your picture" : `Scene ${page.scene.index}`} in ${page.count} slots.`);
    if (!isSecond) compare.tell(page, $("second"));
  },
  frame(head, arrays) {
    page.frame = head;
    page.places = head.places;
    page.masks = arrays.masks.data;
    page.result = arrays.result.data;
    const length = 3 * page.size * page.size;
    head.changed.forEach((k, n) => { page.looks[k] = arrays.looks.data.subarray(n * length, (n + 1) * length); });
    page.owner = paint.owners(page.masks, page.count, page.size);
    page.shared = paint.sharedBackground(page.owner, page.masks, page.result, page.size, page.common);
    page.draw();
    controls.showHint(page);
    if (page.sentAt) $("speed").textContent = `Last edit: ${Math.round(performance.now() - page.sentAt)} ms`;
    page.sentAt = 0;
    next();
  },
  sliders(head) {
    if (head.slot !== page.chosen) return;
    if (head.rows) panels.showSliders($("sliders"), head.rows, page);
    else {
      $("sliders").replaceChildren(panels.make("p", { className: "hint" }, "Looking at some scenes, to see what the numbers of a slot do…"));
      setTimeout(() => page.askSliders(), 800);
    }
  },
  traversal(head, arrays) {
    if (head.slot !== page.chosen) return;
    const [count] = arrays.frames.shape;
    const length = 3 * page.size * page.size;
    let at = 0;
    page.stop();
    page.played = head.dim;
    document.body.classList.add("playing");
    page.playing = setInterval(() => {
      const n = at < count ? at : 2 * count - 1 - at;
      page.drawStage(arrays.frames.data.subarray(n * length, (n + 1) * length));
      panels.followPlaying($("sliders"), head.dim, n / (count - 1));
      at += 1;
      if (at === 2 * count) page.stop();
    }, 60);
  },
  gif(head, arrays) { keep.save(new Blob([arrays.gif.data], { type: "image/gif" }), `slot-${head.slot + 1}-z${head.dim}.gif`); },
  trace(head, arrays) {
    page.steps = head.steps.map((name, n) => ({
      name, error: head.errors[n], result: arrays[`result${n}`].data, masks: arrays[`masks${n}`].data, attention: arrays[`attention${n}`],
    }));
    $("step").hidden = false;
    $("step").max = page.steps.length - 1;
    $("step").value = 0;
    controls.showStep(page);
  },
  donor(head, arrays) { $("donor-index").value = head.index; panels.showDonor($("donor-cards"), head, arrays, page); },
  uploaded() { page.open({ upload: true, index: 0, seed: 0 }); },
  error(head) {
    say(head.message);
    document.body.removeAttribute("aria-busy");
    if (!page.scene && page.wanted) { page.wanted = null; page.open(); }
    next();
  },
};

function next() {
  page.isBusy = false;
  const waiting = page.pending;
  page.pending = null;
  if (waiting) page.edit(...waiting);
}

function mostLikelyObject(head) {
  const shares = head.explained.map((share, k) => (head.places[k] && head.area[k] < 0.5 ? share : -1));
  return Math.max(0, shares.indexOf(Math.max(...shares)));
}

const stage = new Stage({ canvas: $("stage"), handles: $("handles"), page });
const server = new Server({
  reply: (head, arrays) => replies[head.kind]?.(head, arrays),
  open: () => { page.isBusy = false; page.pending = null; server.ask("hello"); },
  slow: sayBusy,
  gone: (code) => {
    if (page.scene && page.frame && !page.scene.upload) page.wanted = link.parsed(link.written(page.scene, page.frame, page.chosen));
    document.body.removeAttribute("aria-busy");
    say(code === 1013 ? "The explorer is busy: too many pages are open. This one tries again by itself."
      : "The server is gone. Start it again with: emorl explore. This page then goes on by itself.", true);
  },
});
window.explorer = page; // for tests and the curious
controls.connect(page, server, stage);
if (isSecond) compare.follow(page, server);
