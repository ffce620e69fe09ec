from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from veracity import Audit, GraphInputs, MetaEvaluation, Result
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.engine.reader import Reader
from veracity.explain import Precomputed
from veracity.perturb import ParameterScaling
from veracity.scores import FaithfulnessCorrelation, FastGEF, InputAlignment, PixelFlipping
from veracity.studies.meta import KINDS, MetaResult, Unperturbed, outputs, scaled_copy

SAMPLES, FEATURES = 14, 6
SCORES = {
    "complexity": "complexity",
    "pixel_flipping": PixelFlipping(),
    "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=6, subset_size=3),
}
HIGHER = {"faithfulness_correlation"}


def network(classes: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, classes)).eval()


def rows(count: int = SAMPLES) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(1))


def evaluation(**changes: Any) -> MetaEvaluation:
    given: dict[str, Any] = {"model": network(), "inputs": rows(), "explainers": ["gradient", "smooth_grad"], "scores": ["complexity"]}
    return MetaEvaluation(**{**given, "iterations": 1, "perturbations": 1, **changes})


def ran(folder: Path, **changes: Any) -> MetaResult:
    return evaluation(**changes).run(folder, progress=False)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many audits were run, by their folder, and how many explanations were made in each."""
    counted: Counter[str] = Counter()
    run, explanation = Audit.run, Reader.explanation
    here = [""]

    def counting_run(self: Audit, folder: Any, **settings: Any) -> Result:
        here[0] = Path(folder).name
        counted[f"run {here[0]}"] += 1
        return run(self, folder, **settings)

    def counting(self: Reader, x: Any, *rest: Any) -> Tensor:
        counted[here[0]] += len(x)
        return explanation(self, x, *rest)

    monkeypatch.setattr(Audit, "run", counting_run)
    monkeypatch.setattr(Reader, "explanation", counting)
    return counted


def test_what_is_unperturbed_is_measured_once(tmp_path: Path, work: Counter[str]) -> None:
    ran(tmp_path)
    names = ["base", "ipt-minor-0-0", "ipt-disruptive-0-0", "mpt-minor-0-0", "mpt-disruptive-0-0"]
    assert [work[f"run {name}"] for name in names] == [1, 1, 1, 1, 1]
    assert [work[name] for name in names] == [2 * SAMPLES, 0, 0, 2 * SAMPLES, 2 * SAMPLES]
    assert sum(count for name, count in work.items() if name.startswith("run")) == 5


def test_a_second_run_measures_nothing_anew(tmp_path: Path, work: Counter[str]) -> None:
    first = ran(tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*")}
    work.clear()
    second = ran(tmp_path)
    assert len(files) == 5 * 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*")} == files
    assert not any(count for name, count in work.items() if not name.startswith("run"))
    pd.testing.assert_frame_equal(first.table(), second.table())


def test_explanations_of_the_unperturbed_inputs_are_passed_on(tmp_path: Path) -> None:
    found = ran(tmp_path).table().set_index("test")
    base = Result(tmp_path / "base").samples("complexity")["value"]
    for kind in KINDS:
        np.testing.assert_array_equal(Result(tmp_path / f"ipt-{kind}-0-0").samples("complexity")["value"], base)
        assert not np.allclose(Result(tmp_path / f"mpt-{kind}-0-0").samples("complexity")["value"], base, rtol=1e-7)
    assert found.loc["ipt", ["iac_nr", "iec_nr", "iac_ar", "iec_ar", "mc"]].tolist() == [1.0, 1.0, 0.0, 0.0, 0.5]


def literal(before: np.ndarray, after: np.ndarray, kept: np.ndarray, higher: bool) -> dict[str, float]:
    """Intra- and inter-consistency of one perturbation of each kind, by loops; before (methods, samples), after (kinds, ...)."""
    parts = {}
    for kind, name in enumerate(("nr", "ar")):
        chosen = np.flatnonzero(kept[kind])
        p = []
        for method in range(len(before)):
            one, other = before[method][chosen], after[kind][method][chosen]
            p.append(stats.wilcoxon(other, one, zero_method="zsplit", method="asymptotic").pvalue)
        parts[f"iac_{name}"] = np.mean(p) if name == "nr" else np.mean([1 - one for one in p])
        hits = []
        for sample in chosen:
            one, other = before[:, sample], after[kind][:, sample]
            if name == "nr":
                hits += list(stats.rankdata(one) == stats.rankdata(other))
            else:
                hits += list(one > other if higher else one < other)
        parts[f"iec_{name}"] = np.mean(hits)
    return parts


def test_the_table_by_hand(tmp_path: Path) -> None:
    methods = ["gradient", "input_x_gradient", "saliency"]
    meta = evaluation(scores=SCORES, inputs=rows(30), explainers=methods)
    table = meta.run(tmp_path, progress=False).rows.set_index(["score", "test", "iteration"])
    names = ["base", *(trial.name for trial in meta.trials())]
    results = {name: Result(tmp_path / name) for name in names}
    before = Unperturbed(meta, results["base"])
    clean = meta.model(rows(30)).argmax(1)

    def scores(name: str, score: str) -> np.ndarray:
        found = results[name].samples(score).set_index(["explainer", "sample"])["value"]
        return np.array([found[method].sort_index() for method in methods])

    noisy = [before.noisy(radius, 0, kind) for radius, kind in zip((0.001, 5.0), KINDS, strict=True)]
    for x, radius in zip(noisy, (0.001, 5.0), strict=True):
        assert 0.5 * radius < float((x - rows(30)).abs().max()) <= radius * 1.001
    now = {
        "ipt": [meta.model(x).argmax(1) for x in noisy],
        "mpt": [scaled_copy(meta.model, sigma, 0, kind, 0)(rows(30)).argmax(1) for sigma, kind in zip((0.001, 2.0), KINDS, strict=True)],
    }
    for test, (minor, disruptive) in now.items():
        kept = np.array([(minor == clean).numpy(), (disruptive != clean).numpy()])
        for score in SCORES:
            after = np.array([scores(f"{test}-{kind}-0-0", score) for kind in KINDS])
            expected = literal(scores("base", score), after, kept, score in HIGHER)
            row = table.loc[(score, test, 0)]
            assert row["left_out"] == 0
            for part, value in expected.items():
                assert row[part] == pytest.approx(value, abs=1e-12), (score, test, part)
            assert row["mc"] == pytest.approx(np.mean(list(expected.values())))


def test_every_perturbation_is_another(tmp_path: Path) -> None:
    meta = evaluation(iterations=2, perturbations=2)
    before = Unperturbed(meta, meta.audit().run(tmp_path, progress=False))
    noisy = [before.noisy(5.0, draw, kind) for draw in range(4) for kind in KINDS]
    weights = [next(scaled_copy(meta.model, 2.0, draw, kind, 0).parameters()) for draw in range(4) for kind in KINDS]
    for found in (noisy, weights):
        assert len({tuple(one.flatten().tolist()) for one in found}) == len(found)
    assert len({trial.name for trial in meta.trials()}) == 2 * 2 * 2 * 2


def test_weights_are_perturbed_along_directions_that_no_score_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Any] = []
    run = Audit.run

    def watched(self: Audit, *where: Any, **settings: Any) -> Result:
        models.append(self.models)
        return run(self, *where, **settings)

    monkeypatch.setattr(Audit, "run", watched)
    ran(tmp_path, tests=["mpt"], perturbations=2)
    base, *perturbed = models
    weight = base[0].weight.detach()
    path = [ParameterScaling(sigma=1.0, steps=1).parameters(base, draw, 0, 0)["0.weight"] / weight - 1 for draw in range(2)]
    own = [(model[0].weight.detach() / weight - 1) / sigma for model, sigma in zip(perturbed, (0.001, 0.001, 2.0, 2.0), strict=True)]
    directions = torch.stack([*path, *own]).flatten(1)
    assert float(torch.pdist(directions).min()) > 0.5 * weight.numel() ** 0.5


class Sums(nn.Module):
    """Logits of graphs as PyG calls it: a linear layer, summed over the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = network()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        found: Tensor = self.linear(x)
        return found.new_zeros(int(batch.max()) + 1, found.shape[1]).index_add(0, batch, found)


