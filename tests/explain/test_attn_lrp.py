"""AttnLRP: against relevance propagated with NumPy, against the rules of the package lxt, and refusals."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from text_models import TEXTS, seeded, text_model, tokenizer, vision_model
from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws
from veracity.explain import AttnLrp, LRPEpsilon
from veracity.inputs import TextInputs
from veracity.models.base import ReadableOutput
from veracity.scores import FastGEF
from veracity.testing.explainers import ExplainerConformance, no_trace

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 17, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "pad_token_id": 0}


def llama(implementation="eager"):
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=20, attn_implementation=implementation)
    return seeded(lambda: transformers.LlamaForSequenceClassification(config)).double()


def explained(explainer, model, texts=TEXTS, unit="token", batch=3, target=1, gates=None):
    inputs = TextInputs(texts, tokenizer(), unit=unit)
    x = inputs.take(torch.arange(len(texts)))
    context = Context(Draws.of(0, torch.arange(len(texts))), batch, x.structure, present=x.present)
    values = x.values.double() if gates is None else gates
    return explainer.explain(inputs.adapt(model), values, torch.full((len(texts),), target), context)


def by_numpy(model, ids, target, gates=None):
    """The relevance (T,) of every token of one text, step by step from the score down, by the rules as the paper states them."""

    def array(tensor):
        return tensor.detach().double().numpy()

    def linear(layer, x):
        return x @ array(layer.weight).T + array(layer.bias)

    def linear_down(layer, x, relevance):
        return x * ((relevance / linear(layer, x)) @ array(layer.weight))

    def norm(layer, x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + layer.eps) * array(layer.weight) + array(layer.bias)

    def norm_down(layer, x, relevance):
        """The linear map x -> weight (x - mean) / deviation as a matrix, for each token."""
        width = x.shape[-1]
        share = relevance / norm(layer, x)
        found = np.zeros_like(x)
        for row in range(len(x)):
            matrix = (np.eye(width) - 1 / width) * array(layer.weight)[:, None] / np.sqrt(x[row].var() + layer.eps)
            found[row] = x[row] * (matrix.T @ share[row])
        return found

    def product_down(a, b, relevance):
        """A product of matrices a (R, K) b (K, C): every term a_rk b_kc takes its share, half of it for a and half for b."""
        terms = a[:, :, None] * b[None] * (relevance / (a @ b))[:, None, :] / 2
        return terms.sum(2), terms.sum(0)

    body, stages = model.distilbert, []
    table = array(body.embeddings.word_embeddings.weight)
    words = table[ids]
    if gates is not None:
        words = table[4] + np.array(gates)[:, None] * (words - table[4])
    placed = words + array(body.embeddings.position_embeddings.weight)[: len(ids)]
    x = norm(body.embeddings.LayerNorm, placed)
    for layer in body.transformer.layer:
        part = layer.attention
        q, k, v = (linear(one, x).reshape(len(ids), part.n_heads, -1).transpose(1, 0, 2) for one in (part.q_lin, part.k_lin, part.v_lin))
        power = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = np.exp(power) / np.exp(power).sum(-1, keepdims=True)
        mixed = (weights @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        around = linear(part.out_lin, mixed) + x
        middle = norm(layer.sa_layer_norm, around)
        hidden = linear(layer.ffn.lin1, middle)
        bent = torch.nn.functional.gelu(torch.from_numpy(hidden)).numpy()
        above = linear(layer.ffn.lin2, bent) + middle
        stages.append((layer, x, q, k, v, power, weights, mixed, around, middle, bent, above))
        x = norm(layer.output_layer_norm, above)
    before = linear(model.pre_classifier, x[:1])
    score = linear(model.classifier, np.maximum(before, 0))
    relevance = np.where(np.arange(score.shape[1]) == target, score, 0.0)
    relevance = linear_down(model.classifier, np.maximum(before, 0), relevance)  # the ReLU passes it on
    first = linear_down(model.pre_classifier, x[:1], relevance)
    relevance = np.zeros_like(x)
    relevance[:1] = first
    for layer, x, q, k, v, power, weights, mixed, around, middle, bent, above in reversed(stages):
        part = layer.attention
        relevance = norm_down(layer.output_layer_norm, above, relevance)
        through = relevance * linear(layer.ffn.lin2, bent) / above
        through = linear_down(layer.ffn.lin2, bent, through)  # the GELU passes it on
        relevance = relevance * middle / above + linear_down(layer.ffn.lin1, middle, through)
        relevance = norm_down(layer.sa_layer_norm, around, relevance)
        out = linear_down(part.out_lin, mixed, relevance * linear(part.out_lin, mixed) / around)
        out = out.reshape(len(ids), part.n_heads, -1).transpose(1, 0, 2)
        below = relevance * x / around
        parts = {"q": np.zeros_like(q), "k": np.zeros_like(k), "v": np.zeros_like(v)}
        for head in range(part.n_heads):
            attention, parts["v"][head] = product_down(weights[head], v[head], out[head])
            scores = power[head] * (attention - weights[head] * attention.sum(-1, keepdims=True))
            parts["q"][head], keys = product_down(q[head], k[head].T, scores)
            parts["k"][head] = keys.T
        for one, name in ((part.q_lin, "q"), (part.k_lin, "k"), (part.v_lin, "v")):
            below = below + linear_down(one, x, parts[name].transpose(1, 0, 2).reshape(len(ids), -1))
        relevance = below
    relevance = norm_down(body.embeddings.LayerNorm, placed, relevance)
    return (relevance * words / placed).sum(-1)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_relevance_is_that_of_the_rules_by_numpy(implementation):
    model = text_model().double()
    model.set_attn_implementation(implementation)
    found = explained(AttnLrp(epsilon=1e-14), model)
    for row, text in enumerate(TEXTS):
        ids = tokenizer()(text)["input_ids"]
        assert found[row, : len(ids) - 2].numpy() == pytest.approx(by_numpy(model, ids, 1)[1:-1], abs=1e-9)
        assert not found[row, len(ids) - 2 :].any()
    assert float(found.abs().max()) > 0.1


def test_gates_move_the_embedding_whose_relevance_is_asked_for():
    model, gates = text_model().double(), torch.tensor([[0.25, 0.0, 1.0]]).double()
    found = explained(AttnLrp(epsilon=1e-14), model, ["a fine film"], gates=gates)
    by_hand = by_numpy(model, tokenizer()("a fine film")["input_ids"], 1, [1, 0.25, 0.0, 1.0, 1])
    assert found[0].numpy() == pytest.approx(by_hand[1:-1], abs=1e-9)


def test_the_pieces_of_a_word_are_added_up_and_no_batch_matters():
    model = text_model().double()
    a, fine, ly, film = explained(AttnLrp(), model, ["a finely film"])[0].tolist()
    assert explained(AttnLrp(), model, ["a finely film"], unit="word")[0].tolist() == pytest.approx([a, fine + ly, film])
    alone = torch.cat([nn.functional.pad(one, (0, 8 - one.shape[1])) for one in (explained(AttnLrp(), model, [text]) for text in TEXTS)])
    torch.testing.assert_close(explained(AttnLrp(), model, batch=100), alone, rtol=0, atol=1e-6)


def rules_of_lxt(monkeypatch):
    """lxt's rules for Llama. Its package as a whole needs an older transformers and torchvision, so only the files for Llama are loaded."""
    spec = importlib.util.find_spec("lxt")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("lxt is not installed: pip install --no-deps --target FOLDER lxt, and add FOLDER to PYTHONPATH")
    for name in ("lxt.efficient", "lxt.efficient.models"):
        package = ModuleType(name)
        package.__path__ = [str(Path(spec.submodule_search_locations[0], *name.split(".")[1:]))]
        monkeypatch.setitem(sys.modules, name, package)
    for name in ("lxt.efficient.rules", "lxt.efficient.patches", "lxt.efficient.models.llama"):
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    return sys.modules["lxt.efficient.models.llama"].attnLRP


