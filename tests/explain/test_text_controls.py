"""Controls of texts: importance by place and by rarity, by hand."""

from math import log

import pytest
import torch
from torch import nn

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import Position, WordFrequency
from veracity.inputs import TextInputs

MODEL = nn.Identity()


def explained(explainer, texts, unit="token"):
    inputs = TextInputs(texts, tokenizer(), unit=unit)
    x = inputs.take(torch.arange(len(texts)))
    context = Context(Draws.of(0, torch.arange(len(texts))), 8, x.structure, present=x.present)
    return explainer.explain(MODEL, x.values, torch.zeros(len(texts)).long(), context)


def test_position_by_hand():
    assert explained(Position(), ["a fine film", "not a fine film"]).tolist() == [pytest.approx([1, 2 / 3, 1 / 3, 0]), [1, 0.75, 0.5, 0.25]]
    assert explained(Position(most="last"), ["a film", "a fine film"]).tolist() == [[0.5, 1, 0], pytest.approx([1 / 3, 2 / 3, 1])]
    plain = Position().explain(MODEL, torch.randn(2, 1, 2), torch.zeros(2).long(), Context(Draws.of(0, torch.arange(2)), 8))
    assert plain.tolist() == [[[1, 0.5]], [[1, 0.5]]]


def test_rare_words_count_most():
    """ "a" occurs three times among eight tokens, "film" twice, "not" never; the largest number of a token is that of "dull", 8."""
    counted = WordFrequency().with_data(TextInputs(["a fine film", "a film", "a dull dull"], tokenizer()))
    assert counted.counts.tolist() == [0, 0, 0, 0, 0, 3, 1, 2, 2]
    found = explained(counted, ["a film", "not"])
    assert found.tolist() == [pytest.approx([-log(4 / 17), -log(3 / 17)]), pytest.approx([-log(1 / 17), 0])]


def test_the_pieces_of_a_word_are_added_up():
    counted = WordFrequency().with_data(TextInputs(["a finely film"], tokenizer()))
    a, fine, ly, film = explained(counted, ["a finely film"])[0].tolist()
    assert explained(counted, ["a finely film"], unit="word")[0].tolist() == pytest.approx([a, fine + ly, film])


def test_an_audit_counts_in_its_training_texts_or_in_its_own(tmp_path):
    inputs, training = TextInputs(TEXTS, tokenizer()), TextInputs(["dull dull dull", "fine"], tokenizer())
    settings = {"models": {"bert": text_model()}, "inputs": inputs, "explainers": ["word_frequency", "saliency"], "scores": ["sparseness"]}
    own = Audit(**settings).run(tmp_path / "own").explanations("bert", "word_frequency")
    other = Audit(**settings, training=(training, torch.tensor([0, 1]))).run(tmp_path / "training").explanations("bert", "word_frequency")
    assert torch.equal(own, explained(WordFrequency().with_data(inputs), TEXTS))
    assert torch.equal(other, explained(WordFrequency().with_data(training), TEXTS))
    assert not torch.equal(own, other)


def test_what_is_no_text_is_told_in_a_sentence():
    with pytest.raises(InputError, match="word_frequency explains texts only"):
        Audit(models=nn.Linear(3, 2), inputs=torch.randn(4, 3), explainers=["word_frequency"], scores=["sparseness"]).prepare()
    with pytest.raises(InputError, match="word_frequency explains texts only"):
        WordFrequency(counts=torch.ones(3)).check(MODEL, torch.ones(1, 3), torch.zeros(1).long())
    with pytest.raises(InputError, match="word_frequency has not counted any words"):
        explained(WordFrequency(), TEXTS)
