// The state of the page in its address, so that a link brings it back.

export function written(scene, frame, chosen) {
  const fields = new URLSearchParams({ m: scene.model, d: scene.data, i: scene.index, s: scene.seed, k: scene.slots });
  if (scene.steps !== null) fields.set("t", scene.steps);
  if (chosen !== null) fields.set("c", chosen);
  if (frame.removed.length) fields.set("r", frame.removed.join("."));
  const edited = Object.entries(frame.edited).map(([k, values]) => `${k}.${packed(values)}`);
  if (edited.length) fields.set("e", edited.join("~"));
  return scene.upload ? "" : `#${fields}`;
}

export function parsed(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  if (!fields.has("m")) return null;
  const whole = (name) => (fields.has(name) && Number.isFinite(+fields.get(name)) ? Math.max(0, Math.floor(+fields.get(name))) : null);
  const edits = {};
  for (const part of (fields.get("e") || "").split("~").filter(Boolean)) {
    const [k, text] = part.split(".");
    try { edits[k] = unpacked(text); } catch { /* a damaged link: the rest still opens */ }
  }
  const removed = (fields.get("r") || "").split(".").filter(Boolean).map(Number).filter(Number.isInteger);
  return {
    scene: { model: fields.get("m"), data: fields.get("d"), index: whole("i") ?? 0, seed: whole("s") ?? 0, slots: whole("k"), steps: whole("t") },
    edits, removed, chosen: whole("c"),
  };
}

function packed(values) {
  const bytes = new Uint8Array(new Float32Array(values).buffer);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return [...new Float32Array(bytes.buffer)];
}
