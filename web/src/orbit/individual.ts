import { memo } from "../cache";
import { el, mark } from "../dom";
import { floats } from "../packed";
import { Panel } from "../panel";
import { orbitPlot, placeLabel, type OrbitPlot } from "../plots/orbit";
import type { Table } from "../save";
import type { Packed, Reference } from "../types";
import { sampleName } from "./chosen";
import { axisRange, extent } from "./compute";
import { byReference, errorsBy, type Moved } from "./moved";
import { isShare, metricName, type Scene } from "./scene";
import type { WorstFound, WorstShown } from "./worst";

/** What several plots share: the range of their values, and where the colours of their error maps end. */
export interface Scale {
  range: [number, number];
  top?: number;
}

/** The plot of one sample's orbit, to be dragged along; the pinned places are marked while they are compared. */
export class IndividualPlot {
  private readonly plot: OrbitPlot;
  private readonly rows = memo((values: Float32Array[], sample: number, K: number) => values.map((one) => one.subarray(sample * K, (sample + 1) * K)));
  private readonly tiles = memo((packed: Packed, shown: Scene["shown"], reference: Reference) =>
    shown.flatMap(({ name }) => {
      const errors = packed.arrays.get(errorsBy(reference) + name);
      const maps = floats(errors);
      return errors === undefined || maps === null ? [] : [{ model: name, maps, side: errors.shape[1] }];
    }),
  );

  constructor(host: HTMLElement, whose: string, move: (at: number[], final: boolean) => void) {
    this.plot = orbitPlot(host, whose, move);
  }

  /** Draws the chosen sample, on the scale of its own values unless another one is given. */
  update({ meta, pick, shown, packed }: Scene, moved: Moved | null, values: Float32Array[], scale?: Scale, worst: WorstFound[] = []): void {
    const rows = this.rows(values, pick.sample ?? 0, meta.coordinates.length);
    const tiles = meta.layout === "tiles" && packed?.state === "ready" ? this.tiles(packed.value, shown, pick.reference) : [];
    this.plot.update({
      ...meta,
      curves: shown.map(({ name, colour }, i) => ({ model: name, colour, values: rows[i], ...live(moved, name, pick) })),
      range: scale?.range ?? axisRange(...pick.bounds, ...rows),
      higherIsBetter: pick.metric.higher_is_better,
      cursor: pick.at,
      metric: metricName(pick.metric, pick.reference),
      share: isShare(pick.metric),
      marks: [
        ...(pick.view === "places" ? pick.pins.map(({ name, k }) => ({ name, at: meta.coordinates[k] })) : []),
        ...worst.map(({ at, curve }) => ({ name: "W", at, curve })),
      ],
      ...(tiles.length === 0 ? {} : { tiles, tileRange: [0, scale?.top ?? Math.max(...tiles.map(({ maps }) => errorTop(maps)))] }),
    });
  }

  table(): Table | null {
    return this.plot.table();
  }

  destroy(): void {
    this.plot.destroy();
  }
}

/** The chosen sample's own orbit. */
export class IndividualPanel {
  readonly panel: Panel;
  private readonly worst: HTMLButtonElement;
  private readonly plot: IndividualPlot;

  constructor(private readonly on: { move(at: number[], final: boolean): void; step(by: 1 | -1): void; identity(): void; worst(): void }, retry: () => void) {
    this.worst = el("button", { type: "button", "data-testid": "worst", title: "Search the orbit for each model's worst place, between the measured places too if models are live, and mark it (w)", onclick: on.worst }, "Worst");
    this.panel = new Panel("individual", "Individual orbit", retry, () => this.plot.table());
    this.plot = new IndividualPlot(this.panel.host, "one sample", on.move);
    this.panel.tools.append(
      el("button", { type: "button", "aria-label": "Previous sample by rank", title: "Previous sample by rank ([)", onclick: () => on.step(-1) }, "‹"),
      el("button", { type: "button", "aria-label": "Next sample by rank", title: "Next sample by rank (])", onclick: () => on.step(1) }, "›"),
      el("button", { type: "button", "data-testid": "identity", title: "Back to the input as it is (i)", onclick: on.identity }, "Identity"),
      this.worst,
    );
  }

  render(scene: Scene, moved: Moved | null, worst: WorstShown | null): void {
    const { meta, pick, values } = scene;
    mark(this.worst, { "aria-pressed": String(worst !== null) });
    this.panel.readout(worst?.title ?? "", worst?.found.map(({ colour, text, at }) => ({ colour, text, go: this.goTo(scene, at) })) ?? []);
    if (pick.sample === null) return this.panel.empty("Choose a sample to see its orbit.");
    this.panel.describe(sampleName(meta, pick.sample));
    if (this.panel.show(values)) this.plot.update(scene, moved, values.value, undefined, worst?.found);
  }

  destroy(): void {
    this.plot.destroy();
  }

  private goTo({ meta }: Scene, at: number[]): { name: string; title: string; on(): void } {
    return { name: "Go there", title: `Go to ${placeLabel(meta, at)}`, on: () => this.on.move([...at], true) };
  }
}

function live(moved: Moved | null, model: string, { metric, reference }: Scene["pick"]): { live?: { at: number[]; value: number } } {
  const value = moved?.live ? byReference(moved, model, reference)[metric.name] : undefined;
  return moved === null || value === undefined ? {} : { live: { at: moved.at, value: value ?? NaN } };
}

const tops = new WeakMap<Float32Array, number>();

/** Where the colours of error maps end: the 99th percentile, of every so many of the errors. */
export function errorTop(maps: Float32Array): number {
  let top = tops.get(maps);
  if (top === undefined) {
    const stride = Math.max(1, Math.floor(maps.length / 8192));
    const some = maps.filter((value, i) => i % stride === 0 && value === value).sort();
    top = some[Math.floor(0.99 * (some.length - 1))] || extent(maps)[1];
    tops.set(maps, top);
  }
  return top;
}
