"""Two versions of a model: `diff` of two cards, `gate --baseline`, its formats, and the action's steps."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from commands import code
from torch import Tensor, nn

import veracity
from card_records import explainer, record
from linear_cards import contributions, labelled, linear_model, noisy
from veracity import Card
from veracity.app.comparison import cards as compared_cards
from veracity.app.runs import Runs
from veracity.cards.changes import Change, Changes, changes, paired_difference
from veracity.cards.decide import Terms
from veracity.cli.baseline import card_rows, judged
from veracity.cli.gate import Case, Verdict, junit
from veracity.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text())


def a_third(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The contributions of every third feature alone."""
    return contributions(model, inputs, targets) * (torch.arange(inputs.shape[-1]) % 3 == 0)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Card, Card]:
    """The same model and samples; the second version of `exact` knows less, `same` and `noisy` are what they were."""
    root, (x, y) = tmp_path_factory.mktemp("versions"), labelled(24)
    asked: dict[str, object] = {"budget": "1s", "samples": 24, "progress": False}
    first, second = ({"exact": one, "same": contributions, "noisy": noisy} for one in (contributions, a_third))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERACITY_STATE", str(tmp_path_factory.getbasetemp() / "state"))  # as every test has it, so that summaries count
        return tuple(  # type: ignore[return-value]
            veracity.card(linear_model(), x, y, explainers=given, folder=root / name, **asked)  # type: ignore[arg-type]
            for name, given in (("v1", first), ("v2", second))
        )


def test_a_difference_is_paired_by_sample() -> None:
    """Against a bootstrap of the ratio; unpaired, the same difference would not be seen."""
    draw = np.random.default_rng(0)
    level, room = draw.normal(0.5, 0.3, (200, 1)), draw.uniform(0.5, 1.5, (200, 1))
    before, after = (Terms(level + lost + 0.05 * draw.normal(size=level.shape), room) for lost in (0.0, -0.05))
    found = paired_difference(before, after, 0.95)
    rows = draw.integers(0, 200, (4000, 200))
    drawn = [one.gap[rows].mean(axis=(1, 2)) / one.room[rows].mean(axis=(1, 2)) for one in (before, after)]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn[1] - drawn[0], [0.025, 0.975])), abs=2e-3)
    assert found.high < 0
    assert before.standing(0.0, 0.95).low < after.standing(0.0, 0.95).high


def test_diff_says_what_got_worse(cards: tuple[Card, Card], capsys: pytest.CaptureFixture[str]) -> None:
    assert code("diff", *(card.path for card in cards)) == 0
    said = capsys.readouterr().out
    worse = said.partition("Got worse beyond chance\n")[2].partition("\n\n")[0]
    assert worse.startswith("- exact, faithful (")
    assert "\n" not in worse
    assert "Got better beyond chance: nothing." in said
    assert "24 samples, the same in both" in said
    assert "other settings now, so that more than the model may have changed: exact." in said
    before, after = ({one.check: one.value for one in card.answer("faithful", "exact").checks} for card in cards)
    assert f"deletion {before['deletion']:.2f} before, {after['deletion']:.2f} now" in worse
    rows = changes(*cards).table().set_index(["explainer", "check"])
    assert not rows.loc["same", "worse"].any()
    assert rows.loc["same", "difference"].dropna().abs().max() == 0
    assert "the largest that these samples leave possible" in said


def test_words_that_got_worse_come_first_and_lost_uses_are_named() -> None:
    use = {"key": "debugging", "title": "Debugging the model", "why": "", "questions": ["model", "faithful"], "open": [], "unfit": []}
    words = ("cannot tell yet", "holds")
    old, new = (
        Card(
            record(
                *(explainer(name, "holds", word, *["holds"] * 4) for name, word in zip("ab", said, strict=True)), uses=[{**use, "fit": fit}]
            )
        )
        for said, fit in ((words, ["b"]), (words[::-1], ["a"]))
    )
    said = Changes(old, new, (), 0.95, True, {})
    assert said.lines("word") == ["b, faithful (holds before, cannot tell yet now).", "a, faithful (cannot tell yet before, holds now)."]
    told = ["Debugging the model: no longer shown to be fit: b.", "Debugging the model: newly shown to be fit: a."]
    assert list(said.uses()) == told
    assert all(f"- {one}" in str(said) for one in told)
    assert "What it is fit for" not in str(Changes(old, old, (), 0.95, True, {}))


