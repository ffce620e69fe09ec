"""Particle image velocimetry under turns, mirror images and time reversal, as in section 3.2 of the NERO paper."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import FlowOrbit
from veracity.orbits.tasks.flow import Flow, reversal_floor
from veracity.recipe import Scale, recipe
from veracity_papers.data.particles import CLASSES, EACH, KINDS, Pairs, particle_pairs, piv
from veracity_papers.zoo.flow import Farneback, pretrained

SIZES = {Scale.SMALL: 3, Scale.PAPER: EACH}


@recipe("orbits-piv", reference="Zhao et al., Evaluating machine learning models with NERO, section 3.2 and Figure 10")
def orbits_piv(folder: Path, scale: Scale) -> OrbitEvaluation:
    """OpenCV's Farnebäck against a small network on real particle images of six flow types, under D4 and time reversal.

    The network was trained on generated particle images. The report prints the floor of time reversal for every flow type.
    Small: three pairs of each type. Paper: all nine. Smoke: four generated pairs of 64x64 pixels. Needs the extra "piv".
    """
    data, names = (generated(4, 64), KINDS) if scale is Scale.SMOKE else (piv(SIZES[scale]), CLASSES)
    floors = floor_by_type(data, names)
    said = ", ".join(f"{name} {value:.2f}" for name, value in floors.items())
    return OrbitEvaluation(
        title="Does a measured flow turn with its frames?",
        models={"Farneback": Farneback(), "network": pretrained()},
        inputs=data.frames,
        targets=data.flow,
        labels=[names[number] for number in data.labels.tolist()],
        orbit=FlowOrbit(),
        task=Flow(),
        picture="pair",
        notes=[
            f"Time reversal negates a flow only down to the floor RMS |v(x) - v(x + v)|, in pixels: {said}. "
            "Flatness is to be expected along turns and mirror images alone."
        ],
        about={"recipe": "orbits-piv", "scale": scale.value, "reversal_floor": {name: round(value, 4) for name, value in floors.items()}},
    )


def generated(count: int, side: int) -> Pairs:
    """Generated pairs, one flow kind after the other."""
    frames, flow = particle_pairs(count, torch.Generator().manual_seed(0), side=side, fastest=3.0)
    return Pairs(frames, flow, torch.arange(count) % len(KINDS))


def floor_by_type(data: Pairs, names: tuple[str, ...]) -> dict[str, float]:
    """The floor of time reversal in pixels for every flow type that occurs: the root of the mean square over its pairs."""
    floors: Tensor = reversal_floor(data.flow)
    return {
        name: float(floors[data.labels == number].square().mean().sqrt())
        for number, name in enumerate(names)
        if bool((data.labels == number).any())
    }
