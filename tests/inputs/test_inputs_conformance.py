"""Every built-in kind of data set follows the rules for data sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from graph_nets import Weighed, graphs
from inputs.test_several import Network, parts
from models.onnx_files import small_network
from text_models import TEXTS, text_model, tokenizer
from veracity import EdgeInputs, GraphInputs, NodeInputs
from veracity.core.inputs import FirstSamples, Inputs, SelectedSamples, TensorInputs, TokenInputs
from veracity.inputs import DatasetInputs, ImageInputs, Scaling, SeveralInputs, TableInputs, TextInputs
from veracity.models import as_model
from veracity.testing import InputsConformance


class Pooled(nn.Module):
    """Scores of graphs: features of the nodes and of their neighbours, summed."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        mixed = x.index_add(0, edge_index[1], 2 * x[edge_index[0]])
        return torch.zeros(int(batch.max()) + 1, x.shape[1]).index_add(0, batch, mixed)


class TestTensors(InputsConformance):
    def inputs(self) -> Inputs:
        return TensorInputs(torch.rand(5, 4, generator=torch.Generator().manual_seed(0)))

    def model(self) -> nn.Module:
        return small_network()


class TestDataset(InputsConformance):
    def inputs(self) -> Inputs:
        return DatasetInputs(TensorDataset(torch.rand(70, 4, generator=torch.Generator().manual_seed(0)), torch.arange(70)))

    def model(self) -> nn.Module:
        return small_network()


class TestTokens(InputsConformance):
    def inputs(self) -> Inputs:
        return TokenInputs(torch.tensor([[0, 1, -1], [2, 3, 1], [3, -1, -1]]), vocabulary=4)

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), small_network(inputs=12)).eval()


class TestImages(InputsConformance):
    def inputs(self) -> Inputs:
        return ImageInputs(np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4))

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), small_network(inputs=16)).eval()


class TestTable(InputsConformance):
    def inputs(self) -> Inputs:
        return TableInputs(pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=list("abcd")))

    def model(self) -> nn.Module:
        return small_network().double()


class TestTableOfCategories(InputsConformance):
    def inputs(self) -> Inputs:
        return TableInputs(pd.DataFrame({"age": [1.0, 2.0, 3.0], "job": ["cook", "clerk", "cook"]}), background=None)

    def model(self) -> nn.Module:
        return as_model("model", lambda table: np.stack([table["age"], table["job"] == "cook"], 1).astype(float))


class TestScaledImages(InputsConformance):
    def inputs(self) -> Inputs:
        scaling = Scaling(mean=(0.5, 0.5, 0.5), std=(0.2, 0.3, 0.4))
        return ImageInputs(np.arange(3 * 48, dtype=np.uint8).reshape(3, 4, 4, 3), scaling, channels="last")

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), small_network(inputs=48)).eval()


class TestSelected(InputsConformance):
    def inputs(self) -> Inputs:
        every = TensorInputs(torch.rand(5, 4, generator=torch.Generator().manual_seed(0)))
        return SelectedSamples(every, torch.tensor([4, 1, 3]))

    def model(self) -> nn.Module:
        return small_network()


class TestFirst(TestSelected):
    def inputs(self) -> Inputs:
        return FirstSamples(super().inputs(), 3)


class TestTexts(InputsConformance):
    @pytest.fixture(autouse=True)
    def library(self) -> None:
        pytest.importorskip("transformers")

    def inputs(self) -> Inputs:
        return TextInputs(TEXTS, tokenizer())

    def model(self) -> nn.Module:
        return text_model()


class TestGraphs(InputsConformance):
    def inputs(self) -> Inputs:
        values = torch.rand(3, 4, 2, generator=torch.Generator().manual_seed(0))
        mask = torch.arange(4) < torch.tensor([[2], [4], [3]])
        edges = torch.tensor([[[0, 1], [-1, -1]], [[0, 3], [3, 0]], [[2, 1], [1, 2]]])
        return GraphInputs(values * mask[..., None], mask, edges)

    def model(self) -> nn.Module:
        return Pooled()


class TestEdges(InputsConformance):
    def inputs(self) -> Inputs:
        pytest.importorskip("torch_geometric")
        return EdgeInputs.of(graphs(edge_attr=1, pos=3))

    def model(self) -> nn.Module:
        return Weighed().eval()


class TestNodes(TestEdges):
    def inputs(self) -> Inputs:
        pytest.importorskip("torch_geometric")
        return NodeInputs.of(graphs(edge_attr=1, pos=3))


class TestSeveral(InputsConformance):
    def inputs(self) -> Inputs:
        return SeveralInputs(parts())

    def model(self) -> nn.Module:
        return Network()
