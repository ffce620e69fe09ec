"""What a reader must know of a run besides its numbers: which samples are left out, where the ball ends, what could not be searched."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

from veracity.core.errors import InputError, Note
from veracity.core.searches import Search
from veracity.core.spaces import InputSpace
from veracity.engine.plan import Job
from veracity.engine.problem import Problem
from veracity.interpret.robustness import Hunted
from veracity.walk.gradient import sloped

SHOWN = 10
"""How many samples are named before the rest is only counted."""


def remarks(problem: Problem, jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Every remark once, as {model, explainer, text}; warned about, too, unless it only says what was chosen."""
    urgent = once((*seeds(problem), *caveats(jobs), *searches(problem, jobs)))
    for note in urgent:
        warnings.warn(f"{note['model'] or 'all models'} / {note['explainer'] or 'scores'}: {note['text']}", Note, stacklevel=4)
    return urgent + once(spans(problem, jobs))


def once(notes: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Each of them once, in order."""
    return list({tuple(one.values()): one for one in notes}.values())


def seeds(problem: Problem) -> Iterator[dict[str, str]]:
    """Scores that start from correctly classified samples leave the others out."""
    names = [label for label, score in problem.scores.items() if score.seeds]
    models = {problem.label(name): problem.correct(problem.label(name)) for name in problem.models}
    known = [correct for correct in models.values() if correct is not None]
    if names and known and len(known) == len(models) and not any(one.any() for one in known):
        raise InputError(f"No model classifies any of the {len(known[0])} samples correctly, so that '{names[0]}' has no seed.")
    for name, correct in models.items() if names else ():
        if correct is None:
            text = "the labels are not known, and the model's own predictions stand for them: pass targets=... to leave out its mistakes."
            yield {"model": name, "explainer": "", "text": text}
            continue
        wrong = (~correct).nonzero()[:, 0].tolist()
        if wrong:
            listed = ", ".join(str(number) for number in wrong[:SHOWN]) + (", ..." if len(wrong) > SHOWN else "")
            text = f"{len(wrong)} of {len(correct)} samples are misclassified and have no {', '.join(names)}: {listed}."
            yield {"model": name, "explainer": "", "text": text}


def caveats(jobs: Sequence[Job]) -> Iterator[dict[str, str]]:
    """How spaces draw."""
    for job in jobs:
        for cell in job.cells:
            if cell.request.space.caveat is not None:
                yield {"model": "", "explainer": "", "text": cell.request.space.caveat}


def spans(problem: Problem, jobs: Sequence[Job]) -> Iterator[dict[str, str]]:
    """Where the data end, if that was read off the data."""
    for job in jobs:
        for cell in job.cells:
            space = cell.request.space
            if isinstance(cell.score, Hunted) and cell.score.space is None and cell.score.range == "data" and isinstance(space, InputSpace):
                low, high = problem.span
                text = f"the data are taken to lie between {low:g} and {high:g}, the smallest and largest value of the inputs (range=...)."
                yield {"model": "", "explainer": "", "text": text}


def searches(problem: Problem, jobs: Sequence[Job]) -> Iterator[dict[str, str]]:
    """Searches that had to do without slopes."""
    for job in jobs:
        if job.explainer and problem.explainers[job.explainer].control:
            continue
        for cell in job.cells:
            walk = getattr(cell.score, "walk", None)
            if isinstance(walk, Search) and walk.follows_slopes and walk.spec() != cell.request.walk.spec():
                sloping = isinstance(cell.request.space, InputSpace) and sloped(cell.request.space)
                why = "no differentiable form of the explainer is known" if sloping else "elements of the space do not vary smoothly"
                text = f"'{cell.name}' is searched without gradients, since {why}: its worst case may be weaker."
                yield {"model": problem.label(job.model), "explainer": job.explainer, "text": text}
