from __future__ import annotations

import pytest
import torch
from concept_cases import context_of, learnt, network, normal, numbers
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from veracity.core.errors import SpecError
from veracity.core.models import LayerScores
from veracity.explain.concepts.activations import CAR, CAV
from veracity.explain.concepts.base import concept_set, labels_of

X = normal(30, 6, stream="test inputs")


@pytest.mark.parametrize(("layer", "components"), [("1", 10), ("1", 3), ("2", 10)])
def test_decisions_are_those_of_scikit_learn(layer: str, components: int) -> None:
    model, training, car = network(), numbers(), CAR(layer=layer, per_side=60, components=components)
    context = learnt(car, model, context_of(training))
    features = LayerScores(model, layer)(X).detach()
    used = set()
    for number, (name, mask) in enumerate(training.concepts.items()):
        rows = concept_set(name, mask, 60, seed=0).fitted
        fitted = LayerScores(model, layer)(training.inputs.take(rows).values).detach()
        oracle = make_pipeline(PCA(min(components, fitted.shape[1])), SVC()).fit(fitted.numpy(), labels_of(rows).numpy())
        expected = torch.as_tensor(oracle.decision_function(features.numpy()))
        torch.testing.assert_close(car.decisions(context.learnt, features)[:, number], expected, rtol=1e-7, atol=1e-7)
        assert torch.equal(car.detect(context.learnt, features)[:, number], torch.as_tensor(oracle.predict(features.numpy())))
        used.add(len(oracle[-1].support_))
    assert len(used) > 1, "all concepts have as many support vectors, so that filling up was not tested"


@pytest.mark.parametrize(("count", "width"), [(20, 50), (20, 20), (20, 7), (2, 50)])
def test_wide_features_are_decomposed_as_they_are(count: int, width: int) -> None:
    features, labels = normal(count, width) + 3, torch.arange(count) < count // 2
    car = CAR(layer="0")
    made = {key: value.unsqueeze(0) for key, value in car.fit(features, labels, seed=0).items()}
    oracle = make_pipeline(PCA(min(10, count - 1, width), svd_solver="full"), SVC()).fit(features.numpy(), labels.numpy())
    other = normal(9, width, stream="others") + 3
    torch.testing.assert_close(
        car.decisions(made, other)[:, 0], torch.as_tensor(oracle.decision_function(other.numpy())), rtol=1e-6, atol=1e-6
    )


def test_units_that_do_not_vary_have_no_say() -> None:
    """Three units vary, four are dead where the region is fitted; what those do elsewhere must not matter."""
    labels = torch.arange(40) < 20
    alive = normal(40, 3) + labels[:, None]
    made = CAR(layer="0").fit(torch.cat((alive, torch.zeros(40, 4)), dim=1), labels, seed=0)
    assert made["axes"].shape == (3, 7)
    one = {key: value.unsqueeze(0) for key, value in made.items()}
    x = normal(5, 7, stream="others")
    quiet = torch.cat((x[:, :3], torch.zeros(5, 4)), dim=1)
    torch.testing.assert_close(CAR(layer="0").decisions(one, x), CAR(layer="0").decisions(one, quiet))
    still = {key: value.unsqueeze(0) for key, value in CAR(layer="0").fit(torch.ones(6, 3).double(), labels[17:23], seed=0).items()}
    assert CAR(layer="0").decisions(still, x[:, :3]).isfinite().all()


def test_one_support_vector_by_hand() -> None:
    """2 exp(-|h - 1|² / 2) - 1 > 0 within sqrt(2 log 2) = 1.177 of h = 1."""
    known = {
        "axes": torch.tensor([[[1.0]]]),
        "centre": torch.tensor([[0.0]]),
        "support": torch.tensor([[[1.0]]]),
        "dual": torch.tensor([[2.0]]),
        "gamma": torch.tensor([0.5]),
        "intercept": torch.tensor([-1.0]),
    }
    known = {key: value.double() for key, value in known.items()}
    h = torch.tensor([[1.0], [2.17], [2.18], [-0.17], [-0.18]], dtype=torch.float64)
    assert CAR(layer="0").decisions(known, h)[0].item() == 1.0
    assert CAR(layer="0").detect(known, h)[:, 0].tolist() == [True, True, False, True, False]


def test_a_region_sees_what_a_hyperplane_cannot() -> None:
    training, model = numbers(2000), network()
    region, plane = (kind(layer="1", per_side=100) for kind in (CAR, CAV))
    far_region, far_plane = (one.facts(one.learn(model, context_of(training)), context_of(training))[2] for one in (region, plane))
    assert far_region["concept"] == "far"
    assert far_region["accuracy"] > far_plane["accuracy"] + 0.15
    assert far_region["trusted"]


def test_bad_settings() -> None:
    with pytest.raises(SpecError, match="'components' of explainer 'car' must be a whole number of at least 1, not 0"):
        CAR(layer="1", components=0)
