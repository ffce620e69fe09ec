import type { Loaded } from "../cache";
import { Choice as Chooser, el, keep } from "../dom";
import { count, number } from "../format";
import type { Pictures } from "../state";
import type { Store } from "../store";
import type { AuditMeta } from "../types";
import { Board, refill } from "./board";
import { ofSample, subjectOf, type Choice } from "./chosen";
import type { Table } from "../save";
import { gridSvg } from "./ranking";
import { fits, narrowed, selectedText } from "./selection";
import { MISSING, thumbnail, wanting } from "./thumbnail";
import type { CasePage, CaseRow, Drawing, Selection, Thumbnails } from "./types";

const PAGE = 24;
const ORDERS = [
  { value: "worst", text: "worst first" },
  { value: "best", text: "best first" },
  { value: "number", text: "by number" },
];
const CHOICES: Record<string, string> = { all: "all", undefined: "undefined", failed: "failed", wrong: "wrongly predicted", disagree: "models disagree", kept: "with stored pairs" };
const PICTURES: { value: Pictures; text: string }[] = [
  { value: "inputs", text: "inputs that were kept" },
  { value: "all", text: "all inputs (loads the audit)" },
  { value: "explanations", text: "explanations" },
  { value: "none", text: "none, a list" },
];

/** Samples by a score, page by page: pictures, filter, order by any score, and search by number. */
export class Samples {
  readonly board: Board;
  /** Where the page starts that was turned to; null is the page of the chosen sample. */
  start: number | null = null;
  private readonly pictures: Chooser;
  private readonly by: Chooser;
  private readonly order: Chooser;
  private readonly only: Chooser;
  private readonly search: HTMLInputElement;
  private readonly list = el("ol", { class: "cases", "data-testid": "cases" });
  private readonly told = el("span", { class: "quiet", role: "status", "data-testid": "cases-told" });
  private readonly before: HTMLButtonElement;
  private readonly after: HTMLButtonElement;
  private readonly select: HTMLButtonElement;
  private choice: Choice | null = null;
  private page: CasePage | null = null;
  private size = 0;

  constructor(
    private readonly store: Store,
    retry: () => void,
    private readonly turned: () => void,
  ) {
    this.board = new Board("samples", "Samples", retry, { name: "samples", svg: () => gridSvg(this.table().map(([sample, ...values]) => [String(sample), ...values])), csv: () => this.table() });
    this.pictures = new Chooser("Pictures", "case-pictures", (pictures) => store.set({ pictures: pictures === "inputs" ? null : (pictures as Pictures) }, "replace"));
    this.by = new Chooser("Sort by", "case-by", (by) => this.change({ by: by || null }));
    this.select = el("button", { type: "button", "data-testid": "select-these", onclick: () => this.pick() }, "Select these");
    this.order = new Chooser("Order", "case-order", (sort) => this.change({ sort: sort === "worst" ? null : sort }));
    this.only = new Chooser("Show", "case-only", (only) => this.change({ only: only === "all" ? null : only }));
    this.search = el("input", { type: "search", inputmode: "numeric", placeholder: "Number", "aria-label": "Go to a sample by its number", "data-testid": "case-find", onchange: () => this.find() });
    this.before = el("button", { type: "button", "data-testid": "cases-before", onclick: () => this.turn(-PAGE) }, "← Previous");
    this.after = el("button", { type: "button", "data-testid": "cases-after", onclick: () => this.turn(PAGE) }, "Next →");
    this.board.tools.append(this.by.node, this.order.node, this.only.node, this.pictures.node, el("label", { class: "choice" }, el("span", {}, "Sample"), this.search), this.select);
    this.board.body.append(this.list, el("div", { class: "pager" }, this.before, this.told, this.after));
  }

  render(meta: AuditMeta, choice: Choice, found: Loaded<CasePage>, drawn: Loaded<Thumbnails> | null, selection: Loaded<Selection> | null): void {
    this.size = meta.samples;
    this.choice = choice;
    this.order.update(ORDERS, choice.order);
    const others = choice.single.filter(({ name }) => name !== choice.score.name).map(({ name, title }) => ({ value: name, text: title }));
    this.by.update([{ value: "", text: ofSample(choice.score).title }, ...others], choice.by, others.length === 0);
    this.only.update((meta.choices[choice.model] ?? ["all"]).map((value) => ({ value, text: CHOICES[value] ?? value.replace(/^group:/, "").replace(":", ": ") })), choice.only);
    this.pictures.update(PICTURES.filter(({ value }) => value !== "all" || meta.live), choice.pictures);
    if (!this.board.show(found)) return;
    this.page = found.value;
    const { cases, start, total } = found.value;
    const shown = total === 0 ? "No sample fits." : `${(start + 1).toLocaleString("en")} to ${(start + cases.length).toLocaleString("en")} of ${count(total, "sample")}`;
    keep(this.told, { textContent: shown });
    keep(this.before, { disabled: start === 0 });
    keep(this.after, { disabled: start + cases.length >= total });
    keep(this.select, { textContent: `Select these ${total.toLocaleString("en")}`, disabled: total === 0 || (choice.only === "all" && choice.picks.length > 0) });
    this.board.describe(this.about(choice, total, cases, drawn, selection));
    const pictures = new Map(drawn?.state === "ready" ? drawn.value.drawings.map((one) => [one.sample, one.drawing]) : []);
    const some = drawn?.state === "loading" || [...pictures.values()].some((one) => one !== null);
    keep(this.list.dataset, { pictures: String(some) });
    refill(this.list, ...cases.map((one) => this.item(one, choice, some ? (pictures.get(one.sample) ?? null) : undefined, drawn?.state === "loading" ? "…" : MISSING)));
  }

