"""Inputs that a person gives on the page of an audit: the numbers of an audit of the same input, and one sentence for what does not fit."""

from __future__ import annotations

import io
import json
import shutil
import struct
import threading
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
import torch
from app_client import LIVE, ORIGIN, TOKEN, client
from PIL import Image
from starlette.testclient import TestClient
from torch import Tensor, nn

from orbit_small import SIDE, labels, linear
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.app import forms, uploads
from veracity.app import server as serving
from veracity.app.application import create
from veracity.app.runs import Runs, Workspace
from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs
from veracity.inputs import ImageInputs, Scaling, TableInputs, TextInputs
from veracity.perturb import Dihedral
from veracity.report.interactive.packed import unpack
from veracity.results import Result
from veracity.walk import MonteCarlo

SCORES = ["equivariance", "max_sensitivity", "sparseness", "pixel_flipping", "gef"]
PIXELS = np.random.default_rng(0).integers(0, 256, (6, SIDE, SIDE), dtype=np.uint8)
BY = "\N{MULTIPLICATION SIGN}"
ADDRESS = "/api/runs/0/inputs"


def curved(seed: int, channels: int = 1) -> nn.Module:
    """A small network whose gradient depends on its input."""
    first = nn.Linear(channels * SIDE * SIDE, SIDE * SIDE, bias=False)
    with torch.no_grad():
        first.weight.copy_(torch.randn(first.weight.shape, generator=torch.Generator().manual_seed(seed)) / 3)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), linear(seed + 10)).eval()


def audit(**settings: Any) -> Audit:
    given: dict[str, Any] = {"explainers": ["smooth_grad", "gradient"], "scores": SCORES, "symmetry": Dihedral(), "inputs": numbers(PIXELS)}
    given |= {"models": {"one": curved(0), "two": curved(1)}, "walk": MonteCarlo(draws=5), "targets": labels()}
    return Audit(**{**given, **settings})


def numbers(pixels: Any) -> Tensor:
    return torch.from_numpy(pixels[:, None] / 255).float()


def png(pixels: Any, kind: str = "PNG", **settings: Any) -> bytes:
    buffer = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, format=kind, **settings)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def made() -> Audit:
    return audit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, made: Audit) -> Path:
    found = tmp_path_factory.mktemp("own") / "run"
    made.run(found, progress=False)
    return found


@pytest.fixture(scope="module")
def server(folder: Path, made: Audit) -> Iterator[TestClient]:
    with client(folder, made) as found:
        yield found


class Asked:
    """What a server says of one input; or why it does not take it."""

    def __init__(self, server: TestClient, data: bytes, **how: Any) -> None:
        self.server, sent = server, server.post(ADDRESS, content=data, params=how)
        assert sent.status_code == 200, sent.text
        self.name = sent.json()["input"]

    def __call__(self, model: str = "two", explainer: str = "", score: str = "") -> dict[str, Any]:
        return question(self.server, input=self.name, model=model, explainer=explainer, score=score)

    @property
    def error(self) -> str:
        return str(self()["error"])


def question(server: TestClient, **asked: Any) -> dict[str, Any]:
    with server.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps({"seq": 1, **asked}))
        return dict(unpack(socket.receive_bytes())[0])


