import { el, svg } from "./dom";

export type Table = (string | number | null)[][];

const COPIED = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity"],
  ...["visibility", "font-size", "font-weight", "font-family", "text-anchor", "image-rendering"],
];
const WIDTH = 720;
const SHARPNESS = 2;
/** A line of a caption, the margin around it, and how wide a letter may be, in pixels. */
const [LINE, MARGIN, LETTER] = [18, 10, 7.5];

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
    if (table !== null) save(`${name}.csv`, new Blob([Array.isArray(table) ? toCsv(table) : await table], { type: "text/csv" }));
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

/** A drawing as a file's text: with the styles that it has on the page, on the page's own ground. */
function standalone(drawing: SVGSVGElement, caption: string): { text: string; width: number; height: number } {
  const shown = drawing.isConnected;
  const stage = el("div", { class: "stage-unseen", "aria-hidden": "true" });
  if (!shown) {
    stage.append(drawing);
    document.querySelector("main")?.append(stage);
  }
  const box = drawing.getBoundingClientRect();
  const [width, height] = shown || box.width > 0 ? [Math.round(box.width) || WIDTH, Math.round(box.height)] : [WIDTH, 400];
  const [, , across, down] = shown ? [] : (drawing.getAttribute("viewBox") ?? "").split(" ").map(Number);
  const tall = across > 0 && down > 0 ? Math.round((width * down) / across) : height; // without empty bands above and below
  const copy = dressed(drawing);
  stage.remove();
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(tall));
  const styles = getComputedStyle(document.body);
  const lines = wrapped(caption, width);
  const head = lines.length === 0 ? 0 : lines.length * LINE + MARGIN;
  copy.setAttribute("y", String(head));
  const whole = head === 0 ? copy : svg("svg", { width, height: tall + head, viewBox: `0 0 ${width} ${tall + head}` });
  if (whole !== copy) whole.append(copy);
  const font = { "font-size": 13, "font-weight": 600, "font-family": styles.fontFamily, fill: styles.getPropertyValue("--ink").trim() || "#000000" };
  whole.prepend(svg("rect", { width: "100%", height: "100%", fill: styles.getPropertyValue("--card").trim() || "#ffffff" }), ...lines.map((line, i) => svg("text", { x: MARGIN, y: (i + 1) * LINE, ...font }, line)));
  whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return { text: new XMLSerializer().serializeToString(whole), width, height: tall + head };
}

/** A caption in lines that fit, by a generous width of letters. */
function wrapped(caption: string, width: number): string[] {
  const most = Math.max(8, Math.floor((width - 2 * MARGIN) / LETTER));
  const lines: string[] = [];
  for (const word of caption.split(/\s+/).filter(Boolean)) {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A copy of a drawing that needs no style sheet. */
export function dressed(drawing: SVGSVGElement): SVGSVGElement {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const property of COPIED) to[i].setAttribute(property, style.getPropertyValue(property));
    to[i].removeAttribute("class");
  });
  return copy;
}

export function saveSvg(name: string, drawing: SVGSVGElement | null, caption = ""): void {
  if (drawing !== null) save(`${name}.svg`, new Blob([standalone(drawing, caption).text], { type: "image/svg+xml" }));
}

/** Saves a drawing as pixels, twice as many each way as it has on the page. */
export async function savePng(name: string, drawing: SVGSVGElement | null, caption = ""): Promise<void> {
  if (drawing === null) return;
  const { text, width, height } = standalone(drawing, caption);
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: SHARPNESS * width, height: SHARPNESS * height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const pixels = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (pixels !== null) save(`${name}.png`, pixels);
}

function save(name: string, data: Blob): void {
  const address = URL.createObjectURL(data);
  const link = el("a", { href: address, download: name.replace(/[^\w.-]+/g, "-"), hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** What a panel can be saved as. */
export interface Exports {
  name: string;
  /** The panel as a drawing; null while there is nothing to draw. */
  svg: () => SVGSVGElement | null;
  csv: () => Table | Promise<string> | null;
  /** What stands above the drawing. */
  caption?: () => string;
}

/** The buttons that save a panel; `say` gets the reason if that cannot be done, and "" before every try. */
export function saveButtons(id: string, title: string, { name, svg: drawing, csv, caption }: Exports, say: (text: string) => void): HTMLButtonElement[] {
  const fail = (what: string, error: unknown): void => say(`The ${what} was not saved. ${error instanceof Error ? error.message : String(error)}`);
  const ways: [string, () => Promise<void>][] = [
    ["SVG", async () => saveSvg(name, drawing(), caption?.())],
    ["PNG", () => savePng(name, drawing(), caption?.()).catch((error: unknown) => fail("picture", error))],
    ["CSV", () => saveCsv(name, csv, (reason) => fail("table", reason))],
  ];
  return ways.map(([way, done]) => {
    const press = (): void => {
      say("");
      void done();
    };
    return el("button", { type: "button", "aria-label": `Save ${title} as ${way}`, "data-testid": `${id}-${way.toLowerCase()}`, onclick: press }, way);
  });
}
