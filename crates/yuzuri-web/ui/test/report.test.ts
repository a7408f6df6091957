import assert from "node:assert/strict";
import { test } from "node:test";
import { spanned } from "../src/gestures";
import { ACKNOWLEDGED, RETRANSMITTED, Marks, Rounds, SENT, scale, type Data } from "../src/reportdata";

const data: Data = {
  end: 1_000_000,
  mss: 1000,
  // Ten segments in each 100 ms; in the last round nothing was measured.
  rounds: Array.from({ length: 10 }, (_, n) => [n * 100_000, 100_000, 10, 10 + n, n < 5 ? null : 12 + n, n === 9 ? 0 : 20_000, n === 9 ? 0 : 30_000, n === 9 ? 0 : 40_000]),
  losses: [],
  bands: [],
  limits: [],
  marks: [SENT, 0, 0, 1000, SENT, 10, 0, 1000, ACKNOWLEDGED, 20_000, 1000, 5000, ACKNOWLEDGED, 5, 1000, -1, RETRANSMITTED, 100, 1000, 1000, SENT, 900, 500, 1000],
};

test("segments are read from their differences", () => {
  const marks = new Marks(data.marks);
  assert.deepEqual(marks.kind, [SENT, SENT, ACKNOWLEDGED, ACKNOWLEDGED, RETRANSMITTED, SENT]);
  assert.deepEqual(marks.time, [0, 10, 20_010, 20_015, 20_115, 21_015]);
  assert.deepEqual(marks.from, [0, 1000, 1000, 2000, 1000, 2500]);
  assert.deepEqual(marks.to, [1000, 2000, 6000, NaN, 2000, 3500]);
  assert.deepEqual(marks.shown({ from: 20_010, to: 20_115 }), [2, 5]);
});

test("the bytes of a view are those of its segments, and a far window does not flatten them", () => {
  const marks = new Marks(data.marks);
  const [low, high] = marks.range({ from: 0, to: 10 });
  assert.ok(low === 0 && high > 2000 && high < 2100, `${low} ${high}`);
  const [, above] = marks.range({ from: 0, to: 20_010 });
  assert.ok(above > 2000 * 1.55 && above < 2000 * 1.7, `the window ends at 6000, far above: ${above}`);
  assert.deepEqual(marks.range({ from: 500_000, to: 600_000 }), [0, 1], "nothing passed");
});

test("throughput is what was acknowledged, and a round without a measurement has no RTT", () => {
  const rounds = new Rounds(data);
  const [[times, rate], [, greatest, mean, least]] = rounds.rates({ from: 0, to: 1_000_000 });
  assert.equal(times.length, 10);
  assert.ok(rate.every((bps) => bps === 800_000), `${rate}`);
  assert.deepEqual([greatest.length, greatest[0], mean[0], least[0]], [9, 40_000, 30_000, 20_000]);
  // Zoomed in, only the rounds there, and one beyond each edge.
  assert.equal(rounds.windows({ from: 320_000, to: 480_000 })[0].length, 3);
  assert.deepEqual(rounds.differences({ from: 0, to: 1_000_000 })[1].slice(4, 6), [null, 2]);
  const ends = scale(data, rounds, { from: 0, to: 1_000_000 });
  assert.ok((ends.window?.[1] ?? 0) >= 19 && (ends.rate?.[1] ?? 0) >= 800_000 && ends.difference?.[0] === -(ends.difference?.[1] ?? 0));
});

test("a zoom keeps its middle where it is", () => {
  assert.deepEqual(spanned({ from: 100, to: 300 }, 100, 150), { from: 125, to: 225 });
});
