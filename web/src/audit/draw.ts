import { guard } from "../cache";
import { el, keep } from "../dom";
import type { Store } from "../store";
import type { AuditMeta } from "../types";
import { Asking } from "./asking";
import { refill } from "./board";
import type { Choice } from "./chosen";
import { drawPair, pairTiles, type Tile } from "./pair";
import { besides, drawExamples, drawSteps, stepTiles } from "./steps";
import type { AuditSource, Case, DrawAnswer, DrawQuestion } from "./types";

/** How many answers are remembered. */
const HELD = 256;
/** What is computed, by what the run stored of the sample. */
const TITLES = { curve: "The steps, computed now", search: "The worst point, searched again now", folds: "The explanations of these models, computed now" };
const INVITED = {
  curve: "Compute the steps: the models see each of them, and every value is measured as in the run.",
  search: "Search again: the random numbers are those of the run, so the search finds the same point. It takes as long as it did there.",
  folds: "Compute the explanations of the sample by the models of all folds.",
};
const INVITED_DRAW = "Choose a draw: the models explain its perturbed input, and the value is measured as in the run.";

/** Any draw of a sample, computed by the server where it has the models: one explainer after the other, the chosen one first. */
export class DrawPanel {
  readonly node = el("div", { class: "draw", "data-testid": "draw" });
  private readonly slider: HTMLInputElement;
  private readonly field: HTMLInputElement;
  private readonly range = el("span", { class: "quiet" });
  private readonly compute: HTMLButtonElement;
  /** What is drawn. */
  tiles: Tile[] = [];
  private readonly heading = el("h3", {}, "");
  private readonly choosing: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly told = el("p", { class: "quiet", role: "status", "data-testid": "draw-told" });
  private readonly pairs = el("div", { class: "draw-pairs", "data-testid": "draw-pairs" });
  private readonly asking: Asking<DrawQuestion, DrawAnswer>;
  private readonly newer = guard();
  private readonly other = guard();
  private draws = 0;

  constructor(
    private readonly store: Store,
    source: AuditSource | null,
    run: string,
    changed: () => void,
  ) {
    this.asking = new Asking((heard) => source?.channel(run, heard) ?? null, keyOf, changed, HELD);
    this.slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "Draw", "data-testid": "draw-slider", oninput: () => this.choose(this.slider.value) });
    this.field = el("input", { type: "number", min: 0, step: 1, "aria-label": "Number of the draw", "data-testid": "draw-number", onchange: () => this.choose(this.field.value) });
    this.compute = el("button", { type: "button", "data-testid": "draw-compute", onclick: () => this.choose(this.slider.value) }, "Compute");
    this.choosing = el("span", { class: "draw-choice" }, el("span", {}, "Draw"), this.slider, this.field, this.range);
    this.tools = el("div", { class: "draw-tools" }, this.choosing, this.compute);
    this.node.append(this.heading, this.tools, this.told, this.pairs);
  }

  render(meta: AuditMeta, choice: Choice, one: Case, explainers: readonly string[]): void {
    const { score, model } = choice;
    const anew = this.other(meta.created);
    if (this.newer(meta)) this.asking.forget(anew);
    const kind = one.course?.kind ?? null;
    keep(this.heading, { textContent: kind === null ? "Any draw, computed now" : TITLES[kind] });
    // a search may take long, so that only the chosen explainer's is repeated
    const named = kind === "search" ? [choice.explainer] : explainers;
    const counted = one.values.filter((value) => value.score === score.name && named.includes(value.explainer));
    this.draws = Math.max(0, ...counted.map((value) => value.draws));
    keep(this.node, { hidden: counted.length === 0 });
    keep(this.tools, { hidden: !meta.live });
    if (!meta.live) return this.say(meta.why ?? "");
    const whole = kind === "search" || kind === "folds";
    const draw = whole && this.store.state.draw !== null ? 0 : this.store.state.draw;
    keep(this.choosing, { hidden: whole || this.draws < 2 });
    keep(this.slider, { max: String(Math.max(0, this.draws - 1)), value: String(draw ?? 0) });
    keep(this.field, { max: String(Math.max(0, this.draws - 1)), value: draw === null ? "" : String(draw) });
    keep(this.range, { textContent: `of 0 to ${Math.max(0, this.draws - 1)}` });
    keep(this.compute, { hidden: draw !== null });
    if (draw === null) return this.say(kind === null ? INVITED_DRAW : INVITED[kind]);
    const questions = counted.filter((value) => draw < value.draws || value.explainer === choice.explainer).map(({ explainer }) => ({ sample: one.sample, draw, model, explainer, score: score.name }));
    questions.sort((a, b) => explainers.indexOf(a.explainer) - explainers.indexOf(b.explainer));
    this.asking.want(questions);
    this.show(questions);
  }

  close(): void {
    this.asking.close();
  }

  private choose(text: string): void {
    const draw = Number(text);
    if (text === "" || !Number.isInteger(draw)) return;
    this.store.set({ draw: Math.min(Math.max(draw, 0), Math.max(0, this.draws - 1)) }, "soon");
  }

  private say(sentence: string): void {
    this.asking.want([]);
    this.tiles = [];
    keep(this.told, { textContent: sentence });
    keep(this.node.dataset, { state: "ready" });
    keep(this.pairs.dataset, { stale: "false" });
    refill(this.pairs);
  }

  private show(questions: readonly DrawQuestion[]): void {
    const found = questions.map((question) => this.asking.get(question));
    const missing = found.filter((one) => one === undefined || one.state === "loading").length;
    // every explainer is refused for the same reason if the score has no draws: it is said once
    const refused = [...new Set(found.flatMap((one) => (one?.state === "error" ? [one.error.message] : [])))];
    keep(this.node.dataset, { state: missing > 0 ? "loading" : "ready" });
    keep(this.told, { textContent: [...refused, missing === 0 ? "" : this.asking.open ? "Computing…" : "The server does not answer. Trying again…"].filter(Boolean).join(" ") });
    const ready = found.flatMap((one) => (one?.state === "ready" ? [one.value] : []));
    const stale = ready.length === 0 && missing > 0;
    keep(this.pairs.dataset, { stale: String(stale) });
    if (stale) return;
    this.tiles = ready.flatMap((one) => (one.pair !== null ? pairTiles(one.pair) : one.steps !== null ? stepTiles(one, one.steps) : []));
    refill(this.pairs, ...ready.flatMap((one) => [answerNode(one, this.draws > 1 && !this.choosing.hidden), ...(one.examples === null ? [] : [drawExamples(one.explainer, one.examples)])]));
  }
}

function keyOf({ sample, draw, model, explainer, score }: DrawQuestion): string {
  return JSON.stringify([sample, draw, model, explainer, score]);
}

/** A draw with its value, which is that of the run; where it is not, both are said. */
function answerNode(answer: DrawAnswer, numbered: boolean): HTMLElement {
  const { explainer, draw, value, stored, pair, steps } = answer;
  if (pair !== null) return drawPair(pair, besides(value, stored));
  if (steps !== null) return drawSteps(answer, steps, numbered ? `draw ${draw}` : "");
  return el("p", { "data-explainer": explainer }, el("strong", {}, explainer), ` undefined `, el("span", { class: "quiet" }, [numbered ? `draw ${draw}` : "", besides(value, stored)].filter(Boolean).join(", ")));
}
