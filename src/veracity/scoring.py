"""Scores of maps that you already have: one call, one table, with random maps for comparison."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError
from veracity.core.models import device_of, evaluating
from veracity.engine.admission import check_ready, first_pass
from veracity.engine.resolve import as_data, as_models, as_tensor, check_given
from veracity.explain import Precomputed, as_explainer
from veracity.explain.maps import in_shape, is_table
from veracity.explain.shap_calls import is_explanation
from veracity.explain.shap_explanation import GivenShap
from veracity.inputs import split_labels
from veracity.results import Result

OWN = {"models": "model", "inputs": "x", "explainers": "maps, or as explainer=...", "targets": "y"}
"""Settings of `Audit` that have another name in `score`."""


def score(
    model: Any,
    x: Any,
    maps: Any,
    y: Any = None,
    scores: Any = "faithfulness",
    *,
    explainer: Any = None,
    target: Any = None,
    folder: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> Result:
    """The scores of explanations `maps` of a model on inputs `x`, as a table with intervals and random maps for comparison.

    maps       one set, or {"name": set}: arrays or tensors (samples, ...) in the order of x; a set without channels, or with one, counts
               for each channel; a `shap.Explanation`; None to let the explainer make them
    y          the class that each map explains, (samples,); by default the class that the model predicts. A single output is explained
               whatever y is, which may then be the values of a regression. Labels inside x are the targets, and choose no class
    scores     a preset or scores, as for `Audit`
    explainer  what made the maps, or {"name": explainer}; needed for scores that explain perturbed inputs or models anew
    target     which output the maps explain, if it is neither y nor the predicted class
    folder     where the run is kept; by default in a temporary folder, which is deleted with the result
    settings   further settings of `Audit`, such as symmetry, outputs or seed

    >>> import torch
    >>> x, net = torch.eye(4) + 1.0, torch.nn.Linear(4, 2).eval()
    >>> result = score(net, x, net.weight[net(x).argmax(1)].detach() * x, scores="sparseness", controls=False)
    >>> print(result.table()[["explainer", "score", "n"]].to_string(index=False))
    explainer      score  n
         maps sparseness  4
    """
    for setting, own in OWN.items():
        if setting in settings:
            raise InputError(f"score() takes no {setting}=...: pass them as {own}, as in score(model, x, maps, y).")
    modules, split = as_models(model), split_labels(x)
    inputs = as_data(split.samples, modules, settings.get("training"), settings.get("reference"))
    named = dict(maps) if isinstance(maps, Mapping) else {"maps": maps}
    if not named:
        raise InputError("There are no maps: pass one array, or {'name': array}.")
    makers = explainer if isinstance(explainer, Mapping) and set(explainer) <= set(named) else dict.fromkeys(named, explainer)
    explainers: dict[str, Any] = {}
    for name, given in named.items():
        inner = None if makers.get(name) is None else as_explainer(makers[name])
        if given is None and inner is not None:
            explainers[name] = inner
        elif is_explanation(given):
            explainers[name] = replace(GivenShap.of(given), explainer=inner)
        else:
            if is_table(given):
                check_given({str(name): Precomputed(maps=given)}, inputs, ())
            explainers[name] = Precomputed(maps=as_maps(given, inputs.shape, inputs.size(), str(name)), explainer=inner)
    chosen, labels = "predicted" if target is None else target, split.labels if y is None else y
    audit = Audit(models=modules, inputs=inputs, targets=labels, explainers=explainers, scores=scores, target=chosen, **settings)
    if target is None and y is not None and not single_output(audit):
        audit = replace(audit, models=audit.modules, inputs=audit.data, target="label")
    if folder is not None:
        return audit.run(folder, progress=progress)
    place = tempfile.mkdtemp(prefix="veracity-")
    try:
        result = audit.run(Path(place) / "run", progress=progress)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(result, shutil.rmtree, place, ignore_errors=True)
    return result


@torch.no_grad()
def single_output(audit: Audit) -> bool:
    """Whether every model has one output per sample, so that there is no class to choose."""
    first = audit.data.take(torch.zeros(1, dtype=torch.long))
    for name, model in audit.modules.items():
        if not isinstance(model, nn.Module):
            return False
        check_ready(name, model)
        view, _ = first_pass(name, audit.data.adapt(model), audit.data, None, None)
        with evaluating(view):
            if first.to(device_of(view)).through(view).shape != (1, 1):
                return False
    return True


def as_maps(maps: Any, shape: Size, size: int, name: str = "maps") -> Tensor:
    """Maps in the shape of the inputs, (samples, *shape): an axis that is missing, or of size one, is repeated.

    >>> as_maps([[[1.0, 2.0]]], Size((3, 1, 2)), 1).shape, as_maps([[[[1.0], [2.0]]]], Size((3, 1, 2)), 1).shape
    (torch.Size([1, 3, 1, 2]), torch.Size([1, 3, 1, 2]))
    """
    given = as_tensor(maps, f"maps '{name}'")
    if given is None or not given.ndim or len(given) != size:
        count = "none" if given is None else f"{len(given)}" if given.ndim else "one number"
        raise InputError(f"'{name}' has {count} maps for {size} inputs: give one map per input, in their order.")
    full = (size, *shape)
    found = in_shape(given if given.is_floating_point() else given.float(), shape)
    if found is None:
        shapes = [full, (size, 1, *shape[1:]), (size, *shape[1:])] if len(shape) > 1 else [full]
        wanted = " or ".join(dict.fromkeys(map(str, shapes)))
        raise InputError(f"The maps '{name}' have shape {tuple(given.shape)}, and the inputs {full}: give maps of shape {wanted}.")
    if bool(found.isnan().all()):
        raise InputError(f"The maps '{name}' hold nothing but NaN: there is nothing to score.")
    return found.contiguous()
