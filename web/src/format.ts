/** A number for reading: three significant digits, "–" where there is none. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(Number(value.toPrecision(digits)));
  if (size < 1e-3 || size >= 1e6) return value.toExponential(Math.max(0, digits - 2)).replaceAll("-", "−").replace("e+", "e");
  const places = Math.max(0, digits - 1 - Math.max(-1, Math.floor(Math.log10(size))));
  return value.toFixed(places).replace("-", "−");
}

/** A number from 0 to 1 for reading: what rounds to nothing is said to be small, in place of an exponent. */
export function share(value: number | null | undefined): string {
  return typeof value === "number" && value > 0 && value < 5e-4 ? "< 0.001" : number(value);
}

/** A probability as a percentage with three digits: "14.2 %", "< 0.1 %". */
export function chance(value: number | null | undefined): string {
  if (typeof value === "number" && value > 0 && value < 1e-3) return "< 0.1 %";
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : `${number(100 * value)} %`;
}

/** "0.912 (0.905 to 0.919)", with the unit behind. */
export function interval(value: number | null, low: number | null, high: number | null, unit = ""): string {
  const behind = unit ? ` ${unit}` : "";
  if (low === null || high === null) return `${number(value)}${behind}`;
  return `${number(value)} (${number(low)} to ${number(high)})${behind}`;
}

/** A share of one as a percentage: "95 %". */
export function percent(share: number): string {
  return `${Number((100 * share).toPrecision(6))} %`;
}

/** A share that is a bound from above, with three digits and never rounded down, as the report writes it: "11.3 %". */
export function ceiling(share: number): string {
  const step = share > 0 ? 10 ** (Math.floor(Math.log10(100 * share)) - 2) : 1;
  return `${Number((Math.ceil((100 * share) / step - 1e-9) * step).toPrecision(12))} %`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** A time span for reading, not more exact than a guess is: "under a minute", "4 min", "1.5 h", "3 days". */
export function span(seconds: number): string {
  if (seconds < 45) return "under a minute";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${Math.max(1, minutes)} min`;
  const hours = seconds / 3600;
  return hours < 36 ? `${Number(hours.toPrecision(2))} h` : count(Math.round(hours / 24), "day");
}

const DATE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

/** A time of the run as the reader's own date, or nothing where it says none. */
export function date(text: string | null): string {
  const found = text === null ? NaN : Date.parse(text);
  return Number.isNaN(found) ? "" : DATE.format(found);
}
