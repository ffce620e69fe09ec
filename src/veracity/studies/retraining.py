"""Models that are trained again on other labels, other inputs or a part of the examples, stored in a folder, and what explains them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, VeracityError, warn
from veracity.core.explainers import Context, Explainer, Need, learner
from veracity.core.inputs import Inputs, SelectedSamples, TensorInputs, is_streamed
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws, seeded
from veracity.core.scores import Array
from veracity.core.targets import Outputs
from veracity.core.training import Checkpoint, Training
from veracity.engine.admission import one_line
from veracity.engine.crosstrain.folds import MODELS, outputs_of, placed, rebuild_model, save_model
from veracity.engine.crosstrain.training import at_chance, check_outputs, takes
from veracity.engine.resolve.explainers import prepare_explainer
from veracity.engine.store import RunFolder
from veracity.explain.examples.layer_gradients import log_scores
from veracity.perturb import FullRandomisation
from veracity.perturb.weights.copies import ScratchModel

RETRAINING = 1
"""Raise it whenever the same settings train other models, or give other attributions, than before."""
ATTRIBUTIONS, STATES = "attributions", "checkpoints"
RATE = "rate"
ROWS = 256


@dataclass(frozen=True)
class World:
    """What a model is trained on, which samples are explained, and for which class each of them."""

    examples: Inputs
    labels: Tensor
    inputs: Inputs
    targets: Tensor

    @cached_property
    def key(self) -> str:
        """A hash of what the model is trained on."""
        return fingerprint.of_json([self.examples.fingerprint(), fingerprint.of_tensor(self.labels)])

    @cached_property
    def explained(self) -> str:
        """A hash of what is explained."""
        return fingerprint.of_json([self.inputs.fingerprint(), fingerprint.of_tensor(self.targets)])


@dataclass(frozen=True)
class Trained:
    """A model that was trained on all examples, and checkpoints of its training in order."""

    module: nn.Module
    checkpoints: tuple[Checkpoint, ...]
    key: str


@dataclass
class Retraining:
    """A learning algorithm `fit` whose models are trained when they are asked for, and kept in the folder.

    A killed run starts again with what the folder holds. A stored model is loaded into the network of the trainer, or of `build`, or of
    a model that was trained in the same run.
    """

    fit: Any
    store: RunFolder
    seed: int
    build: Any = None
    device: str | None = None
    outputs: Outputs = Outputs.LOGITS
    kept: int = 5
    networks: dict[int, nn.Module] = field(default_factory=dict)
    known: dict[str, Array] = field(default_factory=dict)
    models: dict[str, Trained] = field(default_factory=dict)

    def whole(self, world: World, checkpoints: bool) -> Trained:
        """The model of all examples, with the checkpoints of its training if they are wanted."""
        key = self.key(world, None, self.seed)
        found = self.models.get(key)
        if found is not None and (found.checkpoints or not checkpoints):
            return found
        states = self.states(key) if checkpoints else ()
        if states is None:
            module, states = self.train(world, None, self.seed, key, checkpoints=True)
        else:
            module = self.model(world, None, self.seed)
        self.models[key] = Trained(placed(module, self.device), states, key)
        return self.models[key]

    def model(self, world: World, seen: Tensor | None, seed: int) -> nn.Module:
        """The stored or newly trained model of some examples, all of them by default."""
        key = self.key(world, seen, seed)
        stored = self.store.recovered(MODELS, key)
        network = None if stored is None else self.network(world)
        found = None if stored is None or network is None else rebuild_model(stored, network, world.examples)
        return self.train(world, seen, seed, key)[0] if found is None else found

    def key(self, world: World, seen: Tensor | None, seed: int) -> str:
        """A hash of everything that a model depends on."""
        part = None if seen is None else fingerprint.of_tensor(seen)
        return fingerprint.of_json([RETRAINING, self.about_fit, world.key, part, seed])

    @cached_property
    def about_fit(self) -> Any:
        """The learning algorithm as plain data."""
        return encode_setting(self.fit)

    def train(
        self, world: World, seen: Tensor | None, seed: int, key: str, checkpoints: bool = False
    ) -> tuple[nn.Module, tuple[Checkpoint, ...]]:
        """Train a model, check it and store it."""
        index = torch.arange(world.examples.size()) if seen is None else seen
        states: list[Checkpoint] = []

        def keep(network: nn.Module, rate: float) -> None:
            states.append(Checkpoint({name: value.detach().cpu().clone() for name, value in network.state_dict().items()}, float(rate)))

        extra = {"checkpoint": keep} if checkpoints and takes(self.fit, "checkpoint") else {}
        plain = isinstance(world.examples, TensorInputs) or is_streamed(world.examples)
        part = world.examples.take(index).values if plain else SelectedSamples(world.examples, index)
        try:
            with seeded(seed), torch.enable_grad():
                module = self.fit(part, world.labels[index], seed, **extra)
        except VeracityError:
            raise
        except Exception as error:
            raise InputError(f"fit failed on {len(index)} training examples with {one_line(error)}") from error
        if not isinstance(module, nn.Module):
            raise InputError(f"fit must return a torch.nn.Module, not {type(module).__name__}.")
        module = module.eval()
        check_model(module, world, index)
        self.networks.setdefault(classes_of(world), module)
        save_model(self.store, key, module, world.examples, {})
        if not checkpoints:
            return module, ()
        if not states:
            warn(
                "fit gives no checkpoints of its training, so explainers by checkpoints see the trained weights alone: let fit take "
                "checkpoint=..., a function of (network, learning rate) to call after each epoch."
            )
            keep(module, 1.0)
        count = min(self.kept, len(states))
        chosen = tuple(states[(number + 1) * len(states) // count - 1] for number in range(count))
        tensors = {f"{number}.{name}": value for number, one in enumerate(chosen) for name, value in one.state.items()}
        rates = torch.tensor([one.rate for one in chosen], dtype=torch.float64)
        self.store.write_tensors(STATES, self.states_key(key), {**tensors, RATE: rates})
        return module, chosen

    def states_key(self, key: str) -> str:
        """The key of a model's checkpoints."""
        return fingerprint.of_json([key, self.kept])

    def states(self, key: str) -> tuple[Checkpoint, ...] | None:
        """The stored checkpoints of a model, None if there are none."""
        stored = self.store.recovered(STATES, self.states_key(key))
        if stored is None:
            return None
        found = []
        for number, rate in enumerate(stored.pop(RATE).tolist()):
            start = f"{number}."
            found.append(Checkpoint({name.removeprefix(start): value for name, value in stored.items() if name.startswith(start)}, rate))
        return tuple(found)

    def network(self, world: World) -> nn.Module | None:
        """A network to load stored weights into; None if nobody can make it."""
        classes = classes_of(world)
        untrained: Any = getattr(self.fit, "untrained", None)
        if classes not in self.networks and (self.build is not None or untrained is not None):
            with seeded(self.seed):
                if untrained is not None:
                    first = torch.stack([(world.labels == one).nonzero()[0, 0] for one in range(classes)])
                    plain = isinstance(world.examples, TensorInputs) or is_streamed(world.examples)
                    part = world.examples.take(first).values if plain else SelectedSamples(world.examples, first)
                    self.networks[classes] = untrained(part, world.labels[first], self.seed)
                else:
                    self.networks[classes] = self.build()
        return self.networks.get(classes)

    def scores(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Scores (N, K) on the CPU whose softmax is the model's probabilities."""
        parts = [outputs_of(module, inputs, part) for part in torch.arange(inputs.size()).split(ROWS)]
        return log_scores(torch.cat(parts), self.outputs)

    def randomised(self, trained: Trained) -> Trained:
        """The model with random weights in all layers, which are its only checkpoint."""
        copies = ScratchModel(trained.module, self.seed)
        space = FullRandomisation().of(trained.module)
        module = copies.become(copies.weights(space, [(0, 0)]), 0).eval()
        state = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
        return Trained(module, (Checkpoint(state, 1.0),), f"{trained.key} randomised")

    def attributions(self, world: World, trained: Trained, explainer: Explainer) -> Array:
        """Attributions (N, n) in float64 of the explained samples to the examples."""
        return self.explained(world, trained, explainer, "whole", lambda rows, _index: rows)

    def self_influence(self, world: World, trained: Trained, explainer: Explainer) -> Array:
        """The attribution (n,) of each example, explained for its label, to itself."""
        own = replace(world, inputs=world.examples, targets=world.labels)
        return self.explained(own, trained, explainer, "self", lambda rows, index: rows.gather(1, index[:, None]).squeeze(1))

    def explained(self, world: World, trained: Trained, explainer: Explainer, what: str, choose: Any) -> Array:
        """What `choose` keeps of the attributions (rows, n) of each batch; stored under a key."""
        about = [RETRAINING, what, trained.key, self.outputs.value, self.kept, self.seed, world.explained, encode_setting(explainer)]
        key = fingerprint.of_json(about)
        if key not in self.known:
            stored = self.store.recovered(ATTRIBUTIONS, key)
            if stored is None:
                stored = {"values": self.explain(world, trained, explainer, choose)}
                self.store.write_tensors(ATTRIBUTIONS, key, stored)
            self.known[key] = stored["values"].double().numpy()
        return self.known[key]

    def explain(self, world: World, trained: Trained, explainer: Explainer, choose: Any) -> Tensor:
        """Let an explainer learn about a model, and explain all samples of a world."""
        module, device = trained.module, device_of(trained.module)
        view = world.inputs.adapt(module)
        training = Training(world.examples, world.labels, checkpoints=trained.checkpoints).seen_by(view, module)
        index = torch.arange(world.inputs.size())
        context = Context(Draws.of(self.seed, index).to(device), ROWS, training=training, outputs=self.outputs, inputs=world.inputs)
        first = world.inputs.take(index[:1]).to(device)
        alone = replace(context, draws=context.draws[:1], structure=first.structure)
        with evaluating(module), seeded(self.seed):
            ready = prepare_explainer(world.inputs, explainer, training)
            ready = ready.specialise(view, first.values, world.targets[:1].to(device), alone)
            ready.check(view, first.values, world.targets[:1].to(device), alone)
            pupil = learner(ready)
            learnt: Mapping[str, Tensor] = {} if pupil is None or pupil.control else pupil.lesson.learn(view, context)
            parts: list[Tensor] = []
            for part in index.split(ROWS):
                signals = world.inputs.take(part).to(device)
                here = replace(context, draws=context.draws[part.to(device)], structure=signals.structure, learnt=learnt)
                rows = ready.explain(view, signals.values, world.targets[part].to(device), here).detach().cpu().double()
                if rows.shape != (len(part), world.examples.size()):
                    raise InputError(
                        f"The explainer '{explainer.name}' gives shape {tuple(rows.shape)} for {len(part)} samples and "
                        f"{world.examples.size()} training examples: it must give one number per example."
                    )
                parts.append(choose(rows, part))
        return torch.cat(parts)


def needs_checkpoints(explainers: Sequence[Explainer]) -> bool:
    """Whether an explainer reads checkpoints of the training."""
    return any(Need.CHECKPOINTS in one.needs for one in explainers)


def classes_of(world: World) -> int:
    """The number of classes."""
    return int(world.labels.max()) + 1


def check_model(module: nn.Module, world: World, seen: Tensor) -> None:
    """Raise on a model that does not classify, is not finite, or learnt nothing."""
    few = seen[torch.linspace(0, len(seen) - 1, min(512, len(seen))).long()]
    what = "What fit returned"
    outputs = outputs_of(module, world.examples, few)
    check_outputs(what, outputs, classes_of(world))
    if not bool(outputs.isfinite().all()):
        raise InputError(f"{what} gives NaN or infinity: the training diverged.")
    right = int((outputs.argmax(1) == world.labels[few]).sum())
    if at_chance(outputs.argmax(1), world.labels[few]):
        raise InputError(
            f"{what} is right on {right} of {len(few)} examples that it was trained on, no better than chance: it is untrained."
        )
