"""Checks what Python's clients do with a server: check.py NAME REDIS_PORT MEMCACHED_PORT."""

import asyncio
import sys

name, redis_port, memcached_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def redis_py():
    import redis

    for protocol in (2, 3):
        client = redis.Redis(port=redis_port, protocol=protocol, decode_responses=True)
        client.flushdb()
        assert client.ping()
        assert client.set("key", "value", ex=100) and client.get("key") == "value"
        assert 0 < client.ttl("key") <= 100
        with client.pipeline() as pipeline:
            pipeline.incr("count").incr("count").hset("hash", mapping={"a": 1, "b": 2})
            assert pipeline.execute() == [1, 2, 2]
        assert client.hgetall("hash") == {"a": "1", "b": "2"}
        client.zadd("scores", {"one": 1, "two": 2.5})
        assert client.zrange("scores", 0, -1, withscores=True) in (
            [("one", 1.0), ("two", 2.5)],
            [["one", 1.0], ["two", 2.5]],
        )
        assert client.zunion(["scores", "scores"]) == ["one", "two"]
        client.mset({f"many:{number}": number for number in range(500)})
        assert len(list(client.scan_iter("many:*", count=50))) == 500
        client.setbit("bits", 7, 1)
        assert client.bitcount("bits") == 1
        info = client.info("everything")
        assert info["role"] == "master" and info["redis_version"] and info["used_memory"] > 0
        assert info["db0"]["keys"] >= 500
        assert client.info("commandstats")["cmdstat_get"]["calls"] >= 1
        assert client.memory_usage("key") > 0
        assert client.role()[0] in ("master", b"master")
        assert any(row["cmd"] == "client|list" for row in client.client_list())
        client.config_set("slowlog-log-slower-than", 0)
        assert client.slowlog_get(5)
        client.config_set("slowlog-log-slower-than", 10000)
        client.latency_reset()
        assert not client.latency_latest() and not client.module_list()
        with client.monitor() as monitor:
            redis.Redis(port=redis_port).get("watched")
            # A connection identifies its library before its first command.
            commands = (monitor.next_command()["command"] for _ in range(10))
            assert any("watched" in command for command in commands)


async def redis_py_asyncio():
    import redis.asyncio

    client = redis.asyncio.Redis(port=redis_port)
    await client.flushdb()
    await asyncio.gather(*(client.set(f"key:{number}", number) for number in range(100)))
    assert await client.get("key:99") == b"99"
    async with client.pipeline(transaction=True) as pipeline:
        await pipeline.watch("key:1")
        pipeline.multi()
        pipeline.incr("key:1")
        assert await pipeline.execute() == [2]
    await client.aclose()


def pymemcache():
    from pymemcache.client.base import Client

    client = Client(("127.0.0.1", memcached_port))
    client.flush_all()
    assert client.set("key", b"value", noreply=False) and client.get("key") == b"value"
    client.set_many({f"key{number}": str(number) for number in range(100)}, noreply=False)
    assert client.get_many(["key1", "key99"]) == {"key1": b"1", "key99": b"99"}
    client.set("count", b"1", noreply=False)
    assert client.incr("count", 5) == 6
    value, cas = client.gets("count")
    assert value == b"6" and client.cas("count", b"7", cas)
    assert client.delete("key", noreply=False) and client.get("key") is None
    stats = client.stats()
    assert stats[b"curr_items"] >= 100 and stats[b"cas_hits"] >= 1 and stats[b"delete_hits"] >= 1
    assert client.stats("settings")[b"cas_enabled"] in (True, b"yes", 1)


def django():
    import django
    from django.conf import settings

    settings.configure(
        CACHES={
            "default": {
                "BACKEND": "django.core.cache.backends.redis.RedisCache",
                "LOCATION": f"redis://127.0.0.1:{redis_port}/14",
            },
            "memcached": {
                "BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache",
                "LOCATION": f"127.0.0.1:{memcached_port}",
            },
        }
    )
    django.setup()
    from django.core.cache import caches

    for alias in ("default", "memcached"):
        cache = caches[alias]
        cache.clear()
        assert cache.add("key", {"a": [1, 2]}, 60) and not cache.add("key", 1)
        assert cache.get("key") == {"a": [1, 2]}
        cache.set_many({"one": 1, "two": 2}, 60)
        assert cache.get_many(["one", "two", "none"]) == {"one": 1, "two": 2}
        assert cache.incr("one", 4) == 5 and cache.touch("one", 100)
        cache.delete_many(["one", "two"])
        assert cache.get("one") is None


{
    "redis-py": redis_py,
    "redis-py-asyncio": lambda: asyncio.run(redis_py_asyncio()),
    "pymemcache": pymemcache,
    "django": django,
}[name]()
print("done")
