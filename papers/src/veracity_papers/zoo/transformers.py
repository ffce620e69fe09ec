"""The small networks of `transformers` that were trained on texts and satellite images: see train_transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from safetensors.torch import load_file
from torch import Size, Tensor, nn

from veracity.core.registry import TRAINERS
from veracity.core.settings import Count, Positive
from veracity.trainers.trainer import BaseTrainer

WEIGHTS = Path(__file__).parent / "weights"
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def load_text(name: str) -> tuple[Any, Any]:
    """The DistilBERT that classifies the texts of "sst2" or "sms", and its tokenizer."""
    from transformers import DistilBertForSequenceClassification

    return filled(DistilBertForSequenceClassification(text_config(name)), f"{name}-distilbert"), load_tokenizer(name)


def load_tokenizer(name: str) -> Any:
    """The WordPiece tokenizer of "sst2" or "sms"."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(WEIGHTS / f"{name}-tokenizer.json"), **SPECIAL)


def text_config(name: str, **changes: Any) -> Any:
    """The configuration of a text classifier, such as dim=32 for a smaller one."""
    from transformers import DistilBertConfig

    return DistilBertConfig.from_dict({**json.loads((WEIGHTS / f"{name}-distilbert.json").read_text()), **changes})


def load_images(name: str) -> nn.Module:
    """The network that classifies EuroSAT's images (3, 64, 64): "eurosat-vit" or "eurosat-resnet", with logits as its output."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

    kind, config = {
        "eurosat-vit": (ViTForImageClassification, ViTConfig),
        "eurosat-resnet": (ResNetForImageClassification, ResNetConfig),
    }[name]
    settings = json.loads((WEIGHTS / f"{name}.json").read_text())
    return Logits(filled(kind(config.from_dict(settings)), name)).eval()


def filled(model: Any, name: str) -> Any:
    """A model with the stored weights, in full precision."""
    stored = load_file(WEIGHTS / f"{name}.safetensors")
    model.load_state_dict({key: part.float() if part.is_floating_point() else part for key, part in stored.items()})
    return model.eval()


class Logits(nn.Module):
    """A model of `transformers` on images, reduced to its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits (N, classes)."""
        found: Tensor = self.model(pixel_values=pixels).logits
        return found


@TRAINERS.add
@dataclass(frozen=True, kw_only=True)
class SmallDistilBert(BaseTrainer):
    """DistilBERT with few and narrow layers, for texts with the stored tokenizer of "sst2" or "sms".

    width, layers, heads   its size
    data                   whose vocabulary
    """

    name: ClassVar[str] = "small_distilbert"
    reference: ClassVar[str] = "Sanh et al. 2019, arXiv:1910.01108"
    width: Count = 128
    layers: Count = 2
    heads: Count = 4
    data: str = "sst2"
    rate: Positive = 1e-3

    def on(self, data: str) -> SmallDistilBert:
        """The trainer for another vocabulary."""
        return replace(self, data=data)

    def build(self, shape: Size, classes: int) -> nn.Module:
        """The network, with fresh weights."""
        from transformers import DistilBertForSequenceClassification

        size = {"dim": self.width, "hidden_dim": 4 * self.width, "n_layers": self.layers, "n_heads": self.heads, "num_labels": classes}
        model: nn.Module = DistilBertForSequenceClassification(text_config(self.data, **size))
        return model
