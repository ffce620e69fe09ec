from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shap
import torch
import xgboost
from shap.utils._legacy import DenseData
from shift_invariant import context_of
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.models import evaluating
from veracity.explain import Shap, TreeShap, as_explainer
from veracity.explain.shap_calls import content_of
from veracity.models import as_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
Y3 = np.digitize(X[:, 0], [-0.5, 0.5])
FEW, TARGETS = torch.tensor(X[:5]), torch.tensor([0, 1, 1, 0, 1])
FOREST = RandomForestClassifier(4, random_state=0).fit(X, Y)
BOOSTED = xgboost.XGBClassifier(n_estimators=3).fit(X, Y)
BOOSTED3 = xgboost.XGBClassifier(n_estimators=3).fit(X, Y3)
LOGISTIC = LogisticRegression().fit(X, Y)


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def ours(value: Any, model: Any, x: Tensor = FEW, targets: Tensor = TARGETS) -> Tensor:
    module = model if isinstance(model, nn.Module) else as_model("model", model)
    with evaluating(module):
        explainer = as_explainer(value).specialise(module, x, targets)
        return explainer.explain(module, x, targets, context_of(len(x)))


def test_trees_give_shaps_numbers_of_the_explained_class() -> None:
    theirs = shap.TreeExplainer(FOREST).shap_values(X[:5])
    want = [theirs[row, :, int(target)].tolist() for row, target in enumerate(TARGETS)]
    np.testing.assert_allclose(ours(shap.TreeExplainer(FOREST), FOREST), want, atol=1e-9)
    np.testing.assert_allclose(ours("tree_shap", FOREST), want, atol=1e-9)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_a_forest_beside_a_booster_leaves_its_sign_alone(tmp_path: Path) -> None:
    audit = Audit(models={"forest": FOREST, "booster": BOOSTED}, inputs=X[:6], explainers=["tree_shap"], scores=["complexity"])
    found = audit.run(tmp_path, progress=False).explanations("booster", "tree_shap")
    sign = np.where(BOOSTED.predict(X[:6]) == 1, 1, -1)[:, None]
    assert len(set(sign.flatten())) == 2
    np.testing.assert_allclose(found, shap.TreeExplainer(BOOSTED).shap_values(X[:6]) * sign, atol=1e-6)


def test_one_margin_has_the_sign_of_the_class() -> None:
    theirs = shap.TreeExplainer(BOOSTED).shap_values(X[:5])
    sign = np.array([-1, 1, 1, -1, 1])[:, None]
    np.testing.assert_allclose(ours(shap.TreeExplainer(BOOSTED), BOOSTED), theirs * sign, atol=1e-6)
    np.testing.assert_allclose(
        ours(shap.LinearExplainer(LOGISTIC, X), LOGISTIC), shap.LinearExplainer(LOGISTIC, X).shap_values(X[:5]) * sign, atol=1e-9
    )


@pytest.mark.parametrize("column", [0, 1])
def test_a_function_of_one_class_is_recognised_by_its_sum(column: int) -> None:
    explainer = shap.KernelExplainer(lambda rows: FOREST.predict_proba(rows)[:, column], X[:8])
    theirs = shap.KernelExplainer(FOREST.predict_proba, X[:8]).shap_values(X[:5], silent=True)
    want = np.stack([theirs[row, :, int(target)] for row, target in enumerate(TARGETS)])
    np.testing.assert_allclose(ours(explainer, FOREST), want, atol=1e-6)


def test_one_column_has_the_sign_of_the_class_too() -> None:
    explainer = shap.KernelExplainer(lambda rows: FOREST.predict_proba(rows)[:, 1:], X[:8])
    assert explainer.shap_values(X[:5], silent=True).shape == (5, 4, 1)
    theirs = shap.KernelExplainer(FOREST.predict_proba, X[:8]).shap_values(X[:5], silent=True)
    np.testing.assert_allclose(ours(explainer, FOREST), theirs[np.arange(5), :, TARGETS.numpy()], atol=1e-6)


def test_scores_that_do_not_sum_to_one_are_not_turned_around() -> None:
    model = nn.Linear(4, 2).double().eval()
    second = shap.KernelExplainer(lambda rows: model(torch.tensor(rows)).detach().numpy()[:, 1], X[:8])
    with pytest.raises(InputError, match="explains class 1 only, and class 0 is explained"):
        ours(second, model)
    assert ours(second, model, targets=torch.ones(5, dtype=torch.long)).shape == (5, 4)


