// Points in space, rotated along the orbit, seen from where the reader has put the camera.

import { extent } from "d3-array";
import { bright, fractionOf, sequential } from "../colour";
import { el, svg } from "../dom";
import { label, type Stage } from "../plots/stage";
import type { InputData } from "./data";
import { axisIn, rotated } from "./moves";

const HOME = { azimuth: -55, elevation: 22 };
/** The part of the scale that stands out from the ground. */
const ON_LIGHT = [0, 0.84];
const ON_DARK = [0.3, 1];
const DEGREES = 180 / Math.PI;

type Point = [number, number, number];

/** A view of clouds; dragging moves the camera about the vertical and up or down. */
export function cloudDrawer(stage: Stage, again: () => void): (data: InputData) => void {
  let camera = { ...HOME };
  let last: [number, number] | null = null;
  stage.root.classList.add("plot-moves");
  stage.legend.append(el("span", { class: "plot-name" }, "colour: z before the rotation"), el("span", { class: "plot-hint" }, "drag: camera"));
  stage.body.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    stage.body.setPointerCapture(event.pointerId);
  });
  stage.body.addEventListener("pointermove", (event) => {
    if (!last) return;
    const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
    camera = { azimuth: camera.azimuth - 0.5 * dx, elevation: Math.min(90, Math.max(-90, camera.elevation + 0.5 * dy)) };
    last = [event.clientX, event.clientY];
    again();
  });
  for (const end of ["pointerup", "pointercancel"]) stage.body.addEventListener(end, () => (last = null));
  stage.body.addEventListener("dblclick", () => {
    camera = { ...HOME };
    again();
  });

  /** A point as (right, up, towards the camera), z being up. */
  function seen([x, y, z]: Point): Point {
    const [ca, sa] = [Math.cos(camera.azimuth / DEGREES), Math.sin(camera.azimuth / DEGREES)];
    const [ce, se] = [Math.cos(camera.elevation / DEGREES), Math.sin(camera.elevation / DEGREES)];
    const level = ca * x + sa * y;
    return [ca * y - sa * x, ce * z - se * level, ce * level + se * z];
  }

  return ({ input, plane, at }) => {
    if (!input) return;
    let far = 1e-9;
    for (let i = 0; i < input.length; i += 3) far = Math.max(far, Math.hypot(input[i], input[i + 1], input[i + 2]));
    const [cx, cy, scale] = [stage.width / 2, stage.height / 2, (0.47 * Math.min(stage.width, stage.height)) / far];
    const screen = (point: Point): [number, number] => [cx + scale * seen(point)[0], cy - scale * seen(point)[1]];
    const axis = axisIn(plane ?? "xy", at[0] ?? 0);
    const points = rotated(input, axis, at[1] ?? 0);
    lines(stage, screen, axis, far, at[1] ?? 0);
    const order = Array.from({ length: points.length / 3 }, (_, index) => {
      const point: Point = [points[3 * index], points[3 * index + 1], points[3 * index + 2]];
      return { place: screen(point), near: seen(point)[2] / far, height: input[3 * index + 2] };
    }).sort((a, b) => a.near - b.near);
    const [low = 0, high = 1] = extent(order, ({ height }) => height);
    const [from, to] = bright(stage.theme.surface) ? ON_LIGHT : ON_DARK;
    const size = Math.min(3, Math.max(1.6, Math.min(stage.width, stage.height) / 140));
    for (const { place, near, height } of order) {
      stage.context.globalAlpha = 0.55 + 0.45 * ((near + 1) / 2);
      stage.context.fillStyle = sequential(from + (to - from) * fractionOf(height, [low, high]));
      stage.context.beginPath();
      stage.context.arc(...place, size * (1 + 0.4 * near), 0, 2 * Math.PI);
      stage.context.fill();
    }
    stage.context.globalAlpha = 1;
  };
}

/** The coordinate axes, and the axis of rotation. */
function lines(stage: Stage, screen: (point: Point) => [number, number], axis: Point, far: number, angle: number): void {
  const [x1, y1] = screen([0, 0, 0]);
  ["x", "y", "z"].forEach((name, index) => {
    const end: Point = [0, 0, 0];
    end[index] = 0.55 * far;
    const [x2, y2] = screen(end);
    stage.base.append(svg("line", { class: "plot-rim", x1, y1, x2, y2 }), label("plot-tick plot-halo", x2, y2 - 3, name));
  });
  if (angle === 0) return;
  const [from, to] = [-1, 1].map((side) => screen([side * far * axis[0], side * far * axis[1], side * far * axis[2]]));
  stage.base.append(svg("line", { class: "plot-cursor plot-faint", x1: from[0], y1: from[1], x2: to[0], y2: to[1] }));
  stage.base.append(svg("circle", { class: "plot-handle", cx: to[0], cy: to[1], r: 4 }));
}
