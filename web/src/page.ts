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
  const node = document.createElement("div");
  node.className = "sentence";
  node.dataset.testid = id;
  node.setAttribute("role", id === "error" ? "alert" : "status");
  const heading = document.createElement("h1");
  heading.textContent = title;
  node.append(heading);
  for (const sentence of sentences) {
    const line = document.createElement("p");
    line.append(sentence);
    node.append(line);
  }
  return { node, render: () => undefined, key: () => false, destroy: () => undefined };
}
