import assert from "node:assert/strict";
import { test } from "node:test";
import { Events } from "../src/stream";
import { tokenIn } from "../src/token";

test("events are whole however the stream is cut", () => {
  const text = 'event: hello\ndata: {"a":"é"}\n\nevent: rows\ndata: [1]\n\nevent: gap\ndata: {}\n\n';
  const whole = [
    { name: "hello", data: '{"a":"é"}' },
    { name: "rows", data: "[1]" },
    { name: "gap", data: "{}" },
  ];
  for (let size = 1; size <= text.length; size += 1) {
    const events = new Events();
    const taken = [];
    for (let at = 0; at < text.length; at += size) taken.push(...events.take(text.slice(at, at + size)));
    assert.deepEqual(taken, whole, `pieces of ${size}`);
  }
  assert.deepEqual(new Events().take("event: rows\ndata: [1]\n"), []);
});

test("the token is taken from the fragment, and from the query of older addresses", () => {
  assert.equal(tokenIn("#token=00ff", ""), "00ff");
  assert.equal(tokenIn("", "?token=00ff"), "00ff");
  assert.equal(tokenIn("#a=b&token=00ff", "?token=11"), "00ff");
  for (const none of ["", "#", "#token=", "#tokens=1", "#token=a b", "#token=%0d%0aX", `#token=${"a".repeat(129)}`]) assert.equal(tokenIn(none, ""), undefined);
});
