"""Codecs: how keys and values of Python become bytes.

A codec has two functions, `encode` and `decode`. Codecs for keys keep an order: `integer` that of
the numbers, `text` that of the code points, `tuples` that of the tuples.
"""

from __future__ import annotations

import json as _json
import pickle as _pickle
import struct
from typing import Any, Callable, NamedTuple



class Codec(NamedTuple):
    """Two functions that are inverse to each other."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _same(value: bytes) -> bytes:
    return value


def _encode_integer(value: int) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an int")
    # The first byte is the sign and the number of bytes, so that longer numbers are greater.
    if value >= 0:
        length = (value.bit_length() + 7) // 8
        if length > 126:
            raise OverflowError("an int of more than 126 bytes cannot be a key")
        return bytes([128 + length]) + value.to_bytes(length, "big")
    length = ((-value).bit_length() + 7) // 8
    if length > 126:
        raise OverflowError("an int of more than 126 bytes cannot be a key")
    return bytes([128 - length]) + ((1 << (8 * length)) + value).to_bytes(length, "big")


def _integer_length(first: int) -> int:
    return first - 128 if first >= 128 else 128 - first


def _decode_integer(encoded: bytes) -> int:
    if not encoded or len(encoded) != 1 + _integer_length(encoded[0]):
        raise ValueError(f"{encoded!r} is not an int")
    value = int.from_bytes(encoded[1:], "big")
    return value if encoded[0] >= 128 else value - (1 << (8 * (len(encoded) - 1)))


_NONE, _FALSE, _TRUE, _INT, _FLOAT, _BYTES, _STR, _TUPLE = range(1, 9)


def _escape(raw: bytes) -> bytes:
    return raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _encode_part(part: Any) -> bytes:
    if part is None:
        return bytes([_NONE])
    if isinstance(part, bool):
        return bytes([_TRUE if part else _FALSE])
    if isinstance(part, int):
        return bytes([_INT]) + _encode_integer(part)
    if isinstance(part, float):
        (bits,) = struct.unpack(">Q", struct.pack(">d", part))
        bits ^= (1 << 64) - 1 if bits >> 63 else 1 << 63
        return bytes([_FLOAT]) + struct.pack(">Q", bits)
    if isinstance(part, bytes):
        return bytes([_BYTES]) + _escape(part)
    if isinstance(part, str):
        return bytes([_STR]) + _escape(part.encode())
    if isinstance(part, tuple):
        return bytes([_TUPLE]) + b"".join(map(_encode_part, part)) + b"\x00"
    raise TypeError(f"{part!r} cannot be a part of a key: use None, bool, int, float, bytes, str or tuple")


def _encode_tuple(parts: tuple[Any, ...]) -> bytes:
    if not isinstance(parts, tuple):
        raise TypeError(f"{parts!r} is not a tuple")
    return b"".join(map(_encode_part, parts))


def _decode_parts(encoded: bytes, at: int, is_nested: bool) -> tuple[tuple[Any, ...], int]:
    parts: list[Any] = []
    while True:
        if at == len(encoded):
            if is_nested:
                raise ValueError(f"{encoded!r} is not a tuple: it ends within one")
            return tuple(parts), at
        kind = encoded[at]
        at += 1
        if kind == 0 and is_nested:
            return tuple(parts), at
        if kind == _NONE:
            parts.append(None)
        elif kind in (_FALSE, _TRUE):
            parts.append(kind == _TRUE)
        elif kind == _INT:
            length = _integer_length(encoded[at]) + 1 if at < len(encoded) else 1
            parts.append(_decode_integer(encoded[at : at + length]))
            at += length
        elif kind == _FLOAT:
            if at + 8 > len(encoded):
                raise ValueError(f"{encoded!r} is not a tuple: it ends within a float")
            (bits,) = struct.unpack(">Q", encoded[at : at + 8])
            bits ^= 1 << 63 if bits >> 63 else (1 << 64) - 1
            parts.append(struct.unpack(">d", struct.pack(">Q", bits))[0])
            at += 8
        elif kind in (_BYTES, _STR):
            raw = bytearray()
            while True:
                end = encoded.find(b"\x00", at)
                if end < 0 or end + 1 >= len(encoded):
                    raise ValueError(f"{encoded!r} is not a tuple: it ends within a text")
                raw += encoded[at:end]
                at = end + 2
                if encoded[end + 1] == 0:
                    break
                if encoded[end + 1] != 0xFF:
                    raise ValueError(f"{encoded!r} is not a tuple: a zero byte is not escaped")
                raw.append(0)
            parts.append(bytes(raw) if kind == _BYTES else raw.decode())
        elif kind == _TUPLE:
            nested, at = _decode_parts(encoded, at, True)
            parts.append(nested)
        else:
            raise ValueError(f"{encoded!r} is not a tuple: it has an unknown part")


def _encode_json(value: Any) -> bytes:
    return _json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


#: Bytes, as they are.
raw = Codec(_same, _same)
#: Text, as UTF-8. Its order is that of the code points.
text = Codec(lambda value: str.encode(value), lambda encoded: encoded.decode())
#: Integers of any sign and up to 126 bytes, in their order.
integer = Codec(_encode_integer, _decode_integer)
#: Tuples of None, bool, int, float, bytes, str and tuples, in their order. Parts of different types
#: are ordered by their types, in this order.
tuples = Codec(_encode_tuple, lambda encoded: _decode_parts(encoded, 0, False)[0])
#: What JSON can say. It has no order, so use it for values.
json = Codec(_encode_json, lambda encoded: _json.loads(encoded))


def pickled(protocol: int | None = None) -> Codec:
    """Returns a codec for any value that `pickle` accepts. A store from a stranger can run any code
    when its values are decoded, so this codec is never a default."""
    return Codec(lambda value: _pickle.dumps(value, protocol), _pickle.loads)
