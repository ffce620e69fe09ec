"""The scan names the right group first, and praises no model that does not react."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity.core.graphs import pack_graphs
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.demo import GlobalMax, circular
from veracity.measure import cosine
from veracity.perturb import Dihedral, Flips, Mirror, Permutations, Rotation, Rotations, Rotations3D
from veracity.studies.symmetry_scan import KeptSymmetry, Verdict, catalogue, null_agreement, rank, size_of, verdict

DRAWS = 24


def scan(model, signals):
    """Each catalogued symmetry's invariance a sample, over a few draws, read from probabilities."""

    def probabilities(these):
        with torch.no_grad():
            return model(these.values, *these.structure).softmax(dim=1)

    before = probabilities(signals)
    row = torch.arange(len(signals)).repeat_interleave(DRAWS)
    rows = []
    for space in catalogue(signals.values.shape[1:], structured=bool(signals.structure)):
        draws = Draws(0, row, torch.arange(DRAWS).repeat(len(signals)))
        moved = space.move(space.decode(draws.normal(space.latents, stream="scan")), signals[row])
        values = cosine(probabilities(moved), before[row]).reshape(len(signals), DRAWS).mean(dim=1)
        rows.append(KeptSymmetry.of(space, values.numpy(), null_agreement(before)))
    return rank(rows)


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def kept(rows):
    return [row.space.name for row in rows if row.verdict is Verdict.KEPT]


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_shifts_of_series():
    rows = scan(small_net(), Signals(series_inputs(8)))
    assert kept(rows) == ["cyclic_shift"]
    assert rows[0].place == 1
    assert rows[0].why == "Kept on every sample (8); it has 12 elements, and no kept symmetry has more."


def test_shifts_of_images():
    """Both axes first, then each alone, as large as the other."""
    net = seeded(lambda: nn.Sequential(circular(1, 6), nn.ReLU(), GlobalMax(), nn.Linear(6, 3)))
    rows = scan(net, Signals(random(8, 1, 6, 6)))
    assert [row.space.axes for row in rows[:3]] == [(-2, -1), (-1,), (-2,)]
    assert kept(rows) == ["cyclic_shift"] * 3
    assert rows[1].why.endswith("it has 6 elements, fewer than CyclicShift(axes=(-2, -1), sizes=(6, 6)).")
    assert "6 elements like CyclicShift(axes=(-1,), sizes=(6,)): the order of the two means nothing." in rows[2].why
    assert rows[3].verdict is Verdict.BROKEN


def test_turns_and_mirror_images():
    """A network averaged over D4 keeps D4, and with it every part of it."""

    class Averaged(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x):
            faces = [face.rot90(turns, (-2, -1)) for face in (x, x.flip(-1)) for turns in range(4)]
            return torch.stack([self.net(face) for face in faces]).mean(dim=0)

    rows = scan(seeded(Averaged), Signals(random(8, 1, 5, 5)))
    assert rows[0].space == Dihedral()
    assert kept(rows) == ["d4", "flips", "c4", "mirror", "mirror"]


class DeepSet(nn.Module):
    def __init__(self, features=3):
        super().__init__()
        self.inner, self.outer = nn.Linear(features, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.outer(self.inner(x).relu().amax(dim=1))


def test_sets():
    rows = scan(seeded(DeepSet), Signals(random(8, 5, 3)))
    assert rows[0].space == Permutations(axis=-2, size=5)
    assert kept(rows) == ["permutations", "cyclic_shift", "mirror"]


def test_rotations_without_end_come_before_permutations():
    class Distances(DeepSet):
        """Coordinates may be turned, exchanged and mirrored as they like."""

        def forward(self, x):
            return super().forward((x[:, :, None] - x[:, None]).square().sum(dim=3).flatten(1)[:, :, None])

    rows = scan(seeded(lambda: Distances(1)), Signals(random(8, 5, 3)))
    assert kept(rows)[:3] == ["so3", "permutations", "cube_rotations"]
    assert {row.verdict for row in rows} == {Verdict.KEPT}
    assert rows[0].why == "Kept on every sample (8); it has elements without end, and no kept symmetry has more."


def test_graphs():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(4, 16), nn.Linear(16, 3)

        def forward(self, values, mask, edges):
            x, edge_index, batch = pack_graphs(values, mask, edges)
            hidden = self.inner(x + torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])).relu()
            return self.outer(torch.zeros(len(values), 16).index_add(0, batch, hidden))

    mask = torch.arange(5) < torch.tensor([[3], [5], [4], [5], [2], [4]])
    edges = torch.tensor([[[0, 1], [1, 0], [1, 1]]]).expand(6, 3, 2).clone()
    edges[::2, 2] = -1
    rows = scan(seeded(Graph), Signals(random(6, 5, 4) * mask[:, :, None], (mask, edges)))
    assert kept(rows) == ["node_permutations"]


