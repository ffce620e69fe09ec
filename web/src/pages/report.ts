import { el } from "../dom";
import type { Page } from "../page";
import type { RunMeta } from "../types";

/** Milliseconds between two times that a report is loaded again while its run goes on: a reader loses the place by it. */
const PAUSE = 10000;

/** A run's own report, in a frame that can neither run scripts nor reach the page around it. */
export function reportPage(title: string, address: string | null, back: (() => void) | null): Page {
  const node = el("div", { class: "framed", "data-testid": "report" });
  if (back !== null) node.append(el("button", { type: "button", class: "back", onclick: back }, "← Back to the scores"));
  if (address === null) node.append(el("p", {}, "This file does not hold the report."));
  const frame = address === null ? null : el("iframe", { src: address, sandbox: "", referrerpolicy: "no-referrer", title: `Report: ${title}` });
  if (frame !== null) node.append(frame);
  let loaded = performance.now();
  const refresh = (meta: RunMeta): boolean => {
    const now = performance.now();
    if (frame !== null && address !== null && (meta.state?.stage !== "running" || now - loaded > PAUSE)) {
      loaded = now;
      frame.src = address;
    }
    return true;
  };
  return { node, render: () => undefined, key: () => false, destroy: () => undefined, refresh };
}
