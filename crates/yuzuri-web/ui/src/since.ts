// The benefit of sharing: the totals of flows before it began, and since.
import { rate, timeUs } from "./format";
import type { Drawn } from "./drawn";
import { jain, type Together } from "./reading";
import type { Store } from "./ring";
import { B } from "./wire";

/** The longest time compared, and the time after which a comparison is possible, microseconds. */
const MAX_US = 30e6;
const MIN_US = 3e6;
/** Time that windows need to follow their new bounds, microseconds. */
const SETTLES_US = 2e6;

/** The growth of a byte counter, and the mean of the smoothed RTT; undefined if the time is not
 * covered. */
function over(store: Store, from: number, to: number, counter: number): { bytes: number; srtt: number } | undefined {
  const [first, last] = [store.lookup(from), store.lookup(to)];
  if (first === undefined || last === undefined) return undefined;
  let [sum, count] = [0, 0];
  for (const { ring, from: begin, to: end } of store.pieces(from, to, 256_000)) {
    for (let n = begin; n < end; n += 1) {
      const at = ring.at(n);
      const srtt = ring.data[at + B.SRTT];
      if (srtt <= 0 || ring.data[at + B.LAST] < from || ring.data[at + B.START] > to) continue;
      sum += srtt;
      count += 1;
    }
  }
  return { bytes: last.data[last.at + counter] - first.data[first.at + counter], srtt: count > 0 ? sum / count : 0 };
}

function together(flows: readonly Drawn[], from: number, to: number): Together | undefined {
  const rates: number[] = [];
  const srtts: number[] = [];
  for (const flow of flows) {
    const sums = over(flow.store, from, Math.min(to, flow.end), flow.receives ? B.RECEIVED : B.ACKED);
    if (sums === undefined || flow.end < from) continue;
    rates.push((sums.bytes * 8e6) / (to - from));
    if (sums.srtt > 0) srtts.push(sums.srtt);
  }
  const index = jain(rates);
  srtts.sort((a, b) => a - b);
  if (rates.length < 2 || index === undefined || srtts.length === 0) return undefined;
  return { rate: rate(rates.reduce((sum, one) => sum + one, 0)), jain: index.toFixed(3), srtt: timeUs(srtts[srtts.length >> 1]) };
}

/** Means of the last half minute before sharing began and of the current last half minute;
 * undefined if either is shorter than three seconds. */
export function beforeAndSince(flows: readonly Drawn[], since: number | undefined, now: number): { before: Together; since: Together } | undefined {
  if (since === undefined || now - since < MIN_US + SETTLES_US) return undefined;
  // All flows must have existed before.
  const begin = Math.max(since - MAX_US, ...flows.map(({ store }) => store.oldest));
  if (since - begin < MIN_US) return undefined;
  const [before, after] = [together(flows, begin, since), together(flows, Math.max(since + SETTLES_US, now - MAX_US), now)];
  return before === undefined || after === undefined ? undefined : { before, since: after };
}
