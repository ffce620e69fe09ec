"""Data sets of all kinds: images, tables, texts, samples of several parts."""

from __future__ import annotations

from veracity.inputs.convert import as_inputs
from veracity.inputs.datasets import DatasetInputs
from veracity.inputs.images import ImageInputs, Scaling
from veracity.inputs.labels import split_labels
from veracity.inputs.several import SeveralInputs
from veracity.inputs.tables import TableInputs
from veracity.inputs.text import TextInputs
from veracity.inputs.tiles import Mosaics, mosaics
from veracity.inputs.truth import Boxes, RelevantFeatures
