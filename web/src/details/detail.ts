// What every model gives at the chosen point: one line of words each, the task's own drawing, and numbers below.

import { el, keep } from "../dom";
import { Stage } from "../plots/stage";
import type { Table } from "../save";
import { detailTable } from "../tables";
import { drawClassification } from "./classification";
import { metricTable, type DetailData, type Detailed } from "./data";
import { drawDetection } from "./detection";
import { drawFlow } from "./flow";
import { drawRegression } from "./regression";
import { predictionsOn, tableOn } from "./words";
import "./details.css";

export type { DetailData } from "./data";

export interface DetailView {
  update(data: DetailData): void;
  table(): Table | null;
  destroy(): void;
}

const TASKS: Record<string, (stage: Stage, data: DetailData) => Detailed> = {
  classification: drawClassification,
  detection: drawDetection,
  flow: drawFlow,
  regression: drawRegression,
};

const WAITING = "no answer yet …";

export function detailView(host: HTMLElement): DetailView {
  const lines = el("div", { class: "detail-predictions", "aria-live": "polite" });
  const room = el("div", { class: "detail-stage" });
  const [own, numbers] = [el("div", { class: "detail-numbers detail-own" }), el("div", { class: "detail-numbers" })];
  const parts = el("div", { class: "detail" }, lines, room, own, numbers);
  const root = el("div", { class: "detail-room", tabindex: 0 }, parts);
  host.append(root);
  const stage = new Stage(room, redraw);
  const [predictions, table, metrics] = [predictionsOn(lines), tableOn(own), tableOn(numbers)];
  let data: DetailData | null = null;

  function redraw(): void {
    if (!data) return;
    keep(parts.dataset, { task: data.task });
    const detailed = TASKS[data.task](stage, data);
    predictions(data.models, new Map([...detailed.said, ...[...data.waiting].map((name) => [name, WAITING] as const)]));
    table(detailed.table);
    metrics(metricTable(data));
  }

  return {
    update(next) {
      data = next;
      redraw();
    },
    table: () => data && detailTable(data),
    destroy() {
      stage.destroy();
      root.remove();
    },
  };
}
