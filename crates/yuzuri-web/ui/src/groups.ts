// Groups of flows, and their totals.
import { endedAt, flowRate, number, type Flow } from "./flows";
import { R } from "./wire";

/** The keys by which flows may be grouped. */
export type GroupKey = "" | "terminal" | "remote" | "process" | "control" | "bottleneck";

const host = (end: string): string => end.slice(0, Math.max(end.lastIndexOf(":"), 0)) || end;

/** The name of a flow's group. */
export function groupOf(flow: Flow, by: GroupKey): string {
  const { who } = flow;
  switch (by) {
    case "": return "";
    case "terminal": return who.netns_name ?? host(who.local);
    case "remote": return host(who.remote);
    case "process": return who.process === null ? "unknown process" : `${who.process}/${who.pid ?? "?"}`;
    case "bottleneck": return flow.bottleneck > 0 ? `bottleneck ${flow.bottleneck}` : "no shared bottleneck known";
    case "control": return who.control === "" ? "unknown control" : who.control;
  }
}

/** Totals of flows. */
export interface Sum {
  flows: number;
  /** Flows that are open and watched. */
  open: number;
  /** Bits per second. */
  rate: number;
  /** Segments, of those that are open and watched. */
  cwnd: number;
  /** Median of the measured values, microseconds; 0: none is measured. */
  srtt: number;
  resent: number;
  /** The most frequent limit of these flows, index into `LIMITS`; below 0: unknown. */
  limit: number;
}

export function sumOf(flows: readonly Flow[]): Sum {
  const open = flows.filter((flow) => endedAt(flow) === null);
  const add = (of: (flow: Flow) => number, list: readonly Flow[]): number => list.reduce((sum, flow) => sum + of(flow), 0);
  const srtts = open.map((flow) => number(flow, R.SRTT)).filter((us) => us > 0).sort((a, b) => a - b);
  const limits = new Map<number, number>();
  for (const flow of open) {
    const limit = Number(flow.row[R.LIMIT] ?? -1);
    if (limit >= 0) limits.set(limit, (limits.get(limit) ?? 0) + 1);
  }
  return {
    flows: flows.length,
    open: open.length,
    rate: add(flowRate, open),
    cwnd: add((flow) => number(flow, R.CWND), open),
    srtt: srtts[srtts.length >> 1] ?? 0,
    resent: add((flow) => number(flow, R.TOTAL_RETRANS), flows),
    limit: [...limits].sort(([a, m], [b, n]) => n - m || a - b)[0]?.[0] ?? -1,
  };
}

/** Groups in the order of their first flow; the flows within keep their order. */
export function grouped(flows: readonly Flow[], by: GroupKey): { name: string; flows: Flow[] }[] {
  const groups = new Map<string, Flow[]>();
  for (const flow of flows) {
    const name = groupOf(flow, by);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [flow]);
    else group.push(flow);
  }
  return [...groups].map(([name, members]) => ({ name, flows: members }));
}