def test_a_constant_model_is_not_praised():
    class Constant(nn.Module):
        def forward(self, x):
            return torch.zeros(len(x), 3)

    rows = scan(Constant(), Signals(random(6, 5, 3)))
    assert {row.verdict for row in rows} == {Verdict.EMPTY}
    assert kept(rows) == []
    assert rows[0].why.endswith("the model does not react to its input.")


def test_a_model_that_hardly_reacts_is_not_praised_either():
    """Outputs of all inputs agree to .99999; what is kept is judged by that distance."""

    class Sluggish(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(15, 3))

        def forward(self, x):
            return 1e-3 * self.net(x)

    rows = scan(seeded(Sluggish), Signals(random(6, 5, 3)))
    assert min(row.lowest for row in rows) > 1 - 1e-4
    assert {row.verdict for row in rows} == {Verdict.BROKEN}


def test_the_null_against_a_loop_over_pairs():
    outputs = random(7, 4).softmax(dim=1)
    pairs = [float(torch.cosine_similarity(outputs[i], outputs[j], dim=0)) for i in range(7) for j in range(7) if i != j]
    assert null_agreement(outputs) == pytest.approx(np.mean(pairs), abs=1e-6)
    assert null_agreement(torch.ones(5, 3)) == pytest.approx(1.0)
    assert math.isnan(null_agreement(torch.ones(1, 3)))
    assert null_agreement(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [math.nan, 1.0]])) == 0.0


def row(space, values, null=0.2):
    return KeptSymmetry.of(space, np.array(values), null)


def test_one_bad_sample_breaks_a_symmetry():
    assert row(Mirror(), [1.0, 1.0, 1.0]).verdict is Verdict.KEPT
    bad = row(Rotation(), [1.0, 1.0, 0.97])
    assert (bad.verdict, bad.lowest, bad.n) == (Verdict.BROKEN, 0.97, 3)
    assert bad.moved == bad.invariance == pytest.approx(0.99)
    assert row(Mirror(), [1.0, np.nan]).undefined == 1
    assert row(Mirror(), [np.nan]).verdict is Verdict.UNDEFINED
    assert verdict(0.99995, math.nan) is Verdict.KEPT


def test_the_identity_does_not_count():
    """Outputs that change sides under a mirror image agree by (1 + 0) / 2: no more than any two inputs."""
    half = row(Mirror(), [0.5, 0.5])
    assert (half.invariance, half.moved, half.lowest) == (0.5, 0.0, 0.0)
    assert row(Dihedral(), [1 / 8]).moved == pytest.approx(0.0)
    better = row(Permutations(size=4), [0.45, 0.45])
    assert [one.space for one in rank([half, better])] == [better.space, half.space]
    values = random(6, 5).softmax(dim=1)
    moved = values.roll(1, dims=1)
    both = torch.stack([cosine(values, values), cosine(moved, values)]).mean(dim=0)
    assert row(Mirror(), both.numpy()).moved == pytest.approx(float(cosine(moved, values).mean()))


def test_the_order_and_its_reasons():
    undefined, worse = row(Flips(), [np.nan]), row(Rotations3D(), [0.1, 0.2])
    better, first = row(Rotation(), [0.9, 1.0]), row(Dihedral(), [1.0, 1.0])
    tied, second = row(Rotations(), [1.0, 1.0 - 1e-9]), row(Permutations(size=3), [1.0, np.nan])
    found = rank([undefined, worse, second, tied, better, first])
    assert [one.space for one in found] == [one.space for one in (first, second, tied, better, worse, undefined)]
    assert [one.place for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[1].why == "Kept on every sample (1, undefined on 1); it has 6 elements, fewer than Dihedral(axes=(-2, -1))."
    numbers = "outputs for transformed inputs agree by 0.950 on average and 0.900 on the worst sample (different inputs: 0.200 on average)"
    assert found[3].why == f"Not kept: {numbers}."
    assert found[4].why.endswith("(different inputs: 0.200 on average); no more alike than different inputs.")
    assert found[5].why == "The invariance is undefined on every sample."
    assert rank([]) == []
    same = rank([replace(tied), row(Flips(), [1.0, 1.0])])
    assert [one.space for one in same] == [Flips(), Rotations()]


def test_sizes_that_no_float_holds():
    assert size_of(Permutations(size=3000).order) == "about 10^9130 elements"
    big, small = row(Permutations(size=3000), [1.0]), row(Permutations(size=2999), [1.0])
    assert rank([small, big])[0].space.size == 3000
