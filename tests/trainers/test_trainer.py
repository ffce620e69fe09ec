from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Size, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError, SpecError
from veracity.core.registry import TRAINERS
from veracity.trainers.trainer import BaseTrainer, Trainer, batch_without_single
from veracity.trainers.training import BestEpoch, accuracy, as_inputs, held_out, initialised, mean_loss, random_shift, train


def net(shape: Size, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, classes))


def blobs(count: int = 240, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Three clouds that overlap a little."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    return torch.eye(5)[labels] * 3 + torch.randn(count, 5, generator=generator), labels


def states(model: nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def test_a_trainer_learns_and_reports_every_epoch() -> None:
    inputs, labels = blobs()
    reports: list[tuple[int, int, str]] = []
    model = Trainer(network=net, epochs=6, batch=16, rate=0.02)(inputs, labels, 1, progress=lambda *what: reports.append(what))
    assert not model.training
    assert accuracy(model, *blobs(seed=1)) > 0.85
    assert [(done, total) for done, total, _ in reports] == [(epoch, 6) for epoch in range(1, 7)]
    assert reports[-1][2].startswith("loss 0.")
    assert ", validation 0." in reports[-1][2]


def test_the_seed_decides_all_and_nothing_else_is_touched() -> None:
    inputs, labels = blobs()
    before, copies = torch.get_rng_state(), (inputs.clone(), labels.clone())
    trainer = Trainer(network=net, epochs=3, augment=lambda x, generator: x + torch.randn(x.shape, generator=generator))
    torch.manual_seed(11)
    one = trainer(inputs, labels, 1)
    torch.manual_seed(12)
    two, three = trainer(inputs, labels, 1), trainer(inputs, labels, 2)
    assert all(map(torch.equal, states(one), states(two)))
    assert not all(map(torch.equal, states(one), states(three)))
    torch.set_rng_state(before)
    trainer(inputs, labels, 1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(inputs, copies[0])
    assert torch.equal(labels, copies[1])


def test_untrained_is_where_training_starts() -> None:
    inputs, labels = blobs()
    start = Trainer(network=net).untrained(inputs, labels, 5)
    moved = Trainer(network=net, epochs=1, rate=1e-12, decay=0.0, validation=0.0)(inputs, labels, 5)
    assert not start.training
    for key, value in dict(moved.named_parameters()).items():
        torch.testing.assert_close(value, start.get_parameter(key), atol=1e-9, rtol=0)
    trained = Trainer(network=net, epochs=1)(inputs, labels, 5)
    start.load_state_dict(trained.state_dict())
    assert torch.equal(start(inputs), trained(inputs))


def test_the_best_epochs_weights_are_kept_and_patience_ends_the_training() -> None:
    inputs, _ = blobs()
    noise = torch.randint(3, (240,), generator=torch.Generator().manual_seed(3))  # nothing to learn: the validation loss soon rises
    reports: list[tuple[int, int, str]] = []
    trainer = Trainer(network=net, epochs=40, rate=0.03, patience=3, validation=0.25)
    model = trainer(inputs, noise, 0, progress=lambda *what: reports.append(what))
    assert 20 < len(reports) < 40
    losses = [float(text.rpartition(" ")[2]) for _, _, text in reports]
    kept = mean_loss(model, as_inputs(inputs), noise, held_out(noise, 0.25, 0).nonzero().flatten())
    assert f"{kept:.4f}" == f"{min(losses):.4f}"
    assert kept < losses[-1]


def test_without_patience_or_validation_all_epochs_are_run() -> None:
    inputs, labels = blobs(60)
    reports: list[str] = []
    for settings in ({"patience": None}, {"validation": 0.0}):
        Trainer(network=net, epochs=5, rate=0.3, **settings)(inputs, labels, 0, progress=lambda done, total, text: reports.append(text))
    assert ["validation" in text for text in reports] == [True] * 5 + [False] * 5


def test_best_epoch_counts_from_where_it_is_reported() -> None:
    model = nn.Linear(1, 1)
    best = BestEpoch(model, patience=2, after=2)
    assert [best.update(loss) for loss in (1.0, 2.0, 3.0, 3.0)] == [False, False, False, True]
    first = model.weight.detach().clone()
    nn.init.constant_(model.weight, 9.0)
    best.restore()
    assert torch.equal(model.weight, first)
    never = BestEpoch(model, patience=None)
    assert not any(never.update(1.0) for _ in range(50))


def test_the_validation_part_is_stratified() -> None:
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 3 + [3] * 2 + [4])
    held = held_out(labels[torch.randperm(86, generator=torch.Generator().manual_seed(0))], 0.2, 4)
    shuffled = labels[torch.randperm(86, generator=torch.Generator().manual_seed(0))]
    assert shuffled[held].bincount(minlength=5).tolist() == [10, 6, 1, 1, 0]
    assert not torch.equal(held, held_out(shuffled, 0.2, 5))
    assert not held_out(labels, 0.0, 0).any()


def test_a_network_of_no_arguments_and_one_with_only_defaults() -> None:
    inputs, labels = blobs(30)

    class Own(nn.Module):
        def __init__(self, hidden: int = 4) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.LazyLinear(hidden), nn.Linear(hidden, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layers(x)
            return out

    trainer = Trainer(network=Own, epochs=1)
    assert trainer(inputs, labels, 0)(inputs).shape == (30, 3)
    assert torch.equal(trainer.untrained(inputs, labels, 0)(inputs), trainer.untrained(inputs, labels, 0)(inputs))
    assert Trainer(network=lambda: nn.Linear(5, 3), epochs=1)(inputs, labels, 0)(inputs).shape == (30, 3)


def test_a_batch_never_holds_a_single_sample() -> None:
    inputs, labels = blobs(33)
    assert Trainer(network=net, epochs=1, batch=32, validation=0.0)(inputs, labels, 0)(inputs).shape == (33, 3)
    for count in range(2, 60):
        for batch in range(1, 20):
            size = batch_without_single(count, batch)
            assert size >= batch
            assert count % size != 1 or count < batch


BAD: list[tuple[Callable[[torch.Tensor, torch.Tensor], object], str]] = [
    (lambda x, y: Trainer(network=net)(x, y.float(), 0), "whole numbers"),
    (lambda x, y: Trainer(network=net)(x, y[:5], 0), "whole numbers"),
    (lambda x, y: Trainer(network=net)(x, y - 1, 0), "classes from 0 on"),
    (lambda x, y: Trainer(network=net)(x, y * 2, 0), "class 1"),
    (lambda x, y: Trainer(network=net)(x, y * 0, 0), "at least two classes"),
    (lambda x, y: Trainer(network=lambda: nn.Linear(5, 7))(x, y, 0), r"\(2, 7\).*3 classes"),
    (lambda x, y: Trainer(network=net, rate=1e30, epochs=2, validation=0.0)(x, y, 0), "diverged in epoch 2.*lower the rate, now 1e\\+30"),
]


@pytest.mark.parametrize(("call", "said"), BAD)
def test_bad_data_is_one_sentence(call: Callable[[torch.Tensor, torch.Tensor], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(*blobs(30))


def test_bad_settings_are_one_sentence() -> None:
    inputs, labels = blobs(30)
    for settings, said in (
        ({"epochs": 0}, "epochs"),
        ({"batch": 0}, "batch"),
        ({"patience": 0}, "patience"),
        ({"validation": 1.0}, "validation"),
    ):
        with pytest.raises(SpecError, match=said):
            Trainer(network=net, **settings)(inputs, labels, 0)
    with pytest.raises(SpecError, match="fresh network each time"):
        Trainer(network=nn.Linear(5, 3))(inputs, labels, 0)
    with pytest.raises(SpecError, match=r"must build a torch.nn.Module, not int"):
        Trainer(network=lambda: 3)(inputs, labels, 0)  # type: ignore[arg-type, return-value]


def test_a_missing_gpu_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no GPU to train on"):
        Trainer(network=net, device="cuda")(*blobs(30), 0)


def test_trainers_are_components_that_know_their_network() -> None:
    assert "small_cnn" in TRAINERS
    built = TRAINERS.build({"name": "small_cnn", "epochs": 3, "device": "cpu"})
    assert isinstance(built, BaseTrainer)
    assert built.spec()["epochs"] == 3
    assert "device" not in built.spec()  # where it is trained is not what is trained
    assert encode_setting(Trainer(network=net)) == encode_setting(Trainer(network=net))
    assert encode_setting(Trainer(network=net)) != encode_setting(Trainer(network=lambda: nn.Linear(5, 3)))


def test_rows_and_stop_of_the_loop() -> None:
    inputs, labels = blobs(40)
    seen: list[tuple[int, float]] = []

    def stop(epoch: int, loss: float) -> bool:
        seen.append((epoch, loss))
        return epoch == 1

    rows = torch.arange(20)
    part = train(initialised(lambda: nn.Linear(5, 3), 0), inputs, labels, epochs=5, batch=8, rows=rows, stop=stop)
    assert [epoch for epoch, _ in seen] == [0, 1]
    wrong = labels.clone()
    wrong[20:] = (wrong[20:] + 1) % 3
    same = train(initialised(lambda: nn.Linear(5, 3), 0), inputs, wrong, epochs=5, batch=8, rows=rows, stop=lambda epoch, loss: epoch == 1)
    assert torch.equal(part.weight, same.weight)


def test_small_cnn_learns_digits() -> None:
    bunch = load_digits()
    images = torch.as_tensor(bunch.images, dtype=torch.float32)[:, None] / 16
    labels = torch.as_tensor(bunch.target, dtype=torch.long)
    test = torch.arange(len(labels)) % 3 == 0
    model = TRAINERS.build({"name": "small_cnn", "epochs": 6})(images[~test], labels[~test], 0)
    assert accuracy(model, images[test], labels[test]) > 0.95


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 9, 17)])
def test_small_cnn_takes_images_of_many_sizes(shape: tuple[int, ...]) -> None:
    inputs = torch.rand(8, *shape)
    labels = torch.arange(8) % 4
    trainer = TRAINERS.build({"name": "small_cnn", "width": 2, "epochs": 1, "augment": random_shift(1), "validation": 0.0})
    assert trainer(inputs, labels, 0)(inputs).shape == (8, 4)
    with pytest.raises(InputError, match="needs images"):
        TRAINERS.build("small_cnn").untrained(torch.rand(4, 5), torch.arange(4), 0)
