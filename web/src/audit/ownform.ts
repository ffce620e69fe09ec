import { Choice, el, keep } from "../dom";
import { count } from "../format";
import type { OwnForm } from "./types";

/** What is sent: the bytes, and how they should be read. */
export interface Sent {
  data: Blob;
  how: Record<string, string>;
  /** What it is called on the page. */
  name: string;
}

type ImageForm = Extract<OwnForm, { kind: "image" }>;
type TextForm = Extract<OwnForm, { kind: "text" }>;
type RowForm = Extract<OwnForm, { kind: "row" }>;

const INVERSION = [
  { value: "false", text: "as they are" },
  { value: "true", text: "invert them" },
];

/** How ImageNet's images are usually scaled, to begin with. */
const MEAN = { 1: "0.5", 3: "0.485, 0.456, 0.406" };
const STD = { 1: "0.5", 3: "0.229, 0.224, 0.225" };

/** The controls for an input, and what turns the inversion of an image around. */
export interface OwnControls {
  node: HTMLElement;
  invert: () => void;
}

/** `give` is called with whatever was given. */
export function ownForm(form: OwnForm, give: (sent: Sent) => void): OwnControls {
  const label = el("input", { type: "number", min: 0, step: 1, value: 0, "aria-label": "Class of your input", "data-testid": "own-label" });
  const labelled = form.label ? el("label", { class: "choice" }, el("span", {}, "Its class"), label) : null;
  const send = (data: Blob, name: string, how: Record<string, string> = {}): void => give({ data, name, how: form.label ? { ...how, label: label.value || "0" } : how });
  if (form.kind === "image") return imageForm(form, send, labelled);
  const node = form.kind === "text" ? textForm(form, send, labelled) : rowForm(form, send, labelled);
  return { node, invert: () => undefined };
}

type Send = (data: Blob, name: string, how?: Record<string, string>) => void;

function imageForm(form: ImageForm, send: Send, labelled: HTMLElement | null): OwnControls {
  const chosen = { size: "refuse", invert: "false", pixels: form.likely };
  let file: File | null = null;
  const again = (): void => {
    if (file === null) return;
    send(file, file.name, { ...chosen, ...(chosen.pixels === "standard" ? { mean: mean.value, std: std.value } : { mean: "", std: "" }) });
  };
  const take = (found: File | null | undefined): void => {
    if (!found) return;
    file = found;
    again();
  };
  const picker = el("input", { type: "file", accept: "image/png,image/jpeg", "data-testid": "own-file", "aria-label": "Choose a PNG or JPEG image", onchange: () => take(picker.files?.[0]) });
  const wanted = `${form.width} × ${form.height} pixels, ${form.mode}`;
  const zone = el("label", { class: "own-drop", "data-testid": "own-drop" }, el("span", {}, "Drop a PNG or JPEG image here, or choose one. ", el("span", { class: "quiet" }, `The model takes ${wanted}.`)), picker);
  const over = (event: Event, on: boolean): void => {
    event.preventDefault();
    zone.dataset.over = String(on);
  };
  zone.addEventListener("dragover", (event) => over(event, true));
  zone.addEventListener("dragleave", (event) => over(event, false));
  zone.addEventListener("drop", (event) => {
    over(event, false);
    const files = event.dataTransfer?.files;
    if (files === undefined || files.length === 0) return;
    picker.files = files;
    take(files[0]);
  });
  const channels = form.mode === "grey" ? 1 : 3;
  const field = (name: string, id: string, value: string): HTMLInputElement => el("input", { value, size: channels === 1 ? 6 : 20, "aria-label": name, "data-testid": id, onchange: again });
  const [mean, std] = [field("Mean of pixels", "own-mean", MEAN[channels]), field("Standard deviation of pixels", "own-std", STD[channels])];
  const scaled = el("span", { class: "choice", hidden: chosen.pixels !== "standard" }, el("span", {}, "mean"), mean, el("span", {}, "std"), std);
  const sizes = new Choice("Other sizes and colours", "own-size", (size) => {
    chosen.size = size;
    again();
  });
  const pixels = new Choice("Pixels become", "own-pixels", (value) => {
    chosen.pixels = value;
    keep(scaled, { hidden: value !== "standard" });
    again();
  });
  const setInversion = (invert: string): void => {
    chosen.invert = invert;
    inversion.update(INVERSION, invert);
    again();
  };
  const inversion = new Choice("Light and dark", "own-invert", setInversion);
  inversion.update(INVERSION, chosen.invert);
  sizes.update(form.sizes, chosen.size);
  pixels.update(form.pixels, chosen.pixels);
  const told = form.pixels.length > 0 ? el("p", { class: "quiet" }, "The audit does not say how its images became numbers: check that pixels become what your model was trained on.") : null;
  const node = el("div", { class: "own-form" }, zone, el("div", { class: "own-tools" }, sizes.node, inversion.node, form.pixels.length > 0 ? pixels.node : null, scaled, labelled), told);
  return { node, invert: () => setInversion(chosen.invert === "true" ? "false" : "true") };
}

