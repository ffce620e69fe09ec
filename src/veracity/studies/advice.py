"""Advice on a run: follow the flowchart for every explainer, change what fails, measure again, and report the gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import Explainer, Frame
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, unwrap
from veracity.core.randomness import Draws
from veracity.core.sentences import tell
from veracity.core.spaces import InputSpace
from veracity.engine.prepare import AuditPlan
from veracity.engine.progress import weight
from veracity.engine.resolve import as_models
from veracity.engine.store.records import sealed
from veracity.explain.symmetrised import Symmetrised
from veracity.measure import cosine
from veracity.results import Result, Series
from veracity.statistics.intervals import paired_interval
from veracity.studies.flowchart import BRANCHES, Assumption, Diagnosis, Remedy, Symptoms, diagnose, remedy
from veracity.studies.result import or_none


def layer_invariance(model: nn.Module, signals: Signals, space: InputSpace, elements: Tensor, rows: Tensor) -> dict[str, float]:
    """Inv_G (eq. 1) of every layer's output by cosine, by name in the order of execution.

    `elements` (R, p) move the samples `rows` (R,). Layers that do not give one row per input are left out.
    """
    before = activations(model, signals)
    after = activations(model, space.move(elements.to(signals.values.device), signals[rows.to(signals.values.device)]))
    return {
        name: float(cosine(after[name].flatten(1), value[rows.to(value.device)].flatten(1)).nanmean())
        for name, value in before.items()
        if name in after and len(value) == len(signals) and len(after[name]) == len(rows)
    }


@torch.no_grad()
def activations(model: nn.Module, signals: Signals) -> Mapping[str, Tensor]:
    """The output of every layer for these samples, in the order of execution; of a layer that is used twice, the last output."""
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                seen.pop(name, None)
                seen[name] = output.detach().clone()

        return hook

    parts = [(name, part) for name, part in unwrap(model).named_modules() if name]
    handles = [part.register_forward_hook(keep(name)) for name, part in parts]
    try:
        with evaluating(model):
            signals.through(model)
    finally:
        for handle in handles:
            handle.remove()
    return seen


SCORES = ("symmetry", "equivariance", "invariance")
ROUNDS = 3
PASSES = 60_000
SAMPLES, DRAWS = 8, 8
FILE = "advice.json"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One step of the flowchart for one explainer of one model, with the score before and after the change."""

    model: str
    explainer: str
    branch: str
    guideline: int
    robust: bool
    assumption: str
    measured: str
    reason: str
    change: str
    after_label: str
    before: float | None
    before_low: float | None
    before_high: float | None
    after: float | None
    after_low: float | None
    after_high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None

    def lines(self) -> list[str]:
        """The measurement, the reason, the change and its gain; nothing for a robust explainer."""
        if self.robust:
            return []
        said = [tell("advice.measured", self.measured, asked=1), self.reason, *([f"change: {self.change}"] if self.change else [])]
        if self.after is not None and self.before is not None:
            ends = "" if self.gain_low is None or self.gain_high is None else f" ({self.gain_low:+.3f} .. {self.gain_high:+.3f})"
            gain = "" if self.gain is None else f", gain {self.gain:+.3f}{ends}"
            said.append(tell("advice.after", self.before, self.after, gain, samples=1))
        elif self.change and self.assumption not in (Assumption.MODEL.value, Assumption.UNTOLD.value):
            said.append(tell("advice.not_after", intervals=1))
        return said

    def __str__(self) -> str:
        """A heading and its lines."""
        verdict = "robust" if self.robust else self.assumption
        head = f"{self.model} / {self.explainer} ({self.branch}, guideline {self.guideline}): {verdict}"
        return "\n  ".join([head, *self.lines()])


@dataclass(frozen=True)
class Case:
    """One explainer of one model in the current round."""

    model: str
    label: str
    original: str
    explainer: Explainer
    series: Series
    row: dict[str, Any]


