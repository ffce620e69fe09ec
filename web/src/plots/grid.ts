// The orbit's measured grid: the element nearest to a point, the next one by an arrow key, and how a point is called.

import type { Axis } from "../types";
import type { OrbitData } from "./data";

export type OrbitGrid = Pick<OrbitData, "layout" | "axes" | "coordinates" | "identity" | "elements">;

/** How far two values of an axis are apart, the short way round where it is periodic. */
function apart(axis: Axis, a: number, b: number): number {
  const far = Math.abs(a - b);
  if (axis.period === null) return far;
  const rest = far % axis.period;
  return Math.min(rest, axis.period - rest);
}

const HALF_TURN = 180;
const doubled = new WeakMap<number[][], boolean[]>();

/** Which elements of a disk stand for the opposite point of its rim too: rotations by 180 degrees, unless that point is listed itself. */
function doubledOn({ layout, axes, coordinates }: OrbitGrid): boolean[] {
  const lies = ([direction, angle]: number[], other: number[]): boolean => other[1] === angle && apart(axes[0], other[0], direction + HALF_TURN) < 1e-6;
  const rim = layout === "disk" ? coordinates.filter(([, angle]) => angle === HALF_TURN) : [];
  const found = doubled.get(coordinates) ?? coordinates.map((place) => rim.includes(place) && !rim.some((other) => lies(place, other)));
  doubled.set(coordinates, found);
  return found;
}

/** The element nearest to a point; on a disk the centre has every direction, and opposite points of the rim are the same. */
export function nearest(grid: OrbitGrid, at: number[]): number {
  const twice = doubledOn(grid);
  let best = grid.identity;
  let least = Infinity;
  grid.coordinates.forEach((place, index) => {
    const centre = grid.layout === "disk" && place[1] === 0;
    let distance = 0;
    for (let axis = centre ? 1 : 0; axis < place.length; axis++) {
      let far = apart(grid.axes[axis], place[axis], at[axis]);
      if (axis === 0 && twice[index]) far = Math.min(far, apart(grid.axes[axis], place[axis] + HALF_TURN, at[axis]));
      distance += (far / (grid.axes[axis].step || 1)) ** 2;
    }
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

/** A point of the orbit by the name that its grid has for it: on a disk, one of the rim that is listed on its other side. */
function listed(grid: OrbitGrid, at: number[]): number[] {
  const index = nearest(grid, at);
  const opposite = doubledOn(grid)[index] && at[1] === HALF_TURN && apart(grid.axes[0], grid.coordinates[index][0] + HALF_TURN, at[0]) < 1e-6;
  return opposite ? [...grid.coordinates[index]] : at;
}

/** Whether two points of the orbit are the same. */
export function samePlace(a: number[] | null | undefined, b: number[] | null | undefined): boolean {
  return !!a && !!b && a.length === b.length && a.every((value, axis) => Math.abs(value - b[axis]) < 1e-6);
}

/** A dragged value: whole numbers where the grid is coarser than that, within the axis or once around it. */
export function settled(axis: Axis, value: number): number {
  const grain = axis.step >= 1 ? 1 : axis.step / 10 || 1;
  const rounded = Math.round(value / grain) * grain;
  if (axis.period !== null) return ((((rounded - axis.low) % axis.period) + axis.period) % axis.period) + axis.low;
  return Math.min(axis.high, Math.max(axis.low, rounded));
}

/** The next value of the axis's grid in a direction of 1 or -1. */
function next(axis: Axis, value: number, direction: number): number {
  const place = (value - axis.low) / axis.step;
  const moved = direction > 0 ? Math.floor(place + 1e-6) + 1 : Math.ceil(place - 1e-6) - 1;
  const found = axis.low + moved * axis.step;
  if (axis.period !== null) return ((((found - axis.low) % axis.period) + axis.period) % axis.period) + axis.low;
  return Math.min(axis.high, Math.max(axis.low, found));
}

/** The four by four tiles: a column for every turn, a row for mirrored and reversed. */
export function tileOf([turn, mirrored = 0, reversed = 0]: number[]): { column: number; row: number } {
  return { column: turn, row: mirrored + 2 * reversed };
}

export function tileAt(column: number, row: number): number[] {
  return [column, row % 2, Math.floor(row / 2)];
}

const ARROWS: Record<string, [number, number]> = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
/** What turns an input that is shifted and turned. */
const TURNS: Record<string, 1 | -1> = { ",": -1, ".": 1 };

/**
 * The grid point that a key leads to from a point (arrows: the neighbours; comma and full stop: the angle; Home: the identity), or null.
 * Down from the centre of a disk comes out on its other side.
 */
export function keyStep(grid: OrbitGrid, at: number[] | null, key: string): number[] | null {
  const from = at ?? grid.coordinates[grid.identity];
  if (key === "Home") return [...grid.coordinates[grid.identity]];
  if (grid.layout === "slices" && key in TURNS) return [from[0], from[1], next(grid.axes[2], from[2], TURNS[key])];
  if (!(key in ARROWS)) return null;
  const [across, up] = ARROWS[key];
  if (grid.layout === "tiles") {
    const { column, row } = tileOf(from);
    return tileAt((column + across + 4) % 4, Math.min(3, Math.max(0, row - up)));
  }
  if (grid.layout === "line") {
    const order = grid.coordinates.map((place, index) => ({ place, index })).sort((a, b) => a.place[0] - b.place[0]);
    const now = order.findIndex(({ index }) => index === nearest(grid, from));
    return [...order[Math.min(order.length - 1, Math.max(0, now + across + up))].place];
  }
  const [first, second] = grid.axes;
  if (grid.layout === "polar") return [next(first, from[0], across + up)];
  if (grid.layout === "disk" && up < 0 && from[1] === 0) return listed(grid, [next(first, from[0] + HALF_TURN - first.step, 1), next(second, 0, 1)]);
  const vertical = grid.layout === "heatmap" || grid.layout === "slices" ? -up : up;
  return listed(grid, [across ? next(first, from[0], across) : from[0], vertical ? next(second, from[1], vertical) : from[1], ...from.slice(2)]);
}

/** What a point of the orbit is called: its element's label, or its coordinates between the elements. */
export function placeLabel(grid: OrbitGrid, at: number[]): string {
  const index = nearest(grid, at);
  if (samePlace(grid.coordinates[index], listed(grid, at)) || (grid.layout === "disk" && at[1] === 0)) return grid.elements[index];
  if (grid.layout === "disk") return `${coordinate(at[1])}° about ${coordinate(at[0])}°`;
  if (grid.layout === "slices") return `(${coordinate(at[0])}, ${coordinate(at[1])}) px, ${coordinate(at[2])}°`;
  const [axis] = grid.axes;
  const unit = axis.unit === "°" ? "°" : axis.unit && ` ${axis.unit}`;
  return at.length > 1 ? `(${at.map(coordinate).join(", ")})${unit}` : `${coordinate(at[0])}${unit}`;
}

/** A coordinate for reading: at most two decimals, and no trailing zeros. */
function coordinate(value: number): string {
  return String(Math.round(value * 100) / 100 + 0);
}
