// All flows that the server reports, and their names.
import { nameAll } from "./names";
import { R, type RowData, type RowsMessage, type Who } from "./wire";

/** A flow as the list knows it. */
export interface Flow {
  who: Who;
  row: RowData;
  /** Its name: what distinguishes it from the others. */
  name: string;
  /** Process, namespace and congestion control. */
  owner: string;
  /** What the name leaves out. */
  more: string;
  /** Whether it mostly receives. */
  receives: boolean;
  /** The number of the bottleneck that it shares with others, from 1; 0: none is known. */
  bottleneck: number;
  /** The text that the text filter searches. */
  text: string;
  rates: number[];
  windows: number[];
  sparkAt: number;
}

/** Points of a flow's sparkline, and the time between two. */
export const SPARK_POINTS = 60;
const SPARK_US = 500_000;

/** A number of a flow's row; 0 where it is open. */
export const number = (flow: Flow, place: number): number => Number(flow.row[place] ?? 0);
export const flowRate = (flow: Flow): number => number(flow, R.SENT) + number(flow, R.RECEIVED);
export const closedAt = (flow: Flow): number | null => (flow.row[R.CLOSED] ?? null) as number | null;
/** When the flow ended for the viewer: closed, or no longer selected by the filter. */
export const endedAt = (flow: Flow): number | null => closedAt(flow) ?? ((flow.row[R.UNWATCHED] ?? null) as number | null);

/** All flows, as the server reports them. */
export class Flows {
  readonly all = new Map<string, Flow>();

  take(message: RowsMessage): void {
    const before = this.all.size;
    let renamed = message.flows.length > 0 || message.gone.length > 0;
    if (message.all) {
      const present = new Set(message.rows.map((row) => row[0]));
      for (const id of this.all.keys()) if (!present.has(id)) this.all.delete(id);
    }
    const new_ = new Map(message.flows.map((who) => [who.id, who]));
    for (const row of message.rows) {
      const known = this.all.get(row[0]);
      const who = new_.get(row[0]) ?? known?.who;
      if (who === undefined) continue;
      if (known === undefined) {
        this.all.set(row[0], { who, row, name: who.remote, owner: "", more: "", receives: false, bottleneck: 0, text: "", rates: [], windows: [], sparkAt: 0 });
      } else {
        known.row = row;
      }
    }
    for (const flow of this.all.values()) {
      const receives = number(flow, R.BYTES_RECEIVED) > number(flow, R.ACKED);
      if (receives !== flow.receives) renamed = true;
      flow.receives = receives;
    }
    for (const [id, who] of new_) {
      const flow = this.all.get(id);
      if (flow === undefined) continue;
      flow.who = who;
      flow.text = [who.local, who.remote, who.process, who.pid, who.netns_name, who.netns, who.control, who.id].join(" ").toLowerCase();
    }
    for (const [id, [rates, windows]] of Object.entries(message.sparks)) {
      const flow = this.all.get(id);
      if (flow === undefined) continue;
      flow.rates = rates;
      flow.windows = windows;
      flow.sparkAt = message.now;
    }
    for (const id of message.gone) this.all.delete(id);
    if (renamed || this.all.size !== before) nameAll([...this.all.values()]);
    for (const flow of this.all.values()) {
      if (message.now - flow.sparkAt < SPARK_US || endedAt(flow) !== null) continue;
      flow.sparkAt = message.now;
      flow.rates.push(flowRate(flow));
      flow.windows.push(number(flow, R.CWND));
      if (flow.rates.length > SPARK_POINTS) flow.rates.shift();
      if (flow.windows.length > SPARK_POINTS) flow.windows.shift();
    }
  }
}
