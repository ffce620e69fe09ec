"""The planted models follow their rules exactly, and nothing outside of the truth changes what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from veracity.core.inputs import TensorInputs
from veracity.planted import MODALITIES, PlantedTask, graphs, images, series, tables, texts
from veracity.planted.task import grown

WRITTEN = [(modality, task) for modality, tasks in MODALITIES.items() for task in tasks if not task.learnt]
LEARNT = [(modality, task) for modality, tasks in MODALITIES.items() for task in tasks if task.learnt]


def outputs(planted: Any, values: torch.Tensor | None = None) -> torch.Tensor:
    """What a planted model says, about its own samples or about others of the same shape."""
    data = TensorInputs(planted.inputs) if isinstance(planted.inputs, torch.Tensor) else planted.inputs
    signals = data.take(torch.arange(data.size()))
    with torch.no_grad():
        return data.adapt(planted.model)(signals.values if values is None else values, *signals.structure)


def own_values(planted: Any) -> torch.Tensor:
    data = TensorInputs(planted.inputs) if isinstance(planted.inputs, torch.Tensor) else planted.inputs
    return data.take(torch.arange(data.size())).values


@pytest.mark.parametrize(("modality", "task"), WRITTEN, ids=[f"{modality} {task.name}" for modality, task in WRITTEN])
def test_what_the_truth_leaves_out_does_not_matter(modality: str, task: PlantedTask) -> None:
    if (modality, task.name) in (("images", "mosaic"), ("tables", "correlated")):
        pytest.skip("its truth is the evidence for the class, or holds on the data alone")
    planted = task.plant(12, 3)
    values = own_values(planted)
    kept = values * (planted.truth if planted.truth.shape == values.shape else planted.truth.unsqueeze(1))
    rows = torch.arange(len(values))
    before, after = outputs(planted), outputs(planted, kept)
    column = torch.zeros_like(rows) if planted.targets is None else planted.targets
    torch.testing.assert_close(after[rows, column], before[rows, column], atol=0.15 if modality == "series" else 1e-5, rtol=0)
    nothing = outputs(planted, values * 0)[rows, column]
    moved = (nothing - before[rows, column]).abs() > 0.1
    assert moved.float().mean() > (0.5 if task.name == "xor" else 0.8)  # one row in three of xor says 0, as black does


@pytest.mark.parametrize(("modality", "task"), WRITTEN, ids=[f"{modality} {task.name}" for modality, task in WRITTEN])
def test_the_same_seed_gives_the_same_numbers(modality: str, task: PlantedTask) -> None:
    state = torch.random.get_rng_state()
    first, again, other = task.plant(6, 1), task.plant(6, 1), task.plant(6, 2)
    assert torch.equal(outputs(first), outputs(again))
    assert torch.equal(first.truth, again.truth)
    if modality == "texts":  # gates are 1 whatever the words are
        assert not torch.equal(first.inputs.encoding["input_ids"], other.inputs.encoding["input_ids"])
    else:
        assert not torch.equal(own_values(first), own_values(other))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("task", [task for _, task in LEARNT if task.score != "self_agreement"], ids=lambda one: one.name)
def test_training_again_gives_the_same_network_whatever_the_global_state(task: PlantedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first network may have been trained before, in whatever state; the second is trained here."""
    weights = []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            state = torch.random.get_rng_state()
            weights.append([one.detach().clone() for one in task.plant(4, 0).model.parameters()])
            assert torch.equal(torch.random.get_rng_state(), state)
            for part in (graphs, images, series, tables, texts) if seed == 1 else ():
                monkeypatch.setattr(part, "network", part.network.__wrapped__)
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


@pytest.mark.parametrize(("modality", "task"), LEARNT, ids=lambda one: getattr(one, "name", one))
def test_learnt_rules_are_learnt(modality: str, task: PlantedTask) -> None:
    accuracy = task.plant(4, 0).accuracy
    assert accuracy is not None
    assert accuracy > 0.95


def test_tables_by_hand() -> None:
    x = torch.tensor([[2.0, 1.0, 0.5, 9, 9, 9, 9, 9], [0.0, 1.0, -3.0, 9, 9, 9, 9, 9], [1.0, 1.0, 0.0, 9, 9, 9, 9, 9]])
    with torch.no_grad():
        assert tables.additive(4, 0).model(x).flatten().tolist() == [4.5, -5.0, 1.0]
        assert tables.both(4, 0).model(x).flatten().tolist() == [2.0, 0.0, 1.0]
        assert tables.either(4, 0).model(x).flatten().tolist() == [-1.0, 1.0, 0.0]
        assert tables.smaller(4, 0).model(x).flatten().tolist() == [1.0, 0.0, 1.0]
        assert tables.saturated(4, 0).model(x).flatten().tolist() == [1.0, 1.0, 1.0]
        assert tables.correlated(4, 0).model(x).flatten().tolist() == [2.5, -3.0, 0.0]  # 0.5 + 4 (2 - 1 - 0.5)


