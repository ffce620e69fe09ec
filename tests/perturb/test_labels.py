"""A share of labels replaced by other classes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from veracity.core.errors import InputError, SpecError
from veracity.perturb import WrongLabels, wrong_labels

SHARES = (0.05, 0.10, 0.30)


@given(st.integers(2, 60), st.integers(2, 6), st.integers(0, 1000))
def test_the_count_is_exact_and_shares_are_nested(size, classes, seed):
    labels = (torch.arange(size) % classes) * 7 - 3
    last = labels
    for share in (0.0, *SHARES, 1.0):
        found = wrong_labels(labels, share, seed)
        wrong = found != labels
        assert int(wrong.sum()) == round(share * size)
        assert set(found.tolist()) <= set(labels.tolist())
        assert torch.equal(found[last != labels], last[last != labels])
        last = found


def test_what_a_label_becomes_is_uniform_among_the_others():
    labels = torch.zeros(6000, dtype=torch.long)
    labels[-4:] = torch.arange(4)
    found = wrong_labels(labels, 1.0, seed=2)[:5990].bincount(minlength=4)
    assert found[0] == 0
    assert chisquare(found[1:].numpy()).pvalue > 0.01


def test_which_labels_are_wrong_does_not_depend_on_where_they_stand():
    labels = torch.arange(2).repeat(20)
    hits = torch.stack([wrong_labels(labels, 0.3, seed) != labels for seed in range(300)]).sum(0)
    assert chisquare(hits.numpy()).statistic / 39 < 1.6
    assert int(hits.min()) > 50


def test_labels_state_and_type_stay_as_they_were():
    labels, state = torch.arange(10, dtype=torch.int32), torch.get_rng_state()
    found = WrongLabels().of(labels, 0.5, seed=1)
    assert found.dtype == torch.int32
    assert torch.equal(found, wrong_labels(labels, 0.5, 1))
    assert not torch.equal(found, wrong_labels(labels, 0.5, 2))
    assert torch.equal(labels, torch.arange(10, dtype=torch.int32))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("labels", [torch.rand(4), torch.zeros(2, 2, dtype=torch.long), [0, 1]])
def test_what_is_no_label_is_refused(labels):
    with pytest.raises(InputError, match="whole numbers, one per sample"):
        wrong_labels(labels, 0.1, 0)


def test_one_class_has_no_wrong_label():
    with pytest.raises(InputError, match="at least two classes"):
        wrong_labels(torch.ones(5, dtype=torch.long), 0.1, 0)


@pytest.mark.parametrize("share", [-0.1, 1.5, True, "0.1"])
def test_a_share_lies_between_none_and_all(share):
    with pytest.raises(SpecError, match="between 0 and 1"):
        wrong_labels(torch.arange(4), share, 0)
