from __future__ import annotations

import builtins
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import veracity
from orbit_run import evaluation, measured
from veracity.app import application
from veracity.app import server as serving
from veracity.cli import main
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.report.interactive.packed import unpack


@dataclass(frozen=True)
class Running:
    """A server in a thread."""

    port: int
    token: str
    directory: Path

    def socket(self) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}/api/runs/0/live?token={self.token}", max_size=None)

    def raw(self, request: str) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as plain:
            plain.sendall(f"{request}\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: plain.recv(65536), b""))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "run"
    made = measured(folder, samples=3, explainers=())
    server, listening, address = serving.make_server(folder, evaluation=made)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    parts = urlsplit(address)
    yield Running(parts.port or 0, parse_qs(parts.query)["token"][0], folder)
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def answered(socket: ClientConnection, seq: int) -> bool:
    socket.send(json.dumps({"seq": seq, "sample": 0, "at": [10.0]}))
    data = socket.recv(timeout=10)
    assert isinstance(data, bytes)
    return unpack(data)[0]["seq"] == seq


def test_a_message_of_a_hundred_megabytes_ends_its_socket_and_nothing_else(running: Running) -> None:
    with running.socket() as calm, running.socket() as huge:
        assert answered(huge, 1)
        with suppress(ConnectionClosed, OSError):
            huge.send("x" * 100_000_000)
        with pytest.raises(ConnectionClosed):
            huge.recv(timeout=10)
        assert huge.close_code in (1009, 1006)  # too big; or the line is cut before that word has come through
        assert answered(calm, 2)


def test_a_message_beyond_64_kib_is_refused_and_one_below_is_read(running: Running) -> None:
    with running.socket() as one:
        one.send(" " * 60_000 + '{"seq": 3, "sample": 0, "at": [0]}')
        data = one.recv(timeout=10)
        assert isinstance(data, bytes)
        assert unpack(data)[0]["seq"] == 3
        one.send(" " * 70_000)
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=10)


def test_bytes_are_no_question(running: Running) -> None:
    with running.socket() as one:
        one.send(b"\x00" * 10)
        data = one.recv(timeout=10)
        assert isinstance(data, bytes)
        assert "text, not bytes" in unpack(data)[0]["error"]
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=10)