def test_contributions_add_up_to_the_output() -> None:
    planted = tables.additive(10, 0)
    assert planted.contributions is not None
    torch.testing.assert_close(planted.contributions.sum(1), outputs(planted).flatten())
    weights = np.array([3.0, -2.0, 1.0, 0, 0, 0, 0, 0])
    slow = [[float(weight * value) for weight, value in zip(weights, row, strict=True)] for row in planted.inputs.tolist()]
    torch.testing.assert_close(planted.contributions, torch.tensor(slow))


def test_on_the_data_correlated_columns_do_nothing() -> None:
    planted = tables.correlated(50, 0)
    torch.testing.assert_close(outputs(planted).flatten(), planted.inputs[:, 2])


def test_glyphs_are_counted_exactly() -> None:
    planted = images.glyphs(60, 5)
    assert planted.targets is not None
    torch.testing.assert_close(outputs(planted), torch.nn.functional.one_hot(planted.targets, 2).float(), atol=1e-5, rtol=0)
    torch.testing.assert_close(outputs(images.inhibited(30, 5)), torch.ones(30, 1), atol=1e-5, rtol=0)
    mosaic = images.mosaic(30, 5)
    torch.testing.assert_close(outputs(mosaic), torch.ones(30, 2), atol=1e-5, rtol=0)  # two of the class, minus half of two others


def test_the_corner_by_hand() -> None:
    dark = torch.zeros(1, 1, images.SIDE, images.SIDE)
    dark[..., 2, 3] = 1.0
    with torch.no_grad():
        assert images.CornerReader()(dark).item() == pytest.approx(0.3)  # (1 - 0.1) / 3
        assert images.CornerReader(clipped=True)(dark).item() == pytest.approx(0.3)
        assert images.CornerReader(clipped=True)(torch.ones_like(dark)).item() == 1.0
        assert images.CornerReader()(torch.ones_like(dark)).item() == pytest.approx(2.7)


def test_a_wave_counts_one_and_a_bump_nothing() -> None:
    x = torch.zeros(3, 1, series.LENGTH)
    x[0, 0, 20:29] = torch.tensor(series.WAVE)
    x[1, 0, 20:29] = torch.tensor(series.BUMP)
    with torch.no_grad():
        torch.testing.assert_close(series.WaveCounter()(x).flatten(), torch.tensor([1.0, 0.0, 0.0]), atol=1e-5, rtol=0)


def test_words_by_hand() -> None:
    ids = torch.tensor([[texts.ALPHA, texts.BETA, 9, 9], [texts.ALPHA, texts.ALPHA, 9, 9], [9, 8, 7, 6]])
    with torch.no_grad():
        assert texts.triggers(4, 0).model(ids).flatten().tolist() == [3.0, 4.0, 0.0]
        assert texts.pair(4, 0).model(ids).flatten().tolist() == [1.0, 1.0, 0.0]
        assert texts.repeated(4, 0).model(ids).flatten().tolist() == [1.0, 1.0, 0.0]


def test_motifs_of_graphs_the_slow_way() -> None:
    made, truth = graphs.graphs(20, 4, motifs=2)
    kinds = made.values.argmax(2)
    for row in range(20):
        edges = {(int(a), int(b)) for a, b in made.edges[row]}
        found = [(a, b) for a, b in edges if kinds[row, a] == graphs.ALPHA and kinds[row, b] == graphs.BETA]
        assert len(set(found)) == 2
        slow = torch.zeros_like(truth[row])
        for a, b in found:
            slow[a, graphs.ALPHA] = slow[b, graphs.BETA] = True
        assert torch.equal(slow, truth[row])
        assert all((b, a) in edges for a, b in edges)
    one = graphs.motif(20, 4)
    assert outputs(one).flatten().tolist() == [1.0] * 20


def test_graphs_without_a_motif_have_as_many_nodes_of_each_kind_and_no_such_neighbours() -> None:
    with_one, _ = graphs.graphs(20, 4, motifs=1, chords_of_betas=True)
    without, truth = graphs.graphs(20, 4, motifs=0, alone=graphs.BOTH_ALONE, chords_of_betas=True)
    assert not truth.any()
    for made, expected in ((with_one, 1), (without, 0)):
        kinds = made.values.argmax(2)
        for row in range(20):
            near = {(int(a), int(b)) for a, b in made.edges[row] if kinds[row, a] == graphs.ALPHA and kinds[row, b] == graphs.BETA}
            assert len(near) == expected
            assert [int((kinds[row] == kind).sum()) for kind in (graphs.ALPHA, graphs.BETA)] == [2, 2]


def test_grown_masks_the_slow_way() -> None:
    mask = torch.zeros(1, 6, 7, dtype=torch.bool)
    mask[0, 0, 3] = mask[0, 5, 6] = True
    marked = [(0, 3), (5, 6)]
    slow = [[any(abs(a - i) <= 2 and abs(b - j) <= 2 for a, b in marked) for j in range(7)] for i in range(6)]
    assert grown(mask, 2)[0].tolist() == slow
