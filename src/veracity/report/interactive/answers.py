"""Every answer that the interface asks for, from an orbit evaluation; a server and a file give the same.

    /api/runs/ID                                             what was run, tables, names           JSON
    /api/runs/ID/state                                       how far it has come; a server alone   JSON
    /api/runs/ID/values?metric=&model=&reference=            a metric along every orbit            float32 (N, K)
    /api/runs/ID/reduction?method=&metric=&reference=        all orbits in one plane               float32 (models, N, 2)
    /api/runs/ID/thumbnails                                  small pictures of the samples         uint8 (N, S, S, C)
    /api/runs/ID/samples/I?frames=                           what is drawn of one sample           packed

Numbers are little-endian. A number in JSON that is not finite is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from veracity.core.errors import SpecError
from veracity.core.failures import failures_of
from veracity.orbits import OrbitResult
from veracity.orbits.live import LiveAnswer
from veracity.orbits.reduction import METHODS
from veracity.report.interactive.packed import pack
from veracity.report.interactive.subset import Array, Subset
from veracity.report.orbit_answer import orbit_answer

View = OrbitResult | Subset
"""All samples of an evaluation, or some of them."""

KEPT = ("outputs", "consensus", "errors", "consensus_errors", "quiver")
"""What of a model's outputs is drawn."""
NEEDED = {"umap": "umap"}
"""The packages that methods of dimension reduction need."""


def meta(view: View, number: str, live: bool = False, reductions: Sequence[str] | None = None) -> dict[str, Any]:
    """Everything that the page needs before any array: names, axes, tables, notes."""
    about = view.manifest
    orbit, task, small = about["orbit"], about["task"], view.thumbnails()
    groups, labels = sample_groups(view)
    installed = [method for method in METHODS if method not in NEEDED or find_spec(NEEDED[method]) is not None]
    return {
        "kind": "orbits",
        "id": number,
        "title": about.get("title") or folder(view),
        "folder": folder(view),
        "created": about.get("created"),
        "about": about.get("about") or {},
        "answer": orbit_answer(view.whole if isinstance(view, Subset) else view),
        "telling": telling(view),
        **{name: orbit[name] for name in ("layout", "axes", "coordinates", "identity", "elements", "plane")},
        "task": task["kind"],
        "classes": classes(view),
        "groups": groups,
        "models": [{**facts, "name": name} for name, facts in about["models"].items()],
        "metrics": metrics(view),
        "confidence": about["spec"]["confidence"],
        "samples": view.samples,
        "labels": labels,
        "input": {name: about["input"][name] for name in ("kind", "shape", "window")},
        "thumbnail": None if small is None else {"size": small.shape[1], "channels": small.shape[3]},
        "reductions": list(installed if reductions is None else reductions),
        "explainers": about["explainers"],
        "moves": (about["spec"]["task"].get("action") or {}).get("name") != "fixed",
        "live": live,
        "state": view.progress.plain(),
        "table": rows(view),
        "gaps": view.gap(),
        "agreement": view.agreement(),
        "notes": [*view.notes, *failure_sentences(view)],
    }


def telling(view: View) -> dict[str, int]:
    """The sample and the element to open on: where two models differ most, or where one has lost most since the identity.

    By confidence where that is measured, else by the first metric.
    """
    about = next((one for one in view.metrics if one["name"] == "confidence"), view.metrics[0])
    plots = np.stack([view.values(model, about["name"], view.references[0]) for model in view.models]).astype(np.float64)
    if len(plots) > 1:
        far = plots.max(axis=0) - plots.min(axis=0)
    else:
        far = (plots[0][:, [view.identity]] - plots[0]) * (1 if about["higher_is_better"] else -1)
    known = np.where(np.isfinite(far), far, -np.inf)
    sample, element = np.unravel_index(int(known.argmax()), known.shape)
    return {"sample": int(sample), "element": int(element if known.max() > 0 else view.identity)}


def classes(view: View) -> list[str]:
    """The names of the classes that models tell apart; where a classification names none, their numbers."""
    task = view.manifest["task"]
    if task["classes"] or task["kind"] != "classification":
        return list(task["classes"])
    return [str(number) for number in range(view.outputs(view.models[0], 0)["outputs"].shape[-1])]


