// The benefit of sharing: flows and their totals before it began, and since.
import { rate, timeUs } from "./format";
import type { Drawn } from "./drawn";
import { jain, type Totals } from "./reading";
import type { Store } from "./ring";
import { B } from "./wire";

/** The longest time compared, and the time after which a comparison is possible, microseconds. */
const MAX_US = 30e6;
const MIN_US = 3e6;
/** Time that windows need to follow their new bounds, microseconds. */
const SETTLING_US = 2e6;

/** Where sharing begins. */
export interface Begins {
  /** Microseconds since the session's start. */
  at: number;
  /** The words at its line. */
  mark: string;
  /** What came before and after, as a heading. */
  parts: string;
}

/** The beginning that the daemon's answers showed. */
export const byDaemon = (at: number): Begins => ({ at, mark: "sharing begins", parts: "Before sharing began, and since" });

/** The first record with a window at its bound. A flow whose first record has one was bound before
 * it was watched, so the beginning is not known. */
export function byRecords(flows: Iterable<{ first: number; bound: number | null }>): Begins | undefined {
  let at = Infinity;
  for (const { first, bound } of flows) {
    if (bound === null) continue;
    if (bound <= first) return undefined;
    at = Math.min(at, bound);
  }
  return at === Infinity ? undefined : { at, mark: "sharing limits a window", parts: "Before sharing limited a window, and since" };
}

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
  before: Totals;
  since: Totals;
  flows: FlowCompared[];
}

/** The bytes that the other end has received: also those that were only SACKed, since a recovery
 * that ends after `to` would otherwise move what arrived before it to the other side. */
function delivered({ data, at }: { data: Float64Array; at: number }, receives: boolean): number {
  return receives ? data[at + B.RECEIVED] : data[at + B.ACKED] + data[at + B.SACKED];
}

/** The means of a flow while it lasted; undefined if the time is not covered, or too short. */
function over(flow: Drawn, from: number, to: number): Means | undefined {
  const { store } = flow;
  const end = Math.min(to, flow.end);
  const [first, last] = [store.lookup(from), store.lookup(end)];
  if (first === undefined || last === undefined || end - from < MIN_US) return undefined;
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
  const bytes = delivered(last, flow.receives) - delivered(first, flow.receives);
  const us = end - from;
  return { rateBps: (bytes * 8e6) / us, srttUs: count > 0 ? sum / count : 0, retransmitsPerS: (retransmits * 1e6) / us };
}

/** Means of the time before sharing began, which no longer change. */
const befores = new WeakMap<Store, { from: number; to: number; means: Means }>();

function meansBefore(flow: Drawn, from: number, to: number): Means | undefined {
  const kept = befores.get(flow.store);
  if (kept?.from === from && kept.to === to) return kept.means;
  const means = over(flow, from, to);
  if (means !== undefined) befores.set(flow.store, { from, to, means });
  return means;
}

function totals(flows: readonly (Means | undefined)[]): Totals | undefined {
  const known = flows.filter((means): means is Means => means !== undefined);
  const rates = known.map((means) => means.rateBps);
  const srtts = known.map((means) => means.srttUs).filter((srtt) => srtt > 0).sort((a, b) => a - b);
  const index = jain(rates);
  if (rates.length < 2 || index === undefined || srtts.length === 0) return undefined;
  return { rate: rate(rates.reduce((sum, one) => sum + one, 0)), jain: index.toFixed(3), srtt: timeUs(srtts[srtts.length >> 1]) };
}

/** Means of the last half minute before sharing began and of the last half minute up to a time, or
 * to the end of the last flow; undefined if either is shorter than three seconds. */
export function beforeAndSince(drawn: readonly Drawn[], since: number | undefined, to: number): Compared | undefined {
  const now = Math.min(to, Math.max(...drawn.map(({ end }) => end)));
  if (since === undefined || now - since < MIN_US + SETTLING_US) return undefined;
  // All flows must have existed before.
  const begin = Math.max(since - MAX_US, ...drawn.map(({ store }) => store.oldest));
  if (since - begin < MIN_US) return undefined;
  const settled = Math.max(since + SETTLING_US, now - MAX_US);
  const flows = drawn.map((flow) => ({ flow, before: meansBefore(flow, begin, since), since: over(flow, settled, now) }));
  const [before, after] = [totals(flows.map((each) => each.before)), totals(flows.map((each) => each.since))];
  return before === undefined || after === undefined ? undefined : { before, since: after, flows };
}
