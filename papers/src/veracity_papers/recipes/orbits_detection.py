"""Detectors under shifts of the window, as in section 3.1 of the NERO paper: how far does training with jitter carry?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


SCENES = {Scale.SMOKE: (6, 8), Scale.SMALL: (24, 8), Scale.PAPER: (500, 4)}
CELLS = {Scale.SMOKE: (2, 16), Scale.SMALL: (24, 4), Scale.PAPER: (None, 2)}
"""How many scenes or cells (None: all), and how many pixels lie between two shifts."""


@recipe("orbits-detection", reference=f"{PAPER}, sections 3.1 and 3.4, Figures 7 to 9 and 12")
def orbits_detection(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Four small detectors of digits on canvases, trained with 0, 25, 50 and 100 % jitter, as a window of 128 pixels shifts by up to 64.

    The key digit lies at the centre of a scene of 256 pixels, digits of other classes around it. Small: 24 scenes, 16x16 shifts.
    Paper: 500 scenes, 32x32 shifts. Smoke: scikit-learn's digits, a window of 32 pixels, two detectors trained on the spot.
    """
    count, step = SCENES[scale]
    smoke = scale is Scale.SMOKE
    window = TINY if smoke else WINDOW
    return evaluation(
        "orbits-detection",
        "How far from the centre do detectors of digits find their digit?",
        scale,
        tiny(folder) if smoke else shipped("digits", JITTERS),
        scenes(count, source="digits" if smoke else "mnist", window=window),
        DIGITS,
        CropOrbit(window=window, reach=window // 2, step=step),
    )


@recipe("orbits-detection-cells", reference=f"{PAPER}, sections 3.1 and 3.4, Figures 7 to 9 and 12")
def orbits_detection_cells(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Four small detectors of blood cells (BCCD), trained with 0, 25, 50 and 100 % jitter, as a window of 128 pixels shifts by up to 32.

    Key objects are white cells and platelets of photographs that were not learnt from, alone of their class in reach; every
    shift shows real pixels. Small: 24 objects, 16x16 shifts. Paper: all 35, 32x32 shifts. Smoke: two objects, 4x4 shifts, two detectors.
    """
    count, step = CELLS[scale]
    return evaluation(
        "orbits-detection-cells",
        "How far from the centre do detectors of blood cells find their cell?",
        scale,
        shipped("cells", JITTERS[::3] if scale is Scale.SMOKE else JITTERS),
        bccd.cells(count),
        bccd.CLASSES,
        CropOrbit(reach=bccd.REACH, step=step),
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


def shipped(data: str, jitters: tuple[int, ...]) -> dict[str, nn.Module]:
    """The shipped detectors of "digits" or "cells" that were trained with these jitters."""
    return {f"{jitter} % jitter": pretrained(data, jitter) for jitter in jitters}


def tiny(folder: Path) -> dict[str, nn.Module]:
    """Two detectors of scikit-learn's digits in windows of 32 pixels, trained for some seconds."""
    images, labels = SOURCES["digits"]("train")

    def trained(jitter: int) -> nn.Module:
        def learn(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
            batches = digit_batches(jitter / 100, torch.Generator().manual_seed(0), BATCH, images, labels, TINY)
            return fit(model, batches, STEPS, rate=RATE, report=report) if isinstance(model, Detector) else model

        build = partial(Detector, 1, len(DIGITS), widths=(8, 16, 24))
        return trained_once(folder, f"jitter-{jitter}", lambda: initialised(build, seed=0), 2, learn)

    return {f"{jitter} % jitter": trained(jitter) for jitter in JITTERS[::3]}
