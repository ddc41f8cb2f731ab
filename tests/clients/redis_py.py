"""redis-py with its defaults against a server on 127.0.0.1; the port is the argument."""

import asyncio
import sys

import redis
import redis.asyncio

PORT = int(sys.argv[1])
ALL_BYTES = bytes(range(256))
LARGE = bytes(range(256)) * 4096


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r:.200} instead of {expected!r:.200}")


def blocking():
    client = redis.Redis(port=PORT)
    same(client.ping(), True)
    same(client.set("py:key", "value"), True)
    same(client.get("py:key"), b"value")
    same(client.get("py:none"), None)
    same([client.incr("py:n") for _ in range(3)], [1, 2, 3])
    same(client.expire("py:key", 100), True)
    same(99 <= client.ttl("py:key") <= 100, True)
    same(client.ttl("py:none"), -2)
    for value in (ALL_BYTES, LARGE):
        same(client.set("py:bytes", value), True)
        same(client.get("py:bytes"), value)
    pipe = client.pipeline(transaction=False)
    pipe.set("py:a", 1).incr("py:a").get("py:none").mget("py:a", "py:none").execute_command("NOPE")
    replies = pipe.execute(raise_on_error=False)
    same(replies[:4], [True, 2, None, [b"2", None]])
    same(str(replies[4]).startswith("unknown command 'NOPE'"), True)
    try:
        client.incr("py:key")
        raise AssertionError("a text was counted")
    except redis.ResponseError as error:
        same("value is not an integer or out of range" in str(error), True)
    info = client.info()
    same((info["cluster_enabled"], info["redis_mode"], info["role"]), (0, "standalone", "master"))
    same(set(client.info("cpu", "keyspace")) >= {"db0"}, True)
    same(client.config_get("databases"), {"databases": "1"})
    same(client.client_setname("py"), True)
    same("py" in [row["name"] for row in client.client_list()], True)
    same(client.command_count() > 30, True)
    same(client.delete("py:key", "py:n", "py:bytes", "py:a"), 4)
    second = redis.Redis(port=PORT, protocol=2, client_name="second", decode_responses=True)
    same((second.client_getname(), second.get("py:none")), ("second", None))


async def waiting():
    client = redis.asyncio.Redis(port=PORT, username="default", password="any")
    same(await client.set("py:async", LARGE), True)
    same(await client.get("py:async"), LARGE)
    pipe = client.pipeline(transaction=False)
    same(await pipe.incr("py:m").expire("py:m", 10).get("py:m").execute(), [1, True, b"1"])
    same(await client.delete("py:async", "py:m"), 2)
    await client.aclose()


blocking()
asyncio.run(waiting())
print(f"redis-py {redis.__version__}: passed")
