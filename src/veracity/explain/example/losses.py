"""The loss of a classifier and its derivatives in the scores, where softmax and cross-entropy have closed forms.

With scores s, probabilities p = softmax(s) and label y the loss is l = -log p_y; its gradient in s is p - e_y and its
Hessian diag(p) - p pᵀ = Σ_k r_k r_kᵀ with r_k = sqrt(p_k) (e_k - p).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import LayerScores, View
from veracity.core.outputs import Outputs
from veracity.core.targets import Then, class_numbers
from veracity.core.training import Training


def log_scores(output: Tensor, outputs: Outputs) -> Tensor:
    """Scores (N, K) whose softmax is the model's probabilities."""
    return output if outputs is Outputs.LOGITS else output.clamp(min=torch.finfo(output.dtype).tiny).log()


def residual(scores: Tensor, labels: Tensor) -> Tensor:
    """The loss's gradient in the scores, p - e_y, (..., K) in float64; the label's entry is minus the sum of the others.

    >>> residual(torch.tensor([[0.0, 100.0]]), torch.tensor([1]))
    tensor([[ 3.7201e-44, -3.7201e-44]], dtype=torch.float64)
    """
    label = labels.unsqueeze(-1)
    others = scores.double().softmax(-1).scatter(-1, label, 0.0)
    return others.scatter(-1, label, -others.sum(-1, keepdim=True))


def roots(scores: Tensor) -> Tensor:
    """Rows r_k (..., K, K) in float64 whose outer products sum to the loss's Hessian in the scores.

    >>> r = roots(torch.tensor([0.0, 0.0]))
    >>> r.T @ r
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]], dtype=torch.float64)
    """
    p = scores.double().softmax(-1)
    eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.sqrt().unsqueeze(-1) * (eye - p.unsqueeze(-2))


def check_loss(name: str, model: nn.Module, output: Tensor, outputs: Outputs, training: Training) -> None:
    """Raise unless the model's output is one score a class, and the training set has at least two classes."""
    view = model
    while isinstance(view, View):
        if isinstance(view, (LayerScores, Then)):
            raise InputError(f"{name} explains the loss of a class: the target must be 'predicted', 'label' or a class number.")
        view = view.model
    if output.ndim != 2 or output.shape[1] < 2 or outputs is Outputs.RAW:
        raise InputError(
            f"{name} needs logits or probabilities with one column a class, (N, classes), but the model gives "
            f"{outputs.value} of shape {tuple(output.shape)}."
        )
    class_numbers(training.labels, output.shape[1], what="label of training example")
    classes = training.labels.unique()
    if len(classes) < 2:
        raise InputError(
            f"All {len(training.labels)} training examples are of class {int(classes[0])}: {name} needs examples of at least two classes."
        )
