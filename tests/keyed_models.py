"""Models of many kinds, with the same weights in every process. As a script, it writes their keys and audits them in a folder."""

from __future__ import annotations

import json
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.core import fingerprint
from veracity.scores import MaxSensitivity
from veracity.walk import MonteCarlo

logger = logging.getLogger(__name__)
X = torch.linspace(-1, 1, 12 * 8).sin().reshape(12, 8)
LABELS = (X.sum(1) > 0).long()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(((q @ k.transpose(-2, -1) * self.scale).softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, width))


class Block(nn.Module):
    def __init__(self, width: int, norm: Callable[[int], nn.Module], act: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.attention, self.second = norm(width), Attention(width, 2), norm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class VisionTransformer(nn.Module):
    """As timm writes it: layers from a partial function, a registry, a logger beside it."""

    names = frozenset({"patch", "class", "position"})

    def __init__(self, size: int = 8, patch: int = 4, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.patch = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, self.norm_layer, nn.GELU) for _ in range(depth)))
        self.norm, self.head = self.norm_layer(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        logger.debug("%s", tuple(x.shape))
        x = self.patch(x.reshape(len(x), 1, 8, -1).expand(-1, -1, -1, 8)).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Wrapped(nn.Module):
    """A network beside something fitted by another library."""

    def __init__(self, fitted: Any) -> None:
        super().__init__()
        self.fitted, self.line = fitted, nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        chances = self.fitted.predict_proba(x.detach().cpu().numpy())
        return self.line(x) + torch.as_tensor(chances, dtype=x.dtype, device=x.device)


class Logs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line, self.log = nn.Linear(8, 2), logging.getLogger("own")

    def forward(self, x: Tensor) -> Tensor:
        logger.debug("forward")
        logging.getLogger(__name__ + ".inner").debug("again")
        return self.line(x)


class Worker(threading.Thread):
    def run(self) -> None:
        logger.debug("thread %s", self.ident)


class Holds(nn.Module):
    """A network with a lock, a thread, an open file, and more that belongs to one process."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 2)
        self.lock, self.again, self.event = threading.Lock(), threading.RLock(), threading.Event()
        self.thread = Worker()
        self.thread.start()
        self.thread.join()
        self.file, self.errors = open(__file__), sys.stderr  # noqa: SIM115
        self.back, self.local = weakref.ref(self.line), threading.local()
        self.noise, self.numbers = torch.Generator(), np.random.default_rng()

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            return self.line(x)


class Kind(Enum):
    PLAIN = "plain"
    ODD = "odd"


class Sets(nn.Module):
    """A network with sets of words, whose order follows PYTHONHASHSEED."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 2)
        self.words = {"alpha", "beta", "gamma", "delta"}
        self.groups = {frozenset({"a", "b"}), frozenset({"c", Kind.ODD})}
        self.table = {Kind.PLAIN: {1.5, 2.5}, ("x", 1): {"one", "two"}}

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) if "alpha" in {"alpha", "omega", "sigma"} else x


class Tokens(nn.Module):
    """Hugging Face's classifier on hidden states, in place of words."""

    def __init__(self) -> None:
        from transformers import DistilBertConfig, DistilBertForSequenceClassification

        super().__init__()
        config = DistilBertConfig(vocab_size=50, dim=16, hidden_dim=32, n_layers=2, n_heads=2, max_position_embeddings=16)
        self.bert = DistilBertForSequenceClassification(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.bert(inputs_embeds=x.unsqueeze(-1).expand(-1, -1, 16)).logits


def hooked() -> nn.Module:
    net, factor = nn.Sequential(nn.Linear(8, 2)), 2.0
    net[0].register_forward_hook(lambda module, inputs, output: output * factor)
    return net


def forest() -> nn.Module:
    from sklearn.ensemble import RandomForestClassifier

    return Wrapped(RandomForestClassifier(5, random_state=0).fit(X.numpy(), LABELS.numpy()))


def boosted() -> nn.Module:
    from xgboost import XGBClassifier

    return Wrapped(XGBClassifier(n_estimators=5, n_jobs=1).fit(X.numpy(), LABELS.numpy()))


def local() -> nn.Module:
    from mine.net import Net

    return Net()


KINDS: dict[str, Callable[[], nn.Module]] = {
    "vision transformer": VisionTransformer,
    "transformers": Tokens,
    "forest": forest,
    "xgboost": boosted,
    "logs": Logs,
    "holds": Holds,
    "sets": Sets,
    "hooked": hooked,
    "editable": local,
}


def model(kind: str) -> nn.Module:
    """One of the models above, in evaluation mode."""
    torch.manual_seed(0)
    return KINDS[kind]().eval()


def audit(folder: str) -> dict[str, int]:
    """Audit them all, and say how many cells there are and how many of them the folder had before."""
    models = {kind: model(kind) for kind in KINDS}
    given = Audit(
        models=models, inputs=X, explainers=["feature_ablation"], scores=[MaxSensitivity(walk=MonteCarlo(draws=2))], controls=False
    )
    before = given.forecast(folder)
    given.run(folder, progress=False)
    return {"cells": before.cells, "finished": before.finished, "stored": len(list(Path(folder).glob("cells/*")))}


if __name__ == "__main__":
    torch.set_num_threads(1)
    keys = {kind: fingerprint.of_model(model(kind)) for kind in KINDS}
    sys.stdout.write(json.dumps({"keys": keys, "audit": audit(sys.argv[1])}))
