// What the server says: the mirror of `src/encode.rs`. Times are microseconds since the session's start, ids are
// hexadecimal text.

/** Who a flow is. */
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

/** Places in a row's array. */
export const R = {
  ID: 0, SENT: 1, RECEIVED: 2, CWND: 3, SSTHRESH: 4, SRTT: 5, RTTVAR: 6, MIN_RTT: 7, IN_FLIGHT: 8, LOST: 9, SACKED: 10,
  RETRANS_OUT: 11, MSS: 12, SND_WND: 13, RCV_WND: 14, WMEM: 15, NOTSENT: 16, DELIVERY: 17, PACING: 18, TOTAL_RETRANS: 19,
  STATE: 20, CLOSED: 21, TIMEOUTS: 22, DUP_ACKS: 23, DSACKS: 24, EVENTS: 25, APP_LIMITED: 26, ACKED: 27, BYTES_RECEIVED: 28,
} as const;

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

/** Places in a bucket, of which messages hold many one after the other. */
export const B = {
  START: 0, LAST: 1, EVENTS: 2, CWND_MIN: 3, CWND_MAX: 4, CWND: 5, SSTHRESH: 6, SRTT_MIN: 7, SRTT_MAX: 8, SRTT: 9, MIN_RTT: 10,
  IN_FLIGHT: 11, ACKED: 12, RECEIVED: 13, STATES: 14, STATE: 15, MARKS: 16, KINDS: 17, RETRANSMITS: 18,
} as const;
/** Numbers per bucket. */
export const STRIDE = 19;

export interface ChartMessage {
  now: number;
  epoch: number;
  flows: Record<string, number[]>;
}

/** number, time, flow, kind, reason, place, state, state before, marks, cwnd, ssthresh, srtt, cpu */
export type EventData = [number, number, string, number, number, string, number, number, number, number, number, number, number];
export const E = {
  NUMBER: 0, TIME: 1, FLOW: 2, KIND: 3, REASON: 4, PLACE: 5, STATE: 6, BEFORE: 7, MARKS: 8, CWND: 9, SSTHRESH: 10, SRTT: 11, CPU: 12,
} as const;

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
  face_lost: number;
  forgotten: number;
  filter: string;
  interval_us: number;
  browsers: number;
  replay: Replay | null;
}

export interface Hook {
  name: string;
  tells: string;
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

/** `Kind` of `yuzuri-trace`. */
export const Kind = { SAMPLE: 0, STATE: 1, RETRANSMIT: 2, TIMEOUT: 3, REORDERING: 4, UNDO: 5, OPEN: 6, CLOSE: 7, CONTROL: 8 } as const;
/** `Reason` of `yuzuri-trace`. */
export const Reason = { ECN: 2, LOCAL_CONGESTION: 3, FAST_RETRANSMIT: 4, TIMEOUT: 5, TAIL_LOSS_PROBE: 6, LOSS_RECOVERY: 7, SACK_RENEGING: 8 } as const;
/** `Marks` of `yuzuri-trace`. */
export const Mark = { DUP_ACK: 1, SACK: 2, DSACK: 4, ECE: 8, APP_LIMITED: 16, SSTHRESH: 32, SAMPLED: 64 } as const;
/** `CaState`, as people read it. */
export const STATES = ["Open", "Disorder", "CWR", "Recovery", "Loss"] as const;
