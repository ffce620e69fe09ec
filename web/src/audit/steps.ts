import { el } from "../dom";
import { number } from "../format";
import { drawn, tile } from "./drawing";
import type { Tile } from "./pair";
import type { DrawAnswer, Drawing, Example, Step, Steps } from "./types";

/** Beyond this share, a value differs from the stored one by more than rounding. */
const ROUNDING = 1e-4;
/** Differences up to this one are rounding, whatever the values. */
const TINY = 1e-7;

/** Quantities that need no name: the score itself, and what the curve or the table above says. */
const PLAIN = new Set(["value", "prediction", "drop", "distance"]);

/** How a step shows what is masked, by the kind of its drawing. */
const MASKED: Partial<Record<Drawing["kind"], string>> = { facts: "→ a masked column, with the value put in its place", words: "– a masked word" };

/** "as in the run"; where a value is not, the one of the run. */
export function besides(value: number | null, stored: number | null): string {
  const same = value === stored || (value !== null && stored !== null && Math.abs(value - stored) <= ROUNDING * Math.max(Math.abs(value), Math.abs(stored)) + TINY);
  return same ? "as in the run" : `the run measured ${stored === null ? "none" : number(stored)}`;
}

/** The steps of an explainer as tiles, for a drawing that is saved. */
export function stepTiles({ explainer }: DrawAnswer, { before, steps, map }: Steps): Tile[] {
  const first = map === null ? [] : [{ caption: `${explainer}: ${before}`, below: "e(x)", drawing: map }];
  return [...first, ...steps.map((one) => ({ caption: `${explainer}: ${one.name}`, below: number(one.value), drawing: one.map ?? one.input }))];
}

/** One explainer's steps in a row: what there was before, then the input and the explanation at each step with what was measured there. */
export function drawSteps(answer: DrawAnswer, { quantity, before, steps, map }: Steps, where: string): HTMLElement {
  const caption = el("p", {}, el("strong", {}, answer.explainer), ` ${number(answer.value)} `, el("span", { class: "quiet" }, [where, besides(answer.value, answer.stored), PLAIN.has(quantity) ? "" : `each step says “${quantity}”`, MASKED[steps[0]?.input?.kind ?? "none"] ?? ""].filter(Boolean).join(", ")));
  const first = map === null ? [] : [tile(before, [el("span", { class: "quiet" }, "e(x)")], map, "")];
  return el("div", { class: "pair steps", "data-explainer": answer.explainer }, caption, el("div", { class: "tiles" }, ...first, ...steps.map(stepNode)));
}

function stepNode(step: Step): HTMLElement {
  const beside = besides(step.value, step.stored);
  const below = el("span", { class: "n" }, number(step.value), beside === "as in the run" ? "" : el("small", { class: "quiet" }, ` ${beside}`));
  const node = tile(step.name, [below], step.input ?? step.map, "This step shows nothing.", { "data-step": step.name });
  if (step.input !== null && step.map !== null) node.append(drawn(step.map, `explanation, ${step.name}`));
  return node;
}

/** The training samples behind an explanation by example, most influential first. */
export function drawExamples(explainer: string, examples: readonly Example[]): HTMLElement {
  const caption = el("p", {}, el("strong", {}, explainer), el("span", { class: "quiet" }, " the training samples that speak most for the explained output, then those that speak most against it"));
  const tiles = examples.map(({ number: place, label, value, drawing }) => tile(`#${place}, label ${Number.isInteger(label) ? label : number(label)}`, [el("span", { class: "n" }, number(value))], drawing, "", { "data-example": String(place) }));
  return el("div", { class: "pair steps", "data-testid": "examples", "data-explainer": explainer }, caption, el("div", { class: "tiles" }, ...tiles));
}
