"""One search on one block: what is stored of it, and slopes that are those of the merit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from search_audits import audit_of, images, tanh_net
from veracity.core.errors import SpecError
from veracity.core.walks import Ask, Trace
from veracity.engine.later import Later
from veracity.engine.loop import perturbation_of
from veracity.engine.perturbation.search import SHOWN, SearchRun, lines_of
from veracity.engine.reader import Block
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard
from veracity.scores.robustness import SearchScore, SolHat, SolTilde, WorstLoss
from veracity.scores.symmetry import Invariance
from veracity.walk import Genetic, GradientSearch, SimpleMonteCarlo, SubsetSimulation

AROUND = {"radius": 0.3, "range": (0.0, 1.0)}
GENETIC = Genetic(population=12, generations=3, elites=3)


def run_of(score: SearchScore, tmp_path: Path, net: nn.Module | None = None, count: int = 3) -> tuple[SearchRun, RunFolder]:
    prepared = audit_of(net or tanh_net(), images(count), [score]).prepare()
    (job,) = [job for job in prepared.jobs if job.cells]
    folder = RunFolder(str(tmp_path))
    guard = Guard("", None, prepared.problem.models["net"].module, prepared.problem.inputs.take(torch.arange(1)))
    block = Block(job, prepared.problem, prepared.budgets["net"], {}, folder, lambda _passes: None, guard, Later())
    (cell,) = job.cells
    run = perturbation_of(block, [cell], block.read(cell.before, cell.request))
    assert isinstance(run, SearchRun)
    return run, folder


def ask_of(rows: list[int], element: Tensor) -> Ask:
    row = torch.tensor(rows)
    return Ask(row, torch.arange(len(row)), torch.zeros_like(row), element)


@pytest.mark.parametrize(
    "score", [SolHat(**AROUND, walk=GradientSearch()), SolHat(**AROUND, walk=GradientSearch(), follow=False, signed=True)]
)
def test_slopes_are_differences_of_the_smooth_merit(score: SolHat, tmp_path: Path) -> None:
    run, _ = run_of(score, tmp_path)
    element = 0.2 * torch.rand(4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 0.1
    rows = [0, 2, 1, 2]

    def smooth(moved: Tensor) -> Tensor:
        return score.smooth(run.seen(ask_of(rows, moved)))

    slope = run.slope(ask_of(rows, element))
    assert slope.shape == (4, 16)
    for entry in (0, 7, 15):
        step = torch.zeros(16, dtype=torch.float64)
        step[entry] = 1e-5
        difference = (smooth(element + step) - smooth(element - step)) / 2e-5
        assert torch.allclose(slope[:, entry], difference, atol=1e-6, rtol=1e-4)
    assert slope.abs().max() > 1e-3


def test_slopes_of_the_loss_and_in_any_batch(tmp_path: Path) -> None:
    score = WorstLoss(**AROUND, walk=GradientSearch())
    run, _ = run_of(score, tmp_path)
    element = torch.zeros(3, 16, dtype=torch.float64)
    whole = run.slope(ask_of([0, 1, 2], element))
    net, x = tanh_net(), images(3)
    low, high = (x - 0.3).clamp(min=0.0), (x + 0.3).clamp(max=1.0)
    middle = ((low + high) / 2).requires_grad_()
    scores = net(middle)
    label = net(x).argmax(dim=1)
    others = scores.scatter(1, label[:, None], -torch.inf).amax(dim=1) - scores.gather(1, label[:, None])[:, 0]
    (by_hand,) = torch.autograd.grad(others.sum(), middle)
    assert torch.allclose(whole, (by_hand * (high - low) / 0.6).flatten(1), atol=1e-10)
    run.block.budget.rows = 1
    assert torch.allclose(run.slope(ask_of([0, 1, 2], element)), whole, atol=1e-12)


def test_relus_slope_where_they_are_flat(tmp_path: Path) -> None:
    # The gradient of a ReLU net is piecewise constant, so that only a softened net tells how it changes.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).double().eval()
    score = SolHat(**AROUND, walk=GradientSearch(population=2, steps=2))
    run, _ = run_of(score, tmp_path, net)
    assert run.slope(ask_of([0, 1, 2], torch.full((3, 16), 0.01, dtype=torch.float64))).abs().amin(dim=0).max() > 0
    assert isinstance(net[2], nn.ReLU)


def test_what_is_kept_can_be_read_back(tmp_path: Path) -> None:
    run, folder = run_of(SolHat(**AROUND, walk=GENETIC), tmp_path)
    run.search(torch.tensor([0, 2])).write(run.cell.key, folder, {})
    table = folder.read_cell(run.cell.key).to_pandas()
    assert sorted(table["quantity"].astype(str).unique()) == ["agreement", "evaluations", "loss", "merit", "undefined"]
    agreement = table[table["quantity"].astype(str) == "agreement"]
    assert agreement[agreement["sample"] == 1]["value"].isna().all()
    assert len(agreement[agreement["sample"] == 1]) == 1
    assert agreement[agreement["sample"] == 2]["level"].tolist() == [0, 1, 2, 3]
    merit = table[table["quantity"].astype(str) == "merit"].sort_values(["sample", "level"])["value"]
    assert np.allclose(merit.dropna(), (1 - agreement.sort_values(["sample", "level"])["value"]).dropna())


def test_nothing_to_search_is_stored_as_undefined(tmp_path: Path) -> None:
    run, folder = run_of(SolHat(**AROUND, walk=GENETIC), tmp_path)
    run.search(torch.zeros(0, dtype=torch.int64)).write(run.cell.key, folder, {})
    table = folder.read_cell(run.cell.key).to_pandas()
    assert sorted(table["sample"].unique()) == [0, 1, 2]
    assert table["value"].isna().all()
    assert folder.read_tensors("worst", run.cell.key) is None


def test_the_worst_points_of_a_block_worst_first(tmp_path: Path) -> None:
    run, folder = run_of(SolHat(**AROUND, walk=SimpleMonteCarlo(draws=20)), tmp_path, count=12)
    with torch.no_grad():
        run.search(torch.arange(12)).write(run.cell.key, folder, {})
    kept = folder.read_tensors("worst", run.cell.key)
    assert kept is not None
    assert len(kept["sample"]) == SHOWN
    assert (kept["value"].diff() >= 0).all()
    net = tanh_net()
    assert torch.equal(kept["predicted"], net(kept["moved"]).argmax(dim=1))
    assert torch.equal(kept["label"], net(kept["input"]).argmax(dim=1))
    assert torch.equal(kept["label"], kept["predicted"])
    assert torch.equal(kept["input"], images(12)[kept["sample"]])
    for value, expected, found in zip(kept["value"], kept["expected"], kept["found"], strict=True):
        assert value.item() == pytest.approx(np.corrcoef(expected.abs().flatten(), found.abs().flatten())[0, 1], abs=1e-9)


def test_points_that_break_the_constraint_are_no_examples(tmp_path: Path) -> None:
    run, folder = run_of(SolTilde(radius=1e-4, range=(0.0, 1.0), walk=GENETIC), tmp_path)
    run.search(torch.arange(3)).write(run.cell.key, folder, {})
    assert folder.read_tensors("worst", run.cell.key) is None


def test_groups_of_any_size_keep_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score = SolHat(**AROUND, walk=SubsetSimulation(population=20, steps=2, floor=-8.0))
    whole, first = run_of(score, tmp_path / "whole")
    whole.search(torch.arange(3)).write(whole.cell.key, first, {})
    monkeypatch.setattr("veracity.core.walks.NUMBERS", 2 * 20 * 16)
    parts, second = run_of(score, tmp_path / "parts")
    assert parts.walk.together(parts.request.space) == 2
    parts.search(torch.arange(3)).write(parts.cell.key, second, {})
    order = ["sample", "draw", "level", "quantity"]
    one, other = (folder.read_cell(whole.cell.key).to_pandas().astype({"quantity": str}) for folder in (first, second))
    one, other = one.sort_values(order, ignore_index=True), other.sort_values(order, ignore_index=True)
    assert one[order].equals(other[order])
    assert np.allclose(one["value"], other["value"], atol=1e-9, equal_nan=True)


def test_a_score_without_a_merit_cannot_be_searched(tmp_path: Path) -> None:
    run, _ = run_of(SolHat(**AROUND, walk=GENETIC), tmp_path)
    with pytest.raises(SpecError, match="has no merit that the walk 'genetic' could follow"):
        perturbation_of(run.block, [replace(run.cell, score=Invariance())], run.before)


def test_traces_take_the_names_of_the_score(tmp_path: Path) -> None:
    run, folder = run_of(SolHat(**AROUND, walk=GENETIC), tmp_path)
    line = torch.tensor([0.5], dtype=torch.float64)
    here, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    first = Trace(here, here, one, {"merit": line, "seen0": line + 1, "seen1": line + 2})
    second = Trace(here, one, here, {"merit": line * 3, "seen0": line, "width": line})
    traces = [(torch.tensor([2]), first), (torch.tensor([0]), second)]
    lines_of(traces, torch.tensor([10, 11, 12]), run.score.quantities, None).write(run.cell.key, folder, {})
    table = folder.read_cell(run.cell.key).to_pandas().astype({"quantity": str})
    found = {(row.sample, row.draw, row.level, row.quantity): row.value for row in table.itertuples(index=False)}
    assert found[12, 0, 1, "agreement"] == 1.5
    assert found[12, 0, 1, "loss"] == 2.5
    assert found[10, 1, 0, "merit"] == 1.5
    assert found[10, 1, 0, "width"] == 0.5
    assert np.isnan(found[12, 0, 1, "width"])
    assert np.isnan(found[11, 0, 0, "merit"])


class Attention(nn.Module):
    """Fused attention over the rows of an image, whose kernel on a CPU has no second derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tanh_net()

    def forward(self, x: Tensor) -> Tensor:
        mixed = nn.functional.scaled_dot_product_attention(4 * x, 4 * x, x)
        scores: Tensor = self.net(x + mixed)
        return scores


def test_slopes_pass_through_fused_attention(tmp_path: Path) -> None:
    score = SolHat(walk=GradientSearch(population=2, steps=2), **AROUND)
    net = Attention().eval()
    result = audit_of(net, images(2), [score]).run(tmp_path, progress=False)
    assert result.failures().empty
    assert np.isfinite(result.table()["value"]).all()
