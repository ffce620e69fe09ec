// The input under the transform, in the form that suits it.

import { el } from "../dom";
import { Stage } from "../plots/stage";
import type { Table } from "../save";
import { inputTable } from "../tables";
import { cloudDrawer } from "./cloud";
import type { InputData } from "./data";
import { drawImage } from "./image";
import { pairDrawer } from "./pair";
import { drawScene } from "./scene";
import { drawSeries } from "./series";
import "./inputs.css";

export type { Attribution, InputData } from "./data";

export interface InputView {
  update(data: InputData): void;
  table(): Table | null;
  destroy(): void;
}

/** How inputs of a kind are drawn on a stage, and how to stop what goes on by itself. */
function drawerOf(kind: string, stage: Stage, again: () => void): [(data: InputData) => void, () => void] {
  const still = (draw: (stage: Stage, data: InputData) => void): [(data: InputData) => void, () => void] => [(data) => draw(stage, data), () => {}];
  if (kind === "pair") return pairDrawer(stage, again);
  if (kind === "cloud") return [cloudDrawer(stage, again), () => {}];
  if (kind === "scene") return still(drawScene);
  if (kind === "series") return still(drawSeries);
  return still(drawImage);
}

export function inputView(host: HTMLElement): InputView {
  let data: InputData | null = null;
  let stage: Stage | null = null;
  let draw: (data: InputData) => void = () => {};
  let stop: () => void = () => {};
  const empty = el("p", { class: "plot-empty" });

  function redraw(): void {
    if (data && stage?.begin()) draw(data);
  }

  function clear(): void {
    stop();
    stage?.destroy();
    stage = null;
    empty.remove();
  }

  return {
    update(next) {
      const changed = data?.kind !== next.kind;
      data = next;
      if (next.kind === "none" || !next.input) {
        clear();
        empty.textContent = next.kind === "none" ? "Inputs of this kind are not drawn." : (next.absent ?? "The run folder holds no picture of this sample.");
        host.append(empty);
        return;
      }
      if (changed || !stage) {
        clear();
        stage = new Stage(host, redraw);
        stage.root.setAttribute("role", "img");
        [draw, stop] = drawerOf(next.kind, stage, redraw);
      }
      stage.root.setAttribute("aria-label", next.title);
      redraw();
    },
    table: () => data && inputTable(data),
    destroy: clear,
  };
}
