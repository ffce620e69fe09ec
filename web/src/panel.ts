import type { Loaded } from "./cache";
import { el, keep, swatch } from "./dom";
import { enlarger } from "./large";
import { pictureOf } from "./picture";
import { saveButtons, type Table } from "./save";

/** A number below a drawing, and a button that leads to it. */
interface Part {
  colour: string;
  text: string;
  go?: { name: string; title: string; on(): void };
}

/** One framed view: a title, tools, the drawing, and a sentence in its place while it is empty, loading or refused. */
export class Panel {
  readonly node: HTMLElement;
  readonly tools = el("div", { class: "tools" });
  readonly host = el("div", { class: "host" });
  private readonly subtitle = el("span", { class: "subtitle" });
  private readonly footer = el("div", { class: "readout", "aria-live": "polite" });
  private readonly text = el("span", {});
  private said = "";
  private readonly again: HTMLButtonElement;

  constructor(id: string, title: string, retry: () => void, table: () => Table | null) {
    const told = el("span", { class: "quiet", role: "status" });
    const exports = { name: id, svg: () => pictureOf(this.node), csv: table };
    const save = el("details", { class: "menu" }, el("summary", { "aria-label": `Save ${title}`, title: "Save this panel" }, "Save"), el("div", {}, ...saveButtons(id, title, exports, (textContent) => keep(told, { textContent })), told));
    this.again = el("button", { type: "button", onclick: retry }, "Try again");
    const heading = el("h2", { id: `title-${id}` }, title);
    this.node = el(
      "section",
      { class: `panel panel-${id}`, "data-testid": id, "aria-labelledby": `title-${id}`, "data-state": "loading" },
      el("header", {}, heading, el("span", { class: "subtitle-room" }, this.subtitle), save, enlarger(id, title)),
      this.tools,
      el("div", { class: "stage" }, this.host, el("div", { class: "message", role: "status" }, this.text, this.again)),
      this.footer,
    );
    this.turn("loading", "Loading…");
  }

  /** Shows how far an answer is, and what is waited for; true when it can be drawn. */
  show<T>(found: Loaded<T>, waits = "Loading…"): found is { state: "ready"; value: T } {
    if (found.state === "loading") this.turn("loading", waits);
    else if (found.state === "error") this.turn("error", found.error.message, found.error.kind !== "gone");
    else this.turn("ready", "");
    return found.state === "ready";
  }

  /** Says in a sentence why there is nothing to draw. */
  empty(sentence: string): void {
    this.turn("empty", sentence);
  }

  describe(text: string): void {
    keep(this.subtitle, { textContent: text, title: text });
  }

  /** A line below the drawing, and numbers, each with a model's colour before it; a part that says the same does the same. */
  readout(title: string, parts: Part[]): void {
    const said = JSON.stringify([title, parts]);
    if (said === this.said) return;
    this.said = said;
    if (title === "" && parts.length === 0) this.footer.replaceChildren();
    else this.footer.replaceChildren(el("span", { class: "quiet" }, title), ...parts.map(({ colour, text, go }) => el("span", {}, swatch(colour), text, go ? el("button", { type: "button", "aria-label": go.title, title: go.title, onclick: go.on }, go.name) : null)));
  }

  private turn(state: string, sentence: string, again = false): void {
    keep(this.node.dataset, { state });
    keep(this.text, { textContent: sentence });
    keep(this.again, { hidden: !again });
  }
}