def test_an_audited_sample_has_its_own_numbers_again(server: TestClient, folder: Path, made: Audit) -> None:
    result = Result(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    states = {name: fingerprint.of_model(module) for name, module in made.modules.items() if isinstance(module, nn.Module)}
    drawn = torch.random.get_rng_state()
    own = Asked(server, png(PIXELS[0]))
    said = own()
    assert said["steps"] == [f"PNG, 4 {BY} 4 pixels in grey", "pixels 0 to 255 became 0 to 1, divided by 255"]
    module = made.modules["two"]
    assert isinstance(module, nn.Module)
    output = module(numbers(PIXELS[:1])).detach().softmax(1)[0]
    assert said["prediction"]["top"][0] == [f"class {int(output.argmax())}", pytest.approx(float(output.max()), rel=1e-5)]
    assert said["prediction"]["explained"] == said["prediction"]["top"][0]
    known = {(one["model"], one["explainer"], one["score"], one["sample"]): one["value"] for one in every_value(result)}
    checked = 0
    for explainer, scores in said["scores"].items():
        for score in scores:
            found, value = own(explainer=explainer, score=score), known["two", explainer, score, 0]
            assert found["value"] == (None if np.isnan(value) else pytest.approx(value, rel=1e-5, abs=1e-7)), (explainer, score)
            others = np.array([known["two", explainer, score, sample] for sample in range(6)])
            if found["value"] is not None:
                assert found["of"] == np.isfinite(others).sum()
                assert found["lower"] <= (others <= value + 1e-6).sum()
                assert found["same"] >= 1, "the sample itself, whose value differs by rounding alone"
            checked += 1
    assert {score for scores in said["scores"].values() for score in scores} >= set(SCORES)
    assert checked >= 20
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "nothing is written"
    assert {name: fingerprint.of_model(module) for name, module in made.modules.items() if isinstance(module, nn.Module)} == states
    assert all(one.grad is None for module in made.modules.values() if isinstance(module, nn.Module) for one in module.parameters())
    assert torch.equal(torch.random.get_rng_state(), drawn)


def every_value(result: Result) -> list[Any]:
    scores = {one.score for one in result.series} & set(result.manifest["scores"])
    return [row for score in scores for row in result.samples(score).assign(score=score).to_dict("records")]


def test_a_new_input_has_the_numbers_of_an_audit_of_it_alone(server: TestClient, tmp_path: Path, made: Audit) -> None:
    pixels = np.random.default_rng(9).integers(0, 256, (1, SIDE, SIDE), dtype=np.uint8)
    alone = audit(inputs=numbers(pixels), targets=None, outputs="logits", scores=["equivariance", "sparseness"], controls=False)
    result = alone.run(tmp_path / "alone", progress=False)
    own = Asked(server, png(pixels[0]))
    for model in ("one", "two"):
        for explainer in ("gradient", "smooth_grad"):
            assert own(model, explainer)["drawing"]["kind"] == "picture"
            for score in ("equivariance", "sparseness"):
                known = result.samples(score).set_index(["model", "explainer"])["value"][model, explainer]
                assert own(model, explainer, score)["value"] == pytest.approx(known, rel=1e-5)


def test_an_explanation_is_that_of_the_result(server: TestClient, folder: Path) -> None:
    stored = server.get("/api/runs/0/cases/0/explanation", params={"model": "one", "score": "sparseness", "explainer": "smooth_grad"})
    assert Asked(server, png(PIXELS[0]))("one", "smooth_grad")["drawing"] == stored.json()["drawing"]


def test_the_page_is_told_what_can_be_given(server: TestClient) -> None:
    about = question(server, input="")
    assert (about["kind"], about["width"], about["height"], about["mode"]) == ("image", SIDE, SIDE, "grey")
    assert (about["models"], about["likely"], about["label"]) == (["one", "two"], "unit", False)
    assert [one["value"] for one in about["sizes"]] == ["refuse", "stretch", "crop"]


def test_other_sizes_and_colours_are_converted_only_if_that_is_chosen(server: TestClient) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (8, 16, 3), dtype=np.uint8)
    assert Asked(server, png(photo)).error == (
        f"The image is 16 {BY} 8 pixels in colour, and the model takes 4 {BY} 4 pixels in grey: choose to stretch or crop other images, or "
        "give one like that."
    )
    assert Asked(server, png(photo), size="stretch")()["steps"][:3] == [
        f"PNG, 16 {BY} 8 pixels in colour", "converted to grey", f"stretched to 4 {BY} 4 pixels (bilinear)",
    ]  # fmt: skip
    cropped = Asked(server, png(photo, "JPEG"), size="crop")()
    assert cropped["steps"][2] == f"its centre cropped and resized to 4 {BY} 4 pixels (bilinear)"
    assert cropped["steps"][0] == f"JPEG, 16 {BY} 8 pixels in colour"
    clear = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    assert "put on white" in Asked(server, png(clear), size="stretch")()["steps"]


