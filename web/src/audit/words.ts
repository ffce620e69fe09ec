import type { Loaded } from "../cache";
import { el, keep } from "../dom";
import { refill } from "./board";
import type { ScoreWords } from "./types";

/** What the chosen score says of this run, what it is, and what it assumes, marked where that does not hold: at the top of the page. */
export class Words {
  readonly node: HTMLElement;
  private readonly answer = el("p", { class: "run-answer", "data-testid": "answer" });
  private readonly about = el("p", { class: "quiet", "data-testid": "definition" });
  private readonly assumptions = el("ul", { "data-testid": "assumptions" });
  private readonly button: HTMLButtonElement;

  constructor(ask: () => void) {
    this.button = el("button", { type: "button", "data-testid": "say", onclick: ask }, "Say what this score says");
    this.node = el("section", { class: "words", "aria-label": "What the score says", "aria-live": "polite" }, this.answer, this.button, this.about, this.assumptions);
  }

  /** Of very many samples, the words are only made when somebody asks: null until then. */
  render(found: Loaded<ScoreWords> | null, title: string, symmetry: string): void {
    keep(this.node.dataset, { state: found?.state ?? "none" });
    keep(this.button, { hidden: found !== null });
    for (const part of [this.answer, this.about, this.assumptions]) keep(part, { hidden: found === null });
    if (found === null) return;
    const words = found.state === "ready" ? found.value : null;
    const said = found.state === "loading" ? "Reading what the score says…" : found.state === "error" ? found.error.message : found.value.answer.join(" ");
    keep(this.answer, { textContent: said, hidden: said === "" });
    const asked = symmetry === "" ? "" : ` Symmetries are those of ${symmetry}.`;
    keep(this.about, { textContent: words === null ? "" : `${title}: ${[words.definition, ...words.settings].join(" ")}${asked}` });
    refill(this.assumptions, ...(words?.assumptions ?? []).map(({ text, fails }) => el("li", { class: fails ? "fails" : null }, text)));
    keep(this.assumptions, { hidden: (words?.assumptions ?? []).length === 0 });
  }
}