def test_graphs(tmp_path: Path) -> None:
    values = rows(2 * SAMPLES).reshape(SAMPLES, 2, FEATURES)
    graphs = GraphInputs(values, torch.ones(SAMPLES, 2, dtype=torch.bool), torch.tensor([[[0, 1]]]).expand(SAMPLES, 1, 2))
    found = ran(tmp_path, model=Sums(), inputs=graphs, explainers=["gradient", "input_x_gradient"], tests=["mpt"])
    assert np.isfinite(found.rows["mc"]).all()
    assert torch.allclose(outputs(Sums(), graphs), network()(values).sum(1))


class Weighted(nn.Module):
    """Probabilities times a weight of 1: under other weights they no longer look like probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = network(), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.linear(x), dim=1) * self.weight


def test_outputs_are_under_every_perturbation_what_they_were(tmp_path: Path) -> None:
    ran(tmp_path, model=Weighted(), perturbations=2)
    found = [Result(path.parent).manifest["models"]["model"]["outputs"] for path in tmp_path.glob("*/manifest.json")]
    assert found == ["probabilities"] * 9


class Brittle(nn.Module):
    """A network that gives NaN wherever its weight is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = network(), nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(x) * self.weight.sqrt()
        return found


def test_a_perturbed_model_that_gives_nan_is_left_out_and_counted(tmp_path: Path) -> None:
    found = ran(tmp_path, model=Brittle(), tests=["mpt"], perturbations=6).rows.iloc[0]
    measured = len(list(tmp_path.glob("mpt-disruptive-*")))
    assert 0 < measured < 6
    assert len(list(tmp_path.glob("mpt-minor-*"))) == 6
    assert found["left_out"] == (6 - measured) * 2 * SAMPLES
    assert np.isfinite(found["mc"])


