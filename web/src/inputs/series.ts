// A signal over time: one line a channel, with the signal before the move behind it.

import { extent } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { modelColour } from "../colour";
import { el, svg } from "../dom";
import { label, ruler, type Stage } from "../plots/stage";
import type { InputData } from "./data";

const MOST = 6;

export function drawSeries(stage: Stage, { input, moved, shape }: InputData): void {
  if (!input) return;
  const [channels, length] = shape;
  const kept = Math.min(channels, MOST);
  const [left, top, right, bottom] = [44, 8, stage.width - 10, stage.height - 34];
  const [low = 0, high = 1] = extent([...extent<number>(input), ...extent<number>(moved ?? [])].filter((end) => end !== undefined));
  const x = scaleLinear([0, Math.max(1, length - 1)], [left, right]);
  const y = scaleLinear([low, high], [bottom, top]).nice();
  stage.base.append(ruler(axisBottom<number>(x).ticks(5).tickSize(3), 0, bottom), ruler(axisLeft<number>(y).ticks(5).tickSize(3), left, 0));
  stage.base.append(label("plot-label", (left + right) / 2, stage.height - 4, "time step"));
  const path = line<number>((_, time) => x(time), (value) => y(value)).defined((value) => !Number.isNaN(value));
  for (let channel = 0; channel < kept; channel++) {
    const own = (values: Float32Array | Uint8Array): number[] => [...values.subarray(channel * length, (channel + 1) * length)];
    const stroke = channels === 1 ? stage.theme.ink : modelColour(channel);
    if (moved) stage.base.append(svg("path", { class: "plot-curve series-before", stroke, d: path(own(input)) }));
    stage.base.append(svg("path", { class: "plot-curve", stroke, d: path(own(moved ?? input)) }));
  }
  const said = channels > MOST ? `the first ${MOST} of ${channels} channels` : "";
  const names = [said, moved ? "faint: before the move" : "", "value of the signal"].filter((words) => words);
  stage.legend.replaceChildren(...names.map((words) => el("span", { class: "plot-name" }, words)));
}
