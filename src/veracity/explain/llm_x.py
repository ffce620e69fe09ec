"""LLM-x: a language model explains a classifier that it knows by two numbers, its confidence before and after a perturbation.

The prompt names the task, the classes, the text, the explained class, the probability p0 that the unperturbed classifier gives it,
and how much more or less confident the perturbed one is, by |p1 - p0|. It asks for the K most important words, as JSON. Two modes
read an answer from it:

    rank      orders the text's own words by log p(word | prompt, 'The most important word is "'), which always gives an answer
    generate  lets the model write, greedily, and reads its answer as JSON

An explanation marks the classifier's tokens of the K words by 1. A written answer that is no JSON, that repeats the form it was
shown, or that names a word which is not in the text is undefined (NaN) and counted.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import Template
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Answers, Context, Cost, Inquirer
from veracity.core.inputs import row_in_whole, whole
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.targets import Outputs
from veracity.explain.language_model import LanguageModel, Question
from veracity.explain.passes import in_batches
from veracity.explain.wrapper import computed
from veracity.inputs.text import TextInputs, Word
from veracity.models.transformers import config_classes

START = 'The most important word is "'
"""How the answer begins whose next word is ranked."""
PLACES = ("first word", "second word")
"""Words in the form that is shown; an answer with one of them repeats the form."""
FORM = json.dumps({"words": list(PLACES)})
PROMPTS = {
    "default": (
        "A classifier has this task: $task. Its classes are: $classes.\n"
        'Text: "$text"\n'
        'The classifier gave the class "$label" a probability of $p0. Then its weights were perturbed with noise: $change.\n'
        "Rank the $k words of the text that matter most for the class, the most important word first.\n"
        "Answer with JSON only, in this form: $form"
    ),
    "synonyms": (
        "An AI model does the following: $task. It chooses among: $classes.\n"
        'Input: "$text"\n'
        'The model was $p0 certain that this is "$label". After an adversarial manipulation of the model: $change.\n'
        "List the top $k words of the input by importance for this decision, in descending order.\n"
        "Return only JSON, like this: $form"
    ),
}
"""The wordings of the prompt. $text and $change are in each of them."""
FIELDS = ("task", "classes", "text", "label", "p0", "p1", "change", "k", "form")
ROUNDED = 4
"""Log-likelihoods are compared to so many decimals, so that rounding on a device decides nothing; ties go by the order of the text."""


MODEL = "a causal model of transformers with its tokenizer, a pipeline, or the path of a folder or GGUF file"
"""What can be asked, in words."""
KEPT = 4
"""Answers are kept after so many batches."""
AROUND = string.punctuation + string.whitespace
"""What may stand around a word of an answer."""


class Asked(NamedTuple):
    """A prompt about a text, the words that an answer may name, and the tokens of both."""

    prompt: str
    words: Sequence[str]
    question: Question


class Inquiry(NamedTuple):
    """Prompts about some texts, the words of each text, the gates (N, U) that explanations are like, and where answers are kept."""

    prompts: Sequence[str]
    words: Sequence[Sequence[Word]]
    gates: Tensor
    store: Answers | None


class Answer(NamedTuple):
    """The words of an answer, the best first; or why there is none: "unparsable", "echo" or "foreign"."""

    words: tuple[str, ...]
    problem: str = ""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class LanguageModelExplainer(Inquirer):
    """A language model that says which words matter, from the classifier's confidence before and after a perturbation.

    The `model` is the language model that is asked, with its `tokenizer`; the classifier is the audit's.

    model      a causal language model of `transformers`, a pipeline, or the path of a folder or GGUF file
    tokenizer  its tokenizer; not needed beside a pipeline or a path
    k          how many words are marked
    mode       "rank" the text's own words by their likelihood, or "generate" an answer
    soft       whether explanations are the words' log-likelihoods instead of marks; tokens outside of words get the lowest
    task       what the classifier does, as in "classify ..."
    classes    the names of its classes; None takes those of its configuration, else their numbers
    prompt     a wording by its name, "default" or "synonyms", or a text of your own with $text and $change
    chat       whether it is asked in a dialogue, by its chat template
    length     the most tokens of a written answer
    digits     the decimals of probabilities
    batch      how many prompts go through the language model together
    """

    name = "llm_x"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025), A.4.4"
    structured = True
    contrasts = True
    signed: ClassVar[bool] = computed(lambda self: self.soft)

    model: Any = field(metadata={"spec": False, "words": f"the language model to ask: {MODEL}"})
    tokenizer: Any = field(default=None, metadata={"spec": False})
    k: Count = 5
    mode: Literal["rank", "generate"] = "rank"
    soft: bool = False
    task: str = "classify a text"
    classes: tuple[str, ...] | None = None
    prompt: str = "default"
    chat: bool = True
    length: Count = 96
    digits: Count = 3
    batch: Count = field(default=16, metadata={"spec": False})

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def spec(self) -> dict[str, Any]:
        """With a hash of the language model."""
        try:
            about = self.llm.about()
        except InputError:
            about = {"class": type(self.model).__name__}  # what cannot be asked is refused later
        return {**super().spec(), "model": about}

    @cached_property
    def llm(self) -> LanguageModel:
        """The language model, loaded if it is a path."""
        return LanguageModel.of(self.model, self.tokenizer)

    @cached_property
    def key(self) -> str:
        """A hash of all settings and of the language model."""
        return fingerprint.of_json(self.spec())

    @cached_property
    def template(self) -> Template:
        """The wording of the prompt; raises if it lacks a part or has an unknown one."""
        found = Template(PROMPTS.get(self.prompt, self.prompt))
        named = found.get_identifiers() if found.is_valid() else []
        unknown = [name for name in named if name not in FIELDS]
        if not {"text", "change"} <= set(named) or unknown:
            what = f"the unknown part ${unknown[0]}" if unknown else "no valid $text and $change"
            raise SpecError(
                f"The prompt of {self.name} has {what}: give {', '.join(map(repr, PROMPTS))}, or a text with $text, $change and any of "
                f"{', '.join('$' + one for one in FIELDS if one not in ('text', 'change'))}."
            )
        return found

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the language model can be asked about every text, and the classifier gives probabilities."""
        if self.soft and self.mode != "rank":
            raise SpecError(f"{self.name} has log-likelihoods only if it ranks words: pass mode='rank', or leave out soft=True.")
        if context.outputs is Outputs.RAW:
            raise InputError(f"{self.name} needs the probability of a class, and these outputs are raw: explain a classifier.")
        texts = texts_of(self.name, context)
        if context.structure and not all(map(texts.knows, context.structure[0])):
            raise InputError(
                f"{self.name} asks about texts as they were written, and a symmetry such as token_permutations moves their words: "
                "explain the texts themselves, without symmetrised."
            )
        titles = self.titles(model, 2)
        about = []
        for row in range(texts.size()):
            text, words = texts.spelt(row)
            if not words:
                raise InputError(f"Text {row} has no words that {self.name} could rank: leave it out.")
            about.append((self.asked(text, titles[0], titles, 0.5, 0.25), distinct(words)))
        for row, asked in enumerate(self.questions(about)):
            longest = len(asked) if self.mode == "rank" else len(asked.prompt) + self.length
            if self.llm.limit is not None and longest > self.llm.limit:
                raise InputError(
                    f"The prompt about text {row} has {longest} tokens with its answer, and the language model takes {self.llm.limit}: "
                    "shorten the text, or take a model with a longer context."
                )
        return ()

    def inquiry(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Inquiry:
        """The prompts about these texts."""
        texts = texts_of(self.name, context)
        with torch.no_grad():
            scores = in_batches(lambda x, _, structure: model(x, *structure), inputs, targets, context.batch, context.structure)
        after = probability(scores, targets, context.outputs)
        before = after if context.original is None else probability(context.original, targets, context.outputs)
        titles = self.titles(model, scores.shape[1])
        gates = inputs.detach().cpu()
        rows = [row_in_whole(context.inputs, sample) for sample in context.draws.sample.tolist()]
        ids = context.structure[0].cpu()
        spelt = [kept(*texts.spelt(texts.row_of(own, row)), gate) for own, row, gate in zip(ids, rows, gates, strict=True)]
        asked = [
            self.asked(text, titles[min(target, len(titles) - 1)], titles, p0, p1)
            for (text, _), target, p0, p1 in zip(spelt, targets.tolist(), before, after, strict=True)
        ]
        return Inquiry(asked, [words for _, words in spelt], inputs.detach(), context.answers)

    def settle(self, inquiries: Sequence[Inquiry]) -> list[Tensor]:
        """Marks or log-likelihoods (N, U) on the gates of each inquiry; NaN in rows without a valid answer."""
        prompts = [prompt for one in inquiries for prompt in one.prompts]
        words = [own for one in inquiries for own in one.words]
        found = self.answers(prompts, list(map(distinct, words)), inquiries[0].store)
        each = iter(zip(found, words, strict=True))
        maps = [[self.on_gates(*next(each), one.gates.shape[1]) for _ in one.prompts] for one in inquiries]
        return [torch.tensor(own, dtype=one.gates.dtype, device=one.gates.device) for own, one in zip(maps, inquiries, strict=True)]

    def titles(self, model: nn.Module, count: int) -> list[str]:
        """The names of the classes; of a single output, "no" and "yes"."""
        if self.classes is not None:
            if len(self.classes) < count:
                raise InputError(f"{self.name} has {len(self.classes)} names of classes, and the model has {count}: name every class.")
            return list(self.classes)
        return config_classes(model) or (["yes"] if count == 1 else [str(number) for number in range(count)])

    def asked(self, text: str, label: str, titles: Sequence[str], p0: float, p1: float) -> str:
        """The prompt about one text."""
        shown = {"p0": f"{p0:.{self.digits}f}", "p1": f"{p1:.{self.digits}f}", "change": change(p0, p1, self.digits)}
        return self.template.substitute(shown, task=self.task, classes=", ".join(titles), text=text, label=label, k=self.k, form=FORM)

    def questions(self, about: Sequence[tuple[str, Sequence[str]]]) -> list[Question]:
        """The tokens of prompts, and of the words that are ranked after each."""
        ranks = self.mode == "rank"
        prompts = self.llm.prompts([prompt for prompt, _ in about], self.chat, START if ranks else "")
        spelt = [[one or self.llm.unknown for one in self.llm.tokens(words)] if ranks else [] for _, words in about]
        return [Question(prompt, tuple(words)) for prompt, words in zip(prompts, spelt, strict=True)]

    def answers(self, prompts: Sequence[str], words: Sequence[Sequence[str]], store: Answers | None) -> list[Mapping[str, Any]]:
        """The answer to every prompt: from the store, or asked now, equal prompts once."""
        settings = [self.llm.fingerprint, self.mode, self.length if self.mode == "generate" else START]
        about = [Asked(*one) for one in zip(prompts, words, self.questions(list(zip(prompts, words, strict=True))), strict=True)]
        keys = [fingerprint.of_json([settings, *one.question, list(one.words)]) for one in about]
        known = {} if store is None else dict(store.get(list(dict.fromkeys(keys)), self.key))
        new: dict[str, Asked] = {}
        for key, one in zip(keys, about, strict=True):
            if key not in known:
                new.setdefault(key, one)  # of prompts with the same tokens the first is kept, as if they were asked one by one
        ordered = sorted(new.items(), key=lambda item: len(item[1].prompt))  # similar lengths go together
        for first in range(0, len(ordered), KEPT * self.batch):
            made = self.ask(dict(ordered[first : first + KEPT * self.batch]))
            if store is not None:
                store.put({"explainer": self.key, "mode": self.mode, "model": self.llm.fingerprint}, made)
            known |= made
        return [known[key] for key in keys]

    def ask(self, about: Mapping[str, Asked]) -> dict[str, dict[str, Any]]:
        """What the language model answers, as plain data by key."""
        questions = [one.question for one in about.values()]
        if self.mode == "rank":
            each = self.llm.likelihoods(questions, self.batch)
            return {key: {"prompt": one.prompt, "likelihoods": found} for (key, one), found in zip(about.items(), each, strict=True)}
        written = self.llm.answers([one.prompt for one in questions], self.length, self.batch)
        made = {}
        for (key, one), text in zip(about.items(), written, strict=True):
            read = parse(text, one.words)
            made[key] = {"prompt": one.prompt, "text": text, "words": list(read.words), "problem": read.problem}
        return made

    def on_gates(self, answer: Mapping[str, Any], words: Sequence[Word], count: int) -> list[float]:
        """One number per gate (U,)."""
        if answer.get("problem"):
            return [float("nan")] * count
        spelt = distinct(words)
        if self.mode == "generate":
            chosen = list(answer["words"])[: self.k]
            return marked([word for word in words if word.text.lower() in chosen], count)
        values = dict(zip(spelt, (round(value, ROUNDED) for value in answer["likelihoods"]), strict=True))
        if self.soft:
            low = min(values.values(), default=0.0)
            found = [low] * count
            for word in words:
                for unit in word.units:
                    found[unit] = max(found[unit], values[word.text])
            return found
        best = sorted(spelt, key=lambda word: -values[word])[: self.k]
        return marked([word for word in words if word.text in best], count)


def texts_of(name: str, context: Context) -> TextInputs:
    """The texts of the audit; raises if the inputs are something else."""
    found = whole(context.inputs)
    if not isinstance(found, TextInputs):
        what = "inputs that are no texts" if found is None else type(found).__name__
        raise InputError(f"{name} explains texts, not {what}: pass inputs=TextInputs(texts, tokenizer).")
    return found


def kept(text: str, words: Sequence[Word], gates: Tensor) -> tuple[str, list[Word]]:
    """A text without the words whose gates are all 0, and the words that are left."""
    open_gates = gates.tolist()
    gone = [word for word in words if not any(open_gates[unit] for unit in word.units)]
    for word in reversed(gone):
        text = text[: word.start] + text[word.stop :]
    return " ".join(text.split()) if gone else text, [word for word in words if word not in gone]


def distinct(words: Sequence[Word]) -> list[str]:
    """Every word once, in the order of the text."""
    return list(dict.fromkeys(word.text for word in words))


def marked(words: Sequence[Word], count: int) -> list[float]:
    """1 for the units of some words, (U,)."""
    units = {unit for word in words for unit in word.units}
    return [float(unit in units) for unit in range(count)]


def probability(scores: Tensor, targets: Tensor, outputs: Outputs) -> list[float]:
    """The probability of each row's target; a single output is the probability of "yes"."""
    found = outputs.read(scores.detach())
    index = targets + 1 if scores.shape[1] == 1 and found.shape[1] == 2 else targets
    chosen: list[float] = found.gather(1, index.to(found.device)[:, None])[:, 0].double().tolist()
    return chosen


def change(p0: float, p1: float, digits: int) -> str:
    """How the confidence changed, in words.

    >>> change(0.97, 0.6, 2), change(0.2, 0.85, 2), change(0.5, 0.5, 2)
    ('it is less confident by 0.37', 'it is more confident by 0.65', 'it is as confident as before')
    """
    difference = f"{abs(p1 - p0):.{digits}f}"
    if float(difference) == 0:
        return "it is as confident as before"
    return f"it is {'more' if p1 > p0 else 'less'} confident by {difference}"


def parse(text: str, words: Sequence[str]) -> Answer:
    """The ranked words of a written answer, in lower case.

    The first JSON value in the text counts: a list of words, {"words": [...]}, or words by their ranks, {"1": "fine"}.

    >>> parse('Sure: {"words": ["fine", "film"]}', ["a", "Fine", "film"]).words
    ('fine', 'film')
    >>> [parse(answer, ["fine"]).problem for answer in ('{"words": ["fine"', 'The "first word".', '["great"]')]
    ['unparsable', 'echo', 'foreign']
    """
    listed = ranked_words(text)
    if not listed:
        return Answer((), "echo" if any(one in text.lower() for one in PLACES) else "unparsable")
    plain = [one.strip().lower() for one in listed]
    if any(one in PLACES for one in plain):
        return Answer((), "echo")
    known = {word.lower() for word in words}
    spelt = [one.strip(AROUND) for one in plain]
    return Answer(tuple(dict.fromkeys(spelt))) if known.issuperset(spelt) else Answer((), "foreign")


def ranked_words(text: str) -> list[str] | None:
    """The words of the first JSON value in a text; None if there is none of a known form."""
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("words"), list):
        value = value["words"]
    elif isinstance(value, dict) and all(key.isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None
