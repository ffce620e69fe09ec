"""Particle images with known flows (Cai et al. 2019): sixty pairs of six flow types, the NERO paper's authors' own test set.

A pair is two frames of 256x256; its flow says how far a particle goes from one to the other: u to the right and v downwards, in
pixels. The file holds each type's first pair twice, so that there are nine different pairs of each; the second copies are left
out. Warping the second frame back matches the first best (a correlation of .960 for SQG) where the flow is taken at the middle
of each path, not at its beginning (.951) or end (.950).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity_papers.data import files

ORIGIN = "github.com/zhuokaizhao/nero_vis (<type>/first, <type>/second, <type>/flow for six types, in one npz file)"
MORE_ORIGIN = "github.com/shengzesnail/PIV-LiteFlowNet-en (images (N, 2, H, W), flow (N, H, W, 2), names (N,), in one npz file)"
FILE, MORE = "piv/piv_six_flows_10each.npz", "piv/piv_pairs_gtflow.npz"
TYPES = {
    "uniform": "uniform",
    "backstep": "backstep_Re800",
    "cylinder": "cylinder_Re40",
    "SQG": "SQG",
    "DNS": "DNS_turbulence",
    "isotropic": "JHTDB_isotropic1024_hd",
}
CLASSES = tuple(TYPES)
EACH = 9
DISTINCT = [0, *range(2, 10)]


@dataclass(frozen=True)
class Pairs:
    """Frames (N, 2, H, W) in [0, 1], flows (N, 2, H, W) in pixels, and the flow types' numbers (N,)."""

    frames: Tensor
    flow: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def piv(each: int = EACH) -> Pairs:
    """`each` pairs of every one of the six flow types, at most nine, in the order of CLASSES."""
    if not 1 <= each <= EACH:
        raise InputError(f"There are {EACH} different pairs of each flow type, so that {each} cannot be had: choose from 1 to {EACH}.")
    with np.load(files.find(FILE, ORIGIN)) as file:
        parts = {
            part: np.concatenate([file[f"{key}/{part}"][DISTINCT][:each] for key in TYPES.values()]) for part in ("first", "second", "flow")
        }
    frames = torch.from_numpy(np.stack((parts["first"], parts["second"]), axis=1)).float() / 255.0
    flow = torch.from_numpy(parts["flow"]).float().permute(0, 3, 1, 2).contiguous()
    return Pairs(frames, flow, torch.arange(len(TYPES)).repeat_interleave(each))


def more_pairs() -> tuple[Tensor, Tensor, list[str]]:
    """Fifteen further pairs: frames (15, 2, 256, 256) in [0, 1], flows (15, 2, 256, 256) in pixels, and their names."""
    with np.load(files.find(MORE, MORE_ORIGIN)) as file:
        frames, flow, names = file["images"], file["flow"], [str(name) for name in file["names"]]
    return torch.from_numpy(frames).float() / 255.0, torch.from_numpy(flow).permute(0, 3, 1, 2).contiguous(), names
