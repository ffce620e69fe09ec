"""Live steps: masked inputs, explanations layer by layer and fold by fold, and searches, all with the numbers of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from app_client import LIVE, client
from starlette.testclient import TestClient
from torch import Tensor
from torch.func import functional_call

from family_audits import SAMPLE, blobs, families, folds
from search_audits import images, tanh_net
from veracity.app.draws import LiveDraws
from veracity.measure import spearman
from veracity.perturb.weights import LayerRandomisation
from veracity.report.figures.images import to_array
from veracity.report.interactive.cases import Shown
from veracity.report.interactive.packed import unpack
from veracity.results import Result
from veracity.scores import PublicGEF

ASKED = {"seq": 1, "sample": SAMPLE, "draw": 0, "model": "net", "explainer": "gradient", "score": "deletion"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("families")
    families().run(found / "net", progress=False)
    folds().run(found / "folds", progress=False)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TestClient]:
    with client(folder / "net", families()) as found:
        yield found


def ask(server: TestClient, **parts: Any) -> dict[str, Any]:
    with server.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps({**ASKED, **parts}))
        return dict(unpack(socket.receive_bytes())[0])


def value_of(folder: Path, score: str, explainer: str) -> float:
    table = Result(folder).samples(score)
    mine = table[(table["explainer"] == explainer) & (table["sample"] == SAMPLE)]
    return float(mine["value"].item())


def gradient(net: torch.nn.Module, x: Tensor, label: int) -> Tensor:
    with torch.enable_grad():
        given = x[None].clone().requires_grad_()
        return torch.autograd.grad(net(given)[0, label], given)[0][0]


@pytest.mark.parametrize("score", ["deletion", "insertion", "pixel_flipping", "region_perturbation"])
@pytest.mark.parametrize("explainer", ["gradient", "input_x_gradient"])
def test_every_step_of_a_curve_has_the_value_of_the_run(server: TestClient, folder: Path, score: str, explainer: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = ask(server, score=score, explainer=explainer)
    (one,) = [one for one in Result(folder / "net").series if (one.score, one.explainer) == (score, explainer)]
    stored = next(iter(one.measured.quantities.values()))[SAMPLE, 0]
    assert found["value"] == pytest.approx(value_of(folder / "net", score, explainer))
    assert found["stored"] == pytest.approx(found["value"])
    assert found["pair"] is None
    steps = found["steps"]["steps"]
    assert [step["value"] for step in steps] == pytest.approx([step["stored"] for step in steps])
    chosen = {step["stored"] for step in steps}
    assert chosen <= set(stored.tolist())
    assert (steps[0]["stored"], steps[-1]["stored"]) == (stored[0], stored[-1])
    assert {step["input"]["kind"] for step in steps} == {"picture"}
    assert {step["map"] for step in steps} == {None}
    assert len({step["input"]["src"] for step in steps}) == len(steps), "more is masked at each step"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "nothing is written"


def test_the_masked_inputs_lose_their_most_relevant_pixels_first(server: TestClient, folder: Path) -> None:
    """An oracle: the pixels with the largest gradients become as dark as the darkest one."""
    net, x = tanh_net(), images()[SAMPLE]
    label = int(net(x[None]).argmax())
    order = gradient(net, x, label).flatten().argsort(descending=True)
    found, shown = ask(server)["steps"]["steps"], Shown(Result(folder / "net"), "net", "deletion", SAMPLE)
    assert [step["name"] for step in found] == [f"{share} % masked" for share in ("0", "12.5", "25", "37.5", "62.5", "75", "87.5", "100")]
    for step in found:
        count = round(float(step["name"].split()[0]) * 16 / 100)
        masked = x.clone().flatten()
        masked[order[:count]] = x.min()
        assert step["input"] == shown.masked(to_array(masked.reshape(1, 4, 4)), to_array(x))
        with torch.no_grad():
            assert step["value"] == pytest.approx(float(net(masked.reshape(1, 1, 4, 4)).softmax(dim=1)[0, label]))


def test_explanations_layer_by_layer_are_those_of_the_randomised_network(server: TestClient, folder: Path) -> None:
    """An oracle: the gradient of the network with the layers' new weights, and its rank correlation with the gradient before."""
    net, x = tanh_net(), images()[SAMPLE]
    label, space = int(net(x[None]).argmax()), LayerRandomisation().of(net)
    before, shown = gradient(net, x, label), Shown(Result(folder / "net"), "net", "mprt", SAMPLE)
    for draw in range(3):
        found = ask(server, score="mprt", draw=draw)
        assert found["value"] == pytest.approx(found["stored"])
        assert found["draws"] == 3
        steps = found["steps"]["steps"]
        assert [step["name"] for step in steps] == ["layer 3", "2 layers, to 1"]
        assert (found["steps"]["before"], found["steps"]["map"]) == ("before", shown.map(to_array(before), "gradient"))
        for level, step in enumerate(steps):
            weights = {**dict(net.named_parameters()), **space.parameters(net, draw, level, seed=0)}

            class Copy(torch.nn.Module):
                def forward(self, given: Tensor, weights: Any = weights) -> Tensor:
                    return functional_call(net, weights, (given,))  # type: ignore[no-any-return]

            after = gradient(Copy(), x, label)
            assert step["value"] == pytest.approx(float(spearman(after[None], before[None])))
            assert step["value"] == pytest.approx(step["stored"])
            assert step["map"] == shown.map(to_array(after), "gradient")
            assert step["input"] is None