def test_a_llama_has_the_relevance_of_lxt(monkeypatch):
    ours = {kind: explained(AttnLrp(epsilon=1e-14), llama(kind), batch=8) for kind in ("eager", "sdpa")}
    rules = rules_of_lxt(monkeypatch)
    module = transformers.models.llama.modeling_llama
    for target, name in ((module.LlamaMLP, "forward"), (module.LlamaRMSNorm, "forward"), (nn.Dropout, "forward")):
        monkeypatch.setattr(target, name, getattr(target, name))  # put back at the end
    for name in ("eager_attention_forward", "ALL_ATTENTION_FUNCTIONS"):
        monkeypatch.setattr(module, name, getattr(module, name))
    for target, patch in rules.items():
        assert patch(target)
    module.ALL_ATTENTION_FUNCTIONS = SimpleNamespace(get_interface=lambda *_: module.eager_attention_forward)  # lxt leaves a plain dict
    model, coded = llama(), tokenizer()(TEXTS, padding=True, return_tensors="pt")
    words = model.get_input_embeddings()(coded["input_ids"]).detach().requires_grad_()
    # an embedding in the place of the tokens leaves the model no way to find the last token but the mask
    hidden = model.model(inputs_embeds=words, attention_mask=coded["attention_mask"]).last_hidden_state
    last = coded["attention_mask"].sum(1) - 1
    model.score(hidden)[torch.arange(4), last, 1].sum().backward()
    theirs = (words * words.grad).sum(-1)
    for row, count in enumerate(last.tolist()):
        for found in ours.values():
            assert found[row, : count - 1].tolist() == pytest.approx(theirs[row, 1:count].tolist(), abs=1e-6)
    assert float(theirs.detach().abs().max()) > 1e-2


