import { Cache } from "../cache";
import { Choice, el, keep } from "../dom";
import { count, percent } from "../format";
import type { Page } from "../page";
import { START, type State } from "../state";
import type { Store } from "../store";
import type { Cell, Comparison, RunEntry } from "../types";
import { list } from "./audit";
import { sortable, type Column } from "./sortable";

/** Whether a row moved; if not, whether it is the same on every sample, or why there is no interval. */
function said(row: Record<string, Cell>): string {
  if (row.why || row.verdict) return String(row.why || row.verdict);
  return row.low === 0 && row.high === 0 ? "the same" : "no change shown";
}

const columns = (confidence: number): Column[] => [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "score", title: "Score" },
  { key: "verdict", title: "Beyond chance", text: (row) => said(row) },
  { key: "before", title: "Before" },
  { key: "after", title: "Now" },
  { key: "difference", title: "Difference" },
  { key: "low", title: `${percent(confidence)} low` },
  { key: "high", title: `${percent(confidence)} high` },
];

/** Two audits, or two cards: what moved from the one that is chosen here to the run of the page. */
export class ComparePage implements Page {
  readonly node: HTMLElement;
  private readonly cache = new Cache(() => this.render(this.store.state));
  private readonly other = new Choice("Compared with", "compare-with", (id) => this.store.set({ other: id || null }));
  private readonly told = el("p", { class: "lead", role: "status", "data-testid": "compare-answer" });
  private readonly again = el("button", { type: "button", hidden: true, onclick: () => this.cache.retry() }, "Try again");
  private readonly body = el("div", {});
  private drawn: Comparison | null = null;

  constructor(
    title: string,
    private readonly run: string,
    private readonly compare: ((id: string, before: string) => Promise<Comparison>) | null,
    private readonly others: () => readonly RunEntry[],
    private readonly store: Store,
  ) {
    const back = el("button", { type: "button", "data-testid": "compare-back", onclick: () => store.set({ page: null, other: null }) }, "← Back to the run");
    const swap = el("button", { type: "button", "data-testid": "compare-swap", onclick: () => this.swap() }, "Swap");
    const bar = el("div", { class: "chosen-bar" }, this.other.node, swap, back);
    this.node = el("main", { class: "wide audit", "data-testid": "compare" }, el("div", { class: "titled" }, el("h1", {}, title || run), bar), this.told, this.again, this.body);
  }

  render(state: State): void {
    const runs = this.others();
    const first = { value: "", text: runs.length > 0 ? "choose a run" : "there is no other run of this kind" };
    this.other.update([first, ...runs.map(({ id, path }) => ({ value: id, text: path }))], state.other ?? "", runs.length === 0);
    const { compare, run } = this;
    if (state.other === null || compare === null) {
      keep(this.told, { textContent: "Choose the run before: the page says what moved from it to this one beyond chance." });
      this.body.replaceChildren();
      this.drawn = null;
      return;
    }
    this.cache.turn();
    const before = state.other;
    const found = this.cache.get<Comparison>(JSON.stringify([run, before]), () => compare(run, before));
    keep(this.again, { hidden: found.state !== "error" });
    keep(this.told, { textContent: found.state === "ready" ? found.value.answer : found.state === "loading" ? "Loading…" : found.error.message });
    if (found.state === "ready" && found.value !== this.drawn) this.draw(found.value);
    else if (found.state !== "ready") {
      this.body.replaceChildren();
      this.drawn = null;
    }
  }

  key(): boolean {
    return false;
  }

  destroy(): void {
    this.body.replaceChildren();
  }

  private draw(found: Comparison): void {
    this.drawn = found;
    const rank = (row: Record<string, Cell>): number => ["worse", "better"].indexOf(String(row.verdict)) >>> 0;
    const rows = [...found.rows].sort((a, b) => rank(a) - rank(b));
    const table = sortable(columns(found.confidence), rows, "compare-table");
    const lists = found.lists.flatMap(({ title, lines }) => list(title, lines));
    this.body.replaceChildren(...lists, el("h2", {}, "All rows"), el("p", { class: "quiet" }, `Now: ${found.after.path}. Before: ${found.before.path}. ${paired(found)}`), table.node, ...list("Notes", found.notes));
  }

  private swap(): void {
    const { other } = this.store.state;
    if (other !== null) this.store.set({ ...START, theme: this.store.state.theme, run: other, page: "compare", other: this.run });
  }
}

/** Whether differences are of the same samples. */
function paired({ rows }: Comparison): string {
  const same = rows.filter((row) => row.paired === true).length;
  if (same === rows.length) return "The samples are the same, so differences are paired.";
  return same === 0 ? "The samples are not the same, so only large differences are seen." : `${same} of ${count(rows.length, "row")} are paired by sample.`;
}
