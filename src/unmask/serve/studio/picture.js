/** Images as tokens: one per pixel, or three with colour; MASKED where the model should fill. */

export const MASKED = -1;
const CHEQUER = [[126, 108, 166], [108, 92, 146]];

/** The sizes of a model's images. */
export function sizesOf(model) {
  const [height, width, depth = 1] = model.shape;
  return { height, width, depth, largest: model.vocabulary_size - 1 };
}

/** Draw values on a canvas, one pixel each; `tint` may override the colour of a pixel. */
export function paint(canvas, sizes, values, tint = () => null) {
  const { width, height, depth, largest } = sizes;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    image.data.set([...(tint(pixel) ?? colourOf(values, pixel, sizes)), 255], 4 * pixel);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);

  function colourOf(all, pixel) {
    const hidden = CHEQUER[((pixel % width) + Math.floor(pixel / width)) % 2];
    return [0, 1, 2].map((channel) => {
      const value = all[pixel * depth + (channel % depth)];
      return value === MASKED ? hidden[channel] : Math.round((255 * value) / largest);
    });
  }
}

/** Strokes of a round brush. */
export class Brush {
  constructor(sizes) {
    this.sizes = sizes;
    this.radius = 1.2;
    this.tool = "pen";
    this.ink = [sizes.largest, sizes.largest, sizes.largest];
  }

  /** A stroke from one point to another, in pixels. */
  stroke(values, [fromX, fromY], [toX, toY]) {
    const length = Math.hypot(toX - fromX, toY - fromY), steps = Math.max(1, Math.ceil(length * 2));
    for (let i = 0; i <= steps; i += 1) {
      this.dab(values, fromX + ((toX - fromX) * i) / steps, fromY + ((toY - fromY) * i) / steps);
    }
  }

  dab(values, x, y) {
    const { width, height } = this.sizes, reach = Math.ceil(this.radius + 1);
    for (let row = Math.floor(y) - reach; row <= y + reach; row += 1) {
      for (let column = Math.floor(x) - reach; column <= x + reach; column += 1) {
        if (row < 0 || column < 0 || row >= height || column >= width) continue;
        const cover = Math.min(1, this.radius + 0.5 - Math.hypot(column + 0.5 - x, row + 0.5 - y));
        if (cover > 0.2) this.touch(values, row * width + column, cover);
      }
    }
  }

  /** The pen has a soft edge; eraser and mask change whole pixels. */
  touch(values, pixel, cover) {
    const { depth } = this.sizes;
    for (let channel = 0; channel < depth; channel += 1) {
      const at = pixel * depth + channel;
      if (this.tool === "pen") values[at] = this.blend(values[at], this.ink[channel], cover);
      else if (cover > 0.4) values[at] = this.tool === "mask" ? MASKED : 0;
    }
  }

  blend(before, ink, cover) {
    const under = before === MASKED ? 0 : before;
    const mixed = Math.round(under + (ink - under) * cover);
    return this.sizes.depth === 1 ? Math.max(under, mixed) : mixed;
  }
}

/** Masks by name: whether the pixel (row, column, sizes) is masked; others stay as they are. */
export const MASKS = {
  "Everything": () => true,
  "Lower half": (row, column, { height }) => row >= height / 2,
  "Right half": (row, column, { width }) => column >= width / 2,
};
