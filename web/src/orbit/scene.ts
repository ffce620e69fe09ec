import { all, Cache, memo, type Loaded } from "../cache";
import { modelColour } from "../colour";
import { turns } from "../inputs/image";
import type { DataSource } from "../source";
import type { ColourBy } from "../state";
import type { LiveMetrics, Meta, MetricInfo, Packed, Reference } from "../types";
import type { Chosen } from "./chosen";
import { across, differences, moments, ranked } from "./compute";

const MIB = 2 ** 20;
const BESIDE = 48;

export interface Shown {
  name: string;
  colour: string;
  index: number;
}

export interface Thumbnails {
  size: number;
  channels: number;
  data: Uint8Array;
}

/** Samples in an order, and the number (N,) that they are sorted by. */
export interface Ranking {
  samples: Int32Array;
  value: Float32Array;
}

export type Differences = ReturnType<typeof differences>;

/** What the panels draw: the choices, and the data as far as they are here. Arrays stay the same while their choices do. */
export interface Scene {
  meta: Meta;
  pick: Chosen;
  shown: Shown[];
  /** (N, K) of the chosen metric, for every model shown. */
  values: Loaded<Float32Array[]>;
  /** (N,) mean or variance of each sample's orbit, for every model shown; the difference between models is the same for all of them. */
  colours: Loaded<Float32Array[]>;
  /** The chosen samples, sorted by what they are ranked by. */
  order: Loaded<Ranking>;
  /** Where two of the models shown differ most on each sample; null of one model. */
  differences: Loaded<Differences> | null;
  /** (models shown, N, 2) */
  points: Loaded<Float32Array> | null;
  thumbnails: Thumbnails | null;
  packed: Loaded<Packed> | null;
  /** The same with its input at every measured element, where the page cannot move it itself; null unless something is compared. */
  framed: Loaded<Packed> | null;
  /** The same of the second sample; null unless samples are compared. */
  second: Loaded<Packed> | null;
  /** The chosen metric by the truth and by the consensus; null unless they are compared, or where the metric knows one of them alone. */
  references: Loaded<[Float32Array[], Float32Array[]]> | null;
  /** How many arrays of metrics beside the chosen one are here. */
  beside: number;
}

/** Makes scenes of one run, asking the source for what they need. */
export class Scenes {
  private readonly arrays: Cache;
  private readonly samples: Cache;
  private readonly shown = memo((models: number[]): Shown[] =>
    models.map((index) => ({ index, name: this.meta.models[index].name, colour: modelColour(index) })),
  );
  private readonly same = memo((...values: Float32Array[]) => values);
  private readonly byTruth = memo((...values: Float32Array[]) => values);
  private readonly byConsensus = memo((...values: Float32Array[]) => values);
  private readonly pair = memo((truth: Float32Array[], consensus: Float32Array[]): [Float32Array[], Float32Array[]] => [truth, consensus]);
  private readonly differences = memo((values: Float32Array[]) => differences(values, this.meta.coordinates.length));
  private readonly colours = memo((colour: ColourBy, values: Float32Array[]) => this.numbered(colour, values));
  private readonly order = memo((samples: Int32Array, by: ColourBy, values: Float32Array[]): Ranking => {
    const value = across(this.numbered(by, values));
    return { value, samples: ranked(samples, value, by === "difference") };
  });
  private readonly points = memo((points: Float32Array, models: number[]) => joined(points, models, 2 * this.meta.samples));
  private readonly thumbnails = memo((data: Uint8Array): Thumbnails => ({ ...this.meta.thumbnail!, data }));

  constructor(
    private readonly meta: Meta,
    private readonly source: DataSource,
    changed: () => void,
  ) {
    this.arrays = new Cache(changed, 96, 192 * MIB);
    this.samples = new Cache(changed, 48, 64 * MIB);
  }

  retry(): void {
    this.arrays.retry();
    this.samples.retry();
  }

  build(pick: Chosen): Scene {
    const { meta } = this;
    this.arrays.turn();
    this.samples.turn();
    const shown = this.shown(pick.models);
    const values = then(all(shown.map(({ name }) => this.valuesOf(name, pick))), (found) => this.same(...found));
    const colours = then(values, (found) => this.colours(pick.colour, found));
    return {
      meta,
      pick,
      shown,
      values,
      colours,
      order: then(values, (found) => this.order(pick.samples, pick.rank, found)),
      differences: shown.length < 2 ? null : then(values, (found) => this.differences(found)),
      points: this.reduced(pick),
      thumbnails: this.pictures(),
      packed: pick.sample === null ? null : this.packed(pick.sample),
      framed: pick.sample === null || pick.view === null ? null : this.framed(pick.sample),
      second: pick.second === null || pick.view !== "samples" ? null : this.framed(pick.second),
      references: pick.view === "references" && pick.metric.references.length > 1 ? this.byBoth(pick, shown) : null,
      beside: this.beside(pick, shown),
    };
  }

