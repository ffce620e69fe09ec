from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

from orbit_small import CLASSES, digits_like, images, labels, linear
from small import set_net
from veracity import OrbitEvaluation
from veracity.core.errors import Note
from veracity.demo import GlobalMax, all_cnn
from veracity.orbits import Classification, GroupOrbit, Regression, RotationOrbit
from veracity.orbits.models import FunctionModel
from veracity.orbits.tasks.base import Metric
from veracity.perturb import CyclicShift, Dihedral, Permutations
from veracity.perturb.output_actions import AsInput
from veracity.trainers.training import initialised

FLAT = 1e-5


def run(evaluation: OrbitEvaluation, folder: Path, **settings: object):
    return evaluation.run(folder, progress=False, **settings)


def literal(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, np.ndarray]:
    """Everything that is stored of one classifier under D4, sample by sample and element by element."""
    found = {name: np.zeros((len(x), 8)) for name in ("accuracy@truth", "confidence@truth", "accuracy@consensus", "confidence@consensus")}
    found["distance"] = np.zeros((len(x), 8))
    for sample in range(len(x)):
        outputs = []
        for element in range(8):
            image = x[sample, 0].numpy()
            turned = np.rot90(np.fliplr(image) if element >= 4 else image, element % 4).copy()
            scores = model(torch.from_numpy(turned)[None, None])[0].double()
            outputs.append((scores.exp() / scores.exp().sum()).detach().numpy())
        mean = sum(outputs) / 8
        for element, output in enumerate(outputs):
            for reference, true in (("truth", int(y[sample])), ("consensus", int(mean.argmax()))):
                found[f"accuracy@{reference}"][sample, element] = float(output.argmax() == true)
                found[f"confidence@{reference}"][sample, element] = output[true]
            found["distance"][sample, element] = 0.5 * sum(abs(output - outputs[0]))
    return found


def test_every_column_is_what_a_loop_over_samples_and_elements_finds(tmp_path: Path) -> None:
    evaluation = digits_like()
    result = run(evaluation, tmp_path / "run")
    for name, model in evaluation.models.items():
        expected = literal(model, evaluation.inputs, evaluation.targets)
        for metric in ("accuracy", "confidence"):
            for reference in ("truth", "consensus"):
                assert np.allclose(result.values(name, metric, reference), expected[f"{metric}@{reference}"], atol=1e-6)
        assert np.allclose(result.distances(name), expected["distance"], atol=1e-6)
    assert (result.values("a", "accuracy") != result.values("a", "accuracy", "consensus")).any()


def test_the_consensus_is_the_mean_of_probabilities_never_of_class_numbers(tmp_path: Path) -> None:
    class Torn(nn.Module):
        """Class 0 or class 2, by which half of the image is brighter: their mean would be class 1."""

        def forward(self, x: Tensor) -> Tensor:
            left = x[..., :2].sum(dim=(1, 2, 3)) > x[..., 2:].sum(dim=(1, 2, 3))
            return torch.where(left[:, None], torch.tensor([0.6, 0.0, 0.4]), torch.tensor([0.0, 0.3, 0.7]))

    result = run(digits_like(models={"torn": Torn()}), tmp_path / "run")
    assert np.allclose(result.outputs("torn", 0)["consensus"], [0.3, 0.15, 0.55], atol=1e-3)
    assert set(np.unique(result.values("torn", "accuracy", "consensus"))) == {0.0, 1.0}


def test_a_shift_invariant_network_has_a_flat_orbit_and_another_one_has_not(tmp_path: Path) -> None:
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    models = {
        "invariant": initialised(lambda: all_cnn((4, 8), 3, GlobalMax()), seed=0).eval(),
        "flat": initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), seed=1),
    }
    evaluation = OrbitEvaluation(
        models=models, inputs=x, targets=labels(4), orbit=GroupOrbit(space=CyclicShift(axes=(-2, -1))), task=Classification()
    )
    result = run(evaluation, tmp_path / "run")
    gap = result.gap().set_index("model")
    assert result.values("invariant", "confidence").shape == (4, 64)
    assert gap.loc["invariant", "value"] <= FLAT
    assert gap.loc["flat", "low"] > 100 * FLAT
    assert np.ptp(result.values("invariant", "confidence"), axis=1).max() <= FLAT


def test_a_d4_network_has_a_flat_orbit(tmp_path: Path) -> None:
    x = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    class Averaged(nn.Module):
        """The mean output of an ordinary network over the square's eight symmetries."""

        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 3))

        def forward(self, x: Tensor) -> Tensor:
            turned = [self.net(Dihedral().act(torch.full((len(x), 1), element), x)) for element in range(8)]
            return 4 * torch.stack(turned).mean(dim=0)

    net = initialised(Averaged, seed=0).eval()
    evaluation = OrbitEvaluation(models=net, inputs=x, targets=labels(3), orbit=GroupOrbit(space=Dihedral()), task=Classification())
    result = run(evaluation, tmp_path / "run")
    assert result.models == ("model",)
    assert result.gap()["value"][0] <= FLAT


