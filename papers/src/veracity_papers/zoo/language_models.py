"""Small causal language models with public weights: three over the letters of French town names, and one that tells stories.

Their weights are not shipped; they are read from the data folder. Town names: github.com/alxndrTL/villes, one layer, learnt positions,
with matching sparse autoencoders of the layer's output. Stories: Karpathy's stories260K (github.com/karpathy/llama2.c), five layers,
rotary positions. Both have root-mean-square norms, gated feed-forward parts, no biases, and tied embeddings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.randomness import Draws
from veracity.inputs import TextInputs
from veracity_papers.data import files
from veracity_papers.zoo.storage import state

VILLES = {"d16": ("d16_h1", "d16_e4", 16, 1), "d64": ("d64_h8", "d64_e4", 64, 8), "d128": ("d128_h4", "d128_e2", 128, 4)}
"""Each model of town names: its file, that of its autoencoder, its width and its heads."""
VILLES_ORIGIN = "github.com/alxndrTL/villes (transformer and sae files of its history, and villes.txt)"
STORIES_ORIGIN = "huggingface.co/karpathy/tinyllamas (stories260K/stories260K.bin and tok512.bin)"
VILLES_LAYER = "core.layers.0"


@dataclass(frozen=True)
class Shape:
    """The sizes of a language model. `rotary` positions turn queries and keys; others are learnt and added to the input."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    longest: int
    hidden: int
    shared: int = 1
    rotary: bool = False

    @property
    def max_position_embeddings(self) -> int:
        """The longest text, by the name that it has in `transformers`."""
        return self.longest


Cache = dict[int, tuple[Tensor, Tensor]]
"""Keys and values of the tokens before, by layer."""


class Attention(nn.Module):
    """Causal attention with `shared` query heads for each head of keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, narrow = shape, shape.width // shape.shared
        self.query_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.key_proj = nn.Linear(shape.width, narrow, bias=False)
        self.value_proj = nn.Linear(shape.width, narrow, bias=False)
        self.c_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, number: int, start: int = 0, cache: Cache | None = None) -> Tensor:
        """What each token (N, T, d) reads from those before it; `start` tokens are in the cache."""
        size = self.shape.width // self.shape.heads
        q, k, v = (part(x).unflatten(-1, (-1, size)).transpose(1, 2) for part in (self.query_proj, self.key_proj, self.value_proj))
        if self.shape.rotary:
            q, k = rotate(q, start), rotate(k, start)
        if cache is not None:
            if number in cache:
                k, v = (torch.cat((old, new), dim=2) for old, new in zip(cache[number], (k, v), strict=True))
            cache[number] = k, v
        k, v = (part.repeat_interleave(self.shape.shared, dim=1) for part in (k, v))
        read = functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0 and x.shape[1] > 1)
        out: Tensor = self.c_proj(read.transpose(1, 2).flatten(2))
        return out


def rotate(x: Tensor, start: int) -> Tensor:
    """Neighbouring pairs of (N, heads, T, size) turned by their position, as in llama2.c."""
    size = x.shape[-1]
    speed = 10000.0 ** (-torch.arange(0, size, 2, device=x.device, dtype=torch.float32) / size)
    turn = torch.arange(start, start + x.shape[2], device=x.device, dtype=torch.float32)[:, None] * speed
    cos, sin = turn.cos().to(x), turn.sin().to(x)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class FeedForward(nn.Module):
    """W2 (silu(W1 x) * W3 x)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc_1, self.fc_3 = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.fc_2 = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, d) to (N, T, d)."""
        out: Tensor = self.fc_2(functional.silu(self.fc_1(x)) * self.fc_3(x))
        return out


class Layer(nn.Module):
    """Attention and a feed-forward part, each on the normalised stream and added to it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = (nn.RMSNorm(shape.width, eps=1e-5) for _ in range(2))
        self.sa, self.mlp = Attention(shape), FeedForward(shape)

    def forward(self, x: Tensor, number: int, start: int = 0, cache: Cache | None = None) -> Tensor:
        """The residual stream (N, T, d) after this layer."""
        x = x + self.sa(self.attention_norm(x), number, start, cache)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Core(nn.Module):
    """The layers, with learnt positions in front if there are any."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        if not shape.rotary:
            self.PE = nn.Embedding(shape.longest, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))


class SmallLM(nn.Module):
    """A causal language model: token numbers (N, T) to the scores of the next token (N, T, V). Padding comes after the text."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.config = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.core = Core(shape)
        self.out_norm = nn.RMSNorm(shape.width, eps=1e-5)

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embedding."""
        return self.embedding

    def forward(self, input_ids: Tensor, start: int = 0, cache: Cache | None = None) -> Tensor:
        """Scores (N, T, V) after every token."""
        x = self.embedding(input_ids)
        if not self.config.rotary:
            x = x + self.core.PE(torch.arange(start, start + x.shape[1], device=x.device))
        for number, layer in enumerate(self.core.layers):
            x = layer(x, number, start, cache)
        return functional.linear(self.out_norm(x), self.embedding.weight)


@dataclass(frozen=True, eq=False)
class PieceTokenizer:
    """A tokenizer over pieces of text, as TextInputs uses them: letters, or pieces that merge by score; special ones come first."""

    pieces: tuple[str, ...]
    special: int
    scores: tuple[float, ...] = ()
    start: int = 1
    pad_token_id: int = 0
    mask_token_id: None = None
    unk_token_id: None = None
    prefix: str = ""
    numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {piece: number for number, piece in enumerate(self.pieces)})

    @property
    def all_special_ids(self) -> list[int]:
        """The numbers of special tokens."""
        return list(range(self.special))

    def encode(self, text: str) -> list[int]:
        """The numbers of the start token and of the pieces of a text: single letters, of which the best pair merges first."""
        found = [self.numbers[letter] for letter in self.prefix + text if letter in self.numbers]
        while self.scores:
            merged = [self.numbers.get(self.pieces[a] + self.pieces[b]) for a, b in pairwise(found)]
            known = [(self.scores[number], -place, number) for place, number in enumerate(merged) if number is not None]
            if not known:
                break
            _, place, number = max(known)
            found[-place : -place + 2] = [number]
        return [self.start, *found]

    def __call__(self, texts: Sequence[str], length: int | None = None, **_others: Any) -> dict[str, Tensor]:
        """The tokens (N, T) of texts, cut to a length, with a mask of the padding."""
        rows = [self.encode(text)[:length] for text in texts]
        ids = torch.full((len(rows), max(map(len, rows))), self.pad_token_id)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
        mask = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        return {"input_ids": ids, "attention_mask": mask.long()}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of some tokens."""
        return "".join(self.pieces[int(one)] for one in ids if not skip_special_tokens or int(one) >= self.special)


