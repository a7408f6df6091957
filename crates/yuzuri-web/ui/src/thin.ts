// Reduces buckets to what a chart of a given width can show. Extremes are kept: each pixel has two
// points.
import type { Bounds } from "./bounds";
import { UNKNOWN, vote } from "./limits";
import type { Store } from "./ring";
import { B } from "./wire";

/** A stretch of time in pixels. Pixels are aligned to multiples of their width, so that nothing flickers as it moves. */
export interface Grid {
  /** Time of the first pixel's left edge, microseconds. */
  start: number;
  /** Width of a pixel, microseconds. */
  pixel: number;
  pixels: number;
}

export function grid(from: number, to: number, pixels: number): Grid {
  const pixel = Math.max((to - from) / Math.max(pixels, 1), 1);
  const first = Math.floor(from / pixel);
  return { start: first * pixel, pixel, pixels: Math.ceil(to / pixel) - first + 1 };
}

type Values = (number | null)[];

/** Two points per pixel and quantity; null where nothing is known. */
export class Columns {
  cwnd: Values = [];
  ssthresh: Values = [];
  rate: Values = [];
  srtt: Values = [];
  srttMin: Values = [];
  srttMax: Values = [];
  minRtt: Values = [];
  lower: Values = [];
  upper: Values = [];
  /** Per pixel: the most serious state, 255 if nothing is known. */
  state = new Uint8Array(0);
  /** Per pixel: what limited the flow for most of it, `UNKNOWN` if that is unknown. */
  limit = new Uint8Array(0);
  marks = new Uint16Array(0);
  kinds = new Uint16Array(0);
  /** Largest values. */
  most = { cwnd: 0, ssthresh: 0, bound: 0, rate: 0, rtt: 0 };
  private times = new Float64Array(0);
  private bytes = new Float64Array(0);
  /** Maximum number of bytes that one window can deliver at once: a counter that grew by more
   * between two records grew steadily while records were missing. */
  private bursts = new Float64Array(0);
  private srtts = new Float64Array(0);
  /** Per pixel, the vote of the limits. */
  private votes = new Float64Array(0);

  private reset(pixels: number): void {
    for (const list of [this.cwnd, this.ssthresh, this.rate, this.srtt, this.srttMin, this.srttMax, this.minRtt, this.lower, this.upper]) {
      list.length = pixels * 2;
      list.fill(null);
    }
    if (this.state.length !== pixels) {
      this.state = new Uint8Array(pixels);
      this.limit = new Uint8Array(pixels);
      this.votes = new Float64Array(pixels * 2);
      this.marks = new Uint16Array(pixels);
      this.kinds = new Uint16Array(pixels);
    }
    this.state.fill(255);
    this.limit.fill(UNKNOWN);
    this.votes.fill(0);
    this.marks.fill(0);
    this.kinds.fill(0);
    this.most = { cwnd: 0, ssthresh: 0, bound: 0, rate: 0, rtt: 0 };
  }

