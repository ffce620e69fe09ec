"""A card as a page, as Markdown and as text. All of them are made of the record alone, so that no model is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from veracity.cards.decide import MAY_CONTRADICT, contradictory, most_needed
from veracity.cards.questions import QUESTIONS
from veracity.cards.record import (
    AnswerRecord,
    CardRecord,
    ExplainerRecord,
    GroupRecord,
    LookRecord,
    MetaRecord,
    OrderRecord,
    TruthRecord,
    UseRecord,
)
from veracity.cards.remedies import advice_sentences
from veracity.core.wording import count as of
from veracity.core.wording import joined, number
from veracity.inputs.units import spoken
from veracity.report.html import environment

if TYPE_CHECKING:
    from jinja2 import Template

MARKS = {"holds": "●", "falls short": "✕", "cannot tell yet": "?", "does not apply": "-"}
"""The sign of each word; the word itself stands beside it."""
SHORT = {
    "model": "depends on the model",
    "faithful": "faithful",
    "calm": "calm",
    "symmetric": "symmetric",
    "robust": "not misled",
    "training": "survives training",
}
"""Each question in a few words, for the head of a column."""
CLASSES = {"holds": "holds", "falls short": "short", "cannot tell yet": "untold", "does not apply": "none"}
PERCENT = 100.0


@cache
def template() -> Template:
    """The template of the page."""
    return environment().from_string(resources.files("veracity.cards").joinpath("card.html.j2").read_text(encoding="utf-8"))


def html(card: CardRecord) -> str:
    """The page: one HTML file without scripts."""
    return template().render(
        title=card.title,
        card=card,
        explainers=ranked(card),
        groups=groups(card),
        controls=[one for one in card.explainers if one.control],
        answers=answer(card),
        measured=measured(card),
        marks=MARKS,
        classes=CLASSES,
        short=SHORT,
        shared=shared_answers(card),
        numbered=numbered(card),
        said={(one.name, said.question): said for one in card.explainers for said in one.answers},
        show=lambda value, digits=2: "" if value is None else number(value, digits),
        uses=list(use_sentences(card)),
        left_out=left_out(card),
        race=race(card),
        stop_words=stop_words,
        freedom=freedom,
        trust=agreement(card),
        orders_summary=orders_summary(card),
        scores=trusted(card),
        meta_test=meta_test,
        advice=list(advice_sentences(card)),
        subgroups=subgroup_sentences(card),
        size_of=size_of,
        counted=counted(card),
        spoken=spoken,
        people="" if card.units is None else of(card.units, card.unit or "unit"),
    )


def size_of(group: GroupRecord, unit: str = "") -> str:
    """How many samples a subgroup has, in words."""
    return of(group.samples, "sample") + ("" if group.units is None else f" of {of(group.units, unit or 'unit')}")


def counted(card: CardRecord) -> str:
    """What the card counts: samples, or the units that they belong to, such as patients."""
    return "samples" if card.units is None else of(2, card.unit or "unit").partition(" ")[2]


DECIDED = ("holds", "falls short")
"""Words that a subgroup can differ in."""


def subgroup_sentences(card: CardRecord) -> list[str]:
    """Which words differ between subgroups, or between one and all samples; which groups are too small, and if nothing differs."""
    numbers = {one.key: one.number for one in card.questions}
    whole = {(one.name, said.question): said.word for one in card.explainers for said in one.answers}
    said = []
    for by in dict.fromkeys(one.by for one in card.groups):
        groups = [one for one in card.groups if one.by == by and not one.few]
        words: dict[tuple[str, str], dict[str, AnswerRecord]] = {}
        for group in groups:
            for one in group.explainers:
                for answer_ in one.answers:
                    words.setdefault((one.name, answer_.question), {})[group.label] = answer_
        found = [text for key, told in words.items() for text in differing(key, numbers[key[1]], told, whole[key])]
        name = spoken(by)
        said += [f"By {name}, {text}" for text in found]
        if groups and not found:
            open_ = [f"{sum(told[one.label].word == 'cannot tell yet' for told in words.values())} in {one.label}" for one in groups]
            sizes = joined([f"{one.label} ({size_of(one, card.unit)})" for one in groups])
            what = f"no word contradicts another one or that of all samples, for {sizes}"
            said.append(f"By {name}, {what}. Of {len(words)} words in each, {joined(open_)} cannot be told yet.")
        few = [f"{one.label} ({size_of(one, card.unit)})" for one in card.groups if one.by == by and one.few]
        said += [f"By {name}, there are too few {counted(card)} of {joined(few)} for any word."] if few else []
    return said


def differing(key: tuple[str, str], place: int, told: Mapping[str, AnswerRecord], whole: str) -> Iterator[str]:
    """A sentence if an explainer holds on a question in one subgroup, and falls short in another one or on all samples."""
    decided = {label: one.word for label, one in told.items() if one.word in DECIDED}
    every = {**decided, **({"all samples": whole} if whole in DECIDED else {})}
    if len(set(every.values())) < len(DECIDED):
        return
    short = [label for label, word in every.items() if word == "falls short"]
    good = [label for label, word in every.items() if word == "holds"]
    why = next((told[label].sentence for label in (*short, *good) if label in told), "")
    yield f"{key[0]} falls short on question {place} ({SHORT[key[1]]}) for {joined(short)}, and holds for {joined(good)}. {why}"


WITNESSES = [check.title for question in QUESTIONS if question.witnesses for check in question.checks]
"""The titles of checks that measure the same thing in different ways."""


def agreement(card: CardRecord) -> list[str]:
    """How alike two scores of question 1 order the explainers here, in a sentence each."""
    said = []
    for one in card.orders:
        if one.rho is None or not {one.first, one.second} <= {*WITNESSES}:
            continue
        ends = "" if one.low is None or one.high is None else f" ({number(one.low, 2)} to {number(one.high, 2)})"
        who = f"{one.first} and {one.second} {verb_of(one)} {of(one.explainers, 'explainer')}"
        said.append(f"Here {who}: rank correlation {number(one.rho, 2)}{ends}.")
    return said


def orders_summary(card: CardRecord) -> str:
    """How many pairs of checks order the explainers alike, in one sentence, and which are the furthest apart."""
    known = [one for one in card.orders if one.rho is not None]
    alike = sum(one.low is not None and one.low > 0 for one in known)
    opposed = [one for one in known if one.high is not None and one.high < 0]
    open_ones = len(known) - alike - len(opposed)
    rest = f"in opposite ways: {len(opposed)}; not clear: {open_ones}."
    told = f"Pairs of checks that order the explainers alike: {alike} of {len(known)}; {rest}"
    if not opposed:
        return told
    worst = min(opposed, key=lambda one: one.rho or 0.0)
    return f"{told} {worst.first} and {worst.second} are the furthest apart: explainers that do well on one tend to do badly on the other."


STRONG = 0.8
"""Rank correlations from here on count as agreement, and smaller ones as agreement in part."""


def verb_of(one: OrderRecord) -> str:
    """What the interval of a rank correlation supports."""
    if one.high is not None and one.high < 0:
        return "contradict each other about"
    if one.low is None or one.low <= 0:
        return "do not clearly agree about the order of"
    return "agree about the order of" if one.rho is not None and one.rho >= STRONG else "agree only in part about the order of"


def trusted(card: CardRecord) -> list[tuple[str, TruthRecord | None, MetaRecord | None]]:
    """What planted truth and meta-evaluation say of each score, by its name; scores of which nothing is known are left out."""
    truth, meta = {one.score: one for one in card.truth}, {one.score: one for one in card.meta}
    return [(score, truth.get(score), meta.get(score)) for score in dict.fromkeys([*truth, *meta])]


META_TESTS = {"ipt": "perturbed inputs", "mpt": "perturbed weights", "both": "perturbed inputs and weights"}


def meta_test(meta: MetaRecord) -> str:
    """What a meta-evaluation perturbed, and how often it was repeated.

    >>> meta_test(MetaRecord(score="deletion", test="both", mc=0.7, low=0.6, high=0.8, iterations=3))
    'perturbed inputs and weights, 3 iterations'
    """
    return f"{META_TESTS.get(meta.test, meta.test)}, {of(meta.iterations, 'iteration')}"


def left_out(card: CardRecord) -> list[str]:
    """A sentence for each reason why explainers were left out."""
    reasons: dict[str, list[str]] = {}
    for name, why in card.left_out.items():
        reasons.setdefault(why.rstrip(".").removeprefix(f"{name} needs").removeprefix("it "), []).append(name)
    said = []
    for why, names in reasons.items():
        subject = "it " if len(names) == 1 else "each "
        whole = f"{subject}needs{why}" if why.startswith(" ") else f"{subject}{why}" if why.startswith("alone ") else why
        said.append(f"Left out: {joined(names)} ({whole}).")
    return said


def stop_words(one: ExplainerRecord) -> str:
    """After how many samples a race stopped measuring an explainer, and why, in a few words; "" if it did not."""
    if one.stopped is None:
        return ""
    why = {
        "out": "out",
        "dominated": f"dominated by {joined(one.stopped.by)}",
        "settled": "nothing was open",
        "unlikely": "more would hardly have changed anything",
    }[one.stopped.why]
    return f"{why} after {of(one.stopped.samples, 'sample')}"


def race(card: CardRecord) -> list[str]:
    """What each look of a race decided, in a sentence or two."""
    own = {one.name: one.stopped for one in card.explainers}
    said = []
    for look in card.race:
        named = [(name, stopped) for name in look.stopped if (stopped := own[name]) is not None]
        out, settled, unlikely = ([name for name, stopped in named if stopped.why == why] for why in ("out", "settled", "unlikely"))
        parts = [f"{joined(out)} {'is' if len(out) == 1 else 'are'} out"] if out else []
        parts += [f"{name} is dominated by {joined(stopped.by)}" for name, stopped in named if stopped.why == "dominated"]
        parts += [f"nothing is open about {joined(settled)}"] if settled else []
        parts += [f"the samples left would hardly tell more about {joined(unlikely)}"] if unlikely else []
        went = f"{'; '.join(parts)}. {'It gets' if len(named) == 1 else 'They get'} no more samples" if parts else "nobody was stopped"
        level = f"{PERCENT - PERCENT * (1.0 - look.level):.6g}"
        who = f"{of(len(look.explainers), 'explainer')}, each word at {level} %"
        said.append(f"After {look.samples} of {card.planned} samples ({who}): {went}.{paused(look)}")
    return said


def freedom(one: ExplainerRecord) -> str:
    """In how many resamples nobody dominates an explainer, in words."""
    share = f"{PERCENT * (one.undominated or 0.0):.0f} %"
    if one.dominated_by or (one.undominated or 0.0) >= HALF:
        return f"undominated in {share} of the resamples"
    return f"undominated in {share} of the resamples: in the others somebody dominates it, but nobody does in 95 %"


HALF = 0.5


def paused(look: LookRecord) -> str:
    """Which checks of the explainers that went on got no more samples, in a sentence; "" if all did."""
    who: dict[str, list[str]] = {}
    for name, titles in look.paused.items():
        for title in titles:
            who.setdefault(title, []).append(name)
    if not who:
        return ""
    parts = [f"{title} of {joined(names) if len(names) <= FEW else of(len(names), 'explainer')}" for title, names in who.items()]
    return f" Checks that got no more samples: {'; '.join(parts)}."


FEW = 3
"""Of more explainers, only the number is said."""


def ranked(card: CardRecord) -> list[ExplainerRecord]:
    """The explainers without controls: those that nobody dominates first, those that are out last."""
    own = [one for one in card.explainers if not one.control]
    return sorted(own, key=lambda one: (one.out, one.name not in card.undominated, said_of(one, "falls short"), -said_of(one, "holds")))


def groups(card: CardRecord) -> list[tuple[str, list[ExplainerRecord]]]:
    """The explainers under headings: those that no other one surely dominates, those that another one dominates, and those that are out."""
    first, second, third = "Not surely dominated", "Dominated by another explainer", "Out: they fall short on question 0"
    places: dict[str, list[ExplainerRecord]] = {first: [], second: [], third: []}
    for one in ranked(card):
        places[third if one.out else first if one.name in card.undominated else second].append(one)
    return [(heading, members) for heading, members in places.items() if members]


def said_of(one: ExplainerRecord, word: str) -> int:
    """On how many questions an explainer has a word."""
    return sum(said.word == word for said in one.answers)


def shared_answers(card: CardRecord) -> dict[str, AnswerRecord]:
    """The questions to which all explainers have the same answer, in the same words."""
    own = [one for one in card.explainers if not one.control]
    found = {}
    for place, question in enumerate(card.questions):
        said = [one.answers[place] for one in own]
        if len({one.sentence for one in said}) == 1 and len(own) > 1:
            found[question.key] = said[0]
    return found


def numbered(card: CardRecord) -> set[str]:
    """The questions of which at least one explainer has a number."""
    said = [answer for one in card.explainers if not one.control for answer in one.answers]
    return {one.question for one in said if any(check.value is not None for check in one.checks)}


def answer(card: CardRecord) -> list[str]:
    """What the card says, in a few sentences."""
    own = [one for one in card.explainers if not one.control]
    out, inside = [one.name for one in own if one.out], [one for one in own if not one.out]
    asked = [one for one in inside if one.answers[0].word != "cannot tell yet"]
    said = []
    if out:
        said.append(why_out([one for one in own if one.out]))
    if not inside:
        return [*said, "No explainer is left, so this card recommends none."]
    the = "the other" if out else "the"
    if not asked:
        said.append(f"Of {the} {of(len(inside), 'explainer')}, none is shown to depend on the model yet: measure more samples.")
    if len(own) == 1:
        return [*said, *alone(own[0])]
    best = card.undominated
    if len(inside) == 1:
        said.append(f"{inside[0].name} is the only one that is left.")
    elif not best:
        said.append("Each of them is dominated by another one, in a circle.")
    elif len(best) == len(inside):
        many = f"{the} {of(len(inside), 'explainer')}"
        said.append(
            f"Among {many} none dominates another: each is worse than the others on some check, or within {number(card.margin, 2)} of them."
        )
    else:
        said.append(f"No explainer surely dominates {joined(best)}.")
    return [*held_by(card, inside), *said]


KEPT = {"weights": "with random weights", "class": "for another class"}
"""What a check of question 0 does."""


def why_out(out: Sequence[ExplainerRecord]) -> str:
    """Which explainers are out, and what hardly changes their maps."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in out:
        groups.setdefault(tuple(KEPT[check.check] for check in one.answers[0].checks if check.word == "falls short"), []).append(one.name)
    who = {kept: "it is" if len(names) == 1 else "they are" for kept, names in groups.items()}
    return " ".join(
        f"The maps of {joined(names)} hardly change {' and '.join(kept)}, so {who[kept]} out, whatever else holds."
        for kept, names in groups.items()
    )


