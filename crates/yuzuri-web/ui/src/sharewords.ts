// The sharing daemon's terms, explained.
import { counted, rate, timeUs } from "./format";
import type { AccessPointStatus, Figures, ShareFlow, ShareInterface, ShareMember, ShareStatus, ShareSummary, Station } from "./sharewire";

/** A short term and its explanation. */
export interface Words {
  short: string;
  long: string;
}

const PHASES: Record<string, Words> = {
  "start-up": { short: "starting up", long: "The group is still finding its capacity: there is no upper bound yet." },
  hold: { short: "holding", long: "Each member keeps to its share." },
  probe: { short: "probing", long: "Each member takes a little more than its share for one round trip, to look for capacity." },
  contend: { short: "contending", long: "Devices that do not take part fill the queue: windows grow until members carry their shares." },
  off: { short: "paused", long: "Sharing does not help here at the moment: nobody is bounded." },
};

export function phase(summary: ShareSummary | undefined): Words {
  if (summary === undefined) return { short: "no summary", long: "Nobody sends, or no leader has been found yet." };
  return PHASES[summary.phase] ?? { short: summary.phase, long: "This page does not know this phase: the daemon has another version." };
}

const RULES: Record<string, Words> = {
  none: { short: "not bounded", long: "The policy is off, or sets no bound for this flow." },
  count: { short: "number of terminals", long: "A part of the bandwidth-delay product that depends on the number of terminals that send." },
  "rtt-table": { short: "table of RTTs", long: "The published table: the bound follows from the growth of the round-trip time." },
  steady: { short: "no decrease", long: "If the minimum round-trip time is at least 64 ms, a loss does not reduce the window." },
  "start-up": { short: "starting up", long: "The group is still finding its capacity: there is no upper bound yet." },
  share: { short: "its share", long: "Lower bound: the flow's share of the capacity times the minimum round-trip time. Upper bound: the same plus the allowed queue." },
  probe: { short: "probing", long: "For one round trip, a little more than its share, to find out whether there is more capacity." },
  contend: { short: "contending", long: "Devices that do not take part fill the queue: the window grows until the flow carries its share in spite of it." },
  "app-limited": { short: "sends less", long: "The application sends less than its share." },
  "gave-up": { short: "gave up", long: "Sharing did not help here: the flow is plain CUBIC for a while." },
  doubt: { short: "doubted", long: "The leader's summary does not fit what this terminal carries: the flow keeps the share that it had." },
  mistrust: { short: "not believed", long: "What this terminal carries contradicts the leader's summary: the flow is plain CUBIC for a while." },
  unknown: { short: "not known yet", long: "Not enough is known about this flow yet." },
};

/** Which rule set a flow's bounds. */
export function rule(flow: ShareFlow): Words {
  if (!flow.obeys) return { short: "left alone", long: `Its congestion control is ${flow.control}: ${flow.control_state}.` };
  const words = RULES[flow.rule] ?? { short: flow.rule, long: "This page does not know this rule: the daemon has another version." };
  const spared = flow.no_decrease ? " Losses do not reduce its window." : "";
  const burst = flow.burst > 0 ? ` Its segments are paced over the round trip, ${flow.burst} at a time.` : "";
  return { short: words.short, long: words.long + spared + burst };
}

/** A bound as text; 0 means none. */
export const bound = (segments: number): string => (segments > 0 ? String(segments) : "–");

/** Short form of the ID of a member or group. */
export const short = (id: string): string => id.slice(0, 8);

/** A member's own name, if it has one, and its ID, which is unique. */
export const called = (member: ShareMember): string => (member.name === undefined ? short(member.node) : `${member.name} ${short(member.node)}`);

export const isOwn = (member: ShareMember): boolean => member.address === undefined;

export function policy(status: ShareStatus): string {
  if (!status.steers) return `${status.policy.name}, but nothing is bounded${status.why_not === undefined ? "" : `: ${status.why_not}`}`;
  return status.policy.name;
}

export function capacity(summary: ShareSummary | undefined): string {
  if (summary === undefined) return "–";
  return summary.wire_bps > 0 ? `${rate(summary.capacity_bps)} (the wire limits)` : rate(summary.capacity_bps);
}

export const share = (summary: ShareSummary | undefined): string => (summary === undefined ? "–" : rate(summary.share_bps));
/** The queue that a window may hold, and whether segments are paced over the round trip. */
export const queue = (summary: ShareSummary | undefined): string => (summary === undefined ? "–" : `up to ${timeUs(summary.queue_us)}${summary.paced ? ", paced" : ""}`);

export function members({ summary, members }: ShareInterface): string {
  const [all, senders] = summary === undefined ? [members.length, members.filter((member) => member.sends).length] : [summary.members, summary.senders];
  return `${all}, of which ${senders} send`;
}

