// Checks ioredis against a server: check.mjs PORT.
import assert from "node:assert";
import Redis from "ioredis";

const port = Number(process.argv[2]);
for (const options of [{ port }, { port, enableAutoPipelining: true }]) {
  const client = new Redis(options);
  await client.flushdb();
  assert.equal(await client.set("key", "value", "EX", 100), "OK");
  assert.equal(await client.get("key"), "value");
  assert.deepEqual(await Promise.all(Array.from({ length: 50 }, () => client.incr("count"))), Array.from({ length: 50 }, (_, index) => index + 1));
  const replies = await client.pipeline().hset("hash", { a: 1, b: 2 }).hgetall("hash").exec();
  assert.deepEqual(replies, [[null, 2], [null, { a: "1", b: "2" }]]);
  assert.deepEqual(await client.multi().lpush("list", 1, 2).lrange("list", 0, -1).exec(), [[null, 2], [null, ["2", "1"]]]);
  await client.zadd("scores", 1, "one", 2, "two");
  assert.deepEqual(await client.zrangebyscore("scores", 1, 2, "WITHSCORES"), ["one", "1", "two", "2"]);
  const found = [];
  for await (const keys of client.scanStream({ match: "*", count: 2 })) found.push(...keys);
  assert.equal(found.length, 5);
  assert.match(await client.info(), /role:master/);
  const monitor = await client.monitor();
  const seen = new Promise((resolve) => monitor.on("monitor", (time, args) => args.includes("watched") && resolve()));
  await client.get("watched");
  await seen;
  monitor.disconnect();
  client.disconnect();
}
console.log("done");
