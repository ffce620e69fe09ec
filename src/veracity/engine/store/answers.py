"""Answers of language models in a run folder: every batch of answers is one record, written whole and checked when it is read.

    answers/KEY.SUM.json    {"about": {...}, "answers": {hash of the prompt and the model: {...}}}

What was answered before a run was stopped is read again, so a resumed run asks only what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from veracity.core import fingerprint
from veracity.core.explainers import Explainer, with_all_inside
from veracity.engine.store.folder import RunFolder
from veracity.engine.store.records import Damaged

ANSWERS = "answers"
PROBLEMS = {
    "unparsable": "{} no JSON with a list of words",
    "echo": "{} repeated the form that was shown",
    "foreign": "{} named words that are not in the text",
}
"""Why answers are undefined, as parts of a sentence with their number."""


class StoredAnswers:
    """Answers by key, in memory and in a folder. Records that other processes write meanwhile are found, too."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.known: dict[str, Mapping[str, Any]] = {}
        self.seen: set[str] = set()

    def get(self, keys: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """The answers that are known; the folder is listed only if some are not."""
        if any(key not in self.known for key in keys):
            for _, answers in self.new_records():
                self.known |= answers
        return {key: self.known[key] for key in keys if key in self.known}

    def put(self, about: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write new answers as one record."""
        key = fingerprint.of_json([about, sorted(answers)])
        self.folder.write_table(ANSWERS, key, {"about": about, "answers": answers})
        self.seen.add(key)
        self.known |= answers

    def new_records(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]]:
        """What each record that was not read yet is about, and its answers; a damaged one counts as not there."""
        for key in sorted(self.folder.records.keys(ANSWERS) - self.seen):
            self.seen.add(key)
            with suppress(Damaged):
                table = self.folder.read_table(ANSWERS, key) or {}
                about, answers = table.get("about"), table.get("answers")
                if isinstance(about, dict) and isinstance(answers, dict):
                    yield about, {key: one for key, one in answers.items() if isinstance(one, dict)}


def answer_notes(folder: RunFolder, explainers: Mapping[str, Explainer]) -> list[dict[str, str]]:
    """How many answers of each explainer could not be used, as notes for the manifest; none for explainers that ask nobody."""
    asking: dict[str, set[str]] = {}
    for label, explainer in explainers.items():
        for one in with_all_inside(explainer) if explainer.contrasts else ():
            asking.setdefault(fingerprint.of_json(one.spec()), set()).add(label)
    found: dict[str, dict[str, str]] = {label: {} for label, explainer in explainers.items() if explainer.contrasts}
    for about, answers in StoredAnswers(folder).new_records() if asking else ():
        for label in asking.get(str(about.get("explainer")), ()):
            found[label] |= {key: str(one.get("problem", "")) for key, one in answers.items()}
    notes = []
    for label, problems in found.items():
        counts = Counter(problem for problem in problems.values() if problem in PROBLEMS)
        if counts:
            why = ", ".join(words.format(counts[problem]) for problem, words in PROBLEMS.items() if counts[problem])
            text = f"{counts.total()} of {len(problems)} different answers of the language model are undefined: {why}."
            notes.append({"model": "", "explainer": label, "text": text})
    return notes
