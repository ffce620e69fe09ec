"""The audit file: an audit in TOML, with models and data by `module:function` and weights by path."""

from __future__ import annotations

import csv
import json
import os
import pickle
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.registry import TRAINERS, import_object
from veracity.core.settings import short_repr
from veracity.core.training import CrossTrained
from veracity.inputs import Boxes, RelevantFeatures
from veracity.inputs.text import texts_for
from veracity.models import PipelineModel, as_model

KEYS: dict[str, Any] = {
    **dict.fromkeys(("title", "outputs", "precision", "out"), str),
    **dict.fromkeys(("data", "reference", "training"), (str, dict)),
    **dict.fromkeys(("concepts", "checkpoints", "models"), dict),
    "explainers": (list, dict),
    "scores": (list, dict, str),
    **dict.fromkeys(("symmetry", "truth", "walk", "units", "by"), (str, dict)),
    **dict.fromkeys(("examples", "seed"), int),
    **dict.fromkeys(("controls", "companions"), bool),
    "target": (str, int, dict),
    "confidence": (float, int),
}
"""The keys of an audit file and the types of their values."""
MODEL_KEYS = {"build": str, "weights": str, "settings": dict}
CSV_KEYS = {"file": str, "text": str, "label": str, "truncate": bool, "length": int, "unit": str}
HOW_READ = ("truncate", "length", "unit")
"""What the table of the data may say about how texts are read."""
CSV_FORM = '{file = "reviews.csv", text = "sentence", label = "sentiment"}, or without text for a table'
CROSSED_KEYS = {"fit": (str, dict), "folds": int, "build": str, "seed": int, "reseed": bool, "folder": str}
KIND_NAMES = {str: "text", list: "a list", dict: "a table", bool: "true or false", int: "a whole number", float: "a number"}


def read(path: Path) -> tuple[Audit, Path | str]:
    """The audit that a file describes, and the run folder that it names (or runs/<file name>); one in a bucket is a text."""
    if not path.is_file():
        raise SpecError(f"There is no audit file {path}.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}.") from error
    check(content, KEYS, str(path))
    for key in ("data", "models"):
        if key not in content:
            raise SpecError(f"{path} needs '{key}'.")
    here = path.resolve().parent
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    named = content.pop("out", f"runs/{path.stem}")
    out = named if "://" in named else here / named
    models = {name: model(name, entry, here) for name, entry in content.pop("models").items()}
    inputs, targets = data(content.pop("data"), here, models)
    reference = content.pop("reference", None)
    given: dict[str, Any] = {
        "reference": None if reference is None else data(reference, here, models)[0],
        "truth": truth(content.pop("truth"), here) if "truth" in content else None,
        **{name: people(content.pop(name), here, name) for name in ("units", "by") if name in content},
        "training": data(content.pop("training"), here, models) if "training" in content else None,
        "concepts": {name: concept(name, entry) for name, entry in content.pop("concepts", {}).items()},
        "checkpoints": {name: checkpoints(name, listed, here) for name, listed in content.pop("checkpoints", {}).items()},
    }
    return Audit(models=models, inputs=inputs, targets=targets, about={"data": path.name}, **given, **content), out


TRUTHS: dict[str, Callable[[Any], Any]] = {"boxes": Boxes, "features": RelevantFeatures}
"""Forms of the ground truth other than masks."""


def truth(given: Any, here: Path) -> Any:
    """The ground truth from a file of masks beside the audit file, from module:function, or as a table {boxes = ...} or {features = ...}.

    Boxes and features are a list, or the name of a JSON file that holds it.
    """
    if isinstance(given, str):
        return masks(given, here)
    check(given, dict.fromkeys(TRUTHS, (list, str)), "truth")
    if len(given) != 1:
        raise SpecError('The truth as a table has one key: {boxes = "boxes.json"} for images, or {features = ["age", "job"]} for a table.')
    ((kind, content),) = given.items()
    if isinstance(content, str):
        file = here / content
        if not file.is_file():
            raise InputError(f"There is no file {file} with the ground truth.")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InputError(f"{file} is not a readable JSON file: {' '.join(str(error).split())[:160]}") from error
    return TRUTHS[kind](content)


def people(given: Any, here: Path, what: str) -> Any:
    """Labels of samples, for `units` and `by`, or a table {name = labels} of them.

    Labels come from module:function, a text file with one label per line, an .npy file, {file = "people.csv", column = "sex"}, or a column
    of the table of inputs by its name.
    """
    if isinstance(given, dict) and set(given) == {"file", "column"} and all(isinstance(one, str) for one in given.values()):
        return csv_column(given["file"], given["column"], here)
    if isinstance(given, dict) and "." not in what:
        return {name: people(one, here, f"{what}.{name}") for name, one in given.items()}
    if not isinstance(given, str):
        raise SpecError(
            f'{what} is the name of a file, "module:function", or {{file = "people.csv", column = ...}}, not {short_repr(given)}.'
        )
    if given.endswith(".npy") or ":" in given:
        return masks(given, here, f"the labels of {what}")
    if not given.endswith(".txt"):
        return given
    try:
        return (here / given).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{here / given} with the labels of {what} cannot be read: {' '.join(str(error).split())[:160]}") from error


