// Every sample's orbit as a point of a joint embedding: click one, draw a lasso around many, zoom in to see pictures.

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { fractionOf } from "../colour";
import { el, svg } from "../dom";
import { number } from "../format";
import type { Table } from "../save";
import { scatterTable } from "../tables";
import { placed, pointNear, samplesWithin, visible } from "./embedding";
import { Glyphs, HEIGHT, spotsFor, WIDTH, type GlyphData } from "./glyphs";
import { BAR, caption, CAPTION, colourBar } from "./panels";
import { paintDots, shapePath } from "./points";
import { Stage } from "./stage";
import { album, copyOf, type Thumbnails } from "./thumbnails";

/** Points (models, samples, 2), values and `shown` (models, samples). Arrays are compared by identity. */
export interface ScatterData {
  /** What the points are made from: another one is shown as a whole again. */
  embedding: Float32Array;
  points: Float32Array;
  /** What is said in place of the names of the axes, where these mean nothing. */
  axes: string | null;
  models: string[];
  colours: string[];
  samples: number;
  shown: Uint8Array;
  value: Float32Array;
  valueRange: [number, number];
  valueLabel?: string;
  selected: number;
  lasso: Set<number> | null;
  thumbnails: Thumbnails | null;
  /** Small plots beside the points, in place of pictures; null for none. */
  glyphs: GlyphData | null;
  label(sample: number): string;
}

export interface Scatter {
  update(data: ScatterData): void;
  table(): Table | null;
  destroy(): void;
}

const NEAR = 14;
const BELOW = BAR + CAPTION;
const FEW = 60;
const SIDE = 28;
const HELP = "Click: choose a point. Drag: draw a lasso (with a finger, begin sideways). Ctrl and wheel, or pinch: zoom. Shift and drag: move. Double click: show all again.";
/** A turn of the wheel zooms by no more than this power of two. */
const NOTCH = 0.5;
const ARRAYS = ["points", "shown", "value", "lasso", "thumbnails", "valueLabel", "glyphs", "axes"] as const;

function samePoints(a: ScatterData, b: ScatterData): boolean {
  const range = a.valueRange[0] === b.valueRange[0] && a.valueRange[1] === b.valueRange[1];
  return range && ARRAYS.every((key) => a[key] === b[key]) && a.models.join("\n") === b.models.join("\n");
}

