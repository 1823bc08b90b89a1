"""Runs the cases of bindings/contract on the Python package: contract.py FILE... The language of the cases is described in
bindings/contract/README.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import sys
import tempfile
import time
from typing import Any

import alluvium

STRUCTURES = ["tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"]
WORD = re.compile(r'\s*(?:(#.*)|"((?:[^"\\]|\\.)*)"(?:\*(\d+))?|(\S+))')
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)")


class Bare(bytes):
    """A word that is not quoted."""


class NullHandle(alluvium.errors.InvalidArgumentError):
    """Python has no handles that are NULL: a variable that was freed is gone."""


def words(line: str) -> list[bytes]:
    found: list[bytes] = []
    for comment, quoted, count, bare in WORD.findall(line):
        if comment:
            break
        if bare:
            found.append(Bare(bare.encode()))
            continue
        plain = {b"n": b"\n", b"t": b"\t"}
        text = ESCAPE.sub(
            lambda m: bytes([int(m[1][1:], 16)]) if len(m[1]) == 3 else plain.get(m[1], m[1]), quoted.encode()
        )
        found.append(text * int(count or 1))
    return found


def text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def optional(word: bytes) -> bytes | None:
    return None if isinstance(word, Bare) and word == b"none" else bytes(word)


def number(given: list[bytes], at: int) -> int:
    if at >= len(given):
        return 0
    return int(time.time() * 1000) + 40 if given[at] == b"soon" else int(given[at])


def bounds(given: list[bytes]) -> dict[str, Any]:
    names = {b"from": "start", b"after": "after", b"to": "stop", b"through": "through", b"prefix": "prefix"}
    found: dict[str, Any] = {}
    at = iter(given)
    for verb in at:
        if verb in names:
            found[names[verb]] = bytes(next(at))
        else:
            found[text(verb)] = True
    return found


class Case:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.variables: dict[bytes, Any] = {}

    def __getitem__(self, name: bytes) -> Any:
        found = self.variables[name]
        if found is None:
            raise NullHandle("a handle is NULL")
        return found

    def path(self, word: bytes) -> str | None:
        return None if word == b"memory" else os.path.join(self.directory, text(word)[1:])

    def free(self, name: bytes) -> None:
        found = self.variables.get(name)
        if isinstance(found, alluvium.Transaction) and found.is_open:
            found.rollback()
        elif isinstance(found, (alluvium.Scan, alluvium.Snapshot, alluvium.Ingest)):
            found.release()
        self.variables[name] = None

    def new(self, name: bytes, make: Any) -> list[bytes | None]:
        """Sets a variable. One with this name is freed first, and is gone if `make` fails."""
        self.free(name)
        self.variables[name] = make()
        return []

    def pages(self, scan: Any, reverse: bool, size: int | None) -> list[bytes | None]:
        page = bytearray(size or 200_000)
        found: list[bytes | None] = []
        while True:
            records, filled = scan.readinto(page, reverse)
            if not records and filled > len(page):
                found += [b"short", str(filled).encode()]
            at = 0
            for _ in range(records):
                key, value = struct.unpack_from("<II", page, at)
                found += [bytes(page[at + 8 : at + 8 + key]), bytes(page[at + 8 + key : at + 8 + key + value])]
                at += 8 + key + value
            if not records or size is not None:
                return found

    def step(self, verb: str, w: list[bytes]) -> Any:
        """Runs a step. Returns what it answers: a list of values, or one."""
        path, new, n = self.path, self.new, len(w)
        match verb:
            case "open":
                return new(w[0], lambda: alluvium.Store(path(w[1]), text(w[2]) if n > 2 else ""))
            case "close" | "force-close":
                return self[w[0]].close(force=verb == "force-close")
            case "free":
                return self.free(w[0])
            case "sync" | "checkpoint" | "compact":
                return getattr(self[w[0]], verb)()
            case "check" | "stats" | "keyspaces":
                return json.dumps(getattr(self[w[0]], verb)(), separators=(",", ":"), ensure_ascii=False)
            case "backup":
                return self[w[0]].backup(path(w[1]))
            case "restore":
                return alluvium.restore(path(w[0]), path(w[1]))
            case "repair":
                return json.dumps(alluvium.repair(path(w[0])), separators=(",", ":"))
            case "keyspace":
                return new(w[0], lambda: self[w[1]].keyspace(text(w[2]), text(w[3]) if n > 3 else None))
            case "existing":
                return new(w[0], lambda: self[w[1]].existing_keyspace(text(w[2])))
            case "drop":
                return self[w[0]].drop_keyspace(text(w[1]))
            case "rename":
                return self[w[0]].rename_keyspace(text(w[1]), text(w[2]))
            case "batch":
                return new(w[0], lambda: alluvium.Batch(text(w[1]) if n > 1 else None))
            case "batch-put":
                return self[w[0]].put(self[w[1]], bytes(w[2]), bytes(w[3]), number(w, 4))
            case "batch-delete":
                return self[w[0]].delete(self[w[1]], bytes(w[2]), number(w, 3))
            case "batch-delete-range":
                return self[w[0]].delete_range(self[w[1]], bytes(w[2]), optional(w[3]))
            case "batch-merge":
                return self[w[0]].merge(self[w[1]], bytes(w[2]), bytes(w[3]))
            case "batch-count":
                return str(len(self[w[0]]))
            case "batch-clear":
                return self[w[0]].clear()
            case "write":
                return self[w[0]].write(self[w[1]])
            case "ingest":
                return new(w[0], lambda: self[w[1]].ingest())
            case "ingest-put":
                return self[w[0]].put(bytes(w[1]), bytes(w[2]))
            case "ingest-finish":
                return str(self[w[0]].finish())
            case "snapshot":
                return new(w[0], lambda: self[w[1]].snapshot(text(w[2]) if n > 2 else None))
            case "snapshot-open":
                return new(w[0], lambda: self[w[1]].open_snapshot(text(w[2])))
            case "snapshot-remove":
                return self[w[0]].remove_snapshot(text(w[1]))
            case "snapshot-get":
                return [self[w[0]].get(self[w[1]], bytes(w[2]))]
            case "sleep":
                return time.sleep(int(w[0]) / 1000)
            case "put":
                return self[w[0]].put(bytes(w[1]), bytes(w[2]), number(w, 3))
            case "get" | "take":
                return [getattr(self[w[0]], verb)(bytes(w[1]))]
            case "contains":
                return str(bytes(w[1]) in self[w[0]]).lower()
            case "cas":
                return str(self[w[0]].compare_and_set(bytes(w[1]), optional(w[2]), optional(w[3]))).lower()
            case "delete":
                return self[w[0]].delete(bytes(w[1]), number(w, 2))
            case "delete-range":
                return self[w[0]].delete_range(bytes(w[1]), optional(w[2]))
            case "merge":
                return self[w[0]].merge(bytes(w[1]), bytes(w[2]))
            case "multi-get":
                return self[w[0]].multi_get([bytes(key) for key in w[1:]])
            case "iter":
                return new(w[0], lambda: self[w[1]].range(**bounds(w[2:])))
            case "snapshot-iter" | "tx-iter":
                return new(w[0], lambda: self[w[1]].range(self[w[2]], **bounds(w[3:])))
            case "rest" | "rest-back":
                return self.pages(self[w[0]], verb == "rest-back", None)
            case "page" | "page-back":
                return self.pages(self[w[0]], verb == "page-back", int(w[1]))
            case "seek":
                return self[w[0]].seek(bytes(w[1]))
            case "begin":
                return new(w[0], lambda: self[w[1]].begin(text(w[2]) if n > 2 else ""))
            case "tx-get":
                return [self[w[0]].get(self[w[1]], bytes(w[2]), text(w[3]) if n > 3 else "tracked")]
            case "tx-put":
                return self[w[0]].put(self[w[1]], bytes(w[2]), bytes(w[3]), number(w, 4))
            case "tx-delete":
                return self[w[0]].delete(self[w[1]], bytes(w[2]), number(w, 3))
            case "tx-delete-range":
                return self[w[0]].delete_range(self[w[1]], bytes(w[2]), optional(w[3]))
            case "tx-merge":
                return self[w[0]].merge(self[w[1]], bytes(w[2]), bytes(w[3]))
            case "tx-depend":
                return self[w[0]].depend_on_range(self[w[1]], **bounds(w[2:]))
            case "savepoint":
                return new(w[0], lambda: self[w[1]].savepoint())
            case "rollback-to" | "release":
                return getattr(self[w[0]], verb.replace("-", "_"))(self.variables[w[1]])
            case "commit":
                return self[w[0]].commit(text(w[1]) if n > 1 else None)
            case "rollback":
                return self[w[0]].rollback()
        raise LookupError(f"{verb} is no verb")

    def line(self, line: str) -> str | None:
        """Runs a line, and compares what comes of it. Returns what does not agree."""
        given = words(line)
        if not given:
            return None
        marks = [at for at, word in enumerate(given) if isinstance(word, Bare) and word in (b"=", b"!", b"has")]
        end = marks[0] if marks else len(given)
        mark, expected = bytes(given[end]) if marks else b"", given[end + 1 :]
        try:
            answer = self.step(text(given[0]), given[1:end])
        except alluvium.Error as error:
            part = text(expected[1]) if len(expected) > 1 else ""
            agrees = mark == b"!" and error.kind == text(expected[0]) and part in str(error)
            return None if agrees else f"{line}  came to {error.kind}: {error}"
        came = [answer.encode()] if isinstance(answer, str) else answer or []
        wanted = [None if isinstance(word, Bare) and word == b"absent" else bytes(word) for word in expected]
        agrees = mark == b"" or (mark == b"=" and came == wanted) or (mark == b"has" and text(expected[0]) in answer)
        return None if agrees else f"{line}  came to {came}"


def run_case(steps: str, structure: str) -> str | None:
    directory = tempfile.mkdtemp()
    case = Case(directory)
    try:
        first = ['open s memory "--memory 16M --workers 1"', f'keyspace k s k "--structure {structure}"']
        return next(filter(None, map(case.line, first + steps.split("\n"))), None)
    finally:
        for name in list(case.variables):
            case.free(name)
        shutil.rmtree(directory)


def run(files: list[str]) -> tuple[int, int, list[str]]:
    """Runs all cases of files. Returns their number, that of the runs, and what failed."""
    cases, runs, failed = 0, 0, []
    for file in files:
        with open(file, encoding="utf-8") as source:
            parts = source.read().split("[[case]]\n")[1:]
        for part in parts:
            head, rest = part.split("steps = '''\n", 1)
            count = 5 if 'on = "all"' in head else 4 if 'on = "ordered"' in head else 1
            cases += 1
            for structure in STRUCTURES[:count]:
                runs += 1
                why = run_case(rest.split("\n'''", 1)[0], structure)
                if why is not None:
                    failed.append(f"FAILED: {head.splitlines()[0]} ({file}, {structure}): {why}")
    return cases, runs, failed


if __name__ == "__main__":
    cases, runs, failed = run(sys.argv[1:])
    print("\n".join(failed + [f"contract: {cases} cases, {runs} runs, {len(failed)} failed"]))
    sys.exit(bool(failed) or not cases)
