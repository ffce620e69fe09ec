"""Do explanations of a graph classifier find the edges that decide its class? Motif AUC and fidelity, on molecules with known groups."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from veracity.audit import Audit
from veracity.core.graphs import EdgeInputs, GraphInputs
from veracity.recipe import Scale, recipe
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.motifs import motif_graphs
from veracity_papers.data.mutagenicity import mutagenicity, mutagenicity_motifs
from veracity_papers.recipes.smoke import trained_classifier
from veracity_papers.zoo.graphs import gcn, gin


class Size(NamedTuple):
    """How much is measured: explained graphs, graphs that PGExplainer learns from, and epochs of the three trainings."""

    explained: int
    learnt_from: int
    network: int
    gnn_explainer: int
    pg_explainer: int


SIZES = {
    Scale.SMOKE: Size(explained=6, learnt_from=12, network=3, gnn_explainer=5, pg_explainer=2),
    Scale.SMALL: Size(explained=40, learnt_from=100, network=20, gnn_explainer=50, pg_explainer=5),
    Scale.PAPER: Size(explained=10_000, learnt_from=400, network=40, gnn_explainer=100, pg_explainer=10),
}


@recipe("graphs-mutagenicity", reference="Luo et al., Parameterized explainer for graph neural network (NeurIPS 2020), section 5")
def graphs_mutagenicity(folder: Path, scale: Scale) -> Audit:
    """Edge masks of two graph networks on mutagens, compared with the bonds of their NO2 and NH2 groups, and their fidelity.

    A GCN and a GIN are trained on 3,471 molecules. All explainers explain the class "mutagen" of held-out mutagens with such a group.
    PGExplainer learns from training molecules. Small: 40 molecules. Paper: all 199. Smoke: generated graphs with planted motifs.
    """
    size = SIZES[scale]
    train, (test, truth) = data(scale)
    features = train.inputs.shape[-1]
    fitted = partial(trained_classifier, folder, data=(train.inputs, train.labels), epochs=size.network, batch=64, decay=1e-5)
    models = {name: fitted(name, build=partial(build, features)) for name, build in {"gcn": gcn, "gin": gin}.items()}
    learnt_from, (explained, masks) = train.some(size.learnt_from), first(test, truth, size.explained)
    return Audit(
        title="Do explanations of a mutagenicity classifier find the toxic groups?",
        models=models,
        inputs=EdgeInputs(explained),
        truth=masks,
        target=0,
        outputs="logits",
        explainers=edge_explainers(models["gcn"], size),
        training=(learnt_from.inputs, learnt_from.labels),
        scores=["auc", "fidelity_plus", "fidelity_minus", "characterisation", "unfaithfulness"],
        companions=False,
        about={"recipe": "graphs-mutagenicity", "scale": scale.value},
    )


def data(scale: Scale) -> tuple[Labelled, tuple[Labelled, Tensor]]:
    """Training graphs, and graphs to explain with the edges of their motifs."""
    if scale is not Scale.SMOKE:
        return mutagenicity("train"), mutagenicity_motifs()
    return motif_graphs(60)[0], motif_graphs(40, seed=1)


def first(graphs: Labelled, truth: Tensor, count: int) -> tuple[GraphInputs, Tensor]:
    """The first graphs of class 0 with their truth."""
    rows = (graphs.labels == 0).nonzero()[:count, 0]
    found: Any = graphs[rows].inputs
    return found, truth[rows]


def edge_explainers(model: Any, size: Size) -> dict[str, Any]:
    """PyG's explainers of edges, and the gradient of the gates."""
    from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer

    about = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    explainer = partial(Explainer, model, explanation_type="phenomenon", model_config=about, edge_mask_type="object")
    return {
        "gnn_explainer": explainer(GNNExplainer(epochs=size.gnn_explainer)),
        "pg_explainer": explainer(PGExplainer(epochs=size.pg_explainer)),
        "saliency": explainer(CaptumExplainer("Saliency")),
        "integrated_gradients": explainer(CaptumExplainer("IntegratedGradients")),
        "gradient": "gradient",
    }