def advise(
    audit: Audit, folder: str | Path, *, measure: bool = True, passes: int = PASSES, workers: int = 1, progress: bool = True
) -> list[Advice]:
    """Advice on the audit's run in this folder, stored there as advice.json; changed explainers are measured in folder/advice.

    Each explainer that is not robust is changed as the flowchart says and measured again on the same samples, up to three times. A change
    that would cost more than `passes` model passes is proposed but not measured.
    """
    if not isinstance(audit, Audit):
        raise InputError(f"Advice needs the Audit that made the run, not {type(audit).__name__}.")
    result = Result(folder)
    score = next((name for name in SCORES if name in result.manifest["scores"]), None)
    if score is None:
        raise InputError(f"Advice needs a run with the score 'symmetry' (or one of {', '.join(SCORES[1:])}): add it to scores=[...].")
    prepared = audit.prepare(workers=workers)
    check_same_audit(prepared, result)

    def affordable(explainer: Explainer) -> bool:
        one = explainer.bind(audit.reference, prepared.problem.defaults.space).cost(prepared.problem.inputs.shape)
        maps = prepared.problem.inputs.size() * (1 + prepared.problem.defaults.walk.length(site.space))
        return weight(one) * maps <= passes

    def measure_again(model: str, number: int, changed: dict[str, Explainer]) -> Result:
        asked = replace(
            audit,
            models={model: as_models(audit.models)[model]},
            checkpoints={name: listed for name, listed in (audit.checkpoints or {}).items() if name == model},
            explainers=changed,
            scores=[score, "model_invariance"],
            controls=False,
            title=f"Advice on {model}, step {number}",
        )
        where = Path(folder) / "advice" / f"{list(prepared.problem.models).index(model)}-step-{number}"
        return asked.run(where, workers=workers, progress=progress)

    found: list[Advice] = []
    for name in prepared.problem.models:
        site = Site(prepared, name)
        cases = cases_of(result, score, name, prepared.problem.explainers, {})
        for number in range(1, (ROUNDS if measure else 1) + 1):
            steps = [(case, diagnosis_of(case, site)) for case in cases]
            plans = {case.label: remedy(case.explainer, step.assumption, site.space, site.layers) for case, step in steps}
            names = {f"{case.original}, step {number}": case for case, _ in steps if plans[case.label].explainer is not None}
            changed = {label: fixed for label, case in names.items() if (fixed := plans[case.label].explainer) and affordable(fixed)}
            fresh: list[Case] = []
            if changed and measure:
                origins = {label: case.original for label, case in names.items()}
                fresh = cases_of(measure_again(name, number, changed), score, name, changed, origins)
            after = {case.original: case for case in fresh}
            found += [advice_step(case, step, plans[case.label], after.get(case.original)) for case, step in steps]
            cases = fresh
            if not cases:
                break
    result.folder.files.write(FILE, sealed({"advice": [asdict(one) for one in found]}))
    return found


def check_same_audit(prepared: AuditPlan, result: Result) -> None:
    """Raise unless the run was made by this audit: the same data, seed, models and explainers."""
    problem, manifest = prepared.problem, result.manifest
    models = [(name, facts["fingerprint"]) for name, facts in manifest["models"].items()]
    differing = [
        what
        for what, ours, theirs in (
            ("data", problem.inputs.fingerprint(), manifest["data"]["fingerprint"]),
            ("seed", problem.seed, manifest["seed"]),
            ("models", [(name, model.fingerprint) for name, model in problem.models.items()], models),
            ("explainers", set(problem.explainers), {cell["explainer"] for cell in manifest["cells"]} - {""}),
        )
        if ours != theirs
    ]
    if differing:
        raise InputError(
            f"The run in {result.path} was made by another audit, with other {' and '.join(differing)}: pass the one that made it."
        )


def cases_of(result: Result, score: str, model: str, explainers: Mapping[str, Explainer], origins: Mapping[str, str]) -> list[Case]:
    """The measured explainers of a model without controls; `origins` maps a changed explainer to the original one."""
    rows: dict[Any, Any] = {(row["model"], row["explainer"], row["score"]): row for row in result.table().to_dict("records")}
    own = {"model_invariance": rows[model, "", "model_invariance"]["value"] if (model, "", "model_invariance") in rows else math.nan}
    return [
        Case(model, one.explainer, origins.get(one.explainer, one.explainer), explainer, one, {**rows[model, one.explainer, score], **own})
        for one in result.series
        if one.score == score and one.model == model and not one.control and not one.missing
        if (explainer := explainers.get(one.explainer)) is not None
    ]


