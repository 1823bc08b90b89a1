"""Exceptions: one class for each kind of error. All are subclasses of `Error`."""

from __future__ import annotations


class Error(Exception):
    """An error of the store. Its text says what was wrong, where, and what to do."""

    #: The name of the kind, which is the same in every language.
    kind: str = "other"


def _define(kind: str, doc: str) -> type[Error]:
    name = "".join(part.capitalize() for part in kind.split("_")) + "Error"
    return type(name, (Error,), {"kind": kind, "__doc__": doc, "__module__": __name__})


LockedError = _define("locked", "The store is open in another process or through another object.")
NotAStoreError = _define("not_a_store", "The directory contains no store, or it contains other files.")
AlreadyExistsError = _define("already_exists", "A store, keyspace, snapshot or file with this name already exists.")
NotFoundError = _define("not_found", "The path, keyspace or snapshot does not exist.")
NewerVersionError = _define("newer_version", "A newer version of Alluvium wrote the store.")
OlderVersionError = _define("older_version", "An earlier version wrote the store, in a format that is no longer supported.")
CorruptError = _define("corrupt", "Stored data is damaged.")
FullError = _define("full", "The disk is full, or the size limit is reached.")
ExhaustedError = _define("exhausted", "The process or the machine is out of a resource.")
ReadOnlyError = _define("read_only", "The store was opened for reading only.")
PermissionDeniedError = _define("permission_denied", "The operating system denies access to the files.")
IoError = _define("io", "The device or the operating system reported an error.")
PoisonedError = _define("poisoned", "The store rejects writes after an earlier failure: open it again.")
ClosedError = _define("closed", "The store was closed, or the object was released.")
DroppedError = _define("dropped", "The keyspace was dropped.")
InvalidArgumentError = _define("invalid_argument", "An argument or an option is out of bounds or incompatible with the store.")
BadValueError = _define("bad_value", "A stored value cannot be combined with the operands that were merged into it.")
GoneError = _define("gone", "The transaction has no such savepoint.")
ConflictError = _define("conflict", "Another commit changed data that the transaction depends on: run it again.")
DeadlockError = _define("deadlock", "The transaction was aborted to resolve a deadlock: run it again.")
TimedOutError = _define("timed_out", "Waiting for a lock took too long, or the transaction exceeded its age limit.")
EndedError = _define("ended", "The transaction was committed, rolled back or aborted earlier.")
LimitReachedError = _define("limit_reached", "A limit on the size of a transaction is reached.")
InUseError = _define("in_use", "The store cannot be closed, because scans, snapshots, transactions or ingests live.")
PanickedError = _define("panicked", "The library has a defect, which has ended the call.")

#: The class of each kind.
KINDS: dict[str, type[Error]] = {
    value.kind: value
    for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, Error) and value is not Error
}


def exception_of(kind: str, text: str) -> Error:
    """Returns the exception of a kind. A kind that is not known here is an `Error` with its name."""
    found = KINDS.get(kind, Error)(text)
    if found.kind != kind:
        found.kind = kind
    return found
