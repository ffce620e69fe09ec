"""The small causal language model: its training script on a few made-up reviews, and the weights that are shipped."""

from __future__ import annotations

import json

import pytest
import torch

from veracity import Audit, Token
from veracity.core.errors import InputError
from veracity.explain import IntegratedGradients
from veracity.inputs import TextInputs
from veracity_papers.data import files
from veracity_papers.data.imdb import imdb_texts
from veracity_papers.zoo import causal, storage, train_causal

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


def test_a_vocabulary_in_another_order_is_refused(tmp_path, written) -> None:
    """The same pieces of words under other numbers would give wrong scores without an error."""
    out, _ = written
    for file in out.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "imdb-llama-tokenizer.json"
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    words["film"], words["heart"] = words["heart"], words["film"]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"another vocabulary than that of imdb-llama-tokenizer\.json beside it: train both again"):
        causal.load_causal(tmp_path)


def test_the_tokenizer_is_the_same_every_time() -> None:
    texts = ["aab abb bba", "bab abab baab", "cab cbb acc"]
    found = {json.dumps(train_causal.make_tokenizer(texts).get_vocab(), sort_keys=True) for _ in range(8)}
    assert len(found) == 1


@pytest.fixture(scope="module")
def reviews():
    if files.locate("imdb/imdb_test_5000.jsonl.gz") is None:
        pytest.skip("imdb/imdb_test_5000.jsonl.gz is not here")
    texts, labels = imdb_texts("test")
    return texts[::16], labels[::16]


def test_the_shipped_network_judges_reviews(reviews, monkeypatch) -> None:
    """It is read from the package alone, and what its header says holds on a sixteenth of the reviews."""
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("something asks the network"))
    texts, labels = reviews
    model, tokenizer = causal.load_causal()
    ids, mask = train_causal.coded(tokenizer, texts, "cpu")
    with torch.no_grad():
        found = torch.cat(
            [model(input_ids=a, attention_mask=b).logits.argmax(1) for a, b in zip(ids.split(64), mask.split(64), strict=True)]
        )
    right = float((found == labels).float().mean())
    assert len(labels) == 313
    assert right > 0.75
    assert right == pytest.approx(float(storage.facts(causal.NAME)["accuracy"]), abs=3 * (0.8 * 0.2 / 313) ** 0.5)


def test_the_shipped_language_model_guesses_words_better_than_their_frequency(reviews) -> None:
    texts, _ = reviews
    model, tokenizer = causal.load_language_model()
    ids, mask = train_causal.coded(tokenizer, texts[:64], "cpu")
    with torch.no_grad():
        scores = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    kept = mask[:, 1:] == 1
    loss = float(torch.nn.functional.cross_entropy(scores[kept], ids[:, 1:][kept]))
    facts = storage.facts(causal.NAME)
    assert loss == pytest.approx(float(facts["loss"]), abs=0.15)
    assert loss < float(facts["frequency_loss"]) - 0.8


def test_next_words_are_explained(tmp_path) -> None:
    """Attributions of the score of the predicted next word add up to its change."""
    model, tokenizer = causal.load_language_model()
    texts = TextInputs(["the acting was very", "this is one of the worst"], tokenizer)
    with torch.no_grad():
        last = [model(input_ids=tokenizer(text, return_tensors="pt")["input_ids"]).logits[0, -1] for text in texts.texts]
    assert [tokenizer.decode([int(scores.argmax())]) for scores in last] == ["good", "movie"]
    audit = Audit(
        models=model,
        inputs=texts,
        explainers={"ig": IntegratedGradients(steps=200)},
        scores=["completeness"],
        target=Token(),
        controls=False,
    )
    table = audit.run(tmp_path / "run", progress=False).table()
    assert table["value"].item() < 0.02
    assert table["n"].item() == 2
