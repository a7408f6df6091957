// Indices of the fields in the arrays of messages. Generated from `src/fields.rs`:
// UPDATE_GOLDEN=1 cargo test -p yuzuri-web fields

/** Indices of a row's array. */
export const R = {
  /** the flow's socket cookie, hexadecimal text */
  ID: 0,
  /** bytes acknowledged, bit/s */
  SENT: 1,
  /** bytes received, bit/s */
  RECEIVED: 2,
  /** segments */
  CWND: 3,
  /** segments; 0: none yet */
  SSTHRESH: 4,
  /** µs; 0: unmeasured */
  SRTT: 5,
  /** µs */
  RTTVAR: 6,
  /** µs; 0: unmeasured */
  MIN_RTT: 7,
  /** segments */
  IN_FLIGHT: 8,
  /** lost_out, segments */
  LOST: 9,
  /** sacked_out, segments */
  SACKED: 10,
  /** retrans_out, segments */
  RETRANS_OUT: 11,
  /** mss_cache, bytes */
  MSS: 12,
  /** the peer's receive window, bytes; -1: unknown */
  SND_WND: 13,
  /** our receive window, bytes */
  RCV_WND: 14,
  /** sk_wmem_queued, bytes */
  WMEM: 15,
  /** written and not yet sent, bytes; -1: unknown */
  NOTSENT: 16,
  /** delivery rate, bit/s */
  DELIVERY: 17,
  /** pacing rate, bit/s; 0: does not limit */
  PACING: 18,
  /** segments */
  TOTAL_RETRANS: 19,
  /** index into STATES */
  STATE: 20,
  /** time, µs; null: open */
  CLOSED: 21,
  /** retransmission timeouts since watching began */
  TIMEOUTS: 22,
  /** duplicate ACKs since watching began */
  DUP_ACKS: 23,
  /** DSACKs since watching began */
  DSACKS: 24,
  /** records since watching began */
  EVENTS: 25,
  /** 1: the application had nothing to send */
  APP_LIMITED: 26,
  /** bytes_acked */
  ACKED: 27,
  /** bytes_received */
  BYTES_RECEIVED: 28,
  /** since when the filter no longer selects it, µs; null: it is watched */
  UNWATCHED: 29,
  /** what limited it for most of the last two seconds, index into LIMITS; -1: unknown */
  LIMIT: 30,
  /** for which part of that time, per cent; 0: unknown */
  LIMIT_PART: 31,
  /** when a record first said that the window is at its upper bound by sharing, µs; null: none did */
  BOUND_SINCE: 32,
} as const;

/** Indices of a bucket, of which messages hold many one after the other. */
export const B = {
  /** µs */
  START: 0,
  /** time of the last record, µs */
  LAST: 1,
  /** records */
  EVENTS: 2,
  /** segments */
  CWND_MIN: 3,
  /** segments */
  CWND_MAX: 4,
  /** the last, segments */
  CWND: 5,
  /** the last, segments; 0: none yet */
  SSTHRESH: 6,
  /** µs; 0: unmeasured */
  SRTT_MIN: 7,
  /** µs */
  SRTT_MAX: 8,
  /** the last, µs */
  SRTT: 9,
  /** the last that was measured, µs; 0: none */
  MIN_RTT: 10,
  /** the largest, segments */
  IN_FLIGHT: 11,
  /** bytes_acked at the end */
  ACKED: 12,
  /** bytes_received at the end */
  RECEIVED: 13,
  /** a bit for each state seen */
  STATES: 14,
  /** the last, index into STATES */
  STATE: 15,
  /** marks seen (Mark) */
  MARKS: 16,
  /** a bit for each kind of record seen (Kind) */
  KINDS: 17,
  /** segments */
  RETRANSMITS: 18,
  /** sent and not yet cumulatively acknowledged at the end, bytes */
  OUTSTANDING: 19,
  /** selectively acknowledged at the end, bytes */
  SACKED: 20,
  /** the peer's receive window at the end, bytes; -1: unknown */
  SND_WND: 21,
  /** our receive window at the end, bytes */
  RCV_WND: 22,
  /** what limited the flow for most of the time, index into LIMITS */
  LIMIT: 23,
  /** its certainty, µs (the lead in a majority vote weighted by time); 0: unknown */
  LIMIT_LEAD: 24,
  /** what limited it from the record before until the start, index into LIMITS; -1: unknown */
  LIMIT_BEFORE: 25,
  /** the last known of written and not yet sent, bytes; -1: unknown */
  NOTSENT: 26,
  /** the last upper bound of the window by sharing that records show (a window that rests at it), segments; 0: none */
  BOUND: 27,
} as const;
/** Numbers per bucket. */
export const STRIDE = 28;

