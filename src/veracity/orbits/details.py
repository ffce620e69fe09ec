"""What is kept of outputs so that they can be looked at: class probabilities, boxes, and vector fields in small."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.interpret.orbit.flow import epe_map
from veracity.orbits.columns import CONSENSUS, TRUTH
from veracity.orbits.judged import Judged

ERRORS, ARROWS = 64, 16
"""Sides of a kept map of errors and of a kept field of arrows."""
LARGEST = 4096
"""Numbers a sample up to which outputs of no special kind are kept."""


def kept(kind: str, outputs: Tensor, judged: Judged) -> dict[str, Tensor]:
    """What is kept of outputs (n, K, ...) of a kind of task, one row a sample.

    classification  outputs (n, K, C), consensus (n, C)
    detection       outputs (n, K, top, 6), consensus (n, 6)
    flow            errors and consensus_errors (n, K, 64, 64), the end-point error against truth and consensus (without truth,
                    errors is against the consensus too); quiver (n, K, 2, 16, 16); consensus (n, 2, 16, 16); field (n, 2, H, W)
    regression      outputs (n, K, ...) where they are small; consensus (n, ...)

    All have `missing` (n,): how many of the K outputs were no part of the consensus. Probabilities and pictures of fields are
    rounded to float16; boxes and numbers, which may be large, are not.
    """
    found = {"missing": judged.missing}
    if kind != "flow":
        small = outputs[0].numel() // outputs.shape[1] <= LARGEST if kind == "regression" else True
        exact = outputs.half() if kind == "classification" else outputs.float()
        return {**found, "consensus": judged.consensus.float(), **({"outputs": exact} if small else {})}
    rows = outputs.flatten(0, 1)
    errors = {name: small_errors(rows, y.flatten(0, 1)).reshape(*outputs.shape[:2], *[ERRORS] * 2) for name, y in judged.moved.items()}
    return {
        **found,
        "errors": errors.get(TRUTH, errors[CONSENSUS]).half(),
        "consensus_errors": errors[CONSENSUS].half(),
        "quiver": arrows(rows).reshape(*outputs.shape[:2], 2, ARROWS, ARROWS).half(),
        "consensus": arrows(judged.consensus).half(),
        "field": judged.consensus.half(),
    }


def small_errors(output: Tensor, truth: Tensor) -> Tensor:
    """End-point errors of fields (R, 2, H, W), averaged to (R, 64, 64)."""
    return functional.adaptive_avg_pool2d(epe_map(output, truth), ERRORS)


def arrows(field: Tensor) -> Tensor:
    """Fields (R, 2, H, W) as the means of 16 x 16 patches, (R, 2, 16, 16); lengths stay in the field's own pixels."""
    if field.ndim != 4:
        raise SpecError(f"Arrows are drawn of vector fields (rows, 2, height, width), not of shape {tuple(field.shape)}.")
    return functional.adaptive_avg_pool2d(field, ARROWS)
