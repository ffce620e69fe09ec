import type { Loaded } from "../cache";
import { el, keep } from "../dom";
import { enlarger } from "../large";
import { saveButtons, type Exports } from "../save";

/** One panel of an audit: a title, tools, its content, and a sentence in its place while it is loading or refused. */
export class Board {
  readonly node: HTMLElement;
  readonly tools = el("div", { class: "board-tools" });
  /** What stands above the panel in a saved picture. */
  caption = "";
  readonly body = el("div", { class: "board-body" });
  private readonly subtitle = el("p", { class: "quiet", "data-testid": "subtitle" });
  private readonly message = el("p", { class: "board-message", role: "status" });
  private readonly again: HTMLButtonElement;

  constructor(id: string, title: string, retry: () => void, exports: Exports) {
    this.again = el("button", { type: "button", hidden: true, onclick: retry }, "Try again");
    const saving = el("p", { class: "board-message board-saving", role: "status" });
    const save = saveButtons(id, title, { caption: () => this.caption, ...exports }, (textContent) => keep(saving, { textContent }));
    const heading = el("h2", { id: `title-${id}` }, title);
    this.node = el(
      "section",
      { class: `board board-${id}`, "data-testid": id, "data-state": "loading", "aria-labelledby": `title-${id}` },
      el("header", {}, heading, el("div", { class: "board-save" }, ...save, enlarger(id, title))),
      this.subtitle,
      this.tools,
      this.message,
      this.again,
      saving,
      this.body,
    );
  }

  /** Shows how far an answer is; what was drawn before stays, in grey, while the next answer is on its way. */
  show<T>(found: Loaded<T>): found is { state: "ready"; value: T } {
    keep(this.node.dataset, { state: found.state });
    keep(this.message, { textContent: found.state === "ready" ? "" : found.state === "loading" ? "Loading…" : found.error.message });
    keep(this.again, { hidden: found.state !== "error" });
    keep(this.body, { hidden: found.state === "error" });
    return found.state === "ready";
  }

  describe(text: string): void {
    keep(this.subtitle, { textContent: text });
  }

  /** A sentence in the place of a drawing. */
  empty(sentence: string): void {
    keep(this.node.dataset, { state: "ready" });
    keep(this.message, { textContent: sentence });
    keep(this.again, { hidden: true });
    keep(this.body, { hidden: true });
  }
}

/** Replaces what a node holds; the focus stays on what has the same key. */
export function refill(host: Element, ...nodes: Node[]): void {
  const focus = document.activeElement;
  const key = focus instanceof HTMLElement && host.contains(focus) ? focus.dataset.key : undefined;
  host.replaceChildren(...nodes);
  if (key !== undefined) host.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}
