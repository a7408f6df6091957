// What limits a flow: names, colours, and the vote that merges stretches of time.
import { LIMITS } from "./wire";

/** Unknown. */
export const UNKNOWN = 255;

/** Colour properties, by index into `LIMITS`. */
const COLORS: Record<(typeof LIMITS)[number][0], string> = {
  "application": "--limit-app",
  "send-buffer": "--limit-buffer",
  "receiver-window": "--limit-window",
  "slow-reader": "--limit-reader",
  "receiver": "--limit-receiver",
  "slow-start": "--limit-start",
  "congestion-avoidance": "--limit-growth",
  "loss": "--loss",
  "sharing": "--bound",
  "recovery": "--recovery",
  "timeout": "--limit-timeout",
  "pacing": "--disorder",
  "own-device": "--cwr",
  "sender-rate": "--disorder",
  "path": "--good",
  "unknown": "--limit-unknown",
};

/** Short explanations for the legend. */
const MEANINGS: Record<(typeof LIMITS)[number][0], string> = {
  "application": "the application has no more data to send",
  "send-buffer": "the send buffer is full",
  "receiver-window": "the receiver's window is full: its buffer is small",
  "slow-reader": "the receiving application reads slowly",
  "receiver": "the receiver's window is full: its buffer is small, or its application reads slowly",
  "slow-start": "the congestion window, in slow start",
  "congestion-avoidance": "the congestion window, while it grows",
  "loss": "the congestion window, reduced by a loss",
  "sharing": "the bound of the sharing group",
  "recovery": "fast recovery",
  "timeout": "a retransmission timeout",
  "pacing": "the pacing rate",
  "own-device": "the queue of this machine's own device",
  "sender-rate": "pacing or the sender's own device, which packets do not distinguish",
  "path": "the path: there is a queue at its bottleneck",
  "unknown": "unknown from these records; for a flow that only receives, look at its sender",
};

export const limitName = (limit: number): string | undefined => LIMITS[limit]?.[0];
export const limitShort = (limit: number): string | undefined => LIMITS[limit]?.[1];
/** The short form of a limit's name. */
export const shortOf = (name: string): string => LIMITS.find(([long]) => long === name)?.[1] ?? name;
export const limitColor = (limit: number): string => COLORS[LIMITS[limit as 0][0]];
export const limitMeaning = (limit: number): string => MEANINGS[LIMITS[limit as 0][0]];

/** Adds time to a vote at `held` (the limit) and `held + 1` (its lead), as `DominantLimit::add` of
 * `yuzuri-view` does. */
export function vote(votes: Float64Array, held: number, limit: number, us: number): void {
  if (votes[held] === limit) votes[held + 1] += us;
  else if (us > votes[held + 1]) {
    votes[held + 1] = us - votes[held + 1];
    votes[held] = limit;
  } else votes[held + 1] -= us;
}
