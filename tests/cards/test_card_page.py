"""The page of a card: readable without scripts, every word with its numbers, everything escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from card_records import check, explainer, record
from veracity.cards import page
from veracity.cards.questions import QUESTIONS
from veracity.cards.record import CardRecord

WORDS = ("holds", "falls short", "cannot tell yet", "does not apply")


GOOD = explainer("good", *["holds"] * 4, "cannot tell yet", "cannot tell yet")
WORSE = explainer("worse", "holds", "cannot tell yet", *["holds"] * 2, "cannot tell yet", "cannot tell yet", dominated_by={"good": 0.98})
BAD = explainer("bad", "falls short", *["holds"] * 3, "cannot tell yet", "does not apply")
CONTROL = explainer("edge_filter", "falls short", control=True)
CARD = record(GOOD, WORSE, BAD, CONTROL)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for key, value in attrs if key == "id"]
        self.targets += [(value or "")[1:] for key, value in attrs if key == "href" and (value or "").startswith("#")]


def test_every_word_leads_to_its_numbers_and_nothing_needs_a_script() -> None:
    found = Links()
    found.feed(page.html(CARD))
    assert len(found.targets) == 18
    assert set(found.targets) <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert "script" not in found.tags


def test_numbers_and_controls_are_shown_though_all_explainers_have_the_same_answer() -> None:
    same = [explainer(name, *["holds"] * 6) for name in "ab"]
    for one in same:
        one["answers"][0]["sentence"] = one["answers"][1]["sentence"] = "It is all the same."
        one["answers"][5]["checks"] = []
    html = page.html(record(*same, explainer("edge_filter", "falls short", control=True)))
    model, faithful, training = (html.split(f'id="{key}"')[1].split("</section>")[0] for key in ("model", "faithful", "training"))
    for part in (model, faithful):
        assert part.count("It is all the same.") == 1
        assert part.count("0.400 to 0.600") == 2
    assert "edge_filter" in model
    assert "<summary>Numbers" not in training


def test_the_headline_says_that_some_scores_hold() -> None:
    open_ = [explainer(name, "holds", "cannot tell yet", *["holds"] * 4) for name in "ab"]
    for one in open_:
        one["answers"][1]["checks"].append(check("holds"))
    assert page.answer(record(*open_))[0].startswith("No explainer is shown to be faithful by all scores yet. a and b hold on all other")


def test_the_page_says_rules_words_and_controls() -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.html(CARD)))
    for question in QUESTIONS:
        assert question.title in text
        assert question.rule[:60] in text
    assert all(word in text for word in WORDS)
    assert "edge_filter control" in text
    assert "dominated by good" in text
    assert "100 comparisons, each at 99.95 % confidence" in text
    assert "Deletion0.76 (0.62 to 0.82)not run" in text


def test_the_order_of_the_page() -> None:
    assert [one.name for one in page.ranked(CARD)] == ["good", "worse", "bad"]


def test_what_users_typed_is_escaped() -> None:
    bad = explainer("<script>alert(1)</script>", *["holds"] * 6)
    assert "<script>" not in page.html(record(bad, GOOD, title="<img src=x>"))
    assert "<img src=x>" not in page.html(record(bad, GOOD, title="<img src=x>"))


@pytest.mark.parametrize(
    ("explainers", "sentence"),
    [
        ((GOOD, WORSE, BAD), "The maps of bad hardly change for another class, so it is out, whatever else holds."),
        (
            (GOOD, WORSE, BAD),
            "good holds on every question that was answered (depends on the model, faithful, calm and symmetric). "
            "Still open for all: not misled and survives training.",
        ),
        ((GOOD, WORSE, BAD), "No explainer surely dominates good."),
        (
            (WORSE, explainer("full", *["holds"] * 6, dominated_by={"worse": 0.96})),
            "Even so, worse dominates full: it is not worse by more than 0.05 on any check, and better on at least one.",
        ),
        (
            (
                WORSE,
                explainer("one", *["holds"] * 6, dominated_by={"worse": 0.96}),
                explainer("two", *["holds"] * 6, dominated_by={"worse": 0.96}),
            ),
            "Of these, one and two are dominated: another one is not worse by more than 0.05 on any check, and better on at least one.",
        ),
        ((BAD,), "No explainer is left, so this card recommends none."),
        ((GOOD,), "There is one explainer, good, so nothing is compared. It holds on: depends on the model, faithful, calm and symmetric."),
        (
            (explainer("a", *[WORDS[2]] * 6), explainer("b", *[WORDS[2]] * 6)),
            "Of the 2 explainers, none is shown to depend on the model yet",
        ),
        ((GOOD, explainer("b", *["holds"] * 6)), "Among the 2 explainers none dominates another"),
        (
            (WORSE, BAD),
            "No explainer is shown to be faithful yet. worse holds on all other questions that were answered (depends on the model, calm "
            "and symmetric). Still open for all: not misled and survives training.",
        ),
    ],
)
def test_the_answer_in_sentences(explainers: tuple[dict[str, Any], ...], sentence: str) -> None:
    card = record(*explainers)
    assert sentence in " ".join(page.answer(card))
    assert sentence in page.markdown(card).replace("\n", " ")
    assert sentence in page.text(card).replace("\n", " ")


def test_a_question_that_does_not_apply_needs_no_more_samples() -> None:
    card = record(*(explainer(name, "does not apply", *["holds"] * 5) for name in "ab"))
    assert "none is shown to depend on the model" not in page.text(card)


def test_what_is_open_for_all_says_what_would_answer_it() -> None:
    same = [explainer(name, *["holds"] * 4, "cannot tell yet", "holds") for name in "ab"]
    for one in same:
        one["answers"][4]["sentence"] = "The search takes about 9 min: raise it to 10m."
    for card in (record(*same), record(same[0])):
        assert "Not misled: cannot tell yet. The search takes about 9 min: raise it to 10m." in page.text(card)
        assert "Not misled: cannot tell yet. The search takes about 9 min: raise it to 10m." in page.markdown(card)


@pytest.mark.parametrize(
    ("more", "samples", "said"),
    [
        ((40, 68), 32, "They would be about enough for 2, with a larger budget, fewer explainers, or the number of samples set."),
        (
            (40, 69),
            32,
            "They would be about enough for 1, with a larger budget, fewer explainers, or the number of samples set. 1 would need",
        ),
        ((40, None), 32, "or the number of samples set. For 1, samples alone would not do."),
        ((69, 70), 32, "68 samples of the data were not used; 2 words are open. 2 would need more than that."),
        ((40, 68), 100, None),
        ((None, None), 32, None),
    ],
)
def test_the_page_says_what_unused_samples_would_tell(more: tuple[int | None, ...], samples: int, said: str | None) -> None:
    open_ = [explainer(name, "holds", "cannot tell yet", *["holds"] * 4) for name in "ab"]
    for one, needed in zip(open_, more, strict=True):
        one["answers"][1]["checks"][0]["more"] = needed
    card = record(*open_, samples=samples)
    for text in (page.text(card), page.markdown(card), page.html(card)):
        assert said in text if said else "were not used" not in text
    stopped = {"why": "unlikely", "samples": samples, "level": 0.99, "by": []}
    assert "were not used" not in page.text(record(*({**one, "stopped": stopped} for one in open_), samples=samples))


def test_a_word_with_a_check_that_samples_will_not_tell_is_none_that_they_would_tell() -> None:
    open_ = [explainer(name, "holds", "cannot tell yet", *["holds"] * 4) for name in "ab"]
    for one in open_:
        one["answers"][1]["checks"][0]["more"] = 40
    first = open_[0]["answers"][1]["checks"]
    first.append({**first[0], "more": None})
    assert "They would be about enough for 1, with a larger" in page.text(record(*open_, samples=32))
    first[1:] = [{**first[0], "more": None, "word": word} for word in ("holds", "falls short")]  # these contradict each other
    assert "They would be about enough for 1, with a larger" in page.text(record(*open_, samples=32))
    open_[1]["answers"][1]["hint"] = "scores may contradict"
    assert "for 1 (its scores may then contradict each other), with" in page.text(record(*open_, samples=32))
    first[1:] = []
    assert "for 2 (the scores of 1 of them may then contradict each other)" in page.text(record(*open_, samples=32))


@pytest.mark.parametrize(
    ("rho", "low", "high", "said"),
    [
        (
            -0.5,
            -0.6,
            -0.2,
            "Here deletion and insertion contradict each other about 9 explainers: rank correlation "
            "\N{MINUS SIGN}0.50 (\N{MINUS SIGN}0.60 to \N{MINUS SIGN}0.20).",
        ),
        (0.8, 0.1, 0.9, "Here deletion and insertion agree about the order of 9 explainers: rank correlation 0.80 (0.10 to 0.90)."),
        (
            0.1,
            0.0,
            0.3,
            "Here deletion and insertion do not clearly agree about the order of 9 explainers: rank correlation 0.10 (0.00 to 0.30).",
        ),
        (
            0.1,
            0.01,
            0.3,
            "Here deletion and insertion agree only in part about the order of 9 explainers: rank correlation 0.10 (0.01 to 0.30).",
        ),
        (
            0.1,
            -0.3,
            0.4,
            "Here deletion and insertion do not clearly agree about the order of 9 explainers: "
            "rank correlation 0.10 (\N{MINUS SIGN}0.30 to 0.40).",
        ),
    ],
)
def test_how_alike_scores_order_the_explainers(rho: float, low: float, high: float, said: str) -> None:
    order = {"first": "deletion", "second": "insertion", "rho": rho, "low": low, "high": high, "explainers": 9}
    card = record(GOOD, WORSE, orders=[order, {**order, "rho": None, "low": None, "high": None}])
    assert page.agreement(card) == [said]
    assert said in page.html(card)


def test_one_sentence_counts_the_pairs_of_checks_that_agree() -> None:
    order = {"first": "deletion", "second": "insertion", "rho": 0.5, "low": 0.1, "high": 0.8, "explainers": 9}
    untold = {**order, "rho": 0.1, "low": -0.3, "high": 0.4}
    opposed = {**order, "second": "GEF", "rho": -0.5, "low": -0.6, "high": -0.2}
    assert page.orders_summary(record(GOOD, WORSE, orders=[order, order, untold])) == (
        "Pairs of checks that order the explainers alike: 2 of 3; in opposite ways: 0; not clear: 1."
    )
    said = page.html(record(GOOD, WORSE, orders=[order, untold, opposed, {**order, "rho": None, "low": None, "high": None}]))
    assert "alike: 1 of 3; in opposite ways: 1; not clear: 1." in said
    assert "deletion and GEF are the furthest apart" in said


def test_a_meta_evaluation_says_what_it_perturbed_and_how_often() -> None:
    meta = {"score": "deletion", "test": "ipt", "mc": 0.7, "low": 0.6, "high": 0.8, "iterations": 3}
    assert "0.70 (0.60 to 0.80), perturbed inputs, 3 iterations" in page.html(record(GOOD, WORSE, meta=[meta]))


def test_a_use_says_which_question_it_waits_for() -> None:
    waiting = {"key": "case", "title": "One case", "why": "Why.", "questions": ["model", "robust"], "fit": [], "unfit": ["bad"]}
    few = record(GOOD, WORSE, BAD, uses=[{**waiting, "open": ["good", "worse"]}])
    follows = "No explainer is shown to be fit, so use none for this yet. Still open for all: question 4 (not misled). "
    follows += "Cannot tell yet: good and worse. Not fit, since they fall short: bad (depends on the model)."
    assert [told[3] for told in page.use_sentences(few)] == [follows]
    many = record(GOOD, WORSE, BAD, uses=[{**waiting, "open": [f"e{number}" for number in range(13)]}])
    assert "Cannot tell yet: 13 explainers." in next(page.use_sentences(many))[3]


def test_those_that_are_not_fit_stand_behind_the_question_they_fall_short_on() -> None:
    """The first of the questions that count; many on one question are counted, and one that does not apply is said."""
    noisy = [explainer(f"n{number}", "holds", "holds", "falls short", "does not apply", "holds", "holds") for number in range(6)]
    both = explainer("both", "falls short", "holds", "falls short", "does not apply", "holds", "holds")
    use = {"key": "case", "title": "One case", "why": "Why.", "questions": ["model", "calm", "symmetric"], "fit": [], "open": []}
    card = record(*noisy, both, uses=[{**use, "unfit": [*(one["name"] for one in noisy), "both"]}])
    ((*_, follows),) = page.use_sentences(card)
    assert follows.endswith("Not fit, since they fall short: both (depends on the model); 6 explainers (calm). Not asked here: symmetric.")


def test_nobody_is_called_undominated_where_somebody_nearly_always_is() -> None:
    """No single one dominates it in 95 % of the resamples, but together they do in all."""
    near = {**explainer("near", *["holds"] * 6), "undominated": 0.0}
    html = page.html(record(GOOD, near))
    assert "undominated in 0 % of the resamples: in the others somebody dominates it, but nobody does in 95 %" in html
    assert "undominated in 100 % of the resamples<" in html


def test_an_open_answer_of_one_that_stopped_says_that_it_got_no_more_samples() -> None:
    stopped = {"why": "dominated", "samples": 64, "level": 0.99, "by": ["good"]}
    html = page.html(record(GOOD, {**WORSE, "stopped": stopped}))
    assert "worse on faithful. It got no more samples: dominated by good after 64 samples." in html
    assert "worse on model. It got" not in html


def test_explainers_with_the_same_reason_are_left_out_in_one_sentence() -> None:
    card = record(GOOD, left_out={"a": "a needs images.", "b": "b needs images.", "c": "it alone would take about 9 s"})
    assert page.left_out(card) == ["Left out: a and b (each needs images).", "Left out: c (it alone would take about 9 s)."]
    assert "Left out: a and b" in page.html(card)
    assert "3 explainers left out" in page.text(card)


def test_markdown_is_a_table_of_words() -> None:
    lines = page.markdown(CARD).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert rows[0] == "| `good` | holds | holds | holds | holds | cannot tell yet | cannot tell yet |"
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_the_text_fits_a_terminal_and_names_every_word() -> None:
    text = page.text(CARD)
    table = [line for line in text.splitlines() if line.startswith(("good  ", "worse  ", "bad  "))]
    assert len(table) == 3
    assert max(map(len, table)) <= 80
    assert all(word in text for word in WORDS)


def test_the_schema_is_versioned_and_survives_json() -> None:
    again = CardRecord.model_validate(json.loads(json.dumps(CARD.model_dump())))
    assert again == CARD
    with pytest.raises(ValueError, match="veracity-card/1"):
        record(GOOD, card="veracity-card/2")
    with pytest.raises(ValueError, match="word"):
        record(explainer("a", "perhaps", *["holds"] * 5))
