// The sharing daemon's status: the mirror of `yuzuri-share`'s `status.rs`, as far as the page shows
// it. Fields are only added there; optional ones are marked.

export interface ShareMember {
  node: string;
  /** The name that the member sends. Absent: it sends none. */
  name?: string;
  /** Absent for this terminal itself. */
  address?: string;
  sends: boolean;
  leads: boolean;
  /** The member signs its messages with the additionally accepted key; absent: false. */
  other_key?: boolean;
  age_s: number;
}

export interface ShareSummary {
  phase: string;
  members: number;
  senders: number;
  capacity_bps: number;
  share_bps: number;
  queue_us: number;
  /** Capacity of the link behind the access point if that is the bottleneck, else 0. */
  wire_bps: number;
  paced: boolean;
}

export interface ShareFlow {
  /** The socket's cookie; as a number it is exact only up to 2^53. */
  id: number;
  local: string;
  remote: string;
  cwnd: number;
  control: string;
  obeys: boolean;
  control_state: string;
  /** Segments; 0: no bound. */
  bound: { lower: number; upper: number };
  rule: string;
  no_decrease: boolean;
  burst: number;
}

/** Means of the throughput and delay of this terminal's flows. */
export interface Measured {
  seconds: number;
  rate_bps: number;
  srtt_us: number;
}

export interface ShareInterface {
  name: string;
  group?: string;
  group_from?: string;
  leader?: string;
  leads: boolean;
  members: ShareMember[];
  /** Absent: no summary arrived recently. */
  summary?: ShareSummary;
  /** Before sharing began, and since; absent: there is nothing to compare. */
  benefit?: { before: Measured; since: Measured };
  /** The flows with the highest throughput, in decreasing order. */
  flows: ShareFlow[];
  /** Absent in older daemons. */
  flow_counts?: { all: number; idle: number; left_out: number };
  /** Messages that were refused, by reason, since the daemon started. */
  messages?: { refused?: Record<string, number> };
}

export interface ShareStatus {
  version: string;
  steers: boolean;
  why_not?: string;
  policy: { name: string; objective: string; capacity_bps?: number };
  keyed: boolean;
  /** Settings that work but should be changed; absent: none. */
  warnings?: string[];
  interfaces: ShareInterface[];
  flows_elsewhere: number;
  /** Conditions that will resolve without action; absent: none. */
  waits?: string[];
  problems: string[];
}

/** A station of an access point: the mirror of `ap/status.rs`. */
export interface Station {
  station: string;
  addresses: string[];
  exempt: boolean;
  /** Absent in older daemons. */
  membership?: string;
  rate_bps: number;
  /** Throughput of the station's traffic that no window bounds, bit/s. */
  other_bps: number;
  /** Absent: nothing is shared. */
  share_bps?: number;
  srtt_us: number;
  uploads: number;
  bounded: number;
  /** It sends beyond its windows, so bounds have no effect. Absent in older daemons. */
  ignores_window?: boolean;
}

/** Means over the last minute of one mode. */
export interface Figures {
  seconds: number;
  rate_bps: number;
  rtt_us: number;
  fairness: number;
}

/** The status of an access point's daemon. */
export interface AccessPointStatus {
  dry_run: boolean;
  policy: { name: string; objective: string };
  stations: Station[];
  summary?: ShareSummary;
  /** While no station was bounded; absent: stations were always bounded. */
  plain?: Figures;
  /** While bounds are in force. */
  shared?: Figures;
  /** Groups of stations that bound themselves; absent: none. */
  groups?: { device: string; group: string; leads: boolean; members: unknown[] }[];
  problems: string[];
}

/** Where no daemon answers: the reason, and the command that helps. */
export interface ShareAbsent {
  running: false;
  why: string;
  help: string | null;
}

export type ShareAnswer = ShareStatus | AccessPointStatus | ShareAbsent;

