import type { Reference, RunEntry } from "./types";

export type Theme = "auto" | "light" | "dark";
/** A number of each sample's orbit: "difference" is the largest one between two models along it. */
export type ColourBy = "mean" | "variance" | "difference";
export const COLOURS: readonly ColourBy[] = ["mean", "variance", "difference"];
/** What is compared above the views of an orbit evaluation. */
export type View = "places" | "samples" | "classes" | "references";
export const VIEWS: readonly View[] = ["places", "samples", "classes", "references"];

/** What groups the list of runs has. */
export type Group = "folder" | "kind";
export const GROUPS: readonly Group[] = ["folder", "kind"];

/** What the samples of an audit are shown by: the inputs that were kept, all inputs from the audit at hand, explanations, or nothing. */
export type Pictures = "inputs" | "all" | "explanations" | "none";
export const PICTURES: readonly Pictures[] = ["inputs", "all", "explanations", "none"];

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
  /** What samples are ranked by; null for what they are coloured by. */
  readonly rank: ColourBy | null;
  /** Whether points of the scatter have small plots beside them. */
  readonly glyphs: boolean;
  readonly sample: number | null;
  readonly at: readonly number[] | null;
  readonly view: View | null;
  /** Which panel fills the window. */
  readonly large: string | null;
  /** Whether axes and colours reach only as far as the values, in place of the metric's bounds. */
  readonly fit: boolean;
  /** Whether the worst place of the chosen orbit is marked. */
  readonly worst: boolean;
  /** The two places of an orbit that are compared: null for the identity, and for the place that is chosen. */
  readonly pinA: readonly number[] | null;
  readonly pinB: readonly number[] | null;
  /** The sample that the chosen one is compared with. */
  readonly second: number | null;
  readonly explainer: string | null;
  readonly lasso: readonly number[] | null;
  readonly theme: Theme;
  /** On the list of runs: what is searched for, by which column it is sorted, "-" before a descending one, and what groups it has. */
  readonly find: string | null;
  readonly sort: string | null;
  readonly group: Group | null;
  /** On the list of runs: the runs whose parts are listed too. */
  readonly parts: readonly string[];
  /** On the page of an audit: which samples are listed. */
  readonly only: string | null;
  /** On the page of an audit: which draw of the sample is computed. */
  readonly draw: number | null;
  /** On the page of an audit: the selected samples, which fit all of these parts (docs: veracity.results.selection). */
  readonly picks: readonly string[];
  /** On the page of an audit: the score that the samples are sorted by, the two scores of the scatter, and what the samples are shown by. */
  readonly by: string | null;
  readonly x: string | null;
  readonly y: string | null;
  readonly pictures: Pictures | null;
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
  rank: null,
  glyphs: false,
  sample: null,
  at: null,
  view: null,
  large: null,
  fit: false,
  worst: false,
  pinA: null,
  pinB: null,
  second: null,
  explainer: null,
  lasso: null,
  theme: "auto",
  find: null,
  sort: null,
  group: null,
  parts: [],
  only: null,
  draw: null,
  picks: [],
  by: null,
  x: null,
  y: null,
  pictures: null,
};

/** What stays chosen when another run of the same kind is shown, by kind; what does not fit there counts as not chosen. */
const KEPT: Record<string, readonly (keyof State)[]> = {
  orbits: ["metric", "reference", "models", "reduction", "colour", "rank", "glyphs", "view", "fit", "worst", "explainer"],
  audit: ["score", "models", "explainer", "sort", "by", "x", "y", "pictures"],
};
/** And what stays if it is about the same inputs. */
const KEPT_OF_INPUTS: readonly (keyof State)[] = ["subset", "lasso", "sample", "second", "at", "pinA", "pinB"];

/** What the address says once another run is shown in place of one. */
export function carried(state: State, from: RunEntry | undefined, to: RunEntry): State {
  const kept = from?.kind === to.kind ? (KEPT[to.kind] ?? []) : [];
  const inputs = kept.length > 0 && to.data !== undefined && from?.data === to.data ? KEPT_OF_INPUTS : [];
  const models = state.models?.filter((name) => to.models?.includes(name)) ?? [];
  const found = Object.fromEntries([...kept, ...inputs].map((name) => [name, state[name]]));
  return { ...START, ...found, ...("models" in found ? { models: models.length > 0 ? models : null } : {}), theme: state.theme, run: to.id };
}

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
  put("rank", state.rank);
  put("glyphs", state.glyphs ? "yes" : null);
  put("sample", state.sample);
  put("at", placeText(state.at));
  put("view", state.view);
  put("large", state.large);
  put("fit", state.fit ? "yes" : null);
  put("worst", state.worst ? "yes" : null);
  put("pinA", placeText(state.pinA));
  put("pinB", placeText(state.pinB));
  put("second", state.second);
  put("explainer", state.explainer);
  put("lasso", state.lasso === null ? null : toText(state.lasso));
  put("theme", state.theme === START.theme ? null : state.theme);
  put("find", state.find || null);
  put("sort", state.sort);
  put("group", state.group);
  state.parts.forEach((id) => put("parts", id));
  put("only", state.only);
  put("draw", state.draw);
  state.picks.forEach((text) => put("pick", text));
  put("by", state.by);
  put("x", state.x);
  put("y", state.y);
  put("pictures", state.pictures);
  return `#${found}`;
}

/** The state that an address holds; what cannot be read counts as not chosen. */
export function fromHash(hash: string): State {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const models = found.getAll("model");
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
    colour: oneOf(found.get("colour"), COLOURS) ?? START.colour,
    rank: oneOf(found.get("rank"), COLOURS),
    glyphs: found.get("glyphs") === "yes",
    sample: whole(found.get("sample")),
    at: placeOf(found.get("at")),
    view: oneOf(found.get("view"), VIEWS),
    large: found.get("large"),
    fit: found.get("fit") === "yes",
    worst: found.get("worst") === "yes",
    pinA: placeOf(found.get("pinA")),
    pinB: placeOf(found.get("pinB")),
    second: whole(found.get("second")),
    explainer: found.get("explainer"),
    lasso: fromText(found.get("lasso")),
    theme: oneOf(found.get("theme"), ["auto", "light", "dark"]) ?? START.theme,
    find: found.get("find"),
    sort: found.get("sort"),
    group: oneOf(found.get("group"), GROUPS),
    parts: found.getAll("parts"),
    only: found.get("only"),
    draw: whole(found.get("draw")),
    picks: found.getAll("pick"),
    by: found.get("by"),
    x: found.get("x"),
    y: found.get("y"),
    pictures: oneOf(found.get("pictures"), PICTURES),
  };
}

/** A place of an orbit in the address: its coordinates, joined. */
function placeText(at: readonly number[] | null): string | null {
  return at === null ? null : at.map((x) => Number(x.toFixed(3))).join("_");
}

function placeOf(text: string | null): number[] | null {
  const at = text?.split("_").map(Number);
  return at !== undefined && at.every(Number.isFinite) ? at : null;
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
