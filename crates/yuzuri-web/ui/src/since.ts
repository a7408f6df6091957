// The benefit of sharing: flows and their totals before it began, and since.
import { rate, timeUs } from "./format";
import type { Drawn } from "./drawn";
import { jain, type Together } from "./reading";
import { B } from "./wire";

/** The longest time compared, and the time after which a comparison is possible, microseconds. */
const MAX_US = 30e6;
const MIN_US = 3e6;
/** Time that windows need to follow their new bounds, microseconds. */
const SETTLES_US = 2e6;

/** A flow's means over some time. */
export interface Means {
  rateBps: number;
  /** 0: not measured. */
  srttUs: number;
  retransmitsPerS: number;
}

/** A flow before sharing began, and since; undefined: it did not send then. */
export interface FlowCompared {
  flow: Drawn;
  before: Means | undefined;
  since: Means | undefined;
}

export interface Compared {
  before: Together;
  since: Together;
  flows: FlowCompared[];
}

/** The means of a flow while it lasted; undefined if the time is not covered, or too short. */
function over(flow: Drawn, from: number, to: number): Means | undefined {
  const { store } = flow;
  const end = Math.min(to, flow.end);
  const [first, last] = [store.lookup(from), store.lookup(end)];
  if (first === undefined || last === undefined || end - from < MIN_US) return undefined;
  const counter = flow.receives ? B.RECEIVED : B.ACKED;
  let [sum, count, retransmits] = [0, 0, 0];
  for (const { ring, from: begin, to: behind } of store.pieces(from, end, 256_000)) {
    for (let n = begin; n < behind; n += 1) {
      const at = ring.at(n);
      if (ring.data[at + B.LAST] < from || ring.data[at + B.START] > end) continue;
      retransmits += ring.data[at + B.RETRANSMITS];
      const srtt = ring.data[at + B.SRTT];
      if (srtt <= 0) continue;
      sum += srtt;
      count += 1;
    }
  }
  const bytes = last.data[last.at + counter] - first.data[first.at + counter];
  const us = end - from;
  return { rateBps: (bytes * 8e6) / us, srttUs: count > 0 ? sum / count : 0, retransmitsPerS: (retransmits * 1e6) / us };
}

function together(flows: readonly (Means | undefined)[]): Together | undefined {
  const known = flows.filter((means): means is Means => means !== undefined);
  const rates = known.map((means) => means.rateBps);
  const srtts = known.map((means) => means.srttUs).filter((srtt) => srtt > 0).sort((a, b) => a - b);
  const index = jain(rates);
  if (rates.length < 2 || index === undefined || srtts.length === 0) return undefined;
  return { rate: rate(rates.reduce((sum, one) => sum + one, 0)), jain: index.toFixed(3), srtt: timeUs(srtts[srtts.length >> 1]) };
}

/** Means of the last half minute before sharing began and of the current last half minute;
 * undefined if either is shorter than three seconds. */
export function beforeAndSince(drawn: readonly Drawn[], since: number | undefined, now: number): Compared | undefined {
  if (since === undefined || now - since < MIN_US + SETTLES_US) return undefined;
  // All flows must have existed before.
  const begin = Math.max(since - MAX_US, ...drawn.map(({ store }) => store.oldest));
  if (since - begin < MIN_US) return undefined;
  const settled = Math.max(since + SETTLES_US, now - MAX_US);
  const flows = drawn.map((flow) => ({ flow, before: over(flow, begin, since), since: over(flow, settled, now) }));
  const [before, after] = [together(flows.map((each) => each.before)), together(flows.map((each) => each.since))];
  return before === undefined || after === undefined ? undefined : { before, since: after, flows };
}