@pytest.mark.parametrize(("fell", "said"), [(5, True), (4, True), (3, False)])
def test_where_nearly_all_got_worse_the_model_is_named_first(cards: tuple[Card, Card], fell: int, said: bool) -> None:
    rows = [
        Change(explainer=f"e{place}", question="faithful", check="deletion", title="deletion", before=0.8, after=0.5, low=-0.4, high=high)
        for place, high in enumerate([-0.2] * fell + [0.1] * (5 - fell))
    ]
    told = str(Changes(*cards, tuple(rows), 0.95, True, {}))
    assert (f"At least {fell} of 5 explainers got worse by deletion, so look at the model first" in told) is said


def test_the_interface_compares_cards_as_diff_does(cards: tuple[Card, Card]) -> None:
    found = compared_cards(*cards)
    told = changes(*cards)
    assert [one["title"] for one in found["lists"]] == ["Got worse beyond chance", "What it is fit for"]
    assert [one["lines"] for one in found["lists"]] == [told.lines("worse"), [*told.uses()]]
    assert found["answer"].startswith(" ".join(told.models()))
    assert found["notes"] == [*told.notes()]
    rows = {(row["explainer"], row["score"]): row for row in found["rows"]}
    known = [one for one in told.rows if math.isfinite(one.before) or math.isfinite(one.after)]
    assert len(rows) == len(known) > 3
    for one in known:
        row = rows[one.explainer, one.title]
        assert (row["verdict"] == "worse", row["verdict"] == "better") == (one.worse, one.better)
    assert f"{len(told.lines('worse'))} got worse and 0 got better beyond chance" in found["answer"]


def test_the_list_of_runs_says_what_a_card_is_about(cards: tuple[Card, Card]) -> None:
    found = next(one for one in Runs(Path(cards[0].path).parent).entries() if one["path"] == "v1")
    assert (found["kind"], found["words"], found["samples"]) == ("report", "a card", 24)
    assert (found["models"], found["explainers"]) == (["model"], ["exact", "same", "noisy"])


def test_other_rules_samples_and_explainers_are_said(cards: tuple[Card, Card]) -> None:
    """A card that came without its runs is compared by the intervals that it shows."""
    old, new = cards
    questions = [one.model_copy(update={"rule": "Another one."}) if one.key == "calm" else one for one in old.record.questions]
    kept = [one for one in old.record.explainers if one.name != "noisy"]
    alone = replace(old, record=old.record.model_copy(update={"questions": questions, "explainers": kept}), path="")
    found = changes(alone, new)
    said = str(found)
    assert "these questions are not compared: calm (another rule)" in said
    assert "made with other samples (24 samples and 24 samples), or without their runs" in said
    assert "only those in both are compared (only now: noisy)" in said
    assert not any(one.paired for one in found.rows)
    paired = {(one.explainer, one.check): one for one in changes(old, new).rows}
    wide = next(one for one in found.rows if (one.explainer, one.check) == ("same", "deletion"))
    assert wide.high - wide.low > paired["same", "deletion"].high - paired["same", "deletion"].low
    assert not any(one.question == "calm" for one in found.compared)


