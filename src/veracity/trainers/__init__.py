"""Learning algorithms as components, for models that an audit trains once per fold."""

from veracity.trainers.certified import certified_constant
from veracity.trainers.small_cnn import SmallCNN
from veracity.trainers.trainer import BaseTrainer, Trainer
