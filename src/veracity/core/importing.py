"""What `module:attribute` names, for audit files and specs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from veracity.core.errors import SpecError, unknown


def imported(path: str) -> Any:
    """The attribute (dots allowed) of a module, with a suggestion if there is none.

    >>> imported("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = path.partition(":")
    if not attribute or not module_name:
        raise SpecError(f"'{path}' must be written module:name.")
    try:
        value: Any = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SpecError(f"Cannot import '{module_name}' for '{path}': {error}.") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise unknown(f"name in {module_name}:", part, [key for key in dir(value) if not key.startswith("_")])
        value = getattr(value, part)
    return value
