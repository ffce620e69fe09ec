"""How easy the code is to find one's way in, in figures: python -m benchmarks.clarity [--wheels]

Counts files, lines, imports, names at the root and names used twice; runs one small audit of equivariance and its report, and counts
the files that each of them enters and how deep `explain` lies in the call stack. A check for people to read, not a gate: joining files
end to end improves some of these figures and helps nobody.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import statistics
import subprocess
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

ROOT = Path(__file__).parents[1]
PACKAGES = [path for path in (ROOT / "src" / "veracity", ROOT / "papers" / "src" / "veracity_papers") if path.is_dir()]
BASES = ("Score", "InputSpace", "Space", "Explainer", "Walk")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Source:
    """A file with its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def code(self) -> int:
        """Lines that hold code: not empty, no comment, no docstring."""
        held: set[int] = set()
        with self.path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING):
                    held |= set(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(held)

    @property
    def imports(self) -> int:
        """Lines of import statements."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)

    @property
    def top_names(self) -> list[str]:
        return [node.name for node in self.tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))]

    @property
    def function_lengths(self) -> Iterator[int]:
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                yield (node.end_lineno or node.lineno) - node.lineno + 1


def sources() -> list[Source]:
    found = []
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append(Source(path, text, ast.parse(text)))
    return found


def repeated(names: list[str]) -> int:
    """Names that stand for more than one thing."""
    return sum(count > 1 for count in Counter(names).values())


def score_names(files: list[Source]) -> set[str]:
    """Every class that is a score, by name, from the bases that classes are written with."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"Score"}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return found


def isinstance_on_scores(files: list[Source]) -> int:
    """Calls of isinstance that ask for a kind of score, outside the folder of the scores."""
    scores = score_names(files)
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and len(node.args) == 2
        and any(isinstance(part, ast.Name) and part.id in scores for part in ast.walk(node.args[1]))
        for file in files
        if not {"scores", "interpret"} & set(file.path.parts)
        for node in ast.walk(file.tree)
    )


def base_class(files: list[Source], name: str) -> type | None:
    """A base class by its name, wherever in core/ it is written."""
    for file in files:
        if "core" in file.path.parts and name in file.top_names:
            package = file.path.relative_to(PACKAGES[0].parent).with_suffix("")
            return getattr(importlib.import_module(".".join(package.parts)), name)  # type: ignore[no-any-return]
    return None


def visited(action: Callable[[], Any]) -> tuple[set[str], int]:
    """The files of the package whose functions an action enters, and how deep the first `explain` lies among them."""
    files: set[str] = set()
    depths: list[int] = []
    inside = tuple(str(package) for package in PACKAGES)

    def entered(frame: FrameType | None, event: str, _: Any) -> None:
        if frame is None or event != "call" or not frame.f_code.co_filename.startswith(inside):
            return
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function, not the body of a module or class that is being imported
            files.add(frame.f_code.co_filename)
        if frame.f_code.co_name == "explain" and not depths:
            depths.append(0)
            while frame:
                depths[0] += frame.f_code.co_filename.startswith(inside)
                frame = frame.f_back

    sys.setprofile(entered)
    try:
        action()
    finally:
        sys.setprofile(None)
    return files, depths[0] if depths else 0


def journey() -> tuple[int, int, int]:
    """Files entered by an audit of equivariance, further ones by its report, and the depth of `explain`."""
    import veracity
    from veracity.core.registry import GROUPS, SCORES

    net = nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 3))
    audit = veracity.Audit(
        models={"net": net}, inputs=torch.rand(6, 1, 8), explainers=["gradient"], symmetry="cyclic_shift", scores=["equivariance"]
    )
    for registry in (GROUPS, SCORES):
        list(registry)  # imports everything: importing is not part of the way
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, depth = visited(lambda: audit.run(folder, progress=False))
        result = audit.run(folder, progress=False)
        report, _ = visited(lambda: result.save_report(f"{folder}/report.html"))
    return len(run), len(report - run), depth


def wheels() -> Iterator[tuple[str, str]]:
    """The size of each distribution's wheel."""
    for project in (ROOT, ROOT / "papers"):
        if (project / "pyproject.toml").exists():
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(project)]
                subprocess.run(command, check=True)
                for wheel in Path(folder).glob("*.whl"):
                    yield f"wheel of {wheel.name.split('-')[0]}", f"{wheel.stat().st_size / 1e6:.1f} MB"


def figures(files: list[Source]) -> Iterator[tuple[str, str]]:
    import veracity

    lines, code = sum(file.lines for file in files), sum(file.code for file in files)
    plain = [file for file in files if file.path.name != "__init__.py"]
    yield "files", f"{len(files)}"
    yield "lines", f"{lines:,}"
    yield "lines of code", f"{code:,}"
    yield "lines per file, mean (median)", f"{lines / len(files):.0f} ({statistics.median(file.lines for file in files):.0f})"
    yield "lines per function, median", f"{statistics.median(length for file in files for length in file.function_lengths):.0f}"
    yield "share of import lines", f"{sum(file.imports for file in files) / lines:.1%}"
    yield "names at the root", f"{len(veracity.__all__)}"
    yield "module names used twice", f"{repeated([file.path.stem for file in plain])}"
    yield "top-level names used twice", f"{repeated([name for file in files for name in file.top_names])}"
    yield "isinstance on scores outside their folder", f"{isinstance_on_scores(files)}"
    for name in BASES:
        found = base_class(files, name)
        if found is not None:
            yield f"public members of {name}", f"{sum(not member.startswith('_') for member in dir(found))}"
    run, report, depth = journey()
    yield "files entered by an audit of equivariance", f"{run}"
    yield "further files entered by its report", f"{report}"
    yield "depth of `explain` in it", f"{depth}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clarity", description=__doc__)
    parser.add_argument("--wheels", action="store_true", help="build the wheels and weigh them too")
    table = Table("what", "figure")
    for what, figure in [*figures(sources()), *(wheels() if parser.parse_args().wheels else ())]:
        table.add_row(what, figure)
    Console().print(table)


if __name__ == "__main__":
    main()