@pytest.mark.parametrize("path", ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/.."])
def test_a_path_as_nobody_cleans_it_leads_nowhere(running: Running, path: str) -> None:
    found = running.raw(f"GET {path} HTTP/1.1\r\nAuthorization: Bearer {running.token}")
    assert found.split(b" ")[1] == b"404"
    assert b"root:" not in found


def test_the_address_opens_the_page_and_no_header_names_the_software(running: Running) -> None:
    found = running.raw(f"GET /?token={running.token} HTTP/1.1")
    assert found.startswith(b"HTTP/1.1 200 OK")
    assert b"uvicorn" not in found.lower().split(b"\r\n\r\n")[0]


def test_many_clients_come_and_go(running: Running) -> None:
    for seq in range(8):
        with running.socket() as one, running.socket() as other:
            assert answered(one, seq)
            assert answered(other, seq)


def test_no_more_sockets_than_there_is_room_for(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.app.live.CLIENTS", 1)
    with running.socket() as one:
        assert answered(one, 1)
        with running.socket() as other:
            data = other.recv(timeout=10)
            assert isinstance(data, bytes)
            assert "clients are connected already" in unpack(data)[0]["error"]
        assert answered(one, 2)


def test_a_port_that_is_taken_is_a_sentence(running: Running) -> None:
    with pytest.raises(InputError, match=r"at the host '203\.0\.113\.7' \(.*\): choose another --host"):
        serving.listen_at("203.0.113.7", 0)
    with pytest.raises(InputError, match="at the host 'no such host'"):
        serving.listen_at("no such host", 0)
    with pytest.raises(InputError, match="choose another --port"):
        serving.make_server(running.directory, port=running.port)


def test_tokens_are_long_and_never_the_same(running: Running) -> None:
    found = set()
    for _ in range(3):
        _, listening, address = serving.make_server(running.directory)
        listening.close()
        found.add(parse_qs(urlsplit(address).query)["token"][0])
        assert urlsplit(address).hostname == "127.0.0.1"
    assert len(found) == 3
    assert min(map(len, found)) >= 32


def test_without_the_extra_one_sentence_says_what_to_install(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SpecError, match=r"This needs uvicorn, which is not installed: pip install 'veracity\[app\]'"):
        serving.make_server(running.directory)


def test_the_command_says_where_it_is_and_opens_the_browser(
    running: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, served = queue.SimpleQueue[str](), []
    monkeypatch.setattr(serving.webbrowser, "open", opened.put)
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: served.append(sockets[0].getsockname()))
    for options in ([], ["--no-browser"]):
        with pytest.raises(SystemExit) as caught:
            main(["app", str(running.directory), *options])
        assert caught.value.code in (None, 0)
    address = capsys.readouterr().out.splitlines()[0]
    assert urlsplit(address).port == served[0][1]
    assert served[0][0] == "127.0.0.1"
    assert opened.get(timeout=10) == address
    assert opened.empty(), "not where --no-browser says so"


def test_an_interrupt_ends_it_and_frees_the_port(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    server, listening, address = serving.make_server(running.directory)
    port, real = urlsplit(address).port, threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout != serving.INTERVAL:
            return real(event, timeout)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert answer.status == 200
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    assert serving.stay(server, listening)
    monkeypatch.undo()
    listening.close()
    serving.listen_at("127.0.0.1", port or 0).close()


def test_a_folder_of_runs_is_no_folder_to_serve_one_run_from(tmp_path: Path) -> None:
    made, told = measured(tmp_path / "runs" / "one", samples=2, explainers=()), list[str]()
    with pytest.raises(StoreError, match=r"runs holds runs and is none itself: pass the run's own folder, such as .*runs/one\."):
        veracity.serve(made, tmp_path / "runs", open_browser=False, announce=told.append)
    assert told == []


def test_serving_an_evaluation_measures_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    veracity.serve(evaluation(samples=2, explainers=()), tmp_path / "run", open_browser=False, announce=told.append)
    assert veracity.OrbitResult(tmp_path / "run").values("seed 0", "confidence").shape == (2, 8)
    assert told[0].startswith("http://127.0.0.1:")


def test_plain_python_is_refused_without_the_token(running: Running) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://127.0.0.1:{running.port}/api/index", timeout=10)
    assert caught.value.code == 401
    caught.value.close()


@pytest.fixture
def hurried(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    """The server with little patience."""
    monkeypatch.setattr(application, "PATIENCE", 1.0)
    return running


HALVES = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "half a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc",
    "half a second request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /",
}


@pytest.mark.parametrize("half", HALVES)
def test_a_client_that_sends_half_a_request_is_cut_and_keeps_nobody_waiting(hurried: Running, half: str) -> None:
    waiting = [socket.create_connection(("127.0.0.1", hurried.port), timeout=10) for _ in range(20)]
    for one in waiting:
        one.sendall(HALVES[half])
    started = time.monotonic()
    assert hurried.raw("GET / HTTP/1.1").startswith(b"HTTP/1.1 200 OK")
    assert time.monotonic() - started < 1.0
    for one in waiting:
        with suppress(ConnectionError):
            while one.recv(65536):
                pass
        one.close()
    assert time.monotonic() - started < 6.0


def dripping(slow: socket.socket) -> None:
    """A header that never ends, a few bytes at a time."""
    slow.sendall(b"GET / HTTP/1.1\r\n")
    for _ in range(60):
        slow.sendall(b"X: y\r\n")
        time.sleep(0.1)


def test_a_client_that_goes_on_sending_slowly_is_cut_too(hurried: Running) -> None:
    with socket.create_connection(("127.0.0.1", hurried.port), timeout=10) as slow, pytest.raises(ConnectionError):
        dripping(slow)


def test_a_long_answer_is_not_cut(hurried: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.app.application.bundled", lambda name: time.sleep(3) or b"late")
    assert hurried.raw("GET /app.js HTTP/1.1").endswith(b"late")


def test_an_answer_that_the_end_of_the_server_cuts_off_is_no_error(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    monkeypatch.setattr("veracity.app.application.bundled", lambda name: asked.set() or time.sleep(3) or b"late")
    server, listening, address = serving.make_server(running.directory)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10) as waiting:
        waiting.sendall(b"GET /app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert asked.wait(10)
        server.should_exit = True
        with suppress(ConnectionError):
            assert waiting.recv(65536) == b"", "a page that is told of an error does not wait for the next server"
    thread.join(10)
    assert not thread.is_alive()


def test_one_connection_too_many_takes_the_place_of_the_one_that_waited_longest(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "CONNECTIONS", 5)
    waiting = []
    for _ in range(5):
        waiting.append(socket.create_connection(("127.0.0.1", running.port), timeout=10))
        time.sleep(0.02)
    assert running.raw("GET / HTTP/1.1").startswith(b"HTTP/1.1 200 OK")
    with suppress(ConnectionError):
        assert waiting[0].recv(1) == b""
    for one in waiting:
        one.close()


@contextmanager
def python_running(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs some Python, and never longer than two minutes."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        late = threading.Timer(120.0, process.kill)
        late.daemon = True
        late.start()
        yield process


COMMAND = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts the background jobs of a script
sys.path.insert(0, {tests!r})
from functools import partial
from orbit_run import evaluation
from veracity import app
from veracity.cli import main
from veracity.orbits import Live
Live.answer = lambda *rest: time.sleep(60)
app.show = partial(app.show, evaluation=evaluation(samples=3, explainers=()))
main(["app", {folder!r}, "--no-browser"])
"""


@pytest.mark.subprocess
def test_ctrl_c_ends_the_command_at_once_though_a_model_is_computing(running: Running) -> None:
    code = COMMAND.format(tests=str(Path(__file__).parents[1]), folder=str(running.directory))
    with python_running(code) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = urlsplit(process.stdout.readline().strip())
        half = socket.create_connection(("127.0.0.1", address.port or 0))
        half.sendall(HALVES["half a body"])
        token = parse_qs(address.query)["token"][0]
        with connect(f"ws://127.0.0.1:{address.port}/api/runs/0/live?token={token}") as live:
            live.send('{"seq": 1, "sample": 0, "at": [0]}')
            time.sleep(1.0)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            with pytest.raises(ConnectionClosed):
                live.recv(timeout=10)
            assert live.close_code == 1001
            assert process.wait(30) == 0
            assert time.monotonic() - started < 2.0
        assert process.stderr.read() == ""
        half.close()


SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path.insert(0, {tests!r})
from orbit_run import evaluation
from veracity.app import serve
from veracity.orbits import Live
Live.answer = lambda *rest: time.sleep(4)
serve(evaluation(samples=3, explainers=()), {folder!r}, open_browser=False)
print("ended", flush=True)
"""


@pytest.mark.subprocess
def test_a_script_goes_on_and_says_that_a_model_is_still_computing(running: Running) -> None:
    """Python waits for the threads of pools before it ends; to break an answer off could leave the caller's model changed."""
    code = SCRIPT.format(tests=str(Path(__file__).parents[1]), folder=str(running.directory))
    with python_running(code) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = (line.strip() for line in process.stdout)
        address = urlsplit(next(line for line in lines if line.startswith("http://")))
        token = parse_qs(address.query)["token"][0]
        with connect(f"ws://127.0.0.1:{address.port}/api/runs/0/live?token={token}") as live:
            live.send('{"seq": 1, "sample": 0, "at": [0]}')
            time.sleep(1.0)
            process.send_signal(signal.SIGINT)
            assert "ended" in list(lines)
            assert process.wait(30) == 0
            assert "A model is still computing an answer" in process.stderr.read()
