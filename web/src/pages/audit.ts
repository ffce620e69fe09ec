import { Ranking, Matrix } from "../audit/ranking";
import { choose, subjectOf, type Choice as Chosen } from "../audit/chosen";
import { copyText, snippet } from "../audit/export";
import { SamplePanel } from "../audit/sample";
import { Samples } from "../audit/samples";
import { SpreadPanel } from "../audit/spread";
import type { AuditSource, Case, CasePage, Explained, Spread } from "../audit/types";
import { Cache, guard, type Loaded } from "../cache";
import { modelColour } from "../colour";
import { Choice, el, keep, swatch } from "../dom";
import { date, percent } from "../format";
import type { Page } from "../page";
import type { State } from "../state";
import type { Store } from "../store";
import type { AuditMeta, Cell, RunMeta } from "../types";
import { endText, lostText, stateText, unseenText, valueText } from "./rows";
import { sortable, type Column } from "./sortable";

const columns = (confidence: number): Column[] => [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "score", title: "Score" },
  { key: "state", title: "State", text: stateText },
  { key: "value", title: "Value", text: valueText, right: true },
  { key: "low", title: `${percent(confidence)} low`, text: (row) => endText(row, "low"), right: true },
  { key: "high", title: `${percent(confidence)} high`, text: (row) => endText(row, "high"), right: true },
  { key: "unseen", title: "Unseen", text: unseenText, right: true },
  { key: "n", title: "Samples", whole: true },
  { key: "undefined", title: "Undefined", whole: true },
  { key: "self_agreement", title: "Self-agreement" },
  { key: "random_control", title: "Random control" },
  { key: "control", title: "Control" },
];

/** An audit of explainers: who is better by which score, on which samples, and what the explanations look like there. */
export class AuditPage implements Page {
  readonly node: HTMLElement;
  private readonly cache = new Cache(() => this.again());
  private readonly models = new Choice("Model", "model", (name) => this.store.set({ models: [name] }));
  private readonly scores = new Choice("Score", "score", (score) => this.store.set({ score }));
  private readonly ranking: Ranking;
  private readonly matrix: Matrix;
  private readonly spread: SpreadPanel;
  private readonly samples: Samples;
  private readonly sample: SamplePanel;
  private readonly numbers: ReturnType<typeof sortable>;
  private readonly gaps = el("div", {});
  private readonly code = el("code", { "data-testid": "snippet" });
  private readonly told = el("span", { class: "quiet", role: "status", "data-testid": "copied" });
  private readonly other = guard();
  private readonly table = guard();
  private epoch = 0;
  private gone = false;
  private choice: Chosen | null = null;

  constructor(
    private meta: AuditMeta,
    private readonly run: string,
    private readonly source: AuditSource | null,
    private readonly store: Store,
    private readonly compare: (() => void) | null = null,
  ) {
    const retry = (): void => this.cache.retry();
    this.numbers = sortable(columns(meta.confidence), [], "scores-table");
    this.ranking = new Ranking(store);
    this.matrix = new Matrix(store);
    this.spread = new SpreadPanel(store, retry, () => this.source!.csv(run, subjectOf(this.choice!)));
    this.samples = new Samples(store, retry, () => this.again());
    this.sample = new SamplePanel(store, retry, () => this.again(), (by) => this.step(by));
    this.node = el("main", { class: "wide audit", "data-testid": "audit" }, this.title(), ...this.content());
    this.complete();
  }

