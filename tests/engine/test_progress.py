from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veracity import Audit
from veracity.engine.executors import Inline, Task
from veracity.engine.progress import Watch, weight


def test_the_bar_reaches_its_end_exactly_and_moves_within_a_job(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    prepared = make_audit(explainers=["integrated_gradients"]).prepare(batch=100)
    steps: list[int] = []
    Inline().run(prepared.jobs, Task(prepared.problem, str(tmp_path), prepared.budgets), Watch(lambda step, text: steps.append(step)))
    assert sum(steps) == sum(weight(job.cost) for job in prepared.jobs)
    assert len([step for step in steps if step]) > 20