def test_pixels_become_what_was_chosen() -> None:
    form = forms.ImageForm(shape=(1, SIDE, SIDE), like=torch.tensor([-2.0, 3.0]))
    data, row = png(PIXELS[0]), torch.zeros(1, dtype=torch.long)

    def values(**how: Any) -> Tensor:
        return form.read(data, forms.How(**how)).inputs.take(row).values[0, 0]

    pixels = torch.from_numpy(PIXELS[0]).double()
    assert form.about()["likely"] == "span"
    assert torch.allclose(values(), (-2 + 5 * pixels / 255).float())
    assert torch.equal(values(pixels="byte"), pixels.float())
    assert torch.allclose(values(pixels="unit"), (pixels / 255).float())
    assert torch.allclose(values(pixels="standard", mean="0.5", std="0.25"), ((pixels / 255 - 0.5) / 0.25).float())


def test_a_picture_that_is_lighter_than_all_samples_is_doubted_and_can_be_inverted() -> None:
    dark = torch.zeros(4, 1, SIDE, SIDE)
    dark[:, 0, 0] = torch.tensor([0.2, 0.4, 0.6, 1.0])[:, None]
    form = forms.form_of(TensorInputs(dark), None, [])
    assert isinstance(form, forms.ImageForm)
    drawn = np.full((SIDE, SIDE), 255, dtype=np.uint8)
    drawn[0] = 128
    given = form.read(png(drawn), forms.How())
    assert given.doubt == "This picture is lighter than every audited sample: invert it?"
    assert given.invertible
    given = form.read(png(drawn), forms.How(invert=True))
    assert given.doubt == ""
    assert given.steps[-2] == "inverted"
    light = form.read(png(255 - drawn), forms.How())
    assert torch.equal(forms.values_of(given.inputs), forms.values_of(light.inputs))
    back = form.read(png(255 - drawn), forms.How(invert=True))
    assert back.doubt == "This picture is lighter than every audited sample: take the inversion back?"
    grey = form.read(png(np.full((SIDE, SIDE), 128, dtype=np.uint8)), forms.How())
    assert (grey.doubt, grey.invertible) == ("This picture is lighter than every audited sample: check what its pixels become.", False)


def test_a_number_that_the_audited_numbers_cannot_hold_is_refused() -> None:
    form = forms.form_of(TensorInputs(torch.ones(3, 2)), None, [])
    with pytest.raises(InputError, match=r"^1e\+39 in the column 'value 1' is too large for this audit's numbers \(torch.float32\)\.$"):
        form.read(b"1, 1e39", forms.How())
    assert forms.values_of(form.read(b"1, 1e38", forms.How()).inputs).tolist() == [[1, torch.tensor(1e38)]]


