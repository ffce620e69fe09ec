// An orbit along a plain axis: every element in its order, one line a model.

import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { area, line } from "d3-shape";
import { dashOf } from "../colour";
import { svg } from "../dom";
import type { Curve, Drawn, OrbitData } from "./data";
import { valueAt } from "./legend";
import { firstThatFits, metricTitles } from "./panels";
import { identityMark, label, ruler, type Stage } from "./stage";

const MANY = 160;

export function drawLine(stage: Stage, data: OrbitData): Drawn {
  const [axis] = data.axes;
  const margin = data.compact ? { left: 6, right: 6, top: 6, bottom: 6 } : { left: 42, right: 12, top: 24, bottom: 38 };
  const { left, top } = margin;
  const [right, bottom] = [stage.width - margin.right, stage.height - margin.bottom];
  const order = data.coordinates.map((_, index) => index).sort((a, b) => data.coordinates[a][0] - data.coordinates[b][0]);
  const places = order.map((index) => data.coordinates[index][0]);
  const half = axis.step / 2;
  const x = scaleLinear([places[0] - half, places[places.length - 1] + half], [left, right]);
  const y = scaleLinear(data.range, [bottom, top]).clamp(true);
  const across = (index: number): number => x(data.coordinates[index][0]);

  frame();
  data.curves.forEach(draw);

  function frame(): void {
    const width = Math.max(1, x(axis.step) - x(0));
    for (const index of order) {
      if (!data.curves.some(({ values }) => Number.isNaN(values[index]))) continue;
      stage.base.append(svg("rect", { fill: stage.hatch, x: across(index) - width / 2, y: top, width, height: bottom - top }));
    }
    for (const tick of y.ticks(5)) stage.base.append(svg("line", { class: "plot-grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
    const home = across(data.identity);
    stage.base.append(svg("line", { class: "plot-rim", x1: home, x2: home, y1: top, y2: bottom }));
    if (!data.compact) {
      const ticks = Math.max(2, Math.floor((right - left) / 60));
      stage.base.append(ruler(axisBottom<number>(x).ticks(ticks).tickSize(4), 0, bottom), ruler(axisLeft<number>(y).ticks(5).tickSize(4), left, 0));
      stage.base.append(label("plot-label", (left + right) / 2, stage.height - 4, axis.unit ? `${axis.label} (${axis.unit})` : axis.label));
      stage.base.append(label("plot-label", 4, 11, firstThatFits(stage, metricTitles(data)), "start"));
    }
    stage.base.append(identityMark(home, bottom));
  }

  function draw({ values, low, high, colour }: Curve): void {
    if (low && high) {
      const band = area<number>(across, (index) => y(low[index]), (index) => y(high[index]));
      band.defined((index) => !Number.isNaN(low[index] + high[index]));
      stage.base.append(svg("path", { class: "plot-band", fill: colour, d: band(order) }));
    }
    const path = line<number>(across, (index) => y(values[index])).defined((index) => !Number.isNaN(values[index]));
    stage.base.append(svg("path", { class: "plot-curve", stroke: colour, "stroke-dasharray": dashOf(colour), d: path(order) }));
    if (data.compact || values.length > MANY || dashOf(colour) !== null) return;
    for (const index of order.filter((found) => !Number.isNaN(values[found]))) {
      stage.base.append(svg("circle", { r: 1.8, fill: colour, cx: across(index), cy: y(values[index]) }));
    }
  }

  function cursor(at: number[] | null, curves: Curve[]): void {
    stage.overlay.replaceChildren();
    if (!at) return;
    const cx = x(at[0]);
    stage.overlay.append(svg("line", { class: "plot-cursor", x1: cx, x2: cx, y1: top, y2: bottom }));
    stage.overlay.append(svg("circle", { class: "plot-handle", cx, cy: top, r: 5 }));
    for (const curve of curves) {
      const value = valueAt(data, curve, at);
      if (!Number.isNaN(value)) stage.overlay.append(svg("circle", { class: "plot-dot", fill: curve.colour, cx, cy: y(value), r: 4.5 }));
    }
  }

  return {
    cursor,
    spots: ([value]) => [[x(value), top]],
    locate(px, py, held) {
      if (held === null && (px < left - 8 || px > right + 8 || py < top - 12 || py > bottom + 12)) return null;
      const wanted = x.invert(px);
      const found = places.reduce((best, place) => (Math.abs(place - wanted) < Math.abs(best - wanted) ? place : best), places[0]);
      return { at: [found], panel: 0 };
    },
  };
}
