// A flow's bytes over time, as in tcptrace: written, sent and acknowledged bytes, and the end of
// the receiver's window.
//
// The kernel's record has counters and no sequence numbers of single segments. So a line shows how
// many bytes have arrived (acknowledged and selectively acknowledged), not which, and
// retransmissions are shown at their time in the strip below.
import { B } from "./wire";
import type { Store } from "./ring";
import type { Grid } from "./thin";

type Values = (number | null)[];

/** A window's end, or written bytes, further than this multiple of the shown range from the
 * acknowledged bytes would flatten the lines. */
const MAX_WINDOW_PART = 1.6;

/** Two points per pixel and line, in bytes since the connection began; null where nothing is known. */
export class Sequence {
  acked: Values = [];
  sent: Values = [];
  /** What the application has written: the sent bytes, and those that wait; null where it is unknown. */
  written: Values = [];
  windowEnd: Values = [];
  /** Acknowledged and selectively acknowledged; null where nothing is SACKed. */
  arrived: Values = [];
  /** The range of the lines, bytes. */
  range = { from: 0, to: 1 };

  /** Fills the lines up to `end`. At a receiver, received bytes count as acknowledged; it does not
   * see data in flight. */
  fill(store: Store, g: Grid, end: number, receives: boolean): void {
    for (const list of [this.acked, this.sent, this.written, this.windowEnd, this.arrived]) {
      list.length = g.pixels * 2;
      list.fill(null);
    }
    const to = Math.min(g.start + g.pixels * g.pixel, end);
    const [counter, window] = receives ? [B.RECEIVED, B.RCV_WND] : [B.ACKED, B.SND_WND];
    let known: readonly [number, number, number | null, number | null, number | null] | undefined;
    let next = 0;
    const hold = (upTo: number): void => {
      for (; next < Math.min(upTo, g.pixels * 2); next += 1) {
        if (known !== undefined) [this.acked[next], this.sent[next], this.written[next], this.windowEnd[next], this.arrived[next]] = known;
      }
    };
    for (const [piece, { ring, from, to: until }] of store.pieces(g.start, to, g.pixel).entries()) {
      const data = ring.data;
      // The last bucket before the left edge has the values at the edge.
      for (let n = piece === 0 ? Math.max(from - 1, 0) : from; n < until; n += 1) {
        const i = ring.at(n);
        if (data[i + B.LAST] > end) break;
        hold(Math.floor(((data[i + B.LAST] - g.start) / g.pixel) * 2));
        const acked = data[i + counter];
        const sent = receives ? acked : acked + data[i + B.OUTSTANDING];
        const sacked = receives ? 0 : data[i + B.SACKED];
        const unsent = data[i + B.NOTSENT];
        const written = receives ? acked : unsent < 0 ? null : sent + unsent;
        const room = data[i + window];
        known = [acked, sent, written, room < 0 ? null : acked + room, sacked > 0 ? acked + sacked : null];
      }
    }
    hold(Math.floor(((to - g.start) / g.pixel) * 2) + 1);
    this.measure();
  }

  private measure(): void {
    let [from, to, furthest] = [Infinity, 0, 0];
    for (let n = 0; n < this.acked.length; n += 1) {
      const acked = this.acked[n];
      if (acked === null) continue;
      from = Math.min(from, acked);
      to = Math.max(to, this.sent[n] ?? 0);
      furthest = Math.max(furthest, this.windowEnd[n] ?? 0, this.written[n] ?? 0);
    }
    if (from === Infinity) [from, to] = [0, 1];
    const span = Math.max(to - from, 1);
    to = Math.max(to, Math.min(furthest, from + span * MAX_WINDOW_PART));
    this.range = { from: Math.max(from - 0.04 * span, 0), to: to + 0.04 * span };
  }
}
