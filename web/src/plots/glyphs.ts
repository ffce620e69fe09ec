// Small plots of orbits beside their points of a scatter, as many as do not cover each other.

import { el } from "../dom";
import { number } from "../format";
import type { OrbitData } from "./data";
import { orbitPlot, type OrbitPlot } from "./orbit";
import { copyOf } from "./thumbnails";

/** What a point's plot shows: its orbit, and the mean along it. Another object is drawn anew. */
export interface GlyphData {
  orbit(index: number): OrbitData;
  mean(index: number): number;
}

/** The size of one, with the number below. */
export const WIDTH = 54;
export const HEIGHT = 68;
const OFFSET = 9;
const GAP = 3;
const MOST = 30;

/** A place for a plot: its corner, and the point that it belongs to. */
export interface Spot {
  index: number;
  x: number;
  y: number;
  left: number;
  top: number;
}

/** Places beside points in a room from the origin, those that come first before others; one that would cover another is left out. */
export function spotsFor(points: { index: number; x: number; y: number }[], width: number, height: number): Spot[] {
  const found: Spot[] = [];
  for (const { index, x, y } of points) {
    const left = x + OFFSET + WIDTH > width ? x - OFFSET - WIDTH : x + OFFSET;
    const top = Math.min(height - HEIGHT - 1, Math.max(1, y - HEIGHT / 2));
    if (found.length === MOST) break;
    if (left < 1 || found.some((other) => Math.abs(other.left - left) < WIDTH + GAP && Math.abs(other.top - top) < HEIGHT + GAP)) continue;
    found.push({ index, x, y, left, top });
  }
  return found;
}

/** A layer of plots that move with their points. */
export class Glyphs {
  readonly node = el("div", { class: "plot-layer plot-glyphs", "aria-hidden": "true" });
  private data: GlyphData | null = null;
  private picture: ((sample: number) => HTMLCanvasElement) | null = null;
  private readonly shown = new Map<number, { node: HTMLElement; plot: OrbitPlot }>();

  /** Shows plots at these spots; with null, none. */
  update(data: GlyphData | null, spots: Spot[], samples: number, picture: ((sample: number) => HTMLCanvasElement) | null): void {
    if (data !== this.data || picture !== this.picture) this.clear();
    [this.data, this.picture] = [data, picture];
    if (data === null) return;
    const wanted = new Set(spots.map(({ index }) => index));
    for (const [index, { node, plot }] of this.shown) {
      if (wanted.has(index)) continue;
      plot.destroy();
      node.remove();
      this.shown.delete(index);
    }
    for (const { index, left, top } of spots) {
      const { node } = this.shown.get(index) ?? this.make(data, index, samples, picture);
      node.style.transform = `translate(${left}px, ${top}px)`;
    }
  }

  clear(): void {
    for (const { node, plot } of this.shown.values()) {
      plot.destroy();
      node.remove();
    }
    this.shown.clear();
  }

  private make(data: GlyphData, index: number, samples: number, picture: ((sample: number) => HTMLCanvasElement) | null): { node: HTMLElement; plot: OrbitPlot } {
    const orbit = data.orbit(index);
    const host = el("div", { class: "glyph-plot" });
    const mean = el("span", { class: "glyph-mean" }, number(data.mean(index)));
    const node = el("div", { class: "glyph", "data-sample": index % samples, "data-model": orbit.curves[0].model }, host, mean);
    if (picture) node.append(copyOf(picture(index % samples)));
    node.style.borderColor = orbit.curves[0].colour;
    this.node.append(node);
    const plot = orbitPlot(host, "one sample");
    plot.update(orbit);
    const made = { node, plot };
    this.shown.set(index, made);
    return made;
  }
}
