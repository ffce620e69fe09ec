"""Answers of language models in a run folder: every batch of answers is one record, written whole and checked when it is read.

    answers/KEY.SUM.json    {"about": {...}, "answers": {hash of the prompt and the model: {...}}, "used": [...]}

`about` names the explainer that asked, or that only `used` the answers to questions of another one.
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
        self.users: dict[str, set[str]] = {}
        """The answers that each explainer uses, by its key."""
        self.seen: set[str] = set()

    def get(self, keys: Sequence[str], user: str = "") -> dict[str, Mapping[str, Any]]:
        """The answers that are known; the folder is listed only if some are not. Written answers of others are noted as used, too."""
        if any(key not in self.known for key in keys):
            self.read()
        found = {key: self.known[key] for key in keys if key in self.known}
        used = sorted(key for key, one in found.items() if "problem" in one and key not in self.users.get(user, ()))
        if user and used:
            self.folder.write_table(ANSWERS, fingerprint.of_json([user, used]), {"about": {"explainer": user}, "answers": {}, "used": used})
            self.users.setdefault(user, set()).update(used)
        return found

    def read(self) -> None:
        """Read the records that were not read yet."""
        for about, answers, used in self.new_records():
            self.known |= answers
            self.users.setdefault(str(about.get("explainer")), set()).update(answers, used)

    def put(self, about: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write new answers as one record."""
        key = fingerprint.of_json([about, sorted(answers)])
        self.folder.write_table(ANSWERS, key, {"about": about, "answers": answers})
        self.seen.add(key)
        self.known |= answers
        self.users.setdefault(str(about.get("explainer")), set()).update(answers)

    def new_records(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]], list[str]]]:
        """What each record that was not read yet is about, its answers, and those used of others; a damaged one counts as not there."""
        for key in sorted(self.folder.records.keys(ANSWERS) - self.seen):
            self.seen.add(key)
            with suppress(Damaged):
                table = self.folder.read_table(ANSWERS, key) or {}
                about, answers, used = table.get("about"), table.get("answers"), table.get("used", [])
                if isinstance(about, dict) and isinstance(answers, dict) and isinstance(used, list):
                    yield about, {key: one for key, one in answers.items() if isinstance(one, dict)}, [str(key) for key in used]


def answer_notes(folder: RunFolder, explainers: Mapping[str, Explainer]) -> list[dict[str, str]]:
    """How many answers of each explainer could not be used, as notes for the manifest; none for explainers without a language model."""
    asking = {label: one for label, one in explainers.items() if one.contrasts}
    stored, notes = StoredAnswers(folder), []
    if asking:
        stored.read()
    for label, explainer in asking.items():
        used = {key for one in with_all_inside(explainer) for key in stored.users.get(fingerprint.of_json(one.spec()), ())}
        counts = Counter(str(stored.known[key].get("problem", "")) for key in used if key in stored.known)
        undefined = sum(counts[problem] for problem in PROBLEMS)
        if undefined:
            why = ", ".join(words.format(counts[problem]) for problem, words in PROBLEMS.items() if counts[problem])
            text = f"{undefined} of {counts.total()} different answers of the language model are undefined: {why}."
            notes.append({"model": "", "explainer": label, "text": text})
    return notes