  render(state: State): void {
    const choice = choose(this.meta, state);
    if (choice === null) return;
    if (this.other(choice.model, choice.score.name, choice.explainer)) this.samples.start = null;
    this.cache.turn();
    this.models.update(this.meta.models.map((value) => ({ value, text: value })), choice.model);
    this.scores.update(this.meta.scores.map(({ name, title }) => ({ value: name, text: title })), choice.score.name);
    if (this.table(this.meta, state.score)) {
      const rows = state.score === null ? this.meta.table : this.meta.table.filter((row) => row.score === choice.score.name);
      this.numbers.update(rows);
      this.gaps.replaceChildren(...list("Failed", this.meta.failures.map(said)), ...list("Notes", this.meta.notes));
    }
    const page = this.listed(choice);
    const first = page.state === "ready" ? (page.value.cases[0]?.sample ?? null) : null;
    this.choice = { ...choice, sample: choice.sample ?? first };
    this.ranking.render(this.meta, this.choice);
    this.matrix.render(this.meta, this.choice);
    this.details(this.choice, page);
    keep(this.code, { textContent: snippet(this.meta.folder, choice.model, choice.explainer, choice.score.name, this.choice.sample) });
  }

  key(event: KeyboardEvent): boolean {
    if (event.key === "[") this.step(-1);
    else if (event.key === "]") this.step(1);
    else if (event.key === "m") this.nextScore();
    else return false;
    return true;
  }

  refresh(newer: RunMeta): boolean {
    if (newer.kind === "audit" && newer.partial && !this.meta.partial) newer = { ...newer, table: this.meta.table, failures: this.meta.failures };
    if (newer.kind !== "audit" || newer.models.join() !== this.meta.models.join() || newer.scores.length !== this.meta.scores.length) return false;
    this.meta = newer;
    this.epoch++;
    this.complete();
    this.render(this.store.state);
    return true;
  }

  /** Asks for the numbers of the table, where the page opened before they were derived. */
  private complete(): void {
    const { epoch, source } = this;
    if (!this.meta.partial || source === null) return;
    source.whole(this.run).then(
      (meta) => {
        if (this.gone || this.epoch !== epoch) return;
        this.meta = meta;
        this.render(this.store.state);
      },
      (error: unknown) => keep(this.told, { textContent: error instanceof Error ? error.message : String(error) }),
    );
  }

  destroy(): void {
    this.gone = true;
  }

  /** The distribution, the samples and the chosen one. */
  private details(choice: Chosen, page: Loaded<CasePage>): void {
    const { source, run } = this;
    if (source === null) return;
    const subject = subjectOf(choice);
    const spread = this.ask<Spread>("spread", [choice.model, choice.explainer, choice.score.name], () => source.spread(run, subject));
    const { sample } = choice;
    const found = sample === null ? null : this.ask<Case>("case", [choice.model, choice.score.name, sample], () => source.case(run, sample, choice.model, choice.score.name));
    const explained = (explainer: string): Loaded<Explained> =>
      this.ask<Explained>("map", [choice.model, explainer, choice.score.name, sample ?? 0], () => source.explanation(run, sample ?? 0, { ...subject, explainer }));
    const row = this.meta.table.find((one) => one.model === choice.model && one.score === choice.score.name && (one.explainer ?? "") === choice.explainer);
    const control = typeof row?.random_control === "number" && row.control !== true && choice.score.beside.includes("random_control") ? row.random_control : null;
    this.spread.render(choice, spread, found?.state === "ready" ? found.value : null, control);
    this.samples.render(this.meta, choice, page);
    this.sample.render(this.meta, choice, found, explained);
  }

  private listed(choice: Chosen): Loaded<CasePage> {
    const { start } = this.samples;
    const { order, only } = choice;
    const around = start === null ? choice.sample : null;
    const key = [choice.model, choice.explainer, choice.score.name, order, only, start ?? 0, around === null ? "" : this.placed(choice, around)];
    if (this.source === null) return { state: "loading" };
    const { source } = this;
    return this.ask<CasePage>("cases", key, () => source.cases(this.run, subjectOf(choice), order, only, start ?? 0, around));
  }

  /** The sample whose page is wanted; the same as long as the page on show holds the chosen one. */
  private place: { key: string; sample: number } | null = null;

