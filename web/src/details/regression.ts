// Outputs that are only numbers: every metric as a bar, one a model.

import { el, svg } from "../dom";
import { number } from "../format";
import { label, type Stage } from "../plots/stage";
import type { DetailData, Detailed } from "./data";

const HEAD = 18;
const BARS = 18;

export function drawRegression(stage: Stage, { models, metrics }: DetailData): Detailed {
  const names = [...new Set([...metrics.values()].flatMap((found) => Object.keys(found)))];
  const values = (name: string): (number | null)[] => models.map((model) => metrics.get(model.name)?.[name] ?? null);
  const said = new Map(models.map(({ name }) => {
    const [first] = Object.entries(metrics.get(name) ?? {});
    return [name, first ? `${first[0]} ${number(first[1])}` : "no output"];
  }));
  if (!stage.begin()) return { said };
  const group = HEAD + BARS * models.length + 8;
  names.forEach((name, place) => {
    const most = Math.max(...values(name).map((value) => Math.abs(value ?? 0)), 1e-12);
    stage.base.append(label("plot-heading", 2, place * group + 12, name.replaceAll("_", " "), "start"));
    values(name).forEach((value, index) => {
      const y = place * group + HEAD + index * BARS;
      const width = ((stage.width - 84) * Math.abs(value ?? 0)) / most;
      stage.base.append(svg("rect", { x: 2, y, width, height: BARS - 4, rx: 2, fill: models[index].colour }));
      stage.base.append(label("plot-tick", width + 8, y + 11, number(value), "start"));
    });
  });
  stage.legend.replaceChildren(el("span", { class: "plot-name" }, "each metric beside its greatest"));
  return { said };
}