def test_a_search_is_repeated_and_finds_the_same_point(server: TestClient, folder: Path) -> None:
    stored = {(one.explainer, one.sample): one for one in Result(folder / "net").worst("sol_f_hat", 1000)}["gradient", SAMPLE]
    found = ask(server, score="sol_f_hat")
    assert found["value"] == pytest.approx(value_of(folder / "net", "sol_f_hat", "gradient"))
    assert found["stored"] == pytest.approx(found["value"])
    assert found["pair"]["value"] == pytest.approx(stored.value)
    assert found["pair"]["draw"] == stored.draw
    assert found["pair"]["search"]["largest"] == pytest.approx(float((stored.moved - stored.input).abs().max()))
    assert found["pair"]["formulas"] == {"moved": "x'", "expected": "e(x)", "found": "e(x')"}
    assert found["steps"] is None


def test_the_models_of_all_folds_explain_the_sample(folder: Path) -> None:
    """The gradient of a linear model is its weights, whatever the input."""
    run = Result(folder / "folds")
    with client(folder / "folds", folds()) as server:
        found = ask(server, score="mege")
    live = LiveDraws(folds(), folder / "folds")
    label = int(blobs()[1][SAMPLE])
    own = next(name for name, model in live.plan.problem.models.items() if any(
        job.model == name and SAMPLE in job.samples for job, _ in live.cells.values()
    ))  # fmt: skip
    shown = Shown(run, "net", "mege", SAMPLE)

    def weights(name: str) -> Any:
        return shown.map(to_array(live.plan.problem.models[name].module[1].weight[label].reshape(1, 4, 4)), "gradient")  # type: ignore[index]

    assert (found["steps"]["before"], found["steps"]["map"]) == ("own model", weights(own))
    assert [step["name"] for step in found["steps"]["steps"]] == ["other model 1", "other model 2"]
    distances = Result(folder / "folds").series
    (one,) = [one for one in distances if (one.score, one.explainer) == ("mege", "gradient")]
    stored = one.measured["distance"][one.samples.tolist().index(SAMPLE), :, 0].tolist()
    for number, step in enumerate(found["steps"]["steps"]):
        assert step["map"] == weights(live.plan.problem.sibling(own, number))
        assert step["value"] == pytest.approx(stored[number])
        assert step["stored"] == stored[number]
    assert found["value"] == pytest.approx(found["stored"])


def test_a_draw_beside_undefined_ones_is_that_of_the_run(tmp_path: Path) -> None:
    made = replace(families(), scores={"gef_public": PublicGEF()}, explainers=["gradient"])
    result = made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        found = ask(server, score="gef_public")
    (one,) = [one for one in result.series if (one.score, one.explainer) == ("gef_public", "gradient")]
    table = one.measured[found["steps"]["quantity"]][SAMPLE]
    assert not torch.from_numpy(table).isfinite().all(), "some draws have fewer levels"
    assert found["value"] == pytest.approx(found["stored"], nan_ok=True)
    assert [step["value"] for step in found["steps"]["steps"]] == pytest.approx([step["stored"] for step in found["steps"]["steps"]])


def test_a_draw_that_is_not_there_is_told(server: TestClient) -> None:
    assert "There is no draw 3: sample 3 has the draws 0 to 2 by 'mprt'." in ask(server, score="mprt", draw=3)["error"]
    assert "There is no draw 1" in ask(server, score="deletion", draw=1)["error"]
