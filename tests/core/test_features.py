"""What the values of a table mean: reference values, scales, groups."""

from __future__ import annotations

import pytest
import torch

from veracity.core.errors import InputError, SpecError
from veracity.core.features import Features, background_note, features_of, group_sums
from veracity.core.inputs import FirstSamples, SelectedSamples, TensorInputs, TokenInputs

ROWS = torch.tensor([[1.0, 0.0, 1.0, 7.0], [2.0, 0.0, 1.0, 7.0], [6.0, 1.0, 0.0, 9.0]])
GROUPS = torch.tensor([0, 1, 1, 2])


def table(**settings: object) -> Features:
    return Features.measured(ROWS, names=["age", "job", "hours"], groups=GROUPS, **settings)  # type: ignore[arg-type]


def test_reference_values_come_from_their_own_column() -> None:
    """Means 3 and 23/3, medians 2 and 7, and the level (0, 1) of the one-hot columns, which occurs twice."""
    torch.testing.assert_close(table().centre("reference"), torch.tensor([3.0, 0.0, 1.0, 23 / 3]))
    torch.testing.assert_close(table().centre("mean"), table().centre("reference"))
    torch.testing.assert_close(table().centre("median"), torch.tensor([2.0, 0.0, 1.0, 7.0]))
    with pytest.raises((InputError, SpecError), match="Did you mean 'median'"):
        table().centre("medain")


def test_a_level_is_one_that_occurs() -> None:
    """Columns with the first level dropped: (0, 0) is the most frequent level, though each column alone might say something else."""
    rows = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert Features.measured(rows, groups=torch.tensor([0, 0])).centre().tolist() == [0.0, 0.0]


def test_scales_are_standard_deviations_and_zero_for_categories() -> None:
    scales = table().scales
    torch.testing.assert_close(scales[[0, 3]], ROWS.std(dim=0, correction=0)[[0, 3]])
    assert scales[[1, 2]].tolist() == [0.0, 0.0]
    assert Features.measured(ROWS).unit is None, "columns without names are taken as they are"


def test_columns_of_zeros_and_ones_are_no_category_unless_grouped() -> None:
    assert Features.measured(ROWS[:, 1:2]).categorical.tolist() == [False]


def test_sums_over_features_equal_a_loop() -> None:
    values = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    slow = torch.stack([values[:, feature == GROUPS].sum(1) for feature in range(3)], dim=1)
    torch.testing.assert_close(group_sums(values, GROUPS), slow)


def test_plain_vectors_are_rows_of_a_table_and_images_are_not() -> None:
    whole = TensorInputs(ROWS)
    own = features_of(whole)
    assert own is not None
    assert own.own
    assert not own.named
    torch.testing.assert_close(own.centre(), ROWS.mean(0))
    part = features_of(FirstSamples(whole, 2))
    assert part is not None
    torch.testing.assert_close(part.centre(), ROWS[:2].mean(0))
    given = features_of(whole, torch.zeros(2, 4))
    assert given is not None
    assert not given.own
    assert given.centre().tolist() == [0.0] * 4
    assert features_of(TensorInputs(torch.rand(2, 1, 3))) is None
    assert features_of(TokenInputs(torch.tensor([[0, 1]]), vocabulary=2)) is None


def test_a_single_sample_has_no_mean_of_its_own() -> None:
    """Its mean would be itself, and masks would do nothing: they take 0."""
    one = features_of(TensorInputs(ROWS[:1]))
    assert one is not None
    assert one.centre().tolist() == [0.0] * 4
    assert "single sample" in background_note(one)


def test_parts_of_a_table_know_its_features() -> None:
    class Known(TensorInputs):
        features = table()

    assert SelectedSamples(Known(ROWS), torch.tensor([1])).features.names == ("age", "job", "hours")


def test_names_and_features_must_fit() -> None:
    with pytest.raises(InputError, match="There are 3 features and 2 names"):
        Features.measured(ROWS, names=["age", "job"], groups=GROUPS)
