// What the panels of an orbit evaluation show, as tables for a file: in full precision, undefined values empty.

import type { DetailData } from "./details/data";
import { nameOf } from "./details/data";
import { imageOf } from "./inputs/image";
import { axisIn, movedFrames, rotated } from "./inputs/moves";
import { windowCorner } from "./inputs/scene";
import type { InputData } from "./inputs/data";
import type { OrbitData } from "./plots/data";
import type { ScatterData } from "./plots/scatter";
import type { Table } from "./save";

const BOX = ["x0", "y0", "x1", "y1", "score", "class"];

function known(value: number | null | undefined): number | null {
  return value === null || value === undefined || Number.isNaN(value) ? null : value;
}

/** One line per element and model: its place, the value, and the band where there is one. */
export function orbitTable({ axes, coordinates, elements, curves, metric }: OrbitData): Table {
  const banded = curves.some(({ low }) => low !== undefined);
  const head = ["model", "element", ...axes.map(({ name }) => name), metric, ...(banded ? ["low", "high"] : [])];
  const lines = curves.flatMap(({ model, values, low, high }) =>
    coordinates.map((at, k) => [model, elements[k], ...at, known(values[k]), ...(banded ? [known(low?.[k]), known(high?.[k])] : [])]),
  );
  return [head, ...lines];
}

/** One line per point: the sample, its place in the plane, and its value. */
export function scatterTable({ points, models, samples, shown, value, valueLabel, label }: ScatterData): Table {
  const lines = Array.from(value, (_, index) => index)
    .filter((index) => shown[index] === 1)
    .map((index) => [models[Math.floor(index / samples)], label(index % samples), known(points[2 * index]), known(points[2 * index + 1]), known(value[index])]);
  return [["model", "sample", "first", "second", valueLabel ?? "value"], ...lines];
}

/** One line per number that a model gives, of its consensus, and of its metrics. */
export function detailTable({ task, classes, models, outputs, consensus, quiver, metrics }: DetailData): Table {
  const named = (index: number): string => {
    if (task === "classification") return nameOf(classes, index);
    return task === "detection" ? `${Math.floor(index / BOX.length)} ${BOX[index % BOX.length]}` : String(index);
  };
  const rows = (what: string, from: Map<string, Float32Array>): Table =>
    models.flatMap(({ name }) => Array.from(from.get(name) ?? [], (value, index) => [name, what, named(index), known(value)]));
  const measured = models.flatMap(({ name }) => Object.entries(metrics.get(name) ?? {}).map(([metric, value]) => [name, "metric", metric, known(value)]));
  return [["model", "what", "name", "value"], ...rows("output", outputs), ...rows("consensus", consensus), ...rows("arrow", quiver), ...measured];
}

/** The moved input, one line per pixel or point. */
export function inputTable(data: InputData): Table {
  const { kind, input, moved, shape, window, plane, at } = data;
  if (!input) return [];
  if (kind === "cloud") return [["x", "y", "z"], ...rows(rotated(input, axisIn(plane ?? "xy", at[0] ?? 0), at[1] ?? 0), 3)];
  if (kind === "pair") return [["frame", "row", "column", "value"], ...movedFrames(input, shape[2], at).flatMap((frame, i) => pixels(frame, [shape[1], shape[2], 1]).map(([row, column, , value]) => [i + 1, row, column, value]))];
  if (kind === "series") return [["channel", "time", "value"], ...Array.from(moved ?? input, (value, index) => [Math.floor(index / shape[1]), index % shape[1], known(value)])];
  const head = ["row", "column", "channel", "value"];
  if (kind === "scene" && window !== null) {
    const [left, top] = windowCorner(shape, window, at);
    const inside = (row: number, column: number): boolean => row >= top && row < top + window && column >= left && column < left + window;
    return [head, ...pixels(input, shape).filter(([row, column]) => inside(row as number, column as number))];
  }
  return [head, ...pixels(imageOf(data) ?? input, shape)];
}

function rows(values: ArrayLike<number>, width: number): Table {
  return Array.from({ length: values.length / width }, (_, row) => Array.from({ length: width }, (_, column) => known(values[row * width + column])));
}

function pixels(values: ArrayLike<number>, [, width, channels]: number[]): Table {
  return Array.from(values, (value, index) => [Math.floor(index / channels / width), Math.floor(index / channels) % width, index % channels, known(value)]);
}
