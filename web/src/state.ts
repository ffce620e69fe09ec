import type { Reference } from "./types";

export type Theme = "auto" | "light" | "dark";
export type ColourBy = "mean" | "variance";

/** Everything that the user chose; it stands in the address, so that a reload or a link gives the same view. */
export interface State {
  readonly run: string | null;
  readonly page: "report" | "compare" | null;
  /** The run that the run is compared with. */
  readonly other: string | null;
  readonly score: string | null;
  readonly subset: number | null;
  readonly metric: string | null;
  readonly reference: Reference | null;
  readonly models: readonly string[] | null;
  readonly reduction: string | null;
  readonly colour: ColourBy;
  readonly sample: number | null;
  readonly at: readonly number[] | null;
  readonly explainer: string | null;
  readonly lasso: readonly number[] | null;
  readonly theme: Theme;
  /** On the list of runs: what is searched for, and by which column it is sorted, "-" before a descending one. */
  readonly find: string | null;
  readonly sort: string | null;
  /** On the page of an audit: which samples are listed. */
  readonly only: string | null;
}

export const START: State = {
  run: null,
  page: null,
  other: null,
  score: null,
  subset: null,
  metric: null,
  reference: null,
  models: null,
  reduction: null,
  colour: "mean",
  sample: null,
  at: null,
  explainer: null,
  lasso: null,
  theme: "auto",
  find: null,
  sort: null,
  only: null,
};

/** The state as the part of an address behind "#"; what was not chosen is left out. */
export function toHash(state: State): string {
  const found = new URLSearchParams();
  const put = (key: string, value: string | number | null): void => {
    if (value !== null) found.append(key, String(value));
  };
  put("run", state.run);
  put("page", state.page);
  put("with", state.other);
  put("score", state.score);
  put("subset", state.subset);
  put("metric", state.metric);
  put("reference", state.reference);
  state.models?.forEach((name) => put("model", name));
  put("reduction", state.reduction);
  put("colour", state.colour === START.colour ? null : state.colour);
  put("sample", state.sample);
  put("at", state.at === null ? null : state.at.map((x) => Number(x.toFixed(3))).join("_"));
  put("explainer", state.explainer);
  put("lasso", state.lasso === null ? null : toText(state.lasso));
  put("theme", state.theme === START.theme ? null : state.theme);
  put("find", state.find || null);
  put("sort", state.sort);
  put("only", state.only);
  return `#${found}`;
}

/** The state that an address holds; what cannot be read counts as not chosen. */
export function fromHash(hash: string): State {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const models = found.getAll("model");
  const at = found.get("at")?.split("_").map(Number);
  return {
    run: found.get("run"),
    page: oneOf(found.get("page"), ["report", "compare"]),
    other: found.get("with"),
    score: found.get("score"),
    subset: whole(found.get("subset")),
    metric: found.get("metric"),
    reference: oneOf(found.get("reference"), ["truth", "consensus"]),
    models: models.length > 0 ? models : null,
    reduction: found.get("reduction"),
    colour: oneOf(found.get("colour"), ["mean", "variance"]) ?? START.colour,
    sample: whole(found.get("sample")),
    at: at !== undefined && at.every(Number.isFinite) ? at : null,
    explainer: found.get("explainer"),
    lasso: fromText(found.get("lasso")),
    theme: oneOf(found.get("theme"), ["auto", "light", "dark"]) ?? START.theme,
    find: found.get("find"),
    sort: found.get("sort"),
    only: found.get("only"),
  };
}

function oneOf<T extends string>(value: string | null, known: readonly T[]): T | null {
  return known.find((one) => one === value) ?? null;
}

function whole(value: string | null): number | null {
  return value !== null && /^\d+$/.test(value) ? Number(value) : null;
}

/** Few samples are listed as they are; many are written as bits in base 64. */
function toText(samples: readonly number[]): string {
  if (samples.length <= 100) return samples.join("_");
  const bits = new Uint8Array((samples.reduce((most, one) => Math.max(most, one), 0) >> 3) + 1);
  for (const sample of samples) bits[sample >> 3] |= 1 << (sample & 7);
  const text = Array.from(bits, (byte) => String.fromCharCode(byte)).join("");
  return `b${btoa(text).replaceAll("+", "-").replaceAll("/", ".").replaceAll("=", "")}`;
}

function fromText(text: string | null): number[] | null {
  if (text === null) return null;
  if (!text.startsWith("b")) return /^\d+(_\d+)*$/.test(text) ? text.split("_").map(Number) : null;
  let bytes: string;
  try {
    bytes = atob(text.slice(1).replaceAll("-", "+").replaceAll(".", "/"));
  } catch {
    return null;
  }
  const found: number[] = [];
  for (let i = 0; i < 8 * bytes.length; i++) if ((bytes.charCodeAt(i >> 3) >> (i & 7)) & 1) found.push(i);
  return found;
}
