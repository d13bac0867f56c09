// The panels around the stage: cards of slots, sliders, steps of inference, slots of another scene.

import * as paint from "./paint.js";

export function make(tag, fields = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const percent = (share) => (share > 0 && share < 0.005 ? "<1\u202f%" : `${Math.round(100 * share)}\u202f%`);
const dot = ([r, g, b]) => {
  const element = make("span", { className: "dot" });
  element.style.background = `rgb(${r} ${g} ${b})`;
  return element;
};

export function showTitle(element, page) {
  const k = page.chosen;
  if (k === null) element.replaceChildren("No slot chosen");
  else element.replaceChildren(dot(page.color(k)), `Slot ${k + 1}${k === page.background ? ", the background" : ""}`);
}

// Cards are made once for a scene, then only painted.
export function makeCards(list, page) {
  list.replaceChildren(...Array.from({ length: page.count }, (_, k) => make("li", {},
    make("button", { className: "card", onclick: () => page.choose(k), onmouseenter: () => page.hover(k), onmouseleave: () => page.hover(null) },
      make("span", { className: "pair" }, make("canvas", { "aria-hidden": "true" }), make("canvas", { "aria-hidden": "true" })),
      make("b", {}, dot(page.color(k)), `Slot ${k + 1}`), make("small"), make("small")))));
}

export function paintCards(list, page) {
  const { size, frame } = page;
  [...list.querySelectorAll(".card")].forEach((card, k) => {
    const [first, second] = card.querySelectorAll("canvas");
    const [area, explained] = card.querySelectorAll("small");
    const mask = page.masks.subarray(k * size * size, (k + 1) * size * size);
    paint.mask(first, mask, size);
    paint.cutOut(second, page.looks[k], mask, size);
    const isRemoved = frame.removed.includes(k);
    card.classList.toggle("empty", frame.empty[k] && !isRemoved);
    card.classList.toggle("removed", isRemoved);
    card.setAttribute("aria-pressed", String(page.chosen === k));
    area.textContent = isRemoved ? "removed" : frame.empty[k] ? "empty" : `area ${percent(frame.area[k])}`;
    explained.textContent = `explains ${percent(Math.max(0, frame.explained[k]))}`;
    card.setAttribute("aria-label", `Slot ${k + 1}, ${area.textContent}, ${explained.textContent}`);
  });
}

const words = { x: "x", y: "y", z: "depth", color_0: "red", color_1: "green", color_2: "blue" };

export function showSliders(element, rows, page) {
  element.replaceChildren(...rows.map((row) => {
    const name = row.label ? words[row.label] ?? row.label.replace("_", " ") : `number ${row.dim}`;
    const low = Math.min(row.low, row.value, row.inferred), high = Math.max(row.high, row.value, row.inferred);
    const output = make("output", {}, row.value.toFixed(2));
    let stroke = null;
    const range = make("input", {
      type: "range", min: low, max: high, step: (high - low) / 200 || 1, value: row.value,
      "aria-label": row.label ? `${name}, number ${row.dim} of the slot` : `${name} of the slot`, title: "Twice: back to what was inferred",
      onpointerdown: () => { stroke = page.newStroke(); },
      onkeydown: () => { stroke ??= page.newStroke(); },
      onkeyup: () => { stroke = null; },
      onchange: () => { stroke = null; },
      ondblclick: () => page.setNumber(row.dim, row.inferred, null),
      oninput: () => {
        output.textContent = (+range.value).toFixed(2);
        page.setNumber(row.dim, +range.value, stroke);
      },
    });
    Object.assign(range.dataset, { dim: row.dim, inferred: row.inferred });
    const number = make("small", {}, `z${row.dim}`);
    const label = make("span", { className: "name", title: `activeness ${row.activeness.toExponential(1)}` }, ...(row.label ? [`${name} `, number] : [number]));
    return make("div", { className: "slider" }, label, range, output,
      make("button", { title: "Play from one end to the other", "aria-label": `Play ${name}`, "aria-pressed": "false", onclick: () => page.play(row.dim) }, "▶"),
      make("button", { title: "Save the animation as GIF", "aria-label": `Save ${name} as GIF`, onclick: () => page.saveGif(row.dim) }, "GIF"));
  }));
}

// The numbers of a slot change by drags, too.
export function updateSliders(element, values) {
  for (const range of element.querySelectorAll("input")) {
    const value = values ? values[range.dataset.dim] : +range.dataset.inferred;
    if (Math.abs(+range.value - value) < 1.01 * range.step) continue;
    range.min = Math.min(range.min, value);
    range.max = Math.max(range.max, value);
    range.value = value;
    range.nextElementSibling.textContent = value.toFixed(2);
  }
}

// While a traversal plays, its slider goes with it. `share` is the place in the range; null: nothing plays.
export function followPlaying(element, dim, share) {
  for (const range of element.querySelectorAll("input")) {
    const isPlaying = share !== null && +range.dataset.dim === dim;
    const button = range.parentElement.querySelector("[aria-pressed]");
    button.setAttribute("aria-pressed", String(isPlaying));
    button.textContent = isPlaying ? "■" : "▶";
    if (isPlaying) range.value = +range.min + share * (range.max - range.min);
  }
}

export function showStep(element, step, page) {
  const size = page.size;
  const figures = [];
  const add = (title, draw) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    draw(canvas);
    figures.push(make("figure", {}, canvas, make("figcaption", {}, title)));
  };
  const owner = paint.owners(step.masks, page.count, size);
  const shared = paint.sharedBackground(owner, step.masks, step.result, size, page.common);
  add("result", (canvas) => paint.picture(canvas, step.result, size));
  add("slots", (canvas) => paint.segmentation(canvas, owner, step.masks, size, (k) => page.color(k), { shared }));
  for (let k = 0; k < page.count; k += 1) {
    const side = step.attention ? step.attention.shape[1] : size;
    const data = step.attention ? step.attention.data : step.masks;
    add(`${step.attention ? "attention" : "mask"} ${k + 1}`, (canvas) =>
      paint.mask(canvas, data.subarray(k * side * side, (k + 1) * side * side), side, page.color(k)));
  }
  element.replaceChildren(...figures);
}

