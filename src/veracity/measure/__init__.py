"""How alike two batches of explanations are, one number a sample: pure functions that know how to be read."""

from veracity.measure.distance import angle, l1, l2, mse, wasserstein
from veracity.measure.rank import average_ranks, spearman
from veracity.measure.similarity import categorical_agreement, cosine, pearson, sorensen_dice
from veracity.measure.structure import ssim

__all__ = [
    "angle",
    "average_ranks",
    "categorical_agreement",
    "cosine",
    "l1",
    "l2",
    "mse",
    "pearson",
    "sorensen_dice",
    "spearman",
    "ssim",
    "wasserstein",
]
