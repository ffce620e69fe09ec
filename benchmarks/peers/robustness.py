"""Metrics of robustness: how far does an explanation move if its input moves a little?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import ours
from benchmarks.peers.replay import Replay, made, quantus, scores
from benchmarks.peers.rows import DRAWS, PLAIN, Fault, Row, default, equal, fault
from benchmarks.peers.subject import Array, Case, apart, explain, minimal, times_input
from veracity.core.scores import Score
from veracity.explain import Gradient, Precomputed
from veracity.scores import Continuity, MaxSensitivity
from veracity.scores.faithfulness.content import Consistency
from veracity.scores.sensitivity import (
    AvgSensitivity,
    LocalLipschitz,
    RelativeInputStability,
    RelativeOutputStability,
    RelativeRepresentationStability,
    RelativeStability,
)
from veracity.walk import Exhaustive, MonteCarlo

WALK = MonteCarlo(draws=DRAWS)


@equal("Continuity", "every distance, in the map's units")
def continuity(case: Case) -> Row:
    """Theirs are all distances from -13 to 14, ours that of -14 too, but 0."""
    mine = ours.values(case, Continuity(nr_steps=1000, relative=False))
    return Row(mine, scores(quantus.Continuity(nr_steps=28, **PLAIN), **case.arrays(), explain_func=explain))


def replayed(case: Case, score: Score, name: str, **settings: Any) -> Row:
    """A metric of Quantus on our perturbed inputs."""
    metric = getattr(quantus, name)(nr_samples=DRAWS, perturb_func=Replay(ours.perturbed(case, score)), **PLAIN, **settings)
    return Row(ours.values(case, score), scores(metric, **case.arrays(), explain_func=explain))


@equal("LocalLipschitzEstimate", "the same noise, in the map's units")
def local_lipschitz(case: Case) -> Row:
    """Not divided by the size of the map, as in the paper."""
    return replayed(case, LocalLipschitz(walk=WALK, sigma=0.1, relative=False), "LocalLipschitzEstimate")


@equal("MaxSensitivity", "the same noise")
def max_sensitivity(case: Case) -> Row:
    """Relative to the explanation's length, as theirs always is."""
    return replayed(case, MaxSensitivity(walk=WALK, radius=0.2), "MaxSensitivity")


@equal("AvgSensitivity", "the same noise")
def avg_sensitivity(case: Case) -> Row:
    """Relative to the explanation's length, as theirs always is."""
    return replayed(case, AvgSensitivity(walk=WALK, radius=0.2), "AvgSensitivity")


def steep(model: nn.Module, inputs: Array, targets: Array, **settings: Any) -> Array:
    """An explanation that grows quickly with the input, exp(5 x), as Quantus asks for it."""
    return np.exp(5.0 * inputs)


