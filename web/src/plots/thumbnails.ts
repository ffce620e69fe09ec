// Small pictures of samples, made when they are first drawn.

import { pixelCanvas } from "./stage";

export interface Thumbnails {
  size: number;
  channels: number;
  data: Uint8Array;
}

/** Grey or coloured bytes (pixels, channels) as opaque pixels. */
export function bytePixels(bytes: ArrayLike<number>, channels: number, from = 0, count = bytes.length / channels): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(4 * count);
  for (let i = 0; i < count; i++) {
    const at = from + i * channels;
    pixels[4 * i] = bytes[at];
    pixels[4 * i + 1] = bytes[channels >= 3 ? at + 1 : at];
    pixels[4 * i + 2] = bytes[channels >= 3 ? at + 2 : at];
    pixels[4 * i + 3] = 255;
  }
  return pixels;
}

/** A function from a sample to its picture, each made once. */
export function album({ size, channels, data }: Thumbnails): (sample: number) => HTMLCanvasElement {
  const made = new Map<number, HTMLCanvasElement>();
  return (sample) => {
    let picture = made.get(sample);
    if (!picture) {
      picture = pixelCanvas(size, size, bytePixels(data, channels, sample * size * size * channels, size * size));
      made.set(sample, picture);
    }
    return picture;
  };
}

/** The same picture again: a canvas can only stand in one place. */
export function copyOf(image: HTMLCanvasElement): HTMLCanvasElement {
  const copy = pixelCanvas(image.width, image.height);
  copy.getContext("2d")?.drawImage(image, 0, 0);
  return copy;
}