export const isAbsent = (answer: ShareAnswer): answer is ShareAbsent => "running" in answer;

/** The type of a field; a question mark makes it optional. */
type Kind = "string" | "number" | "boolean" | "string?" | "number?" | "boolean?";

function has(value: unknown, fields: Readonly<Record<string, Kind>>): boolean {
  if (typeof value !== "object" || value === null) return false;
  const known = value as Record<string, unknown>;
  return Object.entries(fields).every(([name, kind]) => typeof known[name] === kind.replace("?", "") || (kind.endsWith("?") && known[name] === undefined));
}

const isMember = (value: unknown): boolean => has(value, { node: "string", name: "string?", address: "string?", sends: "boolean", leads: "boolean", other_key: "boolean?", age_s: "number" });

const isFlow = (value: unknown): boolean =>
  has(value, { id: "number", local: "string", remote: "string", cwnd: "number", control: "string", obeys: "boolean", control_state: "string", rule: "string", no_decrease: "boolean", burst: "number" }) &&
  has((value as ShareFlow).bound, { lower: "number", upper: "number" });

const isSummary = (value: unknown): boolean =>
  has(value, { phase: "string", members: "number", senders: "number", capacity_bps: "number", share_bps: "number", queue_us: "number", wire_bps: "number", paced: "boolean" });

const isMeasured = (value: unknown): boolean => has(value, { seconds: "number", rate_bps: "number", srtt_us: "number" });

function isInterface(value: unknown): boolean {
  if (!has(value, { name: "string", group: "string?", group_from: "string?", leader: "string?", leads: "boolean" })) return false;
  const { members, flows, summary, benefit } = value as ShareInterface;
  if (benefit !== undefined && !(isMeasured(benefit?.before) && isMeasured(benefit.since))) return false;
  return Array.isArray(members) && members.every(isMember) && Array.isArray(flows) && flows.every(isFlow) && (summary === undefined || isSummary(summary));
}

/** Whether an answer is a status with all fields that the page needs; a daemon of another version
 * might differ. */
export function isStatus(answer: ShareAnswer): answer is ShareStatus {
  if (!has(answer, { steers: "boolean", why_not: "string?", keyed: "boolean", flows_elsewhere: "number" })) return false;
  const { interfaces, policy, problems, warnings, waits } = answer as ShareStatus;
  for (const list of [warnings, waits]) if (list !== undefined && !(Array.isArray(list) && list.every((each) => typeof each === "string"))) return false;
  return Array.isArray(interfaces) && interfaces.every(isInterface) && has(policy, { name: "string", objective: "string" }) && Array.isArray(problems);
}

const isStation = (value: unknown): boolean =>
  has(value, { station: "string", exempt: "boolean", membership: "string?", rate_bps: "number", other_bps: "number", share_bps: "number?", srtt_us: "number", uploads: "number", bounded: "number", ignores_window: "boolean?" }) &&
  Array.isArray((value as Station).addresses);
const areFigures = (value: unknown): boolean => value === undefined || has(value, { seconds: "number", rate_bps: "number", rtt_us: "number", fairness: "number" });
const isGroup = (value: unknown): boolean => has(value, { device: "string", group: "string", leads: "boolean" }) && Array.isArray((value as { members: unknown }).members);

/** Whether an answer is an access point's status with all fields that the page needs. */
export function isAccessPoint(answer: ShareAnswer): answer is AccessPointStatus {
  if (!has(answer, { dry_run: "boolean" })) return false;
  const { stations, policy, problems, summary, plain, shared, groups } = answer as AccessPointStatus;
  if (groups !== undefined && !(Array.isArray(groups) && groups.every(isGroup))) return false;
  if (!areFigures(plain) || !areFigures(shared) || !(summary === undefined || isSummary(summary))) return false;
  return Array.isArray(stations) && stations.every(isStation) && has(policy, { name: "string", objective: "string" }) && Array.isArray(problems);
}
