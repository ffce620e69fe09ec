from every_test import own_state, same_every_time

__all__ = ["own_state", "same_every_time"]

collect_ignore_glob = ["conftest.py"]
"""It holds no doctests, and modules of the same name get in each other's way."""