function textForm(form: TextForm, send: Send, labelled: HTMLElement | null): HTMLElement {
  const most = form.tokens === null ? "" : ` The model takes ${count(form.tokens, "token")}.`;
  const text = el("textarea", { rows: 3, "aria-label": "Your text", placeholder: "Type or paste a text", "data-testid": "own-text" });
  const go = (): void => send(new Blob([text.value], { type: "text/plain" }), "Your text");
  return typed(text, `A text of your own.${most}`, go, labelled);
}

function rowForm(form: RowForm, send: Send, labelled: HTMLElement | null): HTMLElement {
  const { columns } = form;
  const line = (cells: readonly string[]): string => cells.map((one) => (/[",;\s]/.test(one) ? `"${one.replaceAll('"', '""')}"` : one)).join(", ");
  const text = el("textarea", { rows: 2, "aria-label": "The row", "data-testid": "own-row" });
  text.value = line(form.first);
  const go = (): void => send(new Blob([text.value], { type: "text/plain" }), "Your row");
  const told = `One row of ${count(columns.length, "column")}, in their order, with commas or tabs between them. It begins as the first audited row.`;
  const node = typed(text, told, go, labelled);
  if (!form.fields) return node;
  const fields = columns.map(({ name, levels }, i) => {
    const change = (): void => {
      text.value = line(fields.map((one) => one.value));
    };
    const attributes = { "aria-label": name, "data-testid": `own-field-${i}` };
    const field = levels === null ? el("input", { ...attributes, inputmode: "decimal", oninput: change }) : el("select", { ...attributes, onchange: change }, ...levels.map((level) => el("option", { value: level }, level)));
    field.value = form.first[i];
    return field;
  });
  text.addEventListener("input", () => {
    const cells = cellsOf(text.value);
    if (cells.length === fields.length) fields.forEach((field, i) => keep(field as HTMLInputElement, { value: cells[i] }));
  });
  const grid = columns.map(({ name }, i) => el("label", {}, el("span", { class: "quiet" }, name), fields[i]));
  node.prepend(el("div", { class: "own-fields" }, ...grid));
  return node;
}

/** The cells of a row as the fields show them; the server reads the row itself. */
function cellsOf(text: string): string[] {
  const divider = /[\t;,]/.exec(text)?.[0] ?? " ";
  return text.trim().split(divider).map((one) => one.trim().replace(/^"(.*)"$/, "$1"));
}

function typed(text: HTMLTextAreaElement, told: string, go: () => void, labelled: HTMLElement | null): HTMLElement {
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go();
  });
  const button = el("button", { type: "button", "data-testid": "own-explain", onclick: go }, "Explain it");
  return el("div", { class: "own-form" }, el("p", { class: "quiet" }, told), text, el("div", { class: "own-tools" }, labelled, button));
}