def csv_column(file: str, column: str, here: Path) -> Any:
    """A column of a CSV file beside the audit file, as text. Only an empty field is missing: "NA" and "None" may be labels."""
    return column_of(read_csv(file, here, dtype=str), column, file)


def read_csv(file: str, here: Path, **settings: Any) -> Any:
    """A CSV file beside the audit file as a table, in which only an empty field is missing."""
    import pandas as pd

    try:
        with open(here / file, encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines), [])
        table = pd.read_csv(here / file, keep_default_na=False, na_values=[""], encoding="utf-8-sig", **settings)
    except UnicodeDecodeError as error:
        raise InputError(f"{here / file} is not in UTF-8: save it in that encoding.") from error
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{here / file} is not a readable CSV file: {' '.join(str(error).split())[:160]}") from error
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise InputError(f"The fields of {file} must be separated by commas: its first line is {names[0][:80]!r}.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{file} has two columns of the name '{twice[0]}': rename one of them.")
    if not isinstance(table.index, pd.RangeIndex):  # then pandas takes the first field of each line for its name
        raise InputError(f"Lines of {file} have more fields than its first line has names: put texts with commas into quotes.")
    if not len(table):
        raise InputError(f"{file} has no rows.")
    return table


def column_of(table: Any, column: str, file: str) -> Any:
    """A column of a table that was read from a file."""
    if column not in table:
        raise unknown(f"column of {file}", column, map(str, table.columns))
    return table[column]


def csv_data(given: Mapping[str, Any], here: Path, models: Mapping[str, Any]) -> tuple[Any, Any]:
    """Inputs and targets of a CSV file: the column `text`, or for a table all columns but the `label`; without a label, no targets.

    With `truncate`, `length` or `unit`, texts are read so by the tokenizer of the first model.
    """
    check(given, CSV_KEYS, "data")
    if "file" not in given:
        raise SpecError(f"data as a table needs 'file': {CSV_FORM}.")
    file = given["file"]
    table = read_csv(file, here, dtype={given["text"]: str} if "text" in given else None)
    parts = {what: column_of(table, given[what], file) for what in ("text", "label") if what in given}
    for what, column in parts.items():
        if column.isna().any():
            row = int(column.isna().to_numpy().argmax()) + 1
            raise InputError(f"Row {row} of {file} has no {what} in the column '{given[what]}': fill it in, or delete the row.")
    targets = parts["label"].tolist() if "label" in parts else None
    how = {key: given[key] for key in HOW_READ if key in given}
    if "text" in parts:
        texts = parts["text"].tolist()
        return (replace(texts_for(next(iter(models.values())), texts), **how) if how and models else texts), targets
    if how:
        raise SpecError(f"'{next(iter(how))}' in data says how texts are read: name their column too, such as text = \"sentence\".")
    if unnamed := [name for name in table.columns if str(name).startswith("Unnamed: ")]:
        raise InputError(
            f"Column {list(table.columns).index(unnamed[0]) + 1} of {file} has no name: name it, or leave it out if it counts rows."
        )
    return table.drop(columns=given.get("label", [])), targets


def masks(where: str, here: Path, what: str = "the ground truth") -> Any:
    """The ground truth, or labels, from an .npy file beside the audit file, or from module:function."""
    if not where.endswith(".npy"):
        return call(where, {})
    file = here / where
    if not file.is_file():
        raise InputError(f"There is no file {file} with {what}.")
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{file} is not a readable .npy file of numbers: {' '.join(str(error).split())[:160]}") from error


def checkpoints(name: str, listed: Any, here: Path) -> list[Any]:
    """A model's checkpoints: files, or pairs of a file and its learning rate."""
    wanted = f"The checkpoints of '{name}' are a list of files, such as [\"epoch1.safetensors\"], or of pairs [file, learning rate]"
    if not isinstance(listed, list):
        raise SpecError(f"{wanted}, not {short_repr(listed)}.")
    found: list[Any] = []
    for one in listed:
        file, *rate = one if isinstance(one, list) and one else [one]
        if not isinstance(file, str) or len(rate) > 1 or not all(isinstance(part, (int, float)) for part in rate):
            raise SpecError(f"{wanted}, not {short_repr(one)}.")
        found.append((here / file, *rate) if rate else here / file)
    return found


