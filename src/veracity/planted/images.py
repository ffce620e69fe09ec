"""Planted images, 16 by 16: glyphs of 5 by 5 pixels in the quadrants of a dim background, and networks that look for some of them.

A glyph is found in two steps. The layer `first` finds strokes of three pixels in four directions, `second` compares them with the strokes
of each glyph, and `last` draws a square of 5 by 5 where a glyph was found, so that its maps are as wide as the object. Strokes, squares and
thresholds are weights written by hand: a class counts its glyphs exactly, whatever the background is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import cache
from typing import cast

import torch
from torch import Tensor, nn

from veracity.core.randomness import Draws
from veracity.inputs import mosaics
from veracity.planted.task import SATURATION, Clip, Planted, PlantedTask, grown, set_weights, share_right
from veracity.trainers.training import initialised, train

SIDE, TILE, GLYPH = 16, 8, 5
MARGIN = 2
"""Maps may be this many pixels wider than what is planted."""
DIM = 0.1
"""The brightest background."""
SHAPES = {
    "plus": ("..#..", "..#..", "#####", "..#..", "..#.."),
    "cross": ("#...#", ".#.#.", "..#..", ".#.#.", "#...#"),
    "ring": ("#####", "#...#", "#...#", "#...#", "#####"),
    "tee": ("#####", "..#..", "..#..", "..#..", "..#.."),
    "diamond": ("..#..", ".#.#.", "#...#", ".#.#.", "..#.."),
    "zed": ("#####", "...#.", "..#..", ".#...", "#####"),
}
CLASSES = ("plus", "cross")
DECOYS = (("ring", "tee"), ("diamond", "zed"))
"""For each class, glyphs that no class reads, made of strokes in the same directions."""
CORNER = slice(2, 5)
"""Rows and columns of the corner patch."""


@cache
def glyph(name: str) -> Tensor:
    """A glyph (5, 5) of 0 and 1."""
    return torch.tensor([[float(letter == "#") for letter in row] for row in SHAPES[name]])


def strokes(channels: tuple[float, ...] = (1.0,)) -> nn.Conv2d:
    """Four directions of three pixels in a row; 0.5 where all three are bright, after a ReLU. `channels` weighs those of the input."""
    layer = nn.Conv2d(len(channels), 4, 3, padding=1)
    row, diagonal = torch.zeros(3, 3), torch.eye(3)
    row[1] = 1.0
    directions = torch.stack((row, row.T, diagonal, diagonal.flip(1)))
    set_weights(layer, directions[:, None] * torch.tensor(channels)[None, :, None, None], -2.5)
    return layer


def matches(names: tuple[str, ...]) -> nn.Conv2d:
    """From strokes to glyphs: 1 at the centre of a glyph and 0 elsewhere, after a ReLU; strokes must match by more than 80 %."""
    layer = nn.Conv2d(4, len(names), GLYPH, padding=GLYPH // 2)
    with torch.no_grad():
        found = [torch.relu(strokes()(glyph(name)[None, None]))[0] for name in names]
    set_weights(layer, torch.stack([5.0 * one / one.square().sum() for one in found]), -4.0)
    return layer


def squares(count: int) -> nn.Conv2d:
    """A square of 5 by 5 ones around each glyph that was found, one channel per class."""
    layer = nn.Conv2d(count, count, GLYPH, padding=GLYPH // 2)
    set_weights(layer, torch.eye(count)[:, :, None, None].expand(-1, -1, GLYPH, GLYPH))
    return layer


class GlyphCounter(nn.Module):
    """The number of glyphs of each class, minus `inhibition` times that of the other classes."""

    def __init__(self, names: tuple[str, ...], channels: tuple[float, ...] = (1.0,), inhibition: float = 0.0) -> None:
        super().__init__()
        count = len(names)
        self.first, self.second, self.last, self.head = (
            nn.Sequential(strokes(channels), nn.ReLU()),
            matches(names),
            squares(count),
            nn.Linear(count, count),
        )
        self.relu, self.pool = nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        unit = torch.eye(count)
        set_weights(self.head, SIDE * SIDE / GLYPH**2 * (unit - inhibition * (1.0 - unit)))

    def forward(self, x: Tensor) -> Tensor:
        """Images (N, C, 16, 16) to numbers (N, classes)."""
        found = self.last(self.relu(self.second(self.first(x))))
        counts: Tensor = self.head(self.pool(found).flatten(1))
        return counts


class LeftCounter(nn.Module):
    """The number of plus glyphs in the left half: those of the right half are counted, and taken off again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(strokes(), nn.ReLU()), matches(("plus",))
        self.last, self.head = nn.Conv2d(1, 2, GLYPH, padding=GLYPH // 2), nn.Linear(2 * SIDE * SIDE, 1)
        self.relu, self.relu_last = nn.ReLU(), nn.ReLU()
        set_weights(self.last, torch.ones(2, 1, GLYPH, GLYPH))
        right = (torch.arange(SIDE) >= TILE).float().expand(SIDE, SIDE)
        set_weights(self.head, torch.stack((torch.ones(SIDE, SIDE), -right)) / GLYPH**2)

    def forward(self, x: Tensor) -> Tensor:
        """Images (N, 1, 16, 16) to one number (N, 1)."""
        found = self.relu_last(self.last(self.relu(self.second(self.first(x)))))
        count: Tensor = self.head(found.flatten(1))
        return count


class CornerReader(nn.Module):
    """The sum of the bright pixels in the corner patch, a third each; with `clipped`, at most 1."""

    def __init__(self, clipped: bool = False) -> None:
        super().__init__()
        self.first, self.head = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.ReLU()), nn.Linear(SIDE * SIDE, 1)
        self.end = Clip() if clipped else nn.Identity()
        centre, patch = torch.zeros(3, 3), torch.zeros(SIDE, SIDE)
        centre[1, 1], patch[CORNER, CORNER] = 1.0, 1.0 / 3.0
        set_weights(cast(nn.Conv2d, self.first[0]), centre, -DIM)
        set_weights(self.head, patch)

    def forward(self, x: Tensor) -> Tensor:
        """Images (N, 1, 16, 16) to one number (N, 1)."""
        total: Tensor = self.end(self.head(self.first(x).flatten(1)))
        return total