def test_rows_that_fit_both_classes_do_not_decide() -> None:
    def even(rows: Any) -> Any:
        first = np.where(rows[:, 0] > 1, 0.9, 0.5)
        return np.stack([first, 1 - first], 1)

    low, high = X[X[:, 0] < 1], X[X[:, 0] > 1]
    model, rows = as_model("model", even), torch.tensor(np.concatenate([low[:2], high[:1]]))
    for column in (0, 1):
        made = shap.KernelExplainer(lambda x, column=column: even(x)[:, column], np.concatenate([low[:3], high[:3]]))
        found = ours(made, model, rows, torch.zeros(3, dtype=torch.long))
        torch.testing.assert_close(found[2], torch.tensor([0.2, 0, 0, 0], dtype=torch.float64))
    undecided = shap.KernelExplainer(lambda x: even(x)[:, 0], low[:6])
    with pytest.raises(InputError, match="explains one output of 2, and it fits classes 0 and 1 alike: explain all classes"):
        as_explainer(undecided).check(model, rows[:2], torch.zeros(2, dtype=torch.long))


def test_another_model_is_told_by_what_it_adds_to_the_base_value() -> None:
    one, other = (RandomForestRegressor(5, random_state=0).fit(X, 150 + X[:, column]) for column in (0, 1))
    with pytest.raises(InputError, match="explains another model than the audited one"):
        as_explainer(shap.TreeExplainer(other)).check(as_model("model", one), FEW, torch.zeros_like(TARGETS))


def test_an_estimator_that_was_fitted_again_is_explained_anew() -> None:
    forest, explainer = RandomForestClassifier(4, random_state=0).fit(X, Y), TreeShap()
    for labels in (Y, 1 - Y):
        forest.fit(X, labels)
        theirs = shap.TreeExplainer(forest).shap_values(X[:5])[np.arange(5), :, TARGETS.numpy()]
        np.testing.assert_allclose(ours(explainer, forest), theirs, atol=1e-9)


