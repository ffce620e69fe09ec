"""Samples that are all equal: what that leaves open stands in the table, in the text, in json, in the gate, and no rank is made of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from veracity import Audit
from veracity.cli import main
from veracity.core.measures import Direction
from veracity.core.scores import Measured
from veracity.core.walks import Sampling
from veracity.perturb import CyclicShift
from veracity.results import Result, compared
from veracity.results.comparison import versus
from veracity.results.series import Arrays, Series
from veracity.statistics.means import estimate

SAMPLES = 12


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A linear model: its gradient is the same everywhere, and follows the weights exactly."""
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    audit = Audit(
        models={"linear": net.eval()},
        inputs=torch.randn(SAMPLES, 1, 4, 4, generator=generator),
        explainers=["gradient", "saliency", "input_x_gradient"],
        symmetry=CyclicShift(axes=(-1,)),
        scores=["invariance", "fast_gef"],
        controls=False,
    )
    return audit.run(str(tmp_path_factory.mktemp("unseen") / "run"), progress=False)


def code(*arguments: str) -> int:
    """Run a command; its exit status."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def row(result: Result, explainer: str, score: str) -> dict:
    table = result.table()
    return table[(table["explainer"] == explainer) & (table["score"] == score)].to_dict("records")[0]


def test_the_table_says_what_equal_samples_leave_open(result: Result) -> None:
    same, varied = row(result, "gradient", "invariance"), row(result, "input_x_gradient", "invariance")
    assert same["low"] == same["high"] == pytest.approx(1.0)
    assert same["unseen"] == pytest.approx(1 - 0.05 ** (1 / SAMPLES))
    assert math.isnan(varied["unseen"])
    assert row(result, "gradient", "fast_gef")["unseen"] == pytest.approx(1 - 0.05 ** (1 / SAMPLES))
    assert "≤ 0.221" in str(result)


def test_no_rank_is_made_of_it(result: Result) -> None:
    rows = {(one["first"], one["second"]): one for one in result.differences("invariance").to_dict("records")}
    same = rows["gradient", "saliency"]
    assert (same["status"], same["differs"]) == ("no difference seen", False)
    assert same["unseen"] == pytest.approx(1 - (0.05 / 3) ** (1 / SAMPLES))
    assert rows["gradient", "input_x_gradient"]["differs"]


def test_json_and_the_terminal_show_it(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("show", result.path, "--format", "json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(line["explainer"], line["score"]): line["unseen"] for line in lines}
    assert found["gradient", "invariance"] == pytest.approx(1 - 0.05 ** (1 / SAMPLES))
    assert found["input_x_gradient", "invariance"] is None
    assert code("show", result.path) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "unseen ≤ 22.1 %" in shown
    assert "largest share of the population that may differ without having been seen" in shown


def test_the_report_shows_it(result: Result, tmp_path: Path) -> None:
    page = result.save_report(tmp_path / "report.html").read_text()
    assert "all equal, unseen ≤ 22.1 %" in page


def test_the_gate_tells_it_and_can_refuse_it(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["gate", result.path, "--require", "invariance>=0.9", "--explainer", "gradient"]
    assert code(*asked) == 0
    assert "all 12 samples are equal; up to 22.1 % of the population may differ unseen" in capsys.readouterr().out
    assert code(*asked, "--max-unseen", "0.05") == 1
    assert "more than 5 %; 59 equal samples are needed" in capsys.readouterr().err
    assert (1 - 0.05) ** 59 < 0.05 < (1 - 0.05) ** 58
    assert code(*asked, "--max-unseen", "0.3") == 0
    assert code(*asked, "--max-unseen", "5") != 0
    assert "--max-unseen is a share between 0 and 1, such as 0.05, not 5" in capsys.readouterr().err


def test_a_comparison_of_a_run_with_itself_sees_no_difference(result: Result) -> None:
    found = compared(result, result)
    assert set(found["status"]) == {"no difference seen"}
    assert found["unseen"].to_numpy() == pytest.approx(np.full(len(found), 1 - 0.05 ** (1 / SAMPLES)))


def test_it_stands_wherever_the_interval_has_no_width() -> None:
    """However draws were chosen: n counts samples, and nobody chose those while looking."""
    for sampling in (Sampling(), Sampling(anytime=0.95), Sampling(nested=False), Sampling(exhaustive=True)):
        found = estimate(np.ones((5, 4)), sampling, (-1.0, 1.0))
        assert found.low == found.high
        assert math.isfinite(found.unseen)
    assert math.isnan(estimate(np.ones((1, 4)), Sampling(), (-1.0, 1.0)).unseen)


def test_a_comparison_knows_draws_that_all_samples_share() -> None:
    """Two runs without a true difference, whose copies differ: by sample means alone they would nearly always come out different."""
    generator = np.random.default_rng(0)
    missed = {"crossed": 0, "by sample": 0}
    for _ in range(60):
        tables = [0.1 * generator.normal(size=(40, 5)) + 0.3 * generator.normal(size=(1, 5)) for _ in range(2)]
        for kind, sampling in (("crossed", Sampling(nested=False)), ("by sample", Sampling())):
            row = versus(*(series(table, sampling) for table in tables), True, 0.95)
            missed[kind] += not row["low"] <= 0 <= row["high"]
    assert missed["crossed"] <= 8
    assert missed["by sample"] > 40
    single = [series(generator.normal(size=(40, 1)), Sampling(nested=False)) for _ in range(2)]
    assert versus(*single, True, 0.95)["status"] == "too few"
    other = [series(generator.normal(size=(40, draws)), Sampling(nested=False)) for draws in (5, 6)]
    assert versus(*other, True, 0.95)["status"] == "ok"


def test_groups_of_equal_samples_are_not_ranked() -> None:
    one, two = (series(np.full((n, 1), value), Sampling(exhaustive=True)) for n, value in ((5, 1.0), (6, 2.0)))
    row = versus(one, two, False, 0.95)
    assert (row["difference"], row["status"]) == (1.0, "same difference everywhere")
    assert row["unseen"] == pytest.approx(1 - 0.05 ** (1 / 5))


def series(values: np.ndarray, sampling: Sampling) -> Series:
    """A score that was measured to the end."""
    arrays = Arrays(
        samples=np.arange(len(values)),
        values=values,
        counts=np.full(len(values), values.shape[1]),
        drawn=values.size,
        per_sample=values.mean(axis=1),
        measured=Measured({"value": values[:, :, None]}),
        no_response=np.zeros(len(values), dtype=np.bool_),
        errors=None,
        remarks={},
    )
    return Series(
        model="m",
        explainer="e",
        control=False,
        signed=True,
        directed=True,
        frame="input",
        categorical=False,
        score="s",
        sampling=sampling,
        bounds=(-math.inf, math.inf),
        direction=Direction.HIGHER,
        read=lambda: arrays,
        cells=1,
        missing=0,
        broken=0,
        failed="",
        lost={},
    )