  private placed(choice: Chosen, sample: number): number {
    const key = JSON.stringify([this.epoch, choice.model, choice.explainer, choice.score.name, choice.order, choice.only]);
    const held = this.place !== null && this.place.key === key ? this.cache.peek<CasePage>(this.keyOf("cases", [choice.model, choice.explainer, choice.score.name, choice.order, choice.only, 0, this.place.sample])) : null;
    if (held?.cases.some((one) => one.sample === sample)) return this.place!.sample;
    this.place = { key, sample };
    return sample;
  }

  private keyOf(kind: string, parts: readonly (string | number)[]): string {
    return JSON.stringify([this.epoch, kind, ...parts]);
  }

  private ask<T>(kind: string, parts: readonly (string | number)[], load: () => Promise<T>): Loaded<T> {
    return this.cache.get(this.keyOf(kind, parts), load);
  }

  private again(): void {
    if (!this.gone) this.render(this.store.state);
  }

  private step(by: 1 | -1): void {
    const sample = this.samples.neighbour(this.choice?.sample ?? null, by);
    if (sample !== null) this.store.set({ sample }, "soon");
  }

  private nextScore(): void {
    const { scores } = this.meta;
    const now = scores.findIndex((one) => one.name === this.choice?.score.name);
    this.store.set({ score: scores[(now + 1) % scores.length].name });
  }

  private title(): HTMLElement {
    const report = el("button", { type: "button", "data-testid": "full-report", onclick: () => this.store.set({ page: "report" }) }, "Full report");
    const link = el("button", { type: "button", "data-testid": "copy-link", title: "The link holds the token of this server, and works on this machine", onclick: () => void this.copy(location.href, "Link copied.") }, "Copy link");
    const compare = this.compare === null ? null : el("button", { type: "button", "data-testid": "compare-runs", onclick: this.compare }, "Compare");
    const chosen = el("div", { class: "chosen-bar" }, this.meta.models.length > 1 ? this.models.node : null, this.scores.node, this.told, link, compare, report);
    return el("div", { class: "titled" }, el("h1", {}, this.meta.title || "Audit"), el("span", { class: "quiet" }, date(this.meta.created)), chosen);
  }

  private content(): HTMLElement[] {
    const { meta } = this;
    if (meta.scores.length === 0) return [el("p", {}, "This run holds no scores."), this.gaps];
    const legend = el("ul", { class: "legend" }, ...meta.models.map((name, i) => el("li", {}, swatch(modelColour(i)), name)), el("li", { class: "quiet" }, "hollow: a control"));
    const boards = [this.ranking, this.matrix, this.spread, this.samples, this.sample].map(({ board }) => board.node);
    const copy = el("button", { type: "button", onclick: () => void this.copy(this.code.textContent ?? "", "Python copied.") }, "Copy");
    const python = el("details", { class: "python" }, el("summary", {}, "Load this selection in Python"), el("pre", { tabindex: 0 }, this.code), copy);
    return [legend, el("div", { class: "boards" }, ...(this.source === null ? boards.slice(0, 2) : boards)), python, el("h2", {}, "All numbers"), this.numbers.node, this.gaps];
  }

  private async copy(text: string, done: string): Promise<void> {
    keep(this.told, { textContent: (await copyText(text)) ? done : "The browser does not let this page copy: use the address bar." });
  }
}

/** "net: lime: equivariance: RuntimeError: no (2 of 8 cells)", or "(1 of 64 samples)" */
function said({ model, explainer, score, error, ...row }: Record<string, Cell>): string {
  return `${[model, explainer, score, error].filter(Boolean).join(": ")} (${lostText(row)})`;
}

/** A titled list; nothing where there is nothing to say. */
export function list(title: string, lines: readonly string[]): HTMLElement[] {
  if (lines.length === 0) return [];
  return [el("h2", {}, title), el("ul", { class: "lines" }, ...lines.map((line) => el("li", {}, line)))];
}
