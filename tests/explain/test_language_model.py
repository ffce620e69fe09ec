"""Likelihoods of words after prompts: packed rows against one row per word, and against plain forward passes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from language_models import llm_tokenizer, tiny_llama
from veracity.core.errors import InputError
from veracity.explain import LanguageModel
from veracity.explain.language_model import Question
from veracity.models.transformers import without_bars

pytest.importorskip("transformers")

QUESTIONS = [
    Question((2, 9, 8, 7, 6, 5, 4), ((11,), (12, 16), (13, 16, 17), (11, 17))),
    Question((2, 4), ((14,),)),
    Question((9, 8, 7, 5), ((12, 16), (10,), (20, 21, 22, 23))),
]


def by_hand(model, question):
    """log p of each word by one plain pass per word, in full."""
    found = []
    for word in question.words:
        ids = torch.tensor([[*question.prompt, *word]])
        with torch.no_grad():
            scores = torch.log_softmax(model(input_ids=ids).logits[0].double(), -1)
        first = len(question.prompt) - 1
        found.append(sum(float(scores[first + at, token]) for at, token in enumerate(word)))
    return found


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_packed_words_have_the_likelihoods_of_plain_passes(batch: int) -> None:
    llm = LanguageModel(tiny_llama(), llm_tokenizer())
    assert llm.packs
    found = llm.likelihoods(QUESTIONS, batch)
    for own, question in zip(found, QUESTIONS, strict=True):
        assert own == pytest.approx(by_hand(llm.model, question), abs=1e-4)


def test_one_row_per_word_gives_the_same() -> None:
    llm = LanguageModel(tiny_llama(), llm_tokenizer())
    with torch.no_grad():
        found = llm.one_by_one(QUESTIONS)
    for own, question in zip(found, QUESTIONS, strict=True):
        assert own == pytest.approx(by_hand(llm.model, question), abs=1e-4)


def test_a_model_that_ignores_the_mask_is_not_packed() -> None:
    model = tiny_llama()
    forward = model.forward

    def deaf(input_ids, attention_mask=None, position_ids=None):
        return forward(input_ids=input_ids)

    model.forward = deaf
    llm = LanguageModel(model, llm_tokenizer())
    assert not llm.packs


def test_gpt2_with_its_own_positions_is_packed_too() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from text_models import seeded

    model = seeded(lambda: GPT2LMHeadModel(GPT2Config(vocab_size=26, n_positions=64, n_embd=16, n_layer=2, n_head=2)))
    llm = LanguageModel(model, llm_tokenizer())
    found = llm.likelihoods(QUESTIONS, 8)
    for own, question in zip(found, QUESTIONS, strict=True):
        assert own == pytest.approx(by_hand(model, question), abs=1e-4)


def test_the_model_comes_back_as_it_was() -> None:
    model = tiny_llama().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    LanguageModel(model, llm_tokenizer()).likelihoods(QUESTIONS, 2)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_greedy_answers_do_not_depend_on_the_batch() -> None:
    llm = LanguageModel(tiny_llama(), llm_tokenizer())
    prompts = [one.prompt for one in QUESTIONS]
    assert llm.answers(prompts, 6, 1) == llm.answers(prompts, 6, 3)


def test_memory_that_runs_out_halves_the_batch() -> None:
    llm = LanguageModel(tiny_llama(), llm_tokenizer())
    expected, whole, sizes = llm.likelihoods(QUESTIONS, 8), llm.packed, []

    def small(questions):
        sizes.append(len(questions))
        if len(questions) > 1:
            raise RuntimeError("CUDA error: out of memory")
        return whole(questions)

    llm.packed = small
    assert [value for row in llm.likelihoods(QUESTIONS, 8) for value in row] == pytest.approx(
        [value for row in expected for value in row], abs=1e-5
    )
    assert sizes == [3, 1, 1, 1]


@pytest.mark.parametrize(
    ("model", "tokenizer", "words"),
    [
        (3, None, "must be a causal model of transformers or the path of one, not 3"),
        (torch.nn.Linear(2, 2), None, "needs its tokenizer, not None"),
        ("/nowhere/at/all", None, "There is no language model at '/nowhere/at/all'"),
    ],
)
def test_what_is_no_language_model_is_refused(model, tokenizer, words) -> None:
    with pytest.raises(InputError, match=words):
        LanguageModel.of(model, tokenizer)


def test_a_gguf_file_without_its_reader_names_the_command(tmp_path, monkeypatch) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("veracity.explain.language_model.find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(InputError, match=r"'model.gguf' is a GGUF file, and gguf to read it is not installed: pip install gguf\."):
        LanguageModel.of(tmp_path / "model.gguf")


def test_a_folder_without_a_model_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot be loaded as a causal language model"):
        LanguageModel.of(str(tmp_path))


def changed_tokenizer(change) -> object:
    from transformers import PreTrainedTokenizerFast

    known = llm_tokenizer()
    found = PreTrainedTokenizerFast(tokenizer_object=known.backend_tokenizer.__class__.from_str(known.backend_tokenizer.to_str()))
    found.pad_token, found.unk_token, found.eos_token, found.chat_template = "<pad>", "<unk>", "</s>", known.chat_template
    change(found)
    return found


def test_whatever_changes_an_answer_changes_the_fingerprint() -> None:
    from tokenizers import normalizers, pre_tokenizers

    def lower(one):
        one.backend_tokenizer.normalizer = normalizers.Lowercase()

    def split(one):
        one.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    prints = [LanguageModel(tiny_llama(), changed_tokenizer(change)).fingerprint for change in (lambda _: None, lower, split)]
    ending = tiny_llama()
    ending.generation_config.eos_token_id = [3, 5]
    prints.append(LanguageModel(ending, changed_tokenizer(lambda _: None)).fingerprint)
    assert len(set(prints)) == 4


def test_padding_of_earlier_calls_is_not_in_the_fingerprint() -> None:
    used = changed_tokenizer(lambda _: None)
    used(["a fine film", "a"], padding=True, truncation=True, max_length=2)
    prints = [LanguageModel(tiny_llama(), one).fingerprint for one in (used, changed_tokenizer(lambda _: None))]
    assert prints[0] == prints[1]


def test_a_folder_with_damaged_weights_is_refused_in_whole_words(tmp_path) -> None:
    tiny_llama().save_pretrained(tmp_path)
    llm_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"xx" * 50)
    with pytest.raises(InputError, match="cannot be loaded as a causal language model") as caught:
        LanguageModel.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_long_reason_ends_with_a_word(tmp_path, monkeypatch) -> None:
    import transformers

    def fail(*_args, **_settings):
        raise ValueError("unrecognised " * 30)

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fail)
    tiny_llama().save_pretrained(tmp_path)
    llm_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"\((unrecognised )+\.\.\.\): give the folder of one"):
        LanguageModel.load(tmp_path)


def test_a_saved_folder_is_loaded(tmp_path) -> None:
    model = tiny_llama()
    model.save_pretrained(tmp_path)
    llm_tokenizer().save_pretrained(tmp_path)
    loaded = LanguageModel.of(str(tmp_path))
    assert loaded.likelihoods(QUESTIONS, 8)[0] == pytest.approx(by_hand(model, QUESTIONS[0]), abs=1e-4)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("damaged", [False, True])
def test_loading_shows_no_bars_and_restores_the_setting(tmp_path, capfd, shown: bool, damaged: bool) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging

    tiny_llama().save_pretrained(tmp_path)
    llm_tokenizer().save_pretrained(tmp_path)
    if damaged:
        (tmp_path / "model.safetensors").write_bytes(b"xx" * 50)
    before = logging.is_progress_bar_enabled()
    try:
        (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
        capfd.readouterr()
        with pytest.raises(InputError) if damaged else nullcontext():
            LanguageModel.load(tmp_path)
        assert "Loading weights" not in capfd.readouterr().err
        assert logging.is_progress_bar_enabled() == shown
        assert are_progress_bars_disabled() == (not shown)
    finally:
        (logging.enable_progress_bar if before else logging.disable_progress_bar)()


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("shown_in_hub", [True, False])
def test_the_bars_of_transformers_and_of_its_hub_are_restored_each(shown: bool, shown_in_hub: bool) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    before, before_in_hub = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()

    def put(bars: bool, hub: bool) -> None:
        (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
        (enable_progress_bars if hub else disable_progress_bars)()

    try:
        put(shown, shown_in_hub)
        with without_bars():
            assert not logging.is_progress_bar_enabled()
            assert are_progress_bars_disabled()
        assert (logging.is_progress_bar_enabled(), not are_progress_bars_disabled()) == (shown, shown_in_hub)
    finally:
        put(before, before_in_hub)


def test_the_bar_that_is_hidden_is_there(tmp_path, capfd) -> None:
    """Without our function `transformers` shows it, so the test above can fail."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if not logging.is_progress_bar_enabled():
        pytest.skip("bars are off in this process")
    tiny_llama().save_pretrained(tmp_path)
    capfd.readouterr()
    AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True)
    assert "Loading weights" in capfd.readouterr().err


def test_written_answers_of_byte_pairs_are_decoded_without_a_warning(monkeypatch) -> None:
    """A tokenizer that asks to clean up spaces, which `transformers` ignores for byte pairs, with a warning on every first call."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, tokenization_utils_tokenizers

    made = Tokenizer(models.BPE({word: number for number, word in enumerate("abcdefghijklmnopqrstuvwxyz")}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Whitespace(), decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="a", eos_token="b", clean_up_tokenization_spaces=True)
    said: list[str] = []
    monkeypatch.setattr(tokenization_utils_tokenizers.logger, "warning_once", lambda text, *_: said.append(text))
    tokenizer.decode([3, 4])
    assert len(said) == 1
    llm = LanguageModel(tiny_llama(), tokenizer)
    assert len(llm.answers([(3, 4, 5), (6,)], 4, 2)) == 2
    assert len(said) == 1
