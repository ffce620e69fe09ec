"""A leaderboard of run folders: explainers of each model by each score, with ranks that only paired differences decide.

Explainers are ranked where they were measured side by side: by one score, on one model of one run, among explanations of one kind.
Those that `Result.differences` cannot tell apart share their ranks. Nothing is averaged over models or scores; across models, it is
counted how often nobody is ahead of an explainer that does better than chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.errors import InputError, StoreError, VeracityError, warn
from veracity.core.sentences import tell
from veracity.core.wording import count
from veracity.engine.progress import LATE, Advance, bar
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.records import printable
from veracity.engine.store.search import run_folders
from veracity.engine.store.state import Stage
from veracity.report.board import Board, boards_of, plain
from veracity.report.html import csp_hash, now, own_file, template
from veracity.report.leaderboard_text import as_latex, as_markdown, group_title, share
from veracity.results import Result
from veracity.results.pages import framed_page, save_page

LEADERBOARD = "leaderboard"
"""The name of the renderer of the page."""
LONGEST = 60
"""How many characters of a setting are shown."""
NUMBERS = ("value", "low", "high", "n", "undefined", "samples_failed")
COLUMNS = [
    "run", "model", "explainer", "score", "direction", *NUMBERS, "rank", "rank_last", "tied", "chance", "control", "frame", "state",
    "confidence",
]  # fmt: skip
"""The columns of the table."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """On how many boards an explainer leads (see `Entry.leads`), of those on which it is ranked, by score and in all."""

    explainer: str
    by_score: Mapping[str, tuple[int, int]]

    @property
    def total(self) -> tuple[int, int]:
        """The sums over all scores."""
        return sum(first for first, _ in self.by_score.values()), sum(ranked for _, ranked in self.by_score.values())


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """Boards of all models of some run folders; `notes` say what is unfinished, left out or kept apart."""

    boards: tuple[Board, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """One row per run, model, explainer and score.

        `rank` and `rank_last` are the first and the last rank that an explainer may have, and `tied` lists those that it cannot be told
        apart from; they are empty for controls and wherever nothing was compared. `chance` says if an explainer does no better than an
        explanation that has nothing to do with the model.
        """
        rows = [
            {
                **entry.row.record(),
                "run": board.run,
                "rank": entry.rank.first if entry.rank else pd.NA,
                "rank_last": entry.rank.last if entry.rank else pd.NA,
                "tied": ", ".join(entry.rank.tied) if entry.rank else "",
                "chance": entry.chance,
                "confidence": board.confidence,
            }
            for board in self.boards
            for column in board.columns
            for group in board.groups
            for name in group.names
            if (entry := column.entries.get(name)) is not None
        ]
        return pd.DataFrame(rows, columns=COLUMNS).astype({"rank": "Int64", "rank_last": "Int64"})

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """Who is first, or shares the first rank, on how many boards; explainers and scores with different settings are kept apart."""
        explainers = variants([board.explainer_specs for board in self.boards])
        scores = variants([board.score_specs for board in self.boards])
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for board, explainer_names, score_names in zip(self.boards, explainers, scores, strict=True):
            for column in board.columns:
                score = score_names[column.score]
                for name, entry in column.entries.items():
                    if entry.rank is not None:
                        mine = found.setdefault(explainer_names.get(name, name), {})
                        first, ranked = mine.get(score, (0, 0))
                        mine[score] = (first + entry.leads, ranked + 1)
        made = [Tally(explainer=name, by_score=mine) for name, mine in found.items()]
        return tuple(sorted(made, key=lambda one: -one.total[0] / one.total[1]))

    @property
    def tallied(self) -> tuple[str, ...]:
        """The scores of the tallies, in the order of the boards."""
        return tuple(dict.fromkeys(score for one in self.tallies for score in one.by_score))

    @property
    def scores(self) -> tuple[str, ...]:
        """The scores of all boards."""
        return tuple(dict.fromkeys(column.score for board in self.boards for column in board.columns))

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all boards."""
        return tuple(dict.fromkeys(board.model for board in self.boards))

    def to_markdown(self) -> str:
        """Every board as a Markdown table."""
        return as_markdown(self)

    def to_latex(self) -> str:
        """Every board as a LaTeX table, which needs no package."""
        return as_latex(self)

    def save_page(self, path: str | Path) -> Path:
        """Write the page, one HTML file that can be sorted and filtered, and opens anywhere."""
        return save_page(LEADERBOARD, self, path)

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        """The page, for a notebook."""
        return framed_page(LEADERBOARD, self)


