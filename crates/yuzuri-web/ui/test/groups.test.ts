import assert from "node:assert/strict";
import { test } from "node:test";
import type { Drawn } from "../src/drawn";
import type { Flow } from "../src/flows";
import { grouped, sumOf } from "../src/groups";
import { Store } from "../src/ring";
import { beforeAndSince, byRecords } from "../src/since";
import { B, LIMITS, R, STRIDE, type RowData } from "../src/wire";

const index = (name: string): number => LIMITS.findIndex(([limit]) => limit === name);

function flow(id: number, netns: string | null, process: string | null, values: Partial<Record<keyof typeof R, number | null>>): Flow {
  const row: RowData = [String(id), ...new Array<number | null>(Object.keys(R).length - 1).fill(0)];
  row[R.CLOSED] = row[R.UNWATCHED] = null;
  row[R.LIMIT] = -1;
  for (const [name, value] of Object.entries(values)) (row as (string | number | null)[])[R[name as keyof typeof R]] = value;
  const who = { id: String(id), local: `10.0.0.${id}:50${id}`, remote: "10.9.9.9:443", netns: 1, netns_name: netns, pid: 7, process, cgroup: 0, control: "cubic", role: "", first: 0 };
  return { who, row, name: "", owner: "", more: "", receives: false, bottleneck: 0, text: "", rates: [], windows: [], sparkAt: 0 };
}

const FLOWS = [
  flow(1, "a", "curl", { SENT: 5e6, CWND: 10, SRTT: 30_000, TOTAL_RETRANS: 3, LIMIT: index("path") }),
  flow(2, "b", "curl", { SENT: 3e6, RECEIVED: 1e6, CWND: 20, SRTT: 10_000, LIMIT: index("pacing") }),
  flow(3, "a", null, { SENT: 2e6, CWND: 40, SRTT: 90_000, TOTAL_RETRANS: 1, CLOSED: 5 }),
  flow(4, null, null, { SENT: 1e6, CWND: 5, SRTT: 20_000, LIMIT: index("path") }),
];

test("groups keep the order of the list, and sums leave out what has ended", () => {
  const by = (key: Parameters<typeof grouped>[1]): [string, string][] => grouped(FLOWS, key).map(({ name, flows }) => [name, flows.map(({ who }) => who.id).join()]);
  assert.deepEqual(by("terminal"), [["a", "1,3"], ["b", "2"], ["10.0.0.4", "4"]]);
  assert.deepEqual(by("remote"), [["10.9.9.9", "1,2,3,4"]]);
  assert.deepEqual(by("process"), [["curl/7", "1,2"], ["unknown process", "3,4"]]);
  assert.deepEqual(by("control"), [["cubic", "1,2,3,4"]]);
  for (const n of [0, 2]) FLOWS[n].bottleneck = 1;
  assert.deepEqual(by("bottleneck"), [["bottleneck 1", "1,3"], ["no shared bottleneck known", "2,4"]]);
  assert.deepEqual(sumOf(FLOWS), { flows: 4, open: 3, rate: 10e6, cwnd: 35, srtt: 20_000, resent: 4, limit: index("path") });
  assert.deepEqual(sumOf([]), { flows: 0, open: 0, rate: 0, cwnd: 0, srtt: 0, resent: 0, limit: -1 });
});

/** A flow that sends at one byte rate before a time and at another after it, with these RTTs. */
function sender(cut: number, bytes: [number, number], srtts: [number, number]): Drawn {
  const store = new Store();
  store.fill([{ buckets: [], now: 0 }, { buckets: [], now: 0 }, { buckets: [], now: 0 }]);
  let acked = 0;
  for (let time = 0; time < 40e6; time += 100_000) {
    const late = Number(time >= cut);
    acked += bytes[late] / 10;
    const bucket = new Array<number>(STRIDE).fill(0);
    Object.assign(bucket, { [B.START]: time, [B.LAST]: time + 50_000, [B.EVENTS]: 1, [B.ACKED]: acked, [B.RETRANSMITS]: 1 - late, [B.SRTT]: srtts[late], [B.SRTT_MIN]: srtts[late], [B.SRTT_MAX]: srtts[late], [B.LIMIT_BEFORE]: -1 });
    store.push(bucket);
  }
  return { id: "", name: "", store, receives: false, mss: 1448, bounds: undefined, end: 40e6 };
}