def held_by(card: CardRecord, inside: Sequence[ExplainerRecord]) -> list[str]:
    """Who holds on every question that was answered for anybody, and which questions are open for all."""
    said = [[one.answers[place].word for one in inside] for place in range(len(card.questions))]
    answered = [place for place, words in enumerate(said) if {"holds", "falls short"} & set(words)]
    open_ = [place for place, words in enumerate(said) if place not in answered and "cannot tell yet" in words]
    words = {one.name: {one.answers[place].word for place in answered} for one in inside}
    full = [name for name, own in words.items() if "holds" in own and own <= {"holds", "does not apply"}]
    names = f"{joined(full)} {'holds' if len(full) == 1 else 'hold'}" if full else "No explainer holds"
    faithful = next((place for place in open_ if card.questions[place].key == "faithful"), None)
    rest = [place for place in open_ if place != faithful]
    partly = faithful is not None and any(check.word == "holds" for one in inside for check in one.answers[faithful].checks)
    lead = "" if faithful is None else f"No explainer is shown to be faithful{' by all scores' if partly else ''} yet. "
    which = "all other questions that were answered" if lead else "every question that was answered"
    still = f" Still open for all: {joined(named(card, rest))}." if rest else ""
    if not answered:
        return [lead.strip()] if lead else []
    beaten = [one for one in inside if one.name in full and one.dominated_by]
    return [
        f"{lead}{names} on {which} ({joined(named(card, answered))}).{still}",
        *([beaten_sentence(beaten, card.margin)] if beaten else []),
    ]


