import assert from "node:assert/strict";
import { test } from "node:test";
import { fold, newestFirst } from "../src/eventlist";
import { Flows } from "../src/flows";
import { commonPrefix, shorten } from "../src/names";
import { jain } from "../src/reading";
import { scaleEnd } from "../src/thin";
import { viewIn } from "../src/token";
import { E, R, type EventData, type RowData, type Who } from "../src/wire";

function who(id: number, more: Partial<Who>): Who {
  return { id: String(id), local: "10.0.0.2:40000", remote: "10.0.0.1:4950", netns: 1, netns_name: null, pid: 7, process: "send", cgroup: 1, control: "cubic", role: "client", first: 0, ...more };
}

function row(id: string, received = 0): RowData {
  const row: RowData = [id, ...new Array<number>(28).fill(0)];
  row[R.CLOSED] = null;
  row[R.ACKED] = 1000;
  row[R.BYTES_RECEIVED] = received;
  return row;
}

function named(...all: Partial<Who>[]): Flows {
  const flows = new Flows();
  const list = all.map((more, n) => who(n, more));
  flows.take({ now: 0, epoch: 0, all: true, flows: list, rows: list.map(({ id }) => row(id)), gone: [], sparks: {} });
  return flows;
}

const names = (flows: Flows): string[] => [...flows.all.values()].map((flow) => flow.name);

test("a flow alone is named by the other end", () => {
  assert.deepEqual(names(named({})), ["→ 10.0.0.1:4950"]);
});

test("terminals that send to one server are named by the parts of their names that differ", () => {
  const flows = named(...[0, 1, 12].map((n) => ({ netns_name: `lab-7-t${n}`, local: `10.1.0.${n}:4000${n}` })));
  assert.deepEqual(names(flows), ["t0", "t1", "t12"]);
  assert.equal(flows.all.get("1")?.more, "→ 10.0.0.1:4950 · send/7 · netns lab-7-t1 · cubic · from 10.1.0.1:40001");
  assert.equal(flows.all.get("1")?.owner, "send/7 · netns lab-7-t1 · cubic");
});

test("flows of one terminal are named by the other end, the process, and the local port where all else is equal", () => {
  assert.deepEqual(names(named({ remote: "1.1.1.1:443" }, { remote: "2.2.2.2:443" })), ["→ 1.1.1.1:443", "→ 2.2.2.2:443"]);
  assert.deepEqual(names(named({ process: "curl" }, { process: "ssh" })), ["curl", "ssh"]);
  assert.deepEqual(names(named({ local: "10.0.0.2:1" }, { local: "10.0.0.2:2" })), ["→ 10.0.0.1:4950 :1", "→ 10.0.0.1:4950 :2"]);
});

test("names follow flows that come and go, and the direction of the data", () => {
  const flows = named({ local: "10.0.0.2:1" }, { local: "10.0.0.2:2" });
  flows.take({ now: 1, epoch: 0, all: false, flows: [], rows: [row("0", 5000)], gone: ["1"], sparks: {} });
  assert.deepEqual(names(flows), ["← 10.0.0.1:4950"]);
});

test("a long address keeps both ends, and a prefix ends at a separator", () => {
  const address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:443";
  const short = shorten(address, 26);
  assert.equal(short.length, 26);
  assert.ok(short.startsWith("[2001:db8") && short.endsWith("5678]:443"), short);
  assert.equal(commonPrefix(["lab-1", "lab-12"]), 4);
  assert.equal(commonPrefix(["lab", "lab2"]), 0);
  assert.equal(commonPrefix(["alone"]), 0);
});

test("events that repeat the one before are counted", () => {
  const event = (number: number, flow: string, kind: number): EventData => {
    const data: EventData = [number, number * 10, flow, kind, 4, "tcp_xmit_retransmit_queue", 3, 3, 0, 10, 5, 1000, 0];
    return data;
  };
  const events = [event(6, "a", 2), event(5, "a", 2), event(4, "b", 2), event(3, "a", 2), event(2, "a", 1), event(1, "a", 1)];
  assert.deepEqual(fold(events, 10).map(({ event, count }) => [event[E.NUMBER], count]), [[6, 2], [4, 1], [3, 1], [2, 2]]);
  const [a, b] = ["a", "b"].map((flow) => events.filter((one) => one[E.FLOW] === flow).reverse());
  assert.deepEqual([...newestFirst([a, [], b], 9)], events);
  assert.deepEqual([...newestFirst([a, b], 2)].map((one) => one[E.NUMBER]), [6, 5, 4]);
  assert.deepEqual(fold(events, 2).map(({ event, count }) => [event[E.NUMBER], count]), [[6, 2], [4, 1]]);
});

test("Jain's index", () => {
  assert.equal(jain([5, 5, 5]), 1);
  assert.equal(jain([9, 0, 0]), 1 / 3);
  assert.equal(jain([0, 0]), undefined);
});

test("a spike does not set the scale, and steady values do", () => {
  const steady = new Array<number | null>(1000).fill(100);
  assert.equal(scaleEnd(steady, 100), 100);
  steady[500] = 5000;
  assert.equal(scaleEnd(steady, 5000), 125);
  for (let n = 0; n < 100; n += 1) steady[n] = 5000;
  assert.equal(scaleEnd(steady, 5000), 5000);
  assert.equal(scaleEnd([null, null], 0), 0);
  // Counting yields the same as sorting, on both sides of a hundredth and of twice.
  for (const spikes of [0, 1, 9, 10, 11, 12, 400]) {
    for (const height of [199, 200, 201, 900]) {
      const values = Array.from({ length: 1001 }, (_, n) => (n < spikes ? height : 100));
      const most = Math.max(...values);
      const usual = [...values].sort((a, b) => a - b)[990];
      assert.equal(scaleEnd(values, most), most > 2 * usual ? 1.25 * usual : most, `${spikes} of ${height}`);
    }
  }
});

test("the address selects the initial view", () => {
  assert.equal(viewIn("#token=abc&view=overlay"), "over");
  assert.equal(viewIn("#view=multiples"), "small");
  assert.equal(viewIn("#token=abc"), undefined);
  assert.equal(viewIn("#view=toString"), undefined);
});
