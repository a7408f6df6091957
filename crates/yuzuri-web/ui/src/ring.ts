// A flow's history in four rings of buckets of growing width. All memory is allocated at the start
// and never grows.
import { vote } from "./limits";
import { B, E, STRIDE, type EventData } from "./wire";

/** Buckets of one width; the newest overwrites the oldest. */
export class Ring {
  readonly data: Float64Array;
  private first = 0;
  count = 0;

  constructor(readonly width: number, readonly most: number) {
    this.data = new Float64Array(most * STRIDE);
  }

  clear(): void {
    this.first = 0;
    this.count = 0;
  }

  /** The index in `data` of the n-th oldest bucket. */
  at(n: number): number {
    return ((this.first + n) % this.most) * STRIDE;
  }

  /** Start of the oldest bucket; Infinity when empty. */
  get oldest(): number {
    return this.count === 0 ? Infinity : this.data[this.at(0) + B.START];
  }

  /** Adds the bucket at `from[at]`; merges it into the last one if it belongs to the same stretch
   * or is older. */
  push(from: ArrayLike<number>, at: number): void {
    const start = Math.floor(from[at + B.START] / this.width) * this.width;
    if (this.count > 0) {
      const last = this.at(this.count - 1);
      if (start <= this.data[last + B.START]) {
        merge(this.data, last, from, at);
        return;
      }
    }
    if (this.count === this.most) {
      this.first = (this.first + 1) % this.most;
      this.count -= 1;
    }
    const to = this.at(this.count);
    const before = this.count > 0 ? this.data[this.at(this.count - 1) + B.LAST] : Infinity;
    this.count += 1;
    for (let n = 0; n < STRIDE; n += 1) this.data[to + n] = from[at + n];
    // The stored bucket begins earlier than the given one: the limit before it covers the time
    // between.
    const early = from[at + B.START] - Math.max(start, before);
    if (early > 0 && from[at + B.LIMIT_BEFORE] >= 0) vote(this.data, to + B.LIMIT, from[at + B.LIMIT_BEFORE], early);
    this.data[to + B.START] = start;
  }

