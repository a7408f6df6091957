// The observed machine's time, and how times are written.
import { clock, elapsed } from "./format";
import type { TimeAxis } from "./plots";
import { state } from "./state";

/** Distance of the right edge from the current time, microseconds, to cover data that the server
 * has not sent yet. */
export const BEHIND_US = 160_000;

/** The newest time received, and when it was received. */
let received = { now: 0, at: 0 };
let shown = 0;

/** How fast time passes there: 1 live, otherwise the replay's speed. */
export function speed(): number {
  const replay = state.status?.replay;
  return replay === null || replay === undefined ? 1 : replay.paused ? 0 : replay.speed;
}

export function receiveTime(now: number): void {
  received = { now, at: performance.now() };
}

/** The newest time received; 0 before the first. */
export const newest = (): number => received.now;

/** The current time there, extrapolated from the newest message; it never goes back, except after
 * `jump`. */
export function now(): number {
  if (received.at === 0) return 0;
  const since = state.link.state === "open" ? Math.min((performance.now() - received.at) * 1000 * speed(), 400_000 * Math.max(speed(), 1)) : 0;
  shown = Math.max(shown, received.now + since);
  return shown;
}

/** Allows time to go back from here on. */
export function jump(): void {
  shown = 0;
}

/** Unix time of the session's start, microseconds. */
export const zero = (): number => state.status?.zero_unix_us ?? state.session?.started_unix_us ?? 0;

export function timeAxis(): TimeAxis {
  if (!state.byClock) return { offsetUs: 0, label: elapsed };
  // Ticks on round times of the day, in the reader's time zone.
  const offset = zero() % 3600e6;
  return { offsetUs: offset, label: (us, digits) => clock(zero() + us + (digits === 0 ? 1000 : 0), digits) };
}

export const timeText = (us: number, digits: number): string => (state.byClock ? clock(zero() + us, digits) : elapsed(us, digits));
