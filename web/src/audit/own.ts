import { guard } from "../cache";
import { el, keep } from "../dom";
import { number, percent } from "../format";
import type { AuditMeta } from "../types";
import { Asking } from "./asking";
import { Board, refill } from "./board";
import { arrow, nameOf, ofSample, type Choice } from "./chosen";
import { sheet, tile } from "./drawing";
import type { Table } from "../save";
import { ownForm, type Sent } from "./ownform";
import type { Tile } from "./pair";
import type { AuditSource, Explained, OwnForm, OwnPrediction, OwnQuestion, OwnValue } from "./types";

/** How many answers are remembered. */
const HELD = 4096;
/** How many explainers stand side by side before one asks for all. */
const FIRST = 8;

type Answer = OwnForm | OwnPrediction | Explained | OwnValue;

/** An input of the reader's own: what the models predict for it, the explanations side by side, and their scores among the audited samples. */
export class OwnPanel {
  readonly board: Board;
  private readonly asking: Asking<OwnQuestion, Answer>;
  private readonly newer = guard();
  private readonly other = guard();
  private readonly begin: HTMLButtonElement;
  private readonly form = el("div", {});
  private readonly told = el("p", { class: "own-told", role: "status", "data-testid": "own-told" });
  private readonly progress = el("span", { class: "quiet", "data-testid": "own-progress" });
  private readonly stop: HTMLButtonElement;
  private readonly all: HTMLButtonElement;
  private readonly tools: HTMLElement;
  private readonly predictions = el("div", { "data-testid": "own-predictions" });
  private readonly maps = el("div", { class: "tiles", "data-testid": "own-maps" });
  private readonly values = el("div", {});
  private wanted = false;
  private shown = false;
  private invert: () => void = () => undefined;
  private input: string | null = null;
  private name = "";
  /** Why an input was not sent, or that it is on its way. */
  private sending = "";
  private refused = false;
  private number = 0;
  private stopped = false;
  private every = false;
  private tiles: Tile[] = [];
  private table: Table = [];

  constructor(
    private readonly source: AuditSource | null,
    private readonly run: string,
    private readonly changed: () => void,
  ) {
    this.asking = new Asking((heard) => source?.channel(run, heard) ?? null, keyOf, changed, HELD);
    const retry = (): void => {
      this.asking.forget();
      changed();
    };
    this.board = new Board("own", "Your own input", retry, { name: "own-input", svg: () => sheet(this.tiles), csv: () => (this.table.length > 0 ? this.table : null) });
    const turn = (set: () => void) => (): void => {
      set();
      changed();
    };
    this.begin = el("button", { type: "button", "data-testid": "own-begin", onclick: turn(() => (this.wanted = true)) }, "Try an input of your own");
    this.stop = el("button", { type: "button", "data-testid": "own-stop", onclick: turn(() => (this.stopped = !this.stopped)) });
    this.all = el("button", { type: "button", "data-testid": "own-all", onclick: turn(() => (this.every = !this.every)) });
    this.tools = el("div", { class: "own-tools" }, this.stop, this.all, this.progress);
    this.board.body.append(this.begin, this.form, this.told, this.tools, this.predictions, this.maps, this.values);
  }

  render(meta: AuditMeta, choice: Choice): void {
    keep(this.board.node, { hidden: !meta.live });
    if (!meta.live) return;
    const anew = this.other(meta.created);
    if (this.newer(meta)) this.asking.forget(anew);
    if (anew) [this.shown, this.input] = [false, null];
    this.board.describe("The models answer live, as in the audit. Your input goes to this server alone, and nothing is written.");
    keep(this.begin, { hidden: this.wanted });
    this.hide(this.input === null);
    if (!this.wanted) {
      this.board.show({ state: "ready", value: null });
      return;
    }
    const about = { input: "", model: "", explainer: "", score: "" };
    if (!this.shown) this.asking.want([about]);
    const form = this.asking.get(about) ?? { state: "loading" };
    if (!this.shown && !this.board.show(form)) return;
    if (!this.shown && form.state === "ready") this.open(form.value as OwnForm);
    if (this.input === null) {
      this.say(this.sending, this.sending !== "" && !this.refused);
      return;
    }
    this.results(meta, choice, this.input);
  }

  close(): void {
    this.asking.close();
  }

  private open(form: OwnForm): void {
    this.shown = true;
    const { node, invert } = ownForm(form, (sent) => void this.give(sent, form.largest));
    this.invert = invert;
    this.form.replaceChildren(node);
    this.form.querySelector<HTMLElement>("input, textarea, select")?.focus({ preventScroll: true });
  }

  /** Sends an input; only the newest one counts. */
  private async give({ data, how, name }: Sent, largest: number): Promise<void> {
    const number = ++this.number;
    const tell = (sentence: string, refused: boolean): void => {
      this.input = null;
      this.sending = sentence;
      this.refused = refused;
      this.asking.want([]);
      this.changed();
    };
    if (data.size > largest) return tell(`This input is ${mebibytes(data.size)}, and at most ${mebibytes(largest)} are read: make it smaller.`, true);
    tell("Sending…", false);
    try {
      const input = await this.source!.give(this.run, data, how);
      if (number !== this.number) return;
      [this.input, this.name, this.stopped, this.sending] = [input, name, false, ""];
      this.changed();
    } catch (error) {
      if (number === this.number) tell(error instanceof Error ? error.message : String(error), true);
    }
  }