  /** The number of buckets that start at or before `time`. */
  upTo(time: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.data[this.at(middle) + B.START] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Merges two buckets, as `Bucket::merge` in `yuzuri-view` does. */
function merge(into: Float64Array, i: number, from: ArrayLike<number>, j: number): void {
  into[i + B.EVENTS] += from[j + B.EVENTS];
  into[i + B.CWND_MIN] = Math.min(into[i + B.CWND_MIN], from[j + B.CWND_MIN]);
  into[i + B.CWND_MAX] = Math.max(into[i + B.CWND_MAX], from[j + B.CWND_MAX]);
  if (from[j + B.SRTT] > 0) {
    if (into[i + B.SRTT] > 0) {
      into[i + B.SRTT_MIN] = Math.min(into[i + B.SRTT_MIN], from[j + B.SRTT_MIN]);
      into[i + B.SRTT_MAX] = Math.max(into[i + B.SRTT_MAX], from[j + B.SRTT_MAX]);
    } else {
      into[i + B.SRTT_MIN] = from[j + B.SRTT_MIN];
      into[i + B.SRTT_MAX] = from[j + B.SRTT_MAX];
      into[i + B.SRTT] = from[j + B.SRTT];
    }
  }
  into[i + B.IN_FLIGHT] = Math.max(into[i + B.IN_FLIGHT], from[j + B.IN_FLIGHT]);
  into[i + B.ACKED] = Math.max(into[i + B.ACKED], from[j + B.ACKED]);
  into[i + B.RECEIVED] = Math.max(into[i + B.RECEIVED], from[j + B.RECEIVED]);
  into[i + B.STATES] |= from[j + B.STATES];
  into[i + B.MARKS] |= from[j + B.MARKS];
  into[i + B.KINDS] |= from[j + B.KINDS];
  into[i + B.RETRANSMITS] += from[j + B.RETRANSMITS];
  const isLater = from[j + B.LAST] >= into[i + B.LAST];
  if (isLater && from[j + B.LIMIT_BEFORE] >= 0) vote(into, i + B.LIMIT, from[j + B.LIMIT_BEFORE], Math.max(from[j + B.START] - into[i + B.LAST], 0));
  vote(into, i + B.LIMIT, from[j + B.LIMIT], from[j + B.LIMIT_LEAD]);
  if (from[j + B.MIN_RTT] > 0 && (isLater || into[i + B.MIN_RTT] === 0)) into[i + B.MIN_RTT] = from[j + B.MIN_RTT];
  if (from[j + B.BOUND] > 0 && (isLater || into[i + B.BOUND] === 0)) into[i + B.BOUND] = from[j + B.BOUND];
  if (from[j + B.NOTSENT] >= 0 && (isLater || into[i + B.NOTSENT] < 0)) into[i + B.NOTSENT] = from[j + B.NOTSENT];
  if (isLater) {
    into[i + B.LAST] = from[j + B.LAST];
    into[i + B.CWND] = from[j + B.CWND];
    into[i + B.SSTHRESH] = from[j + B.SSTHRESH];
    for (const place of [B.OUTSTANDING, B.SACKED, B.SND_WND, B.RCV_WND]) into[i + place] = from[j + place];
    if (from[j + B.SRTT] > 0) into[i + B.SRTT] = from[j + B.SRTT];
    into[i + B.STATE] = from[j + B.STATE];
  }
}

/** Width in microseconds and number: 16 s at 4 ms, 2 min at 32 ms, 9 min at 256 ms, 70 min at 2 s. */
const LEVELS: readonly [number, number][] = [[4_000, 4096], [32_000, 4096], [256_000, 2048], [2_048_000, 2048]];
const MAX_EVENTS = 4000;

/** A piece of one ring: buckets `from` to `to` (exclusive). */
export interface Piece {
  ring: Ring;
  from: number;
  to: number;
}

/** A flow's history as far as the page has it. */
export class Store {
  readonly levels = LEVELS.map(([width, most]) => new Ring(width, most));
  /** Notable events, oldest first. */
  events: EventData[] = [];
  /** The time from which `events` is complete. */
  eventsFrom = Infinity;
  /** Whether the server's history has been loaded. */
  filled = false;
  private early: number[][] = [];

  clear(): void {
    for (const level of this.levels) level.clear();
    this.events = [];
    this.eventsFrom = Infinity;
    this.filled = false;
    this.early = [];
  }

  /** Adds new buckets. They wait until the history is loaded. */
  push(buckets: number[]): void {
    if (!this.filled) {
      // Bounded: the history arrives within seconds or is requested again.
      if (this.early.length < 600) this.early.push(buckets);
      return;
    }
    for (let at = 0; at < buckets.length; at += STRIDE) {
      for (const level of this.levels) level.push(buckets, at);
    }
  }

  /** Loads the history: per level (coarser than the first) the server's buckets, and the time up to
   * which they go. */
  fill(past: { buckets: number[]; now: number }[]): void {
    const early = this.early;
    for (const level of this.levels) level.clear();
    past.forEach(({ buckets, now }, n) => {
      const level = this.levels[n + 1];
      for (let at = 0; at < buckets.length; at += STRIDE) level.push(buckets, at);
      for (const list of early) {
        for (let at = 0; at < list.length; at += STRIDE) {
          if (list[at + B.LAST] > now) level.push(list, at);
        }
      }
    });
    for (const list of early) {
      for (let at = 0; at < list.length; at += STRIDE) this.levels[0].push(list, at);
    }
    this.early = [];
    this.filled = true;
  }

  addEvents(events: EventData[]): void {
    for (const event of events) {
      const last = this.events[this.events.length - 1];
      if (last !== undefined && event[E.NUMBER] <= last[E.NUMBER]) continue;
      this.events.push(event);
    }
    if (this.events.length > MAX_EVENTS * 1.25) {
      this.events = this.events.slice(-MAX_EVENTS);
      this.eventsFrom = this.events[0][E.TIME];
    }
  }

  /**
   * The buckets between two times, from the coarsest level that is no wider than `width`; where
   * that level does not reach back, from coarser ones. The last bucket before `from` is included,
   * since its values hold until the next one.
   */
  pieces(from: number, to: number, width: number): Piece[] {
    let best = 0;
    this.levels.forEach((level, n) => {
      if (level.width <= width * 1.25) best = n;
    });
    const pieces: Piece[] = [];
    let end = to;
    for (let n = best; n < this.levels.length && end > from; n += 1) {
      const ring = this.levels[n];
      // The part covered by the finer level is left to it, even if a wide bucket overlaps it.
      let last = ring.upTo(end);
      while (last > 0 && end < to && ring.data[ring.at(last - 1) + B.START] + ring.width > end) last -= 1;
      const first = Math.max(ring.upTo(from) - 1, 0);
      if (last > first) pieces.unshift({ ring, from: first, to: last });
      end = Math.min(end, ring.oldest);
    }
    return pieces;
  }

  /** The bucket with the values at `time`, as ring and index in its data. */
  lookup(time: number): { data: Float64Array; at: number; width: number } | undefined {
    for (const ring of this.levels) {
      const n = ring.upTo(time);
      if (n > 0) return { data: ring.data, at: ring.at(n - 1), width: ring.width };
    }
    return undefined;
  }

  /** The smoothed RTT at `time`, microseconds; 0 where it is not known. */
  srttAt(time: number): number {
    const found = this.lookup(time);
    return found === undefined ? 0 : found.data[found.at + B.SRTT];
  }

  /** Start of the oldest bucket; Infinity where there is none. */
  get oldest(): number {
    return Math.min(...this.levels.map((level) => level.oldest));
  }

  /** Time of the latest bucket; 0 when there is none. */
  get latest(): number {
    let latest = 0;
    for (const ring of this.levels) {
      if (ring.count > 0) latest = Math.max(latest, ring.data[ring.at(ring.count - 1) + B.LAST]);
    }
    return latest;
  }
}
