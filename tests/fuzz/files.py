"""Random audit files, as the command line takes them: mostly right, some with hostile values, some not even TOML."""

from __future__ import annotations

import math
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from veracity.cli.audit_file import KEYS, read
from veracity.core.registry import EXPLAINERS

from . import worlds
from .audits import look, score, walk
from .outcome import Outcome, judged
from .values import hostile, settings_of

HERE = worlds.__name__
DATA = {"mlp": "file_data", "normed": "file_data", "regression": "file_data", "cnn": "file_images"}


def files(random: Random) -> Outcome:
    """Write an audit file, read it and run it."""
    with tempfile.TemporaryDirectory() as folder:
        return judged("file", lambda seen: run(random, Path(folder), seen))


def run(random: Random, folder: Path, seen: Outcome) -> None:
    text = toml(content(random, seen))
    if random.random() < 0.04:
        at = random.randrange(len(text))
        text, seen.hostile = (
            text[:at] + random.choice(["", "\x00", "[", "=", '"', "\n\n[models]\n", "é" * 5]) + text[at + random.choice([0, 1, 40]) :],
            True,
        )
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit, out = read(path)
        audit = replace(audit, about={**audit.about, "file": "audit.toml"})
        look(audit.run(out if out.is_relative_to(folder) else folder / "out", progress=False), seen)


def content(random: Random, seen: Outcome) -> dict[str, Any]:
    """An audit file as a table."""
    name = random.choice(list(DATA))
    found: dict[str, Any] = {
        "data": f"{HERE}:{DATA[name]}",
        "explainers": [
            table(random, random.choice(["gradient", "saliency", "lime", "smooth_grad", "occlusion", "rise"])) for _ in range(2)
        ],
        "scores": {
            label: score_table(random, label)
            for label in random.sample(["equivariance", "complexity", "deletion", "max_sensitivity", "mprt"], 2)
        },
        "symmetry": random.choice(["mirror", {"name": "cyclic_shift", "axes": [-1]}]),
        "walk": {"name": "monte_carlo", "draws": 2},
        "seed": random.choice([0, 3]),
        "models": {"a": {"build": f"{HERE}:{name}"}},
    }
    if random.random() < 0.3:
        found |= {
            "target": random.choice(["predicted", "label", 0]),
            "controls": False,
            "confidence": 0.9,
            "title": "a title",
            "companions": False,
        }
    if random.random() < 0.1:
        found["models"]["b"] = {"fit": f"{HERE}:fit", "folds": 2, "build": f"{HERE}:mlp"}
    if random.random() < 0.1:
        found["walk"] = walk(random)
    if random.random() < 0.3:
        spoil(random, found)
        seen.hostile = True
    return found


def table(random: Random, name: str) -> Any:
    settings = settings_of(random, EXPLAINERS[name], plain=True)
    return {"name": name, **settings, **({"patch": 1} if name == "lime" else {}), **({"window": 2} if name == "occlusion" else {})}


def score_table(random: Random, name: str) -> Any:
    found = score(random, name)
    return {key: value for key, value in found.items() if key != "space"}


def spoil(random: Random, found: dict[str, Any]) -> None:
    """Make one key, or one value somewhere below it, wrong."""
    chance = random.random()
    key = random.choice([*KEYS, "no_such_key"])
    if chance < 0.1 and found:
        del found[random.choice(list(found))]
    elif chance < 0.3:
        found["models"]["a"][random.choice(["build", "weights", "settings", "fit", "no_such_key"])] = hostile(random, plain=True)
    elif chance < 0.4:
        found["data"] = f"{HERE}:{random.choice(['file_nothing', 'file_failing', 'no_such_name', 'rand', 'World', 'mlp'])}"
    elif chance < 0.6 and isinstance(found["explainers"], list):
        one = random.choice(found["explainers"])
        one[random.choice([*one, "no_such_setting"])] = hostile(random, plain=True)
    elif chance < 0.8 and isinstance(found["scores"], dict):
        one = random.choice(list(found["scores"].values()))
        one[random.choice([*one, "measure", "space"])] = hostile(random, plain=True)
    else:
        found[key] = hostile(random, plain=True)


def toml(found: Any) -> str:
    """A table as TOML, inline below the first level; what TOML cannot hold is left out."""
    return "\n".join(f"{word(key)} = {inline(value)}" for key, value in found.items() if inline(value)) + "\n"


def inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{word(key)} = {inline(one)}" for key, one in value.items() if inline(one)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(one) for one in value if inline(one)) + "]"
    if isinstance(value, str):
        return word(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "nan" if math.isnan(value) else "inf"
    return str(value) if isinstance(value, int) else ""


def word(text: Any) -> str:
    plain = "".join(one if one.isprintable() and one not in '"\\' else f"\\u{ord(one):04x}" for one in str(text))
    return f'"{plain}"'
