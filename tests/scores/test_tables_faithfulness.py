"""Audits of tables: TreeSHAP gets the score it deserves, groups count as one, and the run says which baseline it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from veracity.audit import Audit
from veracity.core.errors import SpecError
from veracity.explain import KernelShap, Precomputed
from veracity.inputs import TableInputs
from veracity.models import as_model
from veracity.scores.faithfulness import Completeness, FaithfulnessCorrelation, PixelFlipping


def forest() -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], torch.Tensor, torch.Tensor]:
    """A forest on breast cancer data (standardised), its training rows, test rows, and TreeSHAP's values of the predicted class.

    The first values hold rows against 50 training rows, the second ones against the mean of all training rows.
    """
    shap = pytest.importorskip("shap")
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    x, y = StandardScaler().fit_transform(data.data)[order], data.target[order]
    train, test = x[:300], x[300:340]
    model = RandomForestClassifier(20, max_depth=5, random_state=0).fit(train, y[:300])
    predicted = model.predict_proba(test).argmax(1)

    def values(background: np.ndarray[Any, Any]) -> torch.Tensor:
        found = shap.TreeExplainer(model, background, feature_perturbation="interventional").shap_values(test, check_additivity=False)
        return torch.tensor(np.stack([found[row, :, one] for row, one in enumerate(predicted)]))

    return model, train, test, values(train[:50]), values(train.mean(0)[None])


def scored(folder: Path, model: Any, inputs: Any, maps: torch.Tensor, **settings: Any) -> tuple[float, list[dict[str, str]]]:
    baseline = settings.pop("perturb_baseline", None)
    audit = Audit(
        models={"forest": as_model("forest", model)},
        inputs=inputs,
        explainers={"tree": Precomputed(maps=maps)},
        scores=[FaithfulnessCorrelation(perturb_baseline=baseline)],
        controls=False,
        companions=False,
        **settings,
    )
    result = audit.run(folder, progress=False)
    return float(result.table()["value"].iloc[0]), result.manifest["notes"]


def test_tree_shap_is_faithful_where_masks_have_its_reference(tmp_path: Path) -> None:
    """Masks that put in the column means play the game of SHAP against these means; the row's minimum plays another one."""
    model, train, test, _, maps = forest()
    given, told = scored(tmp_path / "given", model, torch.tensor(test), maps, reference=torch.tensor(train))
    black, silent = scored(tmp_path / "black", model, torch.tensor(test), maps, perturb_baseline="black")
    assert given > 0.85
    assert black < 0.5
    assert "a reference set of 300 samples" in told[0]["text"]
    assert not silent
    table = TableInputs.of_array(test, list(load_breast_cancer().feature_names), background=train)
    assert scored(tmp_path / "named", model, table, maps)[0] == pytest.approx(given)


def test_without_a_reference_the_audited_inputs_say_what_is_usual(tmp_path: Path) -> None:
    model, _, test, maps, _ = forest()
    plain, notes = scored(tmp_path / "plain", model, torch.tensor(test), maps)
    assert plain > scored(tmp_path / "black", model, torch.tensor(test), maps, perturb_baseline="black")[0]
    assert "mean" in notes[0]["text"]
    assert "40 audited inputs: pass reference=..." in notes[0]["text"]


class Weighted(nn.Module):
    """f = 2 age + (3 if cook, -1 if clerk) + 0.1 hours, on columns age, cook, clerk, hours."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0, -1.0, 0.1], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack((x @ self.weight, -(x @ self.weight)), dim=1)


def one_hot_table() -> TableInputs:
    random = np.random.default_rng(0)
    cook = random.integers(0, 2, 12)
    values = np.stack((random.normal(0, 1, 12), cook, 1 - cook, random.normal(30, 10, 12)), axis=1)
    return TableInputs.of_array(values, ["age", "job_cook", "job_clerk", "hours"], groups="_")


def test_features_of_a_linear_model_score_one(tmp_path: Path) -> None:
    """Shapley values of a linear model add up on every subset of features, so that all three scores are perfect."""
    inputs = one_hot_table()
    scores = [FaithfulnessCorrelation(subset_size=1), Completeness(), PixelFlipping(softmax=False)]
    audit = Audit(models=Weighted(), inputs=inputs, explainers=[KernelShap()], scores=scores, outputs="raw", companions=False)
    result = audit.run(tmp_path / "run", progress=False)
    table = result.table().query("explainer == 'kernel_shap'").set_index("score")
    assert table.loc["faithfulness_correlation", "value"] == pytest.approx(1.0)
    assert table.loc["completeness", "value"] == pytest.approx(0.0, abs=1e-9)
    assert result.manifest["data"]["features"]["names"] == ["age", "job", "hours"]
    assert result.manifest["data"]["features"]["groups"] == [0, 1, 1, 2]
    flipped = next(one for one in result.series if one.score == "pixel_flipping" and one.explainer == "kernel_shap")
    assert flipped.measured["prediction"].shape[2] == 3, "one step per feature, not per column"
    shares = result.attributions().query("explainer == 'kernel_shap'")
    assert list(shares["feature"]) == ["age", "job", "hours"]
    assert shares["share"].sum() == pytest.approx(1.0)
    page = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="features"' in page
    assert '<th scope="row">job</th>' in page


def test_a_frame_as_reference_is_coded_like_the_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [1.0, 5.0, 3.0], "job": ["cook", "clerk", "cook"]})
    inputs = TableInputs(frame[:2], levels={"job": ["clerk", "cook"]})
    settings: dict[str, Any] = {"explainers": ["feature_ablation"], "scores": [FaithfulnessCorrelation(subset_size=1)], "companions": False}

    def score(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        return np.stack((rows["age"], -rows["age"] * (rows["job"] == "cook")), axis=1)

    audit = Audit(models=as_model("f", score), inputs=inputs, reference=frame, outputs="raw", **settings)
    features = audit.prepare().problem.features
    assert features is not None
    assert features.centre().tolist() == [3.0, 1.0]


def test_images_keep_their_baseline() -> None:
    images = torch.rand(2, 1, 4, 4)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    audit = Audit(models=net, inputs=images, explainers=["gradient"], scores=["faithfulness_correlation"], companions=False)
    problem = audit.prepare().problem
    assert problem.features is None
    cells = [cell for job in audit.prepare().jobs for cell in job.cells]
    assert {cell.score.spec()["perturb_baseline"] for cell in cells} == {"black"}
    with pytest.raises(SpecError, match="is known for tables only"):
        Audit(models=net, inputs=images, explainers=["gradient"], scores=[PixelFlipping(perturb_baseline="reference")]).prepare()


@pytest.mark.parametrize(
    ("shift", "table", "said"), [(5.0, False, True), (0.0, False, False), (5.0, True, False)], ids=["array", "centred array", "table"]
)
def test_a_note_says_that_explainers_and_masks_have_two_baselines(shift: float, table: bool, said: bool) -> None:
    x = torch.tensor([[-1.0, 2.0], [1.0, -2.0]]) + shift
    inputs = TableInputs.of_array(x) if table else x
    settings: dict[str, Any] = {"explainers": ["integrated_gradients", "gradient"], "scores": ["pixel_flipping"], "outputs": "raw"}
    notes = Audit(models=nn.Linear(2, 2).eval(), inputs=inputs, **settings).prepare().notes
    found = [(note["explainer"], note["text"]) for note in notes if "its baseline is" in note["text"]]
    assert [label for label, _ in found] == (["integrated_gradients"] if said else [])
    assert all(text.startswith("its baseline is 0, but masked values become the mean of their column") for _, text in found)