def background(samples: int, seed: int, channels: int = 1, side: int = SIDE) -> Tensor:
    """Dim noise (samples, channels, side, side)."""
    noise = Draws.of(seed, torch.arange(samples)).uniform(channels, side, side, stream="planted background")
    return (DIM * noise).float()


def paste(images: Tensor, names: list[str], quadrants: Tensor, seed: int, stream: str) -> Tensor:
    """Put one glyph per image (N, H, W) into a quadrant (N,), in place, and return where: masks (N, H, W) of its 5 by 5 pixels."""
    offsets = Draws.of(seed, torch.arange(len(images))).integers(TILE - GLYPH - 1, 2, stream=stream) + 1
    masks = torch.zeros_like(images, dtype=torch.bool)
    for row, (name, quadrant) in enumerate(zip(names, quadrants.tolist(), strict=True)):
        top, left = (TILE * corner + int(offset) for corner, offset in zip(divmod(quadrant, 2), offsets[row], strict=True))
        place = (row, slice(top, top + GLYPH), slice(left, left + GLYPH))
        images[place] = torch.maximum(images[place], glyph(name))
        masks[place] = True
    return masks


def glyphs(samples: int, seed: int) -> Planted:
    """One glyph of the explained class and two that no class reads, in three of the four quadrants."""
    source, x = Draws.of(seed, torch.arange(samples)), background(samples, seed)
    where, labels = source.choice(4, 3, stream="planted quadrants"), torch.arange(samples) % 2
    mask = paste(x[:, 0], [CLASSES[label] for label in labels.tolist()], where[:, 0], seed, "planted object")
    for number in range(2):
        paste(x[:, 0], [DECOYS[label][number] for label in labels.tolist()], where[:, 1 + number], seed, f"planted decoy {number}")
    return Planted(model=GlyphCounter(CLASSES).eval(), inputs=x, truth=grown(mask, MARGIN), targets=labels)


