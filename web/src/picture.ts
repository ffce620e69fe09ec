import { svg } from "./dom";
import { dressed } from "./save";

/** What can only be pressed is no part of a picture. */
const LEFT_OUT = "button, select, input, details, [hidden], .unseen, .message, .plot-readout, .gesture";

/** A part of the page as one drawing: pixels as images, drawings as they are, and words where they stand. */
export function pictureOf(node: HTMLElement): SVGSVGElement {
  const frame = node.getBoundingClientRect();
  const made = svg("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width, height: frame.height });
  const place = (box: DOMRect): { x: number; y: number; width: number; height: number } => {
    return { x: box.x - frame.x, y: box.y - frame.y, width: box.width, height: box.height };
  };
  const outside = (box: DOMRect): boolean => box.top >= frame.bottom || box.bottom <= frame.top || box.left >= frame.right;

  function walk(element: Element): void {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (element.matches(LEFT_OUT) || style.visibility === "hidden" || box.width === 0 || outside(box)) return;
    if (element instanceof HTMLCanvasElement) return made.append(svg("image", { ...place(box), href: element.toDataURL() }));
    if (element instanceof SVGSVGElement) return drawing(element, box);
    if (element !== node && !clear(style.backgroundColor)) made.append(svg("rect", { ...place(box), fill: style.backgroundColor }));
    for (const child of element.childNodes) {
      if (child instanceof Element) walk(child);
      else if (child instanceof Text) words(child, style);
    }
  }

  function drawing(element: SVGSVGElement, box: DOMRect): void {
    const copy = dressed(element);
    for (const [name, value] of Object.entries(place(box))) copy.setAttribute(name, String(value));
    if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    made.append(copy);
  }

  /** The lines of a text, each at its place. */
  function words(text: Text, style: CSSStyleDeclaration): void {
    const range = document.createRange();
    const lines = new Map<number, { x: number; bottom: number; text: string }>();
    for (const { index, 0: word } of (text.textContent ?? "").matchAll(/\S+\s*/g)) {
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const box = range.getClientRects()[0];
      if (box === undefined || outside(box)) continue;
      const line = lines.get(Math.round(box.top)) ?? { x: box.x - frame.x, bottom: box.bottom - frame.y, text: "" };
      lines.set(Math.round(box.top), { ...line, text: line.text + word });
    }
    const font = { "font-size": style.fontSize, "font-weight": style.fontWeight, "font-family": style.fontFamily, fill: style.color };
    for (const line of lines.values()) made.append(svg("text", { x: line.x, y: line.bottom - 0.25 * parseFloat(style.fontSize), ...font }, line.text.trimEnd()));
  }

  walk(node);
  return made;
}

function clear(colour: string): boolean {
  return colour === "transparent" || colour.endsWith(", 0)");
}
