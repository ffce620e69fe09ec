"""A sample on which somebody's code throws costs that sample, and nothing else."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from stored import sign_record
from veracity import Audit
from veracity.cli.tables import audit_tables
from veracity.core.errors import Note, SpecError
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.scores import Pair
from veracity.engine.perturbation.base import Measurements, join
from veracity.engine.reader import EXPLANATIONS
from veracity.engine.store import RunFolder
from veracity.explain import Gradient
from veracity.perturb import CyclicShift
from veracity.report import render
from veracity.results import Result
from veracity.scores.symmetry import Equivariance

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
BAD = (5, 40)
X = series_inputs(70)
SUMS = X.sum((1, 2))


def known(inputs: Tensor) -> Tensor:
    """Which sample each row is, moved or not."""
    return (inputs.sum((1, 2))[:, None] - SUMS).abs().argmin(1)


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return Gradient().explain(model, inputs, targets, Context(None, 512))  # type: ignore[arg-type]


def picky(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    for sample in known(inputs).tolist():
        if sample in BAD:
            raise ValueError(f"no map of {'five' if sample == 5 else 'forty'}")
    return gradient(model, inputs, targets)


def audit(**settings: Any) -> Audit:
    given: dict[str, Any] = {
        "models": {"net": small_net()},
        "inputs": X,
        "explainers": [picky, "gradient"],
        "symmetry": CyclicShift(axes=(-1,)),
        "scores": ["equivariance", "invariance", "sparseness"],
        "controls": False,
    }
    return Audit(**{**given, **settings})


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Note)
        found = audit().run(tmp_path_factory.mktemp("salvage"))
    told = "net / equivariance, invariance, sparseness, self_agreement failed for picky (1 of 70 samples): ValueError: no map of"
    assert [str(one.message) for one in said] == [f"{told} five", f"{told} forty"]
    return found


def test_the_others_have_the_numbers_that_they_would_have_had(result: Result) -> None:
    for score in ("equivariance", "invariance", "sparseness"):
        values = result.samples(score).pivot(index="sample", columns="explainer", values="value")
        assert values.index[values["picky"].isna()].tolist() == list(BAD)
        kept = values.drop(index=list(BAD))
        assert np.allclose(kept["picky"], kept["gradient"], atol=1e-6)


def test_failed_samples_are_counted_by_themselves(result: Result) -> None:
    table = result.table().set_index(["explainer", "score"])
    own = table.loc["picky", "equivariance"]
    assert (own["n"], own["undefined"], own["undefined_draws"], own["samples_failed"], own["draws"]) == (68, 0, 0, 2, 12)
    assert (own["cells_failed"], own["state"], own["failed"]) == (0, "done", "ValueError: no map of five")
    assert table.loc["gradient", "equivariance"]["samples_failed"] == 0
    assert own["evaluations"] == 68 * 12
    samples = result.samples("equivariance").query("explainer == 'picky'").set_index("sample")["failed"]
    assert samples[list(BAD)].tolist() == ["ValueError: no map of five", "ValueError: no map of forty"]
    assert (samples.drop(index=list(BAD)) == "").all()
    assert result.differences("invariance")["n"].tolist() == [68]


def test_each_reason_is_told_once(result: Result) -> None:
    failures = result.failures()
    assert set(failures["explainer"]) == {"picky"}
    own = failures[failures["score"] == "equivariance"]
    assert own[["error", "cells_failed", "samples_failed", "samples"]].to_numpy().tolist() == [
        ["ValueError: no map of five", 0, 1, 70],
        ["ValueError: no map of forty", 0, 1, 70],
    ]
    text = "net / equivariance, invariance, sparseness, self_agreement failed for picky (1 of 70 samples): ValueError: no map of five"
    assert str(result).count("no map of five") == 1
    assert text in str(result)
    assert "samples_failed" in str(result)
    page = render(result)
    assert page.count("ValueError: no map of five") == 1
    assert "1 of 70 samples" in page
    assert any(column["header"] == "failed" for table in audit_tables(result) for column in table.columns)


def test_the_cell_says_which_samples_failed(result: Result) -> None:
    folder = RunFolder(result.path)
    keys = [cell["key"] for cell in result.manifest["cells"] if (cell["explainer"], cell["score"]) == ("picky", "equivariance")]
    (key,) = folder.incomplete() & set(keys)
    table = folder.read_cell(key).to_pandas()
    assert set(table["status"].astype(str)) == {"ok", "failed"}
    assert table[table["status"] == "failed"]["sample"].tolist() == list(BAD)
    assert folder.failed_samples(key) == {5: "ValueError: no map of five", 40: "ValueError: no map of forty"}
    assert key not in folder.failures()


def test_base_maps_are_kept_without_those_that_failed(result: Result) -> None:
    maps = result.explanations("net", "picky")
    assert maps.isnan().flatten(1).any(1).nonzero()[:, 0].tolist() == list(BAD)
    sound = [sample for sample in range(70) if sample not in BAD]
    assert torch.allclose(maps[sound], result.explanations("net", "gradient")[sound], atol=1e-6)


def test_the_same_call_tries_failed_samples_again_and_leaves_the_rest(tmp_path: Path) -> None:
    marker = tmp_path / "mended"

    def brittle(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if 5 in known(inputs).tolist() and not Path(where).exists():
            raise ValueError("not yet")
        return gradient(model, inputs, targets)

    where = str(marker)
    run = audit(explainers=[brittle], scores=["equivariance"])
    assert run.run(tmp_path / "run").table()["samples_failed"].tolist() == [1]
    lacking = incomplete(tmp_path / "run")
    others = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/cells/*") if path.name.split(".")[0] not in lacking}
    marker.touch()
    again = run.run(tmp_path / "run")
    assert again.table()["samples_failed"].tolist() == [0]
    assert again.failures().empty
    assert not incomplete(tmp_path / "run")
    assert others
    assert all(path.stat().st_mtime_ns == time for path, time in others.items())
    keys = [(path.parent.name, path.name.split(".")[0]) for path in tmp_path.glob("run/*/*") if path.name.count(".") == 2]
    assert len(keys) == len(set(keys)), "a record that is made again takes the place of the old one"
    assert again.table()["n"].tolist() == run.run(tmp_path / "fresh").table()["n"].tolist() == [70]


def incomplete(folder: Path) -> set[str]:
    return RunFolder(str(folder)).incomplete()


def test_what_every_sample_throws_is_one_failure_of_the_cell(tmp_path: Path) -> None:
    def hopeless(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if len(inputs) > 2 or not set(known(inputs).tolist()) <= {0, 1}:
            raise ValueError("never")
        return inputs.clone()

    found = audit(explainers=[hopeless], inputs=X[:8], scores=["equivariance"], companions=False).run(tmp_path)
    assert found.failures()[["error", "cells_failed", "samples_failed"]].to_numpy().tolist() == [["ValueError: never", 1, 0]]
    assert found.table()["state"].tolist() == ["failed"]
    assert not list(tmp_path.glob("cells/*"))


def test_code_that_takes_a_few_rows_at_a_time_is_given_a_few(tmp_path: Path) -> None:
    def timid(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if len(inputs) > 12:
            raise ValueError("too many rows")
        return gradient(model, inputs, targets)

    found = audit(explainers=[timid, "gradient"], inputs=X[:20], scores=["equivariance"]).run(tmp_path)
    assert found.failures().empty
    values = found.samples("equivariance").pivot(index="sample", columns="explainer", values="value")
    assert np.allclose(values["timid"], values["gradient"], atol=1e-6)
    assert torch.allclose(found.explanations("net", "timid"), found.explanations("net", "gradient"), atol=1e-6)


def test_explanations_of_parts_stay_whole_if_a_file_appears_between_two_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written by another thread, so the second part of a block may find what the first had to compute."""
    own, reads = RunFolder.read_tensors, Counter[str]()

    def slow(folder: RunFolder, kind: str, key: str) -> Any:
        reads[key] += 1
        return None if kind == EXPLANATIONS and reads[key] < 9 else own(folder, kind, key)

    def timid(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if len(inputs) > 12:
            raise ValueError("too many rows")
        return gradient(model, inputs, targets)

    monkeypatch.setattr(RunFolder, "read_tensors", slow)
    found = audit(explainers=[timid], inputs=X[:20], scores=["equivariance", "sparseness"]).run(tmp_path)
    assert max(reads.values()) >= 9
    assert found.explanations("net", "timid").isfinite().all()


class Refuses(nn.Module):
    """Throws on perturbed versions of one sample, never on the sample itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        moved = (x[:, None] - X[None, 5]).abs().flatten(2).amax(2)[:, 0] > 0
        if bool((moved & (known(x) == 5)).any()):
            raise ArithmeticError("five was moved")
        out: Tensor = self.net(x)
        return out


def test_a_model_that_throws_on_a_perturbed_sample_costs_that_sample(tmp_path: Path) -> None:
    table = (
        audit(models={"net": Refuses()}, explainers=["smooth_grad"], scores=["model_invariance"], companions=False).run(tmp_path).table()
    )
    own = table[table["explainer"] == ""].iloc[0]
    assert (own["samples_failed"], own["n"], own["failed"]) == (1, 69, "ArithmeticError: five was moved")


@pytest.mark.parametrize(
    "score",
    [
        {"name": "mprt"},
        {"name": "faithfulness_correlation", "nr_runs": 6},
        {"name": "sol_f_hat", "walk": {"name": "genetic", "population": 8, "elites": 2, "generations": 3}},
        {"name": "ln_p_f_hat", "walk": {"name": "simple_monte_carlo", "draws": 16}},
    ],
    ids=lambda score: str(score["name"]),
)
def test_weights_masks_and_searches_lose_the_sample_alone(score: dict[str, Any], tmp_path: Path) -> None:
    def first(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        if bool((inputs[:, 0, 0] > 50).any()):
            raise ValueError("too large")
        return gradient(model, inputs, targets)

    x = X[:6].clone()
    x[3, 0, 0] = 100.0
    found = audit(inputs=x, explainers=[first, "gradient"], scores=[score], companions=False, symmetry=None).run(tmp_path)
    table = found.table().set_index("explainer")
    assert table.loc["first", "samples_failed"] == 1
    values = found.samples(score["name"]).pivot(index="sample", columns="explainer", values="value").drop(index=3)
    pd.testing.assert_series_equal(values["first"], values["gradient"], check_names=False, atol=1e-5, rtol=0)
    assert values["first"].notna().any()


class Objects(Equivariance):
    """A score that says in our own words that it does not apply."""

    name = "objects"

    def observe(self, pair: Pair) -> Tensor:
        CALLS.append(len(pair.after.explanation))
        raise SpecError("It does not apply.")


CALLS: list[int] = []


def test_our_own_sentences_are_not_looked_for_in_every_sample(tmp_path: Path) -> None:
    CALLS.clear()
    found = audit(explainers=["gradient"], scores={"objects": Objects()}, companions=False).run(tmp_path)
    assert found.failures()["error"].tolist() == ["It does not apply."]
    assert found.failures()["cells_failed"].tolist() == [2]
    assert len(CALLS) <= 6


class Quiet(Explainer):
    """Needs one forward pass and counts its calls."""

    name = "quiet"

    def cost(self, shape: torch.Size) -> Cost:
        return Cost(forward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        ROWS.append(len(inputs))
        return inputs.clone()


ROWS: list[int] = []


def test_nothing_is_done_twice_where_nothing_throws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.audit.try_explainers", lambda problem, budgets, heard: (problem, []))
    ROWS.clear()
    audit(explainers=[Quiet()], scores=["equivariance"], companions=False).run(tmp_path)
    assert sum(ROWS) == 70 + 70 * 12


def test_a_record_without_reasons_still_tells_the_error(tmp_path: Path) -> None:
    audit(scores=["equivariance"], companions=False).run(tmp_path)
    (path,) = tmp_path.glob("failed/*.json")
    path.write_text(json.dumps({"error": "ValueError: later"}))
    sign_record(path)
    assert set(Result(tmp_path).failures()["error"]) == {"ValueError: later"}


def test_lines_that_lack_a_quantity_are_undefined_there() -> None:
    place = torch.zeros(1, dtype=torch.int64)
    one, two = (Measurements(place + number, place, place, {name: torch.ones(1).double()}) for number, name in enumerate("ab"))
    whole = join([one, two])
    assert whole.sample.tolist() == [0, 1]
    assert str(whole.quantities["a"].tolist()) == "[1.0, nan]"
    assert str(whole.quantities["b"].tolist()) == "[nan, 1.0]"


def test_workers_lose_the_sample_alone_too(make_audit: Callable[..., Audit], tmp_path: Path, forked: None) -> None:
    table = audit(explainers=[picky], scores=["equivariance"], companions=False).run(tmp_path, workers=2).table()
    assert table["samples_failed"].tolist() == [2]


def cut_off(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    if 5 in known(inputs).tolist():
        raise ConnectionResetError("the service is down")
    return gradient(model, inputs, targets)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_lost_connection_of_the_users_code_is_an_error_as_any_other(workers: int, tmp_path: Path, forked: None) -> None:
    found = audit(explainers=[cut_off], scores=["equivariance"], companions=False).run(tmp_path, workers=workers)
    assert found.table()["samples_failed"].tolist() == [1]
    assert "the service is down" in found.failures()["error"].item()
