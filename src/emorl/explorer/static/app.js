// The page: what is shown, what is asked of the server, and the buttons.

import { Server } from "./socket.js";
import { Stage } from "./stage.js";
import * as paint from "./paint.js";
import * as panels from "./panels.js";
import * as link from "./link.js";
import * as keep from "./keep.js";
import * as compare from "./compare.js";

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
    showControls();
    replies.frame(head, arrays);
    panels.addTry($("tries"), page, page.scene, head.error.toFixed(4));
    panels.markTry($("tries"), page.scene);
    document.body.removeAttribute("aria-busy");
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
    showStep();
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

function showControls() {
  const { scene, about } = page;
  const model = page.models.find((one) => one.name === scene.model);
  const option = (name) => panels.make("option", { value: name }, name);
  $("model").value = scene.model;
  $("data").replaceChildren(...model.data.map(option),
    ...(model.others.length ? [panels.make("optgroup", { label: "of another size, made to fit" }, ...model.others.map(option))] : []));
  if (scene.upload) $("data").prepend(panels.make("option", { value: "" }, "your picture"));
  $("data").value = scene.upload ? "" : scene.data;
  $("index").value = scene.index;
  $("index").max = Math.max(0, scene.count - 1);
  for (const name of ["previous", "next", "index"]) $(name).disabled = scene.upload;
  $("slots").value = scene.slots;
  $("slots").disabled = about.slots[0] === about.slots[1];
  $("steps").value = scene.steps ?? about.usual_steps ?? "";
  $("steps").disabled = about.steps === null;
  $("seed").value = scene.seed;
  if (!$("donor-index").value) $("donor-index").value = scene.index + 1;
  const resize = window.matchMedia("(pointer: coarse)").matches ? "pinch" : "scroll";
  $("hint").textContent = `Drag an object to move it, ${resize} or pull the square to resize it${about.frame ? ", pull the dot to turn it" : ""}.`;
}

function showStep() {
  const step = page.steps[+$("step").value];
  if (!step) return;
  $("step-name").textContent = `${step.name}, error ${step.error.toFixed(4)}`;
  panels.showStep($("trace-view"), step, page);
}

let hiding = 0;
function say(text, isLasting = false) {
  clearTimeout(hiding);
  $("message").textContent = text;
  $("message").hidden = !text;
  if (text && !isLasting) hiding = setTimeout(() => say(""), 8000);
}

// For those who do not see what has changed.
function tell(text) { $("news").textContent = text; }

async function useFile(file) {
  if (!file) return;
  if (file.size > 8 * 2 ** 20) { say("This picture is too large: 8 MB are the limit."); return; }
  page.uploaded = await file.arrayBuffer();
  server.sendPicture(page.uploaded);
}

const stage = new Stage({ canvas: $("stage"), handles: $("handles"), page });
const server = new Server({
  reply: (head, arrays) => replies[head.kind]?.(head, arrays),
  open: () => { say(""); page.isBusy = false; page.pending = null; server.ask("hello"); },
  slow: (isSlow) => {
    if (isSlow) say("The server is busy. This page waits for its answer.", true);
    else if ($("message").textContent.startsWith("The server is busy")) say("");
  },
  gone: (code) => {
    if (page.scene && page.frame && !page.scene.upload) page.wanted = link.parsed(link.written(page.scene, page.frame, page.chosen));
    document.body.removeAttribute("aria-busy");
    say(code === 1013 ? "The explorer is busy: too many pages are open. This one tries again by itself."
      : "The server is gone. Start it again with: emorl explore. This page then goes on by itself.", true);
  },
});
window.explorer = page; // for tests and the curious

const on = (id, event, action) => $(id).addEventListener(event, action);
const another = (step) => page.open({ index: (page.scene.index + step + page.scene.count) % page.scene.count });
const anyScene = () => page.open({ upload: false, index: Math.floor(Math.random() * Math.max(1, page.scene.count || 320)) });
on("model", "change", () => page.open({ model: $("model").value, data: null, slots: null, steps: null }));
on("data", "change", () => page.open({ data: $("data").value || null, upload: !$("data").value, index: 0 }));
on("previous", "click", () => another(-1));
on("next", "click", () => another(1));
on("random", "click", anyScene);
on("index", "change", () => page.open({ index: Math.max(0, Math.floor(+$("index").value) || 0) }));
for (const name of ["slots", "steps", "seed"]) {
  on(name, "change", () => page.open({ [name]: $(name).value === "" ? (name === "seed" ? 0 : null) : Math.max(0, Math.floor(+$(name).value)) }));
}
on("again", "click", () => page.open({ seed: page.scene.seed + 1 }));
on("trace", "click", () => server.ask("trace"));
on("step", "input", showStep);
const showDonor = () => server.ask("donor", { index: Math.max(0, Math.floor(+$("donor-index").value) || 0) });
on("donor", "click", showDonor);
on("donor-index", "change", showDonor);
for (const name of ["undo", "redo", "reset"]) on(name, "click", () => page.edit(name, {}));
on("remove", "click", () => page.toggleRemoved(page.chosen));
on("swap", "change", () => { if ($("swap").value !== "") page.edit("swap", { slot: page.chosen, other: +$("swap").value }); });
on("save-png", "click", () => keep.savePng(page, ["picture", "stage", "segmentation", "error"].map($)));
on("save-json", "click", () => keep.saveJson(page));
on("copy-link", "click", async () => {
  const hash = link.written(page.scene, page.frame, page.chosen);
  if (!hash) { say("A link cannot hold your own picture."); return; }
  history.replaceState(null, "", hash);
  try { await navigator.clipboard.writeText(location.href); say("The link is copied."); } catch { say("The link is in the address bar."); }
});
on("upload", "click", () => $("file").click());
on("file", "change", () => { useFile($("file").files[0]); $("file").value = ""; });
document.addEventListener("paste", (event) => useFile([...event.clipboardData.files][0]));
document.addEventListener("dragover", (event) => { event.preventDefault(); $("drop").hidden = false; });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
document.addEventListener("drop", (event) => { event.preventDefault(); $("drop").hidden = true; useFile(event.dataTransfer.files[0]); });
document.addEventListener("keydown", (event) => {
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !(isTyping && event.target.type === "number")) {
    event.preventDefault();
    page.edit(event.shiftKey ? "redo" : "undo", {});
  } else if (!isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    if (event.key === "n") another(1);
    if (event.key === "p") another(-1);
    if (event.key === "r") anyScene();
  }
});
for (const name of ["picture", "segmentation", "error"]) {
  on(name, "pointermove", (event) => {
    const box = $(name).getBoundingClientRect();
    page.hover(stage.slotAt({ right: (2 * (event.clientX - box.left)) / box.width - 1, down: (2 * (event.clientY - box.top)) / box.height - 1 }));
  });
  on(name, "pointerleave", () => page.hover(null));
  on(name, "click", () => { if (page.hovered !== null) page.choose(page.hovered); });
}
on("compare", "click", () => compare.toggle(page, { button: $("compare"), frame: $("second"), panes: $("panes") }));
if (isSecond) compare.follow(page, server);
