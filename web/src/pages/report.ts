import { el } from "../dom";
import type { Page } from "../page";
import { START } from "../state";
import type { Store } from "../store";
import type { RunMeta } from "../types";

/** Milliseconds between two times that a report is loaded again while its run goes on: a reader loses the place by it. */
const PAUSE = 10000;

/** Links to the pages of a study's runs; null without any. */
export function partLinks(parts: readonly { id: string; name: string }[], store: Store): HTMLElement | null {
  if (parts.length === 0) return null;
  const links = parts.map(({ id, name }) => {
    const open = (event: Event): void => {
      event.preventDefault();
      store.set({ ...START, theme: store.state.theme, run: id });
    };
    return el("a", { href: `#run=${encodeURIComponent(id)}`, onclick: open }, name);
  });
  return el("nav", { class: "parts", "aria-label": "Parts", "data-testid": "parts" }, el("span", { class: "quiet" }, "Parts"), ...links);
}

/**
 * A run's own report, in a frame that can neither run scripts nor reach the page around it. Links to the reports of its parts open in the
 * frame; the line above leads to the pages of the parts. A frame is cut on paper, so the report also opens on its own.
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
  const away = el("button", { type: "button", hidden: true, "data-testid": "first-report", onclick: load }, `← Back to the report “${title}”`);
  frame?.addEventListener("load", () => {
    if (document.activeElement === document.body) frame.focus({ preventScroll: true }); // so that keys scroll the report
    if (expected > 0) expected--;
    else away.hidden = false;
  });
  const scores = back === null ? null : el("button", { type: "button", onclick: back }, "← Back to the scores");
  const other = compare === null ? null : el("button", { type: "button", "data-testid": "compare-runs", onclick: compare }, "Compare with another run");
  const alone = address === null ? null : el("a", { href: address, target: "_blank", rel: "noreferrer", "data-testid": "report-alone" }, "Open on its own");
  node.append(el("div", { class: "framed-bar" }, scores, partLinks(parts, store), el("span", { class: "framed-tools" }, away, alone, other)));
  if (frame === null) node.append(el("p", {}, "This file does not hold the report."));
  else node.append(frame, el("p", { class: "on-paper" }, "To print this report, choose “Open on its own” above it, and print from there."));
  const refresh = (meta: RunMeta): boolean => {
    if (meta.state?.stage !== "running" || performance.now() - loaded > PAUSE) load();
    return true;
  };
  return { node, render: () => undefined, key: () => false, destroy: () => undefined, refresh };
}
