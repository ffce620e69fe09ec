from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cli.commands import code
from small import broken_explainer, series_inputs, small_net
from veracity import Audit
from veracity.core.errors import InputError, Note, StoreError
from veracity.engine import sharing
from veracity.engine.store import RunFolder, shards
from veracity.engine.store.files import Files
from veracity.engine.store.shards import Member, Share, Sign, living, signs
from veracity.perturb import CyclicShift
from veracity.results import Result, joined
from veracity.results.joined import debts

SAMPLES = 140


def audit(**changes: Any) -> Audit:
    given: dict[str, Any] = {
        "models": {"net": small_net()},
        "inputs": series_inputs(SAMPLES),
        "symmetry": CyclicShift(axes=(-1,)),
        "explainers": ["gradient", "saliency"],
        "scores": ["equivariance", "model_invariance"],
        "companions": False,
    }
    return Audit(**{**given, **changes})


def run(folder: Path | str, shard: str | None = None, **changes: Any) -> Result:
    return audit(**changes).run(folder, shard=shard, batch=64, progress=False)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(tmp_path_factory.mktemp("plain") / "run").table()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "DEAD", 0.3)
    monkeypatch.setattr(shards, "BEAT", 0.05)
    monkeypatch.setattr(sharing, "LOOK", 0.05)


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "run") if request.param == "disk" else f"memory://{tmp_path.name}{id(request)}/run"


@pytest.mark.parametrize("count", [1, 3, 16])
def test_shares_are_disjoint_cover_everything_and_differ_by_one_job_at_most(count: int) -> None:
    keys = [f"{number:024x}" for number in range(50)]
    shares = [Share(number, count).mine(keys) for number in range(1, count + 1)]
    assert sum(map(len, shares)) == len(keys)
    assert set().union(*shares) == set(keys)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_share_does_not_depend_on_the_order_of_the_jobs() -> None:
    keys = [f"{number:024x}" for number in range(9)]
    assert Share(2, 4).mine(keys[::-1]) == Share(2, 4).mine(keys)


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/4", "3/0", "1/2/3", "-1/4", "", 3])
def test_what_is_no_shard_is_refused_in_one_sentence(text: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^A shard is 'auto', or its number and how many there are, such as 3/16"):
        run(tmp_path / "run", text)
    assert not (tmp_path / "run").exists()


def test_shards_one_after_the_other_give_the_table_of_a_plain_run(place: str, plain: pd.DataFrame) -> None:
    for number in (1, 2, 3):
        result = run(place, f"{number}/3")
        assert (result.progress.pending == 0) == (number == 3)
    pd.testing.assert_frame_equal(joined(place).table(), plain, check_exact=True)


def test_auto_finishes_what_shards_left_and_measures_nothing_twice(tmp_path: Path, plain: pd.DataFrame) -> None:
    run(tmp_path / "run", "1/3")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run/cells").iterdir()}
    run(tmp_path / "run", "auto")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run/cells").iterdir()}
    assert before
    assert {name: after[name] for name in before} == before
    pd.testing.assert_frame_equal(joined(tmp_path / "run").table(), plain, check_exact=True)


def test_a_plain_run_goes_on_with_what_shards_began(tmp_path: Path, plain: pd.DataFrame) -> None:
    run(tmp_path / "run", "2/3")
    pd.testing.assert_frame_equal(run(tmp_path / "run").table(), plain, check_exact=True)
    assert signs(Files(str(tmp_path / "run"))) == {}


def test_join_says_which_shards_owe_what(tmp_path: Path) -> None:
    cells = len(run(tmp_path / "run", "2/3").manifest["cells"])
    with pytest.raises(StoreError) as caught:
        joined(tmp_path / "run")
    done = len(list((tmp_path / "run/cells").iterdir()))
    assert f"{done} of {cells} cells are measured" in str(caught.value)
    assert "shard 1/3 never started" in str(caught.value)
    assert "shard 3/3 never started" in str(caught.value)
    assert "shard 2/3" not in str(caught.value)


@pytest.mark.parametrize(("count", "rest"), [(7, "the rest belongs to 1 other shard"), (8, "the rest belongs to 2 other shards")])
def test_join_names_five_shards_and_counts_the_others(count: int, rest: str) -> None:
    jobs = [f"{number:02x}" for number in range(count)]
    sign = shards.Sign(f"1/{count}", "process 7 on a", "", 7, jobs=1, done=1)
    said = debts(jobs, jobs[1:], {"a": sign})
    assert said.count("never started") == 5
    assert said.endswith(f", and {rest}")


def test_join_asks_for_one_more_shard_if_the_last_one_died_before_its_last_checks(
    tmp_path: Path, plain: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Audit, "conclude", dies)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", "auto")
    store = RunFolder(str(tmp_path / "run"))
    assert store.progress(store.manifest()).pending == 0
    asked = r"is not complete: .* before it had checked and packed them. Run one more shard with shard='auto'$"
    with pytest.raises(StoreError, match=asked):
        joined(tmp_path / "run")
    with store.writing("1/1"), pytest.raises(StoreError, match=r"shard 1/1 \(process .*\) is still checking and packing"):
        joined(tmp_path / "run")
    run(tmp_path / "run", "auto")
    pd.testing.assert_frame_equal(joined(tmp_path / "run").table(), plain, check_exact=True)


def test_join_takes_a_plain_run(tmp_path: Path) -> None:
    run(tmp_path / "run", inputs=series_inputs(9), explainers=["gradient"], controls=False)
    assert joined(tmp_path / "run").progress.pending == 0


def test_join_waits_for_shards_at_work_and_a_plain_run_is_refused_beside_them(tmp_path: Path) -> None:
    run(tmp_path / "run", "2/3")
    member = Member.new(str(tmp_path / "run"), Share(3, 3))
    with member.beating():
        with pytest.raises(StoreError, match=r"shard 3/3 \(process .*\) is still at work"):
            joined(tmp_path / "run")
        with pytest.raises(StoreError, match=r"is being filled by shard 3/3 \(process .*\): take part with --shard auto"):
            run(tmp_path / "run")
        with pytest.raises(StoreError, match="is being filled by shard 3/3"), RunFolder(str(tmp_path / "run")).writing():
            pass
        assert "shard 3/3" in RunFolder(str(tmp_path / "run")).writer()
    assert living(Files(member.root)) == {}


def test_a_plain_run_beside_shards_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    class Unread:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, number: int) -> Any:
            raise AssertionError("a sample was read")

    member = Member.new(str(tmp_path / "run"), Share(1, 2))
    with member.beating(), pytest.raises(StoreError, match=r"is being filled by shard 1/2 .*: take part with --shard auto"):
        run(tmp_path / "run", inputs=Unread())
    with RunFolder(str(tmp_path / "other")).writing("1/2"), pytest.raises(StoreError, match="is being filled by shard 1/2"):
        run(tmp_path / "other", inputs=Unread())


