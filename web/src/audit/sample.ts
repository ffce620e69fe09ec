import type { Loaded } from "../cache";
import { el } from "../dom";
import { number } from "../format";
import type { Store } from "../store";
import type { AuditMeta } from "../types";
import { Board, refill } from "./board";
import { arrow, nameOf, ofSample, type Choice } from "./chosen";
import { CoursePanel } from "./course";
import { DrawPanel } from "./draw";
import { sheet, tile } from "./drawing";
import type { Table } from "../save";
import { drawPair, NO_MAP, pairTiles, type Tile } from "./pair";
import type { AuditSource, Case, Drawing, Explained } from "./types";

/** How many explanations stand side by side before one asks for all. */
const FIRST = 8;
const NO_INPUT = "This run does not keep the input of this sample: it keeps those of the pairs that scored worst.";

/** One sample: its input, the explanations side by side, its stored pairs and steps, any other draw, and its values. */
export class SamplePanel {
  readonly board: Board;
  private every = false;
  private tiles: Tile[] = [];
  private found: Case | null = null;
  private readonly maps = el("div", { class: "tiles", "data-testid": "maps" });
  private readonly pairs = el("div", { "data-testid": "pairs" });
  private readonly values = el("div", {});
  private readonly course = new CoursePanel();
  private readonly draw: DrawPanel;
  private readonly all: HTMLButtonElement;

  constructor(
    private readonly store: Store,
    retry: () => void,
    changed: () => void,
    private readonly step: (by: 1 | -1) => void,
    source: AuditSource | null,
    run: string,
  ) {
    this.draw = new DrawPanel(store, source, run, changed);
    this.board = new Board("sample", "Sample", retry, { name: "sample", svg: () => sheet([...this.tiles, ...this.course.tiles, ...this.draw.tiles]), csv: () => this.csv() });
    this.all = el("button", {
      type: "button",
      "data-testid": "all-maps",
      "aria-pressed": "false",
      onclick: () => {
        this.every = !this.every;
        changed();
      },
    });
    const before = el("button", { type: "button", "aria-label": "Previous sample of the list", title: "Previous sample of the list ([)", onclick: () => this.step(-1) }, "←");
    const after = el("button", { type: "button", "aria-label": "Next sample of the list", title: "Next sample of the list (])", onclick: () => this.step(1) }, "→");
    this.board.tools.append(before, after, this.all);
    this.board.body.append(this.maps, this.pairs, this.course.node, this.draw.node, this.values);
  }

  /** Whose explanations are shown: the chosen one first, then the others by rank, controls only on request. */
  shown(choice: Choice): string[] {
    const others = choice.ranked.filter((row) => row.explainer !== "" && (this.every || !row.control)).map((row) => row.explainer);
    const names = [...new Set([choice.explainer, ...others])].filter(Boolean);
    return this.every ? names : names.slice(0, FIRST);
  }

  /** `small` is the input as it stands in the list, for a run that did not keep it. */
  render(meta: AuditMeta, choice: Choice, found: Loaded<Case> | null, small: Drawing | null, explained: (explainer: string) => Loaded<Explained>): void {
    const names = this.shown(choice);
    const total = choice.ranked.filter((row) => row.explainer !== "").length;
    this.all.textContent = this.every ? "Fewer explainers" : `All ${total} with controls`;
    this.all.setAttribute("aria-pressed", String(this.every));
    this.all.hidden = total <= names.length && !this.every;
    if (found === null) {
      this.board.describe("");
      return this.board.empty("Choose a sample above.");
    }
    if (!this.board.show(found)) return;
    const one = found.value;
    this.found = one;
    const given = one.input ?? small;
    const facts = one.facts.map(([what, text]) => `${what}: ${text}`).join(", ");
    const among = one.chosen === null ? "" : one.chosen ? "selected" : "not among the selected samples";
    this.board.describe([`Sample ${one.sample} of ${choice.model}${choice.because && `, ${choice.because}`}`, among, facts, "each explanation has a colour scale of its own: red is positive, blue negative"].filter(Boolean).join("; "));
    const input: Tile = { caption: "Input", below: `sample ${one.sample}`, drawing: given };
    const maps = names.map((explainer) => ({ explainer, found: explained(explainer), below: this.valueText(one, explainer, choice.score.name) }));
    const pairs = [...one.pairs].sort((a, b) => Number(b.explainer === choice.explainer) - Number(a.explainer === choice.explainer));
    this.tiles = [input, ...maps.map(({ explainer, found, below }) => ({ caption: explainer, below, drawing: found.state === "ready" ? found.value.drawing : null })), ...pairs.flatMap((pair) => pairTiles(pair))];
    const shown = maps.map(({ explainer, found, below }) => {
      const missing = found.state === "loading" ? "Loading…" : found.state === "error" ? found.error.message : NO_MAP;
      const pick = (): void => this.store.set({ explainer, models: [choice.model], score: choice.score.name });
      const value = el("button", { type: "button", class: "plain n", "data-key": `map ${explainer}`, "aria-pressed": String(explainer === choice.explainer), "aria-label": `${explainer}: ${below}. Choose this explainer.`, onclick: pick }, below);
      return tile(explainer, [value], found.state === "ready" ? found.value.drawing : null, missing, { "data-explainer": explainer, "data-state": found.state, "data-chosen": explainer === choice.explainer ? "true" : null });
    });
    refill(this.maps, tile("Input", [el("span", { class: "quiet" }, `x`)], given, NO_INPUT, { "data-testid": "input" }), ...shown);
    refill(this.pairs, ...(pairs.length > 0 ? [el("h3", {}, "Stored pairs: the perturbations on which this sample scored worst"), ...pairs.map((pair) => drawPair(pair))] : []));
    this.course.render(choice, one.course, names);
    this.draw.render(meta, choice, one, names);
    refill(this.values, el("h3", {}, "Values of this sample"), this.table(meta, choice, one));
  }

  close(): void {
    this.draw.close();
  }

  private valueText(one: Case, explainer: string, score: string): string {
    const found = one.values.find((value) => value.explainer === explainer && value.score === score);
    if (found === undefined) return "not measured";
    return found.failed ? "failed" : found.value === null ? "undefined" : number(found.value);
  }

  private table(meta: AuditMeta, choice: Choice, one: Case): HTMLElement {
    const names = [...new Set([...choice.ranked.map((row) => row.explainer), ...one.values.map((value) => value.explainer)])];
    const scores = meta.scores.filter(({ name }) => one.values.some((value) => value.score === name));
    const head = el("tr", {}, el("th", { scope: "col" }, "Explainer"), ...scores.map(ofSample).map((score) => el("th", { scope: "col" }, `${score.title}${arrow(score)}`)));
    const body = names.map((name) =>
      el("tr", { "data-explainer": name, "data-chosen": name === choice.explainer }, el("th", { scope: "row" }, nameOf(name)), ...scores.map((score) => el("td", { class: "n", "data-score": score.name }, one.values.some((value) => value.explainer === name && value.score === score.name) ? this.valueText(one, name, score.name) : ""))),
    );
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values of this sample" }, el("table", { class: "numbers matrix", "data-testid": "sample-values" }, el("thead", {}, head), el("tbody", {}, ...body)));
  }

  private csv(): Table | null {
    if (this.found === null) return null;
    const { sample, values } = this.found;
    return [["sample", "explainer", "control", "score", "value", "draws", "undefined", "failed"], ...values.map((one) => [sample, one.explainer, String(one.control), one.score, one.value, one.draws, one.undefined, one.failed])];
  }
}
