"""Stability through the whole system: Algorithm 1 as an audit, against plain loops over models, samples and pairs."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.core.training import CrossTrained
from veracity.results import Result, compared

SCORES = ["mege", "reco", "reco_auc", "reco_ks"]
EXPLAINERS = ["saliency", {"name": "smooth_grad", "draws": 5}]


def data(count=60, classes=3, noise=1.5):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    middle = torch.randn(classes, 1, 5, 5, generator=generator)
    return middle[labels] + noise * torch.randn(count, 1, 5, 5, generator=generator), labels


def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))


def fit(inputs, targets, seed):
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimiser.step()
    return model


def crossed(**settings):
    return CrossTrained(fit=fit, folds=4, build=network, **settings)


def algorithm_1(models, members, inputs, labels):
    """S= and S!= by plain loops (Algorithm 1), explanations |gradient of the predicted logit|."""
    same, differ = [], []
    for x, y, i in zip(inputs, labels, members, strict=True):
        maps, predicted = [], []
        for model in models:
            row = x[None].clone().requires_grad_()
            logits = model(row)
            predicted.append(int(logits.argmax()))
            maps.append(torch.autograd.grad(logits.max(), row)[0].abs().flatten().numpy())
        for j in range(len(models)):
            if j == i:
                continue
            delta = 1 - abs(spearmanr(maps[i], maps[j]).statistic)
            if predicted[i] == y and predicted[j] == y:
                same.append(delta)
            elif predicted[i] == y or predicted[j] == y:
                differ.append(delta)
    return np.array(same), np.array(differ)


def best_balance(same, differ):
    """Eq. 6 by trying every threshold."""
    found = []
    for gamma in np.concatenate((same, differ)):
        above = (same > gamma).sum() + (differ > gamma).sum()
        if above:
            below = (same <= gamma).sum() / ((same <= gamma).sum() + (differ <= gamma).sum())
            found.append(below + (differ > gamma).sum() / above - 1)
    return max(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stability")


@pytest.fixture(scope="module")
def result(folder):
    inputs, labels = data()
    audit = Audit(models={"cnn": crossed()}, inputs=inputs, targets=labels, explainers=EXPLAINERS, scores=SCORES)
    with pytest.warns(Note, match="points apart"):
        return audit.run(folder / "run", progress=False)


def trained(folder):
    from veracity.core.inputs import TensorInputs
    from veracity.engine.crosstrain.training import FoldTraining
    from veracity.engine.store import RunFolder

    inputs, labels = data()
    return FoldTraining(crossed(), TensorInputs(inputs), labels).train(RunFolder(str(folder / "run")), progress=False)


def test_the_audit_is_algorithm_1(folder, result):
    inputs, labels = data()
    folds = trained(folder)
    same, differ = algorithm_1(folds.modules, folds.members.tolist(), inputs, labels.tolist())
    found = result.sets("reco")["cnn", "saliency"]
    assert np.sort(found[0]) == pytest.approx(np.sort(same), abs=1e-5)
    assert np.sort(found[1]) == pytest.approx(np.sort(differ), abs=1e-5)
    table = result.table().set_index(["explainer", "score"])["value"]
    assert table["saliency", "mege"] == pytest.approx(1 / (1 + same.mean()), abs=1e-6)
    assert table["saliency", "reco"] == pytest.approx(best_balance(same, differ), abs=1e-6)


def test_what_stands_beside_a_score(result):
    table = result.table().set_index(["explainer", "score"])
    row = table.loc["saliency", "reco"]
    assert row["pairs_same"] + row["pairs_differ"] <= 60 * 3
    assert row["pairs_differ"] == len(result.sets("reco")["cnn", "saliency"][1])
    assert 0 < row["p_value"] <= 1
    measured = next(one.measured for one in result.series if (one.explainer, one.score) == ("saliency", "reco"))
    assert np.isfinite(row["low"]) == np.isfinite(row["high"]) == result.score("reco").enough(measured)
    mean = table.loc["saliency", "mege"]
    assert mean["low"] <= mean["value"] <= mean["high"]
    assert np.isnan(mean["p_value"])
    assert table.loc["edge_filter", "mege"]["value"] == 1
    assert table.loc["saliency", "mege"]["random_control"] == table.loc["random_uniform", "mege"]["value"]
    assert table.loc["random_uniform", "mege"]["value"] < 0.6


def test_constant_maps_have_no_distance_and_are_counted(result):
    row = result.table().set_index(["explainer", "score"]).loc["constant_map", "mege"]
    assert np.isnan(row["value"])
    assert row["undefined"] == 60
    assert row["undefined_draws"] == 180


def test_folds_are_told(result):
    folds = result.folds()
    assert folds["held_out"].tolist() == [15] * 4
    assert folds["trained_on"].tolist() == [45] * 4
    right = (folds["accuracy"] * folds["samples"]).sum() / 60
    assert result.manifest["models"]["cnn"]["accuracy"] == pytest.approx(right)


def test_explanations_are_those_of_the_model_that_never_saw_the_sample(folder, result):
    inputs, _ = data()
    folds = trained(folder)
    maps = result.explanations("cnn", "saliency")
    for number in (0, 7, 31, 59):
        row = inputs[number : number + 1].clone().requires_grad_()
        own = folds.modules[int(folds.members[number])]
        assert torch.allclose(maps[number], torch.autograd.grad(own(row).max(), row)[0][0].abs(), atol=1e-5)


@pytest.mark.usefixtures("forked")
@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_numbers_depend_neither_on_the_batch_nor_on_workers(folder, result, tmp_path):
    inputs, labels = data()
    given = crossed(folder=str(folder / "run"))
    audit = Audit(models={"cnn": given}, inputs=inputs, targets=labels, explainers=EXPLAINERS, scores=["reco"], controls=False)
    again = audit.run(tmp_path / "again", progress=False, batch=7, workers=2)
    for key, (same, differ) in again.sets("reco").items():
        assert result.sets("reco")[key][0] == pytest.approx(same, abs=1e-5, nan_ok=True)
        assert result.sets("reco")[key][1] == pytest.approx(differ, abs=1e-5, nan_ok=True)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_any_other_score_is_measured_out_of_fold(folder, tmp_path):
    inputs, labels = data()
    folds = trained(folder)
    scores = ["faithfulness_correlation", "sparseness"]
    plain = {"inputs": inputs, "targets": labels, "explainers": ["saliency"], "scores": scores, "controls": False}
    whole = Audit(models={"cnn": crossed(folder=str(folder / "run"))}, **plain).run(tmp_path / "whole", progress=False)
    alone = Audit(models={str(number): one for number, one in enumerate(folds.modules)}, **plain).run(tmp_path / "alone", progress=False)
    for score in scores:
        found = whole.samples(score).set_index("sample")["value"]
        each = alone.samples(score).set_index(["model", "sample"])["value"]
        for number in range(60):
            assert found[number] == pytest.approx(each[str(int(folds.members[number])), number], nan_ok=True)


def test_what_only_a_network_tells_comes_to_light_after_the_first_fold(tmp_path):
    inputs, labels = data()
    audit = Audit(models=CrossTrained(fit=fit, folds=4), inputs=inputs, targets=labels, explainers=["saliency"], scores=SCORES, target=7)
    with pytest.raises(InputError, match="7"):
        audit.run(tmp_path / "run", progress=False)
    assert len(list((tmp_path / "run" / "models").iterdir())) == 1


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_identical_models_score_one_and_leave_consistency_undefined(folder, tmp_path):
    inputs, labels = data()
    model = trained(folder).modules[0]
    given = CrossTrained(models=[model] * 3, folds=torch.arange(60) // 3 % 3)
    found = Audit(models={"cnn": given}, inputs=inputs, targets=labels, explainers=["saliency"], scores=SCORES).run(
        tmp_path / "same", progress=False
    )
    table = found.table().set_index(["explainer", "score"])
    assert table.loc["saliency", "mege"]["value"] == 1
    assert table.loc["saliency", "reco"]["pairs_differ"] == 0
    assert np.isnan(table.loc["saliency", "reco"]["value"])


def test_two_runs_are_compared(folder, result, tmp_path):
    gap = compared(result, Result(result.path)).set_index(["explainer", "score"]).loc["saliency", "mege"]
    assert gap["difference"] == 0
    assert gap["low"] <= 0 <= gap["high"]


def test_differences_are_paired(result):
    rows = result.differences("mege")
    row = rows[(rows["first"] == "saliency") & (rows["second"] == "random_uniform")].iloc[0]
    assert row["differs"]
    assert row["low"] > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"models": network().eval()}, "compares models that were trained without one fold each"),
        ({"targets": None}, "which needs labels"),
        ({"explainers": ["saliencyy"]}, "Did you mean 'saliency'"),
        ({"explainers": []}, "needs explainers"),
        ({"scores": [{"name": "reco", "pairs": "both"}]}, "pairs"),
    ],
)
@pytest.mark.parametrize("build", [network, None])
def test_mistakes_come_to_light_before_the_training(tmp_path, changes, sentence, build):
    inputs, labels = data()

    def never(inputs, targets, seed):
        raise AssertionError("trained")

    given = {
        "models": CrossTrained(fit=never, build=build),
        "inputs": inputs,
        "targets": labels,
        "explainers": ["saliency"],
        "scores": SCORES,
    }
    with pytest.raises(Exception, match=sentence):
        Audit(**{**given, **changes}).run(tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "models").exists()


def test_a_dry_run_trains_nothing(tmp_path):
    inputs, labels = data()
    audit = Audit(models={"cnn": crossed()}, inputs=inputs, targets=labels, explainers=["saliency"], scores=SCORES, controls=False)
    found = audit.forecast(tmp_path / "run")
    assert found.backward >= 60 * 4
    assert found.folds == 4
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_a_finished_run_says_so(folder, result):
    inputs, labels = data()
    audit = Audit(models={"cnn": crossed()}, inputs=inputs, targets=labels, explainers=EXPLAINERS, scores=SCORES)
    found = audit.forecast(folder / "run")
    assert (found.folds, found.forward) == (0, 0)
    assert found.finished == found.cells > 0


class Named(nn.Module):
    """A network whose scores lie in a dict."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return {"logits": self.inner(x)}


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_scores_in_a_dict_and_inputs_in_another_precision(tmp_path):
    inputs, labels = data(12)
    given = {"targets": labels, "explainers": ["saliency"], "scores": ["mege"], "controls": False}
    plain = [fit(inputs, labels, 0) for _ in range(2)]
    values = []
    for number, models in enumerate((plain, [Named(one).eval() for one in plain])):
        folds = CrossTrained(models=models, folds=torch.arange(12) % 2)
        x = inputs.double() if number else inputs
        result = Audit(models=folds, inputs=x, **given).run(tmp_path / str(number), progress=False)
        values.append(result.table()["value"].iloc[0])
    assert values[1] == pytest.approx(values[0], abs=1e-5)
