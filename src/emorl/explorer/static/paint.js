// Arrays of bytes on canvases.

export const BACKGROUND = [104, 110, 120]; // no slot's colour, so that objects stand out

export function put(canvas, size, color) {
  if (canvas.width !== size) canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const pixel = [0, 0, 0, 255];
  for (let at = 0; at < size * size; at += 1) {
    color(at, pixel);
    image.data[4 * at] = pixel[0];
    image.data[4 * at + 1] = pixel[1];
    image.data[4 * at + 2] = pixel[2];
    image.data[4 * at + 3] = pixel[3];
  }
  context.putImageData(image, 0, 0);
}

export function picture(canvas, data, size, light = null) {
  put(canvas, size, (at, pixel) => {
    const share = light ? light(at) : 1;
    for (let c = 0; c < 3; c += 1) pixel[c] = data[3 * at + c] * share;
  });
}

// What a slot looks like, where its mask is; elsewhere the page shows through, and a trace of what else it would paint.
export function cutOut(canvas, data, mask, size) {
  put(canvas, size, (at, pixel) => {
    for (let c = 0; c < 3; c += 1) pixel[c] = data[3 * at + c];
    pixel[3] = 20 + (mask[at] * 235) / 255;
  });
}

export function mask(canvas, data, size, [r, g, b] = [255, 255, 255]) {
  put(canvas, size, (at, pixel) => {
    pixel[0] = (data[at] * r) / 255; pixel[1] = (data[at] * g) / 255; pixel[2] = (data[at] * b) / 255;
  });
}

// Which slot has most of each pixel.
export function owners(masks, count, size) {
  const owner = new Uint8Array(size * size);
  for (let at = 0; at < size * size; at += 1) {
    let best = 0;
    for (let k = 1; k < count; k += 1) {
      if (masks[k * size * size + at] > masks[best * size * size + at]) best = k;
    }
    owner[at] = best;
  }
  return owner;
}

// The most common colour of a picture: the median of each channel.
export function commonColor(data) {
  return [0, 1, 2].map((c) => {
    const all = data.filter((_, at) => at % 3 === c).sort();
    return all[all.length >> 1];
  });
}

// The pixels of a background that slots share, of which none has much: whose they are says nothing.
export function sharedBackground(owner, masks, result, size, [r, g, b]) {
  const shared = new Uint8Array(size * size);
  for (let at = 0; at < shared.length; at += 1) {
    const away = Math.max(Math.abs(result[3 * at] - r), Math.abs(result[3 * at + 1] - g), Math.abs(result[3 * at + 2] - b));
    if (away < 24 && masks[owner[at] * size * size + at] < 230) shared[at] = 1;
  }
  return shared;
}

// `lit` is the only slot in full light, if there is one; `outlined` has a white edge.
// Of `shared` pixels, only a trace of their slot's colour is seen.
export function segmentation(canvas, owner, masks, size, color, { shared = null, lit = null, outlined = null } = {}) {
  const isOutlined = (at) => owner[at] === outlined && !shared?.[at];
  const isEdge = (at) => {
    const x = at % size;
    return (x > 0 && !isOutlined(at - 1)) || (x < size - 1 && !isOutlined(at + 1))
      || (at >= size && !isOutlined(at - size)) || (at < size * (size - 1) && !isOutlined(at + size));
  };
  put(canvas, size, (at, pixel) => {
    const k = owner[at];
    const share = (0.35 + 0.65 * (masks[k * size * size + at] / 255)) * (lit === null || lit === k ? 1 : 0.3);
    const isWhite = isOutlined(at) && (lit === null || lit === k) && isEdge(at);
    const own = shared?.[at] ? color(k).map((value, c) => 0.85 * BACKGROUND[c] + 0.15 * value) : color(k);
    for (let c = 0; c < 3; c += 1) pixel[c] = isWhite ? 255 : own[c] * share;
  });
}

export function errorMap(canvas, one, other, size) {
  put(canvas, size, (at, pixel) => {
    let sum = 0;
    for (let c = 0; c < 3; c += 1) sum += Math.abs(one[3 * at + c] - other[3 * at + c]);
    const share = Math.min(1, sum / 250);
    pixel[0] = 255 * Math.min(1, 1.6 * share);
    pixel[1] = 255 * Math.max(0, 1.6 * share - 0.6);
    pixel[2] = 40 * share;
  });
}
