import { el } from "../dom";
import type { Page } from "../page";
import { START } from "../state";
import type { Store } from "../store";
import type { RunMeta } from "../types";

/** Milliseconds between two times that a report is loaded again while its run goes on: a reader loses the place by it. */
const PAUSE = 10000;

/**
 * A run's own report, in a frame that can neither run scripts nor reach the page around it. Links to the reports of its parts open in the
 * frame; the line above leads to the pages of the parts.
 */
export function reportPage(title: string, address: string | null, back: (() => void) | null, parts: readonly { id: string; name: string }[], store: Store, compare: (() => void) | null = null): Page {
  const node = el("main", { class: "framed", "data-testid": "report" }, el("h1", { class: "unseen" }, title));
  const frame = address === null ? null : el("iframe", { src: address, sandbox: "", referrerpolicy: "no-referrer", title: `Report: ${title}` });
  let loaded = performance.now();
  let expected = 1;
  const load = (): void => {
    if (frame === null || address === null) return;
    loaded = performance.now();
    expected++;
    frame.src = address;
    away.hidden = true;
  };
  const away = el("button", { type: "button", class: "back", hidden: true, "data-testid": "first-report", onclick: load }, `← Back to the report “${title}”`);
  frame?.addEventListener("load", () => {
    if (expected > 0) expected--;
    else away.hidden = false;
  });
  const links = parts.map(({ id, name }) => {
    const open = (event: Event): void => {
      event.preventDefault();
      store.set({ ...START, theme: store.state.theme, run: id });
    };
    return el("a", { href: `#run=${encodeURIComponent(id)}`, onclick: open }, name);
  });
  if (back !== null) node.append(el("button", { type: "button", class: "back", onclick: back }, "← Back to the scores"));
  const other = compare === null ? null : el("button", { type: "button", class: "back", "data-testid": "compare-runs", onclick: compare }, "Compare with another run");
  if (links.length > 0) node.append(el("nav", { class: "parts", "aria-label": "Parts", "data-testid": "parts" }, el("span", { class: "quiet" }, "Parts"), ...links, away, other));
  else node.append(away, ...(other === null ? [] : [other]));
  if (address === null) node.append(el("p", {}, "This file does not hold the report."));
  if (frame !== null) node.append(frame);
  const refresh = (meta: RunMeta): boolean => {
    if (meta.state?.stage !== "running" || performance.now() - loaded > PAUSE) load();
    return true;
  };
  return { node, render: () => undefined, key: () => false, destroy: () => undefined, refresh };
}