export function showDonor(list, head, arrays, page) {
  const size = page.size, pixels = size * size;
  const count = arrays.masks.shape[0];
  list.replaceChildren(...Array.from({ length: count }, (_, k) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    const looks = arrays.looks.data.subarray(3 * k * pixels, 3 * (k + 1) * pixels);
    paint.cutOut(canvas, looks, arrays.masks.data.subarray(k * pixels, (k + 1) * pixels), size);
    const button = make("button", { className: "card", "aria-label": `Copy slot ${k + 1} of scene ${head.index}`, onclick: () => page.copy(k) },
      canvas, `Slot ${k + 1}`);
    button.classList.toggle("empty", head.empty[k]);
    return make("li", {}, button);
  }));
}

export function addTry(list, page, scene, error) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  paint.segmentation(canvas, page.owner, page.masks, page.size, (k) => page.color(k), { shared: page.shared });
  const request = { slots: scene.slots, steps: scene.steps, seed: scene.seed };
  const known = [...list.children].find((item) => item.dataset.key === JSON.stringify(request));
  if (known) return;
  const steps = scene.steps ?? page.about.usual_steps;
  const said = `K ${scene.slots}${steps === null ? "" : `, I ${steps}`}`;
  const item = make("li", {}, make("button", {
    className: "card", "aria-label": `Seed ${scene.seed}, ${said}, error ${error}`, onclick: () => page.open(request),
  }, canvas, make("small", {}, `seed ${scene.seed}`), make("small", {}, said), make("small", {}, `error ${error}`)));
  item.dataset.key = JSON.stringify(request);
  list.append(item);
}

// Of the inferences so far, the one that is shown.
export function markTry(list, scene) {
  const key = JSON.stringify({ slots: scene.slots, steps: scene.steps, seed: scene.seed });
  for (const item of list.children) item.firstChild.setAttribute("aria-pressed", String(item.dataset.key === key));
}
