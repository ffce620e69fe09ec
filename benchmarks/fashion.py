"""The paper's All-CNN on 48x48 images over all 441 shifts, on the best device there is: python -m benchmarks.fashion"""

from __future__ import annotations

import json
import sys

import torch

from benchmarks.symmetry import equivariance_audit, ratio
from veracity.perturb import WindowShift
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.zoo.symmetry import FASHION, PADDING

CASES = {"saliency": 64, "integrated_gradients": 8, "occlusion": 2}


def main(scale: float) -> None:
    """Print one line per method."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = FASHION["all-cnn"].pretrained().to(device)
    images, _ = fashion_mnist("test", PADDING)
    for name, samples in CASES.items():
        x = images[: max(1, round(samples * scale))].to(device)
        found = ratio(equivariance_audit(model, x, [name], WindowShift(margin=PADDING)), model, x)
        sys.stdout.write(json.dumps({"explainer": name, "device": device, **{key: round(value, 3) for key, value in found.items()}}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
