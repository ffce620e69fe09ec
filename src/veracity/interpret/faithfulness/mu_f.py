"""Fidelity as the stability paper measures it, beside which it reads MeGe and ReCo."""

from __future__ import annotations

from dataclasses import dataclass

from veracity.core.registry import SCORES
from veracity.core.settings import Portion
from veracity.interpret.faithfulness.correlation import FaithfulnessCorrelation


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MuF(FaithfulnessCorrelation):
    """Pearson's correlation, over random subsets S of 15 % of the entries, of what S was given and of what setting it to 0 costs (eq. 7).

        muF = corr over S, |S| = 0.15 d, of (sum of e_i over i in S, f(x) - f(x with x_i = 0 for i in S))

    f is the explained logit and S is drawn from the d entries of the input, channel by channel, since eq. 7 draws from 1..d. It
    is `faithfulness_correlation` with the paper's share and baseline; the paper does not say how many subsets it drew, here
    `nr_runs`. `mu_fidelity` is the form with cells and ranks.
    """

    name = "mu_f"
    reference = "Bhatt, Weller and Moura (IJCAI 2020), as in Fel et al., How good is your explanation? (WACV 2022), 4.3 and eq. 7"
    subset_size: Portion = 0.15
    perturb_baseline: float | str = 0.0
