from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from app_client import LIVE, ORIGIN, SOCKET, TOKEN, client
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from orbit_run import HOSTILE, evaluation, measured
from veracity.app.guard import Guard, allowed_hosts
from veracity.app.runs import Runs
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import study
from veracity.report.interactive.packed import unpack

PATHS = [
    "/api/index", "/api/runs/0", "/api/runs/0/values?metric=confidence&model=seed 0", "/api/runs/0/thumbnails", "/api/runs/0/samples/0",
    "/api/runs/0/reduction?metric=confidence&method=pca", "/api/runs/0/report", "/api", "/api/nothing",
]  # fmt: skip
TRAVERSALS = [
    "/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/app.js/../../../etc/passwd", "/bundle/index.html",
    "/api/runs/..%2f..%2f..%2fetc", "/api/runs/%2e%2e/report", "/api/runs/0/samples/..%2f..%2fmanifest.json", "/api/runs/0%00/report",
    "/api/runs/0/../../../etc/passwd", "//etc/passwd", "/static/app.js", "/manifest.json", "/index.html.bak",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("guarded") / "run"
    measured(found, samples=3, explainers=())
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[TestClient]:
    with client(folder, evaluation(samples=3, explainers=())) as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [{"authorization": ""}, {"authorization": "Bearer"}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": f"Basic {TOKEN}"},
     {"authorization": "Bearer \N{LATIN SMALL LETTER E WITH ACUTE}".encode()}],
)  # fmt: skip
def test_without_the_token_nothing_is_answered(served: TestClient, path: str, headers: dict[str, str | bytes]) -> None:
    found = served.get(path, headers=headers)  # type: ignore[arg-type]
    assert found.status_code == 401
    assert "token" in found.json()["error"]


def test_the_token_may_stand_in_the_address(served: TestClient) -> None:
    for token, status in ((TOKEN, 200), (TOKEN[:-1], 401), ("", 401)):
        assert served.get(f"/api/index?token={token}", headers={"authorization": ""}).status_code == status


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8000", "null", "http://localhost:8000", ""]
)
def test_another_origin_is_refused_though_it_knows_the_token(served: TestClient, origin: str) -> None:
    for path in ("/", "/api/index"):
        assert served.get(path, headers={"origin": origin}).status_code == 403
    with pytest.raises(WebSocketDisconnect) as caught, served.websocket_connect(LIVE, headers={"origin": origin}):
        pass
    assert caught.value.code == 4403


def test_the_pages_own_origin_is_welcome(served: TestClient) -> None:
    assert served.get("/api/index", headers={"origin": ORIGIN}).status_code == 200
    with served.websocket_connect(LIVE, headers={"origin": ORIGIN}) as socket:
        socket.send_text('{"seq": 1, "sample": 0, "at": [0]}')
        assert unpack(socket.receive_bytes())[0]["seq"] == 1


@pytest.mark.parametrize("address", [SOCKET, f"{SOCKET}?token=wrong", f"{SOCKET}?token="])
def test_a_socket_without_the_token_is_refused(served: TestClient, address: str) -> None:
    with pytest.raises(WebSocketDisconnect) as caught, served.websocket_connect(address, headers={"authorization": "", "origin": ORIGIN}):
        pass
    assert caught.value.code == 4401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "127.0.0.1:8000@evil", "", "127.0.0.1; x"])
def test_a_name_that_leads_here_from_elsewhere_is_refused(served: TestClient, host: str) -> None:
    found = served.get("/", headers={"host": host})
    assert found.status_code == 400
    assert "not served here" in found.json()["error"]


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1:65000", "[::1]:8000"])
def test_the_machines_own_names_and_forwarded_ports_are_served(served: TestClient, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host.lower()}"}
    assert served.get("/api/index", headers=headers).status_code == 200


def test_a_server_for_other_machines_takes_addresses_and_its_name_alone() -> None:
    def refused(host: str) -> int | None:
        scope = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": [(b"host", host.encode())]}
        return Guard(app=None, token="t", hosts=allowed_hosts("0.0.0.0")).refusal(scope)  # type: ignore[arg-type]

    assert [refused(host) for host in ("10.1.2.3:80", "[fe80::1]:80", "localhost", "evil.example")] == [None, None, None, 400]
    assert allowed_hosts("10.1.2.3") >= {"10.1.2.3", "localhost"}
    assert "*" not in allowed_hosts("10.1.2.3")


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_to_a_file(served: TestClient, path: str) -> None:
    found = served.get(path)
    assert found.status_code in (400, 404, 422)
    assert "error" in found.json()
    assert "root:" not in found.text


def test_a_link_in_a_run_folder_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    runs = tmp_path / "runs"
    for folder in (runs / "one", tmp_path / "outside"):
        with study(RunFolder(str(folder)), Kind.META, ["base"]):
            pass
    (runs / "one" / "report.html").symlink_to(secret)
    (runs / "linked").symlink_to(tmp_path / "outside")
    with client(runs) as served:
        assert [one["path"] for one in served.get("/api/index").json()["runs"]] == ["one"]
        found = served.get("/api/runs/0/report")
        assert found.status_code == 409
        assert "no report" in found.json()["error"]


def test_the_page_may_talk_to_its_server_and_to_nobody_else(served: TestClient) -> None:
    for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css")):
        found = served.get(path, headers={"authorization": ""})
        assert found.status_code == 200
        assert found.headers["content-type"].startswith(kind)
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "connect-src 'self' ws://127.0.0.1:8000;" in policy
        assert "unsafe" not in policy


def test_answers_are_not_kept_and_not_guessed_at(served: TestClient) -> None:
    for path in ("/api/index", "/api/runs/0/samples/0", "/api/nothing"):
        found = served.get(path)
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"


def test_a_class_name_stays_text(served: TestClient) -> None:
    found = served.get("/api/runs/0")
    assert found.headers["content-type"] == "application/json"
    assert found.json()["classes"][1] == HOSTILE


def test_documentation_pages_that_load_from_elsewhere_are_off(served: TestClient) -> None:
    assert {served.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")} == {404}


def test_a_folder_without_runs_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no run in"):
        Runs(tmp_path)
    with pytest.raises(StoreError, match="is not a folder"):
        Runs(tmp_path / "nowhere")