def test_the_gate_compares_with_a_baseline(cards: tuple[Card, Card], capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (card.path for card in cards)
    against = ["gate", new, "--baseline", old, "--margin", "0.02"]
    assert code(*against, "--explainer", "same") == 0
    assert f"held: not worse than {old} by more than 0.02 (7 judged)" in capsys.readouterr().out
    assert code(*against, "--explainer", "exact", "--score", "deletion") == 1
    assert "not held: deletion not worse by 0.02 for model / exact: " in capsys.readouterr().err
    assert code(*against, "--explainer", "same", "--max-unseen", "0.01") == 1
    assert "equal samples are needed" in capsys.readouterr().err
    runs = ["gate", f"{new}/maps", "--baseline", f"{old}/maps", "--margin", "0.02", "--score", "deletion", "--score", "insertion"]
    assert code(*runs, "--explainer", "same") == 0
    assert code(*runs) == 1
    said = capsys.readouterr().err
    assert "deletion not worse by 0.02 for model / exact: " in said
    assert "insertion not worse by 0.02 for model / exact: " in said
    assert "same" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "A gate needs something to judge"),
        (("--margin", "0.1"), "add --baseline RUN"),
        (("--baseline", "{old}"), "--baseline needs --margin"),
        (("--baseline", "{old}", "--margin", "-1"), "a number above 0 such as 0.02, not -1"),
        (("--baseline", "{old}", "--margin", "0.1", "--score", "deletio"), "Did you mean 'deletion'"),
        (("--baseline", "{old}/maps", "--margin", "0.1"), "compare a card with a card"),
        (("--baseline", "{old}/scan", "--margin", "0.1"), "compare a card with a card"),
        (("--baseline", "{old}-none", "--margin", "0.1"), "There is no folder "),
        (("--require", "faithfull"), "Unknown question of a card 'faithfull'. Did you mean 'faithful'?"),
    ],
)
def test_bad_gates_are_one_sentence(
    cards: tuple[Card, Card], arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (card.path for card in cards)
    assert code("gate", new, *(one.format(old=old) for one in arguments)) == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert "\n" not in said


def test_other_samples_are_refused(cards: tuple[Card, Card], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (card.path for card in cards)
    monkeypatch.setattr("veracity.cards.changes.Side.data", property(lambda side: side.card.path))
    assert code("gate", new, "--baseline", old, "--margin", "0.1", "--format", "github") == 2
    said = capsys.readouterr()
    assert "were made with different samples (24 and 24)" in said.err
    assert said.out.startswith("::error title=veracity gate::The cards ")


def test_other_units_and_a_missing_explainer_fail(cards: tuple[Card, Card]) -> None:
    old, new = cards
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veracity.cards.changes.Side.units", property(lambda side: [0] if side.card is new else None))
        with pytest.raises(InputError, match="have different units"):
            list(card_rows(old, new, "v1", "v2"))
    without = [one for one in new.record.explainers if one.name != "same"]
    gone = list(card_rows(old, replace(new, record=new.record.model_copy(update={"explainers": without})), "v1", "v2"))
    assert {"model", "deletion", "insertion"} <= {row["score"] for row in gone if row["explainer"] == "same" and "not on v2" in row["why"]}


def test_the_formats(cards: tuple[Card, Card], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["gate", cards[1].path, "--require", "calm", "--require", "repeat>=0.9"]
    sentence = cards[1].answer("calm", "noisy").sentence
    assert code(*asked, "--format", "github") == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"::error title=veracity%3A calm::model / noisy: falls short. {sentence}" in lines
    assert code(*asked, "--format", "junit") == 1
    suite = ElementTree.fromstring(capsys.readouterr().out.encode()).find("testsuite")
    assert suite is not None
    failed = [one for one in suite if one.find("failure") is not None]
    assert (suite.get("tests"), suite.get("failures"), len(suite), len(failed)) == ("6", "2", 6, 2)
    assert {one.get("classname") for one in failed} == {"model / noisy"}
    assert failed[0].find("failure").get("message") == f"falls short. {sentence}"  # type: ignore[union-attr]


def test_a_loss_that_cannot_be_excluded_is_told_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "model": "net",
        "score": "deletion",
        "before": 0.5,
        "n": 40,
        "unseen": math.nan,
        "confidence": 0.95,
        "why": "",
        "unit": "patient",
    }
    rows = [
        {**row, "explainer": "open", "after": 0.45, "low": -0.2, "high": 0.1},
        {**row, "explainer": "lost", "after": 0.2, "low": -0.4, "high": -0.2},
        {**row, "explainer": "few", "after": 0.4, "low": math.nan, "high": math.nan},
        {**row, "explainer": "same", "after": 0.5, "low": -0.01, "high": 0.01},
    ]
    monkeypatch.setattr("veracity.cli.baseline.not_worse", lambda *_asked: [judged(one, 0.05, None) for one in rows])
    asked = ["gate", "here", "--baseline", "there", "--margin", "0.05"]
    assert code(*asked) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said[:3]] == ["not held", "not shown", "not shown"]
    assert "it is worse by at least 0.200, and the margin is 0.05" in said[0]
    assert "a loss of up to 0.200 cannot be excluded" in said[1]
    assert said[2].endswith("since there are too few patients or a single shared draw")
    assert said[3] == "3 of 4 do not pass: 1 is broken, and 2 are open, neither shown to hold nor shown to be broken."
    assert code(*asked, "--format", "github") == 1
    assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()[:3]] == ["::error", "::warning", "::warning"]


