"""A replacement of `dbm`: a persistent mapping of bytes, with the functions of `dbm.gnu`.

    import alluvium.dbm as dbm
    with dbm.open("cache", "c") as db:
        db["Elbe"] = "1094 km"
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, MutableMapping
from typing import Any

from .errors import Error as error
from .errors import InvalidArgumentError, ReadOnlyError
from .store import Store

__all__ = ["Database", "error", "open", "whichdb"]


def _bytes(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


class Database(MutableMapping):  # type: ignore[type-arg]
    """An open database. Keys and values are bytes; str becomes UTF-8."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = store.keyspace("dbm")

    def __getitem__(self, key: Any) -> bytes:
        return self._records[_bytes(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._records[_bytes(key)] = _bytes(value)

    def __delitem__(self, key: Any) -> None:
        del self._records[_bytes(key)]

    def __contains__(self, key: object) -> bool:
        return _bytes(key) in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._records)

    def keys(self) -> list[bytes]:  # type: ignore[override]
        return list(self._records)

    def get(self, key: Any, default: Any = None) -> Any:
        return self._records.get(_bytes(key), default)

    def setdefault(self, key: Any, default: Any = b"") -> bytes:
        return self._records.setdefault(_bytes(key), _bytes(default))

    def clear(self) -> None:
        self._records.clear()

    def firstkey(self) -> bytes | None:
        """Returns the first key, or `None`."""
        return next(self._records.range(keys=True), None)

    def nextkey(self, key: Any) -> bytes | None:
        """Returns the key after `key`, or `None`."""
        return next(self._records.range(after=_bytes(key), keys=True), None)

    def reorganize(self) -> None:
        """Frees the space of deleted and replaced records."""
        self._store.compact()

    def sync(self) -> None:
        """Makes everything that was written survive a power failure."""
        # A store that was opened for reading has written nothing.
        with contextlib.suppress(ReadOnlyError):
            self._store.sync()

    def close(self) -> None:
        """Closes the database. Closing it again does nothing."""
        if not self._store.closed:
            self._store.close(force=True)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open(file: Any, flag: str = "r", mode: int = 0o666) -> Database:
    """Opens a database: `flag` is "r" to read an existing one, "w" to write to it, "c" to create it
    if it does not exist, "n" to begin with an empty one. `mode` has no effect."""
    del mode
    path = os.fspath(file)
    modes = {"r": "read-only", "w": "existing", "c": "open-or-create", "n": "new"}
    if flag not in modes:
        raise InvalidArgumentError(f'{flag!r} is no flag: use "r", "w", "c" or "n"')
    if flag == "n" and whichdb(path):
        shutil.rmtree(path)
    return Database(Store(path, f"--memory 32M --mode {modes[flag]}"))


def whichdb(filename: Any) -> str | None:
    """Returns "alluvium.dbm" for a directory with a store, and otherwise `None`."""
    return "alluvium.dbm" if os.path.exists(os.path.join(os.fspath(filename), "superblock")) else None
