"""Single samples of a run: their values, explanations and stored pairs, read from the blocks that hold them and from no other.

A run of a million samples has some thousand cells. What one sample says lies in one cell per model, explainer and score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from veracity.core.errors import InputError, unknown
from veracity.engine.store.folder import NUMBERS
from veracity.results.series import Near, WorstPair, dense, derive, draws_of, gather, unpack_pairs

if TYPE_CHECKING:
    from veracity.results.run import Result

Cell = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SampleValue:
    """What a score says of an explainer on one sample; NaN if it is undefined there. `failed` is the error of a sample that failed."""

    explainer: str
    control: bool
    score: str
    value: float
    draws: int
    undefined: int
    failed: str = ""


def check_sample(run: Result, sample: int) -> None:
    """Raise if a run has no such sample."""
    size = int(run.manifest["data"]["samples"])
    if not 0 <= sample < size:
        raise InputError(f"There is no sample {sample}: this run has the samples 0 to {size - 1}.")


def place_in(run: Result, cell: Cell, sample: int) -> int | None:
    """Where a sample stands in the block of a cell; None if it is in another block."""
    numbers = run.manifest.get("blocks", {}).get(cell["model"], {}).get(str(cell["start"]))
    if numbers is not None:
        return list(numbers).index(sample) if sample in numbers else None
    return sample - int(cell["start"]) if cell["start"] <= sample < cell["stop"] else None


def cells_of(run: Result, model: str, sample: int) -> list[Cell]:
    """The cells of a model that hold a sample; raises if there is no such model or sample."""
    check_sample(run, sample)
    mine = [cell for cell in run.manifest["cells"] if cell["model"] == model]
    if not mine:
        raise unknown("model of this run", model, {cell["model"] for cell in run.manifest["cells"]})
    return [cell for cell in mine if place_in(run, cell, sample) is not None]


def sample_values(run: Result, model: str, sample: int) -> list[SampleValue]:
    """The value of every explainer of a model by every score, on one sample: as `Result.samples` has them, without reading all of them."""
    grouped: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells_of(run, model, sample):
        if cell["score"] in run.manifest["scores"]:
            grouped.setdefault((cell["explainer"], cell["score"]), []).append(cell)
    finished, lost = run.progress.done, {(one.explainer, one.score): one.lost for one in run.series if one.model == model}
    found = []
    for (explainer, score), cells in grouped.items():
        keys = tuple(cell["key"] for cell in cells if cell["key"] in finished)
        near = run.near.recall(keys, partial(read_near, run, score, keys))
        at = int(np.searchsorted(near.samples, sample))
        if at == len(near.samples) or near.samples[at] != sample:
            continue
        failed = lost.get((explainer, score), {}).get(sample, "")
        draws = 0 if failed else int(near.drawn[at])
        found.append(
            SampleValue(
                explainer=explainer,
                control=bool(cells[0]["control"]),
                score=score,
                value=float(near.per_sample[at]),
                draws=draws,
                undefined=max(draws - int(near.defined[at]), 0),
                failed=failed,
            )
        )
    return found


def read_near(run: Result, score: str, keys: Sequence[str]) -> Near:
    """The numbers of a score in some of the cells of one subject."""
    samples, measured, counts = gather(dense(run.folder.read_cell(key, NUMBERS)) for key in keys)
    values, per_sample, *_ = derive(run.manifest["score_specs"][score], measured)
    return Near(samples, per_sample, draws_of(values, measured, counts), np.isfinite(values).sum(axis=1))


def sample_explanation(run: Result, model: str, explainer: str, sample: int) -> Tensor | None:
    """The explanation of one unperturbed input; None if the run did not keep it."""
    cells = [cell for cell in cells_of(run, model, sample) if cell["explainer"] == explainer]
    if not cells:
        raise unknown("explainer of this run", explainer, {cell["explainer"] for cell in run.manifest["cells"] if cell["explainer"]})
    stored = run.folder.records.keys("explanations")
    for base, cell in {cell["base"]: cell for cell in cells if cell.get("base")}.items():
        kept = run.folder.read_tensors("explanations", base) if base in stored else None
        place = place_in(run, cell, sample)
        if kept is not None and place is not None and place < len(kept["explanation"]):
            return kept["explanation"][place]
    return None


def sample_pairs(run: Result, model: str, score: str, sample: int) -> list[WorstPair]:
    """The stored pairs of one sample by a score: input and explanation before and after a perturbation."""
    cells = [cell for cell in cells_of(run, model, sample) if cell["score"] == score]
    return list(pairs_in(run, cells, sample))


def sample_input(run: Result, sample: int) -> Tensor | None:
    """The input of one sample; None if the run did not keep it. A run keeps the inputs of its most telling pairs."""
    check_sample(run, sample)
    cells = [cell for cell in run.manifest["cells"] if place_in(run, cell, sample) is not None]
    return next((pair.input for pair in pairs_in(run, cells, sample)), None)


def sample_inputs(run: Result, samples: Sequence[int]) -> dict[int, Tensor]:
    """The inputs of those of some samples that the run kept; each file is read once."""
    wanted, found = set(samples), dict[int, Tensor]()
    stored = run.folder.records.keys("worst")
    for cell in run.manifest["cells"]:
        if len(found) == len(wanted):
            break
        if cell["key"] in stored and any(place_in(run, cell, sample) is not None for sample in wanted - found.keys()):
            found |= {pair.sample: pair.input for pair in pairs_in(run, [cell]) if pair.sample in wanted}
    return found


def sample_explanations(run: Result, model: str, explainer: str, samples: Sequence[int]) -> dict[int, Tensor]:
    """The explanations of those of some samples that the run kept, of unperturbed inputs; each file is read once."""
    stored, found = run.folder.records.keys("explanations"), dict[int, Tensor]()
    mine = [cell for cell in run.manifest["cells"] if (cell["model"], cell["explainer"]) == (model, explainer)]
    for base, cell in {cell["base"]: cell for cell in mine if cell.get("base") in stored}.items():
        places = {sample: place for sample in samples if (place := place_in(run, cell, sample)) is not None}
        kept = run.folder.read_tensors("explanations", base) if places else None
        if kept is not None:
            maps = kept["explanation"]
            found |= {sample: maps[place].clone() for sample, place in places.items() if place < len(maps)}
    return found


def pairs_in(run: Result, cells: Iterable[Cell], sample: int | None = None) -> Iterator[WorstPair]:
    """The stored pairs of some cells, or of one sample in them. A cell that was read before is read again only if it has that sample."""
    stored = run.folder.records.keys("worst")
    for cell in cells:
        key = cell["key"]
        if key not in stored or (sample is not None and sample not in run.paired.get(key, (sample,))):
            continue
        kept = run.folder.read_tensors("worst", key)
        if kept is not None:
            found = list(unpack_pairs(dict(cell), kept, sample))
            run.paired[key] = frozenset(kept["sample"].tolist())
            yield from found
