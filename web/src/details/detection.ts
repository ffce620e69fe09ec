// What every model found in the window: each one's answer for the key object thick, the others thin, and a table of them all.

import { el } from "../dom";
import { number, share } from "../format";
import { fitted, raster } from "../inputs/sheets";
import { imageOf } from "../inputs/image";
import { cropOf } from "../inputs/scene";
import type { Stage } from "../plots/stage";
import { drawBoxes, type Box } from "./boxes";
import { nameOf, type DetailData, type Detailed } from "./data";
import { swatch } from "./words";

const TRUTH = "#f0e442";

type Corners = [number, number, number, number];

/** Rows (n, columns) of an array, those of NaN left out. */
function rowsOf(values: Float32Array | null | undefined, columns: number): number[][] {
  const flat = [...(values ?? [])];
  const found = Array.from({ length: Math.floor(flat.length / columns) }, (_, row) => flat.slice(row * columns, (row + 1) * columns));
  return found.filter(([x0]) => !Number.isNaN(x0));
}

/** A box of the window at the identity as the moved window shows it, cut at its edges; NaN where nothing of it is left. */
function moved([x0, y0, x1, y1]: number[], { at, window, picture }: DetailData): Corners {
  const [dx, dy] = window === null ? [-at[0] || 0, -at[1] || 0] : [Math.round(at[0]), Math.round(at[1])];
  const [height, width] = window === null ? (picture?.shape ?? [Infinity, Infinity]) : [window, window];
  const within = (value: number, most: number): number => Math.min(most, Math.max(0, value));
  const cut: Corners = [within(x0 - dx, width), within(y0 - dy, height), within(x1 - dx, width), within(y1 - dy, height)];
  return cut[2] > cut[0] && cut[3] > cut[1] ? cut : [NaN, NaN, NaN, NaN];
}

/** Intersection over union of two boxes. */
function overlap(a: number[], b: number[]): number {
  const width = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const height = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const area = ([x0, y0, x1, y1]: number[]): number => (x1 - x0) * (y1 - y0);
  return (width * height) / (area(a) + area(b) - width * height);
}

/** The most confident of some detections of a class. */
function bestOf(rows: number[][], kind: number | undefined): number[] | undefined {
  return rows.filter((row) => kind === undefined || row[5] === kind).reduce<number[] | undefined>((best, row) => (best && best[4] >= row[4] ? best : row), undefined);
}

export function drawDetection(stage: Stage, data: DetailData): Detailed {
  const { classes, models, outputs, consensus, picture } = data;
  const truth = rowsOf(data.truth, 5);
  const key = truth.length ? moved(truth[0], data) : null;
  const found = models.map((model) => {
    const [rows, means] = [rowsOf(outputs.get(model.name), 6), rowsOf(consensus.get(model.name), 6)];
    const kind = truth[0]?.[4] ?? means[0]?.[5];
    return { model, rows, means, kind, best: bestOf(rows, kind) };
  });
  const bytes = picture && picture.kind === "image" ? imageOf(picture) : null;
  const shown = bytes && picture ? raster(bytes, picture.shape) : picture && cropOf({ ...picture, at: data.at });
  if (stage.begin() && shown) drawBoxes(stage, boxes(), fitted(stage, shown, { x: 1, y: 1, width: stage.width - 2, height: stage.height - 2 }));
  legend();

  function boxes(): Box[] {
    const own = found.flatMap(({ model: { colour }, rows, means, best }): Box[] => [
      ...rows.map((row): Box => ({ corners: clipped(row, shown), colour, kind: row === best ? "best" : "other" })),
      ...means.map((row): Box => ({ corners: moved(row, data), colour, kind: "consensus" })),
    ]);
    return [...own, ...truth.map((row, index): Box => ({ corners: moved(row, data), colour: TRUTH, kind: index ? "object" : "key" }))];
  }

  function legend(): void {
    const entries = ["thick: best of the key class", "thin: other detections"].map((words) => el("span", { class: "plot-name" }, words));
    if (consensus.size) entries.push(el("span", { class: "plot-name" }, "dashed: consensus"));
    if (truth.length) entries.unshift(el("span", { class: "plot-entry plot-name" }, swatch(TRUTH), `truth: ${nameOf(classes, truth[0][4])}`));
    stage.legend.replaceChildren(...entries);
  }

  const iou = (row: number[]): string => (key ? number(overlap(row, key)) : "–");
  const cells = (row: number[]): string[] => [nameOf(classes, row[5]), share(row[4]), iou(row), ...row.slice(0, 4).map((value) => value.toFixed(0))];
  const table = interleaved(found.map(({ model, rows, best }) => [...rows].sort((a, b) => Number(b === best) - Number(a === best)).map((row) => ({ model, cells: cells(row) }))));
  const named = (row: number[]): string => `${nameOf(classes, row[5])} (${share(row[4])})`;
  const said = new Map(found.map(({ model, rows: [first], best, kind }) => {
    if (best) return [model.name, `${named(best)}${key ? `, IoU ${iou(best)}` : ""}`];
    return [model.name, first ? `no ${nameOf(classes, kind ?? NaN)}, but ${named(first)}` : "nothing found"];
  }));
  return { said, table: { heads: ["class", "confidence", "IoU", "left (px)", "top", "right", "bottom"], rows: table } };
}

/** The first of every list, then the second ones, and so on. */
function interleaved<T>(lists: T[][]): T[] {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, place) => lists.flatMap((list) => list.slice(place, place + 1))).flat();
}

/** A box without what lies outside of the picture. */
function clipped([x0, y0, x1, y1]: number[], picture: HTMLCanvasElement | null): number[] {
  const within = (value: number, most = Infinity): number => Math.min(most, Math.max(0, value));
  return [within(x0, picture?.width), within(y0, picture?.height), within(x1, picture?.width), within(y1, picture?.height)];
}
