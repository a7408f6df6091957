// The values of a flow at the cursor, as text.
import { bytes, rate, timeUs } from "./format";
import type { Drawn } from "./drawn";
import { limitName } from "./limits";
import type { Panel } from "./panel";
import { B, R, STATES, type RowData } from "./wire";

/** The values of a flow at a time. */
export interface Reading {
  cwnd: string;
  ssthresh: string;
  rate: string;
  srtt: string;
  minRtt: string;
  inFlight: string;
  acked: string;
  outstanding: string;
  sacked: string;
  unsent: string;
  window: string;
  bounds: string;
  state: string;
  limit: string;
}

const NONE = "–";
/** The time that a row of the list covers, microseconds. */
const ROW_PERIOD_US = 2e6;

/** Totals of flows at a time. */
export interface Totals {
  rate: string;
  jain: string;
  srtt: string;
}

/** Jain's fairness index of rates (1: all equal, 1/n: one has everything); undefined if nothing is
 * sent. */
export function jain(rates: readonly number[]): number | undefined {
  const sum = rates.reduce((all, one) => all + one, 0);
  const squares = rates.reduce((all, one) => all + one * one, 0);
  return squares > 0 ? (sum * sum) / (rates.length * squares) : undefined;
}

/** The sum of the throughputs, how even they are, and the median smoothed RTT of flows of a panel at a time. */
export function readTotals(flows: readonly Drawn[], panel: Panel | undefined, time: number): Totals {
  const present = flows.map((flow, n) => ({ flow, n })).filter(({ flow }) => time <= flow.end);
  const rates = present.map(({ n }) => panel?.rateAt(n, time) ?? null).filter((value): value is number => value !== null);
  const index = rates.length > 1 ? jain(rates) : undefined;
  const srtts = present.map(({ flow }) => {
    const found = flow.store.lookup(time);
    return found === undefined ? 0 : found.data[found.at + B.SRTT];
  });
  const measured = srtts.filter((value) => value > 0).sort((a, b) => a - b);
  return {
    rate: rates.length === 0 ? NONE : rate(rates.reduce((all, one) => all + one, 0)),
    jain: index === undefined ? NONE : index.toFixed(3),
    srtt: measured.length === 0 ? NONE : timeUs(measured[measured.length >> 1]),
  };
}

/** The window's bounds: as the daemon reported them, or else the upper one as records show it (they
 * do not show a lower one); a dash where none are known. */
function boundsAt(flow: Drawn, time: number, shown: number): string {
  const known = flow.bounds?.at(time);
  if (known === undefined) return shown > 0 ? `up to ${shown} seg, lower unknown` : NONE;
  const { lower, upper } = known;
  if (lower > 0 && upper > 0) return `${lower} to ${upper} seg`;
  return upper > 0 ? `up to ${upper} seg` : lower > 0 ? `from ${lower} seg` : "none";
}

/** -1: unknown. */
const knownBytes = (count: number): string => (count < 0 ? NONE : bytes(count));

/** A value with its spread, if it has one. */
function spread(last: number, min: number, max: number, write: (n: number) => string): string {
  if (min === max) return write(last);
  const [low, high] = [write(min), write(max)];
  const unit = low.slice(low.indexOf(" "));
  return `${write(last)} (${low.includes(" ") && high.endsWith(unit) ? low.slice(0, low.indexOf(" ")) : low}–${high})`;
}

/** The values of the n-th flow of a panel at a time; values missing in the buckets come from its
 * current row. */
export function read(flow: Drawn, panel: Panel | undefined, n: number, time: number, now: RowData | undefined): Reading | undefined {
  const found = time > flow.end + 1e6 ? undefined : flow.store.lookup(time);
  if (found === undefined) return undefined;
  const { data, at } = found;
  const throughput = panel?.rateAt(n, time) ?? null;
  const minRtt = data[at + B.MIN_RTT] > 0 ? data[at + B.MIN_RTT] : Number(now?.[R.MIN_RTT] ?? 0);
  return {
    cwnd: `${spread(data[at + B.CWND], data[at + B.CWND_MIN], data[at + B.CWND_MAX], (v) => v.toFixed(0))} seg`,
    ssthresh: data[at + B.SSTHRESH] > 0 ? `${data[at + B.SSTHRESH]} seg` : "none yet",
    rate: throughput === null ? NONE : rate(throughput),
    srtt: data[at + B.SRTT] > 0 ? spread(data[at + B.SRTT], data[at + B.SRTT_MIN], data[at + B.SRTT_MAX], timeUs) : NONE,
    minRtt: minRtt > 0 ? timeUs(minRtt) : NONE,
    bounds: boundsAt(flow, time, data[at + B.BOUND]),
    inFlight: `${data[at + B.IN_FLIGHT]} seg`,
    acked: bytes(data[at + (flow.receives ? B.RECEIVED : B.ACKED)]),
    outstanding: bytes(data[at + B.OUTSTANDING]),
    sacked: bytes(data[at + B.SACKED]),
    unsent: knownBytes(data[at + B.NOTSENT]),
    window: knownBytes(data[at + (flow.receives ? B.RCV_WND : B.SND_WND)]),
    state: STATES[data[at + B.STATE] as 0] ?? NONE,
    // Where the drawn records do not show the limit yet, use the list's value of the last two seconds.
    limit: panel?.limitAt(n, time) ?? (time >= flow.store.latest - ROW_PERIOD_US ? limitName(Number(now?.[R.LIMIT] ?? -1)) : undefined) ?? NONE,
  };
}
