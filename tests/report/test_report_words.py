from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.inputs import LETTERS, WORDS, FirstSamples, SelectedSamples, TensorInputs, shown_words
from veracity.core.inputs import TEXTS as MOST
from veracity.inputs import TextInputs
from veracity.perturb import EmbeddingNoise
from veracity.report.figures.words import Text, draw_words, word_data, word_line
from veracity.results import Result
from veracity.scores import MaxSensitivity
from veracity.walk import MonteCarlo


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    inputs = SelectedSamples(TextInputs(TEXTS, tokenizer(), unit="word"), torch.tensor([3, 1, 0, 2]))
    noise = MaxSensitivity(space=EmbeddingNoise(sigma=0.5), walk=MonteCarlo(draws=2))
    asked = Audit(models=text_model(), inputs=inputs, explainers=["gradient", "input_x_gradient"], scores=[noise, "sparseness"])
    return asked.run(tmp_path_factory.mktemp("words") / "run", progress=False)


def test_shares_are_signed_and_relative_to_the_largest_word_of_the_line() -> None:
    line = word_line("mine", ["a", "dull", "<b>"], np.array([0.5, -2.0, np.nan, 9.0]))
    assert line.shares == (0.25, -1.0, 0.0)
    html = str(draw_words([Text(sample=7, lines=(line,))]))
    assert "Sample 7" in html
    assert '<span class="for" style="--share:14%">a<small>0.50</small></span>' in html
    assert '<span class="against" style="--share:55%">dull<small>\N{MINUS SIGN}2.00</small></span>' in html
    assert "&lt;b&gt;" in html


def test_words_without_signs_do_not_speak_for_a_class() -> None:
    line = word_line("rollout", ["a", "film"], np.array([2e-9, 1e-9]), signed=False)
    assert line.values == ("2.0e\N{MINUS SIGN}09", "1.0e\N{MINUS SIGN}09")
    html = str(draw_words([Text(sample=0, lines=(line,), about=(("predicted", "<i>"), ("label", "good")))]))
    assert 'class="much"' in html
    assert 'class="for"' not in html
    assert "predicted</span> &lt;i&gt;" in html


@pytest.mark.filterwarnings("ignore:.*is predicted for none of the")
def test_texts_have_their_predicted_class_and_their_label(run: Result, tmp_path: Path) -> None:
    inputs = TextInputs(TEXTS, tokenizer(), unit="word")
    asked = Audit(models=text_model(), inputs=inputs, targets=[1] * len(TEXTS), target=0, explainers=["saliency"], scores=["sparseness"])
    result = asked.run(tmp_path / "run", progress=False)
    classes = result.manifest["models"]["model"]["classes"]
    assert classes["label"] == ["1"] * len(TEXTS)
    assert classes["explained"] == ["0"] * len(TEXTS)
    predicted = run.manifest["models"]["model"]["classes"]["predicted"]
    assert [predicted[place] for place in (2, 1, 3, 0)] == classes["predicted"]
    page = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"predicted</span> {classes['predicted'][0]}" in page
    assert "saliency</span> has no signs" in page
    assert f"{len(TEXTS)} texts of up to" in page


def test_the_manifest_keeps_the_words_in_the_order_of_the_samples(run: Result) -> None:
    assert run.manifest["data"]["words"] == [TEXTS[row].split() for row in (3, 1, 0, 2)]


def test_long_texts_are_cut() -> None:
    class Long:
        def size(self) -> int:
            return MOST + 5

        def words(self, row: int) -> list[str]:
            return ["x" * (LETTERS + 10), *["y"] * WORDS]

    found = shown_words(Long())  # type: ignore[arg-type]
    assert (len(found), len(found[0]), len(found[0][0])) == (MOST, WORDS, LETTERS)
    assert len(shown_words(FirstSamples(TextInputs(TEXTS, tokenizer()), 2))) == 2
    assert shown_words(TensorInputs(torch.ones(2, 3))) == []


def test_the_figure_holds_the_explanations_of_the_first_texts(run: Result) -> None:
    texts = word_data(run, "model")
    assert [text.sample for text in texts] == [0, 1, 2]
    assert [line.label for line in texts[0].lines] == ["gradient", "input_x_gradient"]
    maps = run.explanations("model", "gradient")[0, :4].numpy()
    assert texts[0].lines[0].shares == pytest.approx(maps / np.abs(maps).max(), abs=1e-3)
    assert len(texts[1].lines[0].shares) == 1


def test_the_report_shows_texts_and_the_worst_pair_in_words(run: Result, tmp_path: Path) -> None:
    page = run.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<section id="texts">' in page
    assert "<dt>expected e(x)</dt>" in page
    assert page.count('<dl class="words">') >= 5
