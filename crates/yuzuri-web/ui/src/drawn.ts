// The input of a chart.
import type { Bounds } from "./bounds";
import type { Store } from "./ring";

/** The data needed to draw a flow. */
export interface Drawn {
  id: string;
  name: string;
  store: Store;
  /** Whether its throughput is received data. */
  receives: boolean;
  /** Bytes per segment. */
  mss: number;
  /** Its window's bounds, if the sharing daemon reported any. */
  bounds: Bounds | undefined;
  /** End of the known data, microseconds since the session's start. */
  end: number;
}

/** A stretch of time, microseconds since the session's start. */
export interface View {
  from: number;
  to: number;
}

/** One flow over time, one flow's sequence numbers, flows over each other, or one of several side by side. */
export type PanelKind = "one" | "seq" | "over" | "small";
/** Whether one flow has the whole chart. */
export const isSingle = (kind: PanelKind): boolean => kind === "one" || kind === "seq";
