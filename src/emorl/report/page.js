// What answers to the pointer. Nothing is loaded: each block has its pictures on one sheet.

const element = (tag, fields = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
};
const numbers = (color) => color.match(/\d+/g).map(Number);
const shareAcross = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((share) => Math.min(0.999, Math.max(0, share)));
};

// The pixels of the sheet's panel in a row and column.
const reader = (sheet, side) => {
  const canvas = element("canvas", { width: sheet.naturalWidth, height: sheet.naturalHeight });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(sheet, 0, 0);
  return (row, column) => context.getImageData(column * side, row * side, side, side);
};

const paint = (canvas, side, color) => {
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  for (let at = 0; at < side * side; at += 1) {
    const [r, g, b] = color(at);
    image.data.set([r, g, b, 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
};

const labelled = (canvas, text) => element("div", { className: "panel" }, canvas, element("span", { textContent: text }));

// One scene: a slot under the pointer is lit, and a slider goes through the steps of inference.
const setTouch = (block, sheet) => {
  const side = Number(block.dataset.side);
  const steps = JSON.parse(block.dataset.steps);
  const colors = JSON.parse(block.dataset.colors).map(numbers);
  const panel = reader(sheet, side);
  const image = panel(0, 0).data;
  const state = { step: steps.length - 1, lit: null, kept: null };
  const made = () => element("canvas", { width: side, height: side });
  const [seen, rebuilt, owned] = [made(), made(), made()];
  let masks = [], owner = [], result = null;

  const load = () => {
    result = panel(state.step + 1, 0).data;
    masks = colors.map((_, k) => panel(state.step + 1, k + 1).data);
    owner = Array.from({ length: side * side }, (_, at) => masks.reduce((best, mask, k) => (mask[4 * at] > masks[best][4 * at] ? k : best), 0));
  };
  const draw = () => {
    const lit = state.lit ?? state.kept;
    const light = (at) => (lit === null ? 1 : 0.16 + 0.84 * (masks[lit][4 * at] / 255));
    const lighted = (data) => (at) => [0, 1, 2].map((c) => data[4 * at + c] * light(at));
    paint(seen, side, lighted(image));
    paint(rebuilt, side, lighted(result));
    paint(owned, side, (at) => colors[owner[at]].map((value) => value * (lit === null || lit === owner[at] ? 1 : 0.25)));
    chips.forEach((chip, k) => chip.setAttribute("aria-pressed", String(k === lit)));
    name.textContent = steps[state.step];
  };
  const change = (values) => { Object.assign(state, values); draw(); };

  const chips = colors.map((color, k) => {
    const dot = element("i");
    dot.style.background = `rgb(${color.join(" ")})`;
    return element("button", {
      type: "button", onpointerenter: () => change({ lit: k }), onpointerleave: () => change({ lit: null }),
      onfocus: () => change({ lit: k }), onblur: () => change({ lit: null }), onclick: () => change({ kept: state.kept === k ? null : k }),
    }, dot, `slot ${k}`);
  });
  for (const canvas of [seen, rebuilt, owned]) {
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = shareAcross(canvas, event);
      change({ lit: owner[Math.floor(y * side) * side + Math.floor(x * side)] });
    });
    canvas.addEventListener("pointerleave", () => change({ lit: null }));
  }
  const name = element("output");
  const range = element("input", { type: "range", min: 0, max: steps.length - 1, value: state.step, oninput: () => { state.step = Number(range.value); load(); draw(); } });
  range.setAttribute("aria-label", "Step of inference");
  load();
  draw();
  block.append(
    element("div", { className: "canvases" }, labelled(seen, "image"), labelled(rebuilt, "rebuilt"), labelled(owned, "slots")),
    element("div", { className: "controls" }, element("label", {}, "Step ", range), name),
    element("div", { className: "chips" }, ...chips),
  );
};

// Traversals: the value of a number is where the pointer is, from left to right.
const setFollow = (block, sheet) => {
  const side = Number(block.dataset.side), values = Number(block.dataset.values);
  const panel = reader(sheet, side);
  const panels = JSON.parse(block.dataset.names).map((name, row) => {
    const canvas = element("canvas", { width: side, height: side });
    const show = (value) => { range.value = value; canvas.getContext("2d").putImageData(panel(row, Number(value)), 0, 0); };
    const range = element("input", { type: "range", min: 0, max: values - 1, oninput: () => show(range.value) });
    range.setAttribute("aria-label", `Value of ${name}`);
    canvas.addEventListener("pointermove", (event) => show(Math.floor(shareAcross(canvas, event)[0] * values)));
    show(Math.floor(values / 2));
    return element("div", { className: "panel" }, canvas, range, element("span", { textContent: name }));
  });
  block.append(element("div", { className: "canvases" }, ...panels));
};

for (const [kind, set] of Object.entries({ touch: setTouch, follow: setFollow })) {
  for (const block of document.querySelectorAll(`.live.${kind}`)) {
    const sheet = block.querySelector("img");
    sheet.decode().then(() => { set(block, sheet); block.closest("figure").classList.add("ready"); });
  }
}
