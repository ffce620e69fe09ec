"""Live views of other explanations: training samples, graphs and texts of different lengths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_client import LIVE, client

from family_audits import SAMPLE, blobs, by_examples, of_graphs, of_tables, of_texts
from graph_nets import graphs
from veracity import Audit
from veracity.app.examples import ends_of
from veracity.report.figures.images import to_array
from veracity.report.interactive.cases import Shown
from veracity.report.interactive.graphs import MOST, Graph, springs
from veracity.report.interactive.packed import unpack
from veracity.results import Result


def ask(audit: Audit, folder: Path, score: str, explainer: str = "gradient", sample: int = SAMPLE) -> dict[str, Any]:
    asked = {"seq": 1, "sample": sample, "draw": 0, "model": "net", "explainer": explainer, "score": score}
    with client(folder, audit) as server, server.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps(asked))
        return dict(unpack(socket.receive_bytes())[0])


def test_the_most_influential_training_samples_have_the_runs_attributions(tmp_path: Path) -> None:
    audit = by_examples()
    audit.run(tmp_path / "run", progress=False)
    found = ask(audit, tmp_path / "run", "mprt", "influence_functions")
    run = Result(tmp_path / "run")
    values = to_array(run.explanations("net", "influence_functions")[SAMPLE])
    order = sorted(range(len(values)), key=lambda place: -values[place])
    for_it, against = [one for one in order[:4] if values[one] > 0], [one for one in order[::-1][:4] if values[one] < 0]
    inputs, labels = blobs()
    shown = Shown(run, "net", "mprt", SAMPLE)
    assert found["examples"] == [
        {"number": place, "value": values[place], "label": int(labels[place]), "drawing": shown.other(to_array(inputs[place]))}
        for place in (*for_it, *against)
    ]
    assert {one["drawing"]["kind"] for one in found["examples"]} == {"picture"}
    assert found["value"] == pytest.approx(found["stored"])


def test_no_more_samples_than_speak_for_or_against() -> None:
    assert ends_of(np.array([0.0, 0.0])) == []
    assert ends_of(np.array([1.0, 2.0])) == [1, 0]
    assert ends_of(np.arange(-10.0, 11.0)) == [20, 19, 18, 17, 0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["edges", "nodes"])
def test_a_graph_is_drawn_with_its_explanation(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("torch_geometric")
    audit = of_graphs(kind)
    audit.run(tmp_path / "run", progress=False)
    graph, sample = graphs((6, 8, 5, 7))[2], 2
    found = ask(audit, tmp_path / "run", "pixel_flipping", sample=sample)
    assert found["value"] == pytest.approx(found["stored"])
    steps = found["steps"]
    values = to_array(Result(tmp_path / "run").explanations("net", "gradient")[sample])
    assert steps["map"]["edges"] == graph.edge_index.T.tolist()
    assert len(steps["map"]["places"]) == 5
    own = values[: 10 if kind == "edges" else 5]
    colours = np.array(steps["map"]["links" if kind == "edges" else "nodes"])
    assert len(colours) == len(own)
    assert np.array_equal(np.sign(colours), np.sign(own))
    assert np.array_equal(np.argsort(np.abs(colours), kind="stable")[:3], np.argsort(np.abs(own), kind="stable")[:3])
    gone = [step["input"]["gone_links" if kind == "edges" else "gone_nodes"] for step in steps["steps"]]
    order = np.argsort(-own, kind="stable").tolist()
    assert all(set(part) == set(order[: len(part)]) for part in gone), "the most relevant go first"
    assert [step["name"] for step in steps["steps"]] == [f"{round(1000 * len(part) / len(own)) / 10:g} % masked" for part in gone]
    assert len(gone[-1]) == len(own)
    layers = ask(audit, tmp_path / "run", "mprt", sample=sample)["steps"]["steps"]
    assert {step["map"]["kind"] for step in layers} == {"graph"}
    parts = ask(audit, tmp_path / "run", "fidelity_plus", sample=sample)["steps"]["steps"]
    assert [step["name"] for step in parts] == ["without what is explained", "what is explained alone"]
    removed, kept = (set(step["input"]["gone_links" if kind == "edges" else "gone_nodes"]) for step in parts)
    assert removed | kept == set(range(len(own)))
    assert not removed & kept


def test_springs_part_what_no_edge_holds() -> None:
    edges = np.array([[0, 1], [1, 2], [2, 0], [3, 4]])
    places = springs(5, edges)
    assert places.shape == (5, 2)
    assert places.min() >= 0
    assert places.max() <= 1
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert max(apart[0, 1], apart[1, 2], apart[3, 4]) < min(apart[0, 3], apart[1, 4], apart[2, 3])
    assert np.isfinite(springs(1, np.array([[0, 0]]))).all()
    assert not Graph(MOST + 1, edges, by_edge=False).fits(np.zeros(MOST + 1)), "too many to draw"


def test_a_short_text_has_the_shares_of_its_own_words(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    audit = of_texts()
    audit.run(tmp_path / "run", progress=False)
    found, sample = ask(audit, tmp_path / "run", "pixel_flipping", sample=2), 2
    words = ["not", "a", "fine", "film"]
    steps = found["steps"]["steps"]
    assert [step["name"] for step in steps] == ["25 % masked", "50 % masked", "75 % masked", "100 % masked"]
    order = np.argsort(-to_array(Result(tmp_path / "run").explanations("net", "gradient")[sample])[:4], kind="stable")
    for count, step in enumerate(steps, start=1):
        gone = set(order[:count].tolist())
        assert step["input"]["words"] == ["\N{EN DASH}" if place in gone else word for place, word in enumerate(words)]
        assert step["value"] == pytest.approx(step["stored"], rel=1e-4)
    with client(tmp_path / "run") as server:
        course = server.get(f"/api/runs/0/cases/{sample}", params={"model": "net", "score": "pixel_flipping"}).json()["course"]
    (line,) = [one for one in course["lines"] if one["explainer"] == "gradient"]
    assert line["places"] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert line["values"] == pytest.approx([step["stored"] for step in steps])


def test_the_masked_columns_of_a_table_are_marked(tmp_path: Path) -> None:
    audit = of_tables()
    audit.run(tmp_path / "run", progress=False)
    steps = ask(audit, tmp_path / "run", "pixel_flipping")["steps"]
    order = np.argsort(-to_array(Result(tmp_path / "run").explanations("net", "gradient")[SAMPLE]), kind="stable").tolist()
    assert [step["input"]["changed"] for step in steps["steps"]] == [sorted(order[:count]) for count in (1, 2, 3, 4)]
    assert steps["steps"][0]["input"]["names"] == ["age", "weight", "height", "pulse"]
    assert steps["map"]["kind"] == "bars"
