import { el } from "../dom";
import type { Page } from "../page";

/** A run's own report, in a frame that can neither run scripts nor reach the page around it. */
export function reportPage(title: string, address: string | null, back: (() => void) | null): Page {
  const node = el("div", { class: "framed", "data-testid": "report" });
  if (back !== null) node.append(el("button", { type: "button", class: "back", onclick: back }, "← Back to the scores"));
  if (address === null) node.append(el("p", {}, "This file does not hold the report."));
  else node.append(el("iframe", { src: address, sandbox: "", referrerpolicy: "no-referrer", title: `Report: ${title}` }));
  return { node, render: () => undefined, key: () => false, destroy: () => undefined };
}
