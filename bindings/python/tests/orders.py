"""Random orders of open, read, write, iterate, close, drop and use after close: orders.py SEED STEPS. A crash, or an exception
that no order explains, is a failure."""

from __future__ import annotations

import collections
import gc
import random
import sys
import threading
from typing import Any

import alluvium

STRUCTURES = [None, "--structure levels,k=4", "--structure paged", "--structure volatile,bytes=1M", "--structure hashed"]
REFUSED = {"panicked", "corrupt", "io", "other"}


class Orders:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.kinds: collections.Counter[str] = collections.Counter()
        self.lists: dict[str, list[Any]] = {
            name: [None] * size
            for name, size in (("store", 3), ("keyspace", 6), ("scan", 8), ("snapshot", 5), ("transaction", 5), ("batch", 2))
        }

    def any(self, name: str) -> Any:
        return self.draw.choice(self.lists[name])

    def set(self, name: str, value: Any) -> None:
        self.lists[name][self.draw.randrange(len(self.lists[name]))] = value

    def bytes(self) -> bytes:
        return bytes(self.draw.choice(b"abcdefgh") for _ in range(self.draw.randrange(3)))

    def step(self) -> None:
        draw = self.draw
        store, keyspace, scan = self.any("store"), self.any("keyspace"), self.any("scan")
        snapshot, transaction, batch = self.any("snapshot"), self.any("transaction"), self.any("batch")
        verb = draw.randrange(30)
        if verb == 0 and None in self.lists["store"]:
            place = self.lists["store"].index(None)
            self.lists["store"][place] = alluvium.Store(None, "--memory 16M --workers 1")
        elif verb == 1 and draw.randrange(40) == 0:
            store.close()
        elif verb == 2 and draw.randrange(80) == 0:
            store.close(force=True)
        elif verb == 3 and draw.randrange(3 if store is not None and store.closed else 60) == 0:
            self.lists["store"][self.lists["store"].index(store)] = None
        elif verb in (4, 5):
            structure = draw.randrange(5)
            self.set("keyspace", store.keyspace(f"k{structure}", STRUCTURES[structure]))
        elif verb == 6:
            self.set(draw.choice(["scan", "snapshot", "transaction", "keyspace"]), None)
        elif verb in (7, 8, 9):
            keyspace.put(self.bytes(), b"v" * draw.choice([0, 10, 3000]), draw.choice([0, 0, 0, 1000]))
        elif verb == 10:
            keyspace.get(self.bytes())
        elif verb == 11:
            keyspace.pop(self.bytes(), None)
        elif verb == 12:
            keyspace.delete_range(self.bytes(), b"h")
        elif verb in (13, 14):
            self.set("scan", keyspace.range(self.bytes(), reverse=draw.random() < 0.5, keys=draw.random() < 0.2))
        elif verb in (15, 16, 17):
            for _ in range(draw.randrange(20)):
                next(scan, None)
        elif verb == 18:
            scan.seek(self.bytes())
        elif verb == 19:
            scan.release()
        elif verb == 20:
            self.set("snapshot", store.snapshot())
        elif verb == 21:
            self.set("scan", snapshot.range(keyspace, unordered=draw.random() < 0.3))
        elif verb == 22:
            snapshot.get(keyspace, self.bytes())
        elif verb == 23:
            self.set("transaction", store.begin(draw.choice(["", "--isolation snapshot"])))
        elif verb in (24, 25):
            transaction.put(keyspace, self.bytes(), b"v")
        elif verb == 26:
            self.set("scan", transaction.range(keyspace))
        elif verb == 27:
            draw.choice([transaction.commit, transaction.rollback, transaction.savepoint])()
        elif verb == 28:
            self.set("batch", alluvium.Batch("memory"))
            batch.put(keyspace, self.bytes(), b"v")
            store.write(batch)
        elif verb == 29 and draw.randrange(50) == 0:
            gc.collect()
            thread = threading.Thread(target=lambda: list(keyspace.range()) if keyspace is not None else None)
            threading.excepthook = lambda _arguments: None
            thread.start()
            thread.join()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self.step()
                self.kinds["ok"] += 1
            except alluvium.Error as error:
                self.kinds[error.kind] += 1
                if error.kind in REFUSED:
                    raise
            except AttributeError as error:
                # The variable is empty.
                if "'NoneType'" not in str(error):
                    raise
            except TypeError as error:
                if "NoneType" not in str(error) and "'None' is not an instance" not in str(error):
                    raise


if __name__ == "__main__":
    orders = Orders(int(sys.argv[1]))
    orders.run(int(sys.argv[2]))
    print(f"steps: {sys.argv[2]}; answers: {dict(orders.kinds)}")
