from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from veracity import DistanceCheck
from veracity.core.errors import SpecError, StoreError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import MEASURES
from veracity.measure import l1, sorensen_dice
from veracity.studies import DistanceResult, load

TESTS = ["spot", "spot, diagonal", "disc", "noise"]


def check(folder: Path, **settings: object) -> object:
    return DistanceCheck(**{"steps": 20, "repeats": 5, **settings}).run(folder, progress=False)


def mine(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).flatten(1).abs().amax(dim=1)


def test_every_registered_measure_is_checked_in_every_test(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    result = check(tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    table = result.table()
    assert set(table["distance"]) == set(MEASURES)
    assert [list(rows["test"]) for _, rows in table.groupby("distance")] == [TESTS] * len(set(MEASURES))
    verdicts = result.verdicts().set_index("distance")
    assert verdicts.loc["sliced_wasserstein", TESTS].tolist() == ["passes"] * 4
    assert verdicts.loc["rank_distance", TESTS].tolist() == ["passes", "fails", "saturates", "passes"]
    assert verdicts.loc["wasserstein", TESTS].tolist() == ["fails", "fails", "fails", "passes"]
    assert verdicts.loc["categorical_agreement", "noise"] == "undefined"
    assert verdicts.loc["categorical_agreement", "undefined"] == 100
    assert "sliced_wasserstein" in str(result)
    assert result.failures().empty


def test_what_the_folder_holds_is_the_table_and_the_curves(tmp_path: Path) -> None:
    result = check(tmp_path, distances=["l1", "categorical_agreement"])
    kept = load(tmp_path)
    assert isinstance(kept, DistanceResult)
    pd.testing.assert_frame_equal(kept.table(), result.table())
    assert [len(one.mean) for one in kept.curves] == 2 * [20, 20, 20, 21]
    assert np.isnan(kept.curves[7].mean[1])
    assert str(kept) == str(result)


def test_a_run_can_be_repeated_and_gives_the_same_numbers(tmp_path: Path) -> None:
    first, again = (check(tmp_path, distances=["l2", "spearman"]).table().drop(columns="microseconds") for _ in range(2))
    assert first.equals(again)
    other = check(tmp_path, distances=["l2", "spearman"], seed=1).table().drop(columns="microseconds")
    assert not first.equals(other)


def test_distances_of_ones_own(tmp_path: Path) -> None:
    own = Measure(name="own", function=lambda a, b: 1.0 - mine(a, b), direction=Direction.HIGHER, range=(0.0, 1.0))
    result = check(tmp_path, distances=[mine, own, sorensen_dice.using(fraction=0.2), {"name": "sorensen_dice", "fraction": 0.3}])
    assert list(result.verdicts()["distance"]) == ["mine", "own", "sorensen_dice, fraction=0.2", "sorensen_dice, fraction=0.3"]
    values = {(one.distance, one.test): one.values for one in result.curves}
    assert values["own", "disc"].tolist() == pytest.approx(values["mine", "disc"])
    assert list(check(tmp_path, distances={"a": l1, "b": "l1"}).verdicts()["distance"]) == ["a", "b"]


def test_a_distance_that_breaks_is_a_row_with_its_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    def broken(a: Tensor, b: Tensor) -> Tensor:
        raise ValueError("no such luck")

    result = check(tmp_path, distances=[broken, "l1"])
    assert list(result.failures()["error"]) == ["ValueError: no such luck"] * 4
    assert result.verdicts().set_index("distance").loc["l1", "noise"] == "passes"
    assert "no such luck" in result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "kind", "sentence"),
    [
        ({"distances": "l1"}, SpecError, r"such as \['l1'\], not one name"),
        ({"distances": []}, SpecError, "no distance to check"),
        ({"distances": ["l1", l1]}, SpecError, "Two distances are called 'l1'"),
        ({"distances": ["l3"]}, SpecError, "Unknown measure 'l3'"),
        ({"distances": [3]}, SpecError, "a name, a measure or a function of two batches of maps, not 3"),
        ({"size": 8}, SpecError, "'size' of the distance check must be a whole number of at least 11, not 8"),
        ({"repeats": 1}, SpecError, "'repeats' of the distance check must be a whole number of at least 2"),
        ({"steps": 2.5}, SpecError, "'steps' of the distance check must be a whole number"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(settings: dict[str, object], kind: type, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=sentence):
        check(tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        check(tmp_path)
