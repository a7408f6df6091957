import assert from "node:assert/strict";
import { test } from "node:test";
import { Ring, Store } from "../src/ring";
import { limitName } from "../src/limits";
import { B, LIMITS, STRIDE } from "../src/wire";
import { Columns, grid, smoothing } from "../src/thin";
import { clock, elapsed, rate, roundUp, timeUs } from "../src/format";
import { csvOf } from "../src/export";
import { GLYPHS, outline } from "../src/marks";
import { linePath } from "../src/spark";

function bucket(start: number, last: number, cwnd: [number, number, number], acked = 0, more: Partial<Record<keyof typeof B, number>> = {}): number[] {
  const b = new Array<number>(STRIDE).fill(0);
  b[B.START] = start;
  b[B.LAST] = last;
  b[B.EVENTS] = 1;
  [b[B.CWND_MIN], b[B.CWND_MAX], b[B.CWND]] = cwnd;
  b[B.ACKED] = acked;
  b[B.STATES] = 1;
  b[B.LIMIT_BEFORE] = -1;
  for (const [name, value] of Object.entries(more)) b[B[name as keyof typeof B]] = value;
  return b;
}

/** A store with `count` buckets of 4 ms with 1250 bytes per ms: 10 Mbit/s. */
function steady(count: number, dip = -1): Store {
  const store = new Store();
  store.fill([{ buckets: [], now: 0 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  for (let n = 0; n < count; n += 1) {
    const last = n * 4000 + 3999;
    store.push(bucket(n * 4000, last, n === dip ? [2, 50, 50] : [50, 50, 50], Math.round(last * 1.25), { SRTT: 20000, SRTT_MIN: 20000, SRTT_MAX: 20000 }));
  }
  return store;
}

test("a ring never grows and keeps the newest", () => {
  const ring = new Ring(10, 4);
  for (let n = 0; n < 100; n += 1) ring.push(bucket(n * 10, n * 10 + 5, [n, n, n]), 0);
  assert.equal(ring.count, 4);
  assert.equal(ring.data.length, 4 * STRIDE);
  assert.equal(ring.oldest, 960);
  assert.equal(ring.upTo(975), 2);
  assert.equal(ring.upTo(0), 0);
});

test("buckets of one stretch are joined with their extremes, also when they come late", () => {
  const ring = new Ring(100, 4);
  ring.push(bucket(0, 40, [5, 9, 7], 10), 0);
  ring.push(bucket(40, 90, [2, 6, 4], 20, { MARKS: 2, STATES: 8, STATE: 3 }), 0);
  ring.push(bucket(10, 20, [1, 3, 3], 5), 0);
  assert.equal(ring.count, 1);
  const d = (place: number): number => ring.data[ring.at(0) + place];
  assert.deepEqual([d(B.CWND_MIN), d(B.CWND_MAX), d(B.CWND), d(B.ACKED), d(B.MARKS), d(B.STATES), d(B.STATE), d(B.EVENTS)], [1, 9, 4, 20, 2, 9, 3, 3]);
});

test("limits lie where they held, at every zoom and after buckets are joined", () => {
  const store = new Store();
  store.fill([{ buckets: [], now: 0 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  const [path, app] = [LIMITS.findIndex(([name]) => name === "path"), LIMITS.findIndex(([name]) => name === "application")];
  // Limited by the path for two seconds, idle for three, limited by the path again for one; a
  // sample each 4 ms.
  for (let n = 0; n < 1500; n += 1) {
    if (n > 500 && n < 1250) continue;
    const places = n === 0 ? {} : { LIMIT: path, LIMIT_LEAD: 3999, LIMIT_BEFORE: n === 1250 ? app : -1 };
    store.push(bucket(n * 4000, n * 4000 + 3999, [9, 9, 9], n, places));
  }
  for (const pixels of [6, 60, 600, 3000]) {
    const columns = new Columns();
    const g = grid(0, 6e6, pixels);
    columns.fill(store, g, 6e6, false);
    const at = (us: number): string | undefined => limitName(columns.limit[Math.floor((us - g.start) / g.pixel)]);
    assert.deepEqual([1e6, 1.5e6, 2.5e6, 3.5e6, 4.7e6, 5.5e6].map(at), ["path", "path", "application", "application", "application", "path"], `${pixels} pixels`);
    assert.equal(at(6.1e6), undefined, "nothing is known after the last record");
  }
});

test("a dip of one bucket is seen at every zoom", () => {
  const store = steady(3000, 1234);
  for (const pixels of [10, 100, 1000, 4000]) {
    const columns = new Columns();
    const g = grid(0, 12e6, pixels);
    columns.fill(store, g, 12e6, false);
    const known = columns.cwnd.filter((v): v is number => v !== null);
    assert.equal(Math.min(...known), 2, `${pixels} pixels`);
    assert.equal(columns.most.cwnd, 50);
  }
});

test("throughput is the growth of the counter", () => {
  const store = steady(3000);
  for (const [from, to, pixels] of [[0, 12e6, 800], [4e6, 5e6, 800], [6e6, 6.05e6, 800]]) {
    const columns = new Columns();
    columns.fill(store, grid(from, to, pixels), 12e6, false);
    const known = columns.rate.slice(200, -4).filter((v): v is number => v !== null);
    assert.ok(known.length > 1000, `${known.length}`);
    for (const value of known) assert.ok(Math.abs(value / 10e6 - 1) < 0.02, `${value} between ${from} and ${to}`);
  }
});

test("the past is averaged over the RTT that it had, not over that of now", () => {
  const store = new Store();
  store.fill([{ buckets: [], now: 0 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  // For 6 s an RTT of one second, with an ACK of 1.25 MB each half second; then 10 Mbit/s at 20 ms.
  for (let time = 0; time < 6e6; time += 500_000) store.push(bucket(time, time + 3000, [900, 900, 900], (time / 500_000) * 1.25e6, { SRTT: 1e6, SRTT_MIN: 1e6, SRTT_MAX: 1e6 }));
  for (let time = 6e6; time < 12e6; time += 4000) store.push(bucket(time, time + 3000, [50, 50, 50], 15e6 + (time - 6e6) * 1.25, { SRTT: 20_000, SRTT_MIN: 20_000, SRTT_MAX: 20_000 }));
  const columns = new Columns();
  columns.fill(store, grid(0, 12e6, 600), 12e6, false);
  const between = (from: number, to: number): number[] => columns.rate.slice(from * 100, to * 100).filter((value): value is number => value !== null);
  for (const value of between(3, 5.9)) assert.ok(Math.abs(value / 20e6 - 1) < 0.3, `${value} at a long RTT`);
  for (const value of between(7, 11.9)) assert.ok(Math.abs(value / 10e6 - 1) < 0.05, `${value} at a short RTT`);
});

test("a flow that falls silent falls to zero and holds its window", () => {
  const store = steady(500);
  const columns = new Columns();
  columns.fill(store, grid(0, 4e6, 400), 4e6, false);
  const [rateLast, cwndLast] = [columns.rate[700], columns.cwnd[700]];
  assert.equal(rateLast, 0);
  assert.equal(cwndLast, 50);
  // After the end nothing is known.
  columns.fill(store, grid(0, 4e6, 400), 2e6, false);
  assert.equal(columns.cwnd[700], null);
  assert.equal(columns.state[350], 255);
});

test("where records were lost the throughput is the mean, not nothing and then a spike", () => {
  const store = steady(500);
  for (let n = 750; n < 1000; n += 1) {
    const last = n * 4000 + 3999;
    store.push(bucket(n * 4000, last, [50, 50, 50], Math.round(last * 1.25)));
  }
  const columns = new Columns();
  columns.fill(store, grid(0, 4e6, 400), 4e6, false);
  const known = columns.rate.slice(100, 780).filter((v): v is number => v !== null);
  assert.ok(known.every((v) => Math.abs(v / 10e6 - 1) < 0.02), `${Math.min(...known)} to ${Math.max(...known)}`);
});

test("states and marks survive thinning, the gravest wins", () => {
  const store = steady(100);
  store.push(bucket(400_000, 401_000, [10, 10, 10], 600_000, { STATES: 0b01001, STATE: 0, MARKS: 4, KINDS: 2 }));
  store.push(bucket(404_000, 405_000, [10, 10, 10], 600_000, { STATES: 0b00011, STATE: 0 }));
  const columns = new Columns();
  columns.fill(store, grid(0, 1e6, 10), 1e6, false);
  assert.equal(columns.state[4], 3);
  assert.equal(columns.marks[4] & 4, 4);
  assert.equal(columns.kinds[4] & 2, 2);
});

test("what is older than the fine rings comes from coarser ones, without overlap", () => {
  const store = steady(60_000);
  const pieces = store.pieces(0, 240e6, 1000);
  assert.ok(pieces.length >= 2);
  let before = -1;
  let events = 0;
  for (const { ring, from, to } of pieces) {
    for (let n = from; n < to; n += 1) {
      const start = ring.data[ring.at(n) + B.START];
      assert.ok(start > before);
      before = start;
      events += ring.data[ring.at(n) + B.EVENTS];
    }
  }
  // At the boundaries at most one wide bucket is missing or counted twice.
  assert.ok(Math.abs(events - 60_000) <= 2 * 512, `${events}`);
});

test("the past and what came meanwhile are joined without a gap", () => {
  const store = new Store();
  store.push(bucket(96_000, 97_000, [7, 7, 7], 1));
  store.push(bucket(128_000, 129_000, [8, 8, 8], 2));
  store.fill([{ buckets: [...bucket(0, 5000, [5, 5, 5]), ...bucket(96_000, 97_500, [6, 7, 7])], now: 100_000 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  const ring = store.levels[1];
  assert.equal(ring.count, 3);
  assert.equal(ring.data[ring.at(1) + B.EVENTS], 1);
  const found = store.lookup(97_000);
  assert.equal(found?.data[found.at + B.CWND], 7);
});

test("the CSV has the data and cannot smuggle formulas", () => {
  const store = steady(100);
  const text = csvOf([{ id: "a", name: "n", store, receives: false, mss: 1448, bounds: undefined, end: 1e9, local: "=cmd()", remote: "b,c" }], { from: 0, to: 4e5 }, 1000, 1e15);
  const lines = text.trim().split("\n");
  assert.equal(lines.length, 101);
  assert.ok(lines[0].startsWith("time_unix_us,since_start_us"));
  assert.ok(lines[50].includes(`,a,'=cmd(),"b,c",50,50,50,`));
  assert.equal(lines[90].split(",").length - 1, lines[0].split(",").length);
});

test("quantities are formatted as in the other user interfaces", () => {
  assert.deepEqual([rate(0), rate(950_400), rate(999_600), rate(12_345_678)], ["0 bit/s", "950 kbit/s", "1.00 Mbit/s", "12.3 Mbit/s"]);
  assert.deepEqual([timeUs(123), timeUs(1_200_000)], ["0.12 ms", "1.20 s"]);
  assert.deepEqual([elapsed(61_500_000, 1), elapsed(3_600e6, 0), elapsed(-500_000, 1)], ["1:01.5", "1:00:00", "-0:00.5"]);
  assert.match(clock(1_700_000_000_123_456, 3), /^\d\d:\d\d:20\.123$/);
  assert.deepEqual([roundUp(0), roundUp(97), roundUp(101), roundUp(1)], [1, 100, 120, 1]);
  assert.equal(smoothing(10, 20_000), 100_000);
});

test("a small picture ends at the right edge, its largest value on top", () => {
  assert.equal(linePath([5]), "");
  // 60 points are 59 units wide and 26 high, of which 2 stay free above and below.
  assert.equal(linePath([0, 10, 5]), "M57 24.0L58 2.0L59 13.0");
  assert.equal(linePath([0, 0]), "M58 24.0L59 24.0");
  assert.match(linePath(new Array<number>(60).fill(1)), /^M0 2\.0L1 2\.0.*L59 2\.0$/);
});

test("the outline of each mark is closed and lies around its point", () => {
  for (const { shape } of Object.values(GLYPHS)) {
    const path = outline(shape, 100, 50, 10);
    assert.match(path, /^M[\d.]+ [\d.]+[La].*Z$/, shape);
    if (shape === "circle") {
      assert.equal(path, "M89.5 50a10.5 10.5 0 1 1 21 0a10.5 10.5 0 1 1 -21 0Z");
      continue;
    }
    const points = path.slice(1, -1).split("L").map((point) => point.split(" ").map(Number));
    assert.ok(points.length >= 3, shape);
    for (const [x, y] of points) assert.ok(Math.hypot(x - 100, y - 50) < 16, `${shape}: ${x} ${y}`);
    // All around: it has points on every side.
    assert.ok(points.some(([x]) => x < 100) && points.some(([x]) => x > 100) && points.some(([, y]) => y < 50) && points.some(([, y]) => y > 50), shape);
  }
});
