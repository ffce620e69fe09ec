import type { Loaded } from "../cache";
import { el, keep } from "../dom";
import { count } from "../format";
import type { Store } from "../store";
import type { Choice } from "./chosen";
import { saveCsv } from "../save";
import { selectionSnippet } from "./snippet";
import type { Picks, Selection, Subject } from "./types";

/** What stands between the parts of a text, as in veracity.results.selection. */
const BETWEEN = "*";
const LISTED = "_";

function text(kind: string, names: readonly string[], rest: readonly string[]): string {
  return [kind, ...names.map(quoted), ...rest].join(BETWEEN);
}

function quoted(name: string): string {
  return encodeURIComponent(name).replaceAll(BETWEEN, "%2A");
}

/** All samples that fit a choice of the list. */
export function fits({ model, explainer, score }: Subject, only: string): string {
  return text("fits", [model, explainer, score, only], []);
}

/** The samples inside an outline in the plane of two scores. */
export function lasso(model: string, explainer: string, x: string, y: string, corners: readonly (readonly [number, number])[]): string {
  return text("lasso", [model, explainer, x, y], [corners.flat().join(LISTED)]);
}

/** An end of a range; null where it is open. */
type End = number | null;

/** The samples within bounds of scores. */
export function within(model: string, explainer: string, bounds: readonly { score: string; low: End; high: End }[]): string {
  return text("range", [model, explainer], bounds.flatMap(({ score, low, high }) => [quoted(score), low === null ? "" : String(low), high === null ? "" : String(high)]));
}

/** The samples of a list such as "0-4, 9"; null where it is none, or a number is not below `total`. */
export function listed(given: string, total: number): string | null {
  const parts = given.split(/[\s,;]+/).filter(Boolean);
  const ends = parts.map((part) => /^#?(\d+)(?:[-–](\d+))?$/.exec(part)).map((found) => (found === null ? null : [Number(found[1]), Number(found[2] ?? found[1])]));
  if (ends.length === 0 || ends.some((one) => one === null || one[0] > one[1] || one[1] >= total)) return null;
  return text("samples", [], [ends.map((one) => (one![0] === one![1] ? String(one![0]) : one!.join("-"))).join(LISTED)]);
}

/** Whether a part of a selection goes by the values of this score: an outline or bounds, but no choice such as "wrongly predicted". */
export function usesScore(part: string, score: string): boolean {
  const [kind, , , ...names] = part.split(BETWEEN);
  return (kind === "lasso" || kind === "range") && names.includes(quoted(score));
}

/** How many samples a selection has, where it is known: "3 selected samples". */
export function selectedText(found: Loaded<Selection> | null): string {
  return found?.state === "ready" ? count(found.value.n, "selected sample") : "selected samples";
}

/** The selection of samples, which holds over all panels: how many it has, by what, and how to take it away. */
export class SelectionBar {
  readonly node: HTMLElement;
  private readonly said = el("p", { role: "status", "data-testid": "selection-told" });
  private readonly tools = el("div", { class: "selection-tools" });
  private readonly saving = el("span", { class: "quiet", role: "status" });
  private readonly code = el("code", { "data-testid": "selection-python" });
  private readonly python = el("details", { class: "python" }, el("summary", {}, "The selection in Python"), el("pre", { tabindex: 0, "aria-label": "Lines of Python that load the selection" }, this.code));

  constructor(
    store: Store,
    csv: () => Promise<string>,
    retry: () => void,
    private readonly copy: (text: string, done: string) => void,
  ) {
    const button = (id: string, title: string, act: () => void): HTMLElement => el("button", { type: "button", "data-testid": id, onclick: act }, title);
    const save = (): void => {
      keep(this.saving, { textContent: "" });
      void saveCsv("selection", csv, (reason) => keep(this.saving, { textContent: `The selection was not saved. ${reason}` }));
    };
    this.tools.append(
      button("selection-clear", "Clear the selection", () => store.set({ picks: [] })),
      button("selection-last", "Take back the last step", () => store.set({ picks: store.state.picks.slice(0, -1) })),
      button("selection-copy", "Copy Python", () => this.copy(this.code.textContent ?? "", "Python copied.")),
      button("selection-csv", "Save CSV", save),
      button("selection-again", "Try again", retry),
    );
    this.node = el("section", { class: "selection", "data-testid": "selection", "aria-label": "Selection of samples" }, this.said, this.tools, this.saving, this.python);
  }

  render(folder: string, total: number, choice: Choice, found: Loaded<Selection> | null): void {
    keep(this.node.dataset, { state: found === null ? "none" : found.state });
    keep(this.tools, { hidden: found === null });
    keep(this.python, { hidden: found?.state !== "ready" });
    const shown = { "selection-last": choice.picks.length > 1, "selection-copy": found?.state === "ready", "selection-csv": found?.state === "ready", "selection-again": found?.state === "error" };
    for (const [id, there] of Object.entries(shown)) keep(this.tools.querySelector<HTMLElement>(`[data-testid="${id}"]`)!, { hidden: !there });
    keep(this.said, { textContent: sentence(total, found) });
    if (found?.state === "ready") keep(this.code, { textContent: selectionSnippet(folder, choice.model, choice.explainer, choice.score.name, found.value) });
  }
}

function sentence(total: number, found: Loaded<Selection> | null): string {
  if (found === null) return `No selection: every panel shows all ${count(total, "sample")}. To select some, draw a lasso under “Two scores”, or press “Select these” under “Samples”.`;
  if (found.state === "loading") return "Selecting…";
  if (found.state === "error") return `The selection in the address cannot be read. ${found.error.message}`;
  const { n, parts } = found.value;
  const words = parts.map((part) => part.words).join("; and ");
  return n === 0 ? `No sample fits this selection: ${words}.` : `Selected: ${n.toLocaleString("en")} of ${count(found.value.total, "sample")}: ${words}.`;
}

/** The picks of a state that narrow a selection by one part more; the same part is not added twice. */
export function narrowed(picks: Picks, part: string): Picks {
  return picks.includes(part) ? picks : [...picks, part];
}
