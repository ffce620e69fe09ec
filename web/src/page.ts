import { el } from "./dom";
import type { State } from "./state";
import type { RunMeta } from "./types";

/** What fills the window below the header. */
export interface Page {
  readonly node: HTMLElement;
  render(state: State): void;
  /** Acts on a key; true when it was meant for the page. */
  key(event: KeyboardEvent): boolean;
  destroy(): void;
  /** Shows newer numbers in place; where a page cannot, it is made anew. */
  refresh?(meta: RunMeta): boolean;
}

/** A page of one sentence. */
export function sentencePage(id: string, title: string, ...sentences: (string | Node)[]): Page {
  const said = el("div", { role: id === "error" ? "alert" : "status" }, el("h1", {}, title), ...sentences.map((sentence) => el("p", {}, sentence)));
  const node = el("main", { class: "sentence", "data-testid": id }, said);
  return { node, render: () => undefined, key: () => false, destroy: () => undefined };
}