class Site:
    """How invariant a model and its layers are, from a few samples and transforms: what the flowchart asks about the model."""

    def __init__(self, prepared: AuditPlan, name: str) -> None:
        problem = prepared.problem
        if problem.defaults.space is None:
            raise InputError("Advice needs a symmetry: pass Audit(symmetry=...).")
        self.space, self.seed, self.shape = problem.defaults.space, problem.seed, problem.inputs.shape
        model = problem.models[name]
        samples = torch.arange(min(SAMPLES, problem.inputs.size()))
        rows, elements = random_transforms(self.space, len(samples), self.seed)
        signals = problem.inputs.take(samples).to(device_of(model.module))
        self.layers = layer_invariance(model.module, signals, self.space, elements, rows)
        with torch.no_grad(), evaluating(model.module):
            moved = self.space.move(elements.to(signals.values.device), signals[rows.to(signals.values.device)])
            before, after = (model.read(part) for part in (signals, moved))
        self.invariance = float(cosine(after, before[rows.to(before.device)]).nanmean())


def random_transforms(space: InputSpace, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A few random transforms of each of `count` signals: the signals' numbers (R,), and the elements (R, p)."""
    rows = torch.arange(count).repeat_interleave(DRAWS)
    draw = torch.arange(DRAWS).repeat(count)
    return rows, space.decode(Draws(seed, rows, draw).normal(space.latents, stream="advice"))


def diagnosis_of(case: Case, site: Site) -> Diagnosis:
    """The flowchart's answer for one explainer; the baseline and layer of a mean over transforms do not matter."""
    mean = isinstance(case.explainer, Symmetrised)
    layer = "" if mean else str(getattr(case.explainer, "layer", None) or "")
    return diagnose(
        Symptoms(
            frame=case.explainer.frame,
            score=case.row["value"],
            low=case.row["low"],
            high=case.row["high"],
            self_agreement=case.row["self_agreement"],
            model_invariance=site.invariance if math.isnan(case.row["model_invariance"]) else case.row["model_invariance"],
            stochastic=case.explainer.stochastic,
            baseline_motion=math.nan if mean else baseline_motion(case.explainer, site),
            layer=layer,
            layer_invariance=site.layers.get(layer, math.nan) if case.explainer.frame is not Frame.INPUT else math.nan,
            representation=site.space.representation,
            needs_permutation=not mean and case.explainer.name != "gradient",
        )
    )


def baseline_motion(explainer: Explainer, site: Site) -> float:
    """The largest |g b - b| / |b| over an explainer's baselines (or reference rows) and a few transforms; NaN without any."""
    several = next((value for name in ("baselines", "reference_set") if isinstance(value := getattr(explainer, name, None), Tensor)), None)
    single = getattr(explainer, "baseline", None)
    if several is None and single is None:
        return math.nan
    given = torch.as_tensor(single).expand(site.shape)[None] if several is None else several[:SAMPLES]
    baselines = given.detach().cpu().double()
    rows, elements = random_transforms(site.space, len(baselines), site.seed)
    moved = site.space.act(elements, baselines[rows])
    motion, size = (part.flatten(1).norm(dim=1) for part in (moved - baselines[rows], baselines[rows]))
    return float((motion / size.clamp(min=1e-30)).max())


def advice_step(case: Case, step: Diagnosis, plan: Remedy, after: Case | None) -> Advice:
    """One step in words and numbers."""
    gain = None
    if after is not None:
        _, here, there = np.intersect1d(case.series.samples, after.series.samples, return_indices=True)
        units = None if case.series.units is None else case.series.units[here]
        gain = paired_interval(after.series.per_sample[there], case.series.per_sample[here], units=units)
    return Advice(
        model=case.model,
        explainer=case.label,
        branch=BRANCHES.get(case.explainer.frame, case.explainer.frame.value),
        guideline=step.guideline,
        robust=step.assumption is Assumption.NONE,
        assumption=step.assumption.value,
        measured=step.measured,
        reason=step.reason,
        change=plan.change,
        after_label=after.label if after else "",
        **ends("before", case.row),
        **ends("after", after.row if after else {}),
        **ends("gain", asdict(gain) if gain else {}),
    )


def ends(name: str, found: Mapping[str, Any]) -> dict[str, float | None]:
    """A value and the ends of its interval for JSON, which has no NaN."""
    names = {"value": name, "low": f"{name}_low", "high": f"{name}_high"}
    return {field: or_none(found.get(part, math.nan)) for part, field in names.items()}