def shortcut(samples: int, seed: int, clipped: bool = False) -> Planted:
    """A glyph that the model ignores, and a corner patch that it reads."""
    x = background(samples, seed)
    quadrants = 1 + Draws.of(seed, torch.arange(samples)).integers(3, stream="planted quadrants")
    paste(x[:, 0], ["plus"] * samples, quadrants, seed, "planted object")
    x[:, 0, CORNER, CORNER] = 1.0
    plain = background(samples, seed + 1)
    return Planted(model=CornerReader(clipped).eval(), inputs=x, truth=grown(x_corner(samples), MARGIN), reference=plain)


def clipped(samples: int, seed: int) -> Planted:
    """The corner patch, of which four of nine pixels are enough."""
    return shortcut(samples, seed, clipped=True)


def x_corner(samples: int) -> Tensor:
    """Masks (samples, H, W) of the corner patch."""
    mask = torch.zeros(samples, SIDE, SIDE, dtype=torch.bool)
    mask[:, CORNER, CORNER] = True
    return mask


def mosaic(samples: int, seed: int) -> Planted:
    """Two tiles of the explained class and two of the other one, which speak against it."""
    per_class = -(-samples // 2)
    tiles, labels = background(4 * per_class, seed, side=TILE), torch.arange(4 * per_class) % 2
    paste(tiles[:, 0], [CLASSES[label] for label in labels.tolist()], torch.zeros(len(tiles), dtype=torch.long), seed, "planted object")
    made = mosaics(tiles, labels, per_class=per_class, seed=seed)
    model = GlyphCounter(CLASSES, inhibition=0.5).eval()
    return Planted(model=model, inputs=made.inputs[:samples], truth=made.truth[:samples], targets=made.targets[:samples])


def channels(samples: int, seed: int) -> Planted:
    """The same glyph in the first two channels; the third one holds another copy elsewhere, and is not read."""
    where, x = Draws.of(seed, torch.arange(samples)).choice(4, 2, stream="planted quadrants"), background(samples, seed, channels=3)
    mask = paste(x[:, 0], ["plus"] * samples, where[:, 0], seed, "planted object")
    paste(x[:, 1], ["plus"] * samples, where[:, 0], seed, "planted object")
    paste(x[:, 2], ["plus"] * samples, where[:, 1], seed, "planted other")
    truth = grown(mask, MARGIN)[:, None].repeat(1, 3, 1, 1)
    truth[:, 2] = False
    return Planted(model=GlyphCounter(("plus",), (0.5, 0.5, 0.0)).eval(), inputs=x, truth=truth)


def inhibited(samples: int, seed: int) -> Planted:
    """One glyph in the left half and two in the right half, whose count is taken off again."""
    x, left = background(samples, seed), 2 * Draws.of(seed, torch.arange(samples)).integers(2, stream="planted quadrants")
    mask = paste(x[:, 0], ["plus"] * samples, left, seed, "planted object")
    for quadrant in (1, 3):
        paste(x[:, 0], ["plus"] * samples, torch.full((samples,), quadrant), seed, f"planted other {quadrant}")
    return Planted(model=LeftCounter().eval(), inputs=x, truth=grown(mask, MARGIN))


def learnt(samples: int, seed: int) -> Planted:
    """A network that learnt to tell images with a corner patch from others; the glyph tells nothing."""
    model, accuracy = network(seed)
    made = shortcut(samples, seed + 1)
    return replace(made, model=model, targets=torch.ones(samples).long(), accuracy=accuracy)


@cache
def network(seed: int) -> tuple[nn.Module, float]:
    """The trained network, and its accuracy on 100 other images."""
    x, labels = shortcut(500, seed).inputs, (Draws.of(seed, torch.arange(500)).uniform(stream="planted label") < 0.5).long()
    x[:, 0, CORNER, CORNER] = torch.where(labels[:, None, None] == 1, x[:, 0, CORNER, CORNER], DIM / 2)
    model = initialised(small_network, seed)
    train(model, x[:400], labels[:400], epochs=8, batch=32, rate=1e-2, seed=seed)
    return model, share_right(model, x[400:], labels[400:])


def small_network() -> nn.Module:
    """Two convolutions, named as those of the written networks, and one linear layer."""
    layers: dict[str, nn.Module] = {"first": nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()), "pool": nn.MaxPool2d(2)}
    layers |= {"last": nn.Conv2d(8, 8, 3, padding=1), "relu_last": nn.ReLU(), "flat": nn.Flatten()}
    return nn.Sequential(OrderedDict(layers | {"head": nn.Linear(8 * TILE * TILE, 2)}))


