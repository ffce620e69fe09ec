import { el } from "../dom";
import { count, date } from "../format";
import type { Page } from "../page";
import { START } from "../state";
import type { Store } from "../store";
import type { RunIndex, RunState } from "../types";

const KINDS: Record<string, string> = { orbits: "Orbits", audit: "Audit", report: "Report", damaged: "Damaged" };

/** How far a run is, in a few words. */
function said(state: RunState | null): string {
  if (state === null) return "";
  if (state.stage === "done") return "done";
  if (state.stage === "failures") return `finished, ${state.failed} of ${count(state.cells, state.unit)} failed`;
  return `${state.stage}, ${state.measured} of ${count(state.cells, state.unit)}`;
}

/** Every run below the folder that is shown. */
export function runsPage(index: RunIndex, store: Store): Page {
  const rows = index.runs.map((run) => {
    const open = (event: Event): void => {
      event.preventDefault();
      store.set({ ...START, theme: store.state.theme, run: run.id });
    };
    const link = el("a", { href: `#run=${encodeURIComponent(run.id)}`, onclick: open }, run.title || run.path);
    return el(
      "tr",
      { "data-testid": `run-${run.id}` },
      el("td", {}, link),
      el("td", {}, KINDS[run.kind] ?? run.kind),
      el("td", { "data-stage": run.state?.stage ?? null, title: run.state?.sentence ?? null }, run.why ?? said(run.state)),
      el("td", {}, date(run.created)),
      el("td", { class: "quiet" }, run.path),
    );
  });
  const head = el("tr", {}, ...["Run", "Kind", "State", "Made", "Folder"].map((name) => el("th", { scope: "col" }, name)));
  const table = el("table", { class: "runs" }, el("thead", {}, head), el("tbody", {}, ...rows));
  const none = el("p", {}, "There is no run in this folder yet. A recipe or an evaluation makes one.");
  const node = el("div", { class: "narrow", "data-testid": "runs" }, el("h1", {}, count(index.runs.length, "run")), rows.length > 0 ? table : none);
  return { node, render: () => undefined, key: () => false, destroy: () => undefined };
}
