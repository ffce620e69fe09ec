// The probability of every class, one bar per model, with the true class marked.

import { axisTop } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { el } from "../dom";
import { chance, percent } from "../format";
import { label, ruler, type Stage } from "../plots/stage";
import { nameOf, type DetailData, type Detailed } from "./data";

const TOP = 30;
// Of many classes, those with less than this probability are left out, except for the first few.
const LEAST = 0.005;
const FEWEST = 5;

/** The number of the largest entry, or -1 where none is defined. */
function greatest(values: Float32Array = new Float32Array()): number {
  return values.reduce((best, value, index) => (value > (values[best] ?? -Infinity) ? index : best), -1);
}

/** All classes if there is room for them; else the most probable ones of the models and their consensus, and the true one, in their order. */
function chosen({ outputs, consensus, rows, trueClass: truth }: DetailData, most: number): number[] {
  const all = Array.from({ length: rows }, (_, index) => index);
  if (rows <= most) return all;
  const known = [...outputs.values(), ...consensus.values()];
  const weights = all.map((index) => (index === truth ? 2 : Math.max(0, ...known.map((values) => values[index] || 0))));
  const first = all.sort((a, b) => weights[b] - weights[a]).slice(0, most);
  return first.filter((index, place) => place < FEWEST || weights[index] >= LEAST).sort((a, b) => a - b);
}

export function drawClassification(stage: Stage, data: DetailData): Detailed {
  const { classes, models, outputs, consensus, rows, trueClass: truth } = data;
  const said = new Map(models.map(({ name }) => {
    const best = greatest(outputs.get(name));
    return [name, best < 0 ? "no output" : `${nameOf(classes, best)} (${chance(outputs.get(name)?.[best])})`];
  }));
  const shown = chosen(data, Math.max(3, Math.floor((stage.height - TOP) / (4 * models.length + 6))));
  const names = shown.map((index) => nameOf(classes, index));
  const left = Math.min(0.4 * stage.width, 22 + 7 * Math.max(...names.map((name) => name.length), 1));
  const x = scaleLinear([0, 1], [left, stage.width - 18]).clamp(true);
  const row = Math.min(14 + 18 * models.length, (stage.height - TOP) / Math.max(1, shown.length));
  const bar = Math.max(1.5, (row - 4) / models.length);
  if (!stage.begin(JSON.stringify([names, truth, shown.indexOf(truth ?? -1), models.length, consensus.size]))) return { said };
  if (!stage.kept) {
    stage.base.append(ruler(axisTop<number>(x).ticks(4).tickFormat(percent).tickSize(3), 0, TOP), label("plot-label", (left + stage.width) / 2, 10, "probability"));
    names.forEach(named);
    marks();
  }
  ground();
  shown.forEach((index, place) => models.forEach((model, order) => bars(model, index, TOP + place * row + 2 + order * bar)));

  /** The true class's row and the grid, behind the bars. */
  function ground(): void {
    const place = shown.indexOf(truth ?? -1);
    stage.context.fillStyle = stage.theme.grid;
    for (const tick of x.ticks(4)) stage.context.fillRect(x(tick) - 0.5, TOP, 1, row * shown.length);
    stage.context.globalAlpha = 0.7;
    if (place >= 0) stage.context.fillRect(0, TOP + place * row + 1, stage.width, row - 2);
    stage.context.globalAlpha = 1;
  }

  function named(name: string, place: number): void {
    const most = Math.floor((left - 20) / 6.6);
    const words = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    const y = TOP + place * row;
    const right = shown[place] === truth;
    stage.base.append(label(right ? "plot-heading" : "plot-tick", left - 6, y + row / 2 + 4, right ? `▸ ${words}` : words, "end"));
  }

  function bars({ name, colour }: { name: string; colour: string }, index: number, y: number): void {
    const value = outputs.get(name)?.[index] ?? NaN;
    if (Number.isNaN(value)) return;
    stage.context.fillStyle = colour;
    stage.context.fillRect(left, y, x(value) - left, Math.max(1, bar - 1));
    const mean = consensus.get(name)?.[index] ?? NaN;
    stage.context.fillStyle = stage.theme.ink;
    if (!Number.isNaN(mean)) stage.context.fillRect(x(mean) - 0.75, y, 1.5, Math.max(1, bar - 1));
  }

  function marks(): void {
    const entries = truth === null ? [] : [el("span", { class: "plot-name" }, "▸ true class")];
    if (consensus.size) entries.push(el("span", { class: "plot-entry plot-name" }, el("span", { class: "plot-mark detail-tick" }), "consensus"));
    if (shown.length < rows) entries.push(el("span", { class: "plot-name" }, `${shown.length} of ${rows} classes`));
    stage.legend.replaceChildren(...entries);
  }

  return { said };
}