  /** The metrics at one element as the run stored them, of what is already here. */
  stored(sample: number, k: number): LiveMetrics {
    const K = this.meta.coordinates.length;
    const found: LiveMetrics = {};
    for (const { name } of this.meta.models) {
      found[name] = {};
      for (const metric of this.meta.metrics) {
        const values = metric.references.flatMap((reference) => {
          const held = this.arrays.peek<Float32Array>(key(metric.name, name, reference));
          return held === null ? [] : [[reference, held[sample * K + k]]];
        });
        if (values.length > 0) found[name][metric.name] = Object.fromEntries(values);
      }
    }
    return found;
  }

  /** That number of each sample's orbit, for every model. */
  private numbered(by: ColourBy, values: Float32Array[]): Float32Array[] {
    if (by !== "difference") return values.map((one) => moments(one, this.meta.coordinates.length)[by]);
    const { value } = this.differences(values);
    return values.map(() => value);
  }

  private byBoth({ metric }: Chosen, shown: Shown[]): Scene["references"] {
    const by = (reference: Reference): Loaded<Float32Array[]> => all(shown.map(({ name }) => this.valuesOf(name, { metric, reference })));
    return then(all([by("truth"), by("consensus")]), ([truth, consensus]) => this.pair(this.byTruth(...truth), this.byConsensus(...consensus)));
  }

  private valuesOf(model: string, { metric, reference }: Pick<Chosen, "metric" | "reference">): Loaded<Float32Array> {
    return this.arrays.get(key(metric.name, model, reference), () => this.source.values(this.meta.id, metric.name, model, reference));
  }

  /** Without models to ask, and where places are compared, the other metrics are read too, as long as they are few and small. */
  private beside({ metric, reference, view }: Chosen, shown: Shown[]): number {
    const { live, metrics, models, samples, coordinates } = this.meta;
    if ((live && view !== "places") || metrics.length * models.length > BESIDE || 4 * samples * coordinates.length > MIB) return 0;
    const others = metrics.filter((one) => one !== metric && one.references.includes(reference));
    const found = others.flatMap((one) => shown.map(({ name }) => this.valuesOf(name, { metric: one, reference })));
    return found.filter(({ state }) => state === "ready").length;
  }

  private packed(sample: number): Loaded<Packed> {
    return this.samples.get(String(sample), () => this.source.sample(this.meta.id, sample, false));
  }

  /** With the inputs moved, where neither the page nor an answer of the models shows them. */
  private framed(sample: number): Loaded<Packed> {
    const { live, input, axes } = this.meta;
    const known = !live || (input.kind !== "series" && (input.kind !== "image" || turns(axes)));
    return known ? this.packed(sample) : this.samples.get(`${sample} framed`, () => this.source.sample(this.meta.id, sample, true));
  }

  private reduced({ reduction, metric, reference, models }: Chosen): Loaded<Float32Array> | null {
    if (reduction === null) return null;
    const found = this.arrays.get(`reduction ${key(reduction, metric.name, reference)}`, () =>
      this.source.reduction(this.meta.id, reduction, metric.name, reference),
    );
    return then(found, (points) => this.points(points, models));
  }

  private pictures(): Thumbnails | null {
    if (this.meta.thumbnail === null) return null;
    const found = this.arrays.get("thumbnails", () => this.source.thumbnails(this.meta.id));
    return found.state === "ready" ? this.thumbnails(found.value) : null;
  }
}

/** What a metric is called, by what outputs are compared with: "accuracy" of a model that is wrong but agrees with itself would mislead. */
export function metricLabel({ label, consensus_label, explainer }: MetricInfo, reference: Reference): string {
  if (reference === "truth" || explainer) return label;
  return consensus_label || `${label} against the consensus`;
}

/** The same, with its unit where it has one. */
export function metricName(metric: MetricInfo, reference: Reference): string {
  const label = metricLabel(metric, reference);
  return metric.unit ? `${label} [${metric.unit}]` : label;
}

/** Whether a metric goes from 0 to 1. */
export function isShare({ low, high }: MetricInfo): boolean {
  return low === 0 && high === 1;
}

function key(...parts: string[]): string {
  return JSON.stringify(parts);
}

function then<T, R>(found: Loaded<T>, compute: (value: T) => R): Loaded<R> {
  return found.state === "ready" ? { state: "ready", value: compute(found.value) } : found;
}

/** The rows of some models of an array that holds `size` numbers for each. */
function joined(array: Float32Array, models: number[], size: number): Float32Array {
  const found = new Float32Array(models.length * size);
  models.forEach((model, i) => found.set(array.subarray(model * size, (model + 1) * size), i * size));
  return found;
}
