"""Manifests of finished runs, changed in one place or several, read by everything that reads a run."""

from __future__ import annotations

import io
import json
import math
import shutil
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch

from stored import signed
from veracity import Audit, OrbitEvaluation
from veracity.cli import main
from veracity.core.errors import VeracityError
from veracity.engine.store.records import unsealed
from veracity.results import Result

from .audits import look
from .outcome import Outcome, judged, told
from .worlds import cnn, labels, mlp, rand

HUGE = 10**30


def deep(levels: int) -> Any:
    found: Any = 0
    for _ in range(levels):
        found = [found] if levels % 2 else {"a": found}
    return found


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, 1e308, -1e308, HUGE, -HUGE, math.nan, math.inf, "", "a", "../../etc", "0" * 64, "done", [], {},
    [None], [[]],
    {"a": 1}, {"name": "a"}, [1, 2], "x" * 2000, "<script>", "é\u0000", deep(300), deep(50),
)  # fmt: skip


@cache
def finished() -> tuple[str, ...]:
    """Finished runs to begin with, made once."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-runs-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        common: dict[str, Any] = {"inputs": rand(4, 6), "targets": labels(4, 3), "explainers": ["gradient", "saliency"]}
        Audit(
            models={"a": mlp(), "b": mlp(seed=1)},
            symmetry="cyclic_shift",
            scores=["equivariance", "model_invariance", "deletion"],
            **common,
        ).run(root / "symmetry", progress=False)
        small = {"name": "genetic", "population": 4, "generations": 1, "elites": 1}
        Audit(models=mlp(), scores=[{"name": "sol_f_hat", "walk": small}, "complexity"], controls=False, **common).run(
            root / "worst", progress=False
        )
        OrbitEvaluation(models={"a": cnn()}, inputs=rand(3, 1, 6, 6), targets=labels(3, 3), orbit=orbit(), task=task()).run(
            root / "orbits", progress=False
        )
    return tuple(str(one) for one in sorted(root.iterdir()))


def orbit() -> Any:
    from veracity.orbits import GroupOrbit

    return GroupOrbit(space="c4")


def task() -> Any:
    from veracity.orbits import Classification

    return Classification()


def manifests(random: Random) -> Outcome:
    """Change the manifest of a copy of a finished run, and read it in every way."""
    source = random.choice(finished())
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "run"
        shutil.copytree(source, folder)
        return judged("manifest", lambda seen: read(random, folder, source, seen))


def write_manifest(folder: Path, manifest: Any) -> None:
    """Write a changed manifest, signed as by somebody who means harm."""
    (folder / "manifest.json").write_bytes(signed(manifest))


def read(random: Random, folder: Path, source: str, seen: Outcome) -> None:
    manifest = unsealed((folder / "manifest.json").read_bytes())
    if random.random() < 0.05:
        text = json.dumps(manifest)
        (folder / "manifest.json").write_bytes(
            random.choice([text[: random.randrange(len(text))].encode(), b"", b"\xff\xfe", b"null", b"[]", b"3"])
        )
    else:
        for _ in range(random.choice([1, 1, 1, 2, 4])):
            change(random, manifest)
        write_manifest(folder, manifest)
    seen.hostile = True
    refusals = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not source.endswith("orbits"):
            try:
                look(Result(folder), seen)
            except VeracityError as error:
                refusals.append(str(error))
            except Exception as error:
                seen.findings.append(f"Result: {told(error)}")
        for arguments in commands(random, folder, source):
            said = io.StringIO()
            try:
                with redirect_stdout(said), redirect_stderr(said):
                    main(arguments)
            except SystemExit:
                refusals += [line.removeprefix("error: ") for line in said.getvalue().splitlines() if line.startswith("error: ")]
            except Exception as error:
                seen.findings.append(f"{arguments[0]}: {told(error)}")
    # Tables of a changed manifest may say anything; only a traceback is a finding.
    seen.findings = [one for one in seen.findings if not one.startswith(("value ", "interval ", "a cell failed"))]
    seen.refused = refusals[0] if refusals else ""


def commands(random: Random, folder: Path, source: str) -> list[list[str]]:
    """What the command line reads a run with."""
    here = str(folder)
    found = [
        ["show", here],
        ["show", here, "--format", "json"],
        ["gate", here, "--require", "equivariance>=0.1"],
        ["diff", here, source],
        ["diff", source, here],
    ]
    return [*random.sample(found, 2), *([["report", here]] if random.random() < 0.3 else [])]


def change(random: Random, manifest: Any) -> None:
    """Change one value: go down at random, then delete, replace, double or swap."""
    at = manifest
    while True:
        keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(at[key], (dict, list)) and len(at[key]) and random.random() < 0.75:
            at = at[key]
            continue
        break
    action = random.random()
    if action < 0.25:
        del at[key]
    elif action < 0.9:
        at[key] = random.choice(VALUES)
    elif isinstance(at, list):
        at.append(at[key])
    else:
        at[f"{key}x"] = at.pop(key)


def prepare() -> None:
    """Make the finished runs before workers are forked."""
    torch.set_num_threads(1)
    finished()
