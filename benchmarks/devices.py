"""One audit on a CPU and on a GPU: the words of random numbers are equal, and so are the tables up to rounding.

    python -m benchmarks.devices

Prints, for every score, the largest difference of a sample between the two devices over ten explainers, and how large that explainer's
values are. Searches branch on their values, so they are not compared.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity import Audit
from veracity.core.long_rows import long_normal
from veracity.core.randomness import Draws
from veracity.perturb import Dihedral
from veracity.results import Result

SCORES = [
    *("equivariance", "faithfulness_correlation", "pixel_flipping", "infidelity", "sufficiency", "completeness", "sparseness"),
    *("relative_input_stability", "max_sensitivity", "local_lipschitz", "mprt", "smooth_mprt", "efficient_mprt", "random_logit"),
    *("fast_gef", "model_faithfulness"),
]
EXPLAINERS = [
    *("gradient", "integrated_gradients", "smooth_grad", "gradient_shap", "grad_cam", "rise", "lime", "kernel_shap"),
    *("random_uniform", "random_gaussian"),
]


def network() -> nn.Module:
    """A small network whose outputs are far from ties."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.Softplus(), nn.Conv2d(8, 8, 3, padding=1), nn.Softplus(), nn.AdaptiveAvgPool2d(4)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 4)).eval()


def measured(device: str, folder: Path) -> Result:
    """The audit with its model on a device."""
    x = torch.rand(12, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    given: dict[str, Any] = {"explainers": EXPLAINERS, "scores": SCORES, "symmetry": Dihedral(), "controls": False, "companions": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Audit(models=network(), inputs=x, **given).on(device).run(folder / device, progress=False)


def main() -> None:
    """Print the differences."""
    gpu = torch.device("cuda")
    draws = Draws(3, torch.arange(50) * 7, torch.arange(50) % 4)
    same = torch.equal(draws.words(1001, "w"), draws.to(gpu).words(1001, "w").cpu())
    subsets = torch.equal(draws.subsets(1000, 300, stream="w"), draws.to(gpu).subsets(1000, 300, stream="w").cpu())
    normal = float((draws.normal(1000, stream="w") - draws.to(gpu).normal(1000, stream="w").cpu()).abs().max())
    weights = float((long_normal(10**6, "w", device=torch.device("cpu")) - long_normal(10**6, "w", device=gpu).cpu()).abs().max())
    print(f"words equal: {same}; subsets equal: {subsets}; normal numbers within {normal:.1e}; noise of weights within {weights:.1e}")
    with tempfile.TemporaryDirectory() as folder:
        one, other = (measured(device, Path(folder)) for device in ("cpu", "cuda"))
        for failure in (*one.failures()["error"], *other.failures()["error"]):
            print("failed:", failure)
        for score in one.manifest["scores"]:
            both = one.samples(score).merge(other.samples(score), on=["model", "explainer", "sample"], suffixes=("", "_gpu"))
            both["apart"] = (both["value"] - both["value_gpu"]).abs()
            both["size"] = both["value"].abs()
            by_explainer = both.groupby("explainer", sort=False)[["apart", "size"]].max().dropna()
            if by_explainer.empty:
                print(f"{score:26} undefined on both")
                continue
            worst = str((by_explainer["apart"] / by_explainer["size"].clip(lower=1e-12)).idxmax())
            row = by_explainer.index.get_loc(worst)
            apart, size = (float(by_explainer[name].to_numpy()[row]) for name in ("apart", "size"))
            found = f"largest difference {apart:8.1e} of {size:8.2g} ({worst})"
            undefined = int((both["value"].isna() != both["value_gpu"].isna()).sum())
            print(f"{score:26} {found}, undefined on one only {undefined}")


if __name__ == "__main__":
    main()
