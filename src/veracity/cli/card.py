"""The command `card`: which explanation can be trusted, one page per model."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from veracity.cli.measure import Device, Workers, default_workers, resumable
from veracity.core.errors import SpecError

LONG = 120.0
"""Seconds of budget below which one process measures, since a worker takes seconds to start."""


def card(
    file: Path = typer.Argument(help="The audit file (TOML); its scores and its symmetry are not used."),
    budget: str = typer.Option("5m", help="About how long each model may take, such as 90s, 10m or 2h."),
    out: Path | None = typer.Option(None, help="The folder; the file's 'out' with -card by default. Several models get one each in it."),
    samples: int | None = typer.Option(None, min=8, help="How many samples to use instead of as many as the budget allows."),
    racing: bool = typer.Option(True, help="Whether explainers about which more samples would hardly tell anything get no more of them."),
    advise: bool = typer.Option(False, "--advise", help="Change explainers that do not follow the model's symmetry; say what it gains."),
    workers: int | None = Workers,
    device: str = Device,
) -> None:
    """Answer six questions about every explainer of each model on one page; the same command with a larger budget goes on."""
    started, console = time.perf_counter(), Console()
    with resumable():
        from veracity.cards.card import CardStudy
        from veracity.cards.plan import AUTO, seconds_of
        from veracity.cli import audit_file
        from veracity.core.training import CrossTrained

        asked, named = audit_file.read(file)
        folder = f"{named}-card" if out is None else out
        models = {name: one for name, one in asked.modules.items() if not isinstance(one, CrossTrained)}
        trainers = [one for one in asked.modules.values() if isinstance(one, CrossTrained)]
        if not models:
            raise SpecError(f"{file} has no trained model: a card is about one, and a cross-trained one beside it answers question 5.")
        if len(trainers) > 1:
            raise SpecError(f"{file} has {len(trainers)} cross-trained models, and question 5 needs one: leave one of them.")
        for name, model in models.items():
            where = f"{folder}/{name}" if len(models) > 1 else str(folder)
            chosen = AUTO if asked.explainers is None else asked.explainers
            one = replace(asked, models={name: model}, explainers=chosen, scores=None, symmetry=None, walk=None)
            trainer = trainers[0] if trainers else None
            brief = workers is None and seconds_of(budget) < LONG
            study = CardStudy(audit=one, trainer=trainer, budget=budget, samples=samples, racing=racing, advise=advise)
            found = study.on(device).run(where, workers=1 if brief else default_workers(workers, device))
            pages = found.save(where)
            console.print(str(found), highlight=False, markup=False, soft_wrap=True)
            console.print(f"{pages[0]} written; {time.perf_counter() - started:.0f} s\n", highlight=False, soft_wrap=True)
