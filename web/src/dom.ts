import { swatchFill } from "./colour";

type Attributes = Record<string, string | number | boolean | null | ((event: Event) => void)>;

/** One element with attributes, listeners (`onclick: ...`) and children; text is only ever text. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  dress(node, attributes);
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** As `el`, in SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  dress(node, attributes);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function dress(node: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Sets properties that differ: one that is set to what it was already can lay the page out anew. */
export function keep<T extends object>(node: T, values: Partial<T>): void {
  for (const name of Object.keys(values) as (keyof T)[]) if (node[name] !== values[name]) node[name] = values[name] as T[keyof T];
}

/** As `keep`, of attributes. */
export function mark(node: Element, values: Record<string, string>): void {
  for (const [name, value] of Object.entries(values)) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** A small square of a model's colour. */
export function swatch(colour: string): HTMLElement {
  const node = el("i", { class: "swatch", "aria-hidden": "true" });
  node.style.background = swatchFill(colour);
  return node;
}

/** A drop-down list that keeps its place while its options change. */
export class Choice {
  readonly node: HTMLLabelElement;
  private readonly select: HTMLSelectElement;
  private known = "";

  constructor(name: string, id: string, chosen: (value: string) => void) {
    this.select = el("select", { "data-testid": id, "aria-label": name, onchange: () => chosen(this.select.value) });
    this.node = el("label", { class: "choice" }, el("span", {}, name), this.select);
  }

  update(options: readonly { value: string; text: string }[], value: string, disabled = false): void {
    const key = JSON.stringify(options);
    if (key !== this.known) {
      this.known = key;
      this.select.replaceChildren(...options.map((one) => el("option", { value: one.value }, one.text)));
    }
    keep(this.select, { value, disabled: disabled || options.length === 0 });
  }
}
