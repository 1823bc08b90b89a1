"""Keyspaces as mappings of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import ItemsView, Iterable, Iterator, KeysView, MutableMapping, ValuesView
from itertools import chain
from typing import Any

from . import codecs as _codecs
from ._alluvium import Pending, RawKeyspace, Scan

_AFTER, _THROUGH, _PREFIX, _REVERSE, _KEYS, _UNORDERED, _VALUES = 1, 2, 4, 8, 16, 32, 64


def _flags(reverse: bool, keys: bool, values: bool, unordered: bool) -> int:
    return (
        (_REVERSE if reverse else 0)
        | (_KEYS if keys else 0)
        | (_VALUES if values and not keys else 0)
        | (_UNORDERED if unordered else 0)
    )


def _range_of(
    start: bytes | None,
    stop: bytes | None,
    prefix: bytes | None,
    after: bytes | None,
    through: bytes | None,
    flags: int,
) -> tuple[bytes | None, bytes | None, int]:
    """Returns the bounds and the flags of a scan."""
    if prefix is not None:
        if (start, stop, after, through) != (None, None, None, None):
            raise ValueError("a prefix has no other bounds: leave start, stop, after and through out")
        return prefix, None, flags | _PREFIX
    if (start is not None and after is not None) or (stop is not None and through is not None):
        raise ValueError("a range has one start and one end: give start or after, stop or through")
    if after is not None:
        start, flags = after, flags | _AFTER
    if through is not None:
        stop, flags = through, flags | _THROUGH
    return start, stop, flags


def _chained(scan: Any) -> Iterator[Any]:
    """Returns the records of a scan, which come in lists of a page."""
    if isinstance(scan, Scan):
        return chain.from_iterable(iter(scan._chunk, None))
    return scan


class _Keys(KeysView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return _chained(self._mapping.range(keys=True))  # type: ignore[attr-defined]

    def __reversed__(self) -> Iterator[Any]:
        return _chained(self._mapping.range(keys=True, reverse=True))  # type: ignore[attr-defined]


class _Values(ValuesView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return _chained(self._mapping.range(values=True))  # type: ignore[attr-defined]

    def __reversed__(self) -> Iterator[Any]:
        return _chained(self._mapping.range(values=True, reverse=True))  # type: ignore[attr-defined]


class _Items(ItemsView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return _chained(self._mapping.range())  # type: ignore[attr-defined]

    def __reversed__(self) -> Iterator[Any]:
        return _chained(self._mapping.range(reverse=True))  # type: ignore[attr-defined]


async def _wait(pending: Pending) -> Any:
    """Waits for a read or a write without blocking the loop."""
    loop = asyncio.get_running_loop()

    def finish(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    while True:
        waiter = loop.create_future()
        done, result = pending.poll(lambda: loop.call_soon_threadsafe(finish, waiter))
        if done:
            return result
        await waiter


class Keyspace(RawKeyspace, MutableMapping):  # type: ignore[type-arg]
    """A mapping from bytes to bytes in a store, in the order of the keys.

    Views and iterators see the keyspace as of the moment in which the iteration began. `len` reads
    all keys; `approximate_len` does not."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self.range(keys=True)

    def __reversed__(self) -> Iterator[bytes]:
        return self.range(keys=True, reverse=True)

    def keys(self) -> KeysView[bytes]:
        return _Keys(self)

    def values(self) -> ValuesView[bytes]:
        return _Values(self)

    def items(self) -> ItemsView[bytes, bytes]:
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<alluvium.Keyspace {self.name!r}>"

    def range(
        self,
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
        """Returns an iterator over the records from `start` (or after `after`) to before `stop` (or
        through `through`), or over those whose keys begin with `prefix`. It returns pairs, or only
        keys or values. An `unordered` one has no bounds: it is the only one of a hashed keyspace."""
        flags = _flags(reverse, keys, values, unordered)
        return self._scan(*_range_of(start, stop, prefix, after, through, flags))

    def prefix(self, prefix: bytes, *, reverse: bool = False, keys: bool = False, values: bool = False) -> Scan:
        """Returns an iterator over the records whose keys begin with `prefix`."""
        return self.range(prefix=prefix, reverse=reverse, keys=keys, values=values)

    def setdefault(self, key: bytes, default: bytes = b"") -> bytes:  # type: ignore[override]
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if self.compare_and_set(key, None, default):
                return default

    def pop(self, key: bytes, *default: Any) -> Any:
        """Deletes a key and returns its value, at one moment."""
        found = self.take(key)
        if found is not None:
            return found
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self) -> tuple[bytes, bytes]:
        """Deletes the first key and returns it with its value."""
        while True:
            first = next(self.range(keys=True), None)
            if first is None:
                raise KeyError("popitem(): keyspace is empty")
            value = self.take(first)
            if value is not None:
                return first, value

    def clear(self) -> None:
        """Deletes all keys."""
        self.delete_range(b"", None)

    def update(self, other: Any = (), /, **pairs: bytes) -> None:
        if pairs:
            raise TypeError("keys are bytes, which keyword arguments are not: pass a mapping or pairs")
        if hasattr(other, "items"):
            other = other.items()
        elif hasattr(other, "keys"):
            other = ((key, other[key]) for key in other.keys())
        self.put_many(other)

    def put_buffers(self, keys: Any, values: Any, *, key_size: int, value_size: int) -> int:
        """Puts the records in two buffers, such as NumPy arrays, in which keys and values of a fixed
        length stand one after the other. `bytes` and `bytearray` are not copied."""
        return self.put_fixed(_contiguous(keys), key_size, _contiguous(values), value_size)

    async def aget(self, key: bytes) -> bytes | None:
        """Returns the value of a key without blocking the event loop."""
        return await _wait(self._start_get(key))

    async def aput(self, key: bytes, value: bytes) -> None:
        """Sets the value of a key without blocking the event loop."""
        await _wait(self._start_put(key, value))

    async def adelete(self, key: bytes) -> None:
        """Deletes a key without blocking the event loop."""
        await _wait(self._start_delete(key))

    def typed(self, key: _codecs.Codec = _codecs.raw, value: _codecs.Codec = _codecs.raw) -> TypedKeyspace:
        """Returns a mapping of other keys and values, which codecs convert."""
        return TypedKeyspace(self, key, value)


