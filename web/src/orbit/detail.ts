import { guard } from "../cache";
import { detailView } from "../details/detail";
import { Panel } from "../panel";
import { placeLabel } from "../plots/orbit";
import { detailData } from "./drawn";
import { REFERENCE } from "./chosen";
import type { Moved } from "./moved";
import type { Scene } from "./scene";

/** What every model makes of the moved input. */
export class DetailPanel {
  readonly panel: Panel;
  private readonly view: ReturnType<typeof detailView>;
  private readonly other = guard();

  constructor(retry: () => void) {
    this.panel = new Panel("detail", "Detail", retry, () => this.view.table());
    this.view = detailView(this.panel.host);
  }

  render(scene: Scene, moved: Moved | null): void {
    const { meta, pick, shown, packed } = scene;
    if (packed === null) return this.panel.empty("Choose a sample to see what the models make of it.");
    if (!this.panel.show(packed) || moved === null) return;
    if (!this.other(packed.value, moved, shown, pick.reference)) return;
    this.panel.describe(`${placeLabel(meta, moved.at)}, measured by the ${REFERENCE[pick.reference]}`);
    this.view.update(detailData(scene, packed.value, moved));
    const missing = (packed.value.header.missing ?? {}) as Record<string, number>;
    const lines = shown.filter(({ name }) => missing[name] > 0).map(({ name, colour }) => ({ colour, text: `${name} ${missing[name]}` }));
    this.panel.readout(lines.length > 0 ? `Outputs missing in the consensus, of ${meta.coordinates.length}` : "", lines);
  }

  destroy(): void {
    this.view.destroy();
  }
}