def test_stored_images_keep_the_scaling_of_the_audit(tmp_path: Path) -> None:
    colours = np.random.default_rng(2).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)
    scaling = Scaling(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    made = audit(
        inputs=ImageInputs(colours, scaling, "last"), targets=None, models={"two": curved(3, 3)}, scores=["sparseness"], controls=False
    )
    known = made.run(tmp_path / "run", progress=False).samples("sparseness").set_index(["explainer", "sample"])["value"]
    with client(tmp_path / "run", made) as server:
        assert question(server, input="")["pixels"] == []
        own = Asked(server, png(colours[0]))
        assert own()["steps"][1] == "scaled as the audit scales its images"
        assert own(explainer="gradient", score="sparseness")["value"] == pytest.approx(known["gradient", 0], rel=1e-5)


def bomb(width: int = 30_000, height: int = 30_000) -> bytes:
    """A small PNG whose header claims so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


BAD_IMAGES = {
    "nothing": (b"", {}, "The file is empty: give a PNG or JPEG image."),
    "no image": (b"%PDF-1.7 and so on", {}, "This file is no PNG or JPEG image: give one of these."),
    "another kind": (png(PIXELS[0], "GIF"), {}, "This file is no PNG or JPEG image: give one of these."),
    "a bomb": (bomb(), {}, "The image has more than 40 million pixels, or more than 20,000 along a side: make it smaller."),
    "a long line": (bomb(30_000, 1), {}, "or more than 20,000 along a side: make it smaller."),
    "half an image": (png(np.zeros((64, 64), np.uint8))[:-30], {}, "This image is damaged, so that it cannot be read"),
    "16 bits": (png(np.zeros((4, 4), np.uint16)), {}, "The image has more than 8 bits per channel (mode I;16): save it with 8."),
    "a strange choice": (png(PIXELS[0]), {"size": "bend"}, "Unknown way to treat images of another size 'bend'"),
    "a strange scale": (png(PIXELS[0]), {"pixels": "log"}, "Unknown way to scale pixels 'log'"),
    "no mean": (png(PIXELS[0]), {"pixels": "standard", "mean": "a", "std": "1"}, "The mean of pixels is one number, not 'a'."),
    "no spread": (png(PIXELS[0]), {"pixels": "standard", "mean": "0", "std": "0"}, "The std of pixels must be larger than 0, not 0.000."),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_IMAGES)
def test_a_bad_image_is_one_sentence_and_the_server_goes_on(server: TestClient, kind: str) -> None:
    data, how, sentence = BAD_IMAGES[kind]
    assert sentence in Asked(server, data, **how).error
    assert "prediction" in Asked(server, png(PIXELS[1]))()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"model": "three"}, "Unknown model of this run 'three'"),
        ({"explainer": "lime"}, "Unknown explainer of this run 'lime'"),
        ({"explainer": "gradient", "score": "cosine"}, "Unknown score of gradient: 'cosine'. "),
        ({"score": "cosine"}, "Unknown score of the model itself: 'cosine'. Known: model_faithfulness"),
    ],
)
def test_a_question_about_what_there_is_not_is_one_sentence(server: TestClient, asked: dict[str, str], sentence: str) -> None:
    assert sentence in Asked(server, png(PIXELS[0]))(**asked)["error"]
    assert question(server, input="nobody", model="two")["error"] == uploads.GONE
    assert "A question about an input of your own is JSON" in question(server, input=3)["error"]


def test_only_who_knows_the_token_may_send(server: TestClient) -> None:
    data = png(PIXELS[0])
    for headers, status in (
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer guess"}, 401),
        ({"origin": "http://evil.example"}, 403),
        ({"host": "evil.example"}, 400),
    ):
        assert server.post(ADDRESS, content=data, headers=headers).status_code == status
    assert server.post(ADDRESS, content=data, headers={"origin": ORIGIN}).status_code == 200
    assert server.get(ADDRESS).status_code == 405
    assert "POST" in server.get(ADDRESS).json()["error"]


def test_what_is_too_large_is_refused_before_it_is_read(server: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LARGEST", 1024 * 1024)
    said = server.post(ADDRESS, content=bytes(1024 * 1024 + 1))
    assert (said.status_code, said.json()["error"]) == (413, "This input is 1 MiB, and at most 1 MiB are read: make it smaller.")
    said = server.post(ADDRESS, content=iter([bytes(64 * 1024)] * 64))
    assert (said.status_code, said.json()["error"]) == (413, "This input is more than 1 MiB, and at most 1 MiB are read: make it smaller.")
    monkeypatch.setattr(uploads, "AT_ONCE", 0)
    assert server.post(ADDRESS, content=png(PIXELS[0])).status_code == 429


def test_nine_gigabytes_are_refused_at_once_by_a_running_server(folder: Path, made: Audit) -> None:
    running, listening, address = serving.make_server(folder, evaluation=made)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    parts = urlsplit(address)
    headers = {"authorization": f"Bearer {parse_qs(parts.query)['token'][0]}"}
    for more, size in (("content-length", "8,583 MiB"), ("transfer-encoding", "more than 16 MiB")):
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        connection.putrequest("POST", ADDRESS)
        for name, value in {**headers, more: str(9 * 10**9) if more == "content-length" else "chunked"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        for _ in range(40 if more == "transfer-encoding" else 0):
            connection.send(b"100000\r\n" + bytes(1024 * 1024) + b"\r\n")
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"] == f"This input is {size}, and at most 16 MiB are read: make it smaller."
        connection.close()
    whole = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    whole.request("POST", ADDRESS, png(PIXELS[0]), headers)
    assert whole.getresponse().status == 200
    whole.close()
    running.should_exit = True
    thread.join(10)


def test_only_the_newest_inputs_are_held(server: TestClient) -> None:
    first = Asked(server, png(PIXELS[0]))
    for _ in range(uploads.HELD):
        last = Asked(server, png(PIXELS[0]))
    assert first.error == uploads.GONE
    assert "prediction" in last()


def test_a_run_that_is_deleted_while_it_is_open_is_one_sentence(folder: Path, made: Audit, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "runs" / "one")
    shutil.copytree(folder, tmp_path / "runs" / "two")
    workspace = Workspace(Runs(tmp_path / "runs"), find=lambda _folder: lambda: made)
    app = create(workspace, TOKEN)
    with TestClient(app, base_url=ORIGIN, headers={"authorization": f"Bearer {TOKEN}"}) as server:
        name = server.post("/api/runs/one/inputs", content=png(PIXELS[0])).json()["input"]
        with server.websocket_connect(LIVE.replace("/0/", "/one/")) as socket:
            asked = json.dumps({"seq": 1, "input": name, "model": "two"})
            socket.send_text(asked)
            assert "prediction" in unpack(socket.receive_bytes())[0]
            shutil.rmtree(tmp_path / "runs" / "one")
            socket.send_text(asked)
            assert "There is no run 'one' here: it was deleted" in unpack(socket.receive_bytes())[0]["error"]
        gone = server.post("/api/runs/one/inputs", content=png(PIXELS[0]))
        assert gone.status_code == 404
        assert "There is no run 'one' here: it was deleted" in gone.json()["error"]
        assert server.post("/api/runs/two/inputs", content=png(PIXELS[0])).status_code == 200


def test_an_input_that_was_read_for_other_data_has_to_be_given_again(tmp_path: Path) -> None:
    def audit_of(scale: float) -> Audit:
        x = scale * torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
        model = nn.Linear(5, 3).eval()
        return Audit(models={"two": model}, inputs=x, explainers=["gradient"], scores=["sparseness"], controls=False)

    now = {"audit": audit_of(1.0)}
    now["audit"].run(tmp_path / "run", progress=False)
    workspace = Workspace(Runs(tmp_path / "run"), find=lambda _folder: lambda: now["audit"])
    with TestClient(create(workspace, TOKEN), base_url=ORIGIN, headers={"authorization": f"Bearer {TOKEN}"}) as server:
        own = Asked(server, b"1, 2, 3, 4, 5")
        assert "prediction" in own()
        shutil.rmtree(tmp_path / "run")
        now["audit"] = audit_of(100.0)
        now["audit"].run(tmp_path / "run", progress=False)
        assert own()["error"] == uploads.GONE
        assert "prediction" in Asked(server, b"1, 2, 3, 4, 5")()


def test_without_models_nothing_is_taken(folder: Path) -> None:
    with client(folder) as alone:
        said = alone.post(ADDRESS, content=png(PIXELS[0]))
        assert said.status_code == 404
        assert f"'veracity app {folder} --audit FILE'" in said.json()["error"]


def test_another_audit_than_that_of_the_run_is_refused(folder: Path) -> None:
    with client(folder, audit(models={"one": curved(0), "two": curved(5)}, explainers=["smooth_grad", "gradient"])) as other:
        own = Asked(other, png(PIXELS[0]))
        assert "is not the one that made this run" in own()["error"]
        assert "prediction" in own("one"), "the other model is the same"


def test_scores_that_need_more_than_one_input_say_why(tmp_path: Path) -> None:
    truth = torch.zeros(6, SIDE, SIDE, dtype=torch.bool)
    truth[:, 1, 1] = True
    made = audit(scores=["sparseness", "pointing_game"], truth=truth, explainers=["gradient"], controls=False, target="label")
    made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        assert question(server, input="")["label"] is True
        assert Asked(server, png(PIXELS[0])).error == "This audit explains the label of each sample: say the class of yours."
        assert Asked(server, png(PIXELS[0]), label=7).error == "There is no class 7: model 'two' has the classes 0 to 2."
        own = Asked(server, png(PIXELS[0]), label=2)
        said = own()
        assert said["prediction"]["explained"][0] == "class 2"
        assert said["without"] == [["pointing_game", "it needs the ground truth of the input"]]
        assert "it needs the ground truth" in own(explainer="gradient", score="pointing_game")["error"]


TEXTS = ["a fine film", "dull", "a dull film with no heart at all", "not a fine film"]


def test_a_text_has_the_numbers_of_its_audit(tmp_path: Path) -> None:
    made = Audit(
        models={"two": text_model()}, inputs=TextInputs(TEXTS, tokenizer()), explainers=["input_x_gradient", "integrated_gradients"],
        scores=["sparseness", "deletion"], controls=False,
    )  # fmt: skip
    result = made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        about = question(server, input="")
        assert (about["kind"], about["tokens"], about["largest"]) == ("text", 20, uploads.LARGEST)
        own = Asked(server, TEXTS[0].encode())
        said = own()
        assert said["input"] == {"kind": "words", "words": ["a", "fine", "film"], "shares": [0.0] * 3}
        assert said["steps"] == ["5 tokens, 3 tokens explained"]
        assert {name for name, _ in said["prediction"]["top"]} == {"LABEL_0", "LABEL_1"}
        for score in ("sparseness", "deletion"):
            known = result.samples(score).set_index(["explainer", "sample"])["value"]
            for explainer in ("input_x_gradient", "integrated_gradients"):
                assert own(explainer=explainer, score=score)["value"] == pytest.approx(known[explainer, 0], rel=1e-4, abs=1e-6)
                assert own(explainer=explainer)["drawing"]["words"] == ["a", "fine", "film"]
        for data, sentence in (
            (b"", "The text is empty: type at least one word."),
            (b"  \n ", "The text is empty: type at least one word."),
            (b"\xff\xfe", "This text is not text in UTF-8: type it, or paste it as text."),
            (b"fine " * 40, "The text has 42 tokens, and the model takes 20: shorten it."),
            (b"[SEP]", "The tokenizer leaves nothing of this text, so there is nothing to explain: type words."),
            (b"x" * 200_000, "This text has 200,000 characters, and at most 100,000 are read: shorten it."),
        ):
            assert Asked(server, data).error == sentence
        assert "prediction" in own()


def test_a_row_of_numbers_has_the_numbers_of_its_audit(tmp_path: Path) -> None:
    rows = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    made = Audit(models={"two": net}, inputs=rows, explainers=["gradient"], scores=["sparseness", "max_sensitivity"], controls=False)
    known = made.run(tmp_path / "run", progress=False).samples("max_sensitivity").set_index("sample")["value"]
    with client(tmp_path / "run", made) as server:
        about = question(server, input="")
        assert [one["name"] for one in about["columns"]] == [f"feature {one}" for one in range(4)]
        row = [float(one) for one in about["first"]]
        assert row == pytest.approx(rows[0].tolist(), rel=1e-6)
        exact = "\t".join(repr(one) for one in rows[0].tolist()).encode()
        assert Asked(server, exact)(explainer="gradient", score="max_sensitivity")["value"] == pytest.approx(known[0], rel=1e-4)
        for data, sentence in (
            (b"", "The row is empty: give 4 values, such as those of an audited row."),
            (b"1, 2, 3", "The row has 3 values, and the audit has 4 columns: feature 0, feature 1, feature 2, feature 3."),
            (b"1, 2, three, 4", "Column 'feature 2' holds 'three': give a number, with a point before its decimals."),
            (b"1, 2, , 4", "Column 'feature 2' is empty: give a number, with a point before its decimals."),
            (b"1, 2, nan, 4", "Column 'feature 2' holds 'nan': give a finite number."),
            (b"1, 2, 3, 4\n5, 6, 7, 8", "These are 2 rows: give one at a time."),
        ):
            assert Asked(server, data).error == sentence


def test_a_row_with_categories_is_read_as_the_table_was(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [30, 41, 25, 60, 33, 52], "job": ["cook", "clerk", "cook", "pilot", "clerk", "cook"]})

    def predict(table: pd.DataFrame) -> Any:
        yes = 1 / (1 + np.exp(-(table["age"].to_numpy(dtype=float) - 40) / 10 - (table["job"] == "pilot").to_numpy(dtype=float)))
        return np.stack([1 - yes, yes], axis=1)

    made = Audit(models={"two": predict}, inputs=TableInputs(frame), explainers=["occlusion"], scores=["sparseness"], controls=False)
    known = made.run(tmp_path / "run", progress=False).samples("sparseness").set_index("sample")["value"]
    with client(tmp_path / "run", made) as server:
        about = question(server, input="")
        assert about["columns"] == [{"name": "age", "levels": None}, {"name": "job", "levels": ["clerk", "cook", "pilot"]}]
        assert about["first"] == ["30", "cook"]
        own = Asked(server, b"30, cook")
        assert own()["input"]["kind"] == "facts"
        assert own()["prediction"]["top"][0][1] == pytest.approx(float(predict(frame[:1]).max()), rel=1e-6)
        assert own(explainer="occlusion", score="sparseness")["value"] == pytest.approx(known[0], rel=1e-5)
        assert Asked(server, b"30, nurse").error == "Column 'job' has the levels clerk, cook, pilot, not 'nurse'."
        assert Asked(server, b"old, cook").error == "Column 'age' holds 'old': give a number, with a point before its decimals."


def test_levels_with_blanks_and_dividers_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [123456789, 5, 6, 7], "job": [" cook; chef", " clerk", " cook; chef", " clerk"]})
    made = Audit(
        models={"two": lambda table: np.stack([table["id"] * 0.0, table["id"] * 1e-9], axis=1)}, inputs=TableInputs(frame),
        explainers=["occlusion"], scores=["sparseness"], controls=False,
    )  # fmt: skip
    made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        assert question(server, input="")["first"] == ["123456789", " cook; chef"]
        assert Asked(server, b'123456789, "cook; chef"')()["prediction"]["top"][0][1] == pytest.approx(0.123456789, rel=1e-6)


def test_images_with_two_channels_have_no_form(tmp_path: Path) -> None:
    images = ImageInputs(torch.randint(256, (4, 2, 8, 8), dtype=torch.uint8), channels="first")
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 3)).eval()
    made = Audit(models=model, inputs=images, explainers=["gradient"], scores=["sparseness"])
    made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        assert "Inputs of your own can be images, texts and rows of a table" in question(server, input="")["error"]


def test_samples_without_a_form_say_so(tmp_path: Path) -> None:
    made = Audit(
        models={"two": nn.Sequential(nn.Flatten(), nn.Linear(24, 3)).eval()}, inputs=torch.randn(4, 2, 12), explainers=["gradient"],
        scores=["sparseness"], controls=False,
    )  # fmt: skip
    made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        assert "Inputs of your own can be images, texts and rows of a table" in question(server, input="")["error"]
