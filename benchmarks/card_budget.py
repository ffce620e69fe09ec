"""What a card decides within a budget: python -m benchmarks.card_budget [--budget 60s 5m] [--network standard] [--folder runs/card-budget]

One or more networks with all explainers that fit, each budget in a folder of its own. Printed are the explainers and samples that a budget
allows, the seconds (of this process, and on the clock) and model passes that it took, how many of the words are decided, and which
explainers nobody dominates.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from pathlib import Path

import veracity
from benchmarks.card_networks import NAMES, network
from benchmarks.racing import Counting
from veracity.audit import Audit
from veracity.core.errors import Note

WORDS = ("holds", "falls short", "cannot tell yet", "does not apply")


def measure(name: str, budget: str, folder: Path) -> None:
    """Print what one budget decides."""
    model, x, y = network(name, folder)
    spent: list[int] = []
    started, worked = time.perf_counter(), time.process_time()
    study = veracity.CardStudy(audit=Audit(models={name: model}, inputs=x, targets=y, explainers="auto"), budget=budget)
    where = folder / f"{name}-{budget}"
    card = study.run(where, on=Counting(passes=spent), progress=False)
    took, used = time.perf_counter() - started, time.process_time() - worked
    card.save(where)
    record = card.record
    said: Counter[str] = Counter(answer.word for one in card.explainers.values() for answer in one.answers)
    decided = said["holds"] + said["falls short"]
    seconds = f"{used:.0f} s of one core, {took:.0f} s on the clock"
    print(f"{name}, budget {budget}: {seconds}, {sum(spent):,} passes (0 if the folder held everything)")
    print(f"  {len(card.explainers)} explainers, {len(record.left_out)} left out: {', '.join(record.left_out)}")
    print(f"  {record.samples} of {record.planned} planned samples, {record.available} available")
    print(f"  {decided} of {sum(said.values())} words decided: {', '.join(f'{said[word]} {word}' for word in WORDS)}")
    for question in record.questions:
        own = Counter(card.word(question.key, one) for one in card.explainers)
        print(f"    {question.number} {question.key}: {', '.join(f'{own[word]} {word}' for word in WORDS if own[word])}")
    print(f"  undominated ({len(card.undominated)}): {', '.join(card.undominated)}")
    stops = Counter(f"{one.stopped.why} after {one.stopped.samples}" for one in card.explainers.values() if one.stopped)
    print(f"  stopped by racing: {dict(sorted(stops.items()))}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card_budget", description=__doc__)
    parser.add_argument("--budget", nargs="+", default=["60s", "5m"])
    parser.add_argument("--network", nargs="+", default=["standard"], choices=NAMES)
    parser.add_argument("--folder", type=Path, default=Path("runs/card-budget"))
    asked = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        for name in asked.network:
            for one in asked.budget:
                measure(name, one, asked.folder)
