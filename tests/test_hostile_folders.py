"""No command imports from a folder, reads outside of it, hangs, or ends with anything but a sentence, whatever the folder holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hostile import (
    AUDIT_REFUSED,
    ESCAPES,
    HARMLESS,
    OPENED,
    ORBIT_REFUSED,
    SCRIPT,
    TENSORS_AUDIT,
    TENSORS_ORBITS,
    Change,
    build,
    in_time,
    whole_runs,
)
from veracity.cli import main
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_runs(tmp_path_factory.mktemp("good"))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """A command inside this process: its exit code and all that it said."""

    def call(*arguments: object) -> tuple[int, str]:
        OPENED.clear()
        with in_time(), pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        said = capfd.readouterr()
        return int(caught.value.code or 0), said.out + said.err

    return call


def commands(folder: Path, other: Path, out: Path, rule: str) -> list[list[object]]:
    return [
        ["show", folder],
        ["show", folder, "--format", "json"],
        ["report", folder, "--out", out],
        ["leaderboard", folder, "--out", out.with_name("board.html")],
        ["leaderboard", folder, "--format", "latex"],
        ["gate", folder, "--require", rule],
        ["diff", other, folder],
        ["advise", folder, "--no-measure", "--workers", 1],
    ]


def check_untouched(folder: Path) -> None:
    assert not (folder / "tripped").exists(), "a module of the folder was imported"
    outside = [path for path in OPENED if "/outside-" in path or path.endswith(("/etc/passwd", "/dev/zero"))]
    assert not outside, "something outside of the folder was opened"


@pytest.mark.parametrize("kind", AUDIT_REFUSED)
def test_a_bad_audit_is_refused_in_one_sentence(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str]], kind: str
) -> None:
    folder = build(good / "audit", tmp_path / "bad", AUDIT_REFUSED[kind])
    monkeypatch.syspath_prepend(str(folder))
    for command in commands(folder, good / "audit", tmp_path / "report.html", "equivariance>=0"):
        code, said = run(*command)
        check_untouched(folder)
        assert code == 2, (command, said)
        assert said.startswith("error: "), said
        assert len(said.strip().splitlines()) == 1, said
        assert len(said) < 1000
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "board.html").exists()


@pytest.mark.parametrize("kind", ORBIT_REFUSED)
def test_bad_orbits_are_refused_in_one_sentence(good: Path, tmp_path: Path, run: Callable[..., tuple[int, str]], kind: str) -> None:
    folder = build(good / "orbits", tmp_path / "bad", ORBIT_REFUSED[kind])
    for command in commands(folder, good / "audit", tmp_path / "report.html", "gap<=1"):
        code, said = run(*command)
        check_untouched(folder)
        assert code == 2, (command, said)
        assert len(said.strip().splitlines()) == 1, said


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_a_folder_names_is_not_run_and_what_it_says_is_only_text(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str]], kind: str
) -> None:
    folder = build(good / "audit", tmp_path / "bad", HARMLESS[kind])
    (tmp_path / "victim.html").write_text("mine")
    monkeypatch.syspath_prepend(str(folder))
    for command in [*commands(folder, good / "audit", tmp_path / "report.html", "equivariance>=0"), ["ls", "scores"]]:
        code, said = run(*command)
        check_untouched(folder)
        assert code == (2 if command[0] == "advise" else 0), (command, said)
        assert ESCAPES[0] not in said.replace("\x1b[1;31m", "").replace("\x1b[0m", "")
    for page in (tmp_path / "report.html", tmp_path / "board.html"):
        assert SCRIPT not in page.read_text(encoding="utf-8")
        assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert (tmp_path / "victim.html").read_text() == "mine"
    assert not (tmp_path / "bad" / "tripped").exists()


@pytest.mark.parametrize(("kind", "change"), [*TENSORS_AUDIT.items(), *TENSORS_ORBITS.items()])
def test_a_report_of_bad_tensors_is_a_sentence_or_leaves_them_out(
    good: Path, tmp_path: Path, run: Callable[..., tuple[int, str]], kind: str, change: Change
) -> None:
    folder = build(good / ("audit" if kind in TENSORS_AUDIT else "orbits"), tmp_path / "bad", change)
    code, said = run("report", folder, "--out", tmp_path / "report.html")
    check_untouched(folder)
    assert code == 2 or kind.startswith("an orbit"), said
    assert len(said.strip().splitlines()) == 1, said


def test_the_report_in_a_folder_is_not_written_through_a_link(good: Path, tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    folder = build(good / "audit", tmp_path / "bad", HARMLESS["a report elsewhere"])
    (tmp_path / "victim.html").write_text("mine")
    assert run("report", folder) == (2, f"error: {folder / 'report.html'} is a link, which is not written through: delete it first.\n")
    assert (tmp_path / "victim.html").read_text() == "mine"


def test_a_writer_does_not_follow_a_lock_that_leads_out(good: Path, tmp_path: Path) -> None:
    folder = build(good / "audit", tmp_path / "bad", HARMLESS["a lock elsewhere"])
    (tmp_path / "outside-lock").write_text("mine")
    with pytest.raises(StoreError, match="Cannot write"), RunFolder(str(folder)).writing():
        pass
    assert (tmp_path / "outside-lock").read_text() == "mine"
