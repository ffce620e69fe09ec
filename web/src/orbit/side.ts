import { guard, type Loaded } from "../cache";
import { detailView } from "../details/detail";
import { el } from "../dom";
import { inputView } from "../inputs/input";
import { Panel } from "../panel";
import type { Packed } from "../types";
import { detailData, inputData } from "./drawn";
import { stored, type Moved } from "./moved";
import type { Scene, Scenes } from "./scene";

/** One side of a comparison: a sample at a measured place, with the input there and what every model makes of it; the metrics stand in a table of both. */
export class Side {
  readonly panel: Panel;
  private readonly input: ReturnType<typeof inputView>;
  private readonly detail: ReturnType<typeof detailView>;
  private readonly other = guard();

  constructor(
    id: string,
    title: string,
    private readonly scenes: Scenes,
    retry: () => void,
  ) {
    this.panel = new Panel(id, title, retry, () => this.detail.table());
    const [above, below] = [el("div", { class: "side-input" }), el("div", { class: "side-detail" })];
    this.panel.host.append(above, below);
    this.input = inputView(above);
    this.detail = detailView(below);
  }

  /** `top` is where the colours of error maps end, if not at those of this sample. */
  render(scene: Scene, sample: number, k: number, packed: Loaded<Packed>, top?: number): void {
    const { meta, pick, shown, values, beside } = scene;
    if (!this.panel.show(packed)) return;
    if (!this.other(packed.value, sample, k, shown, pick.reference, values.state === "ready" && values.value, beside, top)) return;
    const there = { ...scene, pick: { ...pick, sample, at: [...meta.coordinates[k]], explainer: null } };
    const moved: Moved = stored(meta, sample, k, packed.value, this.scenes.stored(sample, k));
    this.input.update(inputData(there, packed.value, moved));
    const drawn = detailData(there, packed.value, moved);
    this.detail.update({ ...drawn, metrics: new Map(), errorRange: [0, top ?? drawn.errorRange[1]] });
  }

  destroy(): void {
    this.input.destroy();
    this.detail.destroy();
  }
}
