"""Small audits of every family of scores whose samples have a view of their own, with their runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from search_audits import AROUND, BOTH, GENETIC, images, tanh_net
from veracity import Audit, CrossTrained
from veracity.core.graphs import EdgeInputs, NodeInputs
from veracity.inputs import TextInputs
from veracity.scores import MPRT, Deletion, FidelityPlus, Insertion, MeGe, PixelFlipping, RegionPerturbation, SolHat, WorstLoss
from veracity.walk import MonteCarlo

CLASSES = 3
SAMPLE = 3


def families() -> Audit:
    """One network, with curves, random layers and a search."""
    scores = {
        "deletion": Deletion(steps=8),
        "insertion": Insertion(steps=4),
        "pixel_flipping": PixelFlipping(features_in_step=4),
        "region_perturbation": RegionPerturbation(patch_size=2),
        "mprt": MPRT(walk=MonteCarlo(draws=3)),
        "sol_f_hat": SolHat(walk=BOTH, **AROUND),
        "worst_loss": WorstLoss(walk=GENETIC, **AROUND),
    }
    with torch.no_grad():
        labels = tanh_net()(images()).argmax(dim=1)
    given: dict[str, Any] = {"models": {"net": tanh_net()}, "inputs": images(), "targets": labels, "scores": scores}
    return Audit(**given, explainers=["gradient", "input_x_gradient"], companions=False, title="Families")


def blobs() -> tuple[Tensor, Tensor]:
    labels = torch.arange(18) % CLASSES
    noise = torch.randn(18, 1, 4, 4, generator=torch.Generator().manual_seed(4))
    return noise + 6.0 * torch.eye(16)[labels].reshape(18, 1, 4, 4), labels


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES))


def nearest_mean(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
    """Linear, and the same to the last bit wherever it is computed."""
    model = network()
    means = torch.stack([inputs[targets == label].double().mean(0).flatten() for label in range(CLASSES)]).float()
    with torch.no_grad():
        model[1].weight.copy_(means)  # type: ignore[operator, union-attr]
        model[1].bias.copy_(-0.5 * (means * means).sum(1))  # type: ignore[operator, union-attr]
    return model.eval()


def folds() -> Audit:
    """One learning algorithm in three folds."""
    inputs, labels = blobs()
    trained = CrossTrained(fit=nearest_mean, build=network, folds=3)
    given: dict[str, Any] = {"models": {"net": trained}, "inputs": inputs, "targets": labels, "scores": {"mege": MeGe()}}
    return Audit(**given, explainers=["gradient", "input_x_gradient"], companions=False, title="Folds")


def by_examples() -> Audit:
    """Explanations by training samples."""
    inputs, labels = blobs()
    given: dict[str, Any] = {"models": {"net": nearest_mean(inputs, labels, 0)}, "inputs": inputs[:5], "targets": labels[:5]}
    scores = {"mprt": MPRT(walk=MonteCarlo(draws=2))}
    return Audit(**given, training=(inputs, labels), explainers=["influence_functions"], scores=scores, companions=False, title="Examples")


def of_graphs(kind: str = "edges") -> Audit:
    """Graphs of different sizes, with gates of their edges or of their nodes."""
    from graph_nets import GraphNet, graphs

    inputs = (EdgeInputs if kind == "edges" else NodeInputs).of(graphs((6, 8, 5, 7)))
    given: dict[str, Any] = {"models": {"net": GraphNet().eval()}, "inputs": inputs, "targets": torch.zeros(4, dtype=torch.long)}
    scores = {"pixel_flipping": PixelFlipping(), "mprt": MPRT(walk=MonteCarlo(draws=1)), "fidelity_plus": FidelityPlus()}
    return Audit(**given, explainers=["gradient"], scores=scores, companions=False, controls=False, title="Graphs")


def of_texts() -> Audit:
    """Texts of different lengths."""
    from text_models import text_model, tokenizer

    texts = ["a fine film", "a film with no heart at all", "not a fine film", "not a fine film with heart"]
    given: dict[str, Any] = {
        "models": {"net": text_model()},
        "inputs": TextInputs(texts, tokenizer()),
        "targets": torch.tensor([1, 0, 0, 0]),
    }
    return Audit(**given, explainers=["gradient"], scores={"pixel_flipping": PixelFlipping()}, companions=False, title="Texts")


def of_tables() -> Audit:
    """A table with names."""
    import pandas as pd

    inputs, labels = blobs()
    columns = ["age", "weight", "height", "pulse"]
    model = nn.Sequential(nn.Linear(4, CLASSES))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(CLASSES, 4))
        model[0].bias.zero_()
    given: dict[str, Any] = {"models": {"net": model.eval()}, "inputs": pd.DataFrame(inputs[:6, 0, 0].double().numpy(), columns=columns)}
    return Audit(**given, targets=labels[:6], explainers=["gradient"], scores={"pixel_flipping": PixelFlipping()}, companions=False)