def concept(name: str, entry: Any) -> Any:
    """A concept from the labels that show it, or from a function by its name."""
    if isinstance(entry, list) and entry and all(isinstance(label, int) and not isinstance(label, bool) for label in entry):
        return set(entry)
    if isinstance(entry, str):
        return import_object(entry)
    raise SpecError(f"The concept '{name}' must be a list of labels, such as [0, 2], or \"module:function\", not {short_repr(entry)}.")


def check(content: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    """Raise unless every key is known and its value has the right type."""
    for key, value in content.items():
        if key not in known:
            raise unknown(f"key in {where}:", key, known)
        kinds = known[key] if isinstance(known[key], tuple) else (known[key],)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(KIND_NAMES[kind] for kind in kinds)
            raise SpecError(f"In {where}, '{key}' must be {wanted}, not {str(value)[:80]}.")


def data(where: Any, here: Path, models: Mapping[str, Any]) -> tuple[Any, Any]:
    """Inputs in any form that `Audit` takes and targets or None, from a function or a CSV file."""
    if isinstance(where, dict):
        return csv_data(where, here, models)
    if where.lower().endswith(".csv"):
        raise SpecError(f"Say which columns of {where} to use: {CSV_FORM}.")
    found = call(where, {})
    parts = found if isinstance(found, tuple) else (found, None)
    if len(parts) != 2:
        raise InputError(f"'{where}' must give inputs, or (inputs, targets), not {len(parts)} things.")
    if parts[0] is None:
        raise InputError(f"'{where}' gave no inputs.")
    return parts


def call(where: str, settings: Mapping[str, Any]) -> Any:
    """The object `module:name`, or what it returns if it is a function; an error of the user's code keeps its own words."""
    found = import_object(where)
    if isinstance(found, (nn.Module, Tensor)) or PipelineModel.accepts(found) or not callable(found):
        return found
    try:
        return found(**settings)
    except Exception as error:
        raise InputError(f"'{where}' failed with {type(error).__name__}: {' '.join(str(error).split())}") from error


def model(name: str, entry: Any, here: Path) -> nn.Module | CrossTrained:
    """A model from its table in the audit file, in evaluation mode if it comes with weights; or a learning algorithm."""
    if not isinstance(entry, Mapping):
        raise SpecError(f'[models.{name}] must be a table such as {{build = "module:function"}}.')
    return cross_trained(name, entry, here) if "fit" in entry else build(name, entry, here)


def build(name: str, entry: Mapping[str, Any], here: Path) -> nn.Module:
    """A model from the function that builds it, with its weights if they are in a file; or from an ONNX file or a folder."""
    check(entry, MODEL_KEYS, f"[models.{name}]")
    if "build" not in entry:
        raise SpecError(f'[models.{name}] needs build = "module:function", or the path of an ONNX file or of a text classifier\'s folder.')
    if ":" not in entry["build"] and not is_path(entry["build"], here):
        raise SpecError(f"[models.{name}]: there is no folder '{here / entry['build']}', and build is not of the form module:function.")
    built: Any = here / entry["build"] if is_path(entry["build"], here) else call(entry["build"], entry.get("settings", {}))
    module = as_model(name, built)
    if "weights" in entry:
        load_weights(name, module, here / entry["weights"])
    return module


def is_path(where: str, here: Path) -> bool:
    """Whether `build` is the path of a file or folder, and not module:function."""
    return where.endswith(".onnx") or (":" not in where and ("/" in where or "\\" in where)) or os.path.isdir(here / where)


def cross_trained(name: str, entry: Mapping[str, Any], here: Path) -> CrossTrained:
    """A learning algorithm from its table: `fit` is a trainer's name, a table with its settings, or module:function."""
    check(entry, CROSSED_KEYS, f"[models.{name}]")
    fit = entry["fit"]
    given: dict[str, Any] = {"fit": import_object(fit) if isinstance(fit, str) and ":" in fit else TRAINERS.build(fit)}
    if "build" in entry:
        given["build"] = import_object(entry["build"])
    if "folder" in entry:
        given["folder"] = str(here / entry["folder"])
    return CrossTrained(**{**entry, **given})


def load_weights(name: str, module: nn.Module, path: Path) -> None:
    """Weights from safetensors, or from a torch file that holds tensors alone."""
    if not path.is_file():
        raise InputError(f"There is no weights file {path} for model '{name}'.")
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds pickled Python objects, which could run code when loaded: "
            "save the weights alone, with torch.save(model.state_dict(), ...) or as safetensors."
        ) from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        raise InputError(f"{path} is not a readable weights file: {' '.join(str(error).split())[:160]}") from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise InputError(f"The weights in {path} do not fit model '{name}': {' '.join(str(error).split())[:200]}") from error
