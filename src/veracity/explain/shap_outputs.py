"""Which output of a model shap values explain, found by shap's own rule: base value + sum of values = output of the model.

Values of every class are told apart by their column. Values of one class are compared with every output. Of two outputs with a
constant sum, such as two probabilities, the values of one are those of the other with the opposite sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.explain.shap_calls import Values

CLOSE = 1e-2
"""How far base value + sum may be from an output, as a share of the largest difference between outputs and base value."""
ROUNDING = 1e-5
"""How far they may be in any case, as a share of the outputs, which may be in single precision."""
REMAKE = "make it for this model, or pass Shap(kind=...), which makes it for every model"
Link = Callable[[Tensor], Tensor]


class ExplainedOutput(NamedTuple):
    """What the values explain.

    column    the class of values that have one column for two classes; the values of the other class have the opposite sign
    margin    whether they explain the log-odds of a probability
    only      the class of values that say nothing of other classes
    """

    column: int | None = None
    margin: bool = False
    only: int | None = None


class Ambiguous(InputError):
    """The rows do not show which of several classes is explained."""


def explained_output(
    name: str, found: Values, scores: Tensor, shape: Size, approximate: bool = False, expected: ExplainedOutput | None = None
) -> ExplainedOutput:
    """Which of the scores (N, K) the values explain; raises if it is none, since they are of another model or class then.

    Approximate methods have no rule that their values must follow, so only the number of outputs is compared. The `expected` answer is
    taken if several classes fit; without one, Ambiguous is raised.
    """
    count = scores.shape[1] if scores.ndim > 1 else 1
    scores = scores.detach().double().cpu().reshape(len(scores), count)
    outputs = found.values.shape[-1] if found.values.ndim > len(shape) + 1 else 1
    if outputs not in (1, count):
        raise InputError(f"{name} explains {outputs} outputs, but the audited model has {count}: {REMAKE}.")
    one_of_several = outputs == 1 and count > 1
    if found.base is None or approximate:
        if one_of_several:
            raise InputError(f"{name} explains one output of {count} and does not say which: explain all classes.")
        return ExplainedOutput()
    total = found.base + found.values.reshape(len(scores), -1, outputs).sum(1)
    links: list[Link] = [lambda t: t, torch.sigmoid if outputs == 1 else lambda t: t.softmax(1)]
    fitting = [
        ExplainedOutput(margin=margin) if not one_of_several else answer_for(at, margin, scores)
        for margin, link in zip((False, True), links, strict=True)
        for at in (range(count) if one_of_several else [0])
        if close(link(total), scores[:, at : at + 1] if one_of_several else scores, link(found.base))
    ]
    if not fitting:
        what = "another model or class" if one_of_several else "another model"
        raise InputError(
            f"{name} explains {what} than the audited one: base value + sum of values is {shown(total)}, the model's "
            f"{'outputs are' if one_of_several else 'output'} {shown(scores)}; {REMAKE}."
        )
    if expected in fitting:
        return expected
    if len({(one.column, one.only) for one in fitting}) > 1:
        classes = " and ".join(str(one.only if one.column is None else one.column) for one in fitting[:2])
        raise Ambiguous(f"{name} explains one output of {count}, and it fits classes {classes} alike: explain all classes.")
    return fitting[0]


def answer_for(column: int, margin: bool, scores: Tensor) -> ExplainedOutput:
    """The answer for values of one class of several; with two outputs of constant sum 1 or 0 they say everything."""
    sums = scores.sum(1)
    opposite = scores.shape[1] == 2 and any(bool((sums - total).abs().max() <= ROUNDING * scores.abs().max()) for total in (0.0, 1.0))
    return ExplainedOutput(column=column, margin=margin) if opposite else ExplainedOutput(only=column, margin=margin)


def close(one: Tensor, other: Tensor, base: Tensor) -> bool:
    """Whether two outputs agree up to the accuracy of shap, beside their distance from the base value.

    >>> close(torch.tensor([150.0]), torch.tensor([151.0]), torch.tensor([149.0]))
    False
    """
    size = float((other - base).abs().max())
    rounding = ROUNDING * max(float(other.abs().max()), float(one.abs().max()), float(base.abs().max()), 1e-9)
    return bool((one - other).abs().max() <= max(CLOSE * size, rounding))


def of_class(name: str, values: Tensor, inputs: Tensor, targets: Tensor, explained: ExplainedOutput | None) -> Tensor:
    """The values of each row's class, in the inputs' shape."""
    targets = targets.to(values.device)
    if explained is not None and explained.only is not None and not bool(targets.eq(explained.only).all()):
        other = next(int(one) for one in targets if int(one) != explained.only)
        raise InputError(
            f"{name} explains class {explained.only} only, and class {other} is explained: explain all classes, or pass "
            f"target={explained.only}."
        )
    if values.ndim == inputs.ndim + 1 and values.shape[-1] == 1:
        values = values.squeeze(-1)
    if values.shape == inputs.shape:
        if explained is None or explained.column is None:
            return values
        sign = torch.where(targets.eq(explained.column), 1.0, -1.0).to(values)
        return values * sign.reshape(-1, *[1] * (inputs.ndim - 1))
    if values.ndim == inputs.ndim + 1 and values.shape[:-1] == inputs.shape:
        if int(targets.max()) >= values.shape[-1]:
            raise InputError(
                f"{name} has values for {values.shape[-1]} classes, but class {int(targets.max())} is explained: explain the audited model."
            )
        picked = values.gather(-1, targets.reshape(-1, *[1] * inputs.ndim).expand(*inputs.shape, 1))
        return picked.squeeze(-1)
    raise InputError(
        f"{name} gives values of shape {tuple(values.shape)} for inputs of shape {tuple(inputs.shape)}, expected these axes and at "
        "most one for the classes; values of interactions are not summed."
    )


def shown(values: Tensor) -> str:
    """The first row of some outputs, for a message."""
    row = ", ".join(f"{value:.5g}" for value in values.reshape(len(values), -1)[0, :4].tolist())
    return row if values.reshape(len(values), -1).shape[1] == 1 else f"({row}{', ...' if values.shape[1] > 4 else ''})"


def margin_note(name: str, kind: str) -> str:
    """The note for values of log-odds beside a model of probabilities."""
    fix = ": pass model_output='probability' and a background to shap.TreeExplainer for probabilities" if kind == "TreeExplainer" else ""
    return f"{name} explains the margin (log-odds), while the audited model gives probabilities{fix}."
