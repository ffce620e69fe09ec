import { Cache } from "../cache";
import { Choice, el, keep } from "../dom";
import { count, percent } from "../format";
import type { Page } from "../page";
import { START, type State } from "../state";
import type { Store } from "../store";
import type { Cell, Comparison, RunEntry } from "../types";
import { list } from "./audit";
import { sortable, type Column } from "./sortable";

/** What random explanations got, where both runs have them. */
const RANDOM: Column[] = [
  { key: "random_before", title: "Random before" },
  { key: "random_after", title: "Random now" },
];

/** Whether a row moved, or why that is not said. */
function said(row: Record<string, Cell>): string {
  return String(row.verdict || row.why || "no change shown");
}

/** A confidence by two digits of what is left to 1: "99.44 %". */
function confidence(level: number): string {
  return percent(1 - Number((1 - level).toPrecision(2)));
}

/** The columns of a table; the confidence stands in a column of its own if it is not the same for all rows. */
function columns(rows: Record<string, Cell>[]): Column[] {
  const levels = new Set(rows.map(({ level }) => level).filter((level) => typeof level === "number"));
  const [only] = levels.size === 1 ? levels : [null];
  const before = only === null ? "" : `${confidence(only)} `;
  return [
    { key: "verdict", title: "Beyond chance", text: said },
    { key: "model", title: "Model" },
    { key: "explainer", title: "Explainer" },
    { key: "score", title: "Score" },
    { key: "before", title: "Before" },
    { key: "after", title: "Now" },
    { key: "difference", title: "Difference" },
    { key: "low", title: `${before}low` },
    { key: "high", title: `${before}high` },
    ...RANDOM.filter(({ key }) => rows.some((row) => typeof row[key] === "number")),
    ...(levels.size > 1 ? [{ key: "level", title: "Confidence", text: (row: Record<string, Cell>) => (typeof row.level === "number" ? confidence(row.level) : "–"), right: true }] : []),
  ];
}

/** Two audits, or two cards: what moved from the one that is chosen here to the run of the page. */
export class ComparePage implements Page {
  readonly node: HTMLElement;
  private readonly cache = new Cache(() => this.render(this.store.state));
  private readonly other = new Choice("Before", "compare-with", (id) => this.store.set({ other: id || null }));
  private readonly swapped = el("button", { type: "button", "data-testid": "compare-swap", onclick: () => this.swap() }, "Swap");
  private readonly told = el("p", { class: "lead", role: "status", "data-testid": "compare-answer" });
  private readonly again = el("button", { type: "button", hidden: true, onclick: () => this.cache.retry() }, "Try again");
  private readonly body = el("div", {});
  private drawn: Comparison | null = null;
  private epoch = 0;
  private asking = false;
  /** Whether the run went on since the answer was asked for. */
  private behind = false;

  constructor(
    title: string,
    private readonly run: string,
    private readonly compare: ((id: string, before: string) => Promise<Comparison>) | null,
    private readonly others: () => readonly RunEntry[],
    private readonly store: Store,
  ) {
    const back = el("button", { type: "button", "data-testid": "compare-back", onclick: () => store.set({ page: null, other: null }) }, "← Back to the run");
    const bar = el("div", { class: "chosen-bar" }, this.other.node, this.swapped, back);
    this.node = el("main", { class: "wide audit comparison", "data-testid": "compare" }, el("div", { class: "titled" }, el("h1", {}, title || run), bar), this.told, this.again, this.body);
  }

  render(state: State): void {
    const runs = this.others();
    const first = { value: "", text: runs.length > 0 ? "choose a run" : "there is no other run of this kind" };
    const named = state.other === null || runs.some(({ id }) => id === state.other) ? [] : [{ value: state.other, text: state.other }];
    this.other.update([first, ...runs.map(({ id, path }) => ({ value: id, text: path })), ...named], state.other ?? "", runs.length + named.length === 0);
    keep(this.swapped, { disabled: state.other === null });
    const { compare, run } = this;
    if (state.other === null || compare === null) {
      keep(this.told, { textContent: "Choose the run to compare with: the page then says what changed from that run to this one beyond chance." });
      keep(this.again, { hidden: true });
      this.clear();
      return;
    }
    this.cache.turn();
    const before = state.other;
    const found = this.cache.get<Comparison>(JSON.stringify([run, before, this.epoch]), () => compare(run, before));
    this.asking = found.state === "loading";
    if (!this.asking && this.behind) {
      this.behind = false;
      this.refresh();
      return;
    }
    if (this.asking && this.drawn?.before.id === before) return; // the last answer stays until the next one is here
    keep(this.again, { hidden: found.state !== "error" });
    keep(this.told, { textContent: found.state === "ready" ? found.value.answer : found.state === "loading" ? "Loading…" : found.error.message });
    if (found.state === "ready" && found.value !== this.drawn) this.draw(found.value);
    else if (found.state !== "ready") this.clear();
  }

  /** The run went on: what is shown stays until the next answer is here, and nothing is asked before the last answer came. */
  refresh(): boolean {
    this.behind = this.asking;
    if (!this.asking) this.epoch++;
    this.render(this.store.state);
    return true;
  }

  key(): boolean {
    return false;
  }

  destroy(): void {
    this.body.replaceChildren();
  }

  private clear(): void {
    this.body.replaceChildren();
    this.drawn = null;
  }

  private draw(found: Comparison): void {
    this.drawn = found;
    const rank = (row: Record<string, Cell>): number => ["worse", "better"].indexOf(String(row.verdict)) >>> 0;
    const rows = [...found.rows].sort((a, b) => rank(a) - rank(b));
    const table = sortable(columns(rows), rows, "compare-table");
    const lists = found.lists.flatMap(({ title, lines }) => list(title, lines));
    this.body.replaceChildren(...lists, el("h2", {}, "All rows"), el("p", { class: "quiet", "data-testid": "compare-numbers" }, [`Now: ${found.after.path}. Before: ${found.before.path}.`, found.numbers, paired(found), random(found)].filter(Boolean).join(" ")), table.node, ...list("Notes", found.notes));
  }

  private swap(): void {
    const { other } = this.store.state;
    if (other !== null) this.store.set({ ...START, theme: this.store.state.theme, run: other, page: "compare", other: this.run });
  }
}

/** How to read what random explanations got. */
function random({ rows }: Comparison): string {
  const known = rows.some((row) => RANDOM.some(({ key }) => typeof row[key] === "number"));
  return known ? "Random: what random explanations got. Where that moved as well, the change is not the explainer’s alone." : "";
}

/** Whether differences are of the same samples. */
function paired({ rows }: Comparison): string {
  const known = rows.filter((row) => typeof row.low === "number");
  const same = known.filter((row) => row.paired === true).length;
  if (known.length === 0) return "";
  if (same === known.length) return "The samples are the same, so differences are paired.";
  return same === 0 ? "The samples are not the same, so only large differences are seen." : `${same} of ${count(known.length, "row")} are paired by sample.`;
}