  /** Hides what is there only once an input was taken. */
  private hide(hidden: boolean): void {
    for (const node of [this.tools, this.predictions, this.maps, this.values]) keep(node as HTMLElement, { hidden });
  }

  private say(sentence: string, busy: boolean): void {
    keep(this.told, { textContent: sentence });
    keep(this.told.dataset, { kind: this.refused && !busy && this.input === null ? "refused" : "" });
    keep(this.board.node.dataset, { state: busy ? "loading" : "ready" });
  }

  private results(meta: AuditMeta, choice: Choice, input: string): void {
    const { model } = choice;
    const ask = (explainer: string, score: string, of = model): OwnQuestion => ({ input, model: of, explainer, score });
    const others = meta.models.filter((name) => name !== model);
    const first = this.asking.get(ask("", ""));
    const told = first?.state === "ready" ? (first.value as OwnPrediction) : null;
    const names = told === null ? [] : this.explainers(choice, told);
    const scores = [choice.score, ...meta.scores.filter((score) => score !== choice.score)].filter(({ name }) => told !== null && ["", ...names].some((explainer) => told.scores[explainer]?.includes(name)));
    const rows = told === null ? [] : [...names, ...(told.scores[""] !== undefined ? [""] : [])];
    const values = scores.flatMap(({ name }) => rows.filter((explainer) => told?.scores[explainer]?.includes(name)).map((explainer) => ask(explainer, name)));
    const quick = [ask("", ""), ...(told === null ? [] : [...others.map((name) => ask("", "", name)), ...names.map((name) => ask(name, ""))])];
    const questions = this.stopped || told === null ? quick : [...quick, ...values];
    this.asking.want(questions);
    const missing = questions.filter((question) => this.asking.get(question) === undefined).length;
    const open = [...quick, ...values].filter((question) => this.asking.get(question) === undefined).length;
    const busy = missing > 0;
    if (first?.state === "error") {
      this.refused = true;
      this.hide(true);
      this.tiles = [];
      this.table = [];
      keep(this.told, { textContent: first.error.message });
      keep(this.told.dataset, { kind: "refused" });
      keep(this.board.node.dataset, { state: "ready" });
      return;
    }
    this.refused = false;
    this.say(!this.asking.open ? "The server does not answer. Trying again…" : busy ? "Computing…" : open > 0 ? "Stopped." : "Everything is computed.", busy);
    keep(this.stop, { hidden: told === null || (open === 0 && !this.stopped), textContent: this.stopped ? "Go on" : "Stop" });
    const total = told?.explainers.length ?? 0;
    keep(this.all, { hidden: total <= names.length && !this.every, textContent: this.every ? "Fewer explainers" : `All ${total} with controls` });
    keep(this.progress, { textContent: told === null || open === 0 ? "" : `${quick.length + values.length - open} of ${quick.length + values.length} answers` });
    if (told === null) return;
    this.predict(told, [model, ...others].map((name) => ({ name, found: this.asking.get(ask("", "", name)) })));
    const below = (explainer: string): string => this.valueText(ask(explainer, choice.score.name), told.scores[explainer]?.includes(choice.score.name) ?? false);
    const maps = names.map((explainer) => ({ explainer, found: this.asking.get(ask(explainer, "")) }));
    this.tiles = [
      { caption: "Input", below: this.name, drawing: told.input },
      ...maps.map(({ explainer, found }) => ({ caption: explainer, below: below(explainer), drawing: found?.state === "ready" ? (found.value as Explained).drawing : null })),
    ];
    const figures = maps.map(({ explainer, found }) => {
      const drawing = found?.state === "ready" ? (found.value as Explained).drawing : null;
      const lacks = found?.state === "error" ? found.error.message : "Computing…";
      return tile(explainer, [el("span", { class: "n" }, below(explainer))], drawing, lacks, { "data-explainer": explainer, "data-state": found?.state ?? "loading" });
    });
    refill(this.maps, tile("Input", [el("span", { class: "quiet" }, this.name)], told.input, "", { "data-testid": "own-input" }), ...figures);
    const cells = (explainer: string): HTMLElement[] =>
      scores.map(({ name }) => {
        const asked = told.scores[explainer]?.includes(name) ?? false;
        const place = asked ? this.placeText(ask(explainer, name)) : "";
        return el("td", { class: "n", "data-score": name }, el("span", {}, this.valueText(ask(explainer, name), asked)), place ? el("small", { class: "quiet" }, place) : null);
      });
    const head = el("tr", {}, el("th", { scope: "col" }, "Explainer"), ...scores.map(ofSample).map((score) => el("th", { scope: "col" }, `${score.title}${arrow(score)}`)));
    const body = rows.map((explainer) => el("tr", { "data-explainer": explainer, "data-chosen": explainer === choice.explainer ? "true" : null }, el("th", { scope: "row" }, nameOf(explainer)), ...cells(explainer)));
    const table = el("table", { class: "numbers matrix", "data-testid": "own-values" }, el("thead", {}, head), el("tbody", {}, ...body));
    const errors = [...new Set(values.flatMap((question) => this.errorOf(question)))];
    const without = told.without.map(([name, why]) => `${meta.scores.find((score) => score.name === name)?.title ?? name} is not measured: ${why}.`);
    const lines = [...errors, ...without].map((line) => el("li", {}, line));
    refill(
      this.values,
      el("h3", {}, `Scores on ${model}, and where they lie among those of the audited samples`),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Scores of your own input" }, table),
      ...(lines.length > 0 ? [el("ul", { class: "lines", "data-testid": "own-without" }, ...lines)] : []),
    );
    this.table = [["model", "explainer", "score", "value", "audited samples", "lower", "same"], ...values.map((question) => this.line(question))];
  }

