from __future__ import annotations

import captum.attr
import pytest
from test_foreign import noisy
from torch import nn

from veracity.core.errors import SpecError
from veracity.explain import CaptumMethod, Function, Lime, Saliency, as_explainer


def factory(model: nn.Module) -> captum.attr.Attribution:
    return captum.attr.Saliency(model)


def test_explainers_names_and_tables() -> None:
    own = Saliency()
    assert as_explainer(own) is own
    assert as_explainer(Saliency) == own
    assert as_explainer("saliency") == own
    assert as_explainer({"name": "lime", "patch": 2}) == Lime(patch=2)


def test_import_paths() -> None:
    assert as_explainer("veracity.explain:Saliency") == Saliency()
    assert as_explainer({"name": "veracity.explain:Lime", "patch": 2}) == Lime(patch=2)
    function, method = as_explainer("test_foreign:noisy"), as_explainer("captum.attr:LRP")
    assert isinstance(function, Function)
    assert function.function is noisy
    assert isinstance(method, CaptumMethod)
    assert method.attribution is captum.attr.LRP
    window = as_explainer({"name": "captum.attr:Occlusion", "sliding_window_shapes": [1, 5, 5]})
    assert isinstance(window, CaptumMethod)
    assert window.settings == {"sliding_window_shapes": (1, 5, 5)}
    assert not window.random


def test_captum_classes_factories_and_functions() -> None:
    assert not as_explainer(captum.attr.DeepLift).stochastic
    assert as_explainer(captum.attr.ShapleyValueSampling).stochastic
    assert as_explainer(captum.attr.KernelShap).stochastic
    assert as_explainer(factory) == CaptumMethod(attribution=factory)
    assert as_explainer(noisy) == Function(function=noisy)


def spelled(value: object) -> str:
    return (getattr(value, "__name__", "") or str(value)).split(" object at ")[0][:30]


@pytest.mark.parametrize("value", [captum.attr.LRP, factory, noisy, "captum.attr:Occlusion", "lime"], ids=spelled)
def test_a_spec_makes_the_explainer_again(value: object) -> None:
    explainer = as_explainer(value)
    again = as_explainer(explainer.spec())
    assert again.spec() == explainer.spec()
    assert type(again) is type(explainer)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("salience", "Unknown explainer 'salience'. Did you mean 'saliency'"),
        ({"name": "lime", "pach": 2}, "Unknown setting of explainer 'lime' 'pach'. Did you mean 'patch'"),
        ({"name": "veracity.explain:Lime", "pach": 2}, "Did you mean 'patch'"),
        ({"patch": 2}, "Every explainer needs a name"),
        ("no_such_module:thing", "Cannot import 'no_such_module' for 'no_such_module:thing'"),
        ("captum.attr:Thing", "Unknown name in captum.attr: 'Thing'"),
        ({"name": "test_foreign:noisy", "a": 1}, "The explainer 'test_foreign:noisy' takes no settings, but got a"),
        (captum.attr.NeuronGradient, "NeuronGradient explains a neuron, not the input"),
        (captum.attr.GuidedGradCam, r"GuidedGradCam needs more than a model \(model, layer\): pass a factory"),
        (captum.attr.NoiseTunnel, "NoiseTunnel needs more than a model"),
        (lambda model, inputs: inputs, "takes 2 arguments"),
        (7, "An explainer is an Explainer, a name, .* not 7"),
    ],
    ids=spelled,
)
def test_mistakes_are_one_sentence(value: object, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        as_explainer(value)
