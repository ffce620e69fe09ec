"""The shards that fill one run folder together: their signs of life, and which of them has claimed which job.

    shards/NAME.json                one shard: which one it is, its process, how far it is, and whether it has ended; written again every
                                    few seconds
    shards/claims/AB/KEY.N          who measures the job KEY; of several N the largest counts, and each is made by exactly one shard

A shard whose last sign of life is too old is dead, and others may take its jobs over. Ages are compared by the clock of the disk or bucket
that all of them write to, since clocks of machines differ. A shard that was only slow does no harm: the same job has the same cells.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache

from veracity.core.errors import InputError, StoreError
from veracity.engine.store.files import Files
from veracity.engine.store.records import parsed, printable

SHARDS = "shards"
CLAIMS = f"{SHARDS}/claims"
MOST = 100_000
"""The most shards of a run."""
BEAT, DEAD = 5.0, 30.0
"""Seconds between two signs of life, and the age at which a shard counts as dead."""


@dataclass(frozen=True)
class Share:
    """Which jobs a shard does: part `number` of `count` parts, or any that is free if both are 0.

    >>> [str(Share.of(text)) for text in ("3/16", "auto")]
    ['3/16', 'auto']
    >>> [sorted(Share(number, 3).mine(["a", "b", "c", "d"])) for number in (1, 2, 3)]
    [['a', 'd'], ['b'], ['c']]
    """

    number: int = 0
    count: int = 0

    @classmethod
    def of(cls, text: object) -> Share:
        """The share that a text names; raises on anything else."""
        if text == "auto":
            return cls()
        number, _, count = str(text).partition("/")
        wanted = "A shard is 'auto', or its number and how many there are, such as 3/16"
        if not (isinstance(text, str) and number.isascii() and count.isascii() and number.isdigit() and count.isdigit()):
            raise InputError(f"{wanted}, not {text!r}.")
        if max(len(number), len(count)) > len(str(MOST)) or int(count) > MOST:
            raise InputError(f"{wanted}; at most {MOST:,} shards can share a run.")
        if not 1 <= int(number) <= int(count):
            raise InputError(f"{wanted}, and numbers run from 1 to {int(count) or 'their count'}: there is no shard {text}.")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}" if self.count else "auto"

    def beside(self, others: Iterable[Sign]) -> str:
        """A note if other shards cut the run into another number of parts; "" if they do not."""
        odd = [one.shard for one in others if self.count and (count := Share.of(one.shard).count) and count != self.count]
        if not odd:
            return ""
        return (
            f"Shard {self} runs beside shard {odd[0]}, which cuts the run into another number of parts: no job is done twice, but some may "
            "be in nobody's part. Run one more with --shard auto (in Python shard='auto') at the end."
        )

    def mine(self, keys: list[str]) -> set[str]:
        """The jobs of this share. Keys are hashes: jobs are dealt out in the order of their keys, so that shares differ by one at most."""
        every = sorted(set(keys))
        return set(every[self.number - 1 :: self.count]) if self.count else set(every)


@dataclass(frozen=True)
class Sign:
    """A sign of life of one shard."""

    shard: str
    process: str
    machine: str
    pid: int
    jobs: int = 0
    done: int = 0
    ended: bool = False

    @property
    def gone(self) -> bool:
        """Whether it has ended, or is known not to run any more because it ran on this machine."""
        return self.ended or (bool(self.machine) and self.machine == this_machine() and not runs(self.pid))


@cache
def this_machine() -> str:
    """What processes that can see each other's numbers have in common; "" where that is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot:
            return f"{boot.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def runs(pid: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # a number too large for any process
        return False
    except OSError:
        return True
    return True


