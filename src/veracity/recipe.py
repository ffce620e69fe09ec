"""What a recipe is: from a folder and a scale to an audit.

The command line takes its options from here, so that torch and the engine are imported by the functions that need them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from veracity.core.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn


class RecipeResult(Protocol):
    """What a recipe measured: a Result, an OrbitResult, or the result of a study."""

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file."""
        ...

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why."""
        ...


class Runnable(Protocol):
    """What a recipe puts together: an Audit, a MetaEvaluation, Audits, a DegradationCheck, or whatever runs as they do."""

    def on(self, device: str) -> Runnable:
        """The same on a device."""
        ...

    @property
    def run(self) -> Callable[..., Any]:
        """Measure what the folder does not hold yet, with workers= and progress=."""
        ...


Assemble = Callable[[Path, "Scale"], Runnable]


class Scale(StrEnum):
    """How much of a protocol to run: seconds, minutes, or as published."""

    SMOKE = "smoke"
    SMALL = "small"
    PAPER = "paper"


@dataclass(frozen=True)
class Recipe:
    """A named protocol."""

    name: str
    assemble: Assemble
    reference: str = ""

    def summary(self) -> str:
        """The first sentence of the recipe's docstring."""
        return (inspect.getdoc(self.assemble) or "").split("\n\n")[0].replace("\n", " ")


def recipe(name: str, reference: str = "") -> Callable[[Assemble], Recipe]:
    """Register a function (folder, scale) -> Audit, or whatever else runs into a folder, as a recipe."""

    from veracity.core.registry import RECIPES

    def wrap(assemble: Assemble) -> Recipe:
        made: Recipe = RECIPES.add(Recipe(name, assemble, reference))
        return made

    return wrap


def run_recipe(
    name: str, folder: Path, scale: Scale = Scale.SMALL, *, workers: int = 1, device: str = "cpu", progress: bool = True
) -> RecipeResult:
    """Assemble what the recipe measures, run it on a device into the folder, and write report.html there."""
    from veracity.core.registry import RECIPES
    from veracity.engine.store import RunFolder

    chosen: Recipe = RECIPES[name]
    RunFolder(str(folder)).check_writable()
    result: RecipeResult = chosen.assemble(folder, scale).on(device).run(folder, workers=workers, progress=progress)
    result.save_report(folder / "report.html")
    return result


TRAINING: ContextVar[bool] = ContextVar("training", default=True)
"""Whether a recipe may train what its folder does not hold."""


@contextmanager
def without_training() -> Iterator[None]:
    """Within it, recipes take the models that ship or lie in their folder, and raise rather than train and write others."""
    before = TRAINING.set(False)
    try:
        yield
    finally:
        TRAINING.reset(before)


Fit = Callable[["nn.Module", Callable[[int, float], None]], "nn.Module"]


def trained_once(folder: Path, name: str, build: Callable[[], nn.Module], epochs: int, fit: Fit) -> nn.Module:
    """A model trained now, or loaded from the run folder where an earlier run left it."""
    from veracity.engine.progress import bar
    from veracity.engine.store import RunFolder

    store, model = RunFolder(str(folder)), build()
    kept = store.recovered("models", name)
    if kept is not None:
        try:
            model.load_state_dict(kept)
        except RuntimeError as error:
            raise StoreError(f"{folder} does not hold the weights of the model '{name}': run the recipe in a new folder.") from error
        return model.eval()
    if not TRAINING.get():
        raise StoreError(f"The model '{name}' is not in {folder}: run the recipe again, which trains it.")
    with bar(f"training {name}", epochs) as advance:
        fit(model, lambda epoch, loss: advance(1, f"training {name}, loss {loss:.3f}"))
    store.write_tensors("models", name, dict(model.state_dict()))
    return model.eval()