@pytest.mark.parametrize("kind", ["SamplingExplainer", "KernelExplainer"])
def test_shap_prints_nothing(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    maker = getattr(shap, kind, None) or getattr(shap.explainers, kind)
    ours(maker(FOREST.predict_proba, X[:4]), FOREST)
    assert capfd.readouterr() == ("", "")


def test_networks() -> None:
    model, x = net(), FEW.float()
    targets = torch.tensor([0, 1, 2, 0, 2])
    theirs = shap.DeepExplainer(model, x).shap_values(x)
    want = np.stack([theirs[row, :, int(target)] for row, target in enumerate(targets)])
    np.testing.assert_allclose(ours(shap.DeepExplainer(model, x), model, x, targets), want, atol=1e-6)
    np.testing.assert_allclose(ours(Shap(kind="deep", background=x), model, x, targets), want, atol=1e-6)


def test_the_rebuilt_form_follows_the_model() -> None:
    for model in (FOREST, RandomForestClassifier(3, random_state=1).fit(X, Y)):
        theirs = shap.TreeExplainer(model).shap_values(X[:5])
        np.testing.assert_allclose(ours("tree_shap", model), theirs[np.arange(5), :, TARGETS.numpy()], atol=1e-9)
    linear = Shap(kind="linear", background=torch.tensor(X))
    np.testing.assert_allclose(ours(linear, LOGISTIC), ours(shap.LinearExplainer(LOGISTIC, X), LOGISTIC), atol=1e-9)
    kernel = Shap(kind="kernel", background=torch.tensor(X[:8]))
    theirs = shap.KernelExplainer(FOREST.predict_proba, X[:8]).shap_values(X[:5], silent=True)
    np.testing.assert_allclose(ours(kernel, FOREST), theirs[np.arange(5), :, TARGETS.numpy()], atol=1e-6)


def test_rows_go_to_shap_together() -> None:
    sizes: list[int] = []

    class Counted(shap.TreeExplainer):  # type: ignore[misc]
        def shap_values(self, rows: Any, **settings: Any) -> Any:
            sizes.append(len(rows))
            return super().shap_values(rows, **settings)

    Counted.__name__ = "TreeExplainer"
    ours(Counted(FOREST), FOREST, torch.tensor(X), torch.tensor(Y))
    assert sizes[-1] == 60
    assert len(sizes) == 3  # a trial of two calls, and all rows


def test_a_margin_is_noted() -> None:
    explainer, model = as_explainer(shap.TreeExplainer(BOOSTED)), as_model("model", BOOSTED)
    (note,) = explainer.check(model, FEW, TARGETS)
    assert note.startswith("shap.TreeExplainer explains the margin (log-odds), while the audited model gives probabilities")
    assert as_explainer(shap.TreeExplainer(FOREST)).check(as_model("model", FOREST), FEW, TARGETS) == ()


def test_keys_do_not_change_with_use() -> None:
    for made in (shap.TreeExplainer(BOOSTED), shap.KernelExplainer(FOREST.predict_proba, X[:8])):
        before = as_explainer(made).spec()
        made.shap_values(X[:2])
        assert as_explainer(made).spec() == before
    assert as_explainer(shap.TreeExplainer(FOREST)).spec() == as_explainer(shap.TreeExplainer(FOREST)).spec()
    assert as_explainer(shap.TreeExplainer(FOREST)).spec() != as_explainer(shap.TreeExplainer(FOREST, X[:8])).spec()


def test_keys_know_the_clustering() -> None:
    def key(clustering: str) -> Any:
        return as_explainer(shap.PartitionExplainer(FOREST.predict_proba, shap.maskers.Partition(X[:8], clustering=clustering))).spec()

    assert key("cosine") == key("cosine") != key("cityblock")


@pytest.mark.parametrize(
    ("made", "model", "sentence"),
    [
        (lambda: shap.TreeExplainer(BOOSTED3), FOREST, "explains 3 outputs, but the audited model has 2"),
        (lambda: shap.TreeExplainer(BOOSTED), FOREST, r"another model or class than the audited one: base value \+ sum"),
        (lambda: shap.TreeExplainer(RandomForestClassifier(3).fit(X, 1 - Y)), FOREST, "explains another model than the audited one"),
        (lambda: shap.DeepExplainer(net(), FEW.float()), net(), "was made for another model than the audited one"),
        (lambda: shap.TreeExplainer(RandomForestClassifier(9).fit(np.hstack([X, X]), Y)), FOREST, "of 8 features, but an input has 4"),
        (lambda: "tree_shap", net(), "explains fitted estimators, not Sequential"),
        (lambda: Shap(kind="kernel"), FOREST, "needs a background"),
        (lambda: Shap(kind="linear", background=torch.tensor(X)), FOREST, "shap cannot make a LinearExplainer for RandomForest"),
    ],
    ids=["outputs", "margin", "classes", "network", "features", "tree", "background", "linear"],
)
def test_refusals_are_one_sentence(made: Any, model: Any, sentence: str) -> None:
    module = model if isinstance(model, nn.Module) else as_model("model", model)
    x = FEW.float() if isinstance(model, nn.Module) else FEW
    with pytest.raises(InputError, match=sentence):
        as_explainer(made()).check(module, x, TARGETS)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            shap.TreeExplainer,
            r"shap.TreeExplainer is a class: pass an object of it, shap.TreeExplainer\(model, ...\), or Shap\(kind='tree'\)",
        ),
        (shap.Explainer, r"shap.Explainer is a class: pass an object of it, shap.Explainer\(model, ...\).$"),
    ],
)
def test_classes_of_shap_are_refused(kind: type, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        as_explainer(kind)


def audit(value: Any, scores: Sequence[str], folder: Path, model: Any = FOREST, x: Any = FEW, **settings: Any) -> Any:
    module = model if isinstance(model, nn.Module) else as_model("model", model)
    return Audit(models=module, inputs=x, explainers=[value], scores=list(scores), controls=False, companions=False, **settings).run(
        folder, progress=False
    )


def test_other_weights_are_refused_with_what_to_pass_instead(tmp_path: Path) -> None:
    model, x = net(), FEW.float()
    with pytest.raises(InputError, match=r"one fitted model, and the score 'fast_gef' .* pass veracity.explain.Shap\(kind='deep'\)"):
        audit(shap.DeepExplainer(model, x), ["fast_gef"], tmp_path, model, x)
    with pytest.raises(InputError, match="one fitted model"):
        audit(shap.DeepExplainer(model, x), ["mprt"], tmp_path, model, x)


def test_explainers_that_give_other_values_have_another_key() -> None:
    model, rows = net(), torch.tensor(X[:6]).float()
    halves, pairs = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    made = [
        shap.GradientExplainer(model, rows),
        shap.GradientExplainer(model, rows, local_smoothing=0.5),
        shap.KernelExplainer(LOGISTIC.predict_proba, X[:6]),
        *(
            shap.KernelExplainer(LOGISTIC.predict_proba, DenseData(X[:6], ["one", "two"], [np.array(one) for one in groups]))
            for groups in (halves, pairs)
        ),
    ]
    keys = [content_of(one) for one in made]
    assert len(set(keys)) == len(made)
    assert content_of(shap.GradientExplainer(model, rows, local_smoothing=0.5)) == keys[1]
    made[1].shap_values(rows[:2], nsamples=3)
    assert [content_of(one) for one in made] == keys, "the key stays after use"
