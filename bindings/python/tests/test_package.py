"""Tests of the package: mappings, codecs, scans, asyncio, threads, shelf and dbm."""

from __future__ import annotations

import asyncio
import collections.abc
import doctest
import gc
import itertools
import os
import pickle
import random
import re
import shelve
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import alluvium
from alluvium import codecs, dbm, errors, shelf

ROOT = Path(__file__).resolve().parents[3]


def store(path: str | None = None) -> alluvium.Store:
    return alluvium.Store(path, "--memory 16M --workers 1")


class Mappings(unittest.TestCase):
    def test_a_keyspace_is_a_mutable_mapping(self) -> None:
        with store() as s:
            k = s["k"]
            self.assertIsInstance(k, collections.abc.MutableMapping)
            self.assertTrue(issubclass(alluvium.Keyspace, collections.abc.MutableMapping))
            k[b"b"] = b"2"
            k.update({b"a": b"1", b"c": b"3"})
            k.update([(b"d", b"4")])
            self.assertEqual(list(k), [b"a", b"b", b"c", b"d"])
            self.assertEqual(list(k.items()), [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")])
            self.assertEqual(list(reversed(k)), [b"d", b"c", b"b", b"a"])
            self.assertEqual(list(reversed(k.items()))[0], (b"d", b"4"))
            self.assertEqual(list(k.values()), [b"1", b"2", b"3", b"4"])
            self.assertEqual(list(reversed(k.values())), [b"4", b"3", b"2", b"1"])
            self.assertEqual((len(k), len(k.items())), (4, 4))
            self.assertIn((b"a", b"1"), k.items())
            self.assertIn(b"3", k.values())
            self.assertEqual(k.keys() & {b"a", b"z"}, {b"a"})
            self.assertEqual(dict(k), {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"})
            self.assertEqual((k.get(b"a"), k.get(b"z"), k.get(b"z", 7)), (b"1", None, 7))
            with self.assertRaises(KeyError) as raised:
                k[b"z"]
            self.assertEqual(raised.exception.args, (b"z",))
            with self.assertRaises(KeyError):
                del k[b"z"]
            self.assertEqual((k.pop(b"a"), k.pop(b"a", None), b"a" in k), (b"1", None, False))
            with self.assertRaises(KeyError):
                k.pop(b"a")
            self.assertEqual((k.setdefault(b"b", b"9"), k.setdefault(b"e", b"5"), k[b"e"]), (b"2", b"5", b"5"))
            self.assertEqual(k.popitem(), (b"b", b"2"))
            k.clear()
            self.assertEqual((len(k), list(k)), (0, []))
            with self.assertRaises(KeyError):
                k.popitem()
            for wrong in ("text", 1, None):
                with self.assertRaises(TypeError):
                    k[wrong] = b""  # type: ignore[index]
            with self.assertRaises(TypeError):
                k.update(a=b"1")

    def test_ranges_prefixes_and_directions(self) -> None:
        with store() as s:
            k = s["k"]
            keys = [b"%03d" % n for n in range(300)]
            self.assertEqual(k.put_many((key, key * 30) for key in keys), 300)
            self.assertEqual(list(k.range(b"010", b"013", keys=True)), keys[10:13])
            self.assertEqual(list(k.range(after=b"010", through=b"013", keys=True)), keys[11:14])
            self.assertEqual(list(k.range(prefix=b"01", keys=True, reverse=True)), keys[10:20][::-1])
            self.assertEqual(list(k.prefix(b"29", values=True)), [key * 30 for key in keys[290:]])
            self.assertEqual(list(k.range(reverse=True)), [(key, key * 30) for key in keys[::-1]])
            with self.assertRaises(ValueError):
                k.range(b"a", prefix=b"b")
            with self.assertRaises(ValueError):
                k.range(b"a", after=b"b")
            scan = k.range(keys=True)
            self.assertEqual(list(itertools.islice(scan, 3)), keys[:3])
            scan.seek(b"200")
            self.assertEqual(list(scan), keys[200:])

    def test_long_values_need_long_pages(self) -> None:
        with store() as s:
            k = s["k"]
            records = {b"%02d" % n: os.urandom(n * 17_000) for n in range(12)}
            k.update(records)
            self.assertEqual(dict(k.items()), records)
            self.assertEqual(list(reversed(k.values())), list(records.values())[::-1])

    def test_bulk_puts_of_iterables_and_buffers(self) -> None:
        with store() as s:
            k = s["k"]
            self.assertEqual(k.put_many([(bytearray(b"a"), b"1")], durability="disk"), 1)
            with self.assertRaises(errors.InvalidArgumentError):
                k.put_many([], durability="dish")
            with self.assertRaises(TypeError):
                k.put_many([(b"a", "text")])
            keys = b"".join(n.to_bytes(4, "big") for n in range(10_000))
            values = bytearray(n % 256 for n in range(80_000))
            self.assertEqual(k.put_buffers(keys, values, key_size=4, value_size=8), 10_000)
            self.assertEqual(k[(77).to_bytes(4, "big")], bytes(values[77 * 8 : 78 * 8]))
            self.assertEqual(k.put_buffers(memoryview(b"xy"), b"", key_size=1, value_size=0), 2)
            for keys_, values_, size in ((b"abc", b"", 2), (b"ab", b"abc", 1), (b"ab", b"", 0)):
                with self.assertRaises(errors.InvalidArgumentError):
                    k.put_buffers(keys_, values_, key_size=size, value_size=1)
            with k.ingest() as ingest:
                ingest.put_many((b"z%05d" % n, b"v") for n in range(1000))
            self.assertEqual(len(list(k.prefix(b"z"))), 1000)
            with self.assertRaises(ZeroDivisionError), k.ingest() as ingest:
                ingest.put(b"zz", b"v")
                raise ZeroDivisionError
            self.assertNotIn(b"zz", k)

    def test_numpy_arrays_are_buffers(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        with store() as s:
            k = s["k"]
            keys = numpy.arange(1000, dtype=">u4")
            values = numpy.arange(1000, dtype="<f8")
            self.assertEqual(k.put_buffers(keys, values, key_size=4, value_size=8), 1000)
            read = numpy.frombuffer(b"".join(k.values()), dtype="<f8")
            self.assertTrue((read == values).all())


class Codecs(unittest.TestCase):
    def test_integers_keep_their_order(self) -> None:
        edges = [1 << n for n in range(0, 130)] + [(1 << n) - 1 for n in range(0, 130)] + [255, 256, 257]
        numbers = sorted(set(edges) | {-n for n in edges} | {0})
        encoded = [codecs.integer.encode(n) for n in numbers]
        self.assertEqual(encoded, sorted(encoded))
        self.assertEqual([codecs.integer.decode(e) for e in encoded], numbers)
        for wrong in (b"", b"\x82a", b"\x80a"):
            with self.assertRaises(ValueError):
                codecs.integer.decode(wrong)
        with self.assertRaises(TypeError):
            codecs.integer.encode("1")
        with self.assertRaises(OverflowError):
            codecs.integer.encode(1 << 2000)

    def test_tuples_keep_their_order(self) -> None:
        draw = random.Random(62)

        def part(depth: int) -> object:
            kind = draw.randrange(8 if depth else 7)
            if kind == 3:
                return draw.choice([0, -1, 1, draw.randrange(-(1 << 70), 1 << 70)])
            if kind == 4:
                return draw.choice([0.5, -0.5, draw.uniform(-1e300, 1e300), float("-inf"), 1e-300])
            if kind == 5:
                return bytes(draw.choice(b"\x00\x01\xff") for _ in range(draw.randrange(4)))
            if kind == 6:
                return "".join(draw.choice("\x00aé\U0001f600") for _ in range(draw.randrange(4)))
            if kind == 7:
                return tuple(part(depth - 1) for _ in range(draw.randrange(3)))
            return (None, False, True)[kind]

        def rank(value: object) -> object:
            """What tuples of mixed types are compared by."""
            order = [type(None), bool, int, float, bytes, str, tuple]
            if isinstance(value, tuple):
                return (6, [rank(part) for part in value])
            inner = value.encode() if isinstance(value, str) else value
            return (order.index(type(value)), 0 if value is None else inner)

        tuples = [tuple(part(2) for _ in range(draw.randrange(4))) for _ in range(3000)]
        encoded = [codecs.tuples.encode(t) for t in tuples]
        self.assertEqual([codecs.tuples.decode(e) for e in encoded], tuples)
        by_bytes = [t for _, t in sorted(zip(encoded, range(len(tuples))))]
        ranks = [rank(tuples[at]) for at in by_bytes]
        self.assertTrue(all(a <= b for a, b in zip(ranks, ranks[1:])))
        for _ in range(3000):
            bad = bytes(draw.randrange(10) for _ in range(draw.randrange(12)))
            try:
                codecs.tuples.decode(bad)
            except (ValueError, UnicodeDecodeError):
                pass

    def test_typed_keyspaces(self) -> None:
        with store() as s:
            years = s["years"].typed(codecs.integer, codecs.json)
            years[1002] = {"flood": True}
            years.update({-5: None, 1342: [1, 2]})
            self.assertEqual(list(years), [-5, 1002, 1342])
            self.assertEqual(list(years.range(0, 1342)), [(1002, {"flood": True})])
            self.assertEqual(list(reversed(years.items()))[0], (1342, [1, 2]))
            self.assertEqual((years[1342], years.get(7), 7 in years, len(years)), ([1, 2], None, False, 3))
            del years[1342]
            self.assertEqual(years.pop(-5), None)
            with self.assertRaises(KeyError):
                years[1342]
            names = s["names"].typed(codecs.tuples, codecs.text)
            names["Elbe", 1] = "Labe"
            names["Elbe", -1] = "Albis"
            self.assertEqual(list(names.values()), ["Albis", "Labe"])
            objects = s["objects"].typed(codecs.text, codecs.pickled())
            objects["a"] = {1, 2}
            self.assertEqual(objects["a"], {1, 2})
            with self.assertRaises(TypeError):
                names["a", 1] = 7
            names.clear()
            self.assertEqual(len(names), 0)


class Lifetimes(unittest.TestCase):
    def test_with_closes_the_store_and_what_lives_on_answers(self) -> None:
        with store() as s:
            k = s["k"]
            k[b"a"] = b"1"
            scan, snapshot, transaction = iter(k), s.snapshot(), s.begin()
        self.assertTrue(s.closed)
        for call in (
            lambda: next(scan),
            lambda: k[b"a"],
            lambda: snapshot.get(k, b"a"),
            lambda: transaction.get(k, b"a"),
            lambda: s["k"],
            lambda: list(k),
            lambda: len(k),
        ):
            self.assertRaises(alluvium.ClosedError, call)
        self.assertRaises(alluvium.ClosedError, s.close)

    def test_close_names_what_lives(self) -> None:
        s = store()
        k = s["rivers"]
        k[b"a"] = b"1"
        scan = k.range()
        with self.assertRaises(alluvium.InUseError) as raised:
            s.close()
        self.assertIn('an iterator over "rivers"', str(raised.exception))
        self.assertEqual(raised.exception.kind, "in_use")
        self.assertEqual(list(scan), [(b"a", b"1")])
        s.close()

    def test_a_scan_gives_back_what_it_holds_at_its_end(self) -> None:
        with store() as s:
            k = s["k"]
            k.update({b"%d" % n: b"v" for n in range(100)})
            scan = k.range()
            self.assertEqual(s.live, 1)
            list(scan)
            self.assertEqual(s.live, 0)
            self.assertEqual(list(scan), [])
            with k.range() as other:
                next(other)
                self.assertEqual(s.live, 1)
            self.assertEqual(s.live, 0)
            self.assertRaises(alluvium.ClosedError, next, other)
            for _ in k:
                break
            gc.collect()
            self.assertEqual(s.live, 0)

    def test_objects_are_freed_in_any_order(self) -> None:
        for order in itertools.permutations(range(4)):
            s = store()
            k = s["k"]
            k[b"a"] = b"1"
            held: list[object] = [s, k, k.range(), s.snapshot()]
            del s, k
            for at in order:
                held[at] = None
                gc.collect()

    def test_a_store_is_locked_until_its_last_object_is_gone(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            s = store(place + "/s")
            scan = s["k"].range()
            del s
            self.assertRaises(alluvium.LockedError, store, place + "/s")
            del scan
            gc.collect()
            store(place + "/s").close()

    def test_a_thousand_openings_keep_no_memory(self) -> None:
        def cycle(number: int) -> None:
            s = store()
            k = s["k"]
            k[b"a"] = b"1"
            scan = k.range()
            next(scan)
            t = s.begin()
            t.put(k, b"b", b"2")
            if number % 2:
                s.close(force=True)

        def resident() -> int:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

        if "MALLOC_ARENA_MAX" not in os.environ:
            # The allocator of C keeps memory for each thread that has used it.
            command = [sys.executable, __file__, "Lifetimes." + self._testMethodName]
            done = subprocess.run(command, env=os.environ | {"MALLOC_ARENA_MAX": "1"}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return
        for number in range(300):
            cycle(number)
        before = resident()
        for number in range(700):
            cycle(number)
        self.assertLess(resident() - before, 16 << 20)

    def test_subclasses_and_weak_references_to_errors(self) -> None:
        self.assertEqual(set(errors.KINDS), set(alluvium._alluvium.ERROR_KINDS))
        for kind, value in errors.KINDS.items():
            self.assertTrue(issubclass(value, alluvium.Error))
            self.assertEqual(pickle.loads(pickle.dumps(value("why"))).kind, kind)
        self.assertEqual(errors.exception_of("new", "why").kind, "new")
        self.assertIsNotNone(weakref.ref(errors.exception_of("closed", "why")))


class Transactions(unittest.TestCase):
    def test_with_commits_or_rolls_back(self) -> None:
        with store() as s:
            k = s["k"]
            with s.begin() as t:
                t.put(k, b"a", b"1")
            with self.assertRaises(ZeroDivisionError), s.begin() as t:
                t.put(k, b"b", b"1")
                raise ZeroDivisionError
            with s.begin() as t:
                t.put(k, b"c", b"1")
                t.rollback()
            self.assertEqual(list(k), [b"a"])

    def test_a_function_is_run_again_after_a_conflict(self) -> None:
        with store() as s:
            k = s["k"]
            k[b"n"] = b"0"
            barrier = threading.Barrier(4)

            def count() -> None:
                barrier.wait()
                for _ in range(50):
                    s.transaction(lambda t: t.put(k, b"n", b"%d" % (int(t.get(k, b"n") or b"0") + 1)), tries=10_000)

            threads = [threading.Thread(target=count) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(k[b"n"], b"200")

            def never(t: alluvium.Transaction) -> None:
                t.get(k, b"n")
                k[b"n"] = b"changed"
                t.put(k, b"m", b"1")

            self.assertRaises(alluvium.ConflictError, s.transaction, never, tries=3)


class Asynchronous(unittest.TestCase):
    def test_reads_and_writes_do_not_block_the_loop(self) -> None:
        async def work() -> None:
            with tempfile.TemporaryDirectory() as place, store(place + "/s") as s:
                k = s["k"]
                await asyncio.gather(*(k.aput(b"%d" % n, b"v" * 5000) for n in range(200)))
                s.checkpoint()
                found = await asyncio.gather(*(k.aget(b"%d" % n) for n in range(201)))
                self.assertEqual(found, [b"v" * 5000] * 200 + [None])
                await k.adelete(b"7")
                batch = alluvium.Batch("disk")
                batch.put(k, b"x", b"y")
                await s.awrite(batch)
                self.assertEqual((k.get(b"7"), k[b"x"]), (None, b"y"))
                with self.assertRaises(errors.InvalidArgumentError):
                    await k.aput(b"k" * 70_000, b"")
                waiting = asyncio.ensure_future(k.aget(b"x"))
                waiting.cancel()
                s.close()
                with self.assertRaises(alluvium.ClosedError):
                    await k.aget(b"x")

        asyncio.run(work())


    def test_a_store_is_dropped_while_reads_are_pending(self) -> None:
        # Threads of the store wait for the interpreter to wake a coroutine, and the drop of the last
        # object waits for these threads.
        async def work(place: str) -> None:
            k = store(place)["k"]
            pending = [asyncio.ensure_future(k.aget(b"%d" % n)) for n in range(100)]
            await asyncio.sleep(0)
            for one in pending:
                one.cancel()
            del k, pending, one

        with tempfile.TemporaryDirectory() as place:
            s = store(place + "/s")
            s["k"].put_many((b"%d" % n, os.urandom(20_000)) for n in range(100))
            s.close()
            for _ in range(20):
                asyncio.run(work(place + "/s"))
                gc.collect()


class Threads(unittest.TestCase):
    def test_threads_scan_and_write_while_the_store_is_closed(self) -> None:
        for _ in range(5):
            s = store()
            k = s["k"]
            k.update({b"%03d" % n: b"v" * 50 for n in range(500)})
            came: list[object] = []

            def work() -> None:
                try:
                    while True:
                        k[b"x"] = b"y"
                        for _ in k.items():
                            pass
                except alluvium.Error as error:
                    came.append(error.kind)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            s.close(force=True)
            for thread in threads:
                thread.join()
            self.assertEqual(came, ["closed"] * 4)

    def test_threads_share_a_scan(self) -> None:
        with store() as s:
            k = s["k"]
            k.update({b"%05d" % n: b"v" for n in range(20_000)})
            scan, found = k.range(keys=True), []

            def work() -> None:
                own = list(scan)
                found.extend(own)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(found), [b"%05d" % n for n in range(20_000)])


class Replacements(unittest.TestCase):
    def test_a_shelf_is_a_shelf(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            with shelf.open(place + "/s") as library:
                self.assertIsInstance(library, shelve.Shelf)
                library["Elbe"] = {"length": 1094}
                library["Oder"] = [1, 2]
                self.assertEqual(sorted(library), ["Elbe", "Oder"])
            with shelf.open(place + "/s", writeback=True) as library:
                library["Oder"].append(3)
            with shelf.open(place + "/s", flag="r") as library:
                self.assertEqual((library["Oder"], len(library), "Rhine" in library), ([1, 2, 3], 2, False))
                with self.assertRaises(alluvium.Error):
                    library["Rhine"] = 1

    def test_a_database_has_the_functions_of_dbm(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            path = place + "/d"
            self.assertRaises(dbm.error, dbm.open, path)
            self.assertRaises(dbm.error, dbm.open, path, "w")
            self.assertRaises(dbm.error, dbm.open, path, "x")
            with dbm.open(path, "c") as db:
                db["b"] = "2"
                db[b"a"] = b"1"
                self.assertEqual((db["a"], db.get("z"), db.get("z", 7), "b" in db, len(db)), (b"1", None, 7, True, 2))
                self.assertEqual((db.keys(), db.firstkey(), db.nextkey("a"), db.nextkey(b"b")), ([b"a", b"b"], b"a", b"b", None))
                self.assertEqual(db.setdefault("c", "3"), b"3")
                del db["c"]
                self.assertRaises(KeyError, lambda: db["c"])
                db.sync()
                db.reorganize()
            db.close()
            self.assertRaises(dbm.error, lambda: db["a"])
            self.assertEqual((dbm.whichdb(path), dbm.whichdb(place)), ("alluvium.dbm", None))
            with dbm.open(path) as db:
                self.assertEqual(db[b"b"], b"2")
                with self.assertRaises(dbm.error):
                    db["x"] = "y"
            with dbm.open(path, "n") as db:
                self.assertEqual(len(db), 0)


class Pages(unittest.TestCase):
    def test_the_examples_of_the_page_run(self) -> None:
        text = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertGreaterEqual(len(blocks), 3)
        with tempfile.TemporaryDirectory() as place:
            program = "\n".join(blocks)
            done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_examples_of_the_package_run(self) -> None:
        failed, tried = doctest.testmod(alluvium)
        self.assertTrue(tried > 0 and failed == 0)


class Contract(unittest.TestCase):
    def test_the_contract_suite_holds(self) -> None:
        sys.path.insert(0, str(Path(__file__).parent))
        import contract

        files = sorted(str(path) for path in (ROOT / "bindings/contract").glob("*.toml"))
        cases, runs, failed = contract.run(files)
        print(f"contract: {cases} cases, {runs} runs, {len(failed)} failed")
        self.assertEqual(failed, [])
        self.assertGreaterEqual(cases, 300)

    def test_a_case_that_does_not_hold_is_found(self) -> None:
        sys.path.insert(0, str(Path(__file__).parent))
        import contract

        for wrong in (
            "get k a = 1",
            "put k a 1\nget k a = absent",
            "put k a 1\nget k a ! closed",
            'open d memory "--colour" ! closed',
            'open d memory "--colour" ! invalid_argument elephant',
            "put k a 1\niter i k\nrest i = a 1 b 2",
        ):
            self.assertIsNotNone(contract.run_case(wrong, "tiered"), wrong)


if __name__ == "__main__":
    unittest.main()