def test_shards_of_different_counts_are_told_once(tmp_path: Path) -> None:
    run(tmp_path / "run", "2/8")
    with Member.new(str(tmp_path / "run"), Share(2, 8)).beating(), Member.new(str(tmp_path / "run"), Share()).beating():
        with pytest.warns(Note, match=r"Shard 1/3 runs beside shard 2/8, which cuts the run into another number of parts") as found:
            run(tmp_path / "run", "1/3")
        assert sum("another number of parts" in str(one.message) for one in found) == 1
    assert not Share(1, 8).beside([sign("2/8"), sign("auto")])
    assert not Share().beside([sign("2/8")])


def sign(shard: str) -> Sign:
    return Sign(shard, "process 1", "", 1)


def test_what_is_left_of_shards_is_left_to_shards(tmp_path: Path) -> None:
    said = str(run(tmp_path / "run", "1/2"))
    assert "Run the shards that are left, or one that does whatever is free: audit.run(folder, shard='auto')." in said
    assert "the same command" not in said
    assert "Unfinished" not in str(run(tmp_path / "run", "auto"))


def test_a_shard_is_refused_beside_a_plain_run(place: str) -> None:
    store = RunFolder(place)
    with store.writing(), pytest.raises(StoreError, match="is being written by process"):
        run(place, "1/2")


def test_a_shard_waits_for_one_that_plans_and_for_a_holder_that_has_not_given_its_name(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    threading.Timer(0.4, os.pwrite, (descriptor, b"shard 1/2 (process 1 on elsewhere)", 0)).start()
    threading.Timer(1.2, os.close, (descriptor,)).start()
    began = time.monotonic()
    with pytest.warns(Note, match="Waiting for shard 1/2 .* to finish planning"), RunFolder(str(tmp_path)).writing("2/2"):
        assert time.monotonic() - began > 1


def test_a_shard_beside_others_must_plan_the_same(tmp_path: Path) -> None:
    run(tmp_path / "run", "2/3")
    with Member.new(str(tmp_path / "run"), Share(3, 3)).beating(), pytest.raises(InputError, match="start every shard with the same"):
        run(tmp_path / "run", "1/3", seed=1)


def test_a_shard_with_other_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "run", "2/3")
    monkeypatch.setattr("veracity.engine.prepare.versions", lambda: {"python": "3.11.0", "torch": "1.0"})
    with Member.new(str(tmp_path / "run"), Share(3, 3)).beating(), pytest.raises(InputError, match=r"This shard has torch 1.0, and"):
        run(tmp_path / "run", "1/3")


