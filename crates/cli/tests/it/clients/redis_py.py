"""redis-py as an application uses it, in both protocols. Argument: the port of the server."""
import asyncio
import sys
import threading

import redis
import redis.asyncio

PORT = int(sys.argv[1])


def connect(**options):
    return redis.Redis(port=PORT, decode_responses=True, socket_timeout=10, **options)


def basic_types(r):
    r.flushall()
    assert r.set("s", "v", ex=1000, nx=True) is True
    assert r.set("s", "w", nx=True) is None
    assert r.get("s") == "v" and 990 < r.ttl("s") <= 1000
    assert r.incrby("n", 5) == 5 and r.incrbyfloat("f", 0.5) == 0.5
    assert r.mget("s", "missing", "n") == ["v", None, "5"]
    assert r.hset("h", mapping={"a": "1", "b": "2"}) == 2
    assert r.hgetall("h") == {"a": "1", "b": "2"}
    assert r.rpush("l", *"abc") == 3 and r.lrange("l", 0, -1) == ["a", "b", "c"]
    assert r.lpos("l", "c") == 2 and r.lmove("l", "m", "LEFT", "RIGHT") == "a"
    assert r.sadd("e", "x", "y") == 2 and r.smembers("e") == {"x", "y"}
    assert r.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
    assert r.zscore("z", "b") == 2.5 and r.zscore("z", "c") == float("inf")
    assert [list(p) for p in r.zrange("z", 0, 1, withscores=True)] == [["a", 1.0], ["b", 2.5]]
    assert r.zrange("z", "(1", "+inf", byscore=True) == ["b", "c"]
    assert r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert abs(r.geodist("g", "Palermo", "Catania", unit="km") - 166.2742) < 0.001
    assert r.geosearch("g", longitude=15, latitude=37, radius=100, unit="km") == ["Catania"]
    assert r.pfadd("p", *"abcde") == 1 and r.pfcount("p") == 5
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.type("z") == "zset" and r.object("encoding", "n") == "int"
    assert sorted(r.scan_iter("?")) == sorted(["s", "n", "f", "h", "l", "m", "e", "z", "g", "p"])
    try:
        r.lpush("s", "x")
        raise AssertionError("a list command on a string must fail")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error) or "wrong kind" in str(error)


def pipelines(r):
    r.flushall()
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.rpush("l", n)
        assert pipe.execute() == list(range(1, 1001))
    with r.pipeline() as pipe:
        pipe.set("a", 1).incr("a").get("a")
        assert pipe.execute() == [True, 2, "2"]
    with r.pipeline() as pipe:
        pipe.watch("a")
        r.set("a", "changed")
        pipe.multi()
        pipe.set("a", "lost")
        try:
            pipe.execute()
            raise AssertionError("the watched key was changed")
        except redis.WatchError:
            pass
    assert r.get("a") == "changed"


def pubsub(r):
    sub = r.pubsub()
    sub.subscribe("news")
    sub.psubscribe("w*")
    assert sub.get_message(timeout=5)["type"] == "subscribe"
    assert sub.get_message(timeout=5)["type"] == "psubscribe"
    assert r.publish("news", "hello") == 1 and r.publish("weather", "rain") == 1
    message = sub.get_message(timeout=5)
    assert (message["type"], message["data"]) == ("message", "hello")
    message = sub.get_message(timeout=5)
    assert (message["pattern"], message["channel"], message["data"]) == ("w*", "weather", "rain")
    sub.unsubscribe()
    sub.close()


def blocking(r):
    r.delete("queue")
    got = []
    waiter = threading.Thread(target=lambda: got.append(connect().blpop("queue", timeout=10)))
    waiter.start()
    while r.info("clients")["blocked_clients"] == 0:
        pass
    assert r.rpush("queue", "job") == 1
    waiter.join()
    assert [list(item) for item in got] == [["queue", "job"]]
    assert r.blpop("queue", timeout=0.01) is None


def scripts(r):
    script = r.register_script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
    r.delete("counter")
    assert script(keys=["counter"], args=["x"]) == ["counter", "x", 1]
    assert script(keys=["counter"], args=["y"]) == ["counter", "y", 2]
    assert r.eval("return cjson.encode({ARGV[1]})", 0, "z") == '["z"]'
    code = "#!lua name=mylib\nredis.register_function('plus', function(k, a) return a[1] + 1 end)"
    assert r.function_load(code, replace=True) == "mylib"
    assert int(r.fcall("plus", 0, 41)) == 42


def streams(r):
    r.delete("events")
    ids = [r.xadd("events", {"n": n}) for n in range(5)]
    assert r.xlen("events") == 5
    assert [entry[0] for entry in r.xrange("events")] == ids
    assert r.xgroup_create("events", "g", id="0") is True
    first = r.xreadgroup("g", "c", {"events": ">"}, count=2)
    entries = first["events"][0] if isinstance(first, dict) else first[0][1]
    assert [entry[0] for entry in entries] == ids[:2]
    assert r.xack("events", "g", ids[0]) == 1
    assert r.xpending("events", "g")["pending"] == 1
    claimed = r.xautoclaim("events", "g", "d", min_idle_time=0)
    assert [entry[0] for entry in claimed[1]] == [ids[1]]
    assert r.xinfo_stream("events")["length"] == 5
    assert r.xtrim("events", maxlen=2, approximate=False) == 3


async def asynchronous(protocol):
    r = redis.asyncio.Redis(port=PORT, decode_responses=True, protocol=protocol)
    await asyncio.gather(*(r.set(f"async:{n}", n) for n in range(80)))
    values = await asyncio.gather(*(r.get(f"async:{n}") for n in range(80)))
    assert values == [str(n) for n in range(80)]
    await r.aclose()


def server(r):
    assert r.ping() is True and r.echo("x") == "x"
    assert r.config_get("maxmemory")["maxmemory"] == "0"
    assert r.client_setname("tester") and r.client_getname() == "tester"
    assert any(c["name"] == "tester" for c in r.client_list())
    assert r.info("server")["redis_version"].startswith("7.0")
    assert r.command_count() > 200 and r.dbsize() >= 0
    assert isinstance(r.slowlog_get(1), list) and r.time()[0] > 1_600_000_000


for protocol in (2, 3):
    client = connect(protocol=protocol)
    for part in (basic_types, pipelines, pubsub, blocking, scripts, streams, server):
        try:
            part(client)
        except Exception as error:
            raise SystemExit(f"{part.__name__}, protocol {protocol}: {error!r}") from error
    asyncio.run(asynchronous(protocol))
print("redis-py", redis.__version__, "is content")
