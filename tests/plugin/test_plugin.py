"""The plugin of docs/plugins.md works in an audit, the table, the report and `veracity ls`, with nothing but its entry points."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from veracity import Audit, VeracityError
from veracity.cli import main
from veracity.core import registry
from veracity.core.registry import Registry
from veracity.recipe import Scale, run_recipe
from veracity.results import Result
from veracity.testing import ExplainerConformance, GroupConformance, InputsConformance, ModelConformance

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
CODE, ADAPTER, RULES, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
PROJECTS = [tomllib.loads(text)["project"] for text in re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)]
POINTS: dict[str, dict[str, str]] = {group: points for project in PROJECTS for group, points in project["entry-points"].items()}
REGISTRIES = [one for one in vars(registry).values() if isinstance(one, Registry)]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page's files on sys.path, with the metadata that pip would write beside them."""
    site = tmp_path_factory.mktemp("site")
    (site / "transposed.py").write_text(CODE)
    (site / "scorecard.py").write_text(ADAPTER)
    for project in PROJECTS:
        about = site / f"{project['name'].replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
        groups = project["entry-points"].items()
        sections = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups]
        (about / "entry_points.txt").write_text("\n".join(sections))
    before = {one.plural: dict(one.own()) for one in REGISTRIES}
    sys.path.insert(0, str(site))
    for one in REGISTRIES:
        one.__dict__.pop("_points", None)
    yield
    sys.path.remove(str(site))
    for name in ("transposed", "scorecard"):
        sys.modules.pop(name, None)
    for one in REGISTRIES:
        one.__dict__.pop("_points", None)
        one._items = before[one.plural]


@pytest.fixture(scope="module")
def run(plugin: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of the plugin's recipe."""
    folder = tmp_path_factory.mktemp("run") / "transposed"
    run_recipe("transposed-digits", folder, Scale.SMOKE, progress=False)
    return folder


def command(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; fails unless it ends with 0."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert not ended.value.code
    return capsys.readouterr().out


def test_the_table_has_the_plugins_score_and_explainer(run: Path) -> None:
    table = Result(str(run)).table().set_index(["score", "explainer"])["value"]
    assert table["surprise", "squared_gradient"] > 0
    assert -1 <= table["equivariance", "squared_gradient"] <= 1


def test_the_report_has_a_section_for_the_plugins_score(run: Path) -> None:
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "surprise" in report.lower()
    assert "squared_gradient" in report
    assert "Surprise by explainer" in report


def test_the_plugins_executor_runs_an_audit(run: Path, plugin: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assembled = registry.RECIPES["transposed-digits"].assemble(run, Scale.SMOKE)
    assembled.run(tmp_path / "again", on="announced", progress=False)
    assert "net, squared_gradient" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, points in POINTS.items() for name in points])
def test_ls_lists_every_part_with_its_sentence(group: str, name: str, plugin: None, capsys: pytest.CaptureFixture[str]) -> None:
    listed = command("ls", group.removeprefix("veracity."), capsys=capsys)
    line = next(line for line in listed.splitlines() if line.split()[:1] == [name])
    assert len(line) > len(name) + 20


def test_show_prints_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "net: surprise" in command("show", str(run), capsys=capsys)


RULES_OF = {"TestScorecard": ModelConformance, "TestMappedInputs": InputsConformance}


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name, kind in RULES_OF.items() for rule in dir(kind) if "test_" in rule])
def test_the_adapter_follows_the_rules(name: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(RULES, "docs/plugins.md", "exec"), names)
    assert issubclass(names[name], RULES_OF[name])
    getattr(names[name](), rule)()


@pytest.mark.usefixtures("plugin")
@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_an_audit_takes_the_adapted_model(tmp_path: Path) -> None:
    scorecard = import_module("scorecard")
    np.save(tmp_path / "rows.npy", np.linspace(-1, 1, 18).reshape(6, 3))
    settings: dict[str, Any] = {"inputs": scorecard.MappedInputs(str(tmp_path / "rows.npy")), "scores": ["faithfulness_correlation"]}
    card = scorecard.Scorecard((0.0, 0.5, -0.5), (1.0, 2.0, 4.0))
    result = Audit(models=card, explainers=["kernel_shap"], **settings).run(tmp_path / "run", progress=False)
    assert result.table()["explainer"].iloc[0] == "kernel_shap"
    with pytest.raises(VeracityError, match="The scorecard of 3 features has no gradients: choose an explainer"):
        Audit(models=card, explainers=["saliency"], **settings).run(tmp_path / "refused", progress=False)


@pytest.mark.usefixtures("plugin")
class TestTranspose(GroupConformance):
    def space(self):
        return registry.GROUPS["transpose"]()

    def inputs(self):
        return torch.arange(2 * 9, dtype=torch.float32).reshape(2, 1, 3, 3)


@pytest.mark.usefixtures("plugin")
class TestSquaredGradient(ExplainerConformance):
    def explainer(self):
        return registry.EXPLAINERS["squared_gradient"]()
