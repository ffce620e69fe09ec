// Where a plot is drawn: a legend above, a canvas for pixels, an SVG over it for lines and text, another for the cursor alone, so that
// moving it lays no words out anew, a read-out at the pointer.

import type { Axis as Ticks } from "d3-axis";
import { select } from "d3-selection";
import { onTheme, themeOf, type Theme } from "../colour";
import { el, keep, svg } from "../dom";
import "./drawing.css";
import "./marks.css";

let stages = 0;

/** A canvas of that many pixels, off the page. */
export function pixelCanvas(width: number, height: number, pixels?: Uint8ClampedArray<ArrayBuffer>): HTMLCanvasElement {
  const canvas = el("canvas", { width, height });
  if (pixels && width > 0 && height > 0) canvas.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

/** A line of text at a place, by default in the middle of it. */
export function label(kind: string, x: number, y: number, words: string, anchor = "middle"): SVGTextElement {
  return svg("text", { class: kind, x, y, "text-anchor": anchor }, words);
}

/** An axis with its ticks at a place. */
export function ruler(axis: Ticks<number>, x: number, y: number): SVGGElement {
  const group = svg("g", { class: "plot-axis", transform: `translate(${x}, ${y})` });
  select(group).call(axis);
  return group;
}

/** The mark of the identity. */
export function identityMark(x: number, y: number, size = 5): SVGPathElement {
  return svg("path", { class: "plot-identity", d: `M${x - size},${y}L${x},${y - size}L${x + size},${y}L${x},${y + size}Z` });
}

/** A tile of stripes for what is undefined. */
function hatching(theme: Theme): HTMLCanvasElement {
  const tile = pixelCanvas(6, 6);
  const brush = tile.getContext("2d") as CanvasRenderingContext2D;
  brush.fillStyle = theme.grid;
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = theme.gap;
  brush.lineWidth = 1.5;
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift - 1, 7);
    brush.lineTo(shift + 7, -1);
  }
  brush.stroke();
  return tile;
}

export class Stage {
  readonly legend = el("div", { class: "plot-legend" });
  readonly readout = el("div", { class: "plot-readout", hidden: true });
  readonly canvas = el("canvas", { class: "plot-layer" });
  readonly context = this.canvas.getContext("2d") as CanvasRenderingContext2D;
  readonly base = svg("g");
  readonly overlay = svg("g");
  /** Where fingers take hold of what moves: there a swipe does not scroll the page. */
  private readonly grips: HTMLElement[] = [];
  readonly layers = [svg("svg", { class: "plot-layer" }, this.base), svg("svg", { class: "plot-layer" }, this.overlay)];
  readonly body = el("div", { class: "plot-body" }, this.canvas, ...this.layers.map((layer) => el("div", { class: "plot-layer plot-apart" }, layer)), this.readout);
  readonly root = el("div", { class: "plot" }, this.legend, this.body);
  /** Paint for what is undefined, in SVG. */
  readonly hatch: string;
  width = 0;
  height = 0;
  theme: Theme;
  /** Whether the lines and words drawn last still stand. */
  kept = false;
  private key = "";
  private pattern: CanvasPattern | string = "";
  private readonly stops: (() => void)[];

  constructor(host: HTMLElement, redraw: () => void) {
    const id = `plot-hatch-${++stages}`;
    const size = { width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    const lines = svg("pattern", { id, class: "plot-hatch", ...size }, svg("rect", { width: 2, height: 6 }));
    this.hatch = `url(#${id})`;
    this.layers[0].prepend(svg("defs", {}, lines));
    host.append(this.root);
    this.theme = this.measure();
    const again = (): void => {
      this.theme = this.measure();
      redraw();
    };
    const observer = new ResizeObserver(again);
    observer.observe(this.body);
    this.stops = [() => observer.disconnect(), onTheme(again)];
  }

  /**
   * Clear the room there is; false where there is none to draw in. Lines and words stay if they were drawn for the same key.
   * What the room measures is known: asking the page for it at every drawing would lay it out every time.
   */
  begin(key = ""): boolean {
    this.context.clearRect(0, 0, this.width, this.height);
    this.kept = key !== "" && key === this.key;
    this.key = key;
    if (!this.kept) this.base.replaceChildren();
    this.overlay.replaceChildren();
    return this.width > 20 && this.height > 20;
  }

  private measure(): Theme {
    const theme = themeOf(this.root);
    this.width = this.body.clientWidth;
    this.height = this.body.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const layer of this.layers) layer.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.key = "";
    this.pattern = this.context.createPattern(hatching(theme), "repeat") ?? theme.gap;
    return theme;
  }

  /** Hatch a rectangle of the canvas: what shows through is undefined. */
  hatched(x: number, y: number, width: number, height: number): void {
    this.context.fillStyle = this.pattern;
    this.context.fillRect(x, y, width, height);
  }

  /** Show lines beside the pointer, kept inside the stage; null hides them. */
  say(lines: (string | Node)[] | null, x = 0, y = 0): void {
    keep(this.readout, { hidden: lines === null });
    if (lines === null) return;
    this.readout.replaceChildren(...lines.map((line) => (typeof line === "string" ? el("div", {}, line) : line)));
    const left = x + 14 + this.readout.offsetWidth > this.width ? x - 14 - this.readout.offsetWidth : x + 14;
    const top = Math.min(y + 12, this.height - this.readout.offsetHeight);
    this.readout.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  }

  /** Puts grips at places. */
  grip(spots: [number, number][]): void {
    while (this.grips.length > spots.length) this.grips.pop()?.remove();
    while (this.grips.length < spots.length) {
      this.grips.push(el("div", { class: "plot-grip" }));
      this.readout.before(this.grips[this.grips.length - 1]);
    }
    spots.forEach(([x, y], i) => keep(this.grips[i].style, { left: `${x.toFixed(1)}px`, top: `${y.toFixed(1)}px` }));
  }

  destroy(): void {
    for (const stop of this.stops) stop();
    this.root.remove();
  }
}
