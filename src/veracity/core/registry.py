"""Names for components: what the command line lists, what an audit file may say, what plugins add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from veracity.core.errors import SpecError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """One kind of component by name; third parties add theirs through the entry point `veracity.<plural>`."""

    def __init__(self, kind: str, plural: str, home: str) -> None:
        self.kind, self.plural, self.home = kind, plural, home
        self._items: dict[str, Any] = {}
        self._complete = False

    def add(self, item: Any) -> Any:
        """Register a class (or an object) under its `name`; works as a decorator."""
        self._items[item.name] = item
        return item

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._items))

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __getitem__(self, name: str) -> Any:
        self._load()
        if name not in self._items:
            raise unknown(self.kind, name, self._items, self.plural)
        return self._items[name]

    def build(self, spec: str | Mapping[str, Any] | T) -> T:
        """A component from its name, from {name, settings}, or the component itself."""
        if isinstance(spec, str):
            spec = {"name": spec}
        if not isinstance(spec, Mapping):
            return spec
        settings = {key: value for key, value in spec.items() if key != "code"}
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(f"Every {self.kind} needs a name, got {dict(spec)!r}.")
        item = self[name]
        if not isinstance(item, type):
            chosen: T = item.using(**settings) if settings else item
            return chosen
        check_settings(item, settings, f"{self.kind} '{name}'")
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
        built: T = item(**values)
        return built

    def _load(self) -> None:
        if self._complete:
            return
        self._complete = True
        import_module(self.home)
        for point in entry_points(group=f"veracity.{self.plural}"):
            self.add(point.load())


def check_settings(item: type, settings: Mapping[str, Any], what: str) -> None:
    """Every setting must be a field of the component; a typo gets a suggestion."""
    known = [field.name for field in fields(item) if field.init] if is_dataclass(item) else []
    for key in settings:
        if key not in known:
            raise unknown(f"setting of {what}", key, known or ["(it takes none)"])
    hints = get_type_hints(item)
    for key, value in settings.items():
        kinds = plain_kinds(hints.get(key))
        if kinds and not (isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise SpecError(f"The setting '{key}' of {what} must be {wanted}, not {value!r}.")


def plain_kinds(hint: Any) -> tuple[type, ...]:
    """The plain types that a setting may have; none if the hint holds anything that a file cannot write.

    >>> plain_kinds(float), plain_kinds(int | None), plain_kinds(object)
    ((<class 'float'>, <class 'int'>), (<class 'int'>, <class 'NoneType'>), ())
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(kind in (int, float, str, bool, NoneType) for kind in kinds):
        return ()
    return (*kinds, int) if float in kinds and int not in kinds else tuple(kinds)


EXPLAINERS: Registry[Any] = Registry("explainer", "explainers", "veracity.explain")
GROUPS: Registry[Any] = Registry("group", "groups", "veracity.perturb")
SPACES: Registry[Any] = Registry("space", "spaces", "veracity.perturb")
"""Spaces without algebra, beside the groups."""
MEASURES: Registry[Any] = Registry("measure", "measures", "veracity.measure")
SCORES: Registry[Any] = Registry("score", "scores", "veracity.interpret")
WALKS: Registry[Any] = Registry("walk", "walks", "veracity.walk")
KERNELS: Registry[Any] = Registry("kernel", "kernels", "veracity.walk")
TARGETS: Registry[Any] = Registry("target", "targets", "veracity.core.targets")
ORBITS: Registry[Any] = Registry("orbit", "orbits", "veracity.perturb")
TASKS: Registry[Any] = Registry("task", "tasks", "veracity.interpret")
RECIPES: Registry[Any] = Registry("recipe", "recipes", "veracity.recipes")
TRAINERS: Registry[Any] = Registry("trainer", "trainers", "veracity.zoo")
