import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../src/ring";
import { Sequence } from "../src/sequence";
import { grid } from "../src/thin";
import { B, STRIDE } from "../src/wire";

/** A store with a bucket each 4 ms: 1000 bytes are acknowledged in each, 5000 are in flight, 2000
 * wait to be sent, the peer accepts 9000 more. `last`: when the last record of a bucket was made, after its start. */
function store(count: number, last = 0): Store {
  const made = new Store();
  made.fill([{ buckets: [], now: 0 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  for (let n = 0; n < count; n += 1) {
    const bucket = new Array<number>(STRIDE).fill(0);
    bucket[B.START] = n * 4000;
    bucket[B.LAST] = n * 4000 + last;
    bucket[B.ACKED] = n * 1000;
    bucket[B.RECEIVED] = n * 10;
    bucket[B.OUTSTANDING] = 5000;
    bucket[B.NOTSENT] = 2000;
    bucket[B.SND_WND] = 9000;
    bucket[B.RCV_WND] = 70;
    made.push(bucket);
  }
  return made;
}

test("sent is above acknowledged by what is outstanding, written above it by what waits, and the window's end by the window", () => {
  const sequence = new Sequence();
  sequence.fill(store(100), grid(0, 400_000, 200), 400_000, false);
  const known = sequence.acked.map((value, n) => [value, sequence.sent[n], sequence.written[n], sequence.windowEnd[n]] as const).filter(([acked]) => acked !== null);
  assert.ok(known.length > 390, String(known.length));
  for (const [acked, sent, written, end] of known) assert.deepEqual([sent, written, end], [5000, 7000, 9000].map((more) => (acked ?? 0) + more));
  assert.deepEqual([known[0][0], known[known.length - 1][0]], [0, 99_000]);
  for (let n = 1; n < known.length; n += 1) assert.ok((known[n][0] ?? 0) >= (known[n - 1][0] ?? 0));
  assert.ok(sequence.range.to > 104_000 && sequence.range.from === 0);
});

test("nothing is drawn after the end, and a receiver sees nothing in flight", () => {
  const sequence = new Sequence();
  sequence.fill(store(100), grid(0, 400_000, 200), 200_000, true);
  assert.equal(sequence.acked[399], null);
  const at = 150;
  assert.deepEqual([sequence.sent[at], sequence.written[at], sequence.windowEnd[at]], [sequence.acked[at], sequence.acked[at], (sequence.acked[at] ?? 0) + 70]);
});

test("a window far beyond does not flatten the lines", () => {
  const made = store(100);
  const far = new Array<number>(STRIDE).fill(0);
  Object.assign(far, { [B.START]: 400_000, [B.LAST]: 400_000, [B.ACKED]: 100_000, [B.SND_WND]: 1e9 });
  made.push(far);
  const sequence = new Sequence();
  sequence.fill(made, grid(0, 410_000, 200), 410_000, false);
  assert.ok(sequence.range.to < 200_000, String(sequence.range.to));
});

test("unsent data that is unknown is not drawn", () => {
  const made = store(100);
  const unknown = new Array<number>(STRIDE).fill(0);
  Object.assign(unknown, { [B.START]: 400_000, [B.LAST]: 400_000, [B.ACKED]: 100_000, [B.OUTSTANDING]: 5000, [B.NOTSENT]: -1, [B.SND_WND]: 9000 });
  made.push(unknown);
  const sequence = new Sequence();
  sequence.fill(made, grid(0, 410_000, 205), 410_000, false);
  const at = sequence.sent.lastIndexOf(105_000);
  assert.ok(at > 0);
  assert.deepEqual([sequence.written[at], sequence.windowEnd[at], sequence.written[at - 12]], [null, 109_000, 106_000]);
});

test("a peer's window that is unknown is not drawn", () => {
  const made = store(100);
  const unknown = new Array<number>(STRIDE).fill(0);
  Object.assign(unknown, { [B.START]: 400_000, [B.LAST]: 400_000, [B.ACKED]: 100_000, [B.OUTSTANDING]: 5000, [B.NOTSENT]: 2000, [B.SND_WND]: -1 });
  made.push(unknown);
  const sequence = new Sequence();
  sequence.fill(made, grid(0, 410_000, 205), 410_000, false);
  const at = sequence.sent.lastIndexOf(105_000);
  assert.ok(at > 0);
  assert.deepEqual([sequence.windowEnd[at], sequence.written[at], sequence.windowEnd[at - 12]], [null, 107_000, 108_000]);
});

test("a view that begins within a bucket begins with the values of the one before", () => {
  const sequence = new Sequence();
  sequence.fill(store(100, 3000), grid(201_500, 203_500, 100), 400_000, false);
  assert.deepEqual([sequence.acked[0], sequence.sent[0], sequence.acked[198]], [49_000, 54_000, 50_000]);
});

test("SACKed bytes lie above the acknowledged ones, and nothing is drawn without them", () => {
  const made = store(100);
  const hole = new Array<number>(STRIDE).fill(0);
  Object.assign(hole, { [B.START]: 400_000, [B.LAST]: 400_000, [B.ACKED]: 100_000, [B.OUTSTANDING]: 5000, [B.SACKED]: 3000, [B.SND_WND]: 9000 });
  made.push(hole);
  const sequence = new Sequence();
  sequence.fill(made, grid(0, 410_000, 205), 410_000, false);
  const known = sequence.arrived.filter((value) => value !== null);
  assert.ok(known.length > 4 && known.every((value) => value === 103_000), JSON.stringify(known));
  sequence.fill(made, grid(0, 410_000, 205), 410_000, true);
  assert.ok(sequence.arrived.every((value) => value === null));
});
