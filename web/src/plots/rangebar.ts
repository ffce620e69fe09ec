// What the colours of several plots mean, as one line of words and a bar.

import { sequential } from "../colour";
import { el } from "../dom";
import { number } from "../format";

const STOPS = 9;

/** The sequential scale between the two ends of a range. */
export function rangeBar([low, high]: [number, number], title: string): HTMLElement {
  const colours = Array.from({ length: STOPS }, (_, stop) => sequential(stop / (STOPS - 1)));
  const bar = el("i", { class: "range-colours", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${colours.join(", ")})`;
  return el("span", { class: "range-bar" }, title, el("span", {}, number(low)), bar, el("span", {}, number(high)));
}
