from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from torch import Tensor, nn

from small import broken_explainer, small_net
from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.engine.executors.local import packed
from veracity.engine.executors.task import Task


class DiesOnce(nn.Module):
    """A network whose process is killed on its first large batch, the first time only."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.net, self.marker, self.parent = small_net(), marker, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 6 and os.getpid() != self.parent and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        out: Tensor = self.net(x)
        return out


@pytest.mark.usefixtures("forked")
@pytest.mark.subprocess
def test_two_workers_give_the_numbers_of_one_and_survive_a_killed_worker(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    audit = make_audit(models={"net": DiesOnce(marker)}, explainers=["smooth_grad", "gradient_shap"])
    one = audit.run(tmp_path / "one", workers=1).table()
    two = audit.run(tmp_path / "two", workers=2).table()
    assert os.path.exists(marker)
    pd.testing.assert_frame_equal(one, two, atol=1e-6, rtol=0)


def test_what_cannot_travel_is_said(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    prepared = make_audit(explainers=[lambda model, inputs, targets: inputs.clone()]).prepare()
    with pytest.raises(InputError, match="workers=1"):
        packed(Task(prepared.problem, str(tmp_path), prepared.budgets))


def test_a_failing_explainer_is_a_record_and_the_rest_goes_on(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    audit = make_audit(explainers=["gradient", broken_explainer])
    with pytest.warns(Note, match="failed for broken_explainer: .*more than two rows"):
        result = audit.run(tmp_path)
    assert "breaks on more than two rows" in result.failures().set_index("explainer").loc["broken_explainer", "error"]
    table = result.table().set_index("explainer")
    assert table.loc["gradient", "value"] > 0.9999
    assert pd.isna(table.loc["broken_explainer", "value"])


@pytest.mark.subprocess
def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from small import series_inputs, small_net\nfrom veracity import Audit, CyclicShift\n"
        "Audit(models=small_net(), inputs=series_inputs(), explainers=['gradient'], symmetry=CyclicShift(axes=(-1,)), "
        f"scores=['equivariance'], controls=False).run({str(tmp_path / 'run')!r}, workers=2)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert "put the script's code under if __name__ == '__main__':" in done.stderr.splitlines()[-1]
    assert not list((tmp_path / "run").glob("failed/*"))
