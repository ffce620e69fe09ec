"""Run folders in a bucket, against moto's S3 server on the loopback."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cli.commands import code
from engine import test_shards
from small import series_inputs
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder, buckets, leases, shards
from veracity.engine.store.files import Files
from veracity.engine.store.shards import Member, Share
from veracity.results import Result, joined

MISSING = [name for name in ("s3fs", "moto", "boto3") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")


def forget_connections() -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


def run(folder: Any, shard: str | None = None, samples: int = 70) -> Result:
    return test_shards.run(folder, shard, inputs=series_inputs(samples), explainers=["gradient"], controls=False)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    import boto3  # here and not above: every process collects the tests, and few run them
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patched:
        for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "DEFAULT_REGION": "us-east-1"}.items():
            patched.setenv(f"AWS_{name}", value)
        started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        started.start()
        address = "http://{}:{}".format(*started.get_host_and_port())
        patched.setenv("AWS_ENDPOINT_URL", address)
        forget_connections()
        boto3.client("s3").create_bucket(Bucket="runs")
        yield address
        forget_connections()
        started.stop()


@pytest.fixture
def place(server: str, tmp_path: Path) -> str:
    return f"s3://runs/{tmp_path.name}/run"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(tmp_path_factory.mktemp("plain") / "run").table()


def test_of_several_puts_that_need_an_absent_object_one_succeeds(place: str) -> None:
    files = Files(place)
    assert [files.create("a", b"first"), files.create("a", b"second")] == [True, False]
    assert files.read("a") == b"first"
    found = buckets.seen(files.fs, files.path("a"))
    assert found is not None
    assert [buckets.replace(files.fs, files.path("a"), data, found.tag) for data in (b"third", b"fourth")] == [True, False]
    assert files.read("a") == b"third"


def test_a_run_in_a_bucket_has_the_table_of_one_on_a_disk_and_leaves_no_lease(place: str, plain: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(run(place).table(), plain, check_exact=True)
    assert not Files(place).exists("lock")
    pd.testing.assert_frame_equal(Result(place).table(), plain, check_exact=True)


def test_listings_grow_with_the_cells_and_not_with_their_square(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    listing = buckets.listing

    def counted(*args: Any) -> list[str]:
        found = listing(*args)
        counts["requests and entries"] += 1 + len(found)
        return found

    monkeypatch.setattr(buckets, "listing", counted)
    listed = []
    for samples in (64, 192):
        counts.clear()
        result = run(f"{place}{samples}", samples=samples)
        listed.append(counts["requests and entries"] / len(result.manifest["cells"]))
    assert 0 < listed[1] <= listed[0]


def test_claims_are_listed_at_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member.new(place, Share())
    keys = [f"{number:02x}{number:04x}" for number in range(0, 256, 16)]
    assert all(member.claim(key) for key in keys)
    assert Files(place).create(f"shards/claims/00/{keys[0]}.1", b"another")
    listed = []
    listing = buckets.listing

    def counted(*args: Any) -> list[str]:
        listed.append(args)
        return listing(*args)

    monkeypatch.setattr(buckets, "listing", counted)
    known: dict[str, str] = {}
    assert member.owners(keys, known) == dict.fromkeys(keys, member.name) | {keys[0]: "another"}
    assert len(listed) == 1
    shards.clear(Files(place))
    assert member.owners(keys, known) == {}


def work(folder: str, settings: dict[str, str], started: Event) -> None:
    os.environ.update(settings)
    started.set()
    run(folder, samples=192)


@pytest.mark.subprocess
def test_a_killed_run_is_resumed_with_nothing_lost_and_a_second_command_is_refused_meanwhile(place: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    started, settings = context.Event(), {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    process = context.Process(target=work, args=(place, settings, started))
    process.start()
    assert started.wait(120)  # every look at the bucket below takes time from the run
    files = Files(place)
    latest = time.monotonic() + 120
    while len(files.names("cells")) < 2:
        assert process.is_alive()
        assert time.monotonic() < latest
        time.sleep(0.02)
    with pytest.raises(StoreError, match=rf"is being written by process {process.pid} on .*: wait for it .* its lease ends in \d+ s"):
        run(place, samples=192)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert files.exists("lock")
    before = {name: files.written(f"cells/{name}") for name in files.names("cells")}
    time.sleep(1.1)
    pd.testing.assert_frame_equal(run(place, samples=192).table(), run(tmp_path / "disk", samples=192).table(), check_exact=True)
    assert {name: files.written(f"cells/{name}") for name in before} == before


def test_a_lease_of_another_machine_is_taken_over_only_after_it_expired(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(place)
    files.write("lock", json.dumps({"who": "process 1 on elsewhere", "machine": "elsewhere", "pid": 1}).encode())
    with pytest.raises(StoreError, match="is being written by process 1 on elsewhere"):
        run(place)
    monkeypatch.setattr(leases, "EXPIRED", 1.0)
    time.sleep(2.1)
    with RunFolder(place).writing():
        assert str(os.getpid()) in RunFolder(place).writer()
    assert RunFolder(place).writer() == ""


@pytest.mark.parametrize("expired", [False, True])
def test_a_lease_whose_answer_was_lost_is_held(place: str, expired: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if expired:
        gone = {"who": "process 1 on elsewhere", "machine": leases.this_machine(), "pid": 2**22 + 1}
        Files(place).write("lock", json.dumps(gone).encode())
    put = buckets.put_if
    monkeypatch.setattr(buckets, "put_if", lambda *args, **condition: put(*args, **condition) and False)
    with RunFolder(place).writing():
        assert str(os.getpid()) in RunFolder(place).writer()
        with pytest.raises(StoreError, match="is being written by process"), RunFolder(place).writing():
            pass
    assert RunFolder(place).writer() == ""


def test_a_lease_is_renewed_and_one_that_was_taken_over_is_said_to_be_lost(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW", 0.05)
    files = Files(place)
    with RunFolder(place).writing():
        before = files.read("lock")
        time.sleep(0.4)
        assert files.read("lock") != before
    other = json.dumps({"who": "process 1 on elsewhere", "machine": "elsewhere", "pid": 1}).encode()

    def overtaken() -> None:
        with RunFolder(place).writing():
            files.write("lock", other)
            time.sleep(0.4)

    with pytest.raises(StoreError, match=r"^Another process took over .* run the same command again\.$"):
        overtaken()
    assert files.read("lock") == other


def test_shards_fill_a_bucket(place: str, plain: pd.DataFrame) -> None:
    run(place, "1/2")
    with pytest.raises(StoreError, match="shard 2/2 never started"):
        joined(place)
    run(place, "auto")
    pd.testing.assert_frame_equal(joined(place).table(), plain, check_exact=True)


def test_a_bucket_that_does_not_exist_is_said_in_one_sentence(server: str) -> None:
    for attempt in (run, Result):
        with pytest.raises(StoreError, match=r"^There is no bucket 'nowhere' for nowhere/run: create it first"):
            attempt("s3://nowhere/run")
    with pytest.raises(StoreError, match="does not name a run folder in a bucket"):
        run("s3://runs")
    with pytest.raises(StoreError, match="cannot hold a run folder"):
        run("nowhere://runs/a")


def test_missing_rights_are_said_in_one_sentence(server: str, place: str) -> None:
    def authenticated(after: bytes) -> None:
        kind = {"Content-Type": "application/octet-stream"}
        urllib.request.urlopen(urllib.request.Request(f"{server}/moto-api/reset-auth", data=after, headers=kind, method="POST")).read()

    authenticated(b"0")
    try:
        for attempt in (run, Result):
            with pytest.raises(StoreError, match=r"^No permission to use runs/.*: the credentials need s3:ListBucket"):
                attempt(place)
    finally:
        authenticated(b"inf")


def test_a_server_that_cannot_be_reached_is_said_in_one_sentence(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    forget_connections()
    with pytest.raises(StoreError, match=r"^runs/away cannot be reached: Could not connect"):
        run("s3://runs/away")
    forget_connections()


def test_the_command_line_takes_a_bucket(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.toml"
    file.write_text(
        f'data = "small:labelled_series"\nexplainers = ["gradient"]\nscores = ["equivariance"]\ncontrols = false\nout = "{place}"\n'
        'symmetry = {name = "cyclic_shift", axes = [-1]}\n[models.net]\nbuild = "small:small_net"\n'
    )
    assert code("audit", file, "--workers", 1) == 0
    assert f"{place}/report.html" in "".join(capsys.readouterr().out.split())
    assert Files(place).read("report.html").startswith(b"<!DOCTYPE html>")
    assert code("show", place) == 0
    assert "equivariance" in capsys.readouterr().out
    assert code("join", place) == 0