def sample_groups(view: View) -> tuple[list[str], list[int | None] | None]:
    """Group names, and the index of each sample's group (None without one). If all groups are classes, the classes are the groups."""
    groups, classes = list(view.manifest["groups"]), list(view.manifest["task"]["classes"])
    if view.labels is None:
        return groups, None
    inside = groups != classes and bool(classes) and set(groups) <= set(classes)
    places = [classes.index(name) for name in groups] if inside else range(len(groups))
    return classes if inside else groups, [None if label < 0 else places[label] for label in view.labels.tolist()]


def folder(view: View) -> str:
    """The name of the run's folder, without its parents."""
    return Path(view.path).resolve().name or "run"


def metrics(view: View) -> list[dict[str, Any]]:
    """The metrics. One that does not depend on the reference is asked for with the first reference only."""
    return [one if one["explainer"] is None else {**one, "references": one["references"][:1]} for one in view.manifest["metrics"]]


def rows(view: View) -> list[dict[str, Any]]:
    """The table's rows. One that does not depend on the reference is repeated for every reference."""
    references = {one["name"]: one["references"] for one in view.manifest["metrics"]}
    found = [{str(name): value for name, value in row.items()} for row in view.table().to_dict("records")]
    return [{**row, "reference": one} for row in found for one in ([row["reference"]] if row["reference"] else references[row["metric"]])]


def failure_sentences(view: View) -> list[str]:
    """Sentences about what could not be measured."""
    return [str(one) for one in failures_of(view.failures().to_dict("records"))]


def values(view: View, model: str, metric: str, reference: str = "truth") -> bytes:
    """A metric along every sample's orbit, float32 (N, K)."""
    return raw(view.values(model, metric, reference), "<f4")


def reduction(view: View, method: str, metric: str, reference: str = "truth") -> bytes:
    """All models' orbits as points of one plane, float32 (models, N, 2); NaN where a sample was left out."""
    return raw(view.reduce(metric, method, reference), "<f4")


def thumbnails(view: View) -> bytes:
    """Small square pictures of all samples, uint8 (N, S, S, C)."""
    small = view.thumbnails()
    if small is None:
        raise SpecError("The inputs of this run have no small pictures.")
    return raw(small, "u1")


def sample(view: View, number: int, *, frames: bool = False) -> bytes:
    """What is drawn of one sample, packed: input, truth, and by model what it gave along the orbit.

    Arrays are `input`, `truth`, `outputs/MODEL`, `consensus/MODEL`, `errors/MODEL` against the truth and `consensus_errors/MODEL`,
    `quiver/MODEL`; with `frames`, the moved inputs of all elements. The header has the sample's group (`label`) and true class
    (`truth_class`), and counts by model how many outputs are missing in the consensus.
    """
    if not 0 <= number < view.samples:
        raise SpecError(f"There is no sample {number}: samples are numbered from 0 to {view.samples - 1}.")
    arrays: dict[str, Array] = dict(view.picture(number))
    missing: dict[str, int] = {}
    for model in view.models:
        given = view.outputs(model, number)
        arrays |= {f"{name}/{model}": given[name] for name in KEPT if name in given}
        missing[model] = int(given["missing"]) if "missing" in given else 0
    moved = view.frames(number) if frames else None
    if moved is not None:
        arrays["frames"] = moved
    labels = sample_groups(view)[1]
    label, known = None if labels is None else labels[number], view.truth_classes
    truth = None if known is None else int(known[number])
    return pack({"sample": number, "label": label, "truth_class": truth, "missing": missing}, arrays)


def live(moved: LiveAnswer) -> tuple[dict[str, Any], dict[str, Array]]:
    """What every model says of one moved input, as a header and arrays to pack.

    Arrays are `input` (images and series), and by model `outputs/MODEL`, of a field `errors/MODEL`, `consensus_errors/MODEL` and
    `quiver/MODEL` in its place, and `attribution/MODEL` beside `expected/MODEL`.
    """
    arrays: dict[str, Array] = {} if moved.input is None else {"input": moved.input}
    outputs = {model: array for model, array in moved.outputs.items() if model not in moved.quiver}
    fields = {"errors": moved.errors, "consensus_errors": moved.consensus_errors, "quiver": moved.quiver}
    explained = {"attribution": moved.attributions, "expected": moved.expected}
    for name, by_model in {"outputs": outputs, **fields, **explained}.items():
        arrays |= {f"{name}/{model}": array for model, array in by_model.items()}
    return {"label": moved.label, "truth_class": moved.truth_class, "metrics": moved.metrics, "explained": moved.explained}, arrays


def raw(array: Array, kind: str) -> bytes:
    """The array's numbers as bytes, without a header."""
    return np.ascontiguousarray(array, dtype=kind).tobytes()