export const leader = (each: ShareInterface): string => (each.leads ? "this terminal" : each.leader === undefined ? "not known" : short(each.leader));

const FROM: Record<string, string> = { config: "configuration", bssid: "BSSID", gateway: "gateway", link: "link" };
export function group({ group, group_from }: ShareInterface): string {
  if (group === undefined) return "not known yet";
  return group_from === undefined ? short(group) : `${short(group)} (by ${FROM[group_from] ?? group_from})`;
}

/** The address without its port, IPv6 also without brackets. */
export const host = (address: string): string => address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");

/** Seconds since a member was heard. */
export const age = (seconds: number): string => (seconds < 1 ? "now" : seconds < 100 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`);

/** A member whose messages are signed with another key than this terminal's. */
export const OTHER_KEY: Words = {
  short: "other key",
  long: "It signs with the second key that this terminal accepts. It is a full member and slows no transfer. Once this terminal no longer accepts the second key, it refuses the member's messages.",
};

/** Reasons for which a message is refused when its sender has another key, or one of the two has none. */
const KEY_REFUSALS = ["tag", "retired-key", "keyed", "keyless"] as const;

/** The effect of the other terminals' keys on this one's transfers. */
function keyRemarks({ name, members, messages }: ShareInterface): string[] {
  const remarks: string[] = [];
  const others = members.filter((member) => member.other_key === true).length;
  if (others > 0) {
    remarks.push(`${name}: ${counted(others, "member")} still ${others === 1 ? "signs" : "sign"} with the other key while keys are being changed. This slows no transfer. Give them the new key before the other one is no longer accepted.`);
  }
  const refused = KEY_REFUSALS.reduce((sum, reason) => sum + (messages?.refused?.[reason] ?? 0), 0);
  if (refused > 0) {
    remarks.push(`${name}: ${counted(refused, "message")} ${refused === 1 ? "was" : "were"} refused because the key is not this group's. Terminals with another key do not share with this one: while they send, they can take more than their share, and a transfer here can be slower.`);
  }
  return remarks;
}

/** The benefit of sharing, from figures measured before it began and since. */
export function benefit({ benefit }: ShareInterface): string {
  if (benefit === undefined) return "–";
  const { before, since } = benefit;
  return `RTT ${timeUs(before.srtt_us)} → ${timeUs(since.srtt_us)}, throughput ${rate(before.rate_bps)} → ${rate(since.rate_bps)} since sharing began`;
}

/** Problems and notes, one sentence each. */
export function remarks(status: ShareStatus): string[] {
  const remarks = [...status.problems, ...(status.waits ?? [])];
  if (!status.keyed) remarks.push("There is no key: anybody on the network can forge messages.");
  if (status.interfaces.length === 0) remarks.push("No interface takes part.");
  if (status.flows_elsewhere > 0) remarks.push(`${counted(status.flows_elsewhere, "flow")} with other local addresses, not bounded.`);
  for (const each of status.interfaces) {
    const { name, flow_counts: counts } = each;
    remarks.push(...keyRemarks(each));
    if (counts !== undefined && counts.left_out > 0) remarks.push(`${name}: ${counts.left_out} of ${counts.all} flows are not listed; the list shows those with the highest rates.`);
  }
  return remarks;
}

/** Who bounds a station's uploads. */
export function boundBy({ exempt, membership, ignores_window }: Station): Words {
  if (membership === "member") return { short: "itself", long: "It runs yuzuri share, and bounds itself by what this access point measured." };
  if (membership === "exceeds") return { short: "gate, exceeds", long: "It runs yuzuri share, but carried more than its share for long: the gate bounds it like a station without Yuzuri." };
  if (exempt) return { short: "nobody", long: "The settings exempt it." };
  if (ignores_window === true) return { short: "nobody", long: "It sends beyond its window, or ACKs reach it without passing this gate: windows have no effect, so it is not bounded." };
  return { short: "gate", long: "It does not run Yuzuri: the gate lowers the windows that servers advertise to it." };
}

export function stations({ summary, stations }: AccessPointStatus): string {
  return summary === undefined ? String(stations.length) : `${stations.length}, of which ${summary.senders} send`;
}

/** Mbit/s without the unit, for columns with the unit in the header. */
export const mbps = (bps: number): string => (bps / 1e6).toFixed(1);

/** An access point's figures in one mode. */
export function figures(of: Figures | undefined): string {
  if (of === undefined) return "–";
  return `${rate(of.rate_bps)}, RTT ${timeUs(of.rtt_us)}, fairness ${of.fairness.toFixed(3)}`;
}

export function groups({ groups }: AccessPointStatus): string {
  if (groups === undefined || groups.length === 0) return "none: this access point does not have the members' key";
  return groups.map((each) => `${short(each.group)} (${each.leads ? "led from here" : "led elsewhere"}, ${counted(each.members.length, "member")})`).join(", ");
}
