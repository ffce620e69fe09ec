from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from concept_cases import context_of, learnt, network, normal, numbers
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Frame, Need
from veracity.core.inputs import TensorInputs
from veracity.core.models import LayerScores
from veracity.core.training import Training
from veracity.explain.concepts.activations import CAR, CAV
from veracity.explain.concepts.base import ConceptExplainer, concept_set, labels_of
from veracity.testing.explainers import no_trace

X = normal(30, 6, stream="test inputs")
TARGETS = torch.zeros(30, dtype=torch.long)


def test_is_what_it_says() -> None:
    cav = CAV(layer="1")
    assert (cav.frame, cav.categorical, cav.stochastic, cav.signed, cav.structured) == (Frame.CONCEPTS, True, False, False, True)
    assert cav.needs == {Need.TRAINING, Need.CONCEPTS}
    assert json.loads(json.dumps(cav.spec()))["layer"] == "1"


def test_decisions_are_those_of_scikit_learn() -> None:
    model, training, cav = network(), numbers(), CAV(layer="1", per_side=60)
    context = learnt(cav, model, context_of(training))
    features = LayerScores(model, "1")(X).detach()
    for number, (name, mask) in enumerate(training.concepts.items()):
        rows = concept_set(name, mask, 60, seed=0).fitted
        oracle = make_pipeline(
            StandardScaler(), SGDClassifier(learning_rate="constant", eta0=1e-2, tol=1e-3, max_iter=1000, random_state=0)
        )
        oracle.fit(LayerScores(model, "1")(training.inputs.take(rows).values).detach().numpy(), labels_of(rows).numpy())
        expected = torch.as_tensor(oracle.decision_function(features.numpy()))
        torch.testing.assert_close(cav.decisions(context.learnt, features)[:, number], expected, rtol=1e-9, atol=1e-9)
        assert torch.equal(cav.detect(context.learnt, features)[:, number], torch.as_tensor(oracle.predict(features.numpy())))


def test_one_step_by_hand() -> None:
    """Two examples at 5 and 1 are +1 and -1 after standardising; two steps of size .01 make w = .02, in units of 2: .01, -.03."""
    made = CAV(layer="0", epochs=1).fit(torch.tensor([[5.0], [1.0]], dtype=torch.float64), torch.tensor([True, False]), seed=0)
    torch.testing.assert_close(made["weights"], torch.tensor([0.01], dtype=torch.float64), atol=1e-7, rtol=0)
    torch.testing.assert_close(made["intercept"], torch.tensor(-0.03, dtype=torch.float64), atol=1e-7, rtol=0)


def test_bits_by_hand() -> None:
    """3 h1 + 4 h2 - 5 > 0, and h1 < 1 / 2."""
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    known = {
        "weights": torch.tensor([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]], dtype=torch.float64),
        "intercept": torch.tensor([-5.0, 9.0, 1.0], dtype=torch.float64),
        "trusted": torch.tensor([True, False, True]),
    }
    x = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    found = CAV(layer="0").explain(model, x, torch.zeros(3, dtype=torch.long), replace(context_of(None, 3), learnt=known))
    assert torch.equal(found, torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))


def test_constant_units_do_no_harm() -> None:
    features = torch.cat((torch.tensor([[2.0], [1.0], [3.0], [0.0]]), torch.full((4, 1), 7.0)), dim=1).double()
    made = CAV(layer="0").fit(features, torch.tensor([True, False, True, False]), seed=0)
    assert made["weights"].isfinite().all()
    assert made["weights"][1].abs() < 1e-9