MASS = "relevance_mass_accuracy"
AVERAGED = "it averages gradients over positions, and so forgets which positions the model reads"
FEW_POINTS = "five random points between black and the image rarely lie where the output rises"
UNCENTRED = "it adds the mean score of the masked images everywhere"
OWN_COLOUR = "a superpixel of one colour is replaced by its mean colour, which is the same"
SUPERPIXELS = dict.fromkeys(("superpixel_lime", "superpixel_shap"), OWN_COLOUR)
EARLY = "the layer sees strokes, not glyphs: every glyph has some"
PATCHES = "two runs draw different masks, and 200 masks are too few for them to agree"
ONE_PIXEL = "one pixel makes no difference where four of nine are enough"
WIDE = "a window of 13 pixels hides far more than the glyph, and its loss is given to all of them"
NO_SIGN = "it has no sign: evidence against the class counts as evidence for it"
EVERY_CHANNEL = "its map is the same in all channels"
ONLY_POSITIVE = "it drops the negative paths that cancel the right half, so it does not see that these weights do"
SPREAD = dict.fromkeys(
    ("grad_cam", "grad_cam_plus_plus", "full_grad", "lime", "occlusion", "occlusion(window=1)", "kernel_shap", "partition_shap"),
    EVERY_CHANNEL,
)
TASKS = (
    PlantedTask(
        name="glyphs",
        rule="the number of glyphs of each of two classes; two other glyphs are not read.",
        build=glyphs,
        score=MASS,
        bar=0.6,
        why={
            **{"grad_cam(layer=first)": EARLY, "occlusion(window=13)": WIDE, "gradient_shap": FEW_POINTS, "rise": UNCENTRED},
            **SUPERPIXELS,
        },
    ),
    PlantedTask(
        name="shortcut",
        rule="the brightness of a corner patch; the glyph is not read.",
        build=shortcut,
        score=MASS,
        bar=0.6,
        why={
            **dict.fromkeys(("grad_cam", "grad_cam(layer=first)", "grad_cam_plus_plus"), AVERAGED),
            **{"occlusion(window=13)": WIDE, "rise": UNCENTRED},
            **SUPERPIXELS,
        },
    ),
    PlantedTask(
        name="clipped",
        rule="the brightness of a corner patch, at most 1, which four of its nine pixels reach.",
        build=clipped,
        score=MASS,
        bar=0.6,
        why={**SATURATION, **dict.fromkeys(("occlusion(window=1)", "feature_ablation"), ONE_PIXEL), "occlusion(window=13)": WIDE},
    ),
    PlantedTask(
        name="mosaic",
        rule="glyphs of the class minus half of those of the other class, in mosaics of both.",
        build=mosaic,
        score="focus",
        bar=0.8,
        magnitude=False,
        why=dict.fromkeys(("saliency", "input_x_saliency", "full_grad"), NO_SIGN),
    ),
    PlantedTask(
        name="channels",
        rule="plus glyphs in the mean of two channels; the third one holds another, and is not read.",
        build=channels,
        score=MASS,
        bar=0.7,
        why=SPREAD,
    ),
    PlantedTask(
        name="inhibited",
        rule="plus glyphs minus those of the right half.",
        build=inhibited,
        score=MASS,
        bar=0.6,
        why={
            **dict.fromkeys(("guided_backprop", "deconvolution", "lrp_z_plus"), ONLY_POSITIVE),
            **dict.fromkeys(("grad_cam", "grad_cam_plus_plus", "grad_cam(layer=first)"), AVERAGED),
        },
    ),
    PlantedTask(
        name="learnt shortcut",
        rule="a network that learnt to find a corner patch beside a glyph that tells nothing.",
        build=learnt,
        score=MASS,
        bar=0.6,
        learnt=True,
    ),
    PlantedTask(
        name="repeat",
        rule="the model of 'glyphs', explained twice: both maps should be the same.",
        build=glyphs,
        score="self_agreement",
        magnitude=False,
        why=dict.fromkeys(("lime", "lime(patch=2)"), PATCHES),
    ),
)
