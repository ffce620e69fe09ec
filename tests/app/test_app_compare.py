"""Two runs compared by the server: the numbers of `compared`, at a level that is corrected for the number of rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from app_client import client
from starlette.testclient import TestClient

from small import series_inputs, small_net
from veracity import Audit
from veracity.app import comparison
from veracity.cards.changes import Change
from veracity.core.measures import Direction
from veracity.core.wording import MINUS
from veracity.results import Result, compared


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("compare")
    explainers = {"same": "saliency", "other": "saliency"}
    audit = Audit(models={"net": small_net()}, inputs=series_inputs(24), explainers=explainers, scores=["deletion", "sparseness"])
    audit.run(found / "old", progress=False)
    changed = {"same": "saliency", "other": {"name": "random_gaussian"}}
    Audit(models={"net": small_net()}, inputs=series_inputs(24), explainers=changed, scores=["deletion", "sparseness"], seed=1).run(
        found / "deep" / "new", progress=False
    )
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> TestClient:
    return client(folder)


def test_rows_are_those_of_the_results_at_a_corrected_level(served: TestClient, folder: Path) -> None:
    found = served.get("/api/runs/deep%2Fnew/compare", params={"before": "old"}).json()
    old, new = Result(folder / "old"), Result(folder / "deep" / "new")
    assert (found["before"]["path"], found["after"]["path"]) == ("old", "deep/new")
    assert len(found["rows"]) == 4, "controls are left out"
    level = 1 - 0.05 / 4
    assert [row["level"] for row in found["rows"]] == [pytest.approx(level)] * 4
    table = compared(old, new, level, quiet=True).set_index(["explainer", "score"])
    directions = {one.score: one.direction for one in old.series}
    by_title = {"Deletion": "deletion", "Sparseness": "sparseness"}
    words = []
    for row in found["rows"]:
        score = next(name for title, name in by_title.items() if row["score"].lower().startswith(title.lower()))
        own = table.loc[row["explainer"], score]
        assert [row[name] for name in ("before", "after", "low", "high")] == pytest.approx(own[["before", "after", "low", "high"]].tolist())
        gain = own["difference"] * (1 if directions[score] is Direction.HIGHER else -1)
        sure = own["status"] == "ok" and (own["low"] > 0 or own["high"] < 0)
        assert row["verdict"] == (("better" if gain > 0 else "worse") if sure else "")
        words.append(row["verdict"])
        assert row["paired"]
        when = {"before": old, "after": new}
        for name, run in when.items():
            values = run.table().set_index(["explainer", "score"])["random_control"]
            known = row["explainer"] == "same"  # the other one has another control now
            assert row[f"random_{name}"] == (pytest.approx(values[row["explainer"], score]) if known else None)
        assert row["score"].endswith({Direction.HIGHER: " ↑", Direction.LOWER: " ↓"}[directions[score]])
    assert "worse" in words
    assert all(row["verdict"] == "" and row["difference"] == 0 for row in found["rows"] if row["explainer"] == "same")
    worse, better = words.count("worse"), words.count("better")
    assert found["answer"].startswith(f"Of 4 rows that both runs have, {worse} got worse and {better} got better beyond chance")
    assert [row["why"] for row in found["rows"] if row["explainer"] == "same"] == ["the same on every sample"] * 2
    assert any("seed" in note for note in found["notes"])
    assert any(note.endswith("more than the model may have changed: other.") for note in found["notes"])


def test_a_random_control_on_another_scale_is_not_shown(tmp_path: Path) -> None:
    for seed, name in enumerate(("old", "new")):
        scores = {"ratio": "max_sensitivity", "units": {"name": "max_sensitivity", "relative": False}}
        Audit(models={"net": small_net()}, inputs=series_inputs(8), explainers=["saliency"], scores=scores, seed=seed).run(
            tmp_path / name, progress=False
        )
    found = comparison.audits(Result(tmp_path / "old"), Result(tmp_path / "new"))
    ends = ((row["score"].lower(), row["random_before"], row["random_after"]) for row in found["rows"])
    shown = {score.split()[0]: math.isfinite(before) and math.isfinite(after) for score, before, after in ends}
    assert shown == {"ratio": True, "units": False}


@pytest.mark.parametrize("status", ["pending", "too few", "no difference seen", "same difference everywhere", "overlapping", "undefined"])
def test_a_difference_that_is_not_ranked_has_no_verdict(folder: Path, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends on one side of 0 are not enough: all statuses but "ok" say that the difference is not ranked."""
    run = Result(folder / "old")
    table = compared(run, run, quiet=True).assign(low=0.1, high=0.1, difference=0.1, status=status)
    monkeypatch.setattr(comparison, "compared", lambda *_given, **_settings: table)
    found = comparison.audits(run, run)
    assert {row["verdict"] for row in found["rows"]} == {""}
    assert all(row["why"] for row in found["rows"])
    assert "0 got worse and 0 got better" in found["answer"]


