// Student's t: how wide an interval about a mean of few values has to be.

/** More degrees of freedom are taken from the normal quantile and the first term of its expansion in 1 / n, exact to five digits. */
const MOST = 1000;
const HALVINGS = 60;

/** How probable |T| <= sqrt(n) tan(angle) is for n degrees of freedom: a finite sum, exact for whole n. */
function within(angle: number, n: number): number {
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const odd = n % 2;
  let term = odd ? cos : 1;
  let sum = n > 1 ? term : 0;
  for (let j = odd; j + 2 < n; j += 2) {
    term *= (cos * cos * (j + 1)) / (j + 2);
    sum += term;
  }
  return odd ? (2 / Math.PI) * (angle + sin * sum) : sin * sum;
}

const known = new Map<string, number>();

/** How many standard errors a two-sided interval of this level reaches, for whole degrees of freedom from 1 on. */
export function tQuantile(confidence: number, freedom: number): number {
  if (freedom > MOST) {
    const z = normalQuantile(confidence);
    return z * (1 + (z * z + 1) / (4 * freedom));
  }
  const n = freedom;
  const key = `${confidence} ${n}`;
  const found = known.get(key) ?? Math.sqrt(n) * Math.tan(angleOf(confidence, n));
  known.set(key, found);
  return found;
}

/** How many standard deviations a two-sided interval of this level reaches for a normal number. */
export function normalQuantile(confidence: number): number {
  const t = tQuantile(confidence, MOST);
  let z = t;
  for (let i = 0; i < 4; i++) z = t / (1 + (z * z + 1) / (4 * MOST));
  return z;
}

function angleOf(confidence: number, n: number): number {
  let [low, high] = [0, Math.PI / 2];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2;
    if (within(middle, n) < confidence) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
