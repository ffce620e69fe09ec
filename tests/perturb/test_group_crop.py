import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import Signals
from veracity.perturb import Crop


def scenes(count=3, height=12, width=15):
    return torch.arange(float(count * 2 * height * width)).reshape(count, 2, height, width)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(0, 3), st.data())
def test_a_crop_is_a_slice(window, reach, data):
    x = scenes()
    space = Crop(window=window, reach=reach).fit(x.shape[1:])
    whole = st.integers(-reach, reach)
    elements = torch.tensor(data.draw(st.lists(st.tuples(whole, whole), min_size=3, max_size=3)))
    found = space.act(elements, x)
    top, left = (12 - window) // 2, (15 - window) // 2
    for (dx, dy), scene, cut in zip(elements.tolist(), x, found, strict=True):
        assert torch.equal(cut, scene[:, top + dy : top + dy + window, left + dx : left + dx + window])


def test_every_shift_is_numbered_once_and_number_zero_is_the_centre():
    space = Crop(window=4, reach=2)
    elements = space.enumerate()
    assert space.order == 25
    assert elements[0].tolist() == [0, 0]
    assert elements[1].tolist() == [1, 0]
    assert sorted(map(tuple, elements.tolist())) == [(dx, dy) for dx in range(-2, 3) for dy in range(-2, 3)]


def test_a_crop_moves_signals_and_lets_gradients_through():
    x = scenes(1).requires_grad_()
    moved = Crop(window=3, reach=2).move(torch.tensor([[1, -2]]), Signals(x))
    moved.values.sum().backward()
    assert moved.values.shape == (1, 2, 3, 3)
    assert x.grad.sum() == 2 * 9


def test_scenes_must_hold_every_window():
    Crop(window=4, reach=4).fit(torch.Size([1, 12, 12]))
    with pytest.raises(InputError, match=r"at least 12 x 12 pixels, but one sample has shape \(1, 12, 11\)"):
        Crop(window=4, reach=4).fit(torch.Size([1, 12, 11]))
    with pytest.raises(InputError, match="outside of scenes"):
        Crop(window=4, reach=4).act(torch.tensor([[5, 0]]), torch.rand(1, 1, 12, 12))
    with pytest.raises(InputError, match="one element for each of 2 inputs"):
        Crop(window=4, reach=4).act(torch.tensor([[5, 0]]), torch.rand(2, 1, 12, 12))


@pytest.mark.parametrize("settings", [{"window": 0}, {"reach": -1}, {"window": 2.0}, {"reach": True}])
def test_settings_are_whole_pixels(settings):
    with pytest.raises(SpecError, match="must be a whole number of at least"):
        Crop(**{"window": 4, "reach": 1, **settings})
