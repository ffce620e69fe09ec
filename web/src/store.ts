import { fromHash, toHash, type State } from "./state";

/** How a change enters the history: as a step of its own, in place of the last one, or in place of it, but not at once if that was just done. */
export type How = "push" | "replace" | "soon";

const SOON = 300;

/** Holds the one state, tells who listens, and keeps the page's address in step. */
export class Store {
  private current = fromHash(location.hash);
  private readonly listeners: ((state: State) => void)[] = [];
  private timer = 0;
  private written = -SOON;

  constructor() {
    window.addEventListener("popstate", () => {
      window.clearTimeout(this.timer);
      this.current = fromHash(location.hash);
      this.tell();
    });
  }

  get state(): State {
    return this.current;
  }

  listen(listener: (state: State) => void): void {
    this.listeners.push(listener);
  }

  set(patch: Partial<State>, how: How = "push"): void {
    this.current = { ...this.current, ...patch };
    window.clearTimeout(this.timer);
    const wait = how === "soon" ? this.written + SOON - performance.now() : 0;
    if (wait > 0) this.timer = window.setTimeout(() => this.later(), wait);
    else if (how === "soon") this.later();
    else this.write(how);
    this.tell();
  }

  /** Browsers refuse an address that changes too often. */
  private later(): void {
    this.written = performance.now();
    this.write("replace");
  }

  private write(how: "push" | "replace"): void {
    const hash = toHash(this.current);
    if (hash === location.hash) return;
    try {
      if (how === "push") history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    } catch {
      return; // a page within another one, as in a notebook, has no address of its own
    }
  }

  private tell(): void {
    for (const listener of this.listeners) listener(this.current);
  }
}
