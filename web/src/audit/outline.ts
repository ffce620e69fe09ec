// An outline that was drawn by hand, with as few corners as keep its form.

export type Place = readonly [number, number];

/** The most corners of an outline: it stands in the address. */
const MOST = 48;

/** The outline without the corners that lie within some pixels of the line between their neighbours. */
export function simplified(outline: readonly Place[]): Place[] {
  let kept = thinned([...outline], 1);
  for (let slack = 2; kept.length > MOST; slack *= 1.5) kept = thinned([...outline], slack);
  return kept;
}

function thinned(line: readonly Place[], slack: number): Place[] {
  if (line.length < 3) return [...line];
  const [first, last] = [line[0], line[line.length - 1]];
  let [far, at] = [0, 0];
  for (let i = 1; i < line.length - 1; i++) {
    const distance = fromSegment(line[i], first, last);
    if (distance > far) [far, at] = [distance, i];
  }
  if (far <= slack) return [first, last];
  return [...thinned(line.slice(0, at + 1), slack).slice(0, -1), ...thinned(line.slice(at), slack)];
}

function fromSegment([x, y]: Place, [x0, y0]: Place, [x1, y1]: Place): number {
  const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
  const share = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length));
  return Math.hypot(x - x0 - share * (x1 - x0), y - y0 - share * (y1 - y0));
}

/** A number with as many decimals as a picture of this range shows. */
export function rounded(value: number, [low, high]: readonly [number, number]): number {
  const step = (high - low) / 4000;
  const decimals = step > 0 ? Math.min(20, Math.max(0, -Math.floor(Math.log10(step)))) : 6;
  return Number(value.toFixed(decimals));
}
