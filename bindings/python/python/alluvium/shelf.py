"""A replacement of `shelve`: a persistent mapping from str to anything that `pickle` accepts.

    import alluvium.shelf as shelve
    with shelve.open("library") as shelf:
        shelf["Elbe"] = {"length": 1094}

Like with `shelve`, opening a shelf from a stranger can run any code.
"""

from __future__ import annotations

import shelve
from typing import Any

from .dbm import open as _open_dbm

__all__ = ["Shelf", "open"]


class Shelf(shelve.Shelf):  # type: ignore[type-arg]
    """A shelf in a store, which closes with it."""


def open(filename: Any, flag: str = "c", protocol: int | None = None, writeback: bool = False) -> Shelf:
    """Opens a shelf, with the arguments of `shelve.open`."""
    return Shelf(_open_dbm(filename, flag), protocol, writeback)