@pytest.mark.parametrize("level", [1.0, 1e4])
def test_units_that_vary_by_rounding_alone_have_no_weight(level: float) -> None:
    """A sum of probabilities is 1 up to float32's rounding, which standardising would blow up."""
    features = normal(60, 3)
    almost = (level * normal(60, 5, stream="scores").float().softmax(1).sum(1, keepdim=True)).double()
    assert almost.std() > 0
    labels = features[:, 0] > 0
    made, plain = (CAV(layer="0").fit(part, labels, seed=0) for part in (torch.cat((features, almost), dim=1), features))
    assert made["weights"][3] == 0
    torch.testing.assert_close(made["weights"][:3], plain["weights"])
    torch.testing.assert_close(made["intercept"], plain["intercept"])
    dead = CAV(layer="0").fit(torch.cat((features, 1e-9 * features[:, :1]), dim=1), labels, seed=0)
    assert dead["weights"][3] == 0
    small = CAV(layer="0").fit(torch.cat((features, 1e-4 * features[:, :1]), dim=1), labels, seed=0)
    assert small["weights"][3] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": "x"}, "'rate' of explainer 'cav' must be a positive number, not 'x'"),
        ({"rate": -1}, "'rate' of explainer 'cav' must be a positive number, not -1"),
        ({"rate": float("nan")}, "'rate' of explainer 'cav' must be a positive finite number, not nan"),
        ({"rate": True}, "'rate' of explainer 'cav' must be a positive number, not True"),
        ({"tolerance": -1e-3}, r"'tolerance' of explainer 'cav' must be a positive number, not -0\.001"),
        ({"epochs": 0}, "'epochs' of explainer 'cav' must be a whole number of at least 1, not 0"),
        ({"epochs": 1.5}, r"'epochs' of explainer 'cav' must be a whole number of at least 1, not 1\.5"),
        ({"layer": 1}, "'layer' of explainer 'cav' must be text, not 1"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        CAV(**{"layer": "1"} | settings)


class TestBoth:
    """What linear and kernel classifiers share."""

    kinds: ClassVar = pytest.mark.parametrize("kind", [CAV, CAR])

    @kinds
    def test_a_concept_that_nothing_tells_is_flagged_and_dropped(self, kind: type[ConceptExplainer]) -> None:
        model, training, explainer = network(), numbers(), kind(layer="1")
        context = learnt(explainer, model, context_of(training, len(X)))
        first, coin, _ = explainer.facts(context.learnt, context)
        assert first["trusted"]
        assert first["accuracy"] > 0.85
        assert not coin["trusted"]
        assert coin["low"] <= 0.5
        assert "The layer '1' does not separate the concept 'coin'" in coin["warning"]
        kept = [row["concept"] for row in explainer.facts(context.learnt, context) if row["trusted"]]
        bits = explainer.explain(model, X, TARGETS, context)
        assert bits.shape == (30, len(kept))
        assert set(bits.unique().tolist()) == {0.0, 1.0}
        agrees = bits[:, 0].bool() == (X[:, 0] > 0)
        assert agrees.double().mean() > 0.8

    @kinds
    def test_without_a_trusted_concept_the_explanation_is_undefined(self, kind: type[ConceptExplainer]) -> None:
        training = replace(numbers(), concepts={"coin": numbers().concepts["coin"]})
        context = learnt(kind(layer="1"), network(), context_of(training, len(X)))
        found = kind(layer="1").explain(network(), X, TARGETS, context)
        assert found.shape == (30, 1)
        assert found.isnan().all()

    @kinds
    def test_held_out_accuracy_is_that_on_the_held_out_rows(self, kind: type[ConceptExplainer]) -> None:
        model, training, explainer = network(), numbers(), kind(layer="1", per_side=40)
        context = learnt(explainer, model, context_of(training))
        for number, (name, mask) in enumerate(training.concepts.items()):
            rows = concept_set(name, mask, 40, seed=0).held_out
            features = LayerScores(model, "1")(training.inputs.take(rows).values).detach()
            right = explainer.detect(context.learnt, features)[:, number] == mask[rows]
            row = explainer.facts(context.learnt, context)[number]
            assert (row["held_out"], row["accuracy"]) == (80, float(right.double().mean()))

    @kinds
    def test_a_step_in_place_after_the_layer_changes_nothing(self, kind: type[ConceptExplainer]) -> None:
        model = network()
        plain = nn.Sequential(*model[:3], nn.ReLU(), model[4])
        one, other = (kind(layer="2", per_side=30).learn(each, context_of(numbers())) for each in (model, plain))
        assert torch.equal(one["intercept"], other["intercept"])

    @kinds
    def test_few_examples_are_used_and_said(self, kind: type[ConceptExplainer]) -> None:
        x = torch.cat((torch.full((20, 2), 3.0), normal(80, 2) * 0.1)).double()
        training = Training(TensorInputs(x), torch.zeros(100, dtype=torch.long), {"rare": torch.arange(100) < 20})
        explainer, model = kind(layer="0"), nn.Sequential(nn.Identity(), nn.Linear(2, 2).double())
        (row,) = explainer.facts(explainer.learn(model, context_of(training)), context_of(training))
        assert (row["positives"], row["negatives"], row["held_out"], row["accuracy"], row["trusted"]) == (15, 15, 10, 1.0, True)
        assert "fitted to 15 examples per side" in row["warning"]

    @kinds
    def test_numbers_do_not_depend_on_the_batch(self, kind: type[ConceptExplainer]) -> None:
        model, explainer = network(), kind(layer="2", per_side=30)
        big, small = (learnt(explainer, model, context_of(numbers(), len(X), batch=batch)) for batch in (512, 7))
        for key, value in big.learnt.items():
            torch.testing.assert_close(small.learnt[key], value, rtol=1e-6, atol=1e-9)
        together = explainer.explain(model, X, TARGETS, big)
        alone = torch.cat([explainer.explain(model, X[[row]], TARGETS[[row]], big) for row in range(len(X))])
        assert torch.equal(together, alone)
        assert torch.equal(together, explainer.explain(model, X, TARGETS, replace(big, batch=4)))

    @kinds
    def test_the_seed_chooses_the_examples(self, kind: type[ConceptExplainer]) -> None:
        model, explainer = network(), kind(layer="1", per_side=20)
        one, again, other = (explainer.learn(model, context_of(numbers(), seed=seed)) for seed in (0, 0, 2**40 + 1))
        assert all(torch.equal(one[key], again[key]) for key in one)
        assert not torch.equal(one["intercept"], other["intercept"])

    @kinds
    def test_leaves_no_trace(self, kind: type[ConceptExplainer]) -> None:
        model, explainer, context = network().train(), kind(layer="1", per_side=20), context_of(numbers(), len(X))
        with no_trace(model, X):
            explainer.check(model, X, TARGETS, context)
            found = learnt(explainer, model, context)
            explainer.explain(model, X, TARGETS, found)
        assert model.training

    @kinds
    def test_misuse_is_one_sentence(self, kind: type[ConceptExplainer]) -> None:
        model, training = network(), numbers()
        with pytest.raises(InputError, match=r"The model has no layer '11'\. Did you mean '1'\?"):
            kind(layer="11").check(model, X, TARGETS, context_of(training))
        with pytest.raises(SpecError, match="needs the name of a layer"):
            kind().check(model, X, TARGETS, context_of(training))
        with pytest.raises(SpecError, match=r"'per_side' of .* must be a whole number of at least 1, not 0"):
            kind(layer="1", per_side=0)
        with pytest.raises(InputError, match="needs concepts"):
            kind(layer="1").check(model, X, TARGETS, context_of(replace(training, concepts={})))
        empty = {"empty": torch.zeros(400, dtype=torch.bool)}
        with pytest.raises(InputError, match="None of the 400 training examples show the concept 'empty'"):
            kind(layer="1").check(model, X, TARGETS, context_of(replace(training, concepts=empty)))
        with pytest.raises(InputError, match="must learn about the model first"):
            kind(layer="1").explain(model, X, TARGETS, context_of(training, len(X)))

    @kinds
    def test_a_layer_with_other_rows_is_refused(self, kind: type[ConceptExplainer]) -> None:
        model = nn.Sequential(nn.Flatten(0, 1), nn.Unflatten(0, (-1, 6)), nn.Linear(6, 2).double())
        with pytest.raises(InputError, match="The layer '0' returns 180 rows for 30 inputs"):
            kind(layer="0").check(model, X, TARGETS, context_of(numbers()))

    @kinds
    def test_a_layer_that_is_not_finite_is_refused(self, kind: type[ConceptExplainer]) -> None:
        class Log(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.log()

        with pytest.raises(InputError, match="The layer '0' gives NaN or infinity for training examples"):
            kind(layer="0").learn(nn.Sequential(Log(), nn.Linear(6, 2).double()), context_of(numbers()))


def test_unfinished_descent_is_reported() -> None:
    explainer, training = CAV(layer="1", epochs=2), numbers()
    learnt_now = explainer.learn(network(), context_of(training))
    first = explainer.facts(learnt_now, context_of(training))[0]
    assert first["epochs"] == 2
    assert "had not converged after 2 epochs" in first["warning"]
    done = CAV(layer="1").facts(CAV(layer="1").learn(network(), context_of(training)), context_of(training))[0]
    assert done["epochs"] < 1000
    assert "warning" not in done
