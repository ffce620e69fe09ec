import { Ranking, Matrix } from "../audit/ranking";
import { becauseFirst, choose, nameOf, ofSample, subjectOf, type Choice as Chosen } from "../audit/chosen";
import { snippet } from "../audit/snippet";
import { OwnPanel } from "../audit/own";
import { SamplePanel } from "../audit/sample";
import { Samples } from "../audit/samples";
import { axesOf, ScatterBoard } from "../audit/scatter";
import { SelectionBar } from "../audit/selection";
import { SpreadPanel } from "../audit/spread";
import { Words } from "../audit/words";
import type { AuditSource, Case, CasePage, Explained, Plane, Ranks, ScoreWords, SelectedValue, Selection, Spread, Thumbnails } from "../audit/types";
import { Cache, guard, type Loaded } from "../cache";
import { copyText } from "../copy";
import { modelColour } from "../colour";
import { Choice, el, keep, swatch } from "../dom";
import { date, percent } from "../format";
import { Large } from "../large";
import type { Page } from "../page";
import type { State } from "../state";
import type { Store } from "../store";
import type { AuditMeta, Cell, RunMeta, ScoreInfo } from "../types";
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

/** Words about more samples than this take seconds to make. */
const MANY = 50_000;

/** An audit of explainers: who is better by which score, on which samples, and what the explanations look like there. */
export class AuditPage implements Page {
  readonly node: HTMLElement;
  private readonly cache = new Cache(() => this.again());
  private readonly models = new Choice("Model", "model", (name) => this.store.set({ models: [name] }));
  private readonly scores = new Choice("Score", "score", (score) => this.store.set({ score }));
  private readonly words: Words;
  /** The scores of a large audit whose words somebody asked for. */
  private readonly spoken = new Set<string>();
  private readonly ranking: Ranking;
  private readonly matrix: Matrix;
  private readonly selection: SelectionBar;
  private readonly scatter: ScatterBoard;
  private readonly spread: SpreadPanel;
  private readonly samples: Samples;
  private readonly sample: SamplePanel;
  private readonly own: OwnPanel;
  private readonly large: Large;
  private readonly numbers: ReturnType<typeof sortable>;
  private readonly gaps = el("div", {});
  private readonly code = el("code", { "data-testid": "snippet" });
  private readonly whole = el("p", { class: "quiet", hidden: true }, "These are of all samples, not only of the selected ones.");
  private readonly told = el("span", { class: "quiet", role: "status", "data-testid": "copied" });
  private readonly other = guard();
  private readonly table = guard();
  private epoch = 0;
  private completed = -1;
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
    this.words = new Words(() => {
      if (this.choice !== null) this.spoken.add(this.choice.score.name);
      this.again();
    });
    this.ranking = new Ranking(store, retry);
    this.matrix = new Matrix(store);
    const selectionCsv = (): Promise<string> => this.source!.selectionCsv(run, this.choice!.model, this.choice!.explainer, this.choice!.picks);
    this.selection = new SelectionBar(store, selectionCsv, retry, (text, done) => void this.copy(text, done));
    this.scatter = new ScatterBoard(store, retry);
    this.spread = new SpreadPanel(store, retry, () => this.source!.csv(run, subjectOf(this.choice!), this.choice!.picks));
    this.samples = new Samples(store, retry, () => this.again());
    this.sample = new SamplePanel(store, retry, () => this.again(), (by) => this.step(by), source, run);
    this.own = new OwnPanel(source, run, () => this.again());
    this.node = el("main", { class: "wide audit", "data-testid": "audit" }, this.title(), ...this.content());
    this.large = new Large(this.node, store);
  }

  render(state: State): void {
    const choice = choose(this.meta, state);
    if (choice === null) return;
    if (this.other(choice.model, choice.score.name, choice.explainer, choice.picks.join(" "))) this.samples.start = null;
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
    const because = choice.sample === null && page.state === "ready" ? becauseFirst(choice, page.value.start) : "";
    this.choice = { ...choice, sample: choice.sample ?? first, because };
    const { source } = this;
    const { picks } = choice;
    const selection = source === null || picks.length === 0 ? null : this.ask<Selection>("selection", picks, () => source.selection(this.run, picks));
    const values = source === null || selection?.state !== "ready" ? selection : this.ask<SelectedValue[]>("selected", [choice.model, choice.score.name, ...picks], () => source.selectionValues(this.run, choice.model, choice.score.name, picks));
    if (source !== null) {
      const { name, title } = choice.score;
      const asked = this.meta.samples <= MANY || this.spoken.has(name);
      this.words.render(asked ? this.ask<ScoreWords>("words", [name], () => source.words(this.run, name)) : null, title, this.meta.symmetry);
    }
    this.selection.render(this.meta.folder, this.meta.samples, this.choice, selection);
    const ranks = this.ranks(page);
    this.ranking.render(this.meta, this.choice, selection, values as Loaded<SelectedValue[]> | null, ranks ?? this.unranked());
    this.matrix.render(this.meta, this.choice, selection, ranks);
    keep(this.whole, { hidden: selection === null });
    this.details(this.choice, page, selection);
    this.large.render(state.large);
    keep(this.code, { textContent: snippet(this.meta.folder, choice.model, choice.explainer, choice.score.name, this.choice.sample) });
  }

  key(event: KeyboardEvent): boolean {
    if (this.large.key(event)) return true;
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
    this.render(this.store.state);
    return true;
  }

  /** Asks once for the numbers of the table, if the page opened before they were derived. They take seconds, so what is in sight comes first. */
  private complete(): void {
    const { epoch, source } = this;
    if (!this.meta.partial || source === null || this.completed === epoch) return;
    this.completed = epoch;
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
    this.large.close();
    this.sample.close();
    this.scatter.destroy();
    this.own.close();
  }

  /** The distribution, the samples, two scores and the chosen sample. */
  private details(choice: Chosen, page: Loaded<CasePage>, selection: Loaded<Selection> | null): void {
    const { source, run } = this;
    if (source === null) return;
    const subject = subjectOf(choice);
    const { sample, picks } = choice;
    const spread = this.ask<Spread>("spread", [choice.model, choice.explainer, choice.score.name, ...picks], () => source.spread(run, subject, picks));
    const found = sample === null ? null : this.ask<Case>("case", [choice.model, choice.score.name, sample, ...picks], () => source.case(run, sample, choice.model, choice.score.name, picks));
    let waits = false;
    const explained = (explainer: string): Loaded<Explained> => {
      const map = this.ask<Explained>("map", [choice.model, explainer, choice.score.name, sample ?? 0], () => source.explanation(run, sample ?? 0, { ...subject, explainer }));
      waits ||= map.state === "loading";
      return map;
    };
    const row = this.meta.table.find((one) => one.model === choice.model && one.score === choice.score.name && (one.explainer ?? "") === choice.explainer);
    const control = choice.score.of_sample === null && typeof row?.random_control === "number" && row.control !== true && choice.score.beside.includes("random_control") ? row.random_control : null;
    this.spread.render(choice, spread, found?.state === "ready" ? found.value : null, control, selection);
    // the first panels come first: of a large audit, pictures and a further score take a while to read
    const first = spread.state !== "loading" && page.state !== "loading" && found?.state !== "loading";
    const pictures = this.pictures(choice, page, first);
    this.samples.render(this.meta, choice, page, pictures, selection);
    const small = choice.pictures === "all" && pictures?.state === "ready" ? pictures.value.drawings.find((one) => one.sample === sample) : undefined;
    this.sample.render(this.meta, choice, found, small?.drawing ?? null, explained);
    if (first && !waits) this.complete();
    const axes = axesOf(choice, this.store.state.x, this.store.state.y);
    const [x, y] = axes?.map(({ name }) => name) ?? [];
    const plane = axes === null || !first ? null : this.ask<Plane>("plane", [choice.model, choice.explainer, x, y, ...picks], () => source.plane(run, choice.model, choice.explainer, x, y, picks));
    this.scatter.render(this.meta, choice, axes, plane, selection);
    this.own.render(this.meta, choice);
    this.entitle(choice, axes);
  }

  /** What stands above saved pictures: a picture leaves the page, and with it all that is chosen there. */
  private entitle({ model, explainer, score, sample, picks }: Chosen, axes: readonly ScoreInfo[] | null): void {
    const whose = `${nameOf(explainer)} on ${model}`;
    const whole = picks.length === 0 ? "" : ", all samples";
    this.ranking.board.caption = `Ranking of explainers on ${model}: ${score.title}${whole}`;
    this.matrix.board.caption = `Scores on ${model}${whole}`;
    this.spread.board.caption = `${whose}: ${ofSample(score).title}`;
    this.scatter.board.caption = axes === null ? whose : `${whose}: ${axes[0].title} and ${axes[1].title}`;
    this.samples.board.caption = `${whose}: ${ofSample(score).title}`;
    this.sample.board.caption = `Sample ${sample ?? ""} of ${model}; values of ${ofSample(score).title}`;
    this.own.board.caption = `Your own input on ${model}; values of ${score.title}`;
  }

  /** The small drawings of the samples on a page; null where none are wanted. */
  private pictures({ model, explainer, pictures: kind }: Chosen, page: Loaded<CasePage>, ready: boolean): Loaded<Thumbnails> | null {
    const { source } = this;
    if (source === null || kind === "none" || page.state !== "ready" || page.value.cases.length === 0) return null;
    const samples = page.value.cases.map((one) => one.sample);
    if (!ready) return { state: "loading" };
    const asked = { model, explainer: kind === "explanations" ? explainer : "", kind, samples };
    return this.ask<Thumbnails>("small", [model, asked.explainer, kind, ...samples], () => source.thumbnails(this.run, asked));
  }

  /** The ranks of explainers, or null. They come after the first list of samples. */
  private ranks(page: Loaded<CasePage>): Loaded<Ranks> | null {
    const { source } = this;
    if (source === null || this.unranked() !== "") return null;
    const wait = page.state === "loading" && this.cache.peek<Ranks>(this.keyOf("ranks", [])) === null;
    return wait ? { state: "loading" } : this.ask<Ranks>("ranks", [], () => source.ranks(this.run));
  }

  /** Why nobody is ranked here, or "". */
  private unranked(): string {
    if (this.meta.samples > MANY) return `not ranked here, since there are more than ${MANY.toLocaleString("en")} samples: the report has the ranks`;
    return this.meta.state?.stage === "running" ? "not ranked while the run goes on" : "";
  }

  private listed(choice: Chosen): Loaded<CasePage> {
    const { start } = this.samples;
    const { order, only, by, picks } = choice;
    const around = start === null ? choice.sample : null;
    const key = [...this.page(choice), start ?? 0, around === null ? "" : this.placed(choice, around)];
    if (this.source === null) return { state: "loading" };
    const { source } = this;
    return this.ask<CasePage>("cases", key, () => source.cases(this.run, subjectOf(choice), picks, { order, by, only, start: start ?? 0, around }));
  }

  /** What a list of samples depends on, but for where its page starts. */
  private page({ model, explainer, score, order, only, by, picks }: Chosen): string[] {
    return [model, explainer, score.name, order, only, by, picks.join(" ")];
  }

  /** The sample whose page is wanted; the same as long as the page on show holds the chosen one. */
  private place: { key: string; sample: number } | null = null;

  private placed(choice: Chosen, sample: number): number {
    const key = JSON.stringify([this.epoch, ...this.page(choice)]);
    const held = this.place !== null && this.place.key === key ? this.cache.peek<CasePage>(this.keyOf("cases", [...this.page(choice), 0, this.place.sample])) : null;
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
    const boards = [this.ranking, this.matrix, this.spread, this.scatter, this.samples, this.sample, this.own].map(({ board }) => board.node);
    const copy = el("button", { type: "button", onclick: () => void this.copy(this.code.textContent ?? "", "Python copied.") }, "Copy");
    const python = el("details", { class: "python" }, el("summary", {}, "Load what is chosen in Python"), el("pre", { tabindex: 0 }, this.code), copy);
    return [...(this.source === null ? [] : [this.words.node]), legend, ...(this.source === null ? [] : [this.selection.node]), el("div", { class: "boards" }, ...(this.source === null ? boards.slice(0, 2) : boards)), python, el("h2", {}, "All numbers"), this.whole, this.numbers.node, this.gaps];
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
