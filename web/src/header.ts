import { Choice, el, keep } from "./dom";
import { help } from "./help";
import type { State, Theme } from "./state";
import { carried, START } from "./state";
import type { Store } from "./store";
import type { RunEntry, RunIndex } from "./types";

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const SAID: Record<Theme, string> = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

const LEVEL = 0.95;

/** The line at the top: which run, how the models are doing, theme and help. */
export class Header {
  readonly node: HTMLElement;
  /** The level of the shown run's intervals. */
  level = LEVEL;
  private readonly runs: Choice;
  private readonly theme: HTMLButtonElement;
  private readonly line = el("span", { class: "status", "data-testid": "status", role: "status", "aria-live": "polite" });
  private readonly home: HTMLAnchorElement;
  private known: readonly RunEntry[] = [];
  private now: string | null = null;
  private readonly title = el("strong", { class: "run-title" });

  constructor(private readonly store: Store) {
    this.runs = new Choice("Run", "run", (id) => this.go(id));
    this.theme = el("button", { type: "button", "data-testid": "theme", title: "Light, dark or as the system (t)", onclick: () => this.turn() });
    this.home = el("a", { href: "#", class: "brand", onclick: (event) => this.leave(event) }, "veracity");
    const asked = el("button", { type: "button", "data-testid": "help", "aria-label": "Help", title: "Keys and reading (?)", onclick: () => this.help() }, "?");
    this.node = el("header", { class: "top" }, this.home, this.title, this.runs.node, this.line, this.theme, asked);
  }

  /** Next theme: system, light, dark. */
  turn(): void {
    this.store.set({ theme: NEXT[this.store.state.theme] }, "replace");
  }

  help(): void {
    help(this.level);
  }

  render(state: State, index: RunIndex | null, run: string | null): void {
    const several = index !== null && index.runs.length > 1;
    keep(this.runs.node, { hidden: !several || run === null });
    [this.known, this.now] = [index?.runs ?? [], run];
    if (index !== null && run !== null) this.runs.update(runOptions(index.runs), run);
    keep(this.title, { textContent: index?.runs.length === 1 ? index.runs[0].title : "" });
    this.home.classList.toggle("linked", several && run !== null);
    keep(this.theme, { textContent: SAID[state.theme] });
  }

  /** What the models are doing, or nothing; `title` says it at length. */
  status(kind: "live" | "lost" | "note" | "failed" | "none", text: string, title = text): void {
    keep(this.line.dataset, { kind });
    keep(this.line, { textContent: text, title });
  }

  /** Shows another run; what is chosen stays as far as it fits there. */
  private go(id: string): void {
    const to = this.known.find((one) => one.id === id);
    if (to !== undefined) this.store.set(carried(this.store.state, this.known.find((one) => one.id === this.now), to));
  }

  private leave(event: Event): void {
    event.preventDefault();
    if (this.home.classList.contains("linked")) this.store.set({ ...START, theme: this.store.state.theme });
  }
}

/** Runs of one title are told apart by their folders. */
function runOptions(runs: readonly RunEntry[]): { value: string; text: string }[] {
  const times = new Map<string, number>();
  for (const { title } of runs) times.set(title, (times.get(title) ?? 0) + 1);
  return runs.map(({ id, title, path }) => ({ value: id, text: title && times.get(title) === 1 ? title : title && title !== path ? `${title} (${path})` : path }));
}
