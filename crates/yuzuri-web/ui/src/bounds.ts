// The bounds of a flow's window over time, as reported by the sharing daemon: steps, each known for
// some time.
import type { Grid } from "./thin";

/** How long a bound holds in the kernel after it was set, microseconds; after that it is
 * unknown. */
export const LIFETIME_US = 1_500_000;
/** Steps kept per flow: more than half an hour at one a second. */
const MAX_STEPS = 2048;

export interface Bound {
  /** Segments; 0: no bound. */
  lower: number;
  upper: number;
}

interface Step extends Bound {
  from: number;
  until: number;
}

type Values = (number | null)[];

export class Bounds {
  private readonly steps: Step[] = [];

  /** Records a report at a time, microseconds since the session's start. */
  add(time: number, { lower, upper }: Bound): void {
    const last = this.steps[this.steps.length - 1];
    if (last !== undefined && time <= last.from) return;
    if (last !== undefined && time <= last.until) {
      if (last.lower === lower && last.upper === upper) {
        last.until = time + LIFETIME_US;
        return;
      }
      last.until = time;
    }
    this.steps.push({ from: time, until: time + LIFETIME_US, lower, upper });
    if (this.steps.length > MAX_STEPS) this.steps.splice(0, MAX_STEPS / 4);
  }

  /** The bound at a time, if known. */
  at(time: number): Bound | undefined {
    const step = this.steps[this.upTo(time) - 1];
    return step !== undefined && time < step.until ? step : undefined;
  }

  /** Fills two points per pixel up to `end`, with null where there is no bound or none is known;
   * returns the largest bound. */
  fill(lower: Values, upper: Values, g: Grid, end: number): number {
    let most = 0;
    let n = Math.max(this.upTo(g.start) - 1, 0);
    for (let i = 0; i < g.pixels * 2; i += 1) {
      const time = g.start + (i * g.pixel) / 2;
      if (time > end) break;
      while (n + 1 < this.steps.length && this.steps[n + 1].from <= time) n += 1;
      const step = this.steps[n];
      if (step === undefined || time < step.from || time >= step.until) continue;
      if (step.lower > 0) lower[i] = step.lower;
      if (step.upper > 0) upper[i] = step.upper;
      most = Math.max(most, step.lower, step.upper);
    }
    return most;
  }

  /** The number of steps that begin at or before a time. */
  private upTo(time: number): number {
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle].from <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
