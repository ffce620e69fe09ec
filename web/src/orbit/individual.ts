import { memo } from "../cache";
import { el } from "../dom";
import { floats } from "../packed";
import { Panel } from "../panel";
import { orbitPlot, type OrbitPlot } from "../plots/orbit";
import type { Packed, Reference } from "../types";
import { sampleName } from "./chosen";
import { axisRange, extent } from "./compute";
import { byReference, errorsBy, type Moved } from "./moved";
import { metricName, type Scene } from "./scene";

/** The chosen sample's own orbit, to be dragged along. */
export class IndividualPanel {
  readonly panel: Panel;
  private readonly plot: OrbitPlot;
  private readonly rows = memo((values: Float32Array[], sample: number, K: number) => values.map((one) => one.subarray(sample * K, (sample + 1) * K)));
  private readonly tiles = memo((packed: Packed, shown: Scene["shown"], reference: Reference) =>
    shown.flatMap(({ name }) => {
      const errors = packed.arrays.get(errorsBy(reference) + name);
      const maps = floats(errors);
      return errors === undefined || maps === null ? [] : [{ model: name, maps, side: errors.shape[1] }];
    }),
  );

  constructor(on: { move(at: number[], final: boolean): void; step(by: 1 | -1): void; identity(): void }, retry: () => void) {
    this.panel = new Panel("individual", "Individual orbit", retry);
    this.plot = orbitPlot(this.panel.host, "one sample", on.move);
    this.panel.tools.append(
      el("button", { type: "button", "aria-label": "Previous sample by rank", title: "Previous sample by rank ([)", onclick: () => on.step(-1) }, "‹"),
      el("button", { type: "button", "aria-label": "Next sample by rank", title: "Next sample by rank (])", onclick: () => on.step(1) }, "›"),
      el("button", { type: "button", "data-testid": "identity", title: "Back to the input as it is (i)", onclick: on.identity }, "Identity"),
    );
  }

  render({ meta, pick, shown, values, packed }: Scene, moved: Moved | null): void {
    if (pick.sample === null) return this.panel.empty("Choose a sample to see its orbit.");
    this.panel.describe(sampleName(meta, pick.sample));
    if (!this.panel.show(values)) return;
    const rows = this.rows(values.value, pick.sample, meta.coordinates.length);
    const tiles = meta.layout === "tiles" && packed?.state === "ready" ? this.tiles(packed.value, shown, pick.reference) : [];
    this.plot.update({
      ...meta,
      curves: shown.map(({ name, colour }, i) => ({ model: name, colour, values: rows[i], ...live(moved, name, pick) })),
      range: axisRange(pick.metric.low, pick.metric.high, ...rows),
      higherIsBetter: pick.metric.higher_is_better,
      cursor: pick.at,
      metric: metricName(pick.metric),
      ...(tiles.length === 0 ? {} : { tiles, tileRange: [0, Math.max(...tiles.map(({ maps }) => errorTop(maps)))] }),
    });
  }

  destroy(): void {
    this.plot.destroy();
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