export function scatter(host: HTMLElement, on: { pick(sample: number, model: number): void; lasso(samples: number[] | null): void }): Scatter {
  const stage = new Stage(host, redraw);
  const glyphs = new Glyphs();
  stage.readout.before(glyphs.node);
  let data: ScatterData | null = null;
  let places: Float32Array = new Float32Array();
  let view: ZoomTransform = zoomIdentity;
  let picture: ((sample: number) => HTMLCanvasElement) | null = null;
  let outline: [number, number][] | null = null;
  let waiting = 0;
  const zooming = zoom<HTMLDivElement, unknown>()
    .scaleExtent([1, 80])
    .filter((event: MouseEvent | WheelEvent | TouchEvent) => {
      if (event.type === "wheel") return event.ctrlKey || event.metaKey;
      return "touches" in event ? event.touches.length > 1 : event.shiftKey;
    })
    .wheelDelta((event: WheelEvent) => Math.max(-NOTCH, Math.min(NOTCH, -event.deltaY * (event.deltaMode === 1 ? 0.5 : 0.02))))
    .on("zoom", ({ transform }: { transform: ZoomTransform }) => {
      view = transform;
      waiting ||= requestAnimationFrame(redraw);
    });

  function spot(index: number): [number, number] {
    return view.apply([places[2 * index], places[2 * index + 1]]);
  }

  function redraw(): void {
    cancelAnimationFrame(waiting);
    waiting = 0;
    if (!data) return;
    legend(data);
    if (!stage.begin()) return;
    const [width, height] = [stage.width, stage.height - BELOW];
    places = placed(data.points, width, height);
    zooming.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
    const seen = visible(places, data.shown, data.samples, view, width, height);
    paint(data, seen);
    plots(data, seen);
    stage.base.append(svg("rect", { class: "plot-rim", x: 0.5, y: 0.5, width: width - 1, height: height - 1 }));
    if (data.axes === null) caption(stage, "embedding: first coordinate →, second coordinate ↑", "first coordinate →, second ↑");
    else caption(stage, data.axes, data.axes.split(";")[0]);
    colourBar(stage, data.valueRange, data.valueLabel ?? "value");
    mark();
  }

  function paint({ samples, lasso, colours, value, valueRange }: ScatterData, seen: number[]): void {
    const dots = seen.map((index) => {
      const [x, y] = spot(index);
      const faint = lasso !== null && !lasso.has(index % samples);
      return { x, y, model: Math.floor(index / samples), fraction: fractionOf(value[index], valueRange), faint };
    });
    paintDots(stage.context, dots, colours, stage.width, stage.height - BELOW, stage.theme);
    if (data?.glyphs) return;
    if (picture && seen.length <= FEW) portraits(picture, seen.map((index) => ({ sample: index % samples, place: spot(index) })));
  }

  /** Small plots beside their points, those of the chosen sample first. */
  function plots({ samples, selected, lasso, glyphs: drawn }: ScatterData, seen: number[]): void {
    const known = lasso === null ? seen : seen.filter((index) => lasso.has(index % samples));
    const order = drawn ? [...known.filter((index) => index % samples === selected), ...known.filter((index) => index % samples !== selected)] : [];
    const points = order.map((index) => ({ index, x: spot(index)[0], y: spot(index)[1] }));
    const spots = spotsFor(points, stage.width, stage.height - BELOW);
    for (const { x, y, left, top } of spots) {
      const [x2, y2] = [left > x ? left : left + WIDTH, Math.min(top + HEIGHT, Math.max(top, y))];
      stage.base.append(svg("line", { class: "plot-rim", x1: x, y1: y, x2, y2 }));
    }
    glyphs.update(drawn, spots, samples, picture);
  }

  /** Pictures beside their points, as far as they do not cover each other. */
  function portraits(pictureOf: (sample: number) => HTMLCanvasElement, points: { sample: number; place: [number, number] }[]): void {
    const taken: [number, number][] = [];
    for (const { sample, place: [x, y] } of points) {
      const [left, top] = [x + 6 + SIDE > stage.width ? x - 6 - SIDE : x + 6, Math.max(1, y - SIDE - 4)];
      if (taken.some(([tx, ty]) => Math.abs(tx - left) < SIDE && Math.abs(ty - top) < SIDE)) continue;
      taken.push([left, top]);
      stage.context.imageSmoothingEnabled = false;
      stage.context.drawImage(pictureOf(sample), left, top, SIDE, SIDE);
      stage.context.strokeStyle = stage.theme.gap;
      stage.context.strokeRect(left, top, SIDE, SIDE);
    }
  }

  function legend({ models, colours, value }: ScatterData): void {
    const entries = models.map((model, index) => {
      const shape = { d: shapePath(index, 9), transform: "translate(6, 6)", stroke: colours[index], fill: "none", "stroke-width": 1.6 };
      return el("span", { class: "plot-entry plot-name" }, svg("svg", { width: 12, height: 12 }, svg("path", shape)), model);
    });
    const grey = el("span", { class: "plot-mark plot-grey" });
    if (value.some(Number.isNaN)) entries.push(el("span", { class: "plot-entry plot-name" }, grey, "undefined"));
    stage.legend.replaceChildren(...entries, el("span", { class: "plot-hint", title: HELP }, "drag: lasso · Ctrl + wheel or pinch: zoom"));
  }

  /** The chosen sample in every model, joined by a line, and the lasso while it is drawn. */
  function mark(): void {
    stage.overlay.replaceChildren();
    if (!data) return;
    const { selected, samples, shown } = data;
    const all = selected < 0 ? [] : data.models.map((_, model) => model * samples + selected);
    const spots = all.filter((index) => shown[index] && !Number.isNaN(places[2 * index])).map(spot);
    stage.overlay.append(svg("polyline", { class: "plot-cursor plot-faint plot-open", points: spots.join(" ") }));
    for (const [cx, cy] of spots) {
      stage.overlay.append(svg("circle", { class: "plot-cell-under", cx, cy, r: 8 }), svg("circle", { class: "plot-cell", cx, cy, r: 8 }));
    }
    if (outline) stage.overlay.append(svg("polygon", { class: "plot-lasso", points: outline.join(" ") }));
  }

  function placeOf(event: PointerEvent): [number, number] {
    const box = stage.body.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function hover(event: PointerEvent): void {
    const [x, y] = placeOf(event);
    if (outline) {
      outline.push([x, y]);
      mark();
    }
    const index = data && !outline ? pointNear(places, data.shown, view, x, y, NEAR) : -1;
    if (!data || index < 0) return stage.say(null);
    const [sample, model] = [index % data.samples, Math.floor(index / data.samples)];
    const words = [el("strong", {}, data.label(sample)), `${data.models[model]}: ${number(data.value[index])}`];
    stage.say(picture ? [copyOf(picture(sample)), ...words] : words, x, y);
  }

  function press(event: PointerEvent): void {
    if (event.button !== 0 || event.shiftKey) return;
    if (!event.isPrimary) return cancel();
    stage.body.setPointerCapture(event.pointerId);
    outline = [placeOf(event)];
  }

  function release(event: PointerEvent): void {
    if (!outline || !data) return;
    const drawn = outline;
    outline = null;
    mark();
    const far = Math.max(...drawn.map(([x, y]) => Math.hypot(x - drawn[0][0], y - drawn[0][1])));
    if (far > 5) {
      const samples = samplesWithin(drawn, places, data.shown, data.samples, view);
      return on.lasso(samples.length ? samples : null);
    }
    const index = pointNear(places, data.shown, view, ...placeOf(event), NEAR);
    if (index >= 0) on.pick(index % data.samples, Math.floor(index / data.samples));
    else if (data.lasso) on.lasso(null);
  }

  function cancel(): void {
    outline = null;
    mark();
  }

  stage.root.classList.add("plot-moves");
  stage.root.setAttribute("role", "img");
  stage.root.setAttribute("aria-label", "Samples by the shape of their orbits; the rank slider steps through them");
  stage.body.addEventListener("pointermove", hover);
  stage.body.addEventListener("pointerleave", () => stage.say(null));
  stage.body.addEventListener("pointerdown", press);
  stage.body.addEventListener("pointerup", release);
  stage.body.addEventListener("pointercancel", cancel);
  const body = select<HTMLDivElement, unknown>(stage.body);
  body.call(zooming).on("dblclick.zoom", () => body.call(zooming.transform, zoomIdentity));

  return {
    update(next) {
      const before = data;
      data = next;
      if (before?.thumbnails !== next.thumbnails) picture = next.thumbnails ? album(next.thumbnails) : null;
      if (before && before.embedding !== next.embedding) body.call(zooming.transform, zoomIdentity);
      const moved = next.glyphs !== null && before?.selected !== next.selected;
      if (before && samePoints(before, next) && !moved) mark();
      else redraw();
    },
    table: () => data && scatterTable(data),
    destroy() {
      cancelAnimationFrame(waiting);
      glyphs.clear();
      stage.destroy();
    },
  };
}
