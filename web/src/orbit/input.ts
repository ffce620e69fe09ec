import { guard } from "../cache";
import { Choice, keep } from "../dom";
import { inputView } from "../inputs/input";
import { Panel } from "../panel";
import { placeLabel } from "../plots/orbit";
import type { Store } from "../store";
import { inputData } from "./drawn";
import type { Moved } from "./moved";
import type { Scene } from "./scene";

const MOVED_HERE = new Set(["scene", "pair", "cloud"]);

/** The moved input, with what an explainer finds in it. */
export class InputPanel {
  readonly panel: Panel;
  private readonly view: ReturnType<typeof inputView>;
  private readonly explainer: Choice;
  private readonly other = guard();

  constructor(store: Store, retry: () => void) {
    this.panel = new Panel("input", "Input", retry, () => this.view.table());
    this.view = inputView(this.panel.host);
    this.explainer = new Choice("Attribution", "explainer", (name) => store.set({ explainer: name || null }));
    this.panel.tools.append(this.explainer.node);
  }

  /** Draws anew where something did change; what the page itself does not move waits for the moved input. */
  render(scene: Scene, moved: Moved | null, live: boolean): void {
    const { meta, pick, shown, packed } = scene;
    const options = [{ value: "", text: live ? "none" : "needs live models" }, ...meta.explainers.map((name) => ({ value: name, text: name }))];
    keep(this.explainer.node, { hidden: meta.explainers.length === 0 });
    this.explainer.update(options, live ? (pick.explainer ?? "") : "", !live);
    if (packed === null) return this.panel.empty("Choose a sample to see its input.");
    const at = moved?.arrays.has("input") && !MOVED_HERE.has(meta.input.kind) ? moved.at : pick.at;
    this.panel.describe(placeLabel(meta, at));
    if (!this.panel.show(packed)) return;
    if (this.other(packed.value, moved, shown, pick.explainer, at.join())) this.view.update(inputData(scene, packed.value, moved));
  }

  destroy(): void {
    this.view.destroy();
  }
}
