import { el, mark } from "./dom";
import type { Store } from "./store";

/** The button in a panel's head that lets it fill the window, and puts it back. */
export function enlarger(id: string, title: string): HTMLButtonElement {
  const said = `Enlarge ${title}`;
  return el("button", { type: "button", class: "enlarge", "data-enlarge": id, "data-testid": `${id}-enlarge`, "aria-label": said, title: `${said} (Escape: back)`, "aria-pressed": "false" }, "⤢");
}

/** Lets one panel of a page fill the window; which one stands in the address. */
export class Large {
  constructor(
    private readonly root: HTMLElement,
    private readonly store: Store,
  ) {
    root.addEventListener("click", (event) => {
      const id = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-enlarge]")?.dataset.enlarge : undefined;
      if (id !== undefined) store.set({ large: store.state.large === id ? null : id });
    });
  }

  render(large: string | null): void {
    const panels = [...this.root.querySelectorAll<HTMLElement>("[data-enlarge]")].map((button) => ({ button, panel: button.closest<HTMLElement>("[data-testid]:not(button)")! }));
    const chosen = panels.find(({ button }) => button.dataset.enlarge === large)?.panel ?? null;
    for (const { button, panel } of panels) {
      mark(button, { "aria-pressed": String(panel === chosen) });
      panel.classList.toggle("large", panel === chosen);
    }
    document.documentElement.classList.toggle("covered", chosen !== null);
  }

  /** Escape puts the panel back. */
  key(event: KeyboardEvent): boolean {
    if (event.key !== "Escape" || this.store.state.large === null) return false;
    this.store.set({ large: null });
    return true;
  }

  close(): void {
    document.documentElement.classList.remove("covered");
  }
}