  /**
   * Fills the columns. `end` is the time after which nothing is known (now, or when the flow was closed),
   * `received` selects the counter of bytes from which the throughput is computed.
   */
  fill(store: Store, g: Grid, end: number, received: boolean, mss = 1448): void {
    this.reset(g.pixels);
    const to = g.start + g.pixels * g.pixel;
    const counter = received ? B.RECEIVED : B.ACKED;
    // Extends further back than the averaging time, for the throughput at the left edge.
    const pieces = store.pieces(g.start - 2 * smoothing(g.pixel, store.srttAt(g.start)), Math.min(to, end), g.pixel);
    let total = 0;
    for (const piece of pieces) total += piece.to - piece.from;
    if (this.times.length < total) {
      this.times = new Float64Array(total * 2);
      this.bytes = new Float64Array(total * 2);
      this.bursts = new Float64Array(total * 2);
      this.srtts = new Float64Array(total * 2);
    }
    let count = 0;
    let wide = 0;
    let previous = -1;
    let [cwnd, ssthresh, srtt, minRtt, bound, state] = [-1, 0, 0, 0, 0, 255];
    let knownUntil = -Infinity;
    const hold = (upTo: number): void => {
      for (let p = Math.max(previous + 1, 0); p < upTo && p < g.pixels; p += 1) {
        this.put(p, cwnd, cwnd, ssthresh, srtt, srtt, srtt, minRtt, bound);
        this.state[p] = state;
      }
    };
    for (const { ring, from, to: until } of pieces) {
      wide = Math.max(wide, ring.width);
      const data = ring.data;
      for (let n = from; n < until; n += 1) {
        const i = ring.at(n);
        const last = data[i + B.LAST];
        if (last > end && count > 0) break;
        this.times[count] = last;
        this.bytes[count] = data[i + counter];
        this.bursts[count] = 2 * data[i + B.CWND_MAX] * mss;
        this.srtts[count] = data[i + B.SRTT] > 0 ? data[i + B.SRTT] : count > 0 ? this.srtts[count - 1] : 0;
        count += 1;
        const start = data[i + B.START];
        if (data[i + B.LIMIT_BEFORE] >= 0 && knownUntil > -Infinity) this.limited(g, data[i + B.LIMIT_BEFORE], knownUntil, start, start - knownUntil);
        // Before the first record nothing is known.
        const since = knownUntil > -Infinity ? knownUntil : last - data[i + B.LIMIT_LEAD];
        this.limited(g, data[i + B.LIMIT], Math.max(start, since), last, data[i + B.LIMIT_LEAD]);
        knownUntil = last;
        const p = Math.floor((last - g.start) / g.pixel);
        if (p >= g.pixels) break;
        if (p >= 0) {
          if (p > previous) {
            if (cwnd >= 0) hold(p);
            this.begin(p, data, i);
          } else {
            this.join(p, data, i);
          }
          this.state[p] = gravest(this.state[p], data[i + B.STATES]);
          this.marks[p] |= data[i + B.MARKS];
          this.kinds[p] |= data[i + B.KINDS];
          previous = Math.max(p, previous);
        }
        cwnd = data[i + B.CWND];
        ssthresh = data[i + B.SSTHRESH];
        if (data[i + B.SRTT] > 0) srtt = data[i + B.SRTT];
        if (data[i + B.MIN_RTT] > 0) minRtt = data[i + B.MIN_RTT];
        bound = data[i + B.BOUND];
        state = data[i + B.STATE];
      }
    }
    if (cwnd >= 0) hold(Math.floor((Math.min(end, to) - g.start) / g.pixel) + 1);
    this.rates(g, count, wide > g.pixel ? 2 * wide : 0, Math.min(end, to));
    this.order(g.pixels);
    for (let p = 0; p < g.pixels; p += 1) if (this.votes[p * 2 + 1] > 0) this.limit[p] = this.votes[p * 2];
  }

  /** Adds a limit that held between two times, with its lead in that time. */
  private limited(g: Grid, limit: number, from: number, to: number, lead: number): void {
    if (!(lead > 0) || !(to > from)) return;
    const first = Math.max(Math.floor((from - g.start) / g.pixel), 0);
    const last = Math.min(Math.ceil((to - g.start) / g.pixel), g.pixels);
    for (let p = first; p < last; p += 1) {
      const left = g.start + p * g.pixel;
      vote(this.votes, p * 2, limit, (Math.min(to, left + g.pixel) - Math.max(from, left)) * (lead / (to - from)));
    }
  }

  /** Adds the bounds that the daemon reported to the filled columns, which have those that records
   * show. */
  bound(bounds: Bounds, g: Grid, end: number): void {
    this.most.bound = Math.max(this.most.bound, bounds.fill(this.lower, this.upper, g, end));
  }

  private put(p: number, min: number, max: number, ssthresh: number, srtt: number, srttMin: number, srttMax: number, minRtt: number, bound: number): void {
    const a = p * 2;
    this.cwnd[a] = min;
    this.cwnd[a + 1] = max;
    this.most.cwnd = Math.max(this.most.cwnd, max);
    this.ssthresh[a] = this.ssthresh[a + 1] = ssthresh > 0 ? ssthresh : null;
    if (ssthresh > 0) this.most.ssthresh = Math.max(this.most.ssthresh, ssthresh);
    if (srtt > 0) {
      this.srtt[a] = this.srtt[a + 1] = srtt;
      this.srttMin[a] = this.srttMin[a + 1] = srttMin;
      this.srttMax[a] = this.srttMax[a + 1] = srttMax;
      this.most.rtt = Math.max(this.most.rtt, srttMax);
    }
    if (minRtt > 0) this.minRtt[a] = this.minRtt[a + 1] = minRtt;
    if (bound > 0) {
      this.upper[a] = this.upper[a + 1] = bound;
      this.most.bound = Math.max(this.most.bound, bound);
    }
  }

  private begin(p: number, data: Float64Array, i: number): void {
    this.put(p, data[i + B.CWND_MIN], data[i + B.CWND_MAX], data[i + B.SSTHRESH], data[i + B.SRTT], data[i + B.SRTT_MIN], data[i + B.SRTT_MAX], data[i + B.MIN_RTT], data[i + B.BOUND]);
  }

