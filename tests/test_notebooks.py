"""The teaching notebooks run from top to bottom, show what they promise, and their words are true of the numbers."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
LARGEST = 20_000


def cells(name: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return content


def executed(name: str) -> tuple[dict[str, Any], list[Any]]:
    """What a notebook defines, and what its cells show."""
    space: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells(name)):
        if cell["cell_type"] == "code":
            tree, where = ast.parse("".join(cell["source"])), f"{name}.ipynb, cell {number}"
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, where, "exec"), space)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), where, "eval"), space))
    return space, shown


def values(result: Any, score: str) -> pd.Series[float]:
    table = result.table()
    return table[table["score"] == score].set_index(["model", "explainer"])["value"]


def symmetry(space: dict[str, Any]) -> None:
    found = values(space["result"], "equivariance")
    assert found["invariant"][["saliency", "integrated_gradients"]].min() > 0.999
    assert found["invariant"]["gradient_shap"] < 0.98
    assert found["standard"][["saliency", "integrated_gradients", "gradient_shap"]].max() < 0.9
    assert space["repaired"].differences("equivariance")["high"].iloc[0] < 0  # the one as it is is worse


def stability(space: dict[str, Any]) -> None:
    found = values(space["result"], "mege")["digits"]
    assert found["edge_filter"] > 0.999
    own = found[["saliency", "input_x_gradient", "integrated_gradients"]]
    assert own.between(found["random_gaussian"] + 0.1, 0.999).all()


def robustness(space: dict[str, Any]) -> None:
    table = space["result"].table()
    assert set(table["score"]) == {"sol_f_hat", "ln_p_f_hat"}
    assert table["censored"].sum() > 0


def faithfulness(space: dict[str, Any]) -> None:
    deletion, kept = (values(space["result"], score)["digits"] for score in ("deletion", "mprt"))
    assert deletion[["gradient", "input_x_gradient", "integrated_gradients"]].max() < deletion[["random_uniform", "random_gaussian"]].min()
    assert kept["edge_filter"] > 0.999
    assert kept["gradient"] < 0.3


def orbits(space: dict[str, Any]) -> None:
    result = space["result"]
    gap = result.gap().set_index("model")["value"]
    assert gap["plain"] > 2 * gap["augmented"]
    start = {model: result.aggregate(model, "accuracy")["value"].iloc[result.identity] for model in result.models}
    assert start["plain"] > start["augmented"]
    agreed = result.agreement().set_index("model")["correlation"]
    assert agreed["plain"].max() < 0 < agreed["augmented"].min()


CLAIMS = (symmetry, stability, robustness, faithfulness, orbits)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_a_notebook_runs_and_its_words_are_true(claim: Callable[[dict[str, Any]], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space, shown = executed(claim.__name__)
    figures = [one for one in shown if hasattr(one, "_repr_svg_")]
    assert figures
    assert all(one._repr_svg_().startswith("<svg") for one in figures)
    claim(space)


def test_notebooks_are_small_and_hold_no_outputs() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    assert names == sorted(claim.__name__ for claim in CLAIMS)
    for name in names:
        text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
        assert len(text) < LARGEST
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells(name))
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (FOLDER / target).exists(), target
