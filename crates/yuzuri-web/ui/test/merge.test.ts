import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Ring } from "../src/ring";

test("buckets are joined as the server joins them", () => {
  const { first, joined } = JSON.parse(readFileSync("../tests/data/merged-buckets.json", "utf8")) as { first: number[]; joined: [number[], number[]][] };
  const ring = new Ring(4_000, 4);
  ring.push(first, 0);
  for (const [bucket, expected] of joined) {
    ring.push(bucket, 0);
    assert.deepEqual([...ring.data.slice(ring.at(0), ring.at(0) + first.length)], expected);
  }
  assert.equal(joined.length, 63);
});
