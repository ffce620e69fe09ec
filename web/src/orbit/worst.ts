import { number, share } from "../format";
import { placeLabel } from "../plots/orbit";
import type { Channel, DataSource, WorstQuestion } from "../source";
import type { Meta, MetricInfo, Packed } from "../types";
import { measuredBy } from "./chosen";
import { isShare, type Scene } from "./scene";

/** The worst place of one curve of the plot. */
export interface WorstFound {
  curve: number;
  at: number[];
  colour: string;
  text: string;
}

export interface WorstShown {
  title: string;
  found: WorstFound[];
}

/** What a search found for one model. */
interface Answer {
  at: number[];
  value: number | null;
  evaluations: number;
}

/** Where the chosen orbit is worst: the measured element, and where models can be asked, what a search finds between elements. */
export class Worst {
  private channel: Channel<WorstQuestion> | null = null;
  private readonly known = new Map<string, Record<string, Answer> | string>();

  constructor(
    private readonly meta: Meta,
    private readonly source: DataSource,
    private readonly changed: () => void,
  ) {}

  look(scene: Scene): WorstShown {
    const { pick, shown, values } = scene;
    if (pick.sample === null || values.state !== "ready") return { title: "Worst place: loading", found: [] };
    const say = isShare(pick.metric) ? share : number;
    const worst = shown.map((_, curve) => this.measured(scene, values.value[curve]));
    const measured = shown.flatMap(({ colour, name }, curve): WorstFound[] => {
      const one = worst[curve];
      return one === null ? [] : [{ curve, at: one.at, colour, text: `${name} ${say(one.value)} at ${placeLabel(this.meta, one.at)}` }];
    });
    const by = measuredBy(pick);
    if (!this.meta.live || pick.metric.explainer) return { title: `Worst measured place, ${by}`, found: measured };
    const found = this.search({ sample: pick.sample, worst: pick.metric.name, reference: pick.reference });
    if (found === null) return { title: "Worst measured place; the models are searched for a worse one…", found: measured };
    if (typeof found === "string") return { title: `Worst measured place, ${by}. ${found}`, found: measured };
    const searched = shown.flatMap(({ colour, name }, curve): WorstFound[] => {
      const one = found[name];
      if (one === undefined || one.value === null) return [];
      const before = worst[curve];
      // Live and stored values differ by rounding: what reads the same is not worse.
      const same = before !== null && say(one.value) === say(before.value);
      const at = same ? before.at : one.at;
      const further = before === null ? "" : `, ${far(Math.abs(one.value - before.value), pick.metric)} worse than the worst measured place, ${say(before.value)} at ${placeLabel(this.meta, before.at)}`;
      const text = `${name} ${say(one.value)} at ${placeLabel(this.meta, at)}${same ? ": nothing worse between the measured places" : further} (${one.evaluations} places tried)`;
      return [{ curve, at, colour, text }];
    });
    return { title: `Worst place found by a search between the measured places, ${by}`, found: searched };
  }

  close(): void {
    this.channel?.close();
  }

  /** The worst measured place of one curve; null where nothing is defined. */
  private measured({ pick }: Scene, values: Float32Array): { at: number[]; value: number } | null {
    const K = this.meta.coordinates.length;
    const row = values.subarray((pick.sample ?? 0) * K, ((pick.sample ?? 0) + 1) * K);
    const sign = pick.metric.higher_is_better ? 1 : -1;
    let worst = -1;
    row.forEach((value, k) => {
      if (value === value && (worst < 0 || sign * value < sign * row[worst])) worst = k;
    });
    return worst < 0 ? null : { at: this.meta.coordinates[worst], value: row[worst] };
  }

  /** What the search found, a sentence of why it could not, or null while it goes on. */
  private search(question: WorstQuestion): Record<string, Answer> | string | null {
    const key = JSON.stringify(question);
    const found = this.known.get(key);
    if (found !== undefined) return found;
    this.channel ??= this.source.channel<WorstQuestion>(this.meta, {
      answer: (asked, answer) => this.heard(asked, answer),
      failed: (message, asked) => this.learn(asked, message),
      connected: (open) => this.connected(open),
    });
    if (this.asked !== key) this.channel?.ask(question);
    this.asked = key;
    return null;
  }

  private asked = "";
  private away = false;

  /** What failed before the server was away may work now: it is asked again when somebody looks. */
  private connected(open: boolean): void {
    if (!open) this.away = true;
    if (!open || !this.away) return;
    this.away = false;
    for (const [key, found] of this.known) if (typeof found === "string") this.known.delete(key);
    this.asked = "";
    this.changed();
  }

  private heard(question: WorstQuestion, answer: Packed): void {
    this.learn(question, answer.header.worst as Record<string, Answer>);
  }

  private learn(question: WorstQuestion | null, found: Record<string, Answer> | string): void {
    if (question !== null) this.known.set(keyOf(question), found);
    this.changed();
  }
}

/** How far two values are apart, in words. */
function far(gap: number, metric: MetricInfo): string {
  return isShare(metric) && gap < 1e-3 ? "less than 0.001" : number(gap);
}

/** A question that was on its way also has its number. */
function keyOf({ sample, worst, reference }: WorstQuestion): string {
  return JSON.stringify({ sample, worst, reference });
}
