"""How alike two batches of explanations are, one number a sample: pure functions that know how to be read."""

from veracity.measure.distance import angle, as_distance, l1, l2, mse, sliced_wasserstein, wasserstein
from veracity.measure.rank import average_ranks, rank_distance, root_rank_distance, signed_rank_distance, spearman
from veracity.measure.similarity import categorical_agreement, cosine, pearson, sorensen_dice, ssim
