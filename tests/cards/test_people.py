"""Patients, subgroups and single cases, on a card and in an audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import veracity
from card_records import explainer, record
from linear_cards import contributions, edges, labelled, linear_model
from veracity import Audit
from veracity.cards.card import CardStudy, accuracy_on
from veracity.cards.case import Cases, CaseValues, Place, kept, percentile, place_of, sentences
from veracity.cards.changes import paired_difference
from veracity.cards.decide import Terms
from veracity.cards.result import Card
from veracity.cli import audit_file
from veracity.core.errors import InputError, SpecError
from veracity.engine.store import RunFolder
from veracity.studies.result import load

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
SIZE = 48


def half_wrong(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Exact where the first feature is positive; elsewhere a filter of the input that ignores the model."""
    return torch.where(inputs[:, :1] > 0, contributions(model, inputs, targets), edges(model, inputs, targets))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people") / "card"


@pytest.fixture(scope="module")
def card(folder: Path) -> Card:
    """It would be a race, but for its subgroups."""
    x, y = labelled(SIZE)
    people: dict[str, Any] = {"units": {"patient": np.arange(SIZE) // 2}, "by": {"side": side(x), "site": ["A"] * 43 + ["B"] * 5}}
    named = {"exact": contributions, "half": half_wrong}
    given: dict[str, Any] = {"explainers": named, "samples": SIZE, "budget": "1s", "progress": False, "folder": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veracity.cards.racing.LOOKS", (32,))
        return veracity.card(linear_model(), x, y, **given, **people)


def side(x: Tensor) -> list[str]:
    return ["right" if value > 0 else "left" for value in x[:, 0].tolist()]


def test_the_card_says_how_many_patients_there_are(card: Card) -> None:
    assert (card.record.units, card.record.unit) == (24, "patient")
    assert "all 48 samples, of 24 patients" in str(card)


def test_a_word_that_differs_is_named_with_its_subgroup(card: Card) -> None:
    text = "By side, half falls short on question 0 (depends on the model) for left, and holds for right"
    assert text in str(card)
    assert text in card._repr_html_()
    table = card.table(by="side").set_index(["explainer", "question", "group"])["word"]
    assert (table["half", "model", "left"], table["half", "model", "right"]) == ("falls short", "holds")
    assert [table["exact", "model", group] for group in ("left", "right")] == ["holds", "holds"]
    assert "By site, there are too few patients of B (5 samples of 3 patients) for any word." in str(card)
    numbers = card.numbers(by="side")
    left = numbers[(numbers["group"] == "left") & (numbers["explainer"] == "exact") & (numbers["check"] == "deletion")]
    assert left["n"].item() == side(labelled(SIZE)[0]).count("left")
    with pytest.raises(SpecError, match="grouping of this card"):
        card.table(by="sex")
    renamed = [one.model_copy(update={"by": "side_of_body"}) for one in card.record.groups if one.by == "side"]
    other = replace(card, record=card.record.model_copy(update={"groups": renamed}))
    assert len(other.table(by="side_of_body")) == len(card.table(by="side"))
    assert text.replace("side", "side of body") in str(other)
    with pytest.raises(InputError, match=r"This card has no subgroups: make it with by=\{'sex': labels\}"):
        replace(card, record=card.record.model_copy(update={"groups": []})).table(by="sex")


def test_subgroups_have_all_samples(card: Card) -> None:
    assert not card.record.race
    assert "Racing is off, because the words of subgroups need all samples" in str(card)


def test_subgroups_are_a_family_of_their_own(card: Card) -> None:
    record = card.record
    assert record.group_level is not None
    assert record.group_level == pytest.approx(1 - 0.05 / record.group_comparisons)
    assert record.level == pytest.approx(1 - 0.05 / record.comparisons)


def test_a_case_among_the_audited_ones(card: Card, folder: Path) -> None:
    x, _ = labelled(SIZE)
    bad = next(place for place, name in enumerate(side(x)) if name == "left")
    case = card.case(bad)
    table = case.table().set_index(["explainer", "check"])
    numbers = card.numbers().set_index(["explainer", "check"])
    assert table.loc[("half", "deletion"), "mean"] == pytest.approx(numbers.loc[("half", "deletion"), "value"], abs=1e-3)
    assert table.loc[("half", "deletion"), "percentile"] < 60
    assert case.said["exact"].startswith("can be trusted as much as for the average of 48 cases")
    weak = {place for place in range(SIZE) if "less than on average" in card.case(place).said["half"]}
    assert weak
    assert all(side(x)[place] == "left" for place in weak)
    assert card.case(x[bad]).sample == card.case(x[bad : bad + 1]).sample == bad
    assert str(load(folder).case(bad)) == str(case)
    assert "<table>" in case._repr_html_()
    assert percentile(np.array([3.0, 1.0, 2.0, np.nan]), 3.0) == pytest.approx(100 * 2.5 / 3)


def test_a_case_says_what_is_not_known_of_an_explainer() -> None:
    place = Place("e", "faithful", "deletion", 0.5, 50.0, 0.1, 0.5, weak=False)
    rows = [CaseValues(explainer="e", question="faithful", check="deletion", title="deletion", line=0.1, values=[0.5] * 20)]
    cases = Cases(samples=list(range(20)), prints=[], rows=rows)
    for words, said in (
        (("holds", "cannot tell yet"), "Nobody can tell yet whether it is faithful."),
        (("cannot tell yet", "cannot tell yet"), "Nobody can tell yet whether it depends on the model and is faithful."),
        (("holds", "holds"), "can be trusted as much as for the average of 20 cases."),
    ):
        found = sentences(record(explainer("e", *words, *["holds"] * 4)), cases, [place], {})["e"]
        assert found.startswith("can be trusted as much as for the average")
        assert found.endswith(said)
    out = sentences(record(explainer("e", "falls short", "cannot tell yet", *["holds"] * 4)), cases, [place], {})["e"]
    assert "Nobody can tell yet" not in out, "it is out anyhow"


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (99, "Sample 99 is not one of the 48"),
        (-1, "Samples are counted from 0"),
        ("a", "A case is the number"),
        (torch.zeros(3, 16), "A case is one sample, and this is 3"),
        (torch.zeros(5), r"The case has the shape \(5,\), and one of this card has \(16,\) or \(1, 16\)"),
        (torch.zeros(16, dtype=torch.long), "The case holds int64"),
        (torch.full((16,), torch.nan), "not finite"),
    ],
)
def test_what_is_no_case(card: Card, which: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        card.case(which)


def test_a_new_case(card: Card, folder: Path) -> None:
    x, _ = labelled(SIZE)
    bad = side(x).index("left")
    near = x[bad] * (1 + 1e-6)
    new, old = card.case(near), card.case(bad)
    assert new.sample is None
    assert str(new).startswith("A new case among 48 audited cases\nThe model predicts class ")
    values = [one.table().set_index(["explainer", "check"]) for one in (new, old)]
    for name in ("exact", "half"):  # the same copies of the model, so that nothing is drawn anew
        assert values[0].loc[(name, "random weights"), "value"] == pytest.approx(values[1].loc[(name, "random weights"), "value"], abs=1e-3)
    known = values[0].dropna()
    assert len(known) > 10
    assert (known["percentile_low"] <= known["percentile"]).all()
    assert (known["percentile"] <= known["percentile_high"]).all()
    assert torch.allclose(new.maps["half"], edges(linear_model(), x[bad : bad + 1], torch.zeros(1))[0], atol=1e-4)
    with pytest.raises(InputError, match="This is not the model 'model'"):
        card.case(near, model=linear_model(1))
    read = load(folder)
    with pytest.raises(InputError, match=r"pass it, as in card.case\(x, model=net\)"):
        read.case(near)
    with pytest.raises(InputError, match="No explainer of this card can be made from its folder"):
        read.case(near, model=linear_model())


def test_a_comparison_counts_patients(card: Card) -> None:
    said = str(card.changes_since(card))
    assert "48 samples of 24 patients, the same in both" in said
    gap = np.arange(24.0)[:, None]
    few = Terms(gap, np.ones_like(gap), units=np.arange(24) // 4)
    assert np.isnan(paired_difference(few, few, 0.95).low)  # 24 samples, but six patients
    assert np.isfinite(paired_difference(replace(few, units=None), replace(few, units=None), 0.95).low)


def test_a_card_that_is_made_again_without_groups_says_so(card: Card, folder: Path) -> None:
    x, y = labelled(SIZE)
    again = CardStudy(audit=Audit(models={"model": linear_model()}, inputs=x, targets=y))
    said = "The card before this one had subgroups by side and site. It was made again without by=..., so they are gone."
    assert again.dropped_groups(RunFolder(str(folder))) == [said]
    assert replace(again, audit=replace(again.audit, by=side(x))).dropped_groups(RunFolder(str(folder))) == []


def test_the_accuracy_is_that_of_the_first_samples() -> None:
    x, y = labelled(SIZE)
    y = torch.where(torch.arange(SIZE) < 12, (y + 1) % 4, y)
    assert accuracy_on(Audit(models={"model": linear_model()}, inputs=x, targets=y), "model", 16) == pytest.approx(4 / 16)


def test_units_reuse_all_values_of_an_audit(tmp_path: Path) -> None:
    x, y = labelled(24)
    audit: dict[str, Any] = {"models": linear_model(), "inputs": x, "targets": y, "explainers": ["saliency"], "scores": ["deletion"]}
    people: dict[str, Any] = {"units": {"patient": np.arange(24) // 6}, "by": {"sex": ["f", "m"] * 12}}
    plain = Audit(**audit).run(tmp_path, progress=False)
    before = plain.table()
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    grouped = Audit(**audit, **people).run(tmp_path, progress=False)
    assert written
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == written
    assert [cell["key"] for cell in grouped.manifest["cells"]] == [cell["key"] for cell in plain.manifest["cells"]]
    table = grouped.table()
    assert table["value"].tolist() == before["value"].tolist()
    assert table["units"].tolist() == [4] * len(table)
    assert "units" not in before
    assert "The 24 samples belong to 4 patients: the intervals are about other patients." in str(grouped)
    by = grouped.table(by="sex")
    assert by["group"].unique().tolist() == ["f", "m"]
    own = by[(by["group"] == "m") & (by["explainer"] == "saliency")]
    values = grouped.samples("deletion").query("explainer == 'saliency'")["value"].to_numpy()
    assert own["value"].item() == pytest.approx(values[1::2].mean())
    small = grouped.table(by=["a"] * 20 + ["b"] * 4)
    assert set(small["note"]) == {"too few patients"}
    small = plain.table(by=["a"] * 20 + ["b"] * 4)
    assert [set(small.loc[small["group"] == group, "note"]) for group in "ab"] == [{""}, {"too few samples"}]
    with pytest.raises(InputError, match="for 24 samples"):
        grouped.table(by=["a"])


def test_labels_in_an_audit_file(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,sex\np,f\nq,m\np,\n")
    (tmp_path / "ids.txt").write_text("p\nq\np\n")
    found = audit_file.people({"patient": {"file": "people.csv", "column": "id"}}, tmp_path, "units")
    assert list(found["patient"]) == audit_file.people("ids.txt", tmp_path, "units") == ["p", "q", "p"]
    assert audit_file.people("patient_id", tmp_path, "units") == "patient_id"
    (tmp_path / "sites.csv").write_text("site,id\nNA,p\nNone,q\n,p\n")
    sites = audit_file.people({"file": "sites.csv", "column": "site"}, tmp_path, "by").tolist()
    assert (sites[:2], sites[2] != sites[2]) == (["NA", "None"], True)
    with pytest.raises(SpecError, match="Did you mean 'id'"):
        audit_file.people({"file": "people.csv", "column": "idd"}, tmp_path, "units")
    with pytest.raises(InputError, match="cannot be read"):
        audit_file.people("none.txt", tmp_path, "units")


def test_a_new_case_that_equals_the_audited_ones_lies_in_their_middle() -> None:
    """Values are kept to four digits: one that was not rounded alike lay above or below all of its equals."""
    row = CaseValues(explainer="saliency", question="calm", check="a", title="a", line=0.99, values=[0.6667] * 20)
    cases = Cases(samples=list(range(20)), prints=[""] * 20, rows=[row])
    place = place_of(row, kept(2 / 3), cases, own=False)
    assert (place.percentile, place.weak, place.low, place.high) == (50.0, False, 0.0, 100.0)
