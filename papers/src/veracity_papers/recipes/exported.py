"""A network and its export to ONNX: the same function must get the same scores."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import missing_extra
from veracity.explain import KernelShap, Lime, Rise
from veracity.recipe import Scale, recipe
from veracity.scores import FaithfulnessCorrelation
from veracity_papers.data.eurosat import eurosat
from veracity_papers.zoo.transformers import load_images

SIZES = {Scale.SMOKE: (2, 20, 10), Scale.SMALL: (10, 64, 30), Scale.PAPER: (200, 500, 100)}


def onnx_bytes(model: nn.Module, example: Tensor) -> bytes:
    """The network as the content of an ONNX file that takes any number of rows like the example's (1, ...)."""
    if find_spec("onnx") is None:
        raise missing_extra("onnx", "onnx", "veracity-papers")
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "network.onnx"
        torch.onnx.export(model, (example,), file, input_names=["x"], dynamic_axes={"x": {0: "rows"}}, dynamo=False)
        return file.read_bytes()


@recipe("onnx-eurosat", reference="Helber et al. 2019 (EuroSAT); He et al. 2016 (ResNet)")
def onnx_eurosat(folder: Path, scale: Scale) -> Audit:
    """RISE, KernelSHAP and LIME of a residual network on satellite images and of its export to ONNX, by outputs alone.

    The export has no gradients and no weights. Scores of the two differ by rounding only. Smoke: 2 images. Small: 10, one per class.
    Paper: 200.
    """
    count, coalitions, subsets = SIZES[scale]
    images, labels = eurosat("test")
    rows = torch.linspace(0, len(labels) - 1, count).round().long()
    colour = images.mean(dim=(0, 2, 3)).reshape(3, 1, 1)
    network = load_images("eurosat-resnet")
    return Audit(
        title="Does a network get the same scores after its export to ONNX?",
        models={"module": network, "onnx": onnx_bytes(network, images[:1])},
        inputs=images[rows],
        targets=labels[rows],
        explainers={
            "rise": Rise(masks=coalitions),
            "kernel_shap": KernelShap(samples=coalitions, patch=16, baseline=colour),
            "lime": Lime(samples=coalitions, patch=16, baseline=colour),
        },
        scores={"faithfulness_correlation": FaithfulnessCorrelation(nr_runs=subsets, perturb_baseline="mean"), "deletion": "deletion"},
        about={"recipe": "onnx-eurosat", "scale": scale.value},
    )
