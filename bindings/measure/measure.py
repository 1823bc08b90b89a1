"""Measures batched puts, a scan and single gets in Python: measure.py ENGINE PATH RECORDS. ENGINE is alluvium, plyvel, lmdb or
rocksdict."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable

engine, path, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
keys = [b"%016x" % (n * 0x9E3779B97F4A7C15 % 2**64) for n in range(records)]
value = b"v" * 100
BATCH = 1000
MEMORY = 256 << 20


def measured(what: str, body: Callable[[], Any]) -> None:
    began, processor = time.perf_counter(), time.thread_time()
    body()
    wall, processor = time.perf_counter() - began, time.thread_time() - processor
    print(f"{engine}-python {what} {records / wall:.0f} {records / processor:.0f}")


def looped(iterator: Any) -> None:
    count = 0
    for key, found in iterator:
        count += 1
    assert count == records


def gets(get: Callable[[bytes], Any]) -> None:
    for key in reversed(keys):
        assert len(get(key)) == 100


if engine == "alluvium":
    import alluvium

    store = alluvium.Store(path, "--memory 256M")
    keyspace = store["k"]

    def pages() -> None:
        page, count = bytearray(1 << 16), 0
        with keyspace.range() as scan:
            while (found := scan.readinto(page))[0]:
                count += found[0]
        assert count == records

    measured("puts", lambda: keyspace.put_many((key, value) for key in keys))
    store.checkpoint()
    measured("scan", lambda: looped(keyspace.items()))
    measured("scan-pages", pages)
    # The first pass fills the caches.
    for what in ("first-gets", "gets"):
        measured(what, lambda: gets(keyspace.get))
    measured("multi-gets", lambda: [keyspace.multi_get(keys[at : at + 256]) for at in range(0, records, 256)])
elif engine == "plyvel":
    import plyvel

    db = plyvel.DB(path, create_if_missing=True, lru_cache_size=MEMORY // 2, write_buffer_size=MEMORY // 4)

    def puts() -> None:
        for at in range(0, records, BATCH):
            with db.write_batch() as batch:
                for key in keys[at : at + BATCH]:
                    batch.put(key, value)

    measured("puts", puts)
    db.compact_range()
    measured("scan", lambda: looped(db.iterator()))
    # The first pass fills the caches.
    for what in ("first-gets", "gets"):
        measured(what, lambda: gets(db.get))
elif engine == "lmdb":
    import lmdb

    environment = lmdb.open(path, map_size=4 << 30, sync=False, metasync=False)

    def puts() -> None:
        for at in range(0, records, BATCH):
            with environment.begin(write=True) as transaction:
                for key in keys[at : at + BATCH]:
                    transaction.put(key, value)

    measured("puts", puts)
    environment.sync(True)
    with environment.begin() as transaction:
        measured("scan", lambda: looped(transaction.cursor()))
        # The first pass fills the caches.
        for what in ("first-gets", "gets"):
            measured(what, lambda: gets(transaction.get))
elif engine == "rocksdict":
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(MEMORY // 4)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(MEMORY // 2))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    database = rocksdict.Rdict(path, options)

    def puts() -> None:
        for at in range(0, records, BATCH):
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key in keys[at : at + BATCH]:
                batch.put(key, value)
            database.write(batch)

    measured("puts", puts)
    database.flush()
    measured("scan", lambda: looped(database.items()))
    # The first pass fills the caches.
    for what in ("first-gets", "gets"):
        measured(what, lambda: gets(database.__getitem__))