  /** Whose explanations are asked for: by rank, controls only on request. */
  private explainers(choice: Choice, told: OwnPrediction): string[] {
    const ranked = choice.ranked.filter((row) => this.every || !row.control).map((row) => row.explainer);
    const controls = new Set(choice.ranked.filter((row) => row.control).map((row) => row.explainer));
    const rest = told.explainers.filter((name) => this.every || !controls.has(name));
    const names = [...new Set([choice.explainer, ...ranked, ...rest])].filter((name) => told.explainers.includes(name));
    return this.every ? names : names.slice(0, FIRST);
  }

  private predict(told: OwnPrediction, models: { name: string; found: ReturnType<Asking<OwnQuestion, Answer>["get"]> }[]): void {
    const rows = models.map(({ name, found }) => {
      const said = found?.state === "ready" ? inWords(found.value as OwnPrediction) : [found?.state === "error" ? found.error.message : "Computing…", "", ""];
      return el("tr", { "data-model": name }, el("th", { scope: "row" }, name), ...said.map((text) => el("td", {}, text)));
    });
    const head = el("tr", {}, ...["Model", "Prediction", "Next", "Explained"].map((text) => el("th", { scope: "col" }, text)));
    const table = el("table", { class: "numbers own-predicted" }, el("thead", {}, head), el("tbody", {}, ...rows));
    const steps = told.steps.length > 0 ? [el("p", { "data-testid": "own-steps" }, `${this.name}: ${told.steps.join("; ")}.`)] : [];
    const invert = el("button", { type: "button", "data-testid": "own-invert-it", "data-key": "invert", onclick: () => this.invert() }, "Invert");
    const doubt = told.doubt ? [el("p", { class: "own-doubt", role: "status", "data-testid": "own-doubt" }, told.doubt, told.invertible ? " " : "", told.invertible ? invert : null)] : [];
    refill(this.predictions, ...steps, ...doubt, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Predictions for your own input" }, table));
  }

  private valueText(question: OwnQuestion, asked: boolean): string {
    const found = asked ? this.asking.get(question) : undefined;
    if (!asked) return "not measured";
    if (found === undefined) return "…";
    return found.state === "error" ? "failed" : found.state === "loading" ? "…" : (found.value as OwnValue).value === null ? "undefined" : number((found.value as OwnValue).value);
  }

  private placeText(question: OwnQuestion): string {
    const found = this.asking.get(question);
    if (found?.state !== "ready") return "";
    const { value, of, lower, same } = found.value as OwnValue;
    if (value === null || of === 0) return "";
    return `higher than ${lower.toLocaleString("en")} of ${of.toLocaleString("en")}${same > 0 ? `, equal to ${same.toLocaleString("en")}` : ""}`;
  }

  private errorOf(question: OwnQuestion): string[] {
    const found = this.asking.get(question);
    return found?.state === "error" ? [`${[question.explainer, question.score].filter(Boolean).join(", ")}: ${found.error.message}`] : [];
  }

  private line(question: OwnQuestion): (string | number | null)[] {
    const found = this.asking.get(question);
    const value = found?.state === "ready" ? (found.value as OwnValue) : null;
    return [question.model, question.explainer, question.score, value?.value ?? null, value?.of ?? null, value?.lower ?? null, value?.same ?? null];
  }
}

function keyOf({ input, model, explainer, score }: OwnQuestion): string {
  return JSON.stringify([input, model, explainer, score]);
}

function mebibytes(size: number): string {
  return `${Math.round(size / 2 ** 20).toLocaleString("en")} MiB`;
}

/** The largest class, the next ones, and the explained one; of a regression its values. */
function inWords({ prediction }: OwnPrediction): string[] {
  if ("values" in prediction) return [prediction.values.map((value) => number(value)).join(", ") + (prediction.of > prediction.values.length ? ", …" : ""), "", ""];
  const text = ([name, share]: [string, number]): string => `${name} (${percent(Number(share.toPrecision(3)))})`;
  const [first, ...next] = prediction.top;
  return [text(first), next.slice(0, 2).map(text).join(", "), prediction.explained === undefined ? "" : prediction.explained[0]];
}
