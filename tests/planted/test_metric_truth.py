"""The rank correlation of metrics with the planted truth."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.metric_truth import Ranked, bootstrap, correlations, row_of, write

import veracity
from veracity.planted import MODALITIES
from veracity.planted.metric_truth import metric_truth, parse

TRUTH = np.array([[0.9, 0.7], [0.5, 0.3], [0.1, 0.1], [0.0, 0.0]])


def test_by_hand() -> None:
    assert correlations(TRUTH * 3 + 1, TRUTH) == (pytest.approx(1.0), pytest.approx(1.0), 4)
    assert correlations(-TRUTH, TRUTH)[:2] == (pytest.approx(-1.0), pytest.approx(-1.0))
    swapped = TRUTH[[1, 0, 2, 3]]
    assert correlations(swapped, TRUTH)[0] == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6 sum d^2 / (n (n^2 - 1))


def test_kendall_the_slow_way() -> None:
    values = np.random.default_rng(0).normal(size=(6, 5))
    truth = np.random.default_rng(1).normal(size=(6, 5))
    a, b = values.mean(1), truth.mean(1)
    signs = [np.sign((a[i] - a[j]) * (b[i] - b[j])) for i, j in itertools.combinations(range(6), 2)]
    assert correlations(values, truth)[1] == pytest.approx(np.mean(signs))


def test_rounding_errors_do_not_break_ties() -> None:
    values = np.array([[0.93055556], [0.93055557], [0.2]])
    assert correlations(values, np.array([[1.0], [1.0], [0.4]]))[0] == pytest.approx(1.0)


def test_what_is_undefined_is_left_out() -> None:
    values = TRUTH.copy()
    values[1] = np.nan
    assert correlations(values, TRUTH) == (pytest.approx(1.0), pytest.approx(1.0), 3)
    assert np.isnan(correlations(np.ones_like(TRUTH), TRUTH)[0])
    assert np.isnan(correlations(values[:2], TRUTH[:2])[0])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer resamples: what is asked of these intervals does not depend on their number."""
    monkeypatch.setattr("benchmarks.metric_truth.RESAMPLES", 200)


@pytest.mark.usefixtures("few")
def test_the_interval_holds_the_value_and_has_no_width_without_noise() -> None:
    clear = Ranked("m", "t", TRUTH, np.repeat(TRUTH.mean(1, keepdims=True), 2, axis=1))
    assert bootstrap([clear]) == (pytest.approx(1.0), pytest.approx(1.0))
    noise = np.random.default_rng(2)
    rows = [Ranked("m", str(task), noise.normal(size=(8, 6)), noise.normal(size=(8, 6))) for task in range(4)]
    low, high = bootstrap(rows)
    assert low < np.mean([correlations(one.values, one.truth)[0] for one in rows]) < high
    assert (low, high) == bootstrap(rows)


@pytest.mark.usefixtures("few")
def test_seeds_of_a_task_count_together() -> None:
    same = [Ranked("m", "a", TRUTH, TRUTH, seed) for seed in range(3)]
    other = Ranked("m", "b", -TRUTH, TRUTH)
    row = row_of("tables", "m", [*same, other])
    assert row["rho"] == pytest.approx(0.0)  # one task with 1, one with -1, however many seeds each has
    assert row["tasks"] == 2
    assert row["explainers"] == 4
    assert row["low"] < 0 < row["high"]
    assert row_of("tables", "m", []) == {}


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    row = {"metric": "m", "rho": 0.51234, "low": np.nan, "high": 0.9, "tau": 0.4, "tasks": 3, "explainers": 12.5}
    write(path, "tables", [row], 8, range(3))
    write(path, "images", [row | {"rho": 0.1}], 4, range(2))
    read = parse(json.loads(path.read_text(encoding="utf-8")))
    assert list(read) == ["images", "tables"]
    found = read["tables"].find("m")
    assert found is not None
    assert (found.rho, found.high, found.tasks) == (0.5123, 0.9, 3)
    assert np.isnan(found.low)
    assert (read["tables"].samples, read["tables"].seeds, read["images"].seeds) == (8, (0, 1, 2), (0, 1))
    assert read["tables"].find("other") is None


def test_the_table_of_the_documentation_is_that_of_the_file() -> None:
    page = (Path(__file__).parents[2] / "docs" / "examine.md").read_text(encoding="utf-8")
    kept = metric_truth()
    lines = [
        f"| {modality} | `{one.metric}` | {one.rho:.2f} | {one.low:.2f} to {one.high:.2f} | {one.tau:.2f} | {one.tasks} "
        f"| {one.explainers:.0f} |"
        for modality, found in kept.items()
        for one in found.metrics
    ]
    rows = re.findall(r"^\| \w+ \| `\w+` \| .* to .*\|$", page, flags=re.MULTILINE)
    assert rows == lines
    assert list(kept) == list(MODALITIES)
    assert {found.version for found in kept.values()} == {veracity.__version__}
    assert all(found.find("gef") is not None for found in kept.values())
