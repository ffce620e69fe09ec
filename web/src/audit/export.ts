import { el, svg } from "../dom";

export type Table = (string | number | null)[][];

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "image-rendering"];
const WIDTH = 720;

/** A table as CSV, in full precision; a text that a spreadsheet would take for a formula is quoted away. */
export function toCsv(table: Table): string {
  const cell = (value: string | number | null): string => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${table.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

/** Saves a table; `fail` gets the reason if it cannot be made or fetched. */
export async function saveCsv(name: string, made: () => Table | Promise<string> | null, fail: (reason: string) => void): Promise<void> {
  try {
    const table = made();
    if (table !== null) save(`${name}.csv`, "text/csv", Array.isArray(table) ? toCsv(table) : await table);
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

/** Saves a drawing with the styles that it has on the page, on the page's own ground. */
export function saveSvg(name: string, drawing: SVGSVGElement | null): void {
  if (drawing === null) return;
  const shown = drawing.isConnected;
  const stage = el("div", { class: "stage-unseen", "aria-hidden": "true" });
  if (!shown) {
    stage.append(drawing);
    document.querySelector("main")?.append(stage);
  }
  const box = drawing.getBoundingClientRect();
  const [width, height] = shown || box.width > 0 ? [Math.round(box.width) || WIDTH, Math.round(box.height)] : [WIDTH, 400];
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const property of COPIED) to[i].setAttribute(property, style.getPropertyValue(property));
    to[i].removeAttribute("class");
  });
  stage.remove();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--card").trim() || "#ffffff";
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: ground }));
  save(`${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}

function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: name.replace(/[^\w.-]+/g, "-"), hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Lines of Python that load what is chosen. */
export function snippet(folder: string, model: string, explainer: string, score: string, sample: number | null): string {
  const name = (text: string): string => JSON.stringify(text);
  const lines = [
    "import veracity",
    "",
    `run = veracity.Result(${name(folder)})`,
    "table = run.table()",
    `samples = run.samples(${name(score)})`,
    `chosen = samples[(samples["model"] == ${name(model)}) & (samples["explainer"] == ${name(explainer)})]`,
  ];
  if (sample !== null) lines.push(`print(chosen[chosen["sample"] == ${sample}])`);
  if (explainer && sample !== null) lines.push(`explanation = run.explanations(${name(model)}, ${name(explainer)})[${sample}]`);
  return lines.join("\n");
}

/** Copies a text; where the browser refuses, false. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