def named(card: CardRecord, places: Sequence[int]) -> list[str]:
    """The short names of questions."""
    return [SHORT[card.questions[place].key] for place in places]


def beaten_sentence(beaten: Sequence[ExplainerRecord], margin: float) -> str:
    """Which of the explainers that hold are dominated, by whom if there is one of them, and what that means."""
    if len(beaten) > 1:
        names = joined([one.name for one in beaten])
        worse = f"not worse by more than {number(margin, 2)} on any check"
        return f"Of these, {names} are dominated: another one is {worse}, and better on at least one."
    who, many = list(beaten[0].dominated_by), len(beaten[0].dominated_by) > 1
    return (
        f"Even so, {joined(who)} {'dominate' if many else 'dominates'} {beaten[0].name}: {'they are' if many else 'it is'} not worse by "
        f"more than {number(margin, 2)} on any check, and better on at least one."
    )


def alone(one: ExplainerRecord) -> list[str]:
    """What can be said of a single explainer."""
    held = [SHORT[said.question] for said in one.answers if said.word == "holds"]
    short = [SHORT[said.question] for said in one.answers if said.word == "falls short"]
    said = [f"There is one explainer, {one.name}, so nothing is compared."]
    said += [f"It holds on: {joined(held)}."] if held else []
    return said + ([f"It falls short on: {joined(short)}."] if short else [])