@dataclass(frozen=True)
class CausalLM:
    """A causal language model with its tokenizer and the names of its layers."""

    name: str
    model: Any
    tokenizer: Any
    layers: tuple[str, ...]


def town_names() -> list[str]:
    """The 36,567 town names of at least three letters."""
    raw = files.find("weights/villes_lm_sae/villes.txt", VILLES_ORIGIN).read_text(encoding="utf-8")
    return [name for name in raw.replace("\n", ",").split(",") if len(name) > 2]


def load_villes(name: str) -> CausalLM:
    """The model of town names of width "d16", "d64" or "d128"."""
    file, _, width, heads = known(name)
    letters = sorted(set("".join(town_names())))
    tokenizer = PieceTokenizer(("<pad>", "<SOS>", "<EOS>", *letters), special=3)
    path = files.find(f"weights/villes_lm_sae/transformer_{file}.pth", VILLES_ORIGIN)
    state = torch.load(path, map_location="cpu", weights_only=True)
    shape = Shape(len(tokenizer.pieces), width, 1, heads, len(state["core.PE.weight"]), 4 * width)
    model = SmallLM(shape)
    model.load_state_dict({key: value for key, value in state.items() if key != "lm_head.weight"})  # tied to the embedding
    return CausalLM(f"villes-{name}", model.eval(), tokenizer, (VILLES_LAYER,))


def villes_sae(name: str) -> dict[str, Tensor]:
    """The tensors of the autoencoder of a model of town names, trained by its authors on the output of its only layer."""
    path = files.find(f"weights/villes_lm_sae/sae_{known(name)[1]}.pth", VILLES_ORIGIN)
    found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return found


def known(name: str) -> tuple[str, str, int, int]:
    """The files and sizes of a model of town names."""
    if name not in VILLES:
        raise InputError(f"There is no model of town names '{name}': choose one of {', '.join(VILLES)}.")
    return VILLES[name]


