// The buttons, fields and keys of the page, and pictures that are dropped or pasted.

import * as compare from "./compare.js";
import * as keep from "./keep.js";
import * as link from "./link.js";
import * as panels from "./panels.js";
import { say, tell } from "./tell.js";

const MOST_BYTES = 8 * 2 ** 20;
const HELD = "The model has seen no object like this turned further.";
const $ = (id) => document.getElementById(id);
const whole = (id) => Math.max(0, Math.floor(+$(id).value) || 0);

// What the fields say of the scene that is shown.
export function show(page) {
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
}

// How the scene is touched, or why it does not follow.
export function showHint({ about, frame }) {
  const resize = window.matchMedia("(pointer: coarse)").matches ? "pinch" : "scroll";
  const usual = `Drag an object to move it, ${resize} or pull the square to resize it${about.frame ? ", pull the dot to turn it" : ""}.`;
  const text = frame.is_held ? HELD : usual;
  if ($("hint").textContent === text) return;
  $("hint").textContent = text;
  if (frame.is_held) tell(HELD);
}

export function showStep(page) {
  const step = page.steps[+$("step").value];
  if (!step) return;
  $("step-name").textContent = `${step.name}, error ${step.error.toFixed(4)}`;
  panels.showStep($("trace-view"), step, page);
}

export function connect(page, server, stage) {
  const on = (id, event, action) => $(id).addEventListener(event, (given) => { if (page.scene) action(given); });
  const another = (step) => { if (!page.scene.upload) page.open({ index: (page.scene.index + step + page.scene.count) % page.scene.count }); };
  const anyScene = () => page.open({ upload: false, index: Math.floor(Math.random() * Math.max(1, page.scene.count || 320)) });
  $("model").addEventListener("change", () => page.open({ model: $("model").value, data: null, slots: null, steps: null }));
  on("data", "change", () => page.open({ data: $("data").value || null, upload: !$("data").value, index: 0 }));
  on("previous", "click", () => another(-1));
  on("next", "click", () => another(1));
  on("random", "click", anyScene);
  on("index", "change", () => page.open({ index: whole("index") }));
  for (const name of ["slots", "steps", "seed"]) {
    on(name, "change", () => page.open({ [name]: $(name).value === "" && name !== "seed" ? null : whole(name) }));
  }
  on("again", "click", () => page.open({ seed: page.scene.seed + 1 }));
  on("trace", "click", () => server.ask("trace"));
  on("step", "input", () => showStep(page));
  for (const [id, event] of [["donor", "click"], ["donor-index", "change"]]) {
    on(id, event, () => server.ask("donor", { index: whole("donor-index") }));
  }
  for (const name of ["undo", "redo", "reset"]) on(name, "click", () => page.edit(name, {}));
  on("remove", "click", () => page.toggleRemoved(page.chosen));
  on("swap", "change", () => { if ($("swap").value !== "") page.edit("swap", { slot: page.chosen, other: +$("swap").value }); });
  on("save-png", "click", () => keep.savePng(page, ["picture", "stage", "segmentation", "error"].map($)));
  on("save-json", "click", () => keep.saveJson(page));
  on("copy-link", "click", () => copyLink(page));
  on("compare", "click", () => compare.toggle(page, { button: $("compare"), frame: $("second"), panes: $("panes") }));
  for (const name of ["picture", "segmentation", "error"]) pointAt(on, page, stage, name);
  document.addEventListener("keydown", (event) => { if (page.scene) key(event, page, { n: () => another(1), p: () => another(-1), r: anyScene }); });
  takePictures(page, server);
}

async function copyLink(page) {
  const hash = link.written(page.scene, page.frame, page.chosen);
  if (!hash) { say("A link cannot hold your own picture."); return; }
  history.replaceState(null, "", hash);
  try { await navigator.clipboard.writeText(location.href); say("The link is copied."); } catch { say("The link is in the address bar."); }
}

// The small views light up and choose slots as the stage does.
function pointAt(on, page, stage, name) {
  on(name, "pointermove", (event) => {
    const box = $(name).getBoundingClientRect();
    page.hover(stage.slotAt({ right: (2 * (event.clientX - box.left)) / box.width - 1, down: (2 * (event.clientY - box.top)) / box.height - 1 }));
  });
  on(name, "pointerleave", () => page.hover(null));
  on(name, "click", () => { if (page.hovered !== null) page.choose(page.hovered); });
}

function key(event, page, letters) {
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  const isModified = event.ctrlKey || event.metaKey;
  const pressed = event.key.toLowerCase();
  if (isModified && pressed === "z" && !(isTyping && event.target.type === "number")) {
    event.preventDefault();
    page.edit(event.shiftKey ? "redo" : "undo", {});
  } else if (!isTyping && !isModified && !event.altKey) letters[pressed]?.();
}

function takePictures(page, server) {
  const use = async (file) => {
    if (!file) return;
    if (file.size > MOST_BYTES) { say("This picture is too large: 8 MB are the limit."); return; }
    page.uploaded = await file.arrayBuffer();
    server.sendPicture(page.uploaded);
  };
  $("upload").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => { use($("file").files[0]); $("file").value = ""; });
  document.addEventListener("paste", (event) => use([...event.clipboardData.files][0]));
  document.addEventListener("dragover", (event) => { event.preventDefault(); $("drop").hidden = false; });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
  document.addEventListener("drop", (event) => { event.preventDefault(); $("drop").hidden = true; use(event.dataTransfer.files[0]); });
}