MOST_NAMED, NAMED = 12, 5
"""Of more explainers that cannot be told to be fit, and that fall short on the same question, only the number is said."""
NOT_ASKED = "does not apply"


def use_sentences(card: CardRecord) -> Iterator[tuple[str, str, str, str]]:
    """The title of each use, why its questions count, which they are, and what follows."""
    own = [one for one in card.explainers if not one.control]
    words = {key: [said.word for one in own for said in one.answers if said.question == key] for key in SHORT}
    for use in card.uses:
        waiting = [
            f"question {one.number} ({SHORT[one.key]})" for one in card.questions if one.key in use.questions and never(words[one.key])
        ]
        parts = [f"Fit: {joined(use.fit)}." if use.fit else "No explainer is shown to be fit, so use none for this yet."]
        parts += [f"Still open for all: {joined(waiting)}."] if waiting and not use.fit else []
        many = len(use.open) > MOST_NAMED
        parts += [f"Cannot tell yet: {f'{len(use.open)} explainers' if many else joined(use.open)}."] if use.open else []
        parts += [f"Not fit, since they fall short: {unfit(card, use)}."] if use.unfit else []
        parts += (
            [f"Not asked here: {joined(idle)}."]
            if (idle := [SHORT[key] for key in use.questions if set(words[key]) == {NOT_ASKED}])
            else []
        )
        yield use.title, use.why, joined([SHORT[key] for key in use.questions]), " ".join(parts)