def test_rows_with_other_settings_are_not_ranked(folder: Path, tmp_path: Path) -> None:
    other = Audit(
        models={"net": small_net()},
        inputs=series_inputs(24),
        explainers={"same": "saliency", "other": "random_gaussian"},
        scores={"deletion": {"name": "deletion", "steps": 3}, "sparseness": "sparseness"},
    ).run(tmp_path, progress=False)
    rows = comparison.audits(Result(folder / "old"), other)["rows"]
    assert {row["why"] for row in rows if row["score"].lower().startswith("deletion")} == {"measured with other settings"}
    assert any(row["verdict"] == "worse" for row in rows)


@pytest.mark.parametrize(
    ("before", "sentence"),
    [("deep/new", "is compared with itself: choose another run."), ("gone", "gone"), ("", "run")],
)
def test_what_cannot_be_compared_is_one_sentence(served: TestClient, before: str, sentence: str) -> None:
    found = served.get("/api/runs/deep%2Fnew/compare", params={"before": before})
    assert found.status_code == 404
    assert sentence in found.json()["error"]
    assert "Traceback" not in found.text


def test_audits_without_a_shared_row_say_so(tmp_path: Path) -> None:
    for name, explainer in (("a", "saliency"), ("b", "gradient")):
        Audit(models=small_net(), inputs=series_inputs(6), explainers=[explainer], scores=["deletion"], controls=False).run(
            tmp_path / name, progress=False
        )
    said = client(tmp_path).get("/api/runs/b/compare", params={"before": "a"}).json()["error"]
    assert said == "The two runs share no model, explainer and score."


@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        ({"after": 0.9, "low": 0.3, "high": 0.5}, "better", ""),
        ({"after": 0.1, "low": -0.5, "high": -0.3}, "worse", ""),
        ({"after": 0.52, "low": 0.01, "high": 0.03, "margin": 0.05}, "", "differs by at most 0.05, which counts as none"),
        ({"low": 0.0, "high": 0.0}, "", "the same on every sample"),
        ({"after": 0.6, "low": -0.1, "high": 0.3}, "", ""),
        ({"after": 0.6}, "", "not compared"),
        ({"after": 0.6, "why": "other settings"}, "", "other settings"),
    ],
)
def test_a_check_of_a_card_says_how_it_changed_or_why_that_is_not_known(change: dict[str, Any], verdict: str, why: str) -> None:
    one = Change(**{"explainer": "a", "question": "calm", "check": "noise", "title": "small noise", "before": 0.5, "after": 0.5, **change})
    row = comparison.card_row("net", one)
    assert (row["model"], row["score"], row["verdict"], row["why"]) == ("net", "small noise", verdict, why)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.625, -0.1, "-0.62 to -0.10"),
        (-0.625, -0.0041, "-0.625 to -0.004"),
        (-0.25, -0.0003, "-0.2500 to -0.0003"),
        (0, 0.3, "0.00 to 0.30"),
    ],
)
def test_an_end_that_is_not_0_is_not_written_as_0(low: float, high: float, said: str) -> None:
    one = Change(explainer="a", question="calm", check="noise", title="small noise", before=0.75, after=0.5, low=low, high=high)
    assert str(one) == f"small noise 0.75 before, 0.50 now (a change of {said.replace('-', MINUS)})"
