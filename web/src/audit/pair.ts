import { el } from "../dom";
import { number } from "../format";
import { tile } from "./drawing";
import type { CasePair, Drawing } from "./types";

export const NO_MAP = "This run does not keep this explanation.";

export interface Tile {
  caption: string;
  below: string;
  drawing: Drawing | null;
}

/** The perturbed input, the expected and the found explanation; of a point that a search found, also the input and the difference. */
export function pairTiles(pair: CasePair): Tile[] {
  return shownTiles(pair).map((one) => (one.caption === "perturbed input" ? { ...one, caption: `${pair.explainer}: ${one.caption}`, below: `${one.below}, draw ${pair.draw}` } : one.caption === "found" ? { ...one, below: `${one.below}, ${number(pair.value)}` } : one));
}

function shownTiles({ formulas, moved, expected, found, search }: CasePair): Tile[] {
  return [
    ...(search === null ? [] : [{ caption: "input", below: "x", drawing: search.input }]),
    { caption: "perturbed input", below: formulas.moved, drawing: moved },
    ...(search === null ? [] : [{ caption: "difference", below: `${formulas.moved} − x`, drawing: search.difference }]),
    { caption: "expected", below: formulas.expected, drawing: expected },
    { caption: "found", below: formulas.found, drawing: found },
  ];
}

/** A pair with its value; `beside` is said behind its draw. */
export function drawPair(pair: CasePair, beside = ""): HTMLElement {
  const element = pair.element.length > 0 ? `, g = (${pair.element.map((part) => Number(part.toPrecision(4))).join(", ")})` : "";
  const { search } = pair;
  const where = search === null ? `draw ${pair.draw}${element}` : `${classText(search)}, largest change ${number(search.largest)}, evaluation ${pair.draw}`;
  const caption = el("p", {}, el("strong", {}, pair.explainer), ` ${number(pair.value)} `, el("span", { class: "quiet" }, `${where}${beside && `, ${beside}`}`));
  const tiles = shownTiles(pair).map((one) => tile(one.caption, [el("span", { class: "quiet" }, one.below)], one.drawing, NO_MAP));
  return el("div", { class: search === null ? "pair" : "pair steps", "data-explainer": pair.explainer }, caption, el("div", { class: "tiles" }, ...tiles));
}

function classText({ label, predicted }: { label: number; predicted: number }): string {
  return label === predicted ? `class ${label} stays` : `class ${label} becomes ${predicted}`;
}