def unfit(card: CardRecord, use: UseRecord) -> str:
    """Which explainers are not fit for a use, by the first of its questions that they fall short on."""
    said = {one.name: {answer.question for answer in one.answers if answer.word == "falls short"} for one in card.explainers}
    groups: dict[str, list[str]] = {}
    for name in use.unfit:
        groups.setdefault(next(key for key in use.questions if key in said[name]), []).append(name)
    return "; ".join(
        f"{joined(groups[key]) if len(groups[key]) <= NAMED else f'{len(groups[key])} explainers'} ({SHORT[key]})"
        for key in use.questions
        if key in groups
    )


def never(words: Sequence[str]) -> bool:
    """Whether a question is open for everybody."""
    return bool(words) and set(words) <= {"cannot tell yet", "does not apply"} and "cannot tell yet" in words


def measured(card: CardRecord) -> str:
    """What was measured, how sure the words are, and what the samples that were not used would tell."""
    return " ".join(filter(None, [f"{'; '.join(facts(card))}.", unused(card)]))


def facts(card: CardRecord) -> list[str]:
    """What was measured, and how sure the words are."""
    every = f"all {card.samples}" if card.samples == card.available else f"{card.samples} of {card.available}"
    people = "" if card.units is None else f", of {of(card.units, card.unit or 'unit')}"
    said = [f"{every} samples{people}" + ("" if card.accuracy is None else f", accuracy {number(card.accuracy, 2)} on them")]
    chance = PERCENT * (1.0 - card.level)
    looks = " (more at earlier looks)" if card.race else ""
    said.append(
        f"{card.comparisons} comparisons, each at {PERCENT - chance:.6g} % confidence{looks}, so that all words of the card together are "
        f"right with about {PERCENT * card.confidence:g} % confidence"
    )
    fewer = sum(one.stopped is not None and one.stopped.samples < card.samples for one in card.explainers)
    others = [one for one in card.explainers if one.stopped is None]
    checks = sum(check.samples is not None for one in others for answer in one.answers for check in answer.checks)
    who = [*([of(fewer, "explainer")] if fewer else []), *([of(checks, "check") + (" of others" if fewer else "")] if checks else [])]
    said += [f"{' and '.join(who)} stopped after fewer samples"] if who else []
    said.append(f"time budget {card.budget}")
    said += [f"{of(len(card.left_out), 'explainer')} left out, named in the notes"] if card.left_out else []
    return said


