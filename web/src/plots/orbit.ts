// One orbit's plot in the form that suits it, with a cursor that the pointer and the keyboard move at once.

import { mark, svg } from "../dom";
import type { Table } from "../save";
import { orbitTable } from "../tables";
import type { Layout } from "../types";
import type { Drawn, Form, OrbitData } from "./data";
import { drawDisk } from "./disk";
import { keyStep, nearest, samePlace } from "./grid";
import { drawHeatmap } from "./heatmap";
import { legendOn, readoutOf, spoken } from "./legend";
import { drawLine } from "./line";
import { drawPolar } from "./polar";
import { drawSlices } from "./slices";
import { label, Stage } from "./stage";
import { drawTiles } from "./tiles";

export type { Curve, OrbitData } from "./data";
export { keyStep, nearest, placeLabel, samePlace } from "./grid";

export interface OrbitPlot {
  update(data: OrbitData): void;
  /** What is drawn, for a file; null while nothing is. */
  table(): Table | null;
  destroy(): void;
}

const FORMS: Record<Layout, Form> = { polar: drawPolar, heatmap: drawHeatmap, slices: drawSlices, tiles: drawTiles, disk: drawDisk, line: drawLine };

/** A finger that moved no further than this to a side is tapping, or scrolls the page. */
const STILL = 12;
const DRAWN = ["model", "colour", "values", "low", "high"] as const;

/** Whether only the cursor and what is live may differ. */
function sameBase(a: OrbitData, b: OrbitData): boolean {
  const range = (one?: [number, number], other?: [number, number]): boolean => one?.[0] === other?.[0] && one?.[1] === other?.[1];
  return (
    a.layout === b.layout &&
    a.coordinates === b.coordinates &&
    a.metric === b.metric &&
    a.compact === b.compact &&
    range(a.range, b.range) &&
    range(a.tileRange, b.tileRange) &&
    a.tiles?.length === b.tiles?.length &&
    (a.tiles ?? []).every((tile, index) => tile.maps === b.tiles?.[index].maps) &&
    a.curves.length === b.curves.length &&
    a.curves.every((curve, index) => DRAWN.every((part) => curve[part] === b.curves[index][part]))
  );
}

/** A letter on a disk, kept readable over every plot. */
function pinAt(name: string, x: number, y: number, colour: string | null): SVGGElement {
  const disk = svg("circle", { cx: x, cy: y, r: 8 });
  if (colour !== null) disk.style.stroke = colour;
  return svg("g", { class: "plot-pin" }, disk, label("plot-pin-name", x, y + 4, name));
}

/** Draw an orbit into a host, named after `whose` it is. Without `onMove` it is a picture; with it, a slider along the orbit. */
export function orbitPlot(host: HTMLElement, whose: string, onMove?: (at: number[], final: boolean) => void): OrbitPlot {
  const stage = new Stage(host, redraw);
  const legend = legendOn(stage.legend);
  let data: OrbitData | null = null;
  let drawn: Drawn | null = null;
  let held: number | null = null;
  /** Where a finger came down beside the handle: it may still turn out to scroll the page. */
  let touched: { x: number; y: number } | null = null;
  let local: number[] | null = null;

  function redraw(): void {
    drawn = null;
    if (!data) return;
    stage.root.dataset.layout = data.layout;
    if (stage.begin()) drawn = FORMS[data.layout](stage, data);
    moveCursor();
  }

  function cursorOf(shown: OrbitData): number[] | null {
    return local ?? shown.cursor;
  }

  function moveCursor(): void {
    if (!data) return;
    const at = cursorOf(data);
    legend(data, at);
    drawn?.cursor(at, data.curves);
    if (onMove) stage.grip(drawn && at ? drawn.spots(at) : []);
    for (const one of data.marks ?? []) {
      const spots = drawn?.spots(one.at) ?? [];
      const own = one.curve !== undefined && spots.length > 1 ? [spots[one.curve]] : spots;
      for (const [x, y] of own) stage.overlay.append(pinAt(one.name, x, y, one.curve === undefined ? null : data.curves[one.curve].colour));
    }
    mark(stage.root, { "aria-label": `${data.metric} along the orbit of ${whose}` });
    if (!onMove) return;
    mark(stage.root, {
      "aria-valuemax": String(data.coordinates.length - 1),
      "aria-valuenow": String(at ? nearest(data, at) : data.identity),
      "aria-valuetext": at ? spoken(data, at) : "no point chosen",
    });
  }

  function go(at: number[], final: boolean): void {
    const known = data && samePlace(cursorOf(data), at);
    local = at;
    if (!known) moveCursor();
    if (!known || final) onMove?.(at, final);
  }

  function placeOf(event: PointerEvent): { x: number; y: number } {
    const box = stage.body.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function hover(event: PointerEvent): void {
    const { x, y } = placeOf(event);
    if (touched !== null && Math.abs(x - touched.x) < STILL) return;
    touched = null;
    const place = drawn?.locate(x, y, held) ?? null;
    if (held !== null && place) go(place.at, false);
    stage.say(held === null && data && place && !data.compact ? readoutOf(data, nearest(data, place.at)) : null, x, y);
  }

  function press(event: PointerEvent): void {
    const { x, y } = placeOf(event);
    const place = drawn?.locate(x, y, null);
    if (!place || event.button !== 0) return;
    held = place.panel;
    stage.say(null);
    stage.body.setPointerCapture(event.pointerId);
    const grip = event.target instanceof Element && event.target.classList.contains("plot-grip");
    touched = event.pointerType === "touch" && !grip ? { x, y } : null;
    if (touched === null) go(place.at, false);
  }

  function release(event: PointerEvent): void {
    if (held === null) return;
    const tap = touched && event.type === "pointerup" ? drawn?.locate(touched.x, touched.y, held) : null;
    [held, touched] = [null, null];
    if (tap) go(tap.at, true);
    else if (local) go(local, true);
  }

  function key(event: KeyboardEvent): void {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = keyStep(data, cursorOf(data), event.key);
    if (!at) return;
    event.preventDefault();
    event.stopPropagation();
    go(at, !event.repeat);
  }

  stage.body.addEventListener("pointermove", hover);
  stage.body.addEventListener("pointerleave", () => stage.say(null));
  stage.root.setAttribute("role", onMove ? "slider" : "img");
  if (onMove) {
    stage.root.tabIndex = 0;
    stage.root.setAttribute("aria-valuemin", "0");
    stage.root.classList.add("plot-moves");
    stage.body.addEventListener("pointerdown", press);
    stage.body.addEventListener("pointerup", release);
    stage.body.addEventListener("pointercancel", release);
    stage.root.addEventListener("keydown", key);
  }

  return {
    update(next) {
      const before = data;
      data = next;
      if (held === null) local = null;
      if (before && drawn && sameBase(before, next)) return moveCursor();
      stage.say(null); // it was of what was drawn before
      redraw();
    },
    table: () => data && orbitTable(data),
    destroy: () => stage.destroy(),
  };
}
