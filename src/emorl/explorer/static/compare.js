// Two models side by side: the same page once more, in a frame, which follows the scene of the first.

export function toggle(page, { button, frame, panes }) {
  const isShown = frame.hidden;
  button.setAttribute("aria-pressed", String(isShown));
  panes.classList.toggle("comparing", isShown);
  frame.hidden = !isShown;
  if (!isShown) { frame.removeAttribute("src"); return; }
  const { scene } = page;
  const other = rival(page);
  const hash = new URLSearchParams({ m: other.name, d: scene.data, i: scene.index, s: scene.seed + (other.name === scene.model ? 1 : 0) });
  frame.src = `?second#${hash}`;
  frame.onload = () => tell(page, frame);
}

// A model that was made for scenes of this size, or any other one, or else the same one from another start.
function rival({ models, scene }) {
  const own = models.find((one) => one.name === scene.model);
  const others = models.filter((one) => one !== own);
  return others.find((one) => one.size === own.size) ?? others[0] ?? own;
}

// What the first page shows; a picture of one's own goes with it.
export function tell(page, frame) {
  if (!frame.hidden) frame.contentWindow?.postMessage({ scene: page.scene, uploaded: page.scene.upload ? page.uploaded : null }, location.origin);
}

export function follow(page, server) {
  window.addEventListener("message", (event) => {
    const { scene, uploaded } = event.data ?? {};
    if (event.origin !== location.origin || !scene || !page.scene) return;
    if (uploaded) { page.uploaded = uploaded; server.sendPicture(uploaded); return; }
    if (page.scene.data === scene.data && page.scene.index === scene.index && !page.scene.upload) return;
    if (page.knows(scene.data)) page.open({ data: scene.data, index: scene.index, upload: false });
  });
}