def test_a_claim_belongs_to_one_shard_until_that_is_dead(place: str, quick: None) -> None:
    first, second = (Member.new(place, Share()) for _ in range(2))
    with second.beating():
        with first.beating():
            assert first.claim("ab1")
            assert first.claim("ab1")
            assert not second.claim("ab1")
        assert second.claim("ab1")
        assert second.owners({"ab1"}, {}) == {"ab1": second.name}


def test_a_silent_shard_elsewhere_is_dead_after_a_while(place: str, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, here = (Member.new(place, Share()) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(shards, "this_machine", lambda: "another machine")
        silent = shards.Heart(elsewhere, 1)
        silent.beat()
        assert elsewhere.claim("ab1")
    with here.beating():
        assert not here.claim("ab1")
        time.sleep(0.6)
        assert here.claim("ab1")


def lose_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that was done though its answer was lost: the store refuses the second try."""
    create = Files.create

    def refused(files: Files, name: str, data: bytes) -> bool:
        create(files, name, data)
        return False

    monkeypatch.setattr(Files, "create", refused)


def test_a_claim_whose_answer_was_lost_is_a_claim(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answers(monkeypatch)
    first, second = (Member.new(place, Share()) for _ in range(2))
    with first.beating(), second.beating():
        assert first.claim("ab1")
        assert not second.claim("ab1")


def test_of_two_claims_of_the_same_moment_one_counts(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Member.new(place, Share()) for _ in range(2))
    with first.beating(), second.beating():
        monkeypatch.setattr(Member, "latest", staticmethod(lambda files, key: None))
        assert [first.claim("ab1"), second.claim("ab1")] == [True, False]


def test_auto_measures_a_job_whose_claim_had_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answers(monkeypatch)
    result = run(tmp_path / "run", "auto", inputs=series_inputs(9), explainers=["gradient"], controls=False)
    assert result.progress.pending == 0


@pytest.mark.parametrize("turn", ["²", "٣", "07", "-1", "x", ""])
def test_names_that_no_shard_writes_are_no_claims(tmp_path: Path, turn: str) -> None:
    member = Member.new(str(tmp_path), Share())
    (tmp_path / "shards/claims/ab").mkdir(parents=True)
    (tmp_path / f"shards/claims/ab/ab1.{turn}").write_text("another")
    assert Member.latest(Files(member.root), "ab1") is None
    assert member.owners({"ab1"}, {}) == {}


def test_a_number_too_large_for_a_process_does_not_run() -> None:
    assert not shards.runs(10**30)
    assert shards.runs(os.getpid())


def test_files_in_folders_of_a_folder_are_listed_and_nothing_else(place: str) -> None:
    files = Files(place)
    assert files.names_below("a/b") == []
    for name in ("a/b/c/2", "a/b/c/1", "a/b/d/1", "a/b/top", "a/b/d/e/deep", "a/c/d/1", "a/b/c/.hidden"):
        files.write(name, b"")
    assert [name for name in files.names_below("a/b") if name != "d/e"] == ["c/1", "c/2", "d/1"]


def beat_elsewhere(member: Member) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "this_machine", lambda: "another machine")
        shards.Heart(member, 1).beat()


@pytest.mark.parametrize("ahead", [40.0, -40.0])
def test_ages_go_by_the_clock_of_the_folder(place: str, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    member = Member.new(place, Share(1, 2))
    beat_elsewhere(member)
    assert list(living(Files(place))) == [member.name]
    assert Files(place).names("shards") == [f"{member.name}.json"]
    with pytest.raises(StoreError, match="is being filled by shard 1/2"), RunFolder(place).writing():
        pass


def test_a_silent_shard_is_dead_however_late_the_clock_of_this_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = time.time
    member = Member.new(str(tmp_path), Share(1, 2))
    beat_elsewhere(member)
    before = clock() - 31
    os.utime(tmp_path / f"shards/{member.name}.json", (before, before))
    monkeypatch.setattr(time, "time", lambda: clock() - 40)
    assert living(Files(str(tmp_path))) == {}


def test_repair_beside_a_shard_that_was_taken_for_dead_spares_what_may_still_be_written(tmp_path: Path) -> None:
    store = RunFolder(str(tmp_path))
    store.establish()
    member = Member.new(str(tmp_path), Share(1, 2))
    beat_elsewhere(member)
    (tmp_path / "cells").mkdir()
    young, old = (tmp_path / f"cells/.{name}.parquet.0123abcd.part" for name in ("young", "old"))
    for path in (young, old):
        path.write_bytes(b"half")
    before = time.time() - 31
    os.utime(old, (before, before))
    store.repair()
    assert young.exists()
    assert not old.exists()


def test_auto_waits_for_a_shard_at_work_and_takes_its_jobs_over_when_it_dies(
    tmp_path: Path, quick: None, plain: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", "1/3")
    with monkeypatch.context() as patched:
        patched.setattr(shards, "this_machine", lambda: "another machine")
        dying = Member.new(str(tmp_path / "run"), Share(2, 3))
        shards.Heart(dying, 3).beat()
    began = time.monotonic()
    run(tmp_path / "run", "auto")
    assert time.monotonic() - began > 0.2
    pd.testing.assert_frame_equal(joined(tmp_path / "run").table(), plain, check_exact=True)


def test_signs_that_cannot_be_read_are_no_shards(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    for number, text in enumerate((b"", b"[]", b'{"shard": "9/4"}', b'{"shard": "x", "process": 1, "machine": "", "pid": 1}')):
        files.write(f"shards/{number}.json", text)
    assert signs(files) == {}


def test_jobs_that_fail_do_not_keep_auto_waiting_and_are_tried_again_by_the_next_run(tmp_path: Path) -> None:
    for shard in ("auto", "auto", "1/1"):
        with pytest.warns(Note, match="more than two rows"):
            result = run(tmp_path / "run", shard, explainers=["gradient", broken_explainer], inputs=series_inputs(9))
        assert result.progress.pending == 0
        assert result.progress.failed > 0
    assert joined(tmp_path / "run").progress.failed == result.progress.failed


@pytest.fixture
def many(tmp_path: Path) -> Iterator[list[Any]]:
    started: list[Any] = []
    yield started
    for process in started:
        if process.is_alive():
            process.kill()
        process.join()


def work(folder: str, shard: str) -> None:
    import warnings

    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    run(folder, shard)


@pytest.mark.subprocess
def test_shards_at_once_some_of_them_killed_and_auto_finishing(tmp_path: Path, many: list[Any], plain: pd.DataFrame) -> None:
    context = multiprocessing.get_context("forkserver")
    folder = str(tmp_path / "run")
    for number in range(1, 5):
        many.append(context.Process(target=work, args=(folder, f"{number}/4")))
        many[-1].start()
    latest = time.monotonic() + 120
    while not signs(Files(folder)):
        assert time.monotonic() < latest
        time.sleep(0.01)
    victim = next(iter(signs(Files(folder)).values())).pid
    os.kill(victim, signal.SIGKILL)
    os.kill(many[3].pid, signal.SIGKILL) if many[3].is_alive() else None
    many.append(context.Process(target=work, args=(folder, "auto")))
    many[-1].start()
    for process in many:
        process.join(60)
    assert many[-1].exitcode == 0
    pd.testing.assert_frame_equal(joined(folder).table(), plain, check_exact=True)


def test_the_command_line_runs_shards_and_joins_them(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    file = tmp_path / "audit.toml"
    file.write_text(
        'data = "small:labelled_series"\nexplainers = ["gradient"]\nscores = ["equivariance"]\n'
        'symmetry = {name = "cyclic_shift", axes = [-1]}\n'
        '[models.net]\nbuild = "small:small_net"\n'
    )
    folder = tmp_path / "runs/audit"
    assert code("audit", file, "--workers", 1, "--shard", "1/2") == 0
    assert "veracity join" in capsys.readouterr().out
    assert code("join", folder) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "shard 2/2 never started" in said
    assert "--shard auto" in said
    assert code("audit", file, "--workers", 1, "--shard", "7/2") == 2
    assert "there is no shard 7/2" in " ".join(capsys.readouterr().err.split())
    assert code("audit", file, "--workers", 1, "--shard", "auto") == 0
    assert code("join", folder) == 0
    assert "equivariance" in capsys.readouterr().out
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("text", ["1/100001", "1/1000000000000", f"1/{'9' * 5000}", f"{'9' * 5000}/2"])
def test_more_shards_than_anybody_starts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="at most 100,000 shards"):
        Share.of(text)