def leaderboard(folders: str | Path | Iterable[str | Path], *, progress: bool = True) -> Leaderboard:
    """The leaderboard of all audits in some folders: run folders, or folders that hold some.

    Runs are only read. The parts of `Audits` count as audits; those of other studies do not, since their models are perturbed on purpose.
    A run that cannot be read is left out with a note.
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    if not given:
        raise InputError("A leaderboard needs a folder: give a run folder, or a folder that holds some.")
    found, absent, others = search(given)
    boards: list[Board] = []
    damaged: list[str] = []
    open_runs = list(absent)
    with bar("reading runs", 100 * len(found), progress, LATE) as advance:
        for path in found:
            move = steps(advance, 100)
            try:
                run = Result(path)
                made = boards_of(run, printable(path), move)
            except (VeracityError, OSError, ValueError, MemoryError) as error:
                damaged.append(trouble(path, error))
                continue
            finally:
                move(1, 1)
            boards += made
            open_runs += [printable(path)] if made and run.progress.stage in (Stage.RUNNING, Stage.UNFINISHED) else []
    kept, copies = without_copies(boards)
    if not kept:
        raise StoreError(nothing(given, damaged))
    for one in damaged:
        warn(tell("board.damaged", one, unread=1))
    notes = [
        tell(
            "board.unfinished", count(len(open_runs), "run"), "is" if len(open_runs) == 1 else "are", listed(open_runs), open=len(open_runs)
        ),
        *(tell("board.damaged", one, unread=1) for one in damaged),
        *(tell("board.copy", *pair, copies=1) for pair in copies),
        *apart(kept),
        *others,
    ]
    return Leaderboard(boards=tuple(kept), notes=tuple(filter(None, notes)))


def trouble(path: str, error: Exception) -> str:
    """What is wrong with a run, on one line that names it."""
    text = " ".join(str(error).split()) or type(error).__name__
    return str(printable(text if path in text else f"{path}: {text}"))


def steps(advance: Advance, whole: int) -> Callable[[int, int], None]:
    """Moves a bar by `whole` in all, by so many parts of a total."""
    done = 0

    def move(part: int, total: int) -> None:
        nonlocal done
        now = min(whole, whole * part // max(1, total))
        advance(now - done)
        done = now

    return move


def search(given: Sequence[str | Path]) -> tuple[list[str], list[str], list[str]]:
    """The audits of some folders, each once; those that several audits have not begun; and sentences on runs of other kinds.

    Raises on a folder without an audit.
    """
    audits: dict[str, str] = {}
    absent: list[str] = []
    others: list[str] = []
    kind = cache(kind_of)
    for one in given:
        if "://" in str(one):
            paths = [str(one)]
        elif not Path(one).is_dir():
            raise StoreError(f"'{one}' is not a folder: give a run folder, or a folder that holds some.")
        else:
            paths = [str(path) for path in sorted(run_folders(Path(one), lambda path: kind(str(path)) is Kind.AUDITS))]
        for several in (path for path in paths if kind(path) is Kind.AUDITS):
            parts = [f"{several}/{part}" for part in RunFolder(several).manifest(Kind.AUDITS)["parts"]]
            absent += [printable(part) for part in parts if part not in paths]
        left = [f"{printable(path)} ({found.words})" for path in paths if (found := kind(path)) and found not in (Kind.AUDIT, Kind.AUDITS)]
        others += [tell("board.other", listed(left), others=len(left))]
        mine = [path for path in paths if kind(path) in (None, Kind.AUDIT)]
        if not mine:
            why = f", only {left[0]}" if left else ""
            raise StoreError(f"There is no audit in '{one}'{why}: give a run folder, or a folder that holds some.")
        for path in mine:
            audits.setdefault(path if "://" in path else str(Path(path).resolve()), path)
    return list(audits.values()), absent, others


def kind_of(path: str) -> Kind | None:
    """What a run folder holds; None if that cannot be read."""
    try:
        return Kind(RunFolder(path).manifest(None)["kind"])
    except (VeracityError, OSError, ValueError, MemoryError):
        return None


def nothing(given: Sequence[str | Path], damaged: Sequence[str]) -> str:
    """Why there is no leaderboard."""
    where = ", ".join(f"'{one}'" for one in given)
    if damaged:
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        return f"No run in {where} can be read: {damaged[0]}{more}"
    return f"No run in {where} has scores of explanations: a leaderboard needs an audit with explainers."


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names with commas; of very many, the first."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def without_copies(boards: Sequence[Board]) -> tuple[list[Board], list[tuple[str, str, str]]]:
    """The boards that hold other measurements than all earlier ones; and of the others the model, the run and the earlier run."""
    kept: dict[Any, Board] = {}
    copies = []
    for one in boards:
        first = kept.setdefault((one.model, one.cells or one.run), one)
        if first is not one:
            copies.append((one.model, one.run, first.run))
    return list(kept.values()), copies


def apart(boards: Sequence[Board]) -> list[str]:
    """For each model of several runs, a sentence on what they differ in."""
    said = []
    for model in dict.fromkeys(board.model for board in boards):
        mine = [board for board in boards if board.model == model]
        names = dict.fromkeys(name for board in mine for name in board.depends)
        differing = [name for name in names if len({board.depends[name] for board in mine if name in board.depends}) > 1]
        words = f"They differ in {listed(differing)}" if differing else "They differ in which explainers and scores are measured"
        said.append(tell("board.apart", model, listed([board.run for board in mine]), words, boards=len(mine)))
    return said


def variants(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """For each of several tables of specs by label, a name per label; two labels have the same name only if they have the same spec.

    A label with one spec keeps its name. If there are several, the settings that differ follow it.

    >>> variants([{"ig": {"name": "ig", "steps": 20}, "lime": {}}, {"ig": {"name": "ig", "steps": 50}}])
    [{'ig': 'ig (steps=20)', 'lime': 'lime'}, {'ig': 'ig (steps=50)'}]
    """
    known: dict[str, dict[str, Any]] = {}
    for table in specs:
        for label, spec in table.items():
            known.setdefault(label, {}).setdefault(plain(spec), spec)
    names = {label: dict(zip(every, named(label, list(every.values())), strict=True)) for label, every in known.items()}
    return [{label: names[label][plain(spec)] for label, spec in table.items()} for table in specs]


def named(label: str, specs: Sequence[Any]) -> Collection[str]:
    """Names for the specs under one label, each different."""
    if len(specs) == 1:
        return [label]
    tables = [spec if isinstance(spec, Mapping) else {"": spec} for spec in specs]
    keys = dict.fromkeys(key for table in tables for key in table)
    differing = [key for key in keys if len({plain(table.get(key)) for table in tables}) > 1]
    found: dict[str, None] = {}
    for number, table in enumerate(tables, start=1):
        text = ", ".join(f"{key}={plain(table[key])}" for key in differing if key in table)
        name = f"{label} ({text if text and len(text) <= LONGEST else f'settings {number}'})"
        found[name if name not in found else f"{label} (settings {number})"] = None
    return found


def render(found: Leaderboard) -> str:
    """The page of a leaderboard: one HTML file that may run its own script alone."""
    script = own_file("leaderboard.js")
    return template("leaderboard.html.j2").render(
        title="Leaderboard",
        board=found,
        explainers=len({name for board in found.boards for group in board.groups if not group.control for name in group.names}),
        snapshot=now(),
        models={name: number for number, name in enumerate(found.models)},
        scores={name: number for number, name in enumerate(found.scores)},
        script=Markup(script),
        script_hash=csp_hash(script),
        own_style=Markup(own_file("leaderboard.css")),
        title_of_group=group_title,
        share=share,
        count_of=count,
    )
