import { el, keep } from "./dom";
import type { RunState } from "./types";

const REFRESHES = "This page refreshes itself.";

/** The line above a run's page: how far it has come. */
export class Banner {
  readonly node = el("p", { class: "banner", "data-testid": "banner", role: "status", hidden: true });

  /** `quiet` leaves out what is done; `live` says that the page will change by itself. */
  show(state: RunState | null | undefined, live: boolean, quiet = false): void {
    const hidden = !state || (quiet && state.stage === "done");
    keep(this.node, { hidden });
    if (!state || hidden) return;
    const more = state.stage === "running" && live ? REFRESHES : state.stage !== "done" ? (state.note ?? "") : "";
    keep(this.node.dataset, { stage: state.stage });
    keep(this.node, { textContent: more ? `${state.sentence}${state.sentence.endsWith(".") ? "" : "."} ${more}` : state.sentence });
  }

  hide(): void {
    keep(this.node, { hidden: true });
  }
}
