"""Stores, snapshots, batches and transactions."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any, Callable, TypeVar

from ._alluvium import RawBatch, RawSnapshot, RawStore, RawTransaction, Scan
from ._alluvium import repair as _repair
from ._mapping import Keyspace, _flags, _range_of, _wait
from .errors import ConflictError, DeadlockError

T = TypeVar("T")


class Batch(RawBatch):
    """Writes that take effect together, when `Store.write` gets them."""

    __slots__ = ()


class Snapshot:
    """The store as of one moment. Release it, or use it in a `with` statement."""

    def __init__(self, raw: RawSnapshot) -> None:
        self._raw = raw

    @property
    def sequence(self) -> int:
        """The number of the last commit that the snapshot sees."""
        return self._raw.sequence

    def get(self, keyspace: Keyspace, key: bytes) -> bytes | None:
        """Returns the value of a key, or `None`."""
        return self._raw._get(keyspace, key)

    def range(
        self,
        keyspace: Keyspace,
        start: bytes | None = None,
        stop: bytes | None = None,
        *,
        prefix: bytes | None = None,
        after: bytes | None = None,
        through: bytes | None = None,
        reverse: bool = False,
        keys: bool = False,
        values: bool = False,
        unordered: bool = False,
    ) -> Scan:
        """Like `Keyspace.range`, as of the snapshot."""
        bounds = _range_of(start, stop, prefix, after, through, _flags(reverse, keys, values, unordered))
        return self._raw._scan(keyspace, *bounds)

    def release(self) -> None:
        """Releases the snapshot."""
        self._raw.release()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


class Transaction:
    """Reads and writes that take effect together. A `with` statement commits it at its end, or rolls
    it back after an exception.

    `get(keyspace, key, read="tracked")`, where `read` is "tracked", "untracked", "shared" or
    "update"; `put(keyspace, key, value, expires_ms=0)`; `delete(keyspace, key, at_ms=0)`;
    `delete_range(keyspace, start, stop)`; `merge(keyspace, key, operand)`; `savepoint()`,
    `rollback_to(savepoint)`, `release(savepoint)`; `commit(durability=None)`; `rollback()`."""

    def __init__(self, raw: RawTransaction) -> None:
        self._raw = raw
        self.get = raw.get
        self.put = raw.put
        self.delete = raw.delete
        self.delete_range = raw.delete_range
        self.merge = raw.merge
        self.savepoint = raw.savepoint
        self.rollback_to = raw.rollback_to
        self.release = raw.release
        self.commit = raw.commit
        self.rollback = raw.rollback

    @property
    def is_open(self) -> bool:
        """Whether the transaction has neither been committed nor rolled back."""
        return self._raw.is_open

    def range(
        self,
        keyspace: Keyspace,
        start: bytes | None = None,
        stop: bytes | None = None,
        *,
        prefix: bytes | None = None,
        after: bytes | None = None,
        through: bytes | None = None,
        reverse: bool = False,
        keys: bool = False,
        values: bool = False,
        unordered: bool = False,
    ) -> Scan:
        """Like `Keyspace.range`, as the transaction sees it. The iterator ends with the
        transaction."""
        bounds = _range_of(start, stop, prefix, after, through, _flags(reverse, keys, values, unordered))
        return self._raw._scan(keyspace, *bounds)

    def depend_on_range(
        self,
        keyspace: Keyspace,
        start: bytes | None = None,
        stop: bytes | None = None,
        *,
        prefix: bytes | None = None,
        after: bytes | None = None,
        through: bytes | None = None,
    ) -> None:
        """Makes the commit conflict if another changes any key of the range."""
        self._raw._depend(keyspace, *_range_of(start, stop, prefix, after, through, 0))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if not self.is_open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


class Store(RawStore):
    """An open store: `Store(path, options="")`, where `options` has the syntax of the command line,
    such as "--memory 64M --durability disk". Without a path, it is empty and in memory.

    A `with` statement closes it in any case. `close` fails while scans, snapshots, transactions or
    ingests live, unless it is forced; what lives on raises `ClosedError`."""

    __slots__ = ()

    def keyspace(self, name: str, options: str | None = None) -> Keyspace:
        """Returns the keyspace with this name, and creates it if it does not exist. `options` has
        the syntax of the command line, such as "--structure levels,k=4"."""
        return Keyspace(self, name, options)

    def __getitem__(self, name: str) -> Keyspace:
        return Keyspace(self, name)

    def existing_keyspace(self, name: str) -> Keyspace:
        """Returns the existing keyspace with this name."""
        return Keyspace(self, name, None, True)

    def keyspaces(self) -> list[dict[str, Any]]:
        """Returns the names and options of all keyspaces."""
        return json.loads(self._keyspaces())

    def stats(self) -> dict[str, float]:
        """Returns the statistics of the store: each name with its number."""
        return json.loads(self._stats())

    def check(self) -> dict[str, Any]:
        """Reads the whole store. The entry "whole" is true if there is no damage."""
        return json.loads(self._check())

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Returns a snapshot. One with a name is kept by the store until `remove_snapshot`."""
        return Snapshot(self._snapshot(name))

    def open_snapshot(self, name: str) -> Snapshot:
        """Opens a named snapshot."""
        return Snapshot(self._open_snapshot(name))

    def begin(self, options: str = "") -> Transaction:
        """Begins a transaction. `options` has the syntax of the command line, such as "--isolation
        snapshot --locking"."""
        return Transaction(self._begin(options))

    def transaction(self, body: Callable[[Transaction], T], options: str = "", *, tries: int = 64) -> T:
        """Runs `body` with a transaction and commits it. After a conflict or a deadlock, runs it
        again, up to `tries` times."""
        for attempt in range(tries):
            try:
                with self.begin(options) as transaction:
                    return body(transaction)
            except (ConflictError, DeadlockError):
                if attempt + 1 == tries:
                    raise
                time.sleep(random.random() * min(0.1, 0.0005 * 2**attempt))
        raise ValueError("a transaction needs at least one try")

    async def awrite(self, batch: RawBatch) -> None:
        """Writes a batch without blocking the event loop."""
        await _wait(self._start_write(batch))

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_error: object) -> None:
        if not self.closed:
            self.close(force=True)

    def __repr__(self) -> str:
        return f"<alluvium.Store {'closed' if self.closed else 'open'}>"


def repair(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Repairs a damaged store that is not open. The entry "lost" lists what is lost."""
    return json.loads(_repair(path))
