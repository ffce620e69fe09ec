"""The propositions of the symmetry paper's appendix D, on the trained networks of every modality."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import Note
from veracity.core.inputs import FirstSamples
from veracity.explain import CAV, GradientShap, IntegratedGradients, Occlusion, Symmetrised
from veracity.inputs import as_inputs
from veracity.perturb import CyclicShift, Dihedral, NodePermutations, Permutations, Rotations3D
from veracity.scores import Symmetry
from veracity.trainers.training import initialised, train
from veracity.walk import Exhaustive, MonteCarlo
from veracity_papers.data import files
from veracity_papers.data.ecg import ecg
from veracity_papers.data.imdb import imdb
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.mnist import CONCEPTS, fashion_mnist
from veracity_papers.data.modelnet import modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.recipes.symmetry_methods import by_concept, by_example
from veracity_papers.zoo import d4
from veracity_papers.zoo.symmetry import BAG, DEEP_SETS, ECG, FASHION, GNN

FEATURES: dict[str, Any] = {
    "gradient": "gradient",
    "input_x_gradient": "input_x_gradient",
    "integrated_gradients": IntegratedGradients(steps=4),
    "deep_lift": "deep_lift",
}


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if files.locate(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not at hand")


def small(data: Labelled, most: int) -> Labelled:
    """Samples with at most so many nodes, without the slots that none of them uses."""
    mask: Tensor = data.inputs.mask  # type: ignore[attr-defined]
    return data[mask.sum(1) <= most]


def setting(name: str) -> dict[str, Any]:
    """A trained network, a few test samples of its modality, what it learnt from, and its symmetry."""
    if name == "series":
        test, data = ecg("test").some(12), ecg("train").some(500)
        return {"network": ECG["all-cnn"], "inputs": test.inputs, "training": data.training(), "symmetry": CyclicShift(axes=(-1,))}
    if name == "images":
        x, _ = fashion_mnist("test", 2, 6)
        concepts = {concept: set(labels) for concept, labels in CONCEPTS.items()}
        return {
            "network": FASHION["all-cnn"], "inputs": x, "training": fashion_mnist("train", 2, 80), "concepts": concepts,
            "symmetry": CyclicShift(axes=(-2, -1)),
        }  # fmt: skip
    if name == "points":
        test, data = modelnet("test", points=128).some(90), modelnet("train", points=128).some(500)
        return {"network": DEEP_SETS, "inputs": test.inputs, "training": data.training(), "symmetry": Permutations(axis=-2)}
    if name == "tokens":
        test, data = imdb("test").some(3), imdb("train").some(2500)
        return {"network": BAG, "inputs": test.inputs, "training": data.training(), "symmetry": Permutations(axis=-2)}
    test, data = small(mutagenicity("test"), 20).some(6), mutagenicity("train").some(1200)
    return {"network": GNN, "inputs": test.inputs, "training": data.training(), "symmetry": NodePermutations()}


DATA = {
    "series": "ecg_mitbih/mitdb_mlii_beats180_test_full21018.npz",
    "images": "fashion_mnist/t10k-images-idx3-ubyte.gz",
    "points": "modelnet/modelnet40_bench_193x2048x6_f16.npz",
    "tokens": "imdb/imdb_test_5000.jsonl.gz",
    "graphs": "mutagenicity/Mutagenicity.zip",
}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=needs(file)) for name, file in DATA.items()])
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Every explanation's symmetry on one modality, by label, with the modality's name in its attributes."""
    reading = import_module("veracity_papers.data.imdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "reviews", cache(reading.reviews))  # both splits ask for the training reviews
        given = setting(request.param)
    network = given.pop("network")
    given |= {"models": {"net": network.pretrained()}, "checkpoints": {"net": network.checkpoints()}}
    layers = (network.invariant, network.equivariant)
    others = {**by_example(*layers), **by_concept(*layers, per_side=20)}
    few = {**given, "inputs": FirstSamples(as_inputs(given["inputs"]), 2)}
    features = FEATURES if request.param == "images" else {**FEATURES, "feature_ablation": "feature_ablation"}
    found = []
    for part, explainers, scores in ((few, features, ["symmetry", "model_invariance"]), (given, others, ["symmetry"])):
        audit = Audit(explainers=explainers, scores=scores, walk=MonteCarlo(draws=3), examples=30, controls=False, **part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            result = audit.run(tmp_path_factory.mktemp("run"), progress=False)
        worst = result.samples("symmetry").groupby("explainer")["value"].min()
        found.append(result.table().set_index("explainer").join(worst.rename("worst")))
    table = pd.concat(found)
    table.attrs["modality"] = request.param
    return table


def test_the_model_is_invariant(audited: pd.DataFrame) -> None:
    assert audited.loc["", "value"] == pytest.approx(1.0, abs=1e-5)


def test_d6_gradients_with_an_invariant_baseline_are_equivariant(audited: pd.DataFrame) -> None:
    assert (audited.loc[list(FEATURES), "worst"] >= 1 - 1e-4).all()


def test_d8_ablation_with_an_invariant_baseline_is_equivariant(audited: pd.DataFrame) -> None:
    """Of images, tests/explain/test_shift_equivariance.py: there are too many pixels here."""
    assert ("feature_ablation" in audited.index) == (audited.attrs["modality"] != "images")
    assert (audited.loc[audited.index == "feature_ablation", "worst"] >= 1 - 1e-4).all()


def test_d9_loss_based_importance_is_invariant(audited: pd.DataFrame) -> None:
    assert (audited.loc[["influence_functions", "tracin"], "worst"] >= 1 - 1e-4).all()


def test_d12_and_d14_on_an_invariant_layer(audited: pd.DataFrame) -> None:
    assert (audited.loc[["simplex-inv", "similarity-inv"], "worst"] >= 1 - 1e-4).all()
    assert (audited.loc[["cav-inv", "car-inv"], "worst"] == 1.0).all()


def test_d12_and_d14_say_nothing_of_an_equivariant_layer(audited: pd.DataFrame) -> None:
    found = [label for label in audited.index if label.endswith("-equiv")]
    assert len(found) == (4 if audited.attrs["modality"] in ("series", "images", "points") else 0)
    for label in found:
        assert audited.loc[label, "high"] < 1.0, label


@needs(DATA["series"])
def test_d8_a_window_with_an_invariant_baseline_is_equivariant(tmp_path: Path) -> None:
    audit = Audit(
        models=ECG["all-cnn"].pretrained(), inputs=ecg("test").some(3).inputs, explainers=[Occlusion(window=5)],
        symmetry=CyclicShift(axes=(-1,)),
        walk=MonteCarlo(draws=2), scores=["symmetry"], controls=False,
    )  # fmt: skip
    assert audit.run(tmp_path, progress=False).samples("symmetry")["value"].min() >= 1 - 1e-4


@needs(DATA["series"])
def test_d6_fails_with_a_baseline_that_moves_and_holds_with_common_draws(tmp_path: Path) -> None:
    beats = ecg("train").some(20).inputs.take(torch.arange(20)).values
    audit = Audit(
        models=ECG["all-cnn"].pretrained(), inputs=ecg("test").some(8).inputs, symmetry=CyclicShift(axes=(-1,)), walk=MonteCarlo(draws=4),
        explainers={"zero": GradientShap(), "beats": GradientShap(baselines=beats)}, scores=[Symmetry(common_draws=True)], controls=False,
    )  # fmt: skip
    table = audit.run(tmp_path, progress=False).table().set_index("explainer")
    assert table.loc["zero", "value"] >= 1 - 1e-4
    assert table.loc["beats", "high"] < 0.9


def whole_group(models: nn.Module, inputs: Any, space: Any, explainers: dict[str, Any], tmp_path: Path, **given: Any) -> pd.Series:
    mended = {label: Symmetrised(explainer=one) for label, one in explainers.items()}
    audit = Audit(
        models=models,
        inputs=inputs,
        symmetry=space,
        walk=MonteCarlo(draws=2),
        scores=["symmetry"],
        explainers=mended,
        controls=False,
        **given,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return audit.run(tmp_path, progress=False).samples("symmetry").groupby("explainer")["value"].min()


@needs(DATA["series"])
def test_d16_on_series(tmp_path: Path) -> None:
    ramp = torch.linspace(0, 1, 180)[None]
    given = {"cav": CAV(layer="conv3", per_side=20), "ramp": IntegratedGradients(steps=2, baseline=ramp)}
    data, test = ecg("train").some(200), ecg("test").some(2)
    worst = whole_group(ECG["all-cnn"].pretrained(), test.inputs, CyclicShift(axes=(-1,)), given, tmp_path, training=data.training())
    assert worst["cav"] >= 1 - 1e-5
    assert worst["ramp"] >= 1 - 1e-5


def test_d16_on_images(tmp_path: Path) -> None:
    """All eight turns and mirror images, on a trained D4-invariant network."""
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    ramp = torch.linspace(0, 1, 32).expand(3, 32, 32)
    net = d4.NETWORKS["d4"].pretrained()
    plain = Audit(
        models=net, inputs=x, symmetry=Dihedral(), walk=Exhaustive(), scores=["symmetry", "model_invariance"], controls=False,
        explainers={"gradient": "gradient", "ramp": IntegratedGradients(steps=2, baseline=ramp)},
    ).run(tmp_path / "plain", progress=False).table().set_index("explainer")["value"]  # fmt: skip
    assert plain[["", "gradient"]].tolist() == pytest.approx([1.0, 1.0], abs=1e-4)
    assert plain["ramp"] < 0.95
    worst = whole_group(net, x, Dihedral(), {"ramp": IntegratedGradients(steps=2, baseline=ramp)}, tmp_path / "mended")
    assert worst["ramp"] >= 1 - 1e-5


class Radial(nn.Module):
    """A set network that sees each point's distance from the origin and from the mean: invariant to rotations and to order."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.stack((x.norm(dim=2), (x - x.mean(dim=1, keepdim=True)).norm(dim=2)), dim=2)
        scores: Tensor = self.head(self.point(seen).mean(dim=1))
        return scores


@needs(DATA["points"])
def test_d5_the_gradient_follows_rotations_and_the_others_do_not(tmp_path: Path) -> None:
    data, test = modelnet("train").some(400), modelnet("test").some(6)
    values: Callable[[Labelled], Tensor] = lambda part: part.inputs.take(torch.arange(len(part))).values  # noqa: E731
    build: Callable[[], nn.Module] = Radial
    net = train(initialised(build, seed=0), values(data), data.labels, epochs=8, rate=1e-2)
    audit = Audit(
        models=net, inputs=values(test) + 0.1, symmetry=Rotations3D(), walk=MonteCarlo(draws=6), scores=["symmetry", "model_invariance"],
        explainers=["gradient", "input_x_gradient", "saliency"], controls=False,
    )  # fmt: skip
    result = audit.run(tmp_path, progress=False)
    table = result.table().set_index("explainer")
    assert result.samples("symmetry").groupby("explainer")["value"].min()["gradient"] >= 1 - 1e-4
    assert table.loc["", "value"] == pytest.approx(1.0, abs=1e-5)
    assert table.loc["input_x_gradient", "high"] < 0.9
    assert table.loc["saliency", "high"] < 0.95
