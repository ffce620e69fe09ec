"""Refits: estimators fitted again on worse data, once per copy, and the score that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from veracity.audit import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import TensorInputs
from veracity.core.models import unwrap
from veracity.core.training import Training
from veracity.engine.perturbation.refits import COPIES, FittedCopies, bytes_of
from veracity.inputs import TableInputs
from veracity.models import as_model
from veracity.perturb import Refits
from veracity.scores import RefitGEF

LABELS = torch.arange(90) % 3


def test_a_growing_share_of_rows_is_replaced() -> None:
    space = Refits(steps=3, shuffle=False)
    every = torch.arange(90)
    changed = [(space.data_of(0, level, 0, LABELS)[0] != every) for level in range(3)]
    counts = [int(one.sum()) for one in changed]
    assert counts[0] <= 30
    assert counts[1] <= 60
    assert counts[0] < counts[1] < counts[2]
    assert bool((changed[0] <= changed[1]).all()), "a path: what was replaced stays replaced"
    rows, labels = space.data_of(0, 2, 0, LABELS)
    assert torch.equal(labels, LABELS[rows])


def test_labels_are_exchanged_among_replaced_rows() -> None:
    rows, labels = Refits(steps=2).data_of(1, 1, 7, LABELS)
    assert labels.bincount().tolist() == LABELS[rows].bincount().tolist()
    agreement = float((labels == LABELS[rows]).double().mean())
    assert 0.15 < agreement < 0.55, "rows say nothing about labels at the last level"


def test_a_copy_depends_on_seed_draw_and_level_alone() -> None:
    space = Refits(steps=2)
    first, again, other = (space.data_of(draw, 0, 0, LABELS) for draw in (3, 3, 4))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])


def test_no_class_is_lost() -> None:
    """One of 30 rows has label 1, which a bootstrap sample misses about every third time."""
    rare = torch.zeros(30, dtype=torch.long)
    rare[17] = 1
    for draw in range(30):
        assert 1 in Refits(steps=1).data_of(draw, 0, 0, rare)[1]


class Counting(ClassifierMixin, BaseEstimator):
    """A tree that counts how often it was fitted, and on what."""

    fits: ClassVar[list[type]] = []

    def fit(self, x: Any, y: Any) -> Counting:
        Counting.fits.append(type(x))
        self.tree_ = DecisionTreeClassifier(max_depth=4).fit(x, y)
        self.classes_ = self.tree_.classes_
        if isinstance(x, pd.DataFrame):
            self.feature_names_in_ = np.array(x.columns)
        return self

    def predict_proba(self, x: Any) -> Any:
        return self.tree_.predict_proba(x)


def audit(model: Any, inputs: Any, training: Any, **settings: Any) -> Audit:
    chosen = {"scores": [RefitGEF(steps=3, draws=2)], "explainers": ["feature_ablation", "occlusion"], **settings}
    return Audit(models={"tree": as_model("tree", model)}, inputs=inputs, training=training, **chosen)


@pytest.mark.parametrize("framed", [False, True])
def test_each_copy_is_fitted_once_and_as_the_model_was(tmp_path: Path, framed: bool) -> None:
    """3 levels of 2 copies are 6 fits, whatever the number of explainers; the given estimator and the random state stay."""
    data = load_wine(as_frame=True)
    frame = data.data.iloc[:, :4]
    x, y = (frame if framed else frame.to_numpy()), data.target.to_numpy()
    model = Counting().fit(x, y)
    before, state = model.tree_, np.random.get_state()[1].copy()  # noqa: NPY002
    Counting.fits.clear()
    inputs = TableInputs(frame[::20]) if framed else torch.tensor(x[::20])
    result = audit(model, inputs, (TableInputs(frame) if framed else torch.tensor(x), y)).run(tmp_path / "run", progress=False)
    assert Counting.fits == [pd.DataFrame if framed else np.ndarray] * 6
    assert model.tree_ is before
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    table = result.table().query("score == 'refit_gef'").set_index("explainer")
    assert not result.failures().shape[0]
    assert np.isfinite(table.loc["feature_ablation", "value"])
    assert table.loc["feature_ablation", "value"] == pytest.approx(table.loc["occlusion", "value"]), "the same map on a vector"
    again = audit(model, inputs, (TableInputs(frame) if framed else torch.tensor(x), y), explainers=["feature_ablation"])
    assert not COPIES.kept, "copies are dropped at the end of a run"
    found = again.run(tmp_path / "again", progress=False).table().query("explainer == 'feature_ablation' and score == 'refit_gef'")
    assert float(found["value"].iloc[0]) == float(table.loc["feature_ablation", "value"]), "the same numbers from new fits"


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    data = load_wine()
    x, y = torch.tensor(data.data[:, :3]), data.target
    tree = DecisionTreeClassifier(max_depth=2).fit(x.numpy(), y)
    with pytest.raises(InputError, match="DecisionTreeClassifier has no weights that could be perturbed: use refit_gef"):
        audit(tree, x[:4], (x, y), scores=["fast_gef"]).run(tmp_path / "a", progress=False)
    with pytest.raises(InputError, match=r"pass Audit\(training=\(x, y\)\)"):
        audit(tree, x[:4], None).run(tmp_path / "b", progress=False)
    with pytest.raises(InputError, match=r"Linear is no estimator that can be fitted again.*fast_gef"):
        audit(nn.Linear(3, 2, dtype=torch.float64), x[:4], (x, y)).run(tmp_path / "c", progress=False)
    with pytest.raises(SpecError, match="takes neither sigma, segments, first nor independent"):
        audit(tree, x[:4], (x, y), scores=[RefitGEF(sigma=0.1)]).run(tmp_path / "d", progress=False)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_a_regression_is_fitted_again_to_its_own_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3))
    y = 2 * x[:, 0] - x[:, 1] + 0.25
    audit = Audit(
        models=LinearRegression().fit(x, y),
        inputs=x[:5],
        targets=y[:5],
        explainers=["kernel_shap"],
        training=(x, y),
        scores=[RefitGEF(steps=3, draws=2)],
        controls=False,
    )
    monkeypatch.setattr(COPIES, "forget", lambda: None)
    result = audit.run(tmp_path, progress=False)
    assert result.failures().empty
    rows, labels = Refits(steps=3).data_of(0, 0, audit.seed, torch.tensor(y))
    expected = LinearRegression().fit(x[rows], labels.numpy()).coef_
    fitted = [unwrap(copy).estimator.coef_ for copy, _ in COPIES.kept.values()]
    monkeypatch.undo()
    COPIES.forget()
    assert len(fitted) == 6
    assert any(np.allclose(one, expected) for one in fitted)


def test_copies_are_bounded_by_bytes() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    tree = as_model("model", DecisionTreeClassifier().fit(x, np.arange(40) % 2))
    nodes = unwrap(tree).estimator.tree_  # type: ignore[union-attr]
    one = bytes_of(tree)
    assert nodes.__getstate__()["nodes"].nbytes + nodes.value.nbytes <= one < 10_000
    copies, fits = FittedCopies(limit=2 * one), []
    for key in ("a", "b", "a", "c", "a", "b"):
        copies.recall(key, lambda key=key: fits.append(key) or as_model("model", unwrap(tree).estimator))  # type: ignore[func-returns-value]
    assert fits == ["a", "b", "c", "b"]
    assert copies.held == 2 * one


def test_labels_of_a_regression_must_be_finite() -> None:
    with pytest.raises(InputError, match="training labels hold NaN or infinity"):
        Training(TensorInputs(torch.zeros(2, 1)), torch.tensor([0.5, float("nan")]))


def test_no_label_is_lost_however_rare() -> None:
    labels = torch.cat([torch.zeros(10, dtype=torch.long), torch.arange(1, 7)])
    for draw in range(100):
        rows, found = Refits(steps=3).data_of(draw, 2, 0, labels)
        assert set(labels[rows].tolist()) == set(range(7))
        assert set(found.tolist()) == set(range(7))


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_other_training_data_give_other_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose copies are still held must not lend them to one with other training data."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    tree, labels = DecisionTreeClassifier(max_depth=2).fit(x, x[:, 0] > 0), [(x[:, one] > 0).astype(int) for one in (0, 1)]
    settings = {"scores": [RefitGEF(steps=3, draws=1)], "explainers": ["occlusion"], "controls": False, "companions": False}
    monkeypatch.setattr(COPIES, "forget", lambda: None)
    counts = []
    for at, y in enumerate(labels):
        audit(tree, torch.tensor(x[:3]), (torch.tensor(x), y), **settings).run(tmp_path / str(at), progress=False)
        counts.append(len(COPIES.kept))
    monkeypatch.undo()
    COPIES.forget()
    assert counts[1] == 2 * counts[0] > 0
