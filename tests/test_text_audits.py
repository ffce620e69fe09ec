"""Every kind of score takes texts: symmetry, stability over retrained networks, and worst cases on gates."""

import pytest
import torch
from torch import nn

from text_models import seeded, text_model, tokenizer
from veracity import Audit, CrossTrained
from veracity.core.errors import InputError
from veracity.explain import IntegratedGradients, PartitionShap, Symmetrised
from veracity.inputs import TextInputs
from veracity.perturb import Permutations, TokenPermutations
from veracity.scores import Equivariance, ModelInvariance
from veracity.walk import MonteCarlo

pytest.importorskip("transformers")

FINE = ["a fine film", "a very fine film", "fine", "a film with heart", "a fine film with heart", "very fine at heart"]
DULL = ["a dull film", "not a fine film", "a film with no heart", "dull", "no heart at all", "not fine at all"]
TEXTS = [text for pair in zip(FINE, DULL, strict=True) for text in pair]
LABELS = torch.tensor([1, 0] * 6)


class Bag(nn.Module):
    """The mean of word vectors, and a linear layer: the order of the words plays no part."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(17, 8), nn.Linear(8, 2)

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask):
        kept = attention_mask[..., None].to(self.words.weight.dtype)
        return self.head(torch.tanh((self.words(input_ids) * kept).sum(1) / kept.sum(1)))


def without_positions():
    model = text_model()
    model.distilbert.embeddings.position_embeddings.weight.data.zero_()
    return model


def test_explanations_move_with_the_words_where_the_order_plays_no_part(tmp_path):
    walk = MonteCarlo(draws=3)
    explainers = {"integrated_gradients": IntegratedGradients(steps=4), "attn_lrp": "attn_lrp", "input_x_gradient": "input_x_gradient"}
    audit = Audit(
        models={"bag": seeded(Bag), "without positions": without_positions(), "encoder": text_model()},
        inputs=TextInputs(TEXTS, tokenizer()),
        explainers=explainers,
        symmetry=TokenPermutations(),
        walk=walk,
        scores={"equivariance": Equivariance(), "model_invariance": ModelInvariance()},
        controls=False,
        companions=False,
    )
    rows = audit.run(tmp_path).table().set_index(["model", "explainer", "score"])["value"]
    for model in ("bag", "without positions"):
        assert rows.loc[model, "", "model_invariance"] == pytest.approx(1.0, abs=1e-4)
        for explainer in explainers:
            assert rows.loc[model, explainer, "equivariance"] == pytest.approx(1.0, abs=1e-3)
    assert rows.loc["encoder", "integrated_gradients", "equivariance"] < 0.99


def test_a_symmetrised_explanation_moves_with_the_words_of_any_text(tmp_path):
    """SHAP values on a tree follow the order of the words; their mean over all orders does not."""
    inner = PartitionShap(evaluations=10)
    audit = Audit(
        models=seeded(Bag),
        inputs=TextInputs(["a dull film", "fine", "not a fine film"], tokenizer()),
        explainers={"tree": inner, "all orders": Symmetrised(explainer=inner)},
        symmetry=TokenPermutations(),
        walk=MonteCarlo(draws=4),
        scores={"equivariance": Equivariance()},
        controls=False,
        companions=False,
    )
    rows = audit.run(tmp_path).table().set_index("explainer")["value"]
    assert rows["all orders"] == pytest.approx(1.0, abs=1e-5)
    assert rows["tree"] < rows["all orders"]


def test_symmetries_of_texts_and_of_tensors_are_not_mixed_up():
    with pytest.raises(InputError, match="The symmetry 'token_permutations' acts on texts"):
        Audit(models=nn.Linear(3, 2), inputs=torch.randn(4, 3), symmetry=TokenPermutations(), scores=["model_invariance"]).prepare()
    with pytest.raises(InputError, match=r"leave its words in place: use TokenPermutations\(\)"):
        Audit(models=text_model(), inputs=TextInputs(TEXTS, tokenizer()), symmetry=Permutations(), scores=["model_invariance"]).prepare()


def trained_bag(inputs, targets, seed):
    """Five passes over the texts, with the seed's first weights."""
    model = seeded(Bag, seed)
    signals, view = inputs.take(torch.arange(inputs.size())), inputs.adapt(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(view(signals.values, *signals.structure), targets).backward()
        optimiser.step()
    return model.eval()


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_mege_over_retrained_classifiers_and_f_hat_on_gates(tmp_path):
    inputs = TextInputs(TEXTS, tokenizer())
    again = CrossTrained(fit=trained_bag, folds=torch.arange(12) // 4)
    audit = Audit(
        models={"again": again},
        inputs=inputs,
        targets=LABELS,
        explainers={"integrated_gradients": IntegratedGradients(steps=4), "random, top 2": {"name": "random_top_k", "k": 2}},
        scores=["mege"],
        companions=False,
    )
    rows = audit.run(tmp_path / "mege").table().set_index(["explainer", "score"])
    assert rows.loc[("integrated_gradients", "mege"), "value"] > rows.loc[("random, top 2", "mege"), "value"]
    worst = {"name": "sol_f_hat", "walk": {"name": "genetic", "population": 8, "elites": 2, "generations": 3}}
    audit = Audit(
        models={"bag": trained_bag(inputs, LABELS, 0)},
        inputs=inputs,
        explainers={"integrated_gradients": IntegratedGradients(steps=4)},
        scores=[worst],
        companions=False,
    )
    found = audit.run(tmp_path / "f_hat").table().set_index(["explainer", "score"])
    row = found.loc[("integrated_gradients", "sol_f_hat")]
    assert row["cells_failed"] == 0
    assert -1 <= row["value"] <= 1
