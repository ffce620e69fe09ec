"""Objects of pytorch-grad-cam and others with its signature: `cam(input_tensor=x, targets=[...])` gives maps (N, H, W)."""

from __future__ import annotations

import inspect
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.models import layer_of, unwrap
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure
from veracity.explain.wrapper import computed

PLAIN = (bool, int, float, str)


@dataclass(frozen=True, kw_only=True)
class CamObject(Foreign):
    """A class activation map object, made for one model and some of its layers; it is made again for copies of the model."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(type(self.cam)))
    signed: ClassVar[bool] = False
    hint: ClassVar[str] = "; the object must take cam(input_tensor=..., targets=[...])"
    cam: Any

    @staticmethod
    def accepts(value: Any) -> bool:
        """Whether an object has the signature of pytorch-grad-cam."""
        return (
            not isinstance(value, type)
            and callable(value)
            and hasattr(value, "target_layers")
            and isinstance(getattr(value, "model", None), nn.Module)
        )

    @property
    def layers(self) -> list[str]:
        """The names of the layers that the object looks at."""
        names = {id(part): name for name, part in unwrap(self.cam.model).named_modules()}
        return [names.get(id(layer), "") for layer in self.cam.target_layers]

    @property
    def given(self) -> dict[str, Any]:
        """What the object was made with, besides model and layers: arguments that it keeps under their names."""
        known = inspect.signature(type(self.cam)).parameters
        return {name: held for name, held in vars(self.cam).items() if name in known and name not in ("model", "target_layers")}

    @property
    def switches(self) -> dict[str, Any]:
        """Its other plain settings, some of which are set after it was made, such as `batch_size`."""
        return {name: held for name, held in vars(self.cam).items() if isinstance(held, PLAIN) and not name.startswith("_")}

    def spec(self) -> dict[str, Any]:
        kind = type(self.cam)
        code = fingerprint.of_value((kind, sorted(self.given.items()), sorted(self.switches.items())))
        about = {"class": f"{kind.__module__}:{kind.__qualname__}", "code": code, "layers": self.layers}
        return {"name": self.name, "cam": about, "random": self.random}

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        chosen = [ClassScore(int(target)) for target in targets]
        return self.made_for(model)(input_tensor=inputs, targets=chosen)

    def made_for(self, model: nn.Module) -> Any:
        """The object itself for its own model, and one like it for a copy."""
        if model is self.cam.model:
            return self.cam
        inside = dict(unwrap(model).named_modules())
        absent = next((name for name in self.layers if name not in inside), None)
        if absent is not None or "" in self.layers:
            raise InputError(
                f"{self.name} looks at layers of another model than the audited one: make it with model=... of the audited model."
            )
        layers = [layer_of(model, name) for name in self.layers]
        try:
            made = type(self.cam)(model=model, target_layers=layers, **{name: copy(held) for name, held in self.given.items()})
            for name, held in self.switches.items():
                setattr(made, name, held)
            return made
        except TypeError as error:
            raise InputError(
                f"{self.name} cannot be made again for a copy of the model ({error}): pass a function (model, inputs, targets) that "
                "makes it."
            ) from error


class ClassScore:
    """The score of one class, as pytorch-grad-cam calls it on the output of one row."""

    def __init__(self, category: int) -> None:
        self.category = category

    def __call__(self, output: Tensor) -> Tensor:
        """Scores (K,) or (N, K) to the class's."""
        return output[..., self.category]
