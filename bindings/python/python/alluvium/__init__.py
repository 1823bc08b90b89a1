"""A write-optimised key-value store.

>>> import alluvium
>>> with alluvium.Store() as store:
...     rivers = store["rivers"]
...     rivers[b"Elbe"] = b"1094 km"
...     dict(rivers)
{b'Elbe': b'1094 km'}
"""

from . import codecs, errors
from ._alluvium import Ingest, Scan, __version__, restore
from ._mapping import Keyspace, TypedKeyspace
from .errors import (
    ClosedError,
    ConflictError,
    DeadlockError,
    Error,
    InUseError,
    InvalidArgumentError,
    LockedError,
    NotFoundError,
    TimedOutError,
)
from .store import Batch, Snapshot, Store, Transaction, repair

__all__ = [
    "Batch",
    "ClosedError",
    "ConflictError",
    "DeadlockError",
    "Error",
    "InUseError",
    "Ingest",
    "InvalidArgumentError",
    "Keyspace",
    "LockedError",
    "NotFoundError",
    "Scan",
    "Snapshot",
    "Store",
    "TimedOutError",
    "Transaction",
    "TypedKeyspace",
    "__version__",
    "codecs",
    "errors",
    "repair",
    "restore",
]
