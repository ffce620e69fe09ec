"""How alike two batches of explanations are, one number a sample: pure functions that know how to be read."""

from veracity.measure.dissimilarity import as_distance
from veracity.measure.distance import angle, l1, l2, mse, wasserstein
from veracity.measure.rank import average_ranks, spearman
from veracity.measure.rank_distance import rank_distance, root_rank_distance, signed_rank_distance
from veracity.measure.similarity import categorical_agreement, cosine, pearson, sorensen_dice
from veracity.measure.structure import ssim
from veracity.measure.transport import sliced_wasserstein

__all__ = [
    "angle",
    "as_distance",
    "average_ranks",
    "categorical_agreement",
    "cosine",
    "l1",
    "l2",
    "mse",
    "pearson",
    "rank_distance",
    "root_rank_distance",
    "signed_rank_distance",
    "sliced_wasserstein",
    "sorensen_dice",
    "spearman",
    "ssim",
    "wasserstein",
]
