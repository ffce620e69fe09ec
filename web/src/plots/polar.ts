// A periodic orbit as a closed line about the centre: the angle is the transform, anticlockwise from the right.

import { scaleLinear } from "d3-scale";
import { arc, areaRadial, lineRadial } from "d3-shape";
import { dashOf } from "../colour";
import { svg } from "../dom";
import type { Curve, Drawn, OrbitData } from "./data";
import { settled } from "./grid";
import { valueAt } from "./legend";
import { firstThatFits, metricTitles } from "./panels";
import { identityMark, label, type Stage } from "./stage";

const SPOKES = 8;
const MANY = 120;
/** Between two measured angles the values are joined in steps no wider than this, so that what is constant is a circle. */
const FINEST = Math.PI / 90;

export function drawPolar(stage: Stage, data: OrbitData): Drawn {
  const [axis] = data.axes;
  const turn = axis.period ?? axis.high - axis.low + axis.step;
  const title = data.compact ? 0 : 18;
  const radius = Math.max(8, Math.min(stage.width - (data.compact ? 0 : 16), stage.height - title) / 2 - (data.compact ? 5 : 24));
  const [x, y] = [stage.width / 2, (stage.height + title) / 2];
  const centred = `translate(${x}, ${y})`;
  const base = stage.base.appendChild(svg("g", { transform: centred }));
  const scale = scaleLinear(data.range, [0, radius]).clamp(true);
  const radians = (value: number): number => ((value - axis.low) / turn) * 2 * Math.PI;
  const point = (value: number, far: number): [number, number] => [far * Math.cos(radians(value)), -far * Math.sin(radians(value))];
  const clockwise = (index: number): number => Math.PI / 2 - radians(data.coordinates[index][0]);

  gaps();
  rings();
  const walk = around();
  data.curves.forEach(draw);
  base.append(identityMark(...point(data.coordinates[data.identity][0], radius), data.compact ? 3 : 5));

  function gaps(): void {
    const half = Math.PI / data.coordinates.length;
    data.coordinates.forEach((_, index) => {
      if (!data.curves.some(({ values }) => Number.isNaN(values[index]))) return;
      const wedge = { innerRadius: 0, outerRadius: radius, startAngle: clockwise(index) - half, endAngle: clockwise(index) + half };
      base.append(svg("path", { fill: stage.hatch, d: arc()(wedge) }));
    });
  }

  function rings(): void {
    const ticks = scale.ticks(4).filter((tick) => scale(tick) > 0);
    for (const tick of ticks) base.append(svg("circle", { class: "plot-grid", r: scale(tick) }));
    for (let spoke = 0; spoke < SPOKES; spoke++) {
      const value = axis.low + (spoke * turn) / SPOKES;
      const [x2, y2] = point(value, radius);
      base.append(svg("line", { class: "plot-grid", x2, y2 }));
      const [tx, ty] = point(value, radius + 16);
      if (!data.compact) base.append(label("plot-tick", tx, ty + 4, `${value}${axis.unit}`));
    }
    base.append(svg("circle", { class: "plot-rim", r: radius }));
    if (data.compact) return;
    for (const tick of ticks) {
      const [tx, ty] = point(axis.low + turn * 0.1875, scale(tick));
      base.append(label("plot-tick plot-halo", tx, ty + 3, scale.tickFormat(4)(tick)));
    }
    stage.base.append(label("plot-label", stage.width / 2, 11, firstThatFits(stage, metricTitles(data).map((words) => `radius: ${words}`))));
  }

  /** A walk all around in fine steps; each is a share of the way from one element to the next. */
  function around(): { from: number; to: number; share: number; angle: number }[] {
    const count = data.coordinates.length;
    return data.coordinates.flatMap((_, from) => {
      const to = (from + 1) % count;
      const whole = (clockwise(to) - clockwise(from)) / (2 * Math.PI);
      const turned = count === 1 ? -2 * Math.PI : 2 * Math.PI * (whole - Math.ceil(whole - 0.5));
      const steps = Math.max(1, Math.ceil(Math.abs(turned) / FINEST));
      return Array.from({ length: steps + 1 }, (_, step) => ({ from, to, share: step / steps, angle: clockwise(from) + (turned * step) / steps }));
    });
  }

  function draw({ values, low, high, colour }: Curve): void {
    type Step = (typeof walk)[number];
    const far = (found: Float32Array, { from, to, share }: Step): number => {
      const value = share === 0 ? found[from] : share === 1 ? found[to] : (1 - share) * found[from] + share * found[to];
      return Number.isNaN(value) ? NaN : scale(value);
    };
    if (low && high) {
      const band = areaRadial<Step>().angle(({ angle }) => angle).innerRadius((step) => far(low, step));
      band.outerRadius((step) => far(high, step)).defined((step) => !Number.isNaN(far(low, step) + far(high, step)));
      base.append(svg("path", { class: "plot-band", fill: colour, d: band(walk) }));
    }
    const indices = Array.from(values, (_, index) => index);
    const line = lineRadial<Step>().angle(({ angle }) => angle).radius((step) => far(values, step));
    line.defined((step) => !Number.isNaN(far(values, step)));
    base.append(svg("path", { class: "plot-curve", stroke: colour, "stroke-dasharray": dashOf(colour), d: line(walk) }));
    if (data.compact || values.length > MANY || dashOf(colour) !== null) return;
    for (const index of indices.filter((found) => !Number.isNaN(values[found]))) {
      const [cx, cy] = point(data.coordinates[index][0], scale(values[index]));
      base.append(svg("circle", { r: 1.6, cx, cy, fill: colour }));
    }
  }

  function cursor(at: number[] | null, curves: Curve[]): void {
    stage.overlay.replaceChildren();
    if (!at) return;
    const [x2, y2] = point(at[0], radius);
    const parts: SVGElement[] = [svg("line", { class: "plot-cursor", x2, y2 }), svg("circle", { class: "plot-handle", cx: x2, cy: y2, r: 5 })];
    for (const curve of curves) {
      const value = valueAt(data, curve, at);
      const [cx, cy] = point(at[0], scale(value));
      if (!Number.isNaN(value)) parts.push(svg("circle", { class: "plot-dot", fill: curve.colour, cx, cy, r: 4.5 }));
    }
    stage.overlay.append(svg("g", { transform: centred }, ...parts));
  }

  return {
    cursor,
    spots: ([value]) => {
      const [px, py] = point(value, radius);
      return [[x + px, y + py]];
    },
    locate(px, py, held) {
      if (held === null && Math.hypot(px - x, py - y) > radius + 24) return null;
      const fraction = Math.atan2(y - py, px - x) / (2 * Math.PI);
      return { at: [settled(axis, axis.low + fraction * turn)], panel: 0 };
    },
  };
}
