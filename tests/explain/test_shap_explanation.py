from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shap
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier

from veracity import Audit, score
from veracity.core.errors import InputError
from veracity.explain.shap_explanation import GivenShap
from veracity.explain.shap_outputs import ExplainedOutput
from veracity.models import as_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
FOREST = RandomForestClassifier(4, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0)
BOOSTED3 = xgboost.XGBClassifier(n_estimators=3).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))


def audit(value: Any, scores: list[str], folder: Path, model: Any = FOREST) -> Any:
    made = Audit(models=as_model("model", model), inputs=torch.tensor(X[:5]), explainers=[value], scores=scores, controls=False)
    return made.run(folder, progress=False)


def test_an_explanation_is_scored_as_the_explainer_is(tmp_path: Path) -> None:
    tree = shap.TreeExplainer(FOREST)
    values = [
        audit(value, ["pixel_flipping"], tmp_path / name).table()["value"].tolist()
        for name, value in {"object": tree, "explanation": tree(X[:5]), "name": "tree_shap"}.items()
    ]
    assert values[0] == pytest.approx(values[1])
    assert values[0] == pytest.approx(values[2])


def test_an_explanation_is_scored_in_one_call() -> None:
    frame = pd.DataFrame(X[:5], columns=list("abcd"))
    forest = RandomForestClassifier(4, random_state=0).fit(pd.DataFrame(X, columns=frame.columns), X[:, 0] > 0)
    tree = shap.TreeExplainer(forest)
    maps = tree(frame).values[np.arange(5), :, forest.predict_proba(frame).argmax(1)]
    given: dict[str, Any] = {"scores": ["pixel_flipping"], "controls": False, "companions": False}
    found = [score(forest, frame, one, **given).table()["value"].item() for one in (maps, tree(frame), {"tree": tree(frame)})]
    assert found[0] == pytest.approx(found[1])
    assert found[0] == pytest.approx(found[2])
    again = score(forest, frame, tree(frame), explainer=tree, **{**given, "scores": ["max_sensitivity"]})
    assert again.failures().empty


def test_explanations_of_other_inputs_are_refused(tmp_path: Path) -> None:
    tree = shap.TreeExplainer(FOREST)
    with pytest.raises(InputError, match=r"Sample 0 of the shap\.Explanation is not sample 0 of the inputs"):
        audit(tree(X[:5][::-1]), ["pixel_flipping"], tmp_path)
    with pytest.raises(InputError, match=r"has 4 maps for 5 inputs|values for 4 inputs, but there are 5"):
        audit(tree(X[:4]), ["pixel_flipping"], tmp_path)
    with pytest.raises(InputError, match="another model or class"):
        audit(shap.TreeExplainer(BOOSTED3)(X[:5])[..., 1], ["pixel_flipping"], tmp_path, BOOSTED3)


def test_one_class_is_recognised_from_all_rows(tmp_path: Path) -> None:
    tree = shap.TreeExplainer(FOREST)
    maps = [
        audit(value, ["complexity"], tmp_path / str(at)).explanations("model", "shap.Explanation")
        for at, value in enumerate((tree(X[:5]), tree(X[:5])[..., 0], tree(X[:5])[..., 1]))
    ]
    np.testing.assert_allclose(maps[1], maps[0], atol=1e-9)
    np.testing.assert_allclose(maps[2], maps[0], atol=1e-9)


def test_base_values_of_all_classes_beside_values_of_one(tmp_path: Path) -> None:
    tree = shap.TreeExplainer(FOREST)
    values = tree(X[:5]).values[..., 1]
    with pytest.raises(InputError, match="2 base values for values of 1 output and 5 samples: give one for each output"):
        audit(shap.Explanation(values=values, base_values=tree.expected_value), ["complexity"], tmp_path)
    audit(shap.Explanation(values=values, base_values=tree.expected_value[1]), ["complexity"], tmp_path)


def test_as_many_classes_as_samples_have_one_base_value_each() -> None:
    weight = torch.tensor(RNG.normal(size=(40, 4)))
    model = torch.nn.Linear(4, 40, dtype=torch.float64)
    model.load_state_dict({"weight": weight, "bias": torch.arange(40.0)})
    x = torch.tensor(RNG.normal(size=(40, 4)))
    given = GivenShap.of(shap.Explanation(values=(x[:, :, None] * weight.T).numpy(), base_values=np.arange(40.0)))
    assert given.prepare(x).explained_by(model, x, ()) == ExplainedOutput()


def test_explanations_of_texts_are_refused_with_what_to_use_instead() -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((5, 2)), np.zeros((3, 2))]
    words = [["", "a", "fine", "film", ""], ["", "dull", ""]]
    same = shap.Explanation(values=np.zeros((1, 5, 2)), data=(np.array(words[0]),), feature_names=words[:1])
    for given in (shap.Explanation(values=ragged, data=tuple(map(np.array, words)), feature_names=words), same):
        with pytest.raises(InputError, match=r"This shap\.Explanation is of texts, .* use the explainer 'partition_shap' or 'kernel_shap'"):
            Audit(models=as_model("model", FOREST), inputs=torch.tensor(X[:2]), explainers={"shap": given}, scores=["insertion"]).prepare()
