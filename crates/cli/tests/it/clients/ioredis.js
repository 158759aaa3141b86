// ioredis as an application uses it. Argument: the port of the server.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

const port = Number(process.argv[2]);
const connect = (options = {}) => new Redis({ port, maxRetriesPerRequest: 0, ...options });

async function basicTypes(r) {
  await r.flushall();
  assert.equal(await r.set("s", "v", "EX", 1000, "NX"), "OK");
  assert.equal(await r.set("s", "w", "NX"), null);
  assert.equal(await r.get("s"), "v");
  assert.deepEqual(await r.mget("s", "missing"), ["v", null]);
  assert.equal(await r.hset("h", { a: 1, b: 2 }), 2);
  assert.deepEqual(await r.hgetall("h"), { a: "1", b: "2" });
  assert.equal(await r.rpush("l", "a", "b", "c"), 3);
  assert.deepEqual(await r.lrange("l", 0, -1), ["a", "b", "c"]);
  assert.deepEqual((await r.sadd("e", 1, 2, 3), (await r.smembers("e")).sort()), ["1", "2", "3"]);
  assert.equal(await r.zadd("z", 1, "a", 2.5, "b"), 2);
  assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["a", "1", "b", "2.5"]);
  assert.deepEqual(await r.getBuffer("s"), Buffer.from("v"));
  const bytes = Buffer.from([0, 255, 13, 10]);
  await r.set("binary", bytes);
  assert.deepEqual(await r.getBuffer("binary"), bytes);
  await assert.rejects(r.lpush("s", "x"), /WRONGTYPE/);
  const seen = [];
  for await (const keys of r.scanStream({ match: "?", count: 2 })) seen.push(...keys);
  assert.deepEqual([...new Set(seen)].sort(), ["e", "h", "l", "s", "z"]);
}

async function pipelinesAndTransactions(r) {
  await r.flushall();
  const pipe = r.pipeline();
  for (let n = 0; n < 500; n++) pipe.incr("n");
  const replies = await pipe.exec();
  assert.equal(replies[499][1], 500);
  assert.deepEqual(await r.multi().set("a", 1).incr("a").lpush("a", "x").exec().then((all) => all.map(([e, v]) => (e ? "error" : v))), ["OK", 2, "error"]);
  await r.watch("a");
  const other = connect();
  await other.set("a", "changed");
  assert.equal(await r.multi().set("a", "lost").exec(), null);
  await other.quit();
  const auto = connect({ enableAutoPipelining: true });
  const values = await Promise.all(Array.from({ length: 300 }, (_, n) => auto.set(`k${n}`, n)));
  assert.ok(values.every((value) => value === "OK"));
  await auto.quit();
}

async function pubsub(r) {
  const sub = connect();
  const messages = [];
  const done = new Promise((resolve) => {
    const note = (...words) => messages.push(words) === 2 && resolve();
    sub.on("message", (channel, text) => note(channel, text));
    sub.on("pmessage", (pattern, channel, text) => note(pattern, channel, text));
  });
  assert.equal(await sub.subscribe("news"), 1);
  assert.equal(await sub.psubscribe("w*"), 2);
  assert.equal(await r.publish("news", "hello"), 1);
  assert.equal(await r.publish("weather", "rain"), 1);
  await done;
  assert.deepEqual(messages, [["news", "hello"], ["w*", "weather", "rain"]]);
  await sub.quit();
}

async function blocking(r) {
  await r.del("queue");
  const waiting = connect();
  const popped = waiting.blpop("queue", 10);
  while (!/blocked_clients:1/.test(await r.info("clients")));
  await r.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);
  assert.equal(await waiting.blpop("queue", 0.01), null);
  await waiting.quit();
}

async function scripts(r) {
  r.defineCommand("bump", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  await r.del("counter");
  assert.equal(await r.bump("counter", 5), 5);
  assert.equal(await r.bump("counter", 2), 7);
  await assert.rejects(r.eval("return redis.call('LPUSH', 'counter', 1)", 0), /WRONGTYPE/);
}

async function streams(r) {
  await r.del("events");
  await r.xgroup("CREATE", "events", "g", "$", "MKSTREAM");
  const id = await r.xadd("events", "*", "f", "v");
  const read = await r.xreadgroup("GROUP", "g", "c", "STREAMS", "events", ">");
  assert.deepEqual(read, [["events", [[id, ["f", "v"]]]]]);
  assert.equal(await r.xack("events", "g", id), 1);
}

async function main() {
  const r = connect();
  for (const part of [basicTypes, pipelinesAndTransactions, pubsub, blocking, scripts, streams]) {
    try {
      await part(r);
    } catch (error) {
      error.message = `${part.name}: ${error.message}`;
      throw error;
    }
  }
  await r.quit();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