def scaled(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The same, divided by its largest entry, sample by sample."""
    found = torch.exp(5.0 * inputs)
    return found / found.flatten(1).amax(1).reshape(-1, 1, 1, 1)


@fault(
    "MaxSensitivity",
    "AvgSensitivity",
    says="normalise=True divides by the largest value of the batch, so that a sample's score depends on the samples beside it.",
)
def batch_mates_matter() -> Fault:
    """The first of two samples, alone and beside the other, with the same draw."""
    x = np.stack((np.linspace(0.1, 0.8, 8), np.linspace(1.6, 0.2, 8)))
    theirs, mine, right = list[float](), list[float](), list[float]()
    kinds = {"MaxSensitivity": MaxSensitivity, "AvgSensitivity": AvgSensitivity}
    for name, kind in kinds.items():
        score = kind(walk=MonteCarlo(draws=1), radius=0.1)
        for samples in (1, 2):
            case = minimal(np.ones(8), x[:samples], np.exp(5.0 * x[:samples]))
            moved = ours.perturbed(case, score)
            metric = getattr(quantus, name)(nr_samples=1, normalise=True, perturb_func=Replay(moved))
            theirs.append(float(scores(metric, **case.arrays(), explain_func=steep)[0]))
            mine.append(float(ours.values(case, score, explainers={"scaled": scaled})[0]))
            before, after = (scaled(case.model, one, case.targets[:1]).numpy() for one in (case.x[:1], moved[0]))
            right.append(float(np.linalg.norm(after - before) / np.linalg.norm(before)))
    return Fault(
        "e = exp(5 x) over its largest entry, alone and beside another sample, by both metrics: |e' - e| / |e|", theirs, mine, right
    )


@equal("Consistency", "by the signs of all entries")
def consistency(case: Case) -> Row:
    """Maps of two kinds, so that some are the same: the sign of one image row minus another."""
    kind = (case.x[:, 0, 4].sum(1) > case.x[:, 0, 9].sum(1)).double() * 2.0 - 1.0
    given = Case(case.model, case.x, case.targets, case.maps.abs() * kind.reshape(-1, 1, 1, 1))
    metric = made("Consistency", discretise_func=quantus.functions.discretise_func.sign, **PLAIN)
    return Row(ours.of_samples(given, Consistency(discretise="sign", walk=Exhaustive())), scores(metric, **given.arrays()))


@fault(
    "Consistency",
    says="top_n_sign takes the signs of the first five entries, not of the five largest, so that different maps count as the same.",
)
def the_first_five_are_not_the_largest() -> Fault:
    """Two maps with their five largest entries at the end, for class 0, and two with these at the start, for class 1."""
    rising, falling = np.linspace(0.1, 0.8, 8), np.linspace(0.8, 0.1, 8)
    x = np.array([1.0, 2.0, -1.0, -2.0])[:, None] * np.ones(8)
    case = minimal(np.ones(8), x, [rising, rising, falling, falling])
    theirs = scores(made("Consistency", **PLAIN), **case.arrays())
    mine = ours.of_samples(case, Consistency(walk=Exhaustive()))
    return Fault("the only other map with the same five largest entries is of the same class: 1, 1, 1, 1", theirs, mine, np.ones(4))


@fault("Consistency", says="A sample of which no other has the same explanation gets 0, not undefined.")
def no_other_is_not_zero() -> Fault:
    """Two maps with opposite signs."""
    case = minimal(np.ones(8), [np.ones(8), np.full(8, 2.0)], [np.linspace(0.1, 0.8, 8), np.linspace(-0.8, -0.1, 8)])
    mine = ours.of_samples(case, Consistency(walk=Exhaustive()))
    return Fault("a share of no samples: undefined", scores(made("Consistency", **PLAIN), **case.arrays()), mine, np.full(2, np.nan))


@equal("RelativeInputStability", "the same noise, floor=0")
def relative_input_stability(case: Case) -> Row:
    """With floor=0, their definition."""
    return replayed(case, RelativeInputStability(walk=WALK, floor=0.0), "RelativeInputStability")


@equal("RelativeOutputStability", "the same noise, floor=0")
def relative_output_stability(case: Case) -> Row:
    """With floor=0, their definition."""
    return replayed(case, RelativeOutputStability(walk=WALK, floor=0.0), "RelativeOutputStability")


@equal("RelativeRepresentationStability", "the same noise and layer, floor=0")
def relative_representation_stability(case: Case) -> Row:
    """The output of the second pooling, with floor=0, their definition."""
    score = RelativeRepresentationStability(walk=WALK, floor=0.0, layer="pool2")
    return replayed(case, score, "RelativeRepresentationStability", layer_names=["pool2"])


@default("RelativeInputStability", "our default")
def ris_default(case: Case) -> Row:
    """Their denominator, and the part of it that pixels of exactly 0 make."""
    score = RelativeInputStability(walk=WALK)
    moved = ours.perturbed(case, score)
    metric = quantus.RelativeInputStability(nr_samples=DRAWS, perturb_func=Replay(moved))
    theirs = scores(metric, **case.arrays(), explain_func=explain)
    x = case.x[:, None]
    square = ((moved - x) / torch.where(x == 0, 1e-6, x)).square()
    black = float(torch.where(x == 0, square, 0.0).sum() / square.sum())
    reason = f"theirs divides by what is {black:.4%} the change of pixels that are exactly 0"
    return Row(ours.values(case, score), theirs, reason, black > 0.9999)


@fault(
    "RelativeInputStability",
    "RelativeOutputStability",
    "RelativeRepresentationStability",
    says="It is undefined as soon as one draw changes the prediction, though the maximum is over the draws that keep it.",
)
def one_changed_draw_is_all() -> Fault:
    """Gradient times input of a linear model, whose relative change is that of the input and of the layer that flattens it."""
    weight, x = np.array([1.0, -1.0] * 4), np.array([0.6, 0.5] * 4)
    case = minimal(weight, x, weight * x)
    settings: dict[str, Any] = {"walk": WALK, "sigma": 0.2, "floor": 0.0}
    kinds: dict[str, RelativeStability] = {
        "RelativeInputStability": RelativeInputStability(**settings),
        "RelativeOutputStability": RelativeOutputStability(**settings),
        "RelativeRepresentationStability": RelativeRepresentationStability(**settings, layer="0"),
    }
    theirs, mine = list[float](), list[float]()
    for name, score in kinds.items():
        more = {"layer_names": ["0"]} if score.name == "relative_representation_stability" else {}
        metric = getattr(quantus, name)(nr_samples=DRAWS, perturb_func=Replay(ours.perturbed(case, score)), **more)
        theirs.append(float(scores(metric, **case.arrays(), explain_func=times_input)[0]))
        mine.append(float(ours.values(case, score, explainers=["input_x_gradient"])[0]))
    moved = ours.perturbed(case, kinds["RelativeOutputStability"]).flatten(2)[0].numpy()
    kept = moved[moved @ weight > 0.0]
    by_output = np.linalg.norm((kept - x) / x, axis=1) / np.abs((kept - x) @ weight)
    said = f"{len(kept)} of {DRAWS} draws keep the class, and e' / e = x' / x: 1, max |(x' - x) / x| / |f(x') - f(x)|, 1"
    return Fault(said, theirs, mine, [1.0, float(by_output.max()), 1.0])


@fault("RelativeInputStability", says="normalise=True rewrites your maps in place.")
def normalisation_rewrites() -> Fault:
    """The average second moment, which is the normalisation of all three relative stabilities."""
    case = minimal(np.linspace(0.1, 0.8, 8), np.linspace(0.5, 1.2, 8), np.linspace(0.1, 0.8, 8))
    given, maps = case.arrays(), case.maps.clone()
    scores(quantus.RelativeInputStability(nr_samples=1, normalise=True), **given, explain_func=explain)
    mine = {"mine": Precomputed(maps=maps, explainer=Gradient())}
    ours.values(case, RelativeInputStability(walk=MonteCarlo(draws=1)), explainers=mine)
    before = case.maps.numpy()
    return Fault("how far the given maps moved: 0", apart(given["a_batch"], before), apart(maps.numpy(), before), 0.0)
