"""Objects of pytorch-grad-cam and others with its signature: `cam(input_tensor=x, targets=[...])` gives maps (N, H, W)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.models import layer_of, unwrap
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure
from veracity.explain.wrapper import computed


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

    def spec(self) -> dict[str, Any]:
        kind = type(self.cam)
        transform = getattr(self.cam, "reshape_transform", None)
        about = {"class": f"{kind.__module__}:{kind.__qualname__}", "code": fingerprint.of_value((kind, transform)), "layers": self.layers}
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
        settings = {"reshape_transform": self.cam.reshape_transform} if getattr(self.cam, "reshape_transform", None) is not None else {}
        try:
            return type(self.cam)(model=model, target_layers=layers, **settings)
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