def _contiguous(buffer: Any) -> bytes | bytearray:
    if isinstance(buffer, (bytes, bytearray)):
        return buffer
    return memoryview(buffer).cast("B").tobytes()


class _Decoded(Iterator):  # type: ignore[type-arg]
    """An iterator whose records are decoded."""

    def __init__(self, scan: Scan, decode: Any) -> None:
        self._scan = scan
        self._decode = decode

    def __next__(self) -> Any:
        return self._decode(next(self._scan))

    def __enter__(self) -> _Decoded:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def release(self) -> None:
        """Gives back what the iterator holds of the store."""
        self._scan.release()


class TypedKeyspace(MutableMapping):  # type: ignore[type-arg]
    """A mapping over a keyspace, whose keys and values codecs convert."""

    def __init__(self, keyspace: Keyspace, key: _codecs.Codec, value: _codecs.Codec) -> None:
        #: The keyspace of bytes.
        self.raw = keyspace
        self._key = key
        self._value = value

    def __getitem__(self, key: Any) -> Any:
        found = self.raw.get(self._key.encode(key))
        if found is None:
            raise KeyError(key)
        return self._value.decode(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.raw[self._key.encode(key)] = self._value.encode(value)

    def __delitem__(self, key: Any) -> None:
        if self.raw.take(self._key.encode(key)) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._key.encode(key) in self.raw

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Any]:
        return self.range(keys=True)

    def __reversed__(self) -> Iterator[Any]:
        return self.range(keys=True, reverse=True)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def keys(self) -> KeysView[Any]:
        return _Keys(self)

    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        return _Items(self)

    def clear(self) -> None:
        self.raw.clear()

    def put_many(self, pairs: Iterable[tuple[Any, Any]]) -> int:
        """Puts all pairs, in batches. Returns their number."""
        key, value = self._key.encode, self._value.encode
        return self.raw.put_many((key(k), value(v)) for k, v in pairs)

    def update(self, other: Any = (), /, **pairs: Any) -> None:
        self.put_many(other.items() if hasattr(other, "items") else other)
        self.put_many(pairs.items())

    def range(
        self,
        start: Any = None,
        stop: Any = None,
        *,
        after: Any = None,
        through: Any = None,
        reverse: bool = False,
        keys: bool = False,
        values: bool = False,
    ) -> _Decoded:
        """Like `Keyspace.range`, with bounds that the codec of the keys converts."""
        bounds = (None if key is None else self._key.encode(key) for key in (start, stop, after, through))
        start, stop, after, through = bounds
        scan = self.raw.range(start, stop, after=after, through=through, reverse=reverse, keys=keys, values=values)
        key, value = self._key.decode, self._value.decode
        if keys:
            return _Decoded(scan, key)
        if values:
            return _Decoded(scan, value)
        return _Decoded(scan, lambda pair: (key(pair[0]), value(pair[1])))