def this_process() -> str:
    """This process in words."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def read_sign(files: Files, name: str) -> Sign | None:
    """The last sign of life of a shard, None if there is none that can be read."""
    kinds = (str, str, str, int, int, int, bool)
    with suppress(FileNotFoundError, NotADirectoryError, ValueError, TypeError, StoreError, InputError):
        found = Sign(**printable(parsed(files.read(f"{SHARDS}/{name}.json", 1 << 16))))
        Share.of(found.shard)
        if all(type(value) is kind for value, kind in zip(asdict(found).values(), kinds, strict=True)):
            return found
    return None


def signs(files: Files) -> dict[str, Sign]:
    """The last sign of life of every shard, by name."""
    names = [name.removesuffix(".json") for name in files.names(SHARDS) if name.endswith(".json")]
    return {name: sign for name in names if (sign := read_sign(files, name)) is not None}


def alive(files: Files, name: str, sign: Sign | None, now: float | None) -> bool:
    """Whether a shard is at work, as far as can be told; `now` is the time by the clock of the folder."""
    if sign is None or sign.gone:
        return False
    written = files.written(f"{SHARDS}/{name}.json")
    return written is not None and (files.now(SHARDS) if now is None else now) - written <= DEAD


def living(files: Files, but: str = "") -> dict[str, Sign]:
    """The shards that are at work, by name."""
    found = {name: sign for name, sign in signs(files).items() if name != but and not sign.gone}
    now = files.now(SHARDS) if found else None
    return {name: sign for name, sign in found.items() if alive(files, name, sign, now)}


def in_words(found: Mapping[str, Sign]) -> str:
    """Shards that are at work, in words; "" if there are none."""
    said = [f"shard {sign.shard} ({sign.process})" for sign in list(found.values())[:3]]
    return ", ".join(said) + (f" and {len(found) - 3} other shards" if len(found) > 3 else "")


def turn_of(claim: str) -> int | None:
    """The number at the end of a claim's name; None if a shard would not write it so.

    >>> [turn_of(name) for name in ("ab1.0", "ab1.12", "ab1.02", "ab1.²", "ab1.x")]
    [0, 12, None, None, None]
    """
    number = claim.rpartition(".")[2]
    known = number.isascii() and number.isdecimal() and (number == "0" or number[0] != "0")
    return int(number) if known else None


@dataclass(frozen=True)
class Member:
    """One shard of a folder. Worker processes of the shard have it too, to claim jobs in its name."""

    root: str
    share: Share
    name: str

    @classmethod
    def new(cls, root: str, share: Share) -> Member:
        """A shard with a name of its own: the same share can be run twice, and both claim what they do."""
        return cls(root, share, f"{str(share).replace('/', '-of-')}-{uuid.uuid4().hex[:8]}")

    def claim(self, key: str) -> bool:
        """Claim a job, unless a shard that is at work has done so."""
        files = Files(self.root)
        made = self.latest(files, key)
        if made is not None and (owner := files.read(made).decode(errors="replace")) != self.name:
            if self.at_work(files, owner):
                return False
        elif made is not None:
            return True
        number = 0 if made is None else int(made.rpartition(".")[2]) + 1
        wanted = f"{CLAIMS}/{key[:2]}/{key}.{number}"
        return files.create(wanted, self.name.encode()) or self.made(files, wanted)

    def made(self, files: Files, claim: str) -> bool:
        """Whether a claim that was there already is this shard's own: a store may lose its answer and refuse the second try."""
        with suppress(FileNotFoundError):
            return files.read(claim) == self.name.encode()
        return False

    @staticmethod
    def latest(files: Files, key: str) -> str | None:
        """The claim that counts for a job."""
        found = [turn for name in files.names(f"{CLAIMS}/{key[:2]}", f"{key}.") if (turn := turn_of(name)) is not None]
        return f"{CLAIMS}/{key[:2]}/{key}.{max(found)}" if found else None

    def at_work(self, files: Files, owner: str) -> bool:
        """Whether the owner of a claim is alive, by the time of this shard's own last sign of life."""
        own = files.written(f"{SHARDS}/{self.name}.json")
        return alive(files, owner, read_sign(files, owner), own)

    def owners(self, keys: Collection[str], known: dict[str, str]) -> dict[str, str]:
        """Who has claimed these jobs, from one listing; `known` keeps the claims that were read, since they never change."""
        files, last = Files(self.root), dict[str, int]()
        for name in files.names_below(CLAIMS):
            key, turn = name.partition("/")[2].rpartition(".")[0], turn_of(name)
            if key in keys and name.startswith(f"{key[:2]}/") and turn is not None:
                last[key] = max(last.get(key, 0), turn)
        claims = {key: f"{key}.{highest}" for key, highest in last.items()}
        for key, claim in claims.items():
            if claim not in known:
                known[claim] = files.read(f"{CLAIMS}/{key[:2]}/{claim}").decode(errors="replace")
        return {key: known[claim] for key, claim in claims.items()}

    @contextmanager
    def beating(self, jobs: int = 0) -> Iterator[Heart]:
        """Give signs of life within this block, and say at its end that the shard has ended."""
        heart = Heart(self, jobs)
        heart.beat()
        thread = threading.Thread(target=heart.go, daemon=True)
        thread.start()
        try:
            yield heart
        finally:
            heart.stop.set()
            thread.join()
            heart.sign = replace(heart.sign, ended=True)
            with suppress(StoreError):
                heart.beat()


class Heart:
    """Writes the signs of life of a shard."""

    def __init__(self, member: Member, jobs: int) -> None:
        self.member, self.files, self.stop = member, Files(member.root), threading.Event()
        self.sign = Sign(str(member.share), this_process(), this_machine(), os.getpid(), jobs)

    def count(self, done: int = 1) -> None:
        """Count finished jobs."""
        self.sign = replace(self.sign, done=self.sign.done + done)

    def beat(self) -> None:
        """Give one sign."""
        self.files.write(f"{SHARDS}/{self.member.name}.json", json.dumps(asdict(self.sign)).encode())

    def go(self) -> None:
        """Give signs until it is told to stop; one that cannot be written is left out."""
        while not self.stop.wait(BEAT):
            with suppress(StoreError):
                self.beat()


def clear(files: Files) -> None:
    """Forget all shards and their claims; only for the holder of the lock, while no shard is at work."""
    for name in files.names_below(CLAIMS):
        files.remove(f"{CLAIMS}/{name}")
    for name in files.names(SHARDS):
        if name.endswith(".json"):
            files.remove(f"{SHARDS}/{name}")
