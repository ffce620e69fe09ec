"""Which scores to check under which damages, and the run that does it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.crosstrained import CrossTrained
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, placed
from veracity.core.settings import Count, Inside, Whole, check_fields
from veracity.degradation.block import Block, Model, Outcome
from veracity.degradation.damages import Case, Damage, as_damages
from veracity.degradation.result import DegradationResult, plain
from veracity.engine.crosstraining import found_folds
from veracity.engine.folded import on_device
from veracity.engine.progress import bar
from veracity.engine.resolve import as_inputs, as_labels, as_tensor, labelled
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.engine.store.sealed import sealed
from veracity.engine.store.study import studying
from veracity.interpret.trend import SEEDS
from veracity.perturb import ConvolutionNoise, WrongLabels
from veracity.perturb.labels import check_labels
from veracity.perturb.weights.damage import check_shares

MARK = "degradation.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class DegradationCheck:
    """Which scores to check, on a model, data and explainers, under which damages.

    model      a CrossTrained, trained anew for every seed; or one torch.nn.Module, whose weights alone can be damaged
    inputs     what is audited, and with targets what a CrossTrained learns from
    targets    the true labels (samples,): wrong ones are only learnt from
    explainers, scores, symmetry, walk, reference, outputs as in an Audit; any score of the package
    damages    "weights" and "labels"; or objects: ConvolutionNoise(sigma=0.2), WrongLabels(), any space of weights with one level a
               share; a list or {"name": ...}
    shares     how much is damaged, ascending: of each convolution's entries, of the labels
    seeds      how often everything is repeated, three times at least; seed s trains with the model's seed + s, and damages and
               explains with random numbers of its own
    """

    model: Model
    inputs: Tensor | Inputs | Sequence[Any]
    targets: Tensor | None = None
    explainers: Sequence[Any] | Mapping[str, Any]
    scores: Sequence[Any] | Mapping[str, Any]
    damages: Sequence[Any] | Mapping[str, Any] = ("weights", "labels")
    shares: Sequence[float] = (0.05, 0.10, 0.30)
    seeds: Count = 3
    seed: Whole = 0
    symmetry: Any = None
    walk: Any = None
    outputs: str | None = None
    reference: Tensor | None = None
    confidence: Inside = 0.95
    title: str | None = None

    def __post_init__(self) -> None:
        """Check every plain setting; what names or holds data is looked at by `check`."""
        check_fields(
            self,
            "the degradation check",
            others=("model", "inputs", "targets", "explainers", "scores", "damages", "shares", "outputs", "reference"),
        )

    def run(self, folder: str | Path, *, workers: int = 1, batch: int | None = None, progress: bool = True) -> DegradationResult:
        """Train and measure what the folder does not hold yet, seed after seed; every case has a run folder of its own."""
        damages = self.check()
        root = str(folder)
        files = Files(root)
        if not begun(folder):
            RunFolder(root).check_writable()
        about = {"what": "a degradation check", "seed": self.seed, "title": self.title}
        names = [case.name for seed in range(self.seeds) for case in self.cases(damages, seed)]
        settings: dict[str, Any] = {"workers": workers, "batch": batch, "progress": False}
        found: list[Outcome] = []
        with studying(files, MARK, about, names), bar("damaging", len(names), progress) as advance:
            for seed in range(self.seeds):
                block = Block(self.audit(seed), self.model, self.learnt(), seed, root, settings)
                for case in self.cases(damages, seed):
                    advance(0, case.name)
                    found.append(block.measured(case, damages))
                    advance(1, case.name)
        rows = pd.concat([one.rows for one in found], ignore_index=True)
        failed = pd.concat([one.failed for one in found], ignore_index=True)
        lost = {one.case.name: one.lost for one in found if one.lost}
        result = DegradationResult(rows, tuple(damages), lost, failed, self.title, self.confidence)
        files.write("values.json", sealed({"rows": plain(rows)}))
        return result

    def on(self, device: str) -> DegradationCheck:
        """The same check with its models on a device."""
        if isinstance(self.model, CrossTrained):
            return replace(self, model=on_device(self.model, device))
        return replace(self, model=placed("model", self.model, as_device(device)))

    def audit(self, seed: int) -> Audit:
        """The audit of every case of a seed."""
        return Audit(
            models={"model": self.model},
            inputs=self.inputs,
            targets=self.targets,
            explainers=self.explainers,
            scores=self.scores,
            symmetry=self.symmetry,
            walk=self.walk,
            outputs=self.outputs,
            reference=self.reference,
            controls=False,
            companions=False,
            seed=self.seed + seed,
            confidence=self.confidence,
        )

    def cases(self, damages: Mapping[str, Damage], seed: int) -> Iterator[Case]:
        """The undamaged model of a seed, and every damaged one."""
        yield Case("", 0.0, 0, seed)
        for damage in damages:
            for level, share in enumerate(self.shares):
                yield Case(damage, float(share), level, seed)

    def check(self) -> dict[str, Damage]:
        """The damages by name; raises on what could not work."""
        check_shares(self.shares, "The shares that are damaged")
        if self.seeds < SEEDS:
            raise InputError(f"A trend needs at least {SEEDS} seeds a level, not {self.seeds}: pass seeds={SEEDS} or more.")
        least = math.factorial(len(self.shares) + 1) ** -self.seeds
        if least > 1.0 - self.confidence:
            raise InputError(
                f"With {len(self.shares)} share and {self.seeds} seeds no trend can be told from chance (p is {least:.3f} at best): give "
                "more shares or seeds."
            )
        if not isinstance(self.model, (nn.Module, CrossTrained)):
            raise InputError(f"A degradation check is of one CrossTrained, or of one torch.nn.Module, not {type(self.model).__name__}.")
        fixed = [label for label, one in labelled(self.explainers, controls=False).items() if one.fixed]
        if fixed:
            raise InputError(f"Damaged models are explained anew, and '{fixed[0]}' is maps without their explainer: leave it out.")
        damages = {name: self.suited(name, damage) for name, damage in as_damages(self.damages).items()}
        trained = isinstance(self.model, CrossTrained) and self.model.fit is not None
        if any(isinstance(one, WrongLabels) for one in damages.values()):
            if not trained:
                raise InputError("Wrong labels need a model that can be trained anew: pass CrossTrained(fit=...), or damages=['weights'].")
            check_labels(self.learnt())
        return damages

    def suited(self, name: str, damage: Damage) -> Damage:
        """A damage with one level for each share, if the model has what it damages."""
        if isinstance(damage, WrongLabels):
            return damage
        space = replace(damage, shares=tuple(self.shares)) if isinstance(damage, ConvolutionNoise) else damage
        if isinstance(self.model, CrossTrained):
            inputs = as_inputs(self.inputs)
            known = found_folds(self.model, inputs, as_labels(self.targets, inputs.size()), None)
            network = known.modules[0] if known is not None else None
        else:
            network = self.model
        fitted = space if network is None else space.of(network)
        if network is not None and fitted.levels != len(self.shares):
            raise SpecError(f"The damage '{name}' has {fitted.levels} levels for {len(self.shares)} shares: it needs one for each.")
        return fitted

    def learnt(self) -> Tensor | None:
        """The true labels that a CrossTrained learns from."""
        given = self.model.data[1] if isinstance(self.model, CrossTrained) and self.model.data is not None else self.targets
        found = as_tensor(given, "targets")
        return None if found is None else found.cpu()


def begun(folder: str | Path) -> bool:
    """Whether a folder already holds a degradation check."""
    return Files(str(folder)).exists(MARK)
