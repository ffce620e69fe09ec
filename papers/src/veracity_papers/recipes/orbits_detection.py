"""Detectors under shifts of the window, as in section 3.1 of the NERO paper: how far does training with jitter carry?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import CropOrbit
from veracity.orbits.tasks import Detection
from veracity.recipe import Scale, recipe, trained_once
from veracity.trainers.training import initialised
from veracity_papers.data import bccd
from veracity_papers.data.mnist import CLASSES as DIGITS
from veracity_papers.data.scenes import SOURCES, WINDOW, Boxed, scenes
from veracity_papers.zoo.detector import JITTERS, TOP, Detector, pretrained
from veracity_papers.zoo.train_detector import digit_batches, fit

PAPER = "Zhao et al., Evaluating machine learning models with NERO"
TINY = 32
"""The window of the smoke scale, in pixels."""
STEPS, BATCH, RATE = 100, 8, 1e-2


@dataclass(frozen=True)
class Effort:
    """How many scenes, and how many pixels lie between two shifts."""

    scenes: int | None
    step: int


SCENES = {Scale.SMOKE: Effort(6, 8), Scale.SMALL: Effort(24, 8), Scale.PAPER: Effort(500, 4)}
CELLS = {Scale.SMOKE: Effort(2, 16), Scale.SMALL: Effort(24, 4), Scale.PAPER: Effort(None, 2)}


@recipe("orbits-detection", reference=f"{PAPER}, sections 3.1 and 3.4, Figures 7 to 9 and 12")
def orbits_detection(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Four small detectors of digits on canvases, trained with 0, 25, 50 and 100 % jitter, as a window of 128 pixels shifts by up to 64.

    The key digit lies at the centre of a scene of 256 pixels, digits of other classes around it. Small: 24 scenes, 16x16 shifts.
    Paper: 500 scenes, 32x32 shifts. Smoke: scikit-learn's digits, a window of 32 pixels, two detectors trained on the spot.
    """
    effort = SCENES[scale]
    smoke = scale is Scale.SMOKE
    data = scenes(effort.scenes or 1, source="digits", window=TINY) if smoke else scenes(effort.scenes or 1)
    models: Mapping[str, nn.Module] = tiny(folder) if smoke else {detector_name(jitter): pretrained("digits", jitter) for jitter in JITTERS}
    window = TINY if smoke else WINDOW
    return evaluation(
        "orbits-detection",
        "How far from the centre do detectors of digits find their digit?",
        scale,
        models,
        data,
        DIGITS,
        CropOrbit(window=window, reach=window // 2, step=effort.step),
    )


@recipe("orbits-detection-cells", reference=f"{PAPER}, sections 3.1 and 3.4, Figures 7 to 9 and 12")
def orbits_detection_cells(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Four small detectors of blood cells (BCCD), trained with 0, 25, 50 and 100 % jitter, as a window of 128 pixels shifts by up to 32.

    Key objects are white cells and platelets of photographs that were not learnt from, alone of their class in reach; every
    shift shows real pixels. Small: 24 objects, 16x16 shifts. Paper: all 35, 32x32 shifts. Smoke: two objects, 4x4 shifts, two detectors.
    """
    effort = CELLS[scale]
    data = bccd.cells(effort.scenes)
    jitters = (JITTERS[0], JITTERS[-1]) if scale is Scale.SMOKE else JITTERS
    return evaluation(
        "orbits-detection-cells",
        "How far from the centre do detectors of blood cells find their cell?",
        scale,
        {detector_name(jitter): pretrained("cells", jitter) for jitter in jitters},
        data,
        bccd.CLASSES,
        CropOrbit(reach=bccd.REACH, step=effort.step),
    )


def evaluation(
    name: str, title: str, scale: Scale, models: Mapping[str, nn.Module], data: Boxed, classes: tuple[str, ...], orbit: CropOrbit
) -> OrbitEvaluation:
    """The detectors under shifts, the key objects' classes as subsets."""
    return OrbitEvaluation(
        title=title,
        models=models,
        inputs=data.images,
        targets=data.boxes,
        labels=[classes[number] for number in data.labels.tolist()],
        orbit=orbit,
        task=Detection(classes=classes, window=orbit.window, top=TOP),
        notes=[
            "The jitter is how far the key object strayed from the window's centre in training, in percent of the reach.",
            "Beyond some shift the key object is cut off at the window's border: truth and consensus are cut off with it, and the gap "
            "compares what both windows show; the agreement of consensus and truth counts only shifts that leave it whole.",
        ],
        about={"recipe": name, "scale": scale.value},
    )


def detector_name(jitter: int) -> str:
    """A detector's name."""
    return f"{jitter} % jitter"


def tiny(folder: Path) -> dict[str, nn.Module]:
    """Two detectors of scikit-learn's digits in windows of 32 pixels, trained for some seconds."""
    images, labels = SOURCES["digits"]("train")

    def trained(jitter: int) -> nn.Module:
        def learn(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
            batches = digit_batches(jitter / 100, torch.Generator().manual_seed(0), BATCH, images, labels, TINY)
            return fit(model, batches, STEPS, rate=RATE, report=report) if isinstance(model, Detector) else model

        build = partial(Detector, 1, len(DIGITS), widths=(8, 16, 24))
        return trained_once(folder, f"jitter-{jitter}", lambda: initialised(build, seed=0), 2, learn)

    return {detector_name(jitter): trained(jitter) for jitter in (JITTERS[0], JITTERS[-1])}