/** Indices of an event's array. */
export const E = {
  /** counts up without gaps */
  NUMBER: 0,
  /** µs */
  TIME: 1,
  /** the flow's socket cookie, hexadecimal text */
  FLOW: 2,
  /** Kind */
  KIND: 3,
  /** Reason */
  REASON: 4,
  /** kernel function or tracepoint, text */
  PLACE: 5,
  /** index into STATES */
  STATE: 6,
  /** the state before, index into STATES */
  BEFORE: 7,
  /** Mark */
  MARKS: 8,
  /** segments */
  CWND: 9,
  /** segments; 0: none yet */
  SSTHRESH: 10,
  /** µs; 0: unmeasured */
  SRTT: 11,
  /** processor */
  CPU: 12,
} as const;

/** `Kind` of `yuzuri-trace`. */
export const Kind = {
  SAMPLE: 0,
  STATE: 1,
  RETRANSMIT: 2,
  TIMEOUT: 3,
  REORDERING: 4,
  UNDO: 5,
  OPEN: 6,
  CLOSE: 7,
  CONTROL: 8,
} as const;

/** `Reason` of `yuzuri-trace`. */
export const Reason = {
  NONE: 0,
  DUP_ACK: 1,
  ECN: 2,
  LOCAL_CONGESTION: 3,
  FAST_RETRANSMIT: 4,
  TIMEOUT: 5,
  TAIL_LOSS_PROBE: 6,
  LOSS_RECOVERY: 7,
  SACK_RENEGING: 8,
  RECOVERED: 9,
  UNDO: 10,
  RESOLVED: 11,
  MTU: 12,
  OPENED: 13,
  ACCEPTED: 14,
  CLOSED: 15,
  RESET: 16,
  TIMED_OUT: 17,
  CHOSEN: 18,
  CLOSE_NOT_SEEN: 19,
} as const;

/** `Marks` of `yuzuri-trace`. */
export const Mark = {
  DUP_ACK: 1,
  SACK: 2,
  DSACK: 4,
  ECE: 8,
  APP_LIMITED: 16,
  SSTHRESH: 32,
  SAMPLED: 64,
  NO_SPACE: 128,
  CWND_LIMITED: 256,
  THROTTLED: 512,
  AT_BOUND: 1024,
} as const;

/** `CaState` of `yuzuri-trace`. */
export const State = {
  OPEN: 0,
  DISORDER: 1,
  CWR: 2,
  RECOVERY: 3,
  LOSS: 4,
} as const;

/** What limits a sender, by its index (`Limit` of `yuzuri-limits`), and its name in a narrow column. */
export const LIMITS = [
  ["application", "app"],
  ["send-buffer", "sndbuf"],
  ["receiver-window", "rwnd"],
  ["slow-reader", "reader"],
  ["receiver", "rcvr"],
  ["slow-start", "start"],
  ["congestion-avoidance", "cwnd"],
  ["loss", "loss"],
  ["sharing", "share"],
  ["recovery", "recov"],
  ["timeout", "rto"],
  ["pacing", "pacing"],
  ["own-device", "device"],
  ["sender-rate", "sender"],
  ["path", "path"],
  ["unknown", "?"],
] as const;