def unused(card: CardRecord) -> str:
    """What the samples that were not used would tell, and how to use them; "" if all were used or nothing is open."""
    left = card.available - card.samples
    waiting = [one for one in card.explainers if not one.control and one.stopped is None]  # a race says itself why it stopped others
    open_ = [answer for one in waiting for answer in one.answers if answer.word == "cannot tell yet" and not rests(answer)]
    agreeing = [answer for answer in open_ if not contradictory(check.word for check in answer.checks)]
    needs = [(answer, most_needed(check.more for check in answer.checks if check.word == answer.word)) for answer in agreeing]
    needed = [most for _, most in needs if most is not None]
    told = sum(most <= left for most in needed)
    leaning = sum(answer.hint == MAY_CONTRADICT for answer, most in needs if most is not None and most <= left)
    if not left or not needed:
        return ""
    whose = "its scores" if told == 1 else f"the scores of {leaning} of them"
    doubt = f" ({whose} may then contradict each other)" if leaning else ""
    others = len(open_) - len(needed)
    said = [f"{left:,} samples of the data were not used; {of(len(open_), 'word')} {'is' if len(open_) == 1 else 'are'} open."]
    how = "with a larger budget, fewer explainers, or the number of samples set"
    said += [f"They would be about enough for {told}{doubt}, {how}."] if told else []
    said += [f"{len(needed) - told} would need more than that."] if told < len(needed) else []
    said += [f"For {others}, samples alone would not do."] if others else []
    return " ".join(said)


def rests(answer: AnswerRecord) -> bool:
    """Whether a race gave no more samples to a check that an answer waits for."""
    return any(check.word == answer.word and check.samples is not None for check in answer.checks)


def markdown(card: CardRecord) -> str:
    """The card for a README or a model card: the answer, one table of words, the uses, and the rules."""
    head = ["explainer", *(f"{one.number} {SHORT[one.key]}" for one in card.questions)]
    rows = [[f"`{one.name}`", *(said.word for said in one.answers)] for one in ranked(card)]
    lines = [f"## {card.title}", "", *answer(card), ""]
    lines += [line(head), line(["---"] * len(head)), *map(line, rows), ""]
    lines += [f"- **{title}** ({questions}): {follows}" for title, _, questions, follows in use_sentences(card)]
    lines += ["", *subgroup_sentences(card)] if card.groups else []
    lines += ["", *(f"- {told}" for told in advice_sentences(card))] if card.advice is not None else []
    lines += ["", *waiting] if (waiting := open_for_all(card)) else []
    lines += ["", *(f"{one.number}. {one.title} {one.rule}" for one in card.questions), ""]
    lines += [f"Note: {note}" for note in (*card.notes, *race(card), *left_out(card))]
    lines.append(f"Measured by veracity: {measured(card)} Schema {card.card}.")
    return "\n".join(lines) + "\n"


def line(cells: Sequence[str]) -> str:
    """One row of a table in Markdown."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def text(card: CardRecord) -> str:
    """The card for a terminal."""
    rows = ranked(card)
    wide = max((len(one.name) for one in rows), default=8)
    lines = [card.title, "", *answer(card), "", f"{'':{wide}}  {'  '.join(f'{one.number:^3}' for one in card.questions)}"]
    lines += [f"{one.name:{wide}}  {'  '.join(f'{MARKS[said.word]:^3}' for said in one.answers)}" for one in rows]
    lines += ["", "  ".join(f"{mark} {word}" for word, mark in MARKS.items()), ""]
    lines += [f"{one.number}  {one.title}" for one in card.questions]
    lines += ["", *(f"{title}: {follows}" for title, _, _, follows in use_sentences(card))]
    lines += ["", *subgroup_sentences(card)] if card.groups else []
    lines += ["", *(f"advice: {told}" for told in advice_sentences(card))] if card.advice is not None else []
    lines += ["", *waiting] if (waiting := open_for_all(card)) else []
    lines += ["", *(f"note: {note}" for note in (*card.notes, *race(card), *left_out(card)))]
    return "\n".join([*lines, measured(card)])


def open_for_all(card: CardRecord) -> list[str]:
    """Why questions are open for all explainers alike, and what would answer them."""
    own = [one for one in card.explainers if not one.control]
    said = own[0].answers if len(own) == 1 else shared_answers(card).values()
    return [f"{SHORT[one.question].capitalize()}: {one.word}. {one.sentence}" for one in said if one.word == "cannot tell yet"]