def test_a_set_model_has_a_flat_orbit_under_permutations(tmp_path: Path) -> None:
    x = torch.rand(3, 20, 3, generator=torch.Generator().manual_seed(0))
    orbit = GroupOrbit(space=Permutations(axis=-2), draws=16)
    net = set_net()
    result = run(OrbitEvaluation(models={"sets": net}, inputs=x, targets=labels(3), orbit=orbit, task=Classification()), tmp_path / "run")
    assert result.values("sets", "confidence").shape == (3, 16)
    assert result.gap()["value"][0] <= FLAT


def test_an_output_that_moves_along_has_a_flat_orbit_only_where_it_is_undone(tmp_path: Path) -> None:
    points = torch.rand(3, 12, 3, generator=torch.Generator().manual_seed(0))
    models = {"norms": FunctionModel(lambda x: x.square().sum(dim=2))}
    orbit = GroupOrbit(space=Permutations(axis=-1), draws=9)
    along = OrbitEvaluation(models=models, inputs=points.mT.contiguous(), orbit=orbit, task=Regression(action=AsInput()))
    moved = replace_model(along, lambda x: x.square().sum(dim=1))
    assert run(moved, tmp_path / "along").gap()["value"][0] <= FLAT
    fixed = replace_model(along, lambda x: x.square().sum(dim=1), task=Regression())
    assert run(fixed, tmp_path / "fixed").gap()["value"][0] > 0.1


def replace_model(evaluation: OrbitEvaluation, function, **settings: object) -> OrbitEvaluation:
    given = {"models": {"norms": function}, "inputs": evaluation.inputs, "orbit": evaluation.orbit, "task": evaluation.task}
    return OrbitEvaluation(**{**given, **settings})


@pytest.mark.parametrize("batch", [1, 5, 8, 17, 1000])
def test_numbers_do_not_depend_on_the_batch(tmp_path: Path, batch: int) -> None:
    first, second = run(digits_like(), tmp_path / "one"), run(digits_like(), tmp_path / "two", batch=batch)
    for model in ("a", "b"):
        for reference in ("truth", "consensus"):
            assert np.allclose(first.values(model, "confidence", reference), second.values(model, "confidence", reference), atol=1e-6)
    assert [cell["key"] for cell in first.manifest["cells"]] == [cell["key"] for cell in second.manifest["cells"]]


def test_a_batch_is_never_larger_than_allowed(tmp_path: Path) -> None:
    seen: list[int] = []
    net = linear()

    def counted(x: Tensor) -> Tensor:
        seen.append(len(x))
        return net(x)

    run(digits_like(models={"net": counted}), tmp_path / "run", batch=5)
    assert max(seen) == 5


def test_inputs_are_moved_once_for_all_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    act = Dihedral.act

    def counted(self: Dihedral, elements: Tensor, x: Tensor) -> Tensor:
        rows.append(len(x))
        return act(self, elements, x)

    evaluation = digits_like(models={name: linear(seed) for seed, name in enumerate("abcd")})
    monkeypatch.setattr(Dihedral, "act", counted)
    run(evaluation, tmp_path / "run", batch=16)
    assert rows.count(16) == 3


