"""What an audit measures by default: explainers and scores that fit the models and the data, on as many samples as a minute allows.

Every explainer checks two inputs, and those that refuse are left out with their reason. The number of samples follows from counted
operations, never from a clock, so that the same call makes the same choice and resumes its own folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from veracity.core.dense_targets import target_for
from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import check_weights, device_of, evaluating
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.registry import EXPLAINERS, SCORES
from veracity.core.scores import Reads
from veracity.core.snapshot import preserve_state
from veracity.core.targets import Predicted, Target
from veracity.core.training import CrossTrained
from veracity.core.wording import count
from veracity.explain import Saliency
from veracity.models import readable_output
from veracity.scores.common import as_score
from veracity.scores.presets import PRESETS, listed_scores, needs

WITH_SYMMETRY = ("equivariance", "model_invariance")
WITH_GRADIENTS = ("saliency", "input_x_gradient", "integrated_gradients", "grad_cam")
WITHOUT_GRADIENTS = ("kernel_shap", "feature_ablation", "occlusion", "lime")
"""Explainers that need outputs alone; `feature_ablation` is for vectors, `occlusion` for inputs with positions."""
MOST, LEAST = 64, 8
"""The most and the fewest samples that an audit chooses by itself."""
SECONDS = 30.0
RATES = {"cpu": 2e10, "cuda": 5e12}
"""Floating point operations per second that a modest machine sustains."""
OVERHEAD = 2e5
"""Operations that take as long as one row of a small model."""
ANEW = 16
"""Explanations per sample that the quick preset needs at most, besides controls."""
CHEAP_STEPS = 10
"""Steps of curves and of integrals if the model is large."""


@dataclass(frozen=True)
class Choice:
    """What was chosen: explainers and scores for the audit, the rows (n,) of the samples or None for all, and a sentence about it."""

    explainers: Sequence[Any] | Mapping[str, Any]
    scores: Sequence[Any] | Mapping[str, Any]
    rows: Tensor | None
    sentence: str


@dataclass(frozen=True)
class Sight:
    """What two inputs show of a model: the module on values and structure, the inputs, their predicted classes, whether it has
    weights, and the operations of one row per second of budget."""

    module: nn.Module
    signals: Signals
    targets: Tensor
    weights: bool
    rows: float


def choose(
    models: Mapping[str, nn.Module | CrossTrained],
    inputs: Inputs,
    *,
    explainers: Any,
    scores: Any,
    symmetry: bool,
    seed: int,
    target: Target | None = None,
) -> Choice:
    """Explainers, scores and samples in the place of those that are None."""
    crossed = any(isinstance(one, CrossTrained) for one in models.values())
    asked = None if scores is None else listed_scores(scores)
    if asked is None and (symmetry or crossed):
        asked = WITH_SYMMETRY if symmetry else PRESETS["stability"].scores
    explained = asked is None or any(as_score(one).reads is Reads.EXPLANATION for one in values_of(asked))
    if asked is not None and not (explainers is None and explained):
        return Choice(() if explainers is None else explainers, asked, None, "")
    sights = [look(inputs, name, one, target or Predicted()) for name, one in models.items() if isinstance(one, nn.Module)]
    seen = [one for one in sights if one is not None]
    found, smooth, left_out = fitting_explainers(inputs, seen) if explainers is None else (explainers, True, [])
    free = explainers is None and scores is None and not symmetry and not crossed
    rows, cheap = samples(inputs, seen, found, seed) if free else (None, False)
    if cheap:
        found = [{"name": one, "steps": CHEAP_STEPS} if one == "integrated_gradients" else one for one in found]
    if asked is None:
        asked = fitting_scores(seen, again=smooth and not cheap, cheap=cheap)
    unasked = scores is None and not symmetry
    return Choice(found, asked, rows, sentence(explainers is None, unasked, found, asked, rows, inputs.size(), left_out))


def values_of(scores: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """The scores of a list or a table."""
    return list(scores.values()) if isinstance(scores, Mapping) else list(scores)


def look(inputs: Inputs, name: str, model: nn.Module, target: Target) -> Sight | None:
    """What the first two inputs show of a model, as explainers of this target see it.

    None if it fails on them, or gives no scores (N, K), which the audit's own checks then explain.
    """
    try:
        check_weights(name, model)
        module, device = inputs.adapt(model), device_of(model)
        signals = inputs.take(torch.arange(min(2, inputs.size()))).to(device)
        counter = Operations()  # type: ignore[no-untyped-call]
        with evaluating(module), seeded(0, gpus_in_use()), torch.no_grad(), counter:
            first = signals[:1].through(module)
            module, _ = readable_output(module, first)
            module = target_for(target, signals.through(module)).view(module)
            scores = signals.through(module)
        if scores.ndim != 2:
            return None
        operations = OVERHEAD + counter.total / (1 + 2 * len(signals))
        budget = SECONDS * RATES.get(device.type, RATES["cuda"]) / operations
        weights = next(module.parameters(), None) is not None
        return Sight(module, signals, scores.argmax(dim=1), weights, budget)
    except Exception:  # a model of others may raise anything
        return None


class Operations(TorchDispatchMode):
    """Counts the operations of products, convolutions and attention inside a `with` block.

    Torch's FlopCounterMode counts the same, but the first one in a process imports torch's compiler, which takes seconds.
    """

    supports_higher_order_operators = True
    total: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        given = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*args, **given)
        with self:
            found = func.decompose(*args, **given)
        if found is not NotImplemented:
            return found
        found = func(*args, **given)
        count = flop_registry.get(func._overloadpacket)
        self.total += 0 if count is None else count(*args, **given, out_val=found)
        return found


def fitting_explainers(inputs: Inputs, seen: Sequence[Sight]) -> tuple[list[str], bool, list[str]]:
    """The explainers that work on every model, whether they use gradients, and why others do not work."""
    refused: dict[str, str] = {}
    for family in (WITH_GRADIENTS, WITHOUT_GRADIENTS):
        found = []
        for name in family:
            if (name == "feature_ablation" and len(inputs.shape) > 1) or (name == "occlusion" and len(inputs.shape) == 1):
                continue
            why = next((text for text in (why_unfit(EXPLAINERS[name](), one) for one in seen) if text), "")
            if why:
                refused[name] = why
            else:
                found.append(name)
        if found:
            smooth = family is WITH_GRADIENTS
            reasons = [f"{name} ({why})" for name, why in refused.items()]
            return found, smooth, reasons if smooth else ["explainers by gradients, because the model has none"]
    return list(WITH_GRADIENTS[:3]), True, []


def why_unfit(explainer: Explainer, sight: Sight) -> str:
    """Why an explainer does not work on a model, in a few words; "" if it works."""
    x = sight.signals
    if x.structure and not explainer.structured:
        return "it takes no inputs with structure"
    context = Context(Draws.of(0, torch.arange(len(x))), 64, x.structure)
    try:
        with evaluating(sight.module), preserve_state(sight.module), seeded(0, gpus_in_use()), torch.enable_grad():
            explainer.check(sight.module, x.values, sight.targets, context)
    except Exception as error:  # as above
        text = " ".join(str(error).split())
        return text.split(": ")[0].split(", but ")[-1][:80]
    return ""


def samples(inputs: Inputs, seen: Sequence[Sight], explainers: Sequence[str], seed: int) -> tuple[Tensor | None, bool]:
    """The rows that a minute allows, a random subset in their order, and whether only cheap scores fit into it."""
    shape, curves = inputs.shape, 50 * (len(explainers) + 2)
    costs = [EXPLAINERS[name]().cost(shape) for name in explainers]
    one = sum(cost.forward + 2 * cost.backward for cost in costs)
    if not seen:  # no model takes these inputs, which the audit's own checks explain
        return None, False
    budget = min(sight.rows for sight in seen) / len(seen)
    fits = int(budget / (ANEW * one + curves))
    cheap = fits < LEAST
    if cheap:
        fits = int(budget / (min(one, 3 * CHEAP_STEPS + 9) + curves * CHEAP_STEPS / 50))
    size = next((one for one in (MOST, MOST // 2, MOST // 4) if fits >= one), LEAST)
    if inputs.size() <= size:
        return None, cheap
    order = Draws.of(seed, torch.arange(inputs.size())).normal(1, stream="default samples")[:, 0].argsort()
    return order[:size].sort().values, cheap


def fitting_scores(seen: Sequence[Sight], *, again: bool, cheap: bool) -> list[Any]:
    """The quick preset as far as it fits: no weights are perturbed where there are none, and nothing is explained `again` if that
    costs too much."""
    found = []
    for name in PRESETS["quick"].scores:
        kind = SCORES[name]
        need = needs(kind(), Saliency())
        if (need.weights and not all(one.weights for one in seen)) or (need.anew and not again):
            continue
        stepped = cheap and any(item.name == "steps" for item in fields(kind))
        found.append({"name": name, "steps": CHEAP_STEPS} if stepped else name)
    return found


def sentence(
    explained: bool,
    scored: bool,
    explainers: Sequence[Any] | Mapping[str, Any],
    scores: Sequence[Any] | Mapping[str, Any],
    rows: Tensor | None,
    size: int,
    left_out: Sequence[str],
) -> str:
    """What was chosen, in one sentence; "" if nothing was."""
    parts = []
    if explained and explainers:
        parts.append(f"the explainers {', '.join(map(called, explainers))}")
    if scored:
        parts.append(f"the scores {', '.join(map(called, scores))}")
    if rows is not None:
        parts.append(f"{count(len(rows), 'sample')} of {size}, drawn at random")
    if not parts:
        return ""
    missing = f" Left out: {'; '.join(left_out)}." if left_out and explained else ""
    return f"The audit chose {' and '.join([', '.join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)}.{missing}"


def called(component: Any) -> str:
    """The name of a component with the settings that were chosen for it.

    >>> called({"name": "insertion", "steps": 10})
    'insertion (steps=10)'
    """
    if not isinstance(component, Mapping):
        return str(component)
    settings = ", ".join(f"{key}={value}" for key, value in component.items() if key != "name")
    return f"{component['name']} ({settings})" if settings else str(component["name"])