def test_the_callers_model_comes_back_untouched(tmp_path: Path) -> None:
    model = network()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = rows()
    ran(tmp_path, model=model, inputs=x, scores=["mprt"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(bool((parameter.grad == 1).all()) and parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())
    assert torch.equal(x, rows())
    assert not model.training


def test_one_explainer_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="A single explainer always ranks first, so meta-evaluation says nothing: pass at least two"):
        ran(tmp_path, explainers=["gradient"])
    assert not any(tmp_path.iterdir())


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"inputs": rows()[:1]},
        "Intra-consistency compares scores over samples, which one sample does not allow: pass at least two",
    ),
    ({"scores": ["complexity", "model_robustness"]}, "'model_robustness' is about the model only"),
    ({"explainers": {"maps": Precomputed(maps=rows()), "gradient": "gradient"}}, "'maps' is maps without their explainer"),
    ({"model": nn.Flatten()}, "has no parameters"),
    ({"model": {"net": network()}}, "of one torch.nn.Module, not dict"),
    ({"tests": ["iptt"]}, "Unknown test of a meta-evaluation 'iptt'. Did you mean 'ipt'"),
    ({"tests": "mpt"}, "The tests are a list, such as ['mpt'], not one name."),
    ({"tests": []}, "There is no test to run"),
    ({"input_noise": (0.001,)}, "'input_noise' is two positive numbers, minor and disruptive, such as (0.001, 5.0), not (0.001,)."),
    ({"weight_noise": (0.001, -2.0)}, "'weight_noise' is two positive numbers"),
    ({"weight_noise": 0.1}, "'weight_noise' is two positive numbers"),
    ({"perturbations": 0}, "'perturbations' of the meta-evaluation must be a whole number of at least 1"),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_could_not_work_is_one_sentence(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, SpecError)) as caught:
        ran(tmp_path, **changes)
    assert said in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="choose"):
        ran(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_given_maps_are_passed_on_and_made_anew_for_other_weights(tmp_path: Path) -> None:
    maps = torch.rand(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(2))
    ran(tmp_path, explainers={"given": Precomputed(maps=maps, explainer="gradient"), "gradient": "gradient"})
    found = {name: Result(tmp_path / name).samples("complexity").set_index("explainer")["value"] for name in ("base", "ipt-minor-0-0")}
    np.testing.assert_array_equal(found["ipt-minor-0-0"]["given"], found["base"]["given"])
    anew = Result(tmp_path / "mpt-minor-0-0").samples("complexity").set_index("explainer")["value"]
    np.testing.assert_array_equal(anew["given"], anew["gradient"])
    alone = ran(tmp_path / "alone", explainers={"a": Precomputed(maps=maps), "b": Precomputed(maps=1 - maps)}, tests=["ipt"])
    assert alone.table()["mc"].tolist() == [0.5]


def test_averages_over_noise_are_made_around_the_inputs_at_hand(tmp_path: Path, work: Counter[str]) -> None:
    assert np.isfinite(ran(tmp_path, scores=["smooth_mprt"], tests=["ipt"]).table()["mc"]).all()
    assert work["ipt-minor-0-0"] > 0


def test_a_single_output_has_two_classes(tmp_path: Path) -> None:
    model = network(classes=1)
    found = ran(tmp_path, model=model).rows.set_index("test")
    assert np.isfinite(found["mc"]).all()
    changed = (scaled_copy(model, 2.0, 0, "disruptive", 0)(rows()) > 0) != (model(rows()) > 0)
    assert 0 < int(changed.sum()) < SAMPLES
    assert outputs(model, evaluation(model=model).audit().prepare().problem.inputs).shape == (SAMPLES, 1)


def test_each_path_keeps_the_strength_that_was_found_for_it(tmp_path: Path) -> None:
    model = nn.Linear(FEATURES, 2, bias=False).eval()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -1.0, 0.5, 1.0, -0.5, 1.0], [-1.0, 1.0, -0.5, -1.0, 0.5, -1.0]]))
    scores = [FastGEF(draws=1, steps=3), InputAlignment(draws=1, steps=3)]
    ran(tmp_path, model=model, scores=scores, explainers=["gradient", "input_x_gradient"], tests=["mpt"])
    found = {record["space"]: record["sigma"] for record in Result(tmp_path / "base").manifest["calibrations"]}
    again = Result(tmp_path / "mpt-minor-0-0").manifest
    assert again["score_specs"]["fast_gef"]["spec"]["sigma"] == found["parameter_scaling"]
    assert again["score_specs"]["input_alignment"]["spec"]["sigma"] == found["gaussian_noise"]
    assert found["parameter_scaling"] != found["gaussian_noise"]
    assert not again["calibrations"]


