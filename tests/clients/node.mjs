// node-redis and ioredis with their defaults against a server on 127.0.0.1; the port is the argument.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

// The libraries stand in the directory that the program is started in.
const require = createRequire(join(process.cwd(), "start.js"));
const { createClient, RESP_TYPES } = require("redis");
const { Redis } = require("ioredis");

const port = Number(process.argv[2]);
const allBytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const large = Buffer.alloc(1 << 20, allBytes);

async function nodeRedis() {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on("error", (error) => {
    throw error;
  });
  await client.connect();
  assert.equal(await client.set("node:key", "value"), "OK");
  assert.equal(await client.get("node:key"), "value");
  assert.equal(await client.get("node:none"), null);
  assert.equal(await client.incr("node:n"), 1);
  assert.equal(await client.expire("node:key", 100), 1);
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  for (const value of [allBytes, large]) {
    await client.set("node:bytes", value);
    assert.ok(value.equals(await bytes.get("node:bytes")));
  }
  // Commands of one turn go out as one pipeline.
  const pipeline = [client.incr("node:n"), client.get("node:n"), client.mGet(["node:n", "node:none"])];
  assert.deepEqual(await Promise.all(pipeline), [2, "2", ["2", null]]);
  assert.deepEqual(
    await client.multi().incr("node:n").get("node:n").execAsPipeline(),
    [3, "3"],
  );
  await assert.rejects(client.incr("node:key"), /value is not an integer or out of range/);
  await assert.rejects(client.sendCommand(["NOPE"]), /unknown command 'NOPE'/);
  assert.match(await client.info("cluster"), /cluster_enabled:0/);
  assert.deepEqual({ ...(await client.configGet("databases")) }, { databases: "1" });
  assert.equal(await client.del(["node:key", "node:n", "node:bytes"]), 3);
  await client.close();
}

async function ioredis() {
  const client = new Redis(port);
  assert.equal(await client.set("io:key", "value"), "OK");
  assert.equal(await client.get("io:key"), "value");
  assert.equal(await client.get("io:none"), null);
  assert.equal(await client.incr("io:n"), 1);
  assert.equal(await client.expire("io:key", 100), 1);
  for (const value of [allBytes, large]) {
    await client.set("io:bytes", value);
    assert.ok(value.equals(await client.getBuffer("io:bytes")));
  }
  const replies = await client.pipeline().incr("io:n").get("io:n").call("NOPE").exec();
  assert.deepEqual(replies.slice(0, 2), [
    [null, 2],
    [null, "2"],
  ]);
  assert.match(replies[2][0].message, /unknown command 'NOPE'/);
  await assert.rejects(client.incr("io:key"), /value is not an integer or out of range/);
  assert.equal(await client.del("io:key", "io:n", "io:bytes"), 3);
  await client.quit();
}

const version = (name) => require(`${name}/package.json`).version;
await nodeRedis();
console.log(`node-redis ${version("redis")}: passed`);
await ioredis();
console.log(`ioredis ${version("ioredis")}: passed`);
