// What is shown, as files: a PNG of the four pictures, a JSON of the slots.

import { make } from "./panels.js";

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

export function savePng(page, canvases) {
  const side = page.size * Math.max(1, Math.round(320 / page.size));
  const sheet = make("canvas", { width: canvases.length * (side + 8) - 8, height: side });
  const context = sheet.getContext("2d");
  context.imageSmoothingEnabled = false;
  page.hover(null);
  canvases.forEach((canvas, n) => context.drawImage(canvas, n * (side + 8), 0, side, side));
  sheet.toBlob((blob) => save(blob, "scene.png"));
}

export function saveJson({ scene, frame }) {
  const slots = frame.places.map((place, k) => ({
    slot: k + 1, area: frame.area[k], explained: frame.explained[k], empty: frame.empty[k], removed: frame.removed.includes(k),
    centre: place && [place[1], place[0]], size: place && place[2], edited: frame.edited[k] ?? null,
  }));
  const text = JSON.stringify({ software: "made by emorl", scene, error: frame.error, slots }, null, 2);
  save(new Blob([text], { type: "application/json" }), "scene.json");
}