test("the benefit of sharing is shown once there is enough data before and since", () => {
  const flows = [sender(20e6, [900_000, 500_000], [140_000, 40_000]), sender(20e6, [100_000, 500_000], [142_000, 42_000])];
  const compared = beforeAndSince(flows, 20e6, 40e6);
  assert.ok(compared !== undefined);
  // The bucket at the boundary belongs to both sides in part.
  assert.ok(compared.before.rate === "8.00 Mbit/s" && /^14[12] ms$/.test(compared.before.srtt), JSON.stringify(compared.before));
  assert.ok(Math.abs(Number(compared.before.jain) - 0.61) < 0.005, compared.before.jain);
  assert.equal(compared.since.srtt, "42.0 ms");
  assert.ok(Number(compared.since.jain) > 0.999 && /^(7\.9|8\.)/.test(compared.since.rate), JSON.stringify(compared.since));
  const [first] = compared.flows;
  assert.ok(Math.abs((first.before?.rateBps ?? 0) / 7.2e6 - 1) < 0.01 && Math.abs((first.since?.rateBps ?? 0) / 4e6 - 1) < 0.01, JSON.stringify(first));
  assert.ok(Math.abs((first.before?.retransmitsPerS ?? 0) - 10) < 0.2 && first.since?.retransmitsPerS === 0, JSON.stringify(first));
  // A flow that ended is compared while it lasted.
  const ended = beforeAndSince(flows.map((flow) => ({ ...flow, end: 30e6 })), 20e6, 40e6);
  assert.ok(Math.abs((ended?.flows[0].since?.rateBps ?? 0) / 4e6 - 1) < 0.02, JSON.stringify(ended));
  assert.equal(beforeAndSince(flows, 20e6, 24e6), undefined, "the windows have not settled");
  assert.equal(beforeAndSince(flows, 2e6, 40e6), undefined, "too little before");
  assert.equal(beforeAndSince(flows, undefined, 40e6), undefined);
});

test("what had arrived out of order before sharing began is not counted as since", () => {
  // From 15 to 25 s a hole is open: nothing is acknowledged, and what arrives behind it is SACKed.
  const flows = [0, 1].map(() => {
    const flow = sender(20e6, [500_000, 500_000], [100_000, 100_000]);
    const ring = flow.store.levels;
    for (const level of ring) {
      let acked = 0;
      for (let n = 0; n < level.count; n += 1) {
        const at = level.at(n);
        const isOpen = level.data[at + B.START] >= 15e6 && level.data[at + B.START] < 25e6;
        if (!isOpen) acked = level.data[at + B.ACKED];
        level.data[at + B.SACKED] = level.data[at + B.ACKED] - acked;
        level.data[at + B.ACKED] = acked;
      }
    }
    return flow;
  });
  const compared = beforeAndSince(flows, 20e6, 40e6);
  assert.ok(compared?.before.rate.startsWith("8.0") && /^(7\.9|8\.)/.test(compared.since.rate), JSON.stringify([compared?.before, compared?.since]));
});

test("the comparison stays after the last flow has ended", () => {
  const flows = [0, 1].map(() => ({ ...sender(20e6, [500_000, 500_000], [100_000, 100_000]), end: 39e6 }));
  assert.deepEqual(beforeAndSince(flows, 20e6, 400e6)?.since, beforeAndSince(flows, 20e6, 39e6)?.since);
  assert.ok(beforeAndSince(flows, 20e6, 400e6)?.flows.every(({ since }) => since !== undefined));
});

test("records show since when a window is at its bound, unless it was before they began", () => {
  assert.equal(byRecords([]), undefined);
  assert.equal(byRecords([{ first: 0, bound: null }]), undefined);
  assert.equal(byRecords([{ first: 0, bound: 9e6 }, { first: 1e6, bound: 8e6 }, { first: 0, bound: null }])?.at, 8e6);
  assert.equal(byRecords([{ first: 0, bound: 9e6 }, { first: 1e6, bound: 1e6 }]), undefined, "bound before it was watched");
});
