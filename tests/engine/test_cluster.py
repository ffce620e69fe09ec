"""The executor for Ray: its rules against a stand-in for Ray, and the real thing where Ray is installed."""

from __future__ import annotations

import importlib.util
import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from cli.commands import code
from small import series_inputs, small_net
from veracity import Audit, Ray
from veracity.core.errors import InputError, Note, StoreError, VeracityError
from veracity.engine.executors import cluster
from veracity.engine.executors.local import TRIES
from veracity.engine.memory import EXPLAINED
from veracity.engine.store import RunFolder
from veracity.perturb import CyclicShift
from veracity.results import Result


def audit(**changes: Any) -> Audit:
    given: dict[str, Any] = {
        "models": {"net": small_net()},
        "inputs": series_inputs(140),
        "symmetry": CyclicShift(axes=(-1,)),
        "explainers": ["gradient", {"name": "smooth_grad", "draws": 3}],
        "scores": ["equivariance", "model_invariance"],
        "companions": False,
    }
    return Audit(**{**given, **changes})


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return audit().run(tmp_path_factory.mktemp("inline") / "run", batch=64, progress=False).table()


class TaskError(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class DiedError(Exception):
    pass


class GoneError(DiedError):
    pass


class FakeRay:
    """Ray's calls in this process: everything is pickled, and `fate` may raise before or after a task has run."""

    exceptions = SimpleNamespace(
        RayTaskError=TaskError,
        RayError=DiedError,
        LocalRayletDiedError=GoneError,
        RaySystemError=GoneError,
        RuntimeEnvSetupError=GoneError,
        TaskUnschedulableError=GoneError,
    )

    def __init__(self, fate: Callable[[int, str], None] = lambda call, when: None, cpus: float = 2.0) -> None:
        self.fate, self.cpus, self.puts, self.calls, self.most, self.looks = fate, cpus, 0, 0, 0, 0
        self.options: dict[str, Any] = {}
        self.tasks: dict[int, Any] = {}
        self.waiting: set[int] = set()

    def put(self, value: Any) -> bytes:
        self.puts += 1
        return pickle.dumps(value)

    def get(self, reference: Any) -> Any:
        if isinstance(reference, bytes):
            return pickle.loads(reference)
        function, data = self.tasks.pop(reference)
        self.fate(reference, "before")
        try:
            function(*pickle.loads(data))
        except VeracityError as error:
            raise TaskError(error) from error
        self.fate(reference, "after")
        return None

    def remote(self, **options: Any) -> Any:
        self.options = options

        def wrap(function: Any) -> Any:
            def start(*arguments: Any) -> int:
                self.calls += 1
                self.tasks[self.calls] = function, pickle.dumps(arguments)
                self.waiting.add(self.calls)
                self.most = max(self.most, len(self.waiting))
                return self.calls

            return SimpleNamespace(remote=start)

        return wrap

    def wait(self, references: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        self.waiting.discard(references[0])
        return references[:1], references[1:]

    def cancel(self, reference: int, force: bool) -> None:
        self.tasks.pop(reference, None)

    def cluster_resources(self) -> dict[str, float]:
        self.looks += 1
        return {"CPU": self.cpus}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": self.cpus, "memory": 2.0**33}}]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeRay], None]:
    def use(fake: FakeRay) -> None:
        from contextlib import contextmanager

        @contextmanager
        def connected(address: str) -> Iterator[FakeRay]:
            yield fake

        monkeypatch.setattr(cluster, "connected", connected)
        monkeypatch.setattr(Ray, "check", lambda self: None)
        monkeypatch.setitem(__import__("sys").modules, "ray", fake)
        cluster.RUNNERS.clear()

    return use


def run(folder: Path, executor: Any = None, **changes: Any) -> Result:
    return audit(**changes).run(folder, batch=64, progress=False, on=executor or Ray())


def test_tasks_give_the_table_of_an_inline_run_and_the_models_travel_once(tmp_path: Path, on: Any, inline: pd.DataFrame) -> None:
    fake = FakeRay()
    on(fake)
    threads = torch.get_num_threads()
    result = run(tmp_path / "run", Ray(cpus=0.5))
    torch.set_num_threads(threads)
    pd.testing.assert_frame_equal(result.table(), inline, check_exact=True)
    assert fake.puts == 1
    assert fake.calls == len({cell["base"] for cell in result.manifest["cells"]})
    assert fake.most <= cluster.AHEAD * 4
    assert {name: fake.options[name] for name in ("num_cpus", "num_gpus")} == {"num_cpus": 0.5, "num_gpus": 0.0}
    assert fake.options["memory"] == 1 << 30


def test_the_size_of_the_cluster_is_asked_now_and_then_and_a_node_that_joins_is_used(
    tmp_path: Path, on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: next(clock) / 8))
    fake = FakeRay(cpus=1.0)
    on(fake)
    result = run(tmp_path / "run")
    jobs = len({cell["base"] for cell in result.manifest["cells"]})
    assert fake.calls == jobs
    assert 1 < fake.looks < jobs
    joined = FakeRay(cpus=1.0)
    joined.fate = lambda call, when: setattr(joined, "cpus", 3.0)
    on(joined)
    run(tmp_path / "again")
    assert cluster.AHEAD < joined.most <= 3 * cluster.AHEAD


def test_a_worker_forgets_the_run_before(tmp_path: Path, on: Any) -> None:
    def fate(call: int, when: str) -> None:
        if (call, when) == (1, "before"):
            EXPLAINED.recall("of the run before", frozenset({"maps"}), lambda _: {"maps": torch.zeros(1)})

    on(FakeRay(fate))
    run(tmp_path / "run", explainers=["gradient"], controls=False)
    assert "of the run before" not in EXPLAINED


def test_workers_elsewhere_are_given_an_absolute_path(tmp_path: Path, on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    on(FakeRay(lambda call, when: os.chdir("/")))
    with suppress(StoreError):  # this process has left the folder too
        run(Path("run"), explainers=["gradient"], controls=False)
    assert Result(tmp_path / "run").progress.pending == 0


def test_a_job_whose_worker_died_is_given_out_again_without_its_finished_cells(tmp_path: Path, on: Any, inline: pd.DataFrame) -> None:
    def fate(call: int, when: str) -> None:
        if (call, when) in ((2, "before"), (3, "after"), (4, "before")):
            raise DiedError("the worker died")

    fake = FakeRay(fate)
    on(fake)
    result = run(tmp_path / "run")
    pd.testing.assert_frame_equal(result.table(), inline, check_exact=True)
    jobs = len({cell["base"] for cell in result.manifest["cells"]})
    assert fake.calls == jobs + 2  # the job of the third call had finished all of its cells before its worker died


def test_a_job_on_which_every_worker_dies_becomes_a_record_and_the_rest_counts(tmp_path: Path, on: Any) -> None:
    def fate(call: int, when: str) -> None:
        if when == "before" and (call == 1 or call > 6):  # there are six jobs
            raise DiedError("Out of memory.\nDetails follow")

    on(FakeRay(fate))
    with pytest.warns(Note, match=f"The Ray worker died {TRIES} times on this job; the last time: Out of memory"):
        result = run(tmp_path / "run", explainers=["gradient"], controls=False)
    assert 0 < result.progress.failed < result.progress.cells


def test_errors_of_the_store_and_of_the_cluster_end_the_run_with_one_sentence(tmp_path: Path, on: Any) -> None:
    def gone(call: int, when: str) -> None:
        raise GoneError("The raylet died\nlong story")

    on(FakeRay(gone))
    with pytest.raises(InputError, match=r"^The Ray cluster failed \(The raylet died\): run the same command again, which resumes\.$"):
        run(tmp_path / "run")


def test_a_node_with_other_versions_is_refused(tmp_path: Path, on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on(FakeRay())
    asked: list[int] = []

    def versions() -> dict[str, str]:
        asked.append(1)
        return {"torch": "2.13.0"} if len(asked) == 1 else {"torch": "2.12.1"}

    monkeypatch.setattr(cluster, "versions", versions)
    with pytest.raises(
        InputError, match=r"^The node .* has torch 2\.12\.1, and the process that gives out the jobs torch 2\.13\.0: install"
    ):
        run(tmp_path / "run")


def test_a_node_that_does_not_see_the_folder_is_refused(tmp_path: Path) -> None:
    RunFolder(str(tmp_path / "here")).establish()
    with pytest.raises(StoreError, match="does not see the run folder"):
        cluster.Expected("a", {}, str(tmp_path / "elsewhere"), RunFolder(str(tmp_path / "here")).run).check()


def test_a_cluster_without_room_for_a_job_is_said(tmp_path: Path, on: Any) -> None:
    on(FakeRay(cpus=2))
    with pytest.warns(Note, match="None of the 1 nodes of the Ray cluster has 4 CPUs, 0 GPUs and 1.0 GiB for a job"):
        run(tmp_path / "run", Ray(cpus=4), explainers=["gradient"], controls=False)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("address", ["somewhere", "10.0.0.1", "host:port", "host:²"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=f"^'{address}' is not an address of a Ray cluster: give host:port, such as"):
        cluster.check_address(address)


def test_an_address_where_nothing_listens_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=rf"^There is no Ray cluster at '{address}' \(.*refused\): start one with 'ray start --head'"):
        cluster.check_address(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=f"^There is no Ray cluster at '{address}'"):
        cluster.check_address("auto")


def test_the_command_line_says_what_belongs_to_an_executor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.toml"
    file.write_text(
        'data = "small:labelled_series"\nexplainers = ["gradient"]\nscores = ["sparseness"]\n[models.net]\nbuild = "small:small_net"\n'
    )
    assert code("audit", file, "--address", "127.0.0.1:1") == 2
    assert "--address belongs to an executor: add --on ray." in " ".join(capsys.readouterr().err.split())
    assert code("audit", file, "--on", "inline", "--gpus", "0.5") == 2
    assert "gpus" in capsys.readouterr().err


class Refusing:
    """A Ray that cannot connect."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def is_initialized(self) -> bool:
        return False

    def init(self, **settings: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("Failed to connect\nlong story"), r"^Something listens at '127.*Failed to connect.: is this the port"),
        (
            RuntimeError("Version mismatch: The cluster was started with:\n Ray: 2.40.0"),
            r"refused this process: Version mismatch: .* Ray: 2\.40\.0$",
        ),
    ],
)
def test_a_head_that_takes_no_connection_is_said_in_one_sentence(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", Refusing(error))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(InputError, match=words), cluster.connected("127.0.0.1:{1}".format(*server.getsockname())):
            pass


def test_a_wrong_address_is_refused_before_anything_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", Refusing(RuntimeError()))
    with pytest.raises(InputError, match="There is no Ray cluster at"):
        run(tmp_path / "run", Ray(address=f"127.0.0.1:{free_port()}"))
    assert not (tmp_path / "run").exists()


def test_without_ray_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'veracity\[ray\]'"), cluster.connected("local"):
        pass


@pytest.mark.subprocess
@pytest.mark.skipif(os.environ.get("VERACITY_TEST_RAY") != "1", reason="set VERACITY_TEST_RAY=1: a cluster takes a minute to start")
def test_a_real_cluster_gives_the_table_of_an_inline_run(tmp_path: Path, inline: pd.DataFrame) -> None:
    if importlib.util.find_spec("ray") is None:  # an import would read the token too early
        pytest.skip("Ray is not installed")
    from benchmarks.ray_cluster import cluster as started

    with started(2) as found:
        result = run(tmp_path / "run", Ray(address=found.address))
        pd.testing.assert_frame_equal(result.table(), inline, check_exact=True)