  private join(p: number, data: Float64Array, i: number): void {
    const a = p * 2;
    const low = Math.min(this.cwnd[a] ?? Infinity, data[i + B.CWND_MIN]);
    const high = Math.max(this.cwnd[a + 1] ?? 0, data[i + B.CWND_MAX]);
    const srttMin = data[i + B.SRTT] > 0 ? Math.min(this.srttMin[a] ?? Infinity, data[i + B.SRTT_MIN]) : 0;
    const srttMax = Math.max(this.srttMax[a] ?? 0, data[i + B.SRTT_MAX]);
    this.put(p, low, high, data[i + B.SSTHRESH], data[i + B.SRTT], srttMin, srttMax, data[i + B.MIN_RTT], data[i + B.BOUND]);
  }

  /** The trailing mean of the counter at the right edge of each pixel, over the averaging time for
   * the RTT of that time, and over no less than `least`. */
  private rates(g: Grid, count: number, least: number, end: number): void {
    if (count === 0) return;
    const { times, bytes, bursts, srtts } = this;
    let late = 0;
    let early = 0;
    // The counter at a time, interpolated between two records. If these are far apart and the
    // counter grew by at most what a window delivers at once, the flow was idle, and the counter is
    // not interpolated; if it grew by more, records were lost.
    const value = (time: number, n: number, window: number): number => {
      const next = n + 1;
      if (next >= count || times[next] <= times[n]) return bytes[n];
      if (times[next] - times[n] > 2 * window && bytes[next] - bytes[n] <= bursts[n]) return bytes[n];
      return bytes[n] + ((bytes[next] - bytes[n]) * (time - times[n])) / (times[next] - times[n]);
    };
    for (let p = 0; p < g.pixels; p += 1) {
      const time = Math.min(g.start + (p + 1) * g.pixel, end);
      if (g.start + p * g.pixel > end) break;
      while (late + 1 < count && times[late + 1] <= time) late += 1;
      if (times[late] > time) continue;
      const window = Math.max(smoothing(g.pixel, srtts[late]), least);
      let span = window;
      let base: number;
      if (time - window < times[0]) {
        span = time - times[0];
        if (span < Math.min(50_000, window)) continue;
        base = bytes[0];
      } else {
        while (early > 0 && times[early] > time - window) early -= 1;
        while (early + 1 < count && times[early + 1] <= time - window) early += 1;
        base = value(time - window, early, window);
      }
      const rate = (Math.max(value(time, late, window) - base, 0) * 8e6) / span;
      this.rate[p * 2] = this.rate[p * 2 + 1] = rate;
      this.most.rate = Math.max(this.most.rate, rate);
    }
  }

  /** Within a pixel, the lower and upper end are drawn in the order that makes the shorter line
   * from the previous pixel. */
  private order(pixels: number): void {
    let before: number | null = null;
    for (let p = 0; p < pixels; p += 1) {
      const low = this.cwnd[p * 2];
      const high = this.cwnd[p * 2 + 1];
      if (low === null || high === null) continue;
      if (before !== null && high !== low && Math.abs(before - high) < Math.abs(before - low)) {
        this.cwnd[p * 2] = high;
        this.cwnd[p * 2 + 1] = low;
      }
      before = this.cwnd[p * 2 + 1];
    }
  }
}

/** A largest value this many times above the 99th percentile is a spike: the scale leaves it out. */
const SPIKE = 2;

/** Upper end of a scale for these values: the largest, or where that is a spike, a quarter above the 99th percentile. */
export function scaleEnd(values: readonly (number | null)[], most: number): number {
  let count = 0;
  let high = 0;
  for (const value of values) {
    if (value === null) continue;
    count += 1;
    if (value * SPIKE >= most) high += 1;
  }
  // Called at each frame, mostly without a spike: if more than a hundredth of the values are high,
  // no sorting is needed.
  const place = Math.floor((count - 1) * 0.99);
  if (count - high <= place) return most;
  const known = Float64Array.from(values.filter((value): value is number => value !== null)).sort();
  const usual = known[place];
  return usual > 0 ? 1.25 * usual : most;
}

/**
 * The averaging time of the throughput, microseconds: the longest of a pixel, two RTTs (within one,
 * ACKs come in bursts) and 100 ms.
 */
export function smoothing(pixelUs: number, srttUs: number): number {
  return Math.max(pixelUs, 2 * srttUs, 100_000);
}

function gravest(now: number, bits: number): number {
  const state = bits === 0 ? 0 : 31 - Math.clz32(bits);
  return now === 255 ? state : Math.max(now, state);
}
