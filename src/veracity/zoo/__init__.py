"""Small networks, many of them with a known symmetry, weights for them, and trainers."""

from veracity.zoo.certified import certified_constant
from veracity.zoo.detectors_foreign import TorchvisionDetector, TransformersDetector
from veracity.zoo.farneback import Farneback
from veracity.zoo.lipschitz import Lipschitz
from veracity.zoo.resnet18 import ResNet18
from veracity.zoo.small_cnn import SmallCNN
from veracity.zoo.trainer import BaseTrainer, Trainer

__all__ = [
    "BaseTrainer",
    "Farneback",
    "Lipschitz",
    "ResNet18",
    "SmallCNN",
    "TorchvisionDetector",
    "Trainer",
    "TransformersDetector",
    "certified_constant",
]
