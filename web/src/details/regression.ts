// Outputs that are only numbers: every model's as dots beside the truth and its consensus, one row a number.

import { axisTop } from "d3-axis";
import { extent } from "d3-array";
import { scaleLinear } from "d3-scale";
import { el, svg } from "../dom";
import { count, number } from "../format";
import { label, ruler, type Stage } from "../plots/stage";
import type { DetailData, Detailed, Table } from "./data";

const TOP = 30;
const LEFT = 34;
const MOST = 12;
const SAID = 3;

export function drawRegression(stage: Stage, data: DetailData): Detailed {
  const { models, outputs, truth, consensus, moves } = data;
  const size = Math.max(0, ...[...outputs.values()].map((values) => values.length));
  const shown = Math.min(size, MOST);
  const detailed = { said: new Map(models.map(({ name }) => [name, inWords(outputs.get(name))])), table: tableOf(data, shown, stage.theme.muted) };
  if (!stage.begin()) return detailed;
  if (shown === 0) stage.base.append(label("plot-label", stage.width / 2, stage.height / 2, "The run did not keep outputs of this size."));
  const known = [...outputs.values(), ...consensus.values(), truth ?? []].flatMap((values) => [...values.slice(0, shown)]);
  const [low = 0, high = 1] = extent(known.filter(Number.isFinite));
  const x = scaleLinear(low < high ? [low, high] : [low - 1, low + 1], [LEFT + 8, stage.width - 18]).nice();
  const row = Math.min(34, (stage.height - TOP) / Math.max(1, shown));
  if (shown > 0) stage.base.append(ruler(axisTop<number>(x).ticks(4).tickSize(3), 0, TOP), label("plot-label", (LEFT + stage.width) / 2, 10, "output"));
  for (let index = 0; index < shown; index++) line(index, TOP + (index + 0.5) * row);
  legend();

  function line(index: number, y: number): void {
    stage.base.append(svg("line", { class: "plot-grid", x1: LEFT, x2: stage.width - 6, y1: y, y2: y }), label("plot-tick", LEFT - 6, y + 4, String(index + 1), "end"));
    const real = truth?.[index] ?? NaN;
    if (!Number.isNaN(real)) stage.base.append(svg("line", { class: "detail-truth", x1: x(real), x2: x(real), y1: y - row / 2 + 1, y2: y + row / 2 - 1 }));
    models.forEach(({ name, colour }, order) => {
      const cy = y + ((order + 0.5) / models.length - 0.5) * Math.min(row - 6, 7 * models.length);
      const [own, mean] = [outputs.get(name)?.[index] ?? NaN, consensus.get(name)?.[index] ?? NaN];
      if (!Number.isNaN(mean)) stage.base.append(svg("circle", { class: "detail-mean", cx: x(mean), cy, r: 5, stroke: colour }));
      if (!Number.isNaN(own)) stage.base.append(svg("circle", { cx: x(own), cy, r: 3, fill: colour }));
    });
  }

  function legend(): void {
    const words = [
      ...(truth ? ["line: truth"] : []),
      ...(consensus.size ? ["ring: consensus"] : moves ? ["consensus: at the identity alone, since outputs move along"] : []),
      ...(shown < size ? [`first ${shown} of ${count(size, "number")}`] : []),
    ];
    stage.legend.replaceChildren(...words.map((text) => el("span", { class: "plot-name" }, text)));
  }

  return detailed;
}

/** The first numbers of an output. */
function inWords(values: Float32Array | undefined): string {
  if (!values?.length) return "no output";
  return [...[...values.slice(0, SAID)].map((value) => number(value)), ...(values.length > SAID ? ["…"] : [])].join(", ");
}

/** The numbers that are drawn: the truth's, then every model's own and its consensus. */
function tableOf({ models, outputs, truth, consensus }: DetailData, shown: number, ink: string): Table {
  const cells = (what: string, values: Float32Array): string[] => [what, ...Array.from({ length: shown }, (_, index) => number(values[index]))];
  const rows = models.flatMap((model) => [
    ...(outputs.has(model.name) ? [{ model, cells: cells("output", outputs.get(model.name)!) }] : []),
    ...(consensus.has(model.name) ? [{ model, cells: cells("consensus", consensus.get(model.name)!) }] : []),
  ]);
  const real = truth ? [{ model: { name: "truth", colour: ink }, cells: cells("", truth) }] : [];
  return { heads: ["", ...Array.from({ length: shown }, (_, index) => String(index + 1))], rows: shown > 0 ? [...real, ...rows] : [] };
}
