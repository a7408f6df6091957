// The types of the server's messages (`src/encode.rs`). Times are microseconds since the session's start, ids are
// hexadecimal text.
export { B, E, Kind, LIMITS, Mark, R, Reason, STRIDE } from "./fields";

/** A flow's identity. */
export interface Who {
  id: string;
  local: string;
  remote: string;
  netns: number;
  netns_name: string | null;
  pid: number | null;
  process: string | null;
  cgroup: number;
  control: string;
  role: string;
  first: number;
}

/** A row: its id, then numbers (null where still open in `CLOSED`). */
export type RowData = [string, ...(number | null)[]];

export interface RowsMessage {
  now: number;
  epoch: number;
  all: boolean;
  flows: Who[];
  rows: RowData[];
  gone: string[];
  sparks: Record<string, [number[], number[]]>;
}

export interface ChartMessage {
  now: number;
  epoch: number;
  flows: Record<string, number[]>;
}

/** number, time, flow, kind, reason, place, state, state before, marks, cwnd, ssthresh, srtt, cpu */
export type EventData = [number, number, string, number, number, string, number, number, number, number, number, number, number];

export interface EventsMessage {
  skipped: number;
  events: EventData[];
}

export interface Replay {
  paused: boolean;
  speed: number;
  position_us: number;
  length_us: number;
}

export interface Status {
  now: number;
  epoch: number;
  zero_unix_us: number;
  seen: number | null;
  kept: number | null;
  lost: number | null;
  thinned: number | null;
  reasons: [string, number][];
  not_shown: number;
  forgotten: number;
  filter: string;
  interval_us: number;
  browsers: number;
  replay: Replay | null;
}

export interface Hook {
  name: string;
  provides: string;
  state: "used" | { missing: { why: string; instead: string } };
}

export interface Session {
  yuzuri: string;
  host: string;
  kernel: string;
  machine: string;
  source: "events" | "sampled";
  hooks: Hook[];
  started_unix_us: number;
  now: number;
  filter_syntax: string;
  kinds: string[];
  reasons: string[];
  states: string[];
  marks: [number, string][];
}

export interface History {
  now: number;
  epoch: number;
  buckets: number[];
  events: EventData[];
  events_from: number;
}

/** `CaState` as text. */
export const STATES = ["Open", "Disorder", "CWR", "Recovery", "Loss"] as const;

/** Flows in one queue, with the least correlation of those that connect them. */
export interface Bottleneck {
  flows: string[];
  correlation: number;
  deviations: number;
}
