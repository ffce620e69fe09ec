"""Every folder that a command writes is shown, gated and printed as JSON; what makes no sense for a kind is one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from degradation_nets import Fits, blobs
from small import series_inputs, small_net
from stored import edit_manifest, signed
from veracity import Audit, Audits, DegradationCheck, DistanceCheck, ExampleCheck, MetaEvaluation, scan
from veracity.cli import main
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.records import unsealed
from veracity.perturb import ConvolutionNoise
from veracity.studies import JointResult, load

RULES = {
    Kind.AUDITS: "equivariance>=-1",
    Kind.META: "mc>=-1",
    Kind.DEGRADATION: "p_adjusted<=1",
    Kind.DISTANCES: "trend>=-1",
    Kind.SCAN: "invariance>=-1",
    Kind.EXAMPLES: "class_detection>=-1",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    """A small study of every kind."""
    root = tmp_path_factory.mktemp("studies")
    found = {kind: root / kind.value for kind in RULES}
    x, net = series_inputs(6), small_net()
    both = {"inputs": x, "explainers": ["gradient", "saliency"], "scores": ["complexity"]}
    audit = Audit(
        models={"net": net}, inputs=x, explainers=["gradient"], symmetry="cyclic_shift", scores=["equivariance"], controls=False,
    )  # fmt: skip

    def counted(results: object) -> pd.DataFrame:
        return pd.DataFrame({"audits": [2], "mean": [float("nan")]})

    Audits(audits={"one": audit, "two": audit}, title="Two audits", summary=counted).run(found[Kind.AUDITS], progress=False)
    MetaEvaluation(model=net, iterations=2, perturbations=1, tests=["mpt"], **both).run(found[Kind.META], progress=False)
    damages = {"weights": ConvolutionNoise()}
    DegradationCheck(model=net, damages=damages, shares=(0.2, 0.5), **both).run(found[Kind.DEGRADATION], progress=False)
    DistanceCheck(distances=["l1", "l2"], steps=8, repeats=2).run(found[Kind.DISTANCES], progress=False)
    scan(net, x, draws=4, folder=found[Kind.SCAN], progress=False)
    examples, labels = blobs()
    judged = {"explainers": ["representation_similarity"], "tests": ["class_detection"]}
    ExampleCheck(fit=Fits(), training=(examples, labels), inputs=examples[:9] + 0.1, targets=labels[:9], **judged).run(
        found[Kind.EXAMPLES], progress=False
    )
    return found


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A command inside this process: its exit code, what it printed, and its errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return int(caught.value.code or 0), found.out, found.err

    return call


@pytest.mark.parametrize("kind", RULES)
def test_a_study_is_shown_gated_and_printed(folders: dict[Kind, Path], said: Callable[..., tuple[int, str, str]], kind: Kind) -> None:
    folder = folders[kind]
    assert said("show", folder)[0] == 0
    code, out, _ = said("show", folder, "--format", "json")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == len(load(folder).table())
    assert said("show", folder, "--format", "csv")[0] == 0
    code, out, err = said("gate", folder, "--require", RULES[kind])
    assert (code, err) == (0, "")
    assert "held" in out
    assert said("gate", folder, "--require", RULES[kind].replace(">=-1", ">=1e9").replace("<=1", "<=-1"))[0] == 1
    assert said("gate", folder, "--require", "fantasy>=0")[0] == 2


@pytest.mark.parametrize("kind", RULES)
def test_diff_and_report_do_or_say_what_to_do_instead(
    folders: dict[Kind, Path], said: Callable[..., tuple[int, str, str]], kind: Kind, tmp_path: Path
) -> None:
    code, out, err = said("diff", folders[kind], folders[kind])
    if kind is Kind.AUDITS:
        assert code == 0
        assert out.count("minus") == 2
    else:
        assert code == 2
        assert "compares audits or cards sample by sample: print both folders with 'veracity show" in err
        assert err.count("\n") == 1
    code, _, err = said("report", folders[kind], "--out", tmp_path / "report.html")
    assert code == (2 if kind is Kind.SCAN else 0)
    assert (kind is Kind.SCAN) == ("A symmetry scan has no report" in err)


@pytest.mark.parametrize("kind", RULES)
def test_advice_and_results_refuse_a_study_in_one_sentence(
    folders: dict[Kind, Path], said: Callable[..., tuple[int, str, str]], kind: Kind
) -> None:
    code, _, err = said("advise", folders[kind])
    assert code == 2
    assert f"holds {kind.words}, not an audit: read it with 'veracity show'" in err


def test_a_summary_is_read_again(folders: dict[Kind, Path]) -> None:
    found = load(folders[Kind.AUDITS])
    assert isinstance(found, JointResult)
    assert found.summary is not None
    assert found.summary["audits"].tolist() == [2]
    assert found.summary["mean"].isna().all()
    assert list(found.results) == ["one", "two"]
    assert "Two audits" in (found.title or "")


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "another run", "no rows", "a pipe", "elsewhere"])
def test_damaged_findings_are_one_sentence(folders: dict[Kind, Path], tmp_path: Path, kind: Kind, damage: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[kind], folder)
    file = folder / "findings.json"
    content = file.read_bytes()
    if damage == "cut":
        file.write_bytes(content[:-5])
    elif damage == "flipped":
        file.write_bytes(content.replace(b'"run"', b'"ruN"'))
    elif damage == "another run":
        file.write_bytes(signed({**unsealed(content), "run": "other"}))
    elif damage == "no rows":
        file.write_bytes(signed({"run": RunFolder(str(folder)).run, "summary": 3, "rows": 3, "curves": 3}))
    else:
        file.unlink()
        if damage == "a pipe":
            os.mkfifo(file)
        elif damage == "elsewhere":
            (tmp_path / "outside").write_bytes(content)
            file.symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_part_that_is_a_link_is_not_followed(folders: dict[Kind, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[Kind.AUDITS], folder)
    shutil.move(folder / "one", tmp_path / "outside")
    (folder / "one").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="is a link that leads out of the folder"):
        load(folder)


def test_a_study_that_names_itself_as_a_part_ends(folders: dict[Kind, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[Kind.AUDITS], folder)
    edit_manifest(folder, lambda manifest: manifest.update(parts=["."], finished=False))
    assert RunFolder(str(folder)).progress(RunFolder(str(folder)).manifest(None)).measured == 0
    with pytest.raises(StoreError, match="holds several audits, not an audit"):
        load(folder)


def test_an_unfinished_study_says_how_far_it_is(folders: dict[Kind, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[Kind.META], folder)
    (folder / "findings.json").unlink()
    edit_manifest(folder, lambda manifest: manifest.update(finished=False))
    shutil.rmtree(folder / "base")
    with pytest.raises(StoreError, match=r"has no results yet\. Unfinished: 4 of 5 runs are measured, and nothing is running"):
        load(folder)


def test_a_study_is_not_written_into_a_folder_of_another_kind(folders: dict[Kind, Path]) -> None:
    check = DistanceCheck(distances=["l1"], steps=8, repeats=2)
    with pytest.raises(StoreError, match="holds a meta-evaluation, not a distance check"):
        check.run(folders[Kind.META], progress=False)


def test_a_symmetry_with_more_elements_than_a_file_holds(tmp_path: Path) -> None:
    import torch
    from torch import nn

    net = nn.Sequential(nn.Flatten(), nn.Linear(1600, 3))
    found = scan(net, torch.randn(3, 1600), draws=2, samples=2, folder=tmp_path / "run", progress=False)
    assert max(one.elements or 0 for one in found.rows) > 10**4000
    pd.testing.assert_frame_equal(load(tmp_path / "run").table(), found.table())