class TestOnImages(ExplainerConformance):
    """On a small vision transformer."""

    tolerance = 1e-4

    def explainer(self) -> Explainer:
        return AttnLrp()

    def model(self) -> nn.Module:
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        config = transformers.ViTConfig(image_size=9, patch_size=3, num_channels=2, num_labels=3, **sizes)
        return ReadableOutput(seeded(lambda: transformers.ViTForImageClassification(config)), "logits").eval()


def test_without_attention_it_is_lrp_epsilon():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(4, 6)
    context, targets = Context(Draws.of(0, torch.arange(4)), 8), torch.tensor([0, 1, 2, 0])
    assert AttnLrp().check(model, x, targets) == ()
    ours, theirs = (one.explain(model, x, targets, context) for one in (AttnLrp(), LRPEpsilon()))
    torch.testing.assert_close(ours, theirs)


class Odd(nn.Module):
    """A model with steps that have no rule."""

    def __init__(self, step):
        super().__init__()
        self.first, self.last, self.step = nn.Linear(4, 4), nn.Linear(4, 2), step

    def forward(self, x):
        return self.last(self.step(self.first(x)))


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (torch.exp, "exp x1"),
        (lambda x: x / x.sum(1, keepdim=True), "div x1"),
        (lambda x: torch.log_softmax(x, 1), "log_softmax x1"),
        (lambda x: x / x.norm(dim=1, keepdim=True), "div x1, linalg_vector_norm x1"),
    ],
)
def test_a_step_without_a_rule_is_refused(step, named):
    with pytest.raises(InputError) as caught:
        AttnLrp().check(Odd(step).eval(), torch.randn(2, 4), torch.zeros(2).long())
    assert f"attn_lrp has no rule for some steps of Odd ({named}): use integrated_gradients" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("plain", "named"),
    [
        (
            lambda x: torch.bmm(x[:, None], x[..., None])[:, 0] * x,
            lambda x: torch.mul(torch.bmm(x[:, None], mat2=x[..., None])[:, 0], other=x),
        ),
        (
            lambda x: torch.bmm(x[:, None], x[..., None])[:, 0].sqrt() + x,
            lambda x: torch.sqrt(input=torch.bmm(input=x[:, None], mat2=x[..., None])[:, 0]) + x,
        ),
        (
            lambda x: torch.matmul(x[:, None], x[..., None])[:, 0] * x,
            lambda x: torch.matmul(input=x[:, None], other=x[..., None])[:, 0] * x,
        ),
    ],
)
def test_arguments_by_name_have_the_rules_too(plain, named):
    layers = seeded(lambda: Odd(plain))
    other, x, targets = Odd(named).eval(), torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0])
    other.load_state_dict(layers.state_dict())
    context = Context(Draws.of(0, torch.arange(3)), 8)
    assert torch.equal(*(AttnLrp().explain(model, x, targets, context) for model in (layers, other)))


def test_a_quotient_by_name_is_refused_too():
    with pytest.raises(InputError, match=r"has no rule for some steps of Odd \(div x1\)"):
        AttnLrp().check(Odd(lambda x: torch.div(x, other=x.sum(1, keepdim=True))).eval(), torch.randn(2, 4), torch.zeros(2).long())


def test_torchs_own_attention_is_refused():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), layer, nn.Flatten(), nn.Linear(4, 2)).eval()
    with pytest.raises(InputError, match="multi_head_attention_forward x1"):
        AttnLrp().check(model, torch.randn(2, 4), torch.zeros(2).long())


def test_texts_leave_no_trace_on_the_model():
    inputs = TextInputs(TEXTS, tokenizer())
    x, model = inputs.take(torch.arange(4)), inputs.adapt(text_model())
    context = Context(Draws.of(0, torch.arange(4)), 8, x.structure)
    with no_trace(model, x.values):
        AttnLrp().check(model, x.values, torch.zeros(4).long(), context)
        AttnLrp().explain(model, x.values, torch.zeros(4).long(), context)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_an_audit_explains_images_and_texts(tmp_path):
    images = torch.rand(3, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    for name, model, inputs in (("images", vision_model(), images), ("texts", text_model(), TextInputs(TEXTS, tokenizer()))):
        audit = Audit(models={name: model}, inputs=inputs, explainers=["attn_lrp"], scores=["sparseness", FastGEF(sigma=0.3, draws=2)])
        rows = audit.run(tmp_path / name).table().set_index(["explainer", "score"])
        assert (rows.loc["attn_lrp", "cells_failed"] == 0).all()
