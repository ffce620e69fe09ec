"""How similar two batches of explanations are: pure functions (N, ...) x (N, ...) -> (N,) with a direction and a range."""

from veracity.measure.distance import angle, as_distance, cosine_distance, l1, l2, mse, sliced_wasserstein, wasserstein
from veracity.measure.rank import average_ranks, rank_distance, root_rank_distance, signed_rank_distance, spearman
from veracity.measure.similarity import categorical_agreement, cosine, pearson, sorensen_dice, ssim
