"""Degradation check: does a score get worse as the model is damaged? The settings of the check, and its result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import maps_only
from veracity.core.failures import failures_of
from veracity.core.inputs import Inputs
from veracity.core.measures import Direction
from veracity.core.models import as_device, to_device
from veracity.core.settings import Count, Inside, Whole, check_fields
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain.folds import on_device
from veracity.engine.crosstrain.training import FoldTraining
from veracity.engine.resolve import as_labels, as_tensor, labelled
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Count as Number
from veracity.engine.store.manifest import Kind, Part
from veracity.engine.store.study import findings
from veracity.inputs import as_inputs
from veracity.perturb import ConvolutionNoise, WrongLabels
from veracity.perturb.damage import check_labels, check_shares
from veracity.statistics.intervals import mean_interval
from veracity.statistics.trend import SEEDS, Trend, holm, trend, trend_verdict
from veracity.studies.damaged_models import Case, Damage, Model, Outcome, SeedBlock, as_damages
from veracity.studies.result import StudyResult, gate_rows, records, write_study

FAILED = ["case", "explainer", "score", "error"]


class Value(Part):
    """A score of one explainer under one damage; an infinite bound is null."""

    damage: str
    share: float
    seed: Number
    score: str
    explainer: str
    value: float | None
    accuracy: float | None
    direction: Literal["higher", "lower"]
    least: float | None
    most: float | None


class Failure(Part):
    """A cell of a case that could not be measured."""

    case: str
    explainer: str
    score: str
    error: str


class Findings(Part):
    """What the folder of a degradation check keeps."""

    rows: list[Value]
    damages: list[str]
    lost: dict[str, str]
    failed: list[Failure]
    confidence: Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class DegradationResult(StudyResult):
    """Every score of every explainer under every damage: one of the `rows` per damage, share, seed, score and explainer.

    The undamaged model has the rows with share 0, once. `lost` says, by the name of the case, why a damaged model could not be measured
    at all; its values are NaN.
    """

    kind: ClassVar[Kind] = Kind.DEGRADATION
    failures_expected: ClassVar[bool] = True
    rows: pd.DataFrame
    damages: tuple[str, ...]
    lost: Mapping[str, str]
    failed: pd.DataFrame

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The values that a folder holds."""
        found = findings(folder, Findings)
        rows = pd.DataFrame(found["rows"], columns=list(Value.model_fields))
        numbers = rows.astype(dict.fromkeys(["share", "value", "accuracy", "least", "most"], float))
        rows = numbers.assign(least=numbers["least"].fillna(-np.inf), most=numbers["most"].fillna(np.inf))
        failed = pd.DataFrame(found["failed"], columns=FAILED)
        title, confidence = manifest.get("title"), found["confidence"]
        return cls(rows, tuple(found["damages"]), found["lost"], failed, title=title, path=folder.root, confidence=confidence)

    def findings(self) -> dict[str, Any]:
        """Every value, and what could not be measured."""
        failed = self.failed.reindex(columns=FAILED)
        kept = {"rows": records(self.rows), "failed": records(failed), "lost": dict(self.lost)}
        return {**kept, "damages": list(self.damages), "confidence": self.confidence}

    def requirements(self) -> pd.DataFrame:
        """The `slope` of every score with its interval, and `p_adjusted` without one; "score / damage" takes the place of the model."""
        found = []
        for row in self.trends().to_dict("records"):
            who = {"model": f"{row['score']} / {row['damage']}", "explainer": row["explainer"], "n": row["n"]}
            found.append({**who, "score": "slope", "value": row["slope"], "low": row["low"], "high": row["high"]})
            found.append({**who, "score": "p_adjusted", **dict.fromkeys(("value", "low", "high"), row["p_adjusted"])})
        return gate_rows(found)

    def table(self) -> pd.DataFrame:
        """One row per damage, share, score and explainer: the mean over seeds with its t interval, and the mean accuracy.

        Intervals are clipped to the bounds of the score; `n` seeds have a value, `undefined` have none. A damage that does not change the
        accuracy is not a damage.
        """
        found = []
        for (damage, score, explainer), here in self._groups():
            for share, part in here.groupby("share", sort=True):
                middle = asdict(mean_interval(part["value"].to_numpy(dtype=np.float64), self.confidence))
                ends = np.clip([middle["low"], middle["high"]], part["least"].iloc[0], part["most"].iloc[0])
                beside = {"undefined": int(part["value"].isna().sum()), "accuracy": part["accuracy"].mean()}
                named = {"damage": damage, "share": share, "score": score, "explainer": explainer}
                found.append({**named, **middle, "low": ends[0], "high": ends[1], **beside, "direction": part["direction"].iloc[0]})
        return pd.DataFrame(found)

    def trends(self) -> pd.DataFrame:
        """One row per damage, score and explainer: does the score follow the damage?

        `slope` is in units of the score per unit of damage, with its t interval over seeds; `p` is of Page's one-sided test in the
        direction in which the score is worse, `p_adjusted` by Holm's correction over the explainers of a score and damage. The
        verdict is "follows", "does not follow", "goes the other way" or "undefined". `accuracy_drop` is how much accuracy the largest
        damage costs.
        """
        groups: dict[tuple[str, str], list[tuple[Trend, dict[str, Any], dict[str, Any]]]] = {}
        for (damage, score, explainer), here in self._groups():
            values = here.pivot(index="seed", columns="share", values="value").sort_index(axis=1)
            accuracies = here.groupby("share", sort=True)["accuracy"].mean()
            direction = Direction(here["direction"].iloc[0])
            one = trend(values.to_numpy(dtype=np.float64), [float(share) for share in values.columns], direction, self.confidence)
            names = {"damage": damage, "score": score, "explainer": explainer}
            facts = {"accuracy_drop": float(accuracies.iloc[0] - accuracies.iloc[-1]), "direction": direction.value}
            groups.setdefault((damage, score), []).append((one, names, facts))
        rows = []
        for group in groups.values():
            adjusted = holm(np.array([one.p for one, *_ in group])).tolist()
            for (one, names, facts), p in zip(group, adjusted, strict=True):
                numbers = {"slope": one.slope, "low": one.low, "high": one.high, "p": one.p, "p_adjusted": p}
                verdict = trend_verdict(p, one, self.confidence)
                rows.append({**names, **numbers, "verdict": verdict, "n": one.n, "undefined": one.undefined, **facts})
        return pd.DataFrame(rows)

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why: one row per case, or per explainer and score of a case."""
        lost = [{"case": name, "explainer": "", "score": "", "error": reason} for name, reason in self.lost.items()]
        return pd.concat([pd.DataFrame(lost, columns=FAILED), self.failed], ignore_index=True)

    def __str__(self) -> str:
        """The trends as text, then what could not be measured."""
        shown = self.trends().drop(columns=["direction"])
        lines = [str(shown.to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep=""))]
        lost = failures_of({**row, "model": row["case"]} for row in self.failures().to_dict("records"))
        return "\n".join([*lines, *map(str, lost)])

    def _groups(self) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
        """The rows of each damage, score and explainer, the undamaged ones among them."""
        for damage in self.damages:
            mine = self.rows[self.rows["damage"].isin(["", damage])]
            for (score, explainer), here in mine.groupby(["score", "explainer"], sort=False):
                yield (damage, str(score), str(explainer)), here


@dataclass(frozen=True, kw_only=True, eq=False)
class DegradationCheck:
    """Which scores to check, on a model, data and explainers, under which damages.

    model      a CrossTrained, trained anew for every seed; or one torch.nn.Module, whose weights alone can be damaged
    inputs     what is audited, and with targets what a CrossTrained learns from
    targets    the true labels (samples,); wrong ones are used for training only
    explainers, scores, symmetry, walk, reference, outputs as in an Audit; any score of the package
    damages    "weights" and "labels"; or objects: ConvolutionNoise(sigma=0.2), WrongLabels(), any space of weights with one level per
               share; a list or {"name": ...}
    shares     how much is damaged, ascending: of each convolution's entries, of the labels
    seeds      how often everything is repeated, three times at least; seed s trains with the model's seed + s, and damages and
               explains with its own random numbers
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
        """Check every plain setting; `check` looks at names and data."""
        check_fields(
            self,
            "the degradation check",
            others=("model", "inputs", "targets", "explainers", "scores", "damages", "shares", "outputs", "reference"),
        )

    def run(self, folder: str | Path, *, workers: int = 1, batch: int | None = None, progress: bool = True) -> DegradationResult:
        """Train and measure what the folder does not hold yet, seed by seed; every case has its own run folder."""
        damages = self.check()
        root = str(folder)
        about: dict[str, Any] = {"title": self.title, "settings": {"seed": self.seed}}
        names = [case.name for seed in range(self.seeds) for case in self.cases(damages, seed)]
        settings: dict[str, Any] = {"workers": workers, "batch": batch, "progress": False}
        found: list[Outcome] = []
        with write_study(Kind.DEGRADATION, root, names, doing="damaging", progress=progress, **about) as (written, advance):
            for seed in range(self.seeds):
                block = SeedBlock(self.audit(seed), self.model, self.training_labels(), seed, root, settings)
                for case in self.cases(damages, seed):
                    advance(0, case.name)
                    found.append(block.measure(case, damages))
                    advance(1, case.name)
            rows = pd.concat([one.rows for one in found], ignore_index=True)
            failed = pd.concat([one.failed for one in found], ignore_index=True)
            lost = {one.case.name: one.lost for one in found if one.lost}
            result = DegradationResult(rows, tuple(damages), lost, failed, title=self.title, path=root, confidence=self.confidence)
            written.conclude(result.findings())
        return result

    def on(self, device: str) -> DegradationCheck:
        """The same check with its models on a device."""
        if isinstance(self.model, CrossTrained):
            return replace(self, model=on_device(self.model, device))
        return replace(self, model=to_device("model", self.model, as_device(device)))

    def audit(self, seed: int) -> Audit:
        """The audit of every case of a seed."""
        same = ("inputs", "targets", "explainers", "scores", "symmetry", "walk", "outputs", "reference", "confidence")
        given = {name: getattr(self, name) for name in same}
        return Audit(models={"model": self.model}, **given, controls=False, companions=False, seed=self.seed + seed)

    def cases(self, damages: Mapping[str, Damage], seed: int) -> Iterator[Case]:
        """The undamaged model of a seed, and every damaged one."""
        yield Case("", 0.0, 0, seed)
        for damage in damages:
            for level, share in enumerate(self.shares):
                yield Case(damage, float(share), level, seed)

    def check(self) -> dict[str, Damage]:
        """The damages by name; raises on settings that cannot work."""
        check_shares(self.shares, "The shares that are damaged")
        if self.seeds < SEEDS:
            raise InputError(f"A trend needs at least {SEEDS} seeds per level, not {self.seeds}: pass seeds={SEEDS} or more.")
        least = math.factorial(len(self.shares) + 1) ** -self.seeds
        if least > 1.0 - self.confidence:
            raise InputError(
                f"With {len(self.shares)} share and {self.seeds} seeds no trend can be told from chance (p is {least:.3f} at best): give "
                "more shares or seeds."
            )
        if not isinstance(self.model, (nn.Module, CrossTrained)):
            raise InputError(f"A degradation check is of one CrossTrained, or of one torch.nn.Module, not {type(self.model).__name__}.")
        fixed = [label for label, one in labelled(self.explainers, controls=False).items() if maps_only(one)]
        if fixed:
            raise InputError(f"Damaged models need new explanations, but '{fixed[0]}' is maps without their explainer: leave it out.")
        damages = {name: self.fit_damage(name, damage) for name, damage in as_damages(self.damages).items()}
        trained = isinstance(self.model, CrossTrained) and self.model.fit is not None
        if any(isinstance(one, WrongLabels) for one in damages.values()):
            if not trained:
                raise InputError("Wrong labels need a model that can be trained anew: pass CrossTrained(fit=...), or damages=['weights'].")
            check_labels(self.training_labels())
        return damages

    def fit_damage(self, name: str, damage: Damage) -> Damage:
        """A damage with one level per share; raises if the model has nothing that it damages."""
        if isinstance(damage, WrongLabels):
            return damage
        space = replace(damage, shares=tuple(self.shares)) if isinstance(damage, ConvolutionNoise) else damage
        if isinstance(self.model, CrossTrained):
            inputs = as_inputs(self.inputs)
            known = FoldTraining(self.model, inputs, as_labels(self.targets, inputs.size())).load(None)
            network = known.modules[0] if known is not None else None
        else:
            network = self.model
        fitted = space if network is None else space.of(network)
        if network is not None and fitted.levels != len(self.shares):
            raise SpecError(f"The damage '{name}' has {fitted.levels} levels for {len(self.shares)} shares: it needs one for each.")
        return fitted

    def training_labels(self) -> Tensor | None:
        """The true labels that a CrossTrained learns from."""
        given = self.model.data[1] if isinstance(self.model, CrossTrained) and self.model.data is not None else self.targets
        found = as_tensor(given, "targets")
        return None if found is None else found.cpu()