def test_junit_holds_any_text() -> None:
    odd = Case('a<b & "c"', "net\x00\ud800 / é", 'x]]>y\n<z> "&"')
    case = ElementTree.fromstring(junit(Verdict((odd,))).encode()).find("testsuite/testcase")
    assert case is not None
    assert (case.get("name"), case.get("classname")) == ('a<b & "c"', "net?? / é")
    assert case.find("failure").text == 'net?? / é: x]]>y\n<z> "&"'  # type: ignore[union-attr]


def test_the_actions_steps(cards: tuple[Card, Card], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its steps as a runner starts them, with inputs that would run code if the shell read them as text."""
    steps = ACTION["runs"]["steps"]
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in steps)
    bad = "$(touch pwned)`touch pwned`\"; touch pwned; '"
    assert code("gate", cards[1].path, "--require", "calm") == 1  # the summary, so that the steps need no torch
    capsys.readouterr()

    def run(step: dict[str, object], **inputs: str) -> subprocess.CompletedProcess[str]:
        values = {f"inputs.{name}": inputs.get(name, str(one.get("default", ""))) for name, one in ACTION["inputs"].items()}
        values["github.action_path"] = "/the/action"
        given = {name: re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: values[found[1]], text) for name, text in step["env"].items()}  # type: ignore[attr-defined]
        (tmp_path / "step.sh").write_text(str(step["run"]))
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, **path, **given}, capture_output=True, text=True, check=False)

    for name, line in (("python", 'printf "%s\\n" "$@"'), ("veracity", f'exec {shlex.quote(sys.executable)} -m veracity "$@"')):
        (tmp_path / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / name).chmod(0o755)
    assert run(steps[0]).stdout.split() == ["-m", "pip", "install", "--quiet", "--", "/the/action"]
    assert run(steps[0], install=bad).stdout.splitlines()[-1] == bad
    found = run(steps[1], run=cards[1].path, require="calm\nrepeat>=0.9\n", explainer="same\nnoisy", junit="gate.xml")
    assert found.returncode == 1, found.stderr
    assert found.stdout.count("::error title=veracity%3A ") == 2
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("tests") == "4"
    found = run(steps[1], run=cards[1].path, require=bad)
    assert found.returncode == 2
    assert "A requirement is written like equivariance>=0.9, not '$(touch pwned)" in found.stdout
    assert not (tmp_path / "pwned").exists()


def test_a_claim_is_true_or_false_and_says_why(cards: tuple[Card, Card]) -> None:
    claim = cards[0].holds("calm", explainer="noisy")
    assert not claim
    assert claim == False  # noqa: E712, as people write it
    assert cards[0].holds("calm", explainer="same")
    assert repr(claim) == f"Is it calm? noisy: falls short. {cards[0].answer('calm', 'noisy').sentence}"
    assert math.isfinite(cards[0].record.level)
