from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.core.errors import InputError
from veracity.explain.shap_calls import Values
from veracity.explain.shap_outputs import ExplainedOutput, close, explained_output, of_class

X, TARGETS = torch.zeros(2, 2), torch.tensor([0, 1])


def values(*totals: float, base: float = 0.0) -> Values:
    return Values(torch.tensor([[total - base, 0.0] for total in totals]).double(), torch.full((len(totals), 1), base).double())


def test_extra_axes_are_never_summed() -> None:
    with pytest.raises(InputError, match="values of interactions are not summed"):
        of_class("mine", torch.zeros(2, 2, 4, 2), X, TARGETS, None)
    with pytest.raises(InputError, match="has values for 2 classes, but class 2 is explained"):
        of_class("mine", torch.zeros(2, 2, 2), X, TARGETS + 1, None)


def test_signs_of_one_column() -> None:
    column = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for given in (column, column[..., None]):
        assert of_class("mine", given, X, TARGETS, ExplainedOutput(column=1)).tolist() == [[-1, -2], [3, 4]]
        assert of_class("mine", given, X, TARGETS, ExplainedOutput()).tolist() == column.tolist()


@pytest.mark.parametrize(
    ("totals", "scores", "want"),
    [
        ((0.2, 0.7), [[0.8, 0.2], [0.3, 0.7]], ExplainedOutput(column=1)),
        ((0.8, 0.3), [[0.8, 0.2], [0.3, 0.7]], ExplainedOutput(column=0)),
        ((2.0, -1.0), [[-2.0, 2.0], [1.0, -1.0]], ExplainedOutput(column=1)),
        ((2.0, -1.0), [[5.0, 2.0], [1.0, -1.0]], ExplainedOutput(only=1)),
        ((0.0, 1.0986), [[0.5, 0.5], [0.25, 0.75]], ExplainedOutput(column=1, margin=True)),
        ((2.0, -1.0), [[5.0, 2.0, 1.0], [1.0, -1.0, 1.0]], ExplainedOutput(only=1)),
    ],
    ids=["second", "first", "opposite logits", "logits", "margin", "three"],
)
def test_the_output_with_these_sums_is_explained(totals: tuple[float, ...], scores: list[list[float]], want: ExplainedOutput) -> None:
    assert explained_output("mine", values(*totals), torch.tensor(scores), Size((2,))) == want


def test_undecided_rows_take_the_expected_answer() -> None:
    even = torch.full((2, 2), 0.5)
    with pytest.raises(InputError, match="fits classes 0 and 1 alike"):
        explained_output("mine", values(0.5, 0.5), even, Size((2,)))
    want = ExplainedOutput(column=1)
    assert explained_output("mine", values(0.5, 0.5), even, Size((2,)), expected=want) == want


def test_values_without_a_base_do_not_say_which_class() -> None:
    with pytest.raises(InputError, match="explains one output of 2 and does not say which"):
        explained_output("mine", Values(torch.zeros(2, 2), None), torch.full((2, 2), 0.5), Size((2,)))


def test_closeness_is_measured_from_the_base_value() -> None:
    outputs, base = torch.tensor([151.0, 149.0]), torch.tensor([150.0, 150.0])
    assert close(outputs + 0.005, outputs, base)
    assert not close(outputs + 0.05, outputs, base)
    assert close(base + 1e-4, base, base)  # rounding, if nothing differs from the base value
