import { el } from "../dom";

const KNOWN = "veracity.dragged";

/** Shows on the first visit how to move along an orbit, until somebody does; later visits do without. */
export class Gesture {
  private readonly node = el(
    "p",
    { class: "gesture", "data-testid": "gesture" },
    el("i", { class: "gesture-dot", "aria-hidden": "true" }),
    el("span", {}, "Drag along the plot or press the arrow keys: the input moves."),
  );

  constructor(tools: HTMLElement) {
    if (!remembered()) tools.append(this.node);
  }

  /** Somebody moves along the orbit; the room of the words stays until they let go, so that the plot does not slip from under them. */
  done(final: boolean): void {
    if (!this.node.isConnected) return;
    this.node.style.visibility = "hidden";
    if (!final) return;
    this.node.remove();
    try {
      localStorage.setItem(KNOWN, "yes");
    } catch {
      return; // a browser that keeps nothing shows it again
    }
  }
}

function remembered(): boolean {
  try {
    return localStorage.getItem(KNOWN) !== null;
  } catch {
    return false;
  }
}
