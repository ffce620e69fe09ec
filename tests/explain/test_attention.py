"""Attention and its rollout, against softmax(q k) computed by hand with NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from text_models import TEXTS, text_model, tokenizer, vision_model
from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import Attention, AttentionRollout
from veracity.inputs import TextInputs

pytest.importorskip("transformers")


def context(structure=(), rows=4):
    return Context(Draws.of(0, torch.arange(rows)), 3, structure)


def attention_by_hand(model, ids):
    """The attention (heads, T, T) of every layer for one text without padding."""

    def array(tensor):
        return tensor.detach().double().numpy()

    def linear(layer, x):
        return x @ array(layer.weight).T + array(layer.bias)

    def norm(layer, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + layer.eps) * array(layer.weight) + array(layer.bias)

    body, found = model.distilbert, []
    table = body.embeddings
    x = array(table.word_embeddings.weight)[ids] + array(table.position_embeddings.weight)[: len(ids)]
    x = norm(table.LayerNorm, x)
    for layer in body.transformer.layer:
        heads = layer.attention.n_heads
        q, k, v = (
            linear(part, x).reshape(len(ids), heads, -1).transpose(1, 0, 2)
            for part in (layer.attention.q_lin, layer.attention.k_lin, layer.attention.v_lin)
        )
        power = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
        weights = power / power.sum(-1, keepdims=True)
        found.append(weights)
        mixed = linear(layer.attention.out_lin, (weights @ v).transpose(1, 0, 2).reshape(len(ids), -1))
        x = norm(layer.sa_layer_norm, mixed + x)
        hidden = torch.nn.functional.gelu(torch.from_numpy(linear(layer.ffn.lin1, x))).numpy()
        x = norm(layer.output_layer_norm, linear(layer.ffn.lin2, hidden) + x)
    return found


def test_attention_and_rollout_of_texts_are_those_by_hand():
    model, inputs = text_model(), TextInputs(TEXTS, tokenizer())
    x, view = inputs.take(torch.arange(4)), inputs.adapt(model)
    targets = torch.zeros(4, dtype=torch.long)
    last, rolled = (one.explain(view, x.values, targets, context(x.structure)) for one in (Attention(), AttentionRollout()))
    for row, text in enumerate(TEXTS):
        ids = tokenizer()(text)["input_ids"]
        layers = [heads.mean(0) for heads in attention_by_hand(model, ids)]
        product = np.eye(len(ids))
        for layer in layers:
            product = (layer + np.eye(len(ids))) / 2 @ product
        inside = slice(1, len(ids) - 1)  # without [CLS] and [SEP]
        assert last[row, : len(ids) - 2].numpy() == pytest.approx(layers[-1][0, inside], abs=1e-5)
        assert rolled[row, : len(ids) - 2].numpy() == pytest.approx(product[0, inside], abs=1e-5)
        assert not last[row, len(ids) - 2 :].any()


def test_the_pieces_of_a_word_are_summed_and_the_last_token_can_be_read():
    model, text = text_model(), ["a finely film"]
    tokens, words = (TextInputs(text, tokenizer(), unit=unit) for unit in ("token", "word"))
    maps = []
    for one in (tokens, words):
        x, view = one.take(torch.arange(1)), one.adapt(model)
        maps += [Attention(row=row).explain(view, x.values, torch.zeros(1).long(), context(x.structure, 1))[0].tolist() for row in (0, -1)]
    a, fine, ly, film = maps[0]
    assert maps[2] == pytest.approx([a, fine + ly, film], abs=1e-6)
    by_hand = attention_by_hand(model, tokenizer()(text[0])["input_ids"])[-1].mean(0)
    assert np.array(maps[1]) == pytest.approx(by_hand[5, 1:5], abs=1e-5)  # [SEP] is the last token


@pytest.mark.parametrize("row", [0, -1])
def test_padding_on_the_left_does_not_count(row):
    """The same text alone, and behind padding that nothing attends to, under the positions that it has alone."""
    model, ids = text_model(), torch.tensor(tokenizer()("a fine film")["input_ids"])
    padded = {"input_ids": torch.cat((torch.zeros(2).long(), ids))[None], "attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1, 1]])}
    table = model.distilbert.embeddings.position_embeddings.weight
    maps = []
    for coded in ({"input_ids": ids[None], "attention_mask": torch.ones(1, 5).long()}, padded):
        with torch.no_grad():  # positions are those of the text
            table.copy_(table.roll(coded["input_ids"].shape[1] - 5, 0))
        inputs = TextInputs.of_encoding(coded, tokenizer())
        x = inputs.take(torch.arange(1))
        maps.append(Attention(row=row).explain(inputs.adapt(model), x.values, torch.zeros(1).long(), context(x.structure, 1)))
    torch.testing.assert_close(maps[1], maps[0])


def test_attention_of_an_image_lies_at_its_patches():
    model, images = vision_model(), torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    before = model.model.config._attn_implementation
    found = Attention().explain(model, images, torch.zeros(2).long(), context(rows=2))
    assert model.model.config._attn_implementation == before
    model.model.set_attn_implementation("eager")
    own = model.model(pixel_values=images, output_attentions=True).attentions[-1].mean(1)[:, 0, 1:]
    assert torch.equal(found[:, 0, ::4, ::4].flatten(1), own)
    assert torch.equal(found[:, 2, 3:4, 4:8], found[:, 0, :1, 4:5].expand(-1, 1, 4).reshape(2, 1, 4))
    assert AttentionRollout().explain(model, images, torch.zeros(2).long(), context(rows=2)).shape == images.shape


def test_a_model_without_attention_is_refused():
    with pytest.raises(InputError, match="attention reads the attention of transformers' models, and there is none in Linear"):
        Attention().check(nn.Linear(3, 2), torch.ones(1, 3), torch.zeros(1).long())


def test_attention_is_read_where_transformers_has_not_made_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process gets the model by pickle, and transformers' list of what can be recorded is empty there."""
    from transformers.utils import output_capturing

    inputs = TextInputs(TEXTS, tokenizer())
    signals, model = inputs.take(torch.arange(len(TEXTS))), inputs.adapt(text_model())
    context = Context(Draws.of(0, torch.arange(len(TEXTS))), 8, signals.structure)
    targets = torch.zeros(len(TEXTS), dtype=torch.long)
    expected = AttentionRollout().explain(model, signals.values, targets, context)
    monkeypatch.setattr(output_capturing, "_CAN_RECORD_REGISTRY", {})
    assert torch.equal(AttentionRollout().explain(model, signals.values, targets, context), expected)