  /** Which samples these are, and of how many the pictures are missing. */
  private about(choice: Choice, total: number, cases: readonly CaseRow[], drawn: Loaded<Thumbnails> | null, selection: Loaded<Selection> | null): string {
    const among = choice.picks.length === 0 ? "" : choice.only === "all" ? `the ${selectedText(selection)} alone` : `${total.toLocaleString("en")} of the ${selectedText(selection)}`;
    const lost = drawn?.state === "error" ? drawn.error.message : drawn?.state === "ready" ? wanting(drawn.value, choice.pictures, cases.length) : "";
    return [among, lost].filter(Boolean).join("; ");
  }

  /** One sample; its drawing is null where there is none, and left out where no sample of the page has one. */
  private item({ sample, value, failed, facts, by }: CaseRow, choice: Choice, drawing: Drawing | null | undefined, missing: string): HTMLElement {
    const text = failed ? "failed" : value === null ? "undefined" : number(value);
    const said = facts.map(([what, name]) => `${what}: ${name}`).join(", ");
    const other = choice.single.find(({ name }) => name === choice.by);
    const sorted = other === undefined ? null : el("small", { class: "quiet" }, `${other.title} `, el("span", { class: "by" }, by === null ? "undefined" : number(by)));
    const pick = (): void => this.choose(sample, choice);
    const picture = drawing === undefined ? null : drawing === null ? el("span", { class: "thumb quiet" }, missing) : thumbnail(drawing);
    const parts = [picture, el("span", {}, `#${sample}`), el("span", { class: "n" }, text), sorted, said ? el("small", { class: "quiet" }, said) : null];
    const button = el("button", { type: "button", "data-key": sample, "aria-pressed": String(sample === choice.sample), title: failed || said, onclick: pick }, ...parts);
    return el("li", { "data-sample": sample }, button);
  }

  /** The next or previous sample of the list; at an end of the page, the list turns to the next one. */
  neighbour(sample: number | null, by: 1 | -1): number | null {
    const cases = this.page?.cases ?? [];
    const at = cases.findIndex((one) => one.sample === sample);
    if (at < 0) return cases[by > 0 ? 0 : cases.length - 1]?.sample ?? null;
    if (cases[at + by] === undefined) this.turn(by * PAGE);
    return cases[at + by]?.sample ?? null;
  }

  private choose(sample: number, choice: Choice): void {
    this.store.set({ sample, explainer: choice.explainer, models: [choice.model], score: choice.score.name });
  }

  /** Selects all samples of the list; of a selection, those that fit the filter too. */
  private pick(): void {
    if (this.choice === null) return;
    const { picks, only } = this.choice;
    this.start = 0;
    this.store.set({ picks: narrowed(picks, fits(subjectOf(this.choice), only)) });
  }

  private change(patch: { sort?: string | null; only?: string | null; by?: string | null }): void {
    this.start = 0;
    this.store.set(patch, "replace");
  }

  private find(): void {
    const wanted = this.search.value.trim();
    if (wanted === "") return;
    const known = /^#?\d+$/.test(wanted) && Number(wanted.replace("#", "")) < this.size;
    this.search.setCustomValidity(known ? "" : `Samples have the numbers 0 to ${this.size - 1}.`);
    this.search.reportValidity();
    if (!known) return;
    this.start = null;
    this.store.set({ sample: Number(wanted.replace("#", "")) });
  }

  private turn(by: number): void {
    const start = (this.page?.start ?? 0) + by;
    if (this.page === null || start < 0 || start >= this.page.total) return;
    this.start = start;
    this.turned();
  }

  private table(): Table {
    const by = this.choice?.by ?? "";
    return [["sample", this.choice?.score.name ?? "value", ...(by ? [by] : [])], ...(this.page?.cases ?? []).map((one) => [one.sample, one.value, ...(by ? [one.by] : [])])];
  }
}
