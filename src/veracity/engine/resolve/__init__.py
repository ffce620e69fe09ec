"""From what users write to what the engine runs: names become components, tensors become inputs, mistakes become sentences."""

from __future__ import annotations

from veracity.engine.resolve.explainers import by_class, check_given, check_needs, labelled, prepare_explainer, with_own_controls
from veracity.engine.resolve.inputs import as_data, as_labels, as_reference, as_tensor, class_names, named_labels, usual_rows
from veracity.engine.resolve.models import as_models
from veracity.engine.resolve.scores import Scores, all_scores, check_asked
from veracity.engine.resolve.settings import as_about, as_outputs, as_whole
from veracity.engine.resolve.symmetry import as_space, as_walk, check_structure
from veracity.engine.resolve.training import as_checkpoint, as_checkpoints, as_training
from veracity.engine.resolve.truth import SelectedMasks, as_truth, of_own_lengths
