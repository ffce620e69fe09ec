"""The port and the token that a folder keeps."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from veracity.app import server as serving
from veracity.app.address import kept, place_of, token_in
from veracity.core.errors import InputError, Note


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def usual(folder: Path, host: str = "127.0.0.1") -> tuple[int, str]:
    return serving.usual_address(folder, port=None, host=host, token_file=None)


def test_a_folder_keeps_its_port_and_its_token_for_one_user_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = usual(tmp_path)
    assert usual(tmp_path) == first
    assert usual(tmp_path / "other") != first
    assert kept(tmp_path)[1]
    assert stat.S_IMODE(place_of(tmp_path).stat().st_mode) == 0o600
    place_of(tmp_path).chmod(0o644)
    assert usual(tmp_path)[1] != first[1], "a token that others could read is not used again"


def test_a_port_that_is_taken_is_not_forgotten(tmp_path: Path) -> None:
    port, token = usual(tmp_path)
    with serving.listen_at("127.0.0.1", port), pytest.warns(Note, match=f"The port {port} of last time is taken"):
        assert usual(tmp_path) == (0, token)
    assert usual(tmp_path) == (port, token)


def test_a_token_that_others_may_hear_is_used_once(tmp_path: Path) -> None:
    assert usual(tmp_path, "0.0.0.0")[1] != usual(tmp_path, "0.0.0.0")[1]


def test_a_token_file_is_made_for_its_owner_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "token"
    token = token_in(file)
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert serving.usual_address(tmp_path, port=8123, host="127.0.0.1", token_file=file) == (8123, token)
    file.chmod(0o640)
    with pytest.raises(InputError, match="is not yours alone"):
        token_in(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(InputError, match="holds no token"):
        token_in(file)
    os.remove(file)
    file.mkdir()
    with pytest.raises(InputError, match=r"The token file"):
        token_in(file)
