// An embedding's points on the screen: where they lie, which is near, which are inside an outline.

import { polygonContains } from "d3-polygon";
import type { ZoomTransform } from "d3-zoom";

const MARGIN = 16;

/** Least and greatest of one coordinate over the defined points. */
function reach(points: Float32Array, coordinate: number): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (let i = coordinate; i < points.length; i += 2) {
    if (points[i] < low) low = points[i];
    if (points[i] > high) high = points[i];
  }
  if (low < high) return [low, high];
  return low === high ? [low - 1, low + 1] : [0, 1];
}

/** Points (n, 2) in pixels of a room, before any zoom; the second coordinate goes up, and undefined points stay undefined. */
export function placed(points: Float32Array, width: number, height: number): Float32Array {
  const [[left, right], [low, high]] = [reach(points, 0), reach(points, 1)];
  const places = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 2) {
    places[i] = MARGIN + ((points[i] - left) / (right - left)) * (width - 2 * MARGIN);
    places[i + 1] = height - MARGIN - ((points[i + 1] - low) / (high - low)) * (height - 2 * MARGIN);
  }
  return places;
}

/** The shown points inside a rectangle from the origin, those of one sample one after the other. */
export function visible(places: Float32Array, shown: Uint8Array, samples: number, view: ZoomTransform, width: number, height: number): number[] {
  const seen: number[] = [];
  for (let sample = 0; sample < samples; sample++) {
    for (let index = sample; index < shown.length; index += samples) {
      const [x, y] = [view.applyX(places[2 * index]), view.applyY(places[2 * index + 1])];
      if (shown[index] && x >= 0 && y >= 0 && x <= width && y <= height) seen.push(index);
    }
  }
  return seen;
}

/** The shown point nearest to a place, or -1 where none is as near as `most` pixels: a plain search, quicker than keeping an index. */
export function pointNear(places: Float32Array, shown: Uint8Array, view: ZoomTransform, x: number, y: number, most: number): number {
  let best = -1;
  let least = most * most;
  for (let index = 0; index < shown.length; index++) {
    const far = (view.applyX(places[2 * index]) - x) ** 2 + (view.applyY(places[2 * index + 1]) - y) ** 2;
    if (far < least && shown[index]) [best, least] = [index, far];
  }
  return best;
}

/** The samples, in their order, of which a shown point lies inside an outline of the screen. */
export function samplesWithin(outline: [number, number][], places: Float32Array, shown: Uint8Array, samples: number, view: ZoomTransform): number[] {
  const found = new Set<number>();
  const ring = outline.map((corner) => view.invert(corner));
  for (let index = 0; index < shown.length; index++) {
    if (shown[index] && polygonContains(ring, [places[2 * index], places[2 * index + 1]])) found.add(index % samples);
  }
  return [...found].sort((a, b) => a - b);
}
