// The data of a flow in a report, and the parts of it that a view shows.
import type { View } from "./drawn";
import { roundUp } from "./format";

/** Times are microseconds since the flow's beginning. Written by `yuzuri-identify`. */
export interface Data {
  /** The end of the last round or segment. */
  end: number;
  /** Bytes per segment. */
  mss: number;
  /** Rounds: start, length, segments acknowledged, window, window of the algorithm (null: it
   * predicted none), minimum, mean and maximum RTT (microseconds; 0: none measured). */
  rounds: [number, number, number, number, number | null, number, number, number][];
  /** Reductions: time, the window before, and whether by a timeout. */
  losses: [number, number, boolean][];
  /** Rounds of loss recovery (true) or with another limit: from and to. */
  bands: [number, number, boolean][];
  /** What limited the sender: from, to, name. */
  limits: [number, number, string][];
  /** Segments, as differences: kind, time since the one before, and what the kind needs
   * (`Marks`). */
  marks: number[];
}

type Values = (number | null)[];
type Aligned = [number[], ...Values[]];

const MAX_GROUPS = 240;
/** A window's end further than this multiple of the shown range would flatten the rest. */
const MAX_WINDOW_PART = 1.6;

/** The first index whose `time` is not before `at`; times do not decrease. */
function place(count: number, time: (n: number) => number, at: number): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time(middle) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A flow's rounds. */
export class Rounds {
  constructor(readonly data: Data) {}

  /** The rounds within a view, and one beyond each edge so that lines reach the edges. */
  private shown({ from, to }: View): Data["rounds"] {
    const { rounds } = this.data;
    const time = (n: number): number => rounds[n][0] + rounds[n][1];
    return rounds.slice(Math.max(place(rounds.length, time, from) - 1, 0), place(rounds.length, time, to) + 1);
  }

  /** Times in seconds, windows, and those of the algorithm. */
  windows(view: View): Aligned {
    const shown = this.shown(view);
    return [shown.map((r) => (r[0] + r[1]) / 1e6), shown.map((r) => r[3]), shown.map((r) => r[4])];
  }

  differences(view: View): Aligned {
    const shown = this.shown(view);
    return [shown.map((r) => (r[0] + r[1]) / 1e6), shown.map((r) => (r[4] === null ? null : r[4] - r[3]))];
  }

  /** Throughput, bit/s, and maximum, mean and minimum RTT, microseconds, of groups of rounds. */
  rates(view: View): [Aligned, Aligned] {
    const shown = this.shown(view);
    const size = Math.max(Math.ceil(shown.length / MAX_GROUPS), 1);
    const rate: Aligned = [[], []];
    const rtt: Aligned = [[], [], [], []];
    for (let n = 0; n < shown.length; n += size) {
      const group = shown.slice(n, n + size);
      const last = group[group.length - 1];
      const us = last[0] + last[1] - group[0][0];
      const at = (group[0][0] + us / 2) / 1e6;
      if (us > 0) {
        rate[0].push(at);
        rate[1].push((group.reduce((sum, r) => sum + r[2], 0) * this.data.mss * 8e6) / us);
      }
      const measured = group.filter((r) => r[6] > 0);
      if (measured.length === 0) continue;
      rtt[0].push(at);
      rtt[1].push(Math.max(...measured.map((r) => r[7])));
      rtt[2].push(measured.reduce((sum, r) => sum + r[6], 0) / measured.length);
      rtt[3].push(Math.min(...measured.map((r) => r[5])));
    }
    return [rate, rtt];
  }
}

export const SENT = 0;
export const RETRANSMITTED = 1;
export const SELECTIVE = 2;
export const ACKNOWLEDGED = 3;

/** Segments in order: kind, time, and first and last byte; of an acknowledgement its number and the
 * end of the receive window, NaN where that is unknown. */
export class Marks {
  readonly kind: number[] = [];
  readonly time: number[] = [];
  readonly from: number[] = [];
  readonly to: number[] = [];

  /** Data and acknowledgements are encoded as distances from the previous one of their kind. */
  constructor(flat: readonly number[]) {
    let time = 0;
    const last = [0, 0, 0, 0];
    for (let n = 0; n + 3 < flat.length; n += 4) {
      const [kind, later, ahead, length] = flat.slice(n, n + 4);
      time += later;
      const from = last[kind] + ahead;
      const to = kind === ACKNOWLEDGED && length < 0 ? NaN : from + length;
      last[kind] = kind === ACKNOWLEDGED ? from : to;
      this.kind.push(kind);
      this.time.push(time);
      this.from.push(from);
      this.to.push(to);
    }
  }

  /** The indices of the segments within a view, from and to. */
  shown({ from, to }: View): [number, number] {
    const time = (n: number): number => this.time[n];
    return [place(this.time.length, time, from), place(this.time.length, time, to + 1)];
  }

  /** The bytes that a view shows, from and to. */
  range(view: View): [number, number] {
    const [first, end] = this.shown(view);
    let [low, high, furthest] = [Infinity, 0, 0];
    for (let n = first; n < end; n += 1) {
      low = Math.min(low, this.from[n]);
      high = Math.max(high, this.kind[n] === ACKNOWLEDGED ? this.from[n] : this.to[n]);
      if (this.kind[n] === ACKNOWLEDGED && this.to[n] > furthest) furthest = this.to[n];
    }
    if (low === Infinity) return [0, 1];
    const span = Math.max(high - low, 1);
    high = Math.max(high, Math.min(furthest, low + span * MAX_WINDOW_PART));
    return [Math.max(low - 0.03 * span, 0), high + 0.03 * span];
  }
}

const marks = new WeakMap<Data, Marks>();
export function marksOf(data: Data): Marks {
  let made = marks.get(data);
  if (made === undefined) marks.set(data, (made = new Marks(data.marks)));
  return made;
}

/** What limited the sender within a view. */
export const limitsAt = (data: Data, { from, to }: View): Data["limits"] => data.limits.filter(([a, b]) => b >= from && a <= to);

export interface Scales {
  window?: [number, number];
  difference?: [number, number];
  rate?: [number, number];
  rtt?: [number, number];
  bytes?: [number, number];
}

/** The ends of the vertical axes for a view. */
export function scale(data: Data, rounds: Rounds, view: View): Scales {
  const most = (values: Values): number => values.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
  const [, windows] = rounds.windows(view);
  const apart = most(rounds.differences(view)[1].map((value) => (value === null ? null : Math.abs(value))));
  const [[, rate], [, rtt]] = rounds.rates(view);
  const reach = roundUp(Math.min(Math.max(apart, 1), most(windows)) * 1.02);
  return {
    window: [0, roundUp(Math.max(most(windows), 1) * 1.06)],
    difference: [-reach, reach],
    rate: [0, roundUp(most(rate) * 1.06)],
    rtt: [0, roundUp((most(rtt) * 1.06) / 1000) * 1000],
    bytes: marksOf(data).range(view),
  };
}
