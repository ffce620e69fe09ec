"""ONNX files as models, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError, missing_extra
from veracity.core.registry import MODELS
from veracity.models.base import NumpyModel

TYPES: dict[str, type] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
}


@MODELS.add
class OnnxModel(NumpyModel):
    """A network in an ONNX file: a path that ends with .onnx, or the file's bytes.

    The first input of the network takes the values that are explained, and further inputs take what is carried along. If the file
    fixes the number of rows, batches are cut and filled up to it. Its answer is the first output that is a tensor of floating-point
    numbers and has more than one dimension, else the first.
    """

    name = "onnx"

    def __init__(self, value: str | Path | bytes) -> None:
        super().__init__()
        self.label = Path(value).name if isinstance(value, (str, Path)) else "ONNX model"
        if isinstance(value, (str, Path)):
            path = Path(value)
            if not path.is_file():
                raise InputError(f"There is no file '{value}': pass the path of an ONNX file.")
            value = path.read_bytes()
        self.content = value
        self.session  # noqa: B018  (raises now if the file cannot be read)

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """The path of an ONNX file, or bytes."""
        return (isinstance(value, (str, Path)) and str(value).lower().endswith(".onnx")) or isinstance(value, bytes)

    @property
    def title(self) -> str:
        """The file's name."""
        return f"The ONNX file '{self.label}'"

    @property
    def session(self) -> Any:
        """The loaded network; it does not travel to other processes, which load the file again."""
        if "_session" not in self.__dict__:
            try:
                import onnxruntime
            except ImportError as error:
                raise missing_extra("onnxruntime", "onnx") from error
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            try:
                self.__dict__["_session"] = onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise InputError(f"{self.title} cannot be loaded ({' '.join(str(error).split())[:160]}): export it again.") from error
        return self.__dict__["_session"]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_session"}

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(one.name for one in self.session.get_inputs())

    def predict(self, values: NDArray[Any], *structure: NDArray[Any]) -> NDArray[Any]:
        """The network's answer, in batches of the size that the file fixes."""
        feeds = self.session.get_inputs()
        parts = (values, *structure)
        if len(feeds) != len(parts):
            raise InputError(
                f"{self.title} takes {len(feeds)} inputs ({', '.join(one.name for one in feeds)}), but a sample has {len(parts)}: "
                "pass inputs={'name': array, ...} with these names."
            )
        for feed, part in zip(feeds, parts, strict=True):
            want = tuple(feed.shape[1:])
            if len(want) != part.ndim - 1 or any(isinstance(a, int) and a != b for a, b in zip(want, part.shape[1:], strict=True)):
                shown = tuple(size if isinstance(size, int) else "any" for size in want)
                raise InputError(
                    f"{self.title} takes samples of shape {shown} as '{feed.name}', not {part.shape[1:]}: export it for this shape."
                )
        cast = {feed.name: part.astype(TYPES.get(feed.type, part.dtype), copy=False) for feed, part in zip(feeds, parts, strict=True)}
        name, fixed = self.output, feeds[0].shape[0]
        if not isinstance(fixed, int):
            return self.answer(name, cast)
        rows = len(values)
        index = np.arange(-(-rows // fixed) * fixed) % rows
        answers = [self.answer(name, {key: part[some] for key, part in cast.items()}) for some in index.reshape(-1, fixed)]
        return np.concatenate(answers)[:rows]

    def answer(self, output: str, feeds: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """One output for one batch; raises if axes that the file leaves open have sizes that do not fit."""
        try:
            found: NDArray[Any] = self.session.run([output], feeds)[0]
        except Exception as error:
            shapes = ", ".join(f"{part.shape[1:]} as '{name}'" for name, part in feeds.items())
            reason = " ".join(str(error).rpartition("Status Message: ")[2].split())[:160]
            raise InputError(f"{self.title} fails on samples of shape {shapes} ({reason}): export it for this shape.") from error
        return found

    @property
    def output(self) -> str:
        """The output that holds the scores."""
        found = [one for one in self.session.get_outputs() if one.type in ("tensor(float)", "tensor(double)", "tensor(float16)")]
        if not found:
            kinds = ", ".join(f"{one.name}: {one.type}" for one in self.session.get_outputs())
            raise InputError(f"{self.title} returns no tensor of scores ({kinds}): export it without ZipMap.")
        name: str = next((one.name for one in found if len(one.shape or ()) > 1), found[0].name)
        return name
