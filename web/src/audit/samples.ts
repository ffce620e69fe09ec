import type { Loaded } from "../cache";
import { Choice as Chooser, el, keep } from "../dom";
import { count, number } from "../format";
import type { Store } from "../store";
import type { AuditMeta } from "../types";
import { Board, refill } from "./board";
import { gridSvg } from "./ranking";
import type { Choice } from "./chosen";
import type { Table } from "./export";
import type { CasePage } from "./types";

const PAGE = 24;
const ORDERS = [
  { value: "worst", text: "worst first" },
  { value: "best", text: "best first" },
  { value: "number", text: "by number" },
];
const CHOICES: Record<string, string> = { all: "all", undefined: "undefined", failed: "failed", wrong: "wrongly predicted", kept: "with stored pairs" };

/** Samples by a score, page by page: filter, order, and search by number. */
export class Samples {
  readonly board: Board;
  /** Where the page starts that was turned to; null is the page of the chosen sample. */
  start: number | null = null;
  private readonly order: Chooser;
  private readonly only: Chooser;
  private readonly search: HTMLInputElement;
  private readonly list = el("ol", { class: "cases", "data-testid": "cases" });
  private readonly told = el("span", { class: "quiet", role: "status", "data-testid": "cases-told" });
  private readonly before: HTMLButtonElement;
  private readonly after: HTMLButtonElement;
  private page: CasePage | null = null;
  private size = 0;

  constructor(
    private readonly store: Store,
    retry: () => void,
    private readonly turned: () => void,
  ) {
    this.board = new Board("samples", "Samples", retry, { name: "samples", svg: () => gridSvg(this.table()), csv: () => this.table() });
    this.order = new Chooser("Order", "case-order", (sort) => this.change({ sort: sort === "worst" ? null : sort }));
    this.only = new Chooser("Show", "case-only", (only) => this.change({ only: only === "all" ? null : only }));
    this.search = el("input", { type: "search", inputmode: "numeric", placeholder: "Number", "aria-label": "Go to a sample by its number", "data-testid": "case-find", onchange: () => this.find() });
    this.before = el("button", { type: "button", "data-testid": "cases-before", onclick: () => this.turn(-PAGE) }, "← Previous");
    this.after = el("button", { type: "button", "data-testid": "cases-after", onclick: () => this.turn(PAGE) }, "Next →");
    this.board.tools.append(this.order.node, this.only.node, el("label", { class: "choice" }, el("span", {}, "Sample"), this.search));
    this.board.body.append(this.list, el("div", { class: "pager" }, this.before, this.told, this.after));
  }

  render(meta: AuditMeta, choice: Choice, found: Loaded<CasePage>): void {
    this.size = meta.samples;
    this.order.update(ORDERS, choice.order);
    this.only.update((meta.choices[choice.model] ?? ["all"]).map((value) => ({ value, text: CHOICES[value] ?? value.replace(/^group:/, "").replace(":", ": ") })), choice.only);
    if (!this.board.show(found)) return;
    this.page = found.value;
    const { cases, start, total } = found.value;
    keep(this.told, { textContent: total === 0 ? "No sample fits." : `${(start + 1).toLocaleString("en")} to ${(start + cases.length).toLocaleString("en")} of ${count(total, "sample")}` });
    keep(this.before, { disabled: start === 0 });
    keep(this.after, { disabled: start + cases.length >= total });
    const items = cases.map(({ sample, value, failed, facts }) => {
      const chosen = sample === choice.sample;
      const text = failed ? "failed" : value === null ? "undefined" : number(value);
      const said = facts.map(([what, name]) => `${what} ${name}`).join(", ");
      const pick = (): void => this.choose(sample, choice);
      const button = el("button", { type: "button", "data-key": sample, "aria-pressed": String(chosen), title: failed || said, onclick: pick }, el("span", {}, `#${sample}`), el("span", { class: "n" }, text), said ? el("small", { class: "quiet" }, said) : null);
      return el("li", { "data-sample": sample }, button);
    });
    refill(this.list, ...items);
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

  private change(patch: { sort?: string | null; only?: string | null }): void {
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
    return [["sample", "value"], ...(this.page?.cases ?? []).map(({ sample, value }) => [sample, value])];
  }
}
