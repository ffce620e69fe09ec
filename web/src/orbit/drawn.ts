import type { DetailData } from "../details/detail";
import { number } from "../format";
import { turns } from "../inputs/image";
import type { InputData } from "../inputs/input";
import { floats, row } from "../packed";
import { nearest, placeLabel, samePlace } from "../plots/orbit";
import type { Meta, Packed, PackedArray, Reference } from "../types";
import { sampleName } from "./chosen";
import { errorTop } from "./individual";
import { byReference, errorsBy, type Moved } from "./moved";
import { isShare, metricName, type Scene } from "./scene";

/** What the input view draws: the sample, moved to the chosen place. */
export function inputData({ meta, pick, shown }: Scene, packed: Packed, moved: Moved | null): InputData {
  const attribution = shown.flatMap(({ name, colour }) => {
    const about = moved?.explained[name];
    const target = about?.target ?? null;
    const what = target === null ? "" : ` for ${meta.classes[target] ?? `class ${target}`}`;
    const agreed = about?.agreement ?? null;
    const kinds = [
      ["attribution", `${name}: e(g x)${what}`, `${name}: e(g x)`, "e(g x)"],
      ["expected", ...(agreed === null ? [] : [`g e(x), agreement ${number(agreed)}`, `g e(x), ${number(agreed)}`]), "g e(x)"],
    ];
    return kinds.flatMap(([kind, title, ...shorter]) => {
      const found = moved?.arrays.get(`${kind}/${name}`);
      const map = floats(found);
      return found === undefined || map === null ? [] : [{ model: name, title, shorter, colour, map, height: found.shape[0], width: found.shape[1] }];
    });
  });
  const [input, own] = [packed.arrays.get("input"), movedInput(meta, packed, moved, pick.at)];
  const waits = meta.live && moved?.live !== false;
  const absent = own !== undefined || canMove(meta, pick.at) ? undefined : waits ? WAITING : UNMOVED;
  return {
    kind: meta.input.kind,
    shape: (meta.input.kind === "image" ? own?.shape : undefined) ?? input?.shape ?? meta.input.shape,
    input: absent === undefined ? pixels(input) : null,
    moved: pixels(own),
    window: meta.input.window,
    axes: meta.axes,
    plane: meta.plane,
    at: pick.at,
    title: `${sampleName(meta, pick.sample ?? 0)}, ${placeLabel(meta, pick.at)}`,
    ...(absent === undefined ? {} : { absent }),
    ...(pick.explainer === null ? {} : { attribution }),
  };
}

const UNMOVED = "Not shown moved: the run holds no picture of it there.";
const WAITING = "Not shown moved: no answer of the models yet.";

/** Whether the page itself can show the input there; an image that it cannot move must not stand unmoved under a moved label. */
function canMove({ input, axes, coordinates, identity }: Meta, at: number[]): boolean {
  if (input.kind !== "image" && input.kind !== "series") return true;
  return samePlace(coordinates[identity], at) || (input.kind === "image" && turns(axes));
}

/** What the models saw: as they answered, else the stored picture of the nearest element where the run has them. */
function movedInput(meta: Meta, packed: Packed, moved: Moved | null, at: number[]): PackedArray | undefined {
  const frames = packed.arrays.get("frames");
  return moved?.arrays.get("input") ?? (frames && row(frames, nearest(meta, moved?.at ?? at)));
}

/** What the detail view draws: every model's output there. */
export function detailData(scene: Scene, packed: Packed, moved: Moved): DetailData {
  const { meta, pick, shown } = scene;
  const arrays = (start: string, from: Map<string, PackedArray>): Map<string, Float32Array> =>
    new Map(shown.flatMap(({ name }) => (from.has(start + name) ? [[name, floats(from.get(start + name)) as Float32Array]] : [])));
  const by = errorsBy(pick.reference);
  const errors = shown.flatMap(({ name }) => floats(packed.arrays.get(by + name)) ?? []);
  return {
    task: meta.task,
    classes: meta.classes,
    models: shown,
    trueClass: (packed.header.truth_class as number | null | undefined) ?? null,
    outputs: arrays("outputs/", moved.arrays),
    waiting: new Set(moved.live ? shown.map(({ name }) => name).filter((name) => !(name in moved.metrics)) : []),
    rows: shown.map(({ name }) => moved.arrays.get(`outputs/${name}`)?.shape[0]).find((found) => found !== undefined) ?? 0,
    truth: truthAt(meta, packed, moved.at, pick.reference),
    consensus: comparable(meta, moved.at) ? arrays("consensus/", packed.arrays) : new Map(),
    moves: meta.moves ?? true,
    errors: arrays(by, moved.arrays),
    quiver: arrays("quiver/", moved.arrays),
    metrics: new Map(shown.map(({ name }) => [name, labelled(meta, byReference(moved, name, pick.reference), pick.reference)])),
    shares: new Set(meta.metrics.filter(isShare).map((metric) => metricName(metric, pick.reference))),
    at: moved.at,
    window: meta.input.window,
    picture: inputData(scene, packed, moved),
    errorRange: [0, errors.length > 0 ? Math.max(...errors.map(errorTop)) : 1],
  };
}

/** Whether the consensus can stand beside outputs there: of numbers that move along with the input, the page knows it unmoved alone. */
function comparable({ task, moves, coordinates, identity }: Meta, at: number[]): boolean {
  return task !== "regression" || moves === false || samePlace(coordinates[identity], at);
}

/** Metrics by the names that readers know, in the order of the run. */
function labelled(meta: Meta, values: Record<string, number | null>, reference: Reference): Record<string, number | null> {
  return Object.fromEntries(meta.metrics.flatMap((metric) => (metric.name in values ? [[metricName(metric, reference), values[metric.name]]] : [])));
}

/** The truth's boxes as they are; of its fields and numbers, the one at the place, and no field where errors are measured by the consensus. */
function truthAt(meta: Meta, packed: Packed, at: number[], reference: Reference): Float32Array | null {
  const truth = packed.arrays.get("truth");
  if (truth === undefined || (meta.task === "flow" && reference === "consensus")) return null;
  return floats(meta.task === "detection" ? truth : row(truth, nearest(meta, at)));
}

function pixels(array: PackedArray | undefined): Float32Array | Uint8Array | null {
  return array === undefined || array.data instanceof BigInt64Array ? null : array.data;
}
