"""Seconds of CPU time to hash a model, and to read its weights once through SHA-256: python -m benchmarks.keys

Every run() hashes its models, finished ones too. The first hash of a process also looks up which distributions are installed.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from benchmarks.timing import CONSOLE, empty_table
from veracity.core import fingerprint

logger = logging.getLogger(__name__)
REPEATS = 3


class Bottleneck(nn.Module):
    """He et al. 2016, Figure 5, right: 1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        projected = nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity() if before == 4 * width and stride == 1 else projected

    def forward(self, x: Tensor) -> Tensor:
        """From (N, before, H, W) to (N, 4 width, H / stride, W / stride)."""
        logger.debug("block of %s", tuple(x.shape))
        inner = relu(self.bn2(self.conv2(relu(self.bn1(self.conv1(x))))))
        return relu(self.bn3(self.conv3(inner)) + self.shortcut(x))


def resnet50() -> nn.Module:
    """He et al. 2016, Table 1: 3, 4, 6 and 3 blocks; 25,557,032 parameters."""
    stages, before = [], 64
    for number, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            width = 64 * 2**number
            stages.append(Bottleneck(before, width, 2 if block == 0 and number else 1))
            before = 4 * width
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def traced() -> nn.Module:
    """The same, as TorchScript."""
    made: nn.Module = torch.jit.trace(resnet50().eval(), torch.ones(1, 3, 64, 64))
    return made


class Vit(nn.Module):
    """A vision transformer for images of 224 by 224, of the size that is called tiny."""

    def __init__(self, width: int = 192, depth: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.position = nn.Parameter(torch.randn(1, 196, width))
        layers = (nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True) for _ in range(depth))
        self.blocks, self.head = nn.Sequential(*layers), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, 1000) of images (N, 3, 224, 224)."""
        logger.debug("images of %s", tuple(x.shape))
        scores: Tensor = self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2) + self.position).mean(1))
        return scores


class Wrapped(nn.Module):
    """A fitted model of another library in the place of a network."""

    def __init__(self, fitted: Any) -> None:
        super().__init__()
        self.fitted = fitted

    def forward(self, x: Tensor) -> Tensor:
        """Chances (N, classes)."""
        return torch.as_tensor(self.fitted.predict_proba(x.numpy()))


def table_of(samples: int = 1000, columns: int = 20) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random numbers and two noisy classes."""
    source = np.random.default_rng(0)
    x = source.normal(size=(samples, columns))
    return x, (x[:, :3].sum(1) + source.normal(size=samples) > 0).astype(int)


def distilbert() -> nn.Module:
    """Hugging Face's classifier with 265,026 parameters."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(vocab_size=1998, dim=64, hidden_dim=256, n_layers=2, n_heads=4)
    made: nn.Module = DistilBertForSequenceClassification(config)
    return made


def forest() -> nn.Module:
    """scikit-learn's forest of 100 trees."""
    from sklearn.ensemble import RandomForestClassifier

    return Wrapped(RandomForestClassifier(100, random_state=0).fit(*table_of()))


def boosted() -> nn.Module:
    """XGBoost's 100 rounds."""
    from xgboost import XGBClassifier

    return Wrapped(XGBClassifier(n_estimators=100, n_jobs=1).fit(*table_of()))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "vision transformer": Vit,
    "DistilBERT": distilbert,
    "forest": forest,
    "XGBoost": boosted,
    "ResNet-50": resnet50,
    "ResNet-50, traced": traced,
}


def read_once(model: nn.Module) -> None:
    """Read every weight and buffer through SHA-256."""
    for value in (*model.parameters(), *model.buffers()):
        hashlib.sha256(value.detach().flatten().view(torch.uint8).numpy().data)


def seconds(work: Callable[[], object]) -> Iterator[float]:
    """CPU time of a call, again and again, which a busy machine does not change much."""
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        yield time.process_time() - start


def main() -> None:
    """Print one row for each kind of model."""
    shown = empty_table("Seconds of CPU time to hash a model", "model", "parameters", "key, first time", "key, fastest", "weights once")
    for name, build in MODELS.items():
        torch.manual_seed(0)
        model = build().eval()
        first, *others = seconds(lambda model=model: fingerprint.of_model(model))  # type: ignore[misc]
        weights = min(seconds(lambda model=model: read_once(model)))  # type: ignore[misc]
        count = sum(one.numel() for one in model.parameters())
        shown.add_row(name, f"{count:,}", f"{first:.3f}", f"{min(others):.3f}", f"{weights:.3f}")
    CONSOLE.print(shown)


if __name__ == "__main__":
    main()
