// Colours: one hue a model, a sequential scale for values, a diverging one for attributions, and the theme's own inks.

/** Okabe and Ito's colours (without yellow and black, which one of the themes would swallow), blue and purple first. */
export const PALETTE = ["#0072b2", "#cc79a7", "#009e73", "#d55e00", "#e69f00", "#56b4e9", "#8a8f98"];

/** Seven more for those who compare many models: their lines are dashed and their swatches striped. */
const MORE = ["#8064d6", "#7f8f1c", "#b0643c", "#149c9c", "#c9436f", "#5c9150", "#5b84b8"];

export function modelColour(index: number): string {
  return [...PALETTE, ...MORE][index % (PALETTE.length + MORE.length)];
}

/** The dashes of a model's lines, null where they are drawn through. */
export function dashOf(colour: string): string | null {
  return MORE.includes(colour) ? "5 3" : null;
}

/** A background for the swatch of a model's colour. */
export function swatchFill(colour: string): string {
  return dashOf(colour) === null ? colour : `linear-gradient(90deg, ${colour} 0 40%, transparent 40% 60%, ${colour} 60%)`;
}

const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const BLUE_TO_RED = ["#053061", "#2166ac", "#67a9cf", "#d9d9d9", "#ef8a62", "#b2182b", "#67001f"];
const SHADES = 256;

type Rgb = [number, number, number];

function rgb(hex: string): Rgb {
  const bits = parseInt(hex.slice(1), 16);
  return [bits >> 16, (bits >> 8) & 255, bits & 255];
}

/** Whether a hue is so light that text on it has to be dark. */
export function bright(hex: string): boolean {
  const [red, green, blue] = rgb(hex);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 165;
}

/** The stops joined by straight lines: 256 shades, three bytes each. */
function ramp(stops: string[]): Uint8ClampedArray {
  const colours = stops.map(rgb);
  const shades = new Uint8ClampedArray(3 * SHADES);
  for (let shade = 0; shade < SHADES; shade++) {
    const place = (shade / (SHADES - 1)) * (colours.length - 1);
    const left = Math.min(Math.floor(place), colours.length - 2);
    for (let part = 0; part < 3; part++) {
      shades[3 * shade + part] = colours[left][part] + (place - left) * (colours[left + 1][part] - colours[left][part]);
    }
  }
  return shades;
}

const SEQUENTIAL = ramp(VIRIDIS);
const DIVERGING = ramp(BLUE_TO_RED);

function shadeOf(fraction: number): number {
  return Math.round(Math.min(1, Math.max(0, fraction)) * (SHADES - 1));
}

/** Where a value lies in a range, 0 to 1 within it; NaN stays NaN, and a range without width is its own middle. */
export function fractionOf(value: number, [low, high]: [number, number]): number {
  return high > low ? (value - low) / (high - low) : value - value + 0.5;
}

/** The sequential scale's colour of a fraction 0 (dark blue) to 1 (yellow). */
export function sequential(fraction: number): string {
  const at = 3 * shadeOf(fraction);
  return `rgb(${SEQUENTIAL[at]}, ${SEQUENTIAL[at + 1]}, ${SEQUENTIAL[at + 2]})`;
}

/** The diverging scale's colour of a fraction -1 (blue) to 1 (red). */
export function diverging(fraction: number): string {
  const at = 3 * shadeOf((fraction + 1) / 2);
  return `rgb(${DIVERGING[at]}, ${DIVERGING[at + 1]}, ${DIVERGING[at + 2]})`;
}

/** Values as opaque pixels of the sequential scale; undefined ones stay transparent. */
export function valuePixels(values: ArrayLike<number>, range: [number, number]): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(4 * values.length);
  for (let i = 0; i < values.length; i++) {
    const fraction = fractionOf(values[i], range);
    if (Number.isNaN(fraction)) continue;
    const from = 3 * shadeOf(fraction);
    pixels[4 * i] = SEQUENTIAL[from];
    pixels[4 * i + 1] = SEQUENTIAL[from + 1];
    pixels[4 * i + 2] = SEQUENTIAL[from + 2];
    pixels[4 * i + 3] = 255;
  }
  return pixels;
}

/** An attribution as pixels of the diverging scale, as opaque as it is large beside its own greatest entry. */
export function attributionPixels(map: Float32Array): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(4 * map.length);
  let most = 0;
  for (const value of map) most = Math.max(most, Number.isNaN(value) ? 0 : Math.abs(value));
  for (let i = 0; i < map.length; i++) {
    const share = most > 0 ? map[i] / most : 0;
    if (Number.isNaN(share)) continue;
    const from = 3 * shadeOf((share + 1) / 2);
    pixels[4 * i] = DIVERGING[from];
    pixels[4 * i + 1] = DIVERGING[from + 1];
    pixels[4 * i + 2] = DIVERGING[from + 2];
    pixels[4 * i + 3] = 255 * Math.min(1, 1.5 * Math.abs(share));
  }
  return pixels;
}

/** The theme's inks as the style sheet gives them: a canvas cannot read CSS variables by itself. */
export interface Theme {
  ink: string;
  muted: string;
  grid: string;
  surface: string;
  gap: string;
  cursor: string;
}

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(`--plot-${name}`).trim();
  return { ink: read("ink"), muted: read("muted"), grid: read("grid"), surface: read("surface"), gap: read("gap"), cursor: read("cursor") };
}

/** Call back whenever light turns to dark or dark to light, or the screen to paper; returns how to stop. */
export function onTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "data-printing"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}