def test_both_tests_together_are_undefined_where_one_is_and_add_up_what_was_left_out() -> None:
    parts = dict.fromkeys(("iac_nr", "iac_ar", "iec_nr", "iec_ar"), 0.5)
    lines = [
        {"score": "a", "test": "ipt", "iteration": 0, **parts, "mc": 0.5, "left_out": 2},
        {"score": "a", "test": "mpt", "iteration": 0, **parts, "mc": 0.9, "left_out": 1},
        {"score": "a", "test": "ipt", "iteration": 1, **parts, "mc": 0.7, "left_out": 0},
        {"score": "a", "test": "mpt", "iteration": 1, **parts, "mc": 0.5, "left_out": 4},
        {"score": "b", "test": "ipt", "iteration": 0, **parts, "mc": 0.5, "left_out": 0},
        {"score": "b", "test": "mpt", "iteration": 0, **parts, "iac_ar": np.nan, "mc": np.nan, "left_out": 0},
    ]
    found = MetaResult(pd.DataFrame(lines), published=[{"score": "a", "value": 0.74}, {"score": "b", "test": "ipt", "value": 0.6}])
    table = found.table().set_index(["score", "test"])
    assert table.loc[("a", "both"), ["mc", "left_out", "published"]].tolist() == pytest.approx([0.65, 7, 0.74])
    assert table.loc[("a", "both"), "sd"] == pytest.approx(np.std([0.7, 0.6], ddof=1))
    assert table.loc[("a", "ipt"), "sd"] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert np.isnan(table.loc[("b", "both"), "mc"])
    assert table.loc[("b", "ipt"), "published"] == 0.6
    assert [line["mc"] for line in found.findings()["rows"]] == [0.5, 0.9, 0.7, 0.5, 0.5, None]
