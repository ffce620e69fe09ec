"""Which explainers of a run are one and the same but for how many transforms they average over, by their specs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Specs = Mapping[str, Mapping[str, Any]]


def specs_of(explainers: Any) -> dict[str, Mapping[str, Any]]:
    """The specs {label: {"name": ...}} of a run's explainers, if it has any."""
    given = explainers if isinstance(explainers, Mapping) else {}
    return {str(label): spec for label, spec in given.items() if isinstance(spec, Mapping)}


def families(specs: Specs) -> dict[str, dict[int | None, str]]:
    """Symmetrised explainers by what is inside them, then by their number of draws: {(inner, space) as text: {draws: label}}.

    >>> families({"a": {"name": "symmetrised", "explainer": "cav", "draws": 4}, "b": {"name": "cav"}})
    {'[{"name": "cav"}, null]': {4: 'a'}}
    """
    found: dict[str, dict[int | None, str]] = {}
    for label, spec in specs.items():
        given = spec.get("explainer")
        inner = {"name": given} if isinstance(given, str) else given
        if spec.get("name") == "symmetrised" and isinstance(inner, Mapping):
            found.setdefault(as_text([inner, spec.get("space")]), {}).setdefault(spec.get("draws"), label)
    return found


def relatives(specs: Specs) -> list[tuple[str, ...]]:
    """The explainers that are one and the same but for how many transforms they average over: they learnt the same."""
    kin = []
    for inner, members in families(specs).items():
        bare = bare_label(json.loads(inner)[0], specs)
        kin.append((*([bare] if bare else []), *members.values()))
    return kin


def as_text(value: Any) -> str:
    """Plain data as text, so that any two can be compared."""
    return json.dumps(value, sort_keys=True, default=str)


def bare_label(inner: Mapping[str, Any], specs: Specs) -> str:
    """The explainer of the run that is what is inside: the same in every setting, or the only one in all that were given."""
    same = [label for label, spec in specs.items() if as_text(spec) == as_text(inner)]
    like = [label for label, spec in specs.items() if all(name in spec and spec[name] == value for name, value in inner.items())]
    return same[0] if same else like[0] if len(like) == 1 else ""