def test_model_inputs_and_random_state_come_back_as_they_were(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    net.train()
    net[1].weight.grad = torch.ones_like(net[1].weight)
    x = images()
    evaluation = digits_like(models={"net": net}, inputs=x, explainers=["saliency", "smooth_grad"])
    state, random = {key: value.clone() for key, value in net.state_dict().items()}, torch.random.get_rng_state()
    before = x.clone()
    run(evaluation, tmp_path / "run")
    assert net.training
    assert torch.equal(net[1].weight.grad, torch.ones_like(net[1].weight))
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert not net[1]._forward_hooks
    assert torch.equal(torch.random.get_rng_state(), random)
    assert torch.equal(x, before)


def test_without_truth_outputs_are_judged_against_the_consensus_alone(tmp_path: Path) -> None:
    known, unknown = run(digits_like(), tmp_path / "known"), run(digits_like(targets=None), tmp_path / "unknown")
    assert unknown.references == ("consensus",)
    assert np.array_equal(known.values("a", "confidence", "consensus"), unknown.values("a", "confidence", "consensus"))
    assert unknown.labels is None
    assert set(unknown.table()["reference"]) == {"consensus"}
    assert len(unknown.agreement()) == 0
    assert unknown.gap().equals(known.gap())


def test_one_metric_of_ones_own(tmp_path: Path) -> None:
    margin = Metric(name="margin", function=lambda output, truth: output.max(dim=1).values - output.min(dim=1).values, bounds=(0.0, 1.0))
    result = run(digits_like(task=Classification(classes=CLASSES, metrics=(margin,))), tmp_path / "run")
    outputs = result.outputs("a", 2)["outputs"].astype(np.float32)
    assert np.allclose(result.values("a", "margin")[2], np.ptp(outputs, axis=1), atol=2e-3)


def test_workers_are_threads_for_the_run_alone(tmp_path: Path) -> None:
    seen: list[int] = []
    net = linear()

    def asked(x: Tensor) -> Tensor:
        seen.append(torch.get_num_threads())
        return net(x)

    run(digits_like(models={"net": asked}), tmp_path / "run", workers=2)
    assert set(seen) == {2}
    assert torch.get_num_threads() == 1


def test_logits_and_probabilities_are_told_apart_once_for_all_batches(tmp_path: Path) -> None:
    """One moved image whose logits happen to lie in [0, 1] is read as logits all the same."""
    net = linear()
    shy = nn.Sequential(net, nn.Hardtanh(0.0, 1.0))
    mixed = run(digits_like(models={"net": net}), tmp_path / "logits", batch=1)
    assert mixed.manifest["models"]["net"]["outputs"] == "logits"
    assert np.allclose(mixed.outputs("net", 0)["outputs"].sum(axis=1), 1.0, atol=2e-3)
    with pytest.warns(Note, match="do not sum to 1"):
        unit = run(digits_like(models={"net": shy}), tmp_path / "unit")
    assert unit.manifest["models"]["net"]["outputs"] == "probabilities"


@pytest.mark.parametrize("settings", [{"batch": 1}, {"memory": 1}, {"batch": 100}])
def test_what_a_model_gives_does_not_depend_on_the_batch(tmp_path: Path, settings: dict[str, int]) -> None:
    """The first rows look like probabilities, the fifth does not: logits, however few are looked at together."""
    x = torch.full((6, 1, 4, 4), 1 / 3)
    x[4] = 5.0

    def model(x: Tensor) -> Tensor:
        return x[:, 0, 0, :3]

    evaluation = digits_like(models={"a": model}, inputs=x)
    assert evaluation.prepare(**settings).models["a"].about()["outputs"] == "logits"


def test_a_moved_input_without_an_output_is_undefined_and_counted(tmp_path: Path) -> None:
    net, x = linear(), images()

    def fragile(moved: Tensor) -> Tensor:
        """Breaks where the first pixel is the largest of the first sample: at the two elements that bring it there."""
        return net(moved).masked_fill((moved[:, 0, 0, 0] == x[0].max())[:, None], float("nan"))

    x[0, 0, 1, 2] = x[0].max()
    x[0, 0, 0, 3] = 2.0
    result = run(digits_like(models={"fragile": fragile}, inputs=x), tmp_path / "run")
    lost = np.isnan(result.values("fragile", "accuracy"))
    assert lost.sum() == 2
    assert lost[1:].sum() == 0
    assert result.outputs("fragile", 0)["missing"] == 2
    assert np.isfinite(result.outputs("fragile", 0)["consensus"]).all()
    assert (np.isnan(result.distances("fragile")) == lost).all()
    assert (result.table()["undefined"] == 2).all()


def test_rotations_of_an_image(tmp_path: Path) -> None:
    result = run(digits_like(orbit=RotationOrbit(step=90.0)), tmp_path / "run")
    square = run(digits_like(), tmp_path / "d4")
    assert result.coordinates[:, 0].tolist() == [0.0, 90.0, 180.0, 270.0]
    assert np.allclose(result.values("a", "confidence"), square.values("a", "confidence")[:, :4], atol=1e-4)


def test_where_memory_runs_out_batches_are_halved(tmp_path: Path) -> None:
    net, seen = linear(), []

    def hungry(x: Tensor) -> Tensor:
        if len(x) > 6 and len(seen) >= 4:
            raise MemoryError
        seen.append(len(x))
        return net(x)

    evaluation = digits_like(models={"net": hungry})
    assert np.allclose(
        run(evaluation, tmp_path / "hungry", batch=24).values("net", "confidence"),
        run(digits_like(models={"net": net}), tmp_path / "fed").values("net", "confidence"),
        atol=1e-6,
    )
    assert max(seen[4:]) <= 6


class Named(nn.Module):
    """A network whose scores lie in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.inner(x)}


def test_what_audits_take_is_taken_here_too(tmp_path: Path) -> None:
    rows = images().flatten(1)
    forest = RandomForestClassifier(5, random_state=0).fit(rows.numpy(), labels().numpy())
    by_hand = lambda x: torch.from_numpy(forest.predict_proba(x.numpy()))  # noqa: E731
    arrays = lambda x: forest.predict_proba(np.asarray(x))  # noqa: E731
    models = {"forest": forest, "method": forest.predict_proba, "by hand": by_hand, "arrays": arrays}
    turned = GroupOrbit(space=CyclicShift(axes=(-1,)))
    gaps = run(digits_like(models=models, inputs=rows, orbit=turned), tmp_path / "forest").gap()["value"]
    assert gaps.iloc[0] > 0.01
    assert np.allclose(gaps, gaps.iloc[0], atol=1e-6)
    named = run(digits_like(models={"dict": Named().eval(), "plain": linear()}), tmp_path / "dict").gap()["value"]
    assert named.iloc[0] == named.iloc[1] > 0.01