def load_stories() -> CausalLM:
    """stories260K: five layers of width 64, 512 tokens."""
    data = files.find("weights/tinystories260k/stories260K.bin", STORIES_ORIGIN).read_bytes()
    width, hidden, layers, heads, few, vocabulary, longest = struct.unpack("7i", data[:28])
    shape = Shape(abs(vocabulary), width, layers, heads, longest, hidden, shared=heads // few, rotary=True)
    rest = torch.from_numpy(np.frombuffer(data, np.float32, offset=28).copy())
    model = SmallLM(shape)
    place = 0
    for parts in stored_order(model):
        for part in parts:
            part.data.copy_(rest[place : place + part.numel()].reshape(part.shape))
            place += part.numel()
    names = tuple(f"core.layers.{number}" for number in range(layers))
    return CausalLM("tinystories260k", model.eval(), story_tokenizer(abs(vocabulary)), names)


def stories_sae(layer: int, width: int) -> dict[str, Tensor]:
    """The tensors of a shipped autoencoder of stories260K, of width 256 or 1024: see train_sae."""
    return state(f"tinystories260k-sae-{width}-{layer}")


def stored_order(model: SmallLM) -> Iterator[list[Tensor]]:
    """The weights in the order of llama2.c's files: kind by kind, each of all layers."""
    layers: Any = model.core.layers
    yield [model.embedding.weight]
    yield [one.attention_norm.weight for one in layers]
    for name in ("query_proj", "key_proj", "value_proj", "c_proj"):
        yield [getattr(one.sa, name).weight for one in layers]
    yield [one.mlp_norm.weight for one in layers]
    for name in ("fc_1", "fc_2", "fc_3"):
        yield [getattr(one.mlp, name).weight for one in layers]
    yield [model.out_norm.weight]


def story_tokenizer(size: int) -> PieceTokenizer:
    """The 512 pieces of stories260K with their scores. The end of a text stands for padding; bytes are never needed."""
    data = files.find("weights/tinystories260k/tok512.bin", STORIES_ORIGIN).read_bytes()
    pieces, scores, place = list[str](), list[float](), 4
    for _ in range(size):
        score, length = struct.unpack("fi", data[place : place + 8])
        piece = data[place + 8 : place + 8 + length].decode("utf-8", "replace")
        pieces.append("\n" if piece == "<0x0A>" else piece)
        scores.append(score)
        place += 8 + length
    return PieceTokenizer(tuple(pieces), special=3, scores=tuple(scores), pad_token_id=2, prefix=" ")


def texts_of(language: CausalLM, ids: Tensor) -> TextInputs:
    """Texts by their tokens (N, T), of which those of the padding come last."""
    mask = ids != language.tokenizer.pad_token_id
    return TextInputs.of_encoding({"input_ids": ids, "attention_mask": mask.long()}, language.tokenizer)


def town_prefixes(language: CausalLM, count: int, seed: int = 0) -> TextInputs:
    """The beginnings of random town names, of two letters up to the whole name; the model says which letter comes next."""
    names = town_names()
    draws = Draws.of(seed, torch.arange(count))
    rows = (draws.uniform(1, stream="town")[:, 0] * len(names)).long()
    share = draws.uniform(1, stream="length")[:, 0].tolist()
    chosen = [names[row] for row in rows.tolist()]
    cut = [name[: 2 + int(part * (len(name) - 1))] for name, part in zip(chosen, share, strict=True)]
    return texts_of(language, language.tokenizer(cut)["input_ids"])


@torch.no_grad()
def told_stories(language: CausalLM, count: int, length: int, seed: int = 0) -> Tensor:
    """Tokens (count, length) of stories that the model tells by itself, drawn from its probabilities with keyed random numbers."""
    ids = torch.full((count, 1), language.tokenizer.start)
    drawn = Draws.of(seed, torch.arange(count)).uniform(length, stream="story")
    cache: Cache = {}
    for place in range(1, length):
        scores = language.model(ids[:, -1:], place - 1, cache)[:, -1].double()
        scores[:, : language.tokenizer.special] = -torch.inf  # a story does not end
        bound = scores.softmax(-1).cumsum(-1)
        ids = torch.cat((ids, (bound < drawn[:, place : place + 1] * bound[:, -1:]).sum(-1, keepdim=True)), dim=1)
    return ids


def story_prefixes(language: CausalLM, count: int, *, least: int = 16, most: int = 48, seed: int = 1) -> TextInputs:
    """The beginnings of told stories, of `least` to `most` tokens."""
    ids = told_stories(language, count, most, seed)
    ends = least + (Draws.of(seed, torch.arange(count)).uniform(1, stream="length") * (most - least + 1)).long()
    return texts_of(language, torch.where(torch.arange(most) < ends, ids, language.tokenizer.pad_token_id))
