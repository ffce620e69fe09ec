"""Folds: disjoint, stratified, seeded; what cannot be folds is refused in one sentence."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, StratifiedKFold

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SPACES
from veracity.perturb.folds import Folds, check_classes, members


def labels_of(counts):
    return torch.cat([torch.full((count,), number) for number, count in enumerate(counts)])


def test_elements_are_the_other_models():
    space = SPACES.build({"name": "folds", "k": 4})
    assert space.order == 3
    assert not space.nested
    assert space.enumerate().tolist() == [[0], [1], [2]]


def test_one_fold_is_no_space():
    with pytest.raises(SpecError, match="'k' of space 'folds' must be a whole number of at least 2, not 1"):
        Folds(k=1)


@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_folds_are_stratified_and_hold_every_sample_once(k):
    labels = labels_of([50, 31, 20])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    found = members(k, labels, seed=3)
    assert sorted(found.unique().tolist()) == list(range(k))
    sizes = found.bincount()
    assert int(sizes.max() - sizes.min()) <= 1
    for label in range(3):
        here = found[labels == label].bincount(minlength=k)
        assert int(here.max() - here.min()) <= 1


def test_folds_follow_from_the_seed():
    labels = labels_of([40, 40])
    assert torch.equal(members(5, labels, seed=1), members(5, labels, seed=1))
    assert not torch.equal(members(5, labels, seed=1), members(5, labels, seed=2))


def test_splitters_of_scikit_learn_are_taken_as_they_are():
    labels = labels_of([6, 6])
    found = members(KFold(3), labels[torch.tensor([0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11])])
    assert found.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    own = members(StratifiedKFold(3, shuffle=True, random_state=5), labels)
    assert own.bincount().tolist() == [4, 4, 4]


def test_given_folds_stay():
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    assert members(np.array([0, 0, 1, 1, 2, 2]), labels).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("folds", "labels", "sentence"),
    [
        (1, labels_of([4, 4]), "cannot be cut into 1 folds"),
        (9, labels_of([4, 4]), "cannot be cut into 9 folds"),
        (2, labels_of([4, 1]), "Class 1 has a single sample"),
        (ShuffleSplit(3, random_state=0), labels_of([4, 4]), "disjoint folds that hold every sample once"),
        (GroupKFold(2), labels_of([4, 4]), "GroupKFold cannot cut 8 samples"),
        ([0, 0, 1], labels_of([4, 4]), "one whole number for each of the 8 samples"),
        ([0.5] * 8, labels_of([4, 4]), "one whole number for each of the 8 samples"),
        ([0, 0, 2, 2, 0, 0, 2, 2], labels_of([4, 4]), "numbered 0 to k - 1"),
        ("five", labels_of([4, 4]), "a number of folds, a splitter, or the fold of each sample"),
    ],
)
def test_what_cannot_be_folds_is_refused(folds, labels, sentence):
    with pytest.raises(InputError, match=sentence):
        members(folds, labels)


def test_a_class_that_is_left_out_is_told():
    labels = labels_of([4, 4])
    with pytest.raises(InputError, match="Every sample of class 0 lies in fold 0"):
        check_classes(members(KFold(2), labels), labels)
    with pytest.raises(InputError, match="training needs at least two classes"):
        check_classes(members(2, labels_of([4])), labels_of([4]))


def test_a_splitter_without_a_seed_takes_ours_and_leaves_the_global_state():
    labels = labels_of([20, 20])
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (members(KFold(4, shuffle=True), labels, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_one_fold_a_sample_is_allowed():
    labels = labels_of([3, 3])
    assert members(LeaveOneOut(), labels).tolist() == list(range(6))
