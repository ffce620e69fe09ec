from __future__ import annotations

import captum.attr
import pytest
import torch
from captum._utils.models.linear_model import SkLearnRidge
from captum.attr._core.lime import get_exp_kernel_similarity_function
from shift_invariant import Digits, context_of, explain
from sklearn.linear_model import Ridge
from torch import nn

from veracity.core.errors import SpecError
from veracity.explain import Lime
from veracity.explain.lime import input_kernel, weighted_ridge
from veracity.explain.masking import patch_index


def test_the_regression_is_scikit_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    z, y, w = (torch.rand(3, 20, *size, generator=generator, dtype=torch.float64) for size in ((5,), (), ()))
    found = weighted_ridge(z, y, w, ridge=0.7)
    for row in range(3):
        expected = Ridge(alpha=0.7).fit(z[row].numpy(), y[row].numpy(), sample_weight=w[row].numpy()).coef_
        torch.testing.assert_close(found[row], torch.tensor(expected))


@pytest.mark.parametrize("baseline", [0.0, 0.3])
def test_the_kernel_is_captums(digits: Digits, baseline: float) -> None:
    x, numbers = digits.inputs[:2], patch_index(digits.inputs[0].shape, 4)
    present = torch.rand(2, 6, 9, generator=torch.Generator().manual_seed(0)) < 0.5
    present[0, 0] = False
    found = input_kernel(present, x, torch.full_like(x, baseline), numbers, width=0.25)
    captums = get_exp_kernel_similarity_function("cosine", kernel_width=0.25)
    for row in range(2):
        for sample in range(6):
            masked = torch.where(present[row, sample][numbers], x[row], torch.tensor(baseline))
            assert captums(x[[row]], masked[None], None) == pytest.approx(float(found[row, sample]), abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_captums_lime_with_the_same_masks(digits: Digits) -> None:
    x, targets, context = digits.inputs[:2], digits.targets[:2], context_of(2, batch=7)
    numbers = patch_index(x[0].shape, 4)
    present = context.draws.uniform(200, 9, stream="lime") < 0.5
    found = Lime().explain(digits.model, x, targets, context)
    for row in range(2):

        def masks(*_: object, row: int = row, **__: object):  # type: ignore[no-untyped-def] # a generator, as Captum wants it
            yield from present[row].long().unsqueeze(1)

        theirs = captum.attr.Lime(
            digits.model,
            interpretable_model=SkLearnRidge(alpha=1.0),
            similarity_func=get_exp_kernel_similarity_function("cosine", kernel_width=0.25),
            perturb_func=masks,
        ).attribute(x[[row]], target=targets[[row]], feature_mask=numbers[None, None], n_samples=200, perturbations_per_eval=50)
        torch.testing.assert_close(found[[row]], theirs, rtol=1e-3, atol=1e-4)


def test_a_linear_model_is_found() -> None:
    """f = Σ w x has the coefficients w x, up to the penalty."""
    linear = nn.Linear(6, 1).double()
    x = torch.tensor([[1.0, -2.0, 3.0, 0.5, 1.0, 2.0]], dtype=torch.float64)
    found = explain(Lime(patch=1, ridge=1e-9, samples=100), linear, x, torch.tensor([0]))
    torch.testing.assert_close(found, linear.weight.detach() * x, rtol=1e-6, atol=1e-6)


def test_misuse_raises(digits: Digits) -> None:
    with pytest.raises(SpecError, match="patch of lime is 13"):
        Lime(patch=13).check(digits.model, digits.inputs, digits.targets)
    for setting in ("ridge", "samples", "patch"):
        with pytest.raises(SpecError, match=f"'{setting}' of explainer 'lime' must be a .*number"):
            Lime(**{setting: 0})
