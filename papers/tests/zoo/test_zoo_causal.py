"""The training script of the small causal language model, on a few made-up reviews, and what it writes."""

from __future__ import annotations

import pytest
import torch

from veracity.core.errors import InputError
from veracity_papers.zoo import causal, train_causal

pytest.importorskip("transformers")

GOOD, BAD = "a fine film with a warm heart and very good actors", "a dull film with no heart at all and very bad actors"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("causal")
    texts = [f"{text} number {number}" for number in range(32) for text in (GOOD, BAD)]
    labels = torch.tensor([1, 0] * 32)
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]):
        patch.setattr(train_causal, "imdb_texts", lambda split: (texts, labels))
        patch.setattr(train_causal, "VOCABULARY", 80)
        patch.setattr(train_causal, "LENGTH", 24)
        line = train_causal.train(out, "cpu", epochs=50, seed=0)
    return out, line


def test_the_head_learns_and_so_does_the_language_model(written) -> None:
    _, line = written
    assert line["accuracy"] == 1.0
    assert line["loss"] < line["frequency_loss"]


def test_what_is_written_is_what_is_loaded(written) -> None:
    out, _ = written
    model, tokenizer = causal.load_causal(out)
    coded = tokenizer([f"{GOOD} number 3", f"{BAD} number 12"], return_tensors="pt", padding=True)
    with torch.no_grad():
        assert model(input_ids=coded["input_ids"], attention_mask=coded["attention_mask"]).logits.argmax(1).tolist() == [1, 0]
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert tokenizer.decode(tokenizer(GOOD)["input_ids"]) == GOOD
    llm, _ = causal.load_language_model(out)
    with torch.no_grad():
        torch.testing.assert_close(
            llm.model(coded["input_ids"][:1]).last_hidden_state, model.model(coded["input_ids"][:1]).last_hidden_state
        )
    assert torch.equal(llm.lm_head.weight, model.model.embed_tokens.weight)


def test_weights_that_nobody_trained_name_the_command(tmp_path, written) -> None:
    out, _ = written
    (tmp_path / "imdb-llama.json").write_text((out / "imdb-llama.json").read_text())
    with pytest.raises(InputError, match=r"train them with python -m veracity_papers\.zoo\.train_causal OUT"):
        causal.load_causal(tmp_path)
