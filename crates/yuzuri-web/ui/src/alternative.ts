// The chart as text, for screen readers. It is read on request, not whenever it changes.
import type { Drawn } from "./drawn";
import { el, put } from "./dom";
import { counted, rate, timeUs } from "./format";
import type { Panel } from "./panel";
import { read } from "./reading";
import { flows, state } from "./state";
import { flowLetter } from "./theme";
import { timeText } from "./time";
import { E, Kind } from "./wire";

const PAUSE_MS = 2000;
let lastWritten = 0;
let writtenFor = "";

/** What a flow's lines show within the view. */
function shape(flow: Drawn, panel: Panel | undefined, n: number): string {
  const columns = panel?.columns[n];
  if (columns === undefined) return "";
  let least = Infinity;
  for (const value of columns.cwnd) if (value !== null && value < least) least = value;
  if (least === Infinity) return "There is no data for this period.";
  const parts = [`cwnd ${least} to ${counted(columns.most.cwnd, "segment")}`, `throughput up to ${rate(columns.most.rate)}`];
  if (columns.most.rtt > 0) parts.push(`srtt up to ${timeUs(columns.most.rtt)}`);
  let [resent, timeouts] = [0, 0];
  for (const event of flow.store.events) {
    if (event[E.TIME] < state.view.from || event[E.TIME] > state.view.to) continue;
    if (event[E.KIND] === Kind.RETRANSMIT) resent += 1;
    if (event[E.KIND] === Kind.TIMEOUT) timeouts += 1;
  }
  parts.push(counted(resent, "retransmission"), counted(timeouts, "timeout"));
  return `In view: ${parts.join(", ")}.`;
}

function values(flow: Drawn, panel: Panel | undefined, n: number): string {
  const at = state.cursor ?? Math.min(state.view.to, flow.end);
  const reading = read(flow, panel, n, at, flows.all.get(flow.id)?.row);
  const when = state.cursor === undefined && state.follow && state.link.state === "open" ? "Now" : `At ${timeText(at, 3)}`;
  if (reading === undefined) return `${when}: no data.`;
  return `${when}: cwnd ${reading.cwnd}, ssthresh ${reading.ssthresh}, ${reading.bounds === "–" ? "" : `bounds ${reading.bounds}, `}throughput ${reading.rate}, srtt ${reading.srtt}, min RTT ${reading.minRtt}, in flight ${reading.inFlight}, state ${reading.state}.`;
}

/** Describes the panels, every two seconds or when something else is shown. */
export function describeChart(drawn: readonly Drawn[], panels: readonly Panel[]): void {
  const key = [state.mode, state.follow, state.span, state.cursor, ...drawn.map((flow) => flow.id)].join();
  const time = performance.now();
  if (key === writtenFor && time - lastWritten < PAUSE_MS) return;
  writtenFor = key;
  lastWritten = time;
  const { from, to } = state.view;
  const span = `${timeText(from, 3)} to ${timeText(to, 3)}, ${state.follow ? "following live" : "frozen"}.`;
  const lines = drawn.map((flow, n) => {
    const [panel, place] = state.mode === "small" ? [panels[n], 0] : [panels[0], n];
    const known = flows.all.get(flow.id);
    const name = known === undefined ? flow.name : `${known.who.local} to ${known.who.remote}, ${known.owner.replace(/ · /g, ", ")}`;
    return `${state.mode === "over" ? `${flowLetter(n)}: ` : ""}${name}. ${values(flow, panel, place)} ${shape(flow, panel, place)}`;
  });
  put(el("chart-text"), [span, ...lines].join(" "));
}
