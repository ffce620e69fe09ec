// The line above an orbit plot: which model has which colour and what it gives at the cursor, and what the marks mean.

import { swatchFill } from "../colour";
import { el, keep } from "../dom";
import { number, share } from "../format";
import type { Curve, OrbitData } from "./data";
import { nearest, placeLabel, samePlace } from "./grid";

/** A model's value at a point: what was just computed there, else the measured value nearest to it. */
export function valueAt(data: OrbitData, curve: Curve, at: number[]): number {
  return curve.live && samePlace(curve.live.at, at) ? curve.live.value : curve.values[nearest(data, at)];
}

/** A value of the plot for reading. */
function said({ share: from0to1 }: OrbitData, value: number): string {
  return from0to1 ? share(value) : number(value);
}

function entry(mark: HTMLElement, text: string, value = ""): HTMLElement {
  const made = el("span", { class: "plot-entry" });
  made.append(mark, el("span", { class: "plot-name" }, text));
  if (value) made.append(el("span", { class: "plot-value", "data-live": true }, value));
  return made;
}

function swatch(className: string, colour = ""): HTMLElement {
  const mark = el("span", { class: `plot-mark ${className}` });
  if (colour) mark.style.background = swatchFill(colour);
  return mark;
}

function hasGaps(data: OrbitData): boolean {
  return data.curves.some(({ values }) => values.some(Number.isNaN));
}

/** A legend that is built when what it names changes, and else only changes its words. */
export function legendOn(host: HTMLElement): (data: OrbitData, at: number[] | null) => void {
  let known = "";
  return (data, at) => {
    host.hidden = data.compact === true;
    if (host.hidden) return;
    const words = at ? [...data.curves.map((curve) => said(data, valueAt(data, curve, at))), placeLabel(data, at)] : [];
    const key = JSON.stringify([data.curves.map(({ model, colour }) => [model, colour]), hasGaps(data), at === null]);
    if (key !== known) build(host, data, words);
    else
      host.querySelectorAll("[data-live]").forEach((place, index) => {
        keep(place, { textContent: words[index] });
      });
    known = key;
  };
}

function build(host: HTMLElement, data: OrbitData, words: string[]): void {
  const models = data.curves.map((curve, index) => entry(swatch("", curve.colour), curve.model, words[index]));
  const marks = [entry(swatch("plot-diamond"), "identity")];
  if (hasGaps(data)) marks.push(entry(swatch("plot-gap"), "undefined"));
  const place = el("span", { class: "plot-place", "data-live": true }, words[models.length] ?? "");
  if (words.length) marks.push(el("span", { class: "plot-entry" }, swatch("plot-cursor-mark"), place));
  host.replaceChildren(el("div", { class: "plot-row" }, ...models), el("div", { class: "plot-row plot-marks" }, ...marks));
}

/** What the read-out says of an element: its label, and every model's value with its band. */
export function readoutOf(data: OrbitData, index: number): (string | Node)[] {
  const rows = data.curves.map(({ model, colour, values, low, high }) => {
    const band = low && high && !Number.isNaN(low[index]) ? ` (${said(data, low[index])} to ${said(data, high[index])})` : "";
    return entry(swatch("", colour), model, said(data, values[index]) + band);
  });
  return [el("strong", {}, data.elements[index]), ...rows];
}

/** The cursor in one sentence, for those who hear it. */
export function spoken(data: OrbitData, at: number[]): string {
  return `${placeLabel(data, at)}: ${data.curves.map((curve) => `${curve.model} ${said(data, valueAt(data, curve, at))}`).join(", ")}`;
}
