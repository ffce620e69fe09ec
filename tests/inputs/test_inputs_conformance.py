"""Every built-in kind of data set follows the rules for data sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import nn

from inputs.test_several import Network, parts
from models.onnx_files import small_network
from veracity.core.inputs import Inputs, TensorInputs, TokenInputs
from veracity.inputs import ImageInputs, SeveralInputs, TableInputs
from veracity.testing import InputsConformance


class TestTensors(InputsConformance):
    def inputs(self) -> Inputs:
        return TensorInputs(torch.rand(5, 4, generator=torch.Generator().manual_seed(0)))

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


class TestSeveral(InputsConformance):
    def inputs(self) -> Inputs:
        return SeveralInputs(parts())

    def model(self) -> nn.Module:
        return Network()
