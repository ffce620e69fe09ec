from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity.recipe import Scale
from veracity.studies.several import Audits
from veracity_papers.data import files
from veracity_papers.recipes.faithfulness_global import (
    RESTARTED,
    SIZES,
    SPAN,
    STORED,
    faithfulness_global,
    faithfulness_global_imagenet,
    global_methods,
    imagenet_amplitude,
    in_shares,
    published_value,
    stored_distortions,
    without_scaling,
)
from veracity_papers.zoo import efficientnet

NEEDED = ("mnist/t10k-images-idx3-ubyte.gz", "weights/gef/mnist_lenet")


def test_the_nine_settings_are_three_trajectories_and_have_published_figures() -> None:
    methods = global_methods((50, 100, 250))
    assert len(methods) == 9
    assert len({repr(one.lesson.spec()) for one in methods.values()}) == 3
    assert all(0 < published_value(data, label) < 1 for data in ("mnist", "fashion-mnist", "imagenet") for label in methods)
    assert published_value("mnist", "maco-100") == 0.41
    assert published_value("mnist", "gradient") == 0.79
    assert SIZES[Scale.PAPER].seeds == 5


@pytest.mark.skipif(files.locate("golden_gef") is None, reason="The stored distortions are not at hand.")
def test_what_the_authors_stored_are_the_settings_with_50_steps() -> None:
    """Their mean scores are the published ones, and half of the last level's distortion or more is there at a strength of .001."""
    for data in ("mnist", "fashion-mnist"):
        for label in STORED:
            stored = stored_distortions(data, label)
            assert stored is not None
            assert abs(stored["score"].mean() - published_value(data, label)) < 0.0051
            first = float(in_shares(stored["explanation_distortion"].mean((0, 2))).split()[0])
            assert 0.6 < first < 0.9
    assert stored_distortions("mnist", "maco-250") is None


def test_the_smoke_scale_measures_every_setting_both_ways(tmp_path: Path) -> None:
    for file in NEEDED:
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")
    audits = faithfulness_global.assemble(tmp_path, Scale.SMOKE)
    assert isinstance(audits, Audits)
    result = audits.run(tmp_path / "run", progress=False)
    summary = result.summary
    assert summary is not None
    means = summary[summary["method"].str.startswith("mean of")]
    assert means["kind"].tolist() == ["local", "global"]
    of_classes = summary[(summary["kind"] == "global") & ~summary.index.isin(means.index)]
    assert np.isclose(means["restarted"].iloc[1], of_classes["restarted"].mean())
    assert len(of_classes) == 9
    assert of_classes[["fast_gef", "restarted", "public"]].notna().all(axis=None)
    levels = np.array([[float(level) for level in line.split()] for line in of_classes["levels public"]])
    assert levels.shape == (9, 5)
    assert (levels[:, 0] > 0.5).all()  # a restart alone moves the image about as far as the strongest noise does
    table = result.table()
    assert table["explainer"].str.endswith(RESTARTED).sum() == 9
    assert {"local", "global", "control"} == set(summary["kind"])
    assert summary.set_index("method").loc["constant_map", "no response"] == SIZES[Scale.SMOKE].samples
    assert "maco-4" in result.save_report(tmp_path / "report.html").read_text()


def test_the_network_without_its_scaling_is_the_same_and_sees_values_within_the_span() -> None:
    net, x = efficientnet.tiny(), torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    body, seen = without_scaling(net, x)
    torch.testing.assert_close(body(seen), net(x))
    ends = without_scaling(net, torch.tensor([0.0, 1.0])[:, None, None, None].expand(2, 3, 32, 32))[1]
    assert ends.amin() == pytest.approx(-127 / 128)
    assert ends.amax() == pytest.approx(SPAN)


@pytest.mark.skipif(files.locate("imagenet_samples") is None, reason="the photographs are not at hand")
def test_photographs_at_smoke_scale(tmp_path: Path) -> None:
    audits = faithfulness_global_imagenet.assemble(tmp_path, Scale.SMOKE)
    assert list(audits.audits) == ["imagenet-0", "imagenet-public-0"]
    one = audits.audits["imagenet-public-0"].run(tmp_path / "run", progress=False)
    assert one.failures().empty
    assert one.explanations("untrained", "maco-2").shape == (2, 1, 32, 32)
    assert float(one.explanations("untrained", "fourier-2").abs().max()) <= SPAN
    amplitude = imagenet_amplitude()
    assert amplitude is None or amplitude.shape == (3, 512, 257)


@pytest.mark.skipif(files.locate("imagenet_samples") is None, reason="the photographs are not at hand")
def test_photographs_have_local_methods_and_both_ways(tmp_path: Path) -> None:
    audit = faithfulness_global_imagenet.assemble(tmp_path, Scale.SMOKE).audits["imagenet-0"]
    assert len(audit.inputs) == 2
    assert {"maco-1", "maco-2", "maco-2, restarted", "deep-viz-2"} < set(audit.explainers)
    assert len(audit.explainers) == 2 * 6 + 2
