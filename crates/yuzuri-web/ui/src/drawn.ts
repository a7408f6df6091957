// What a chart is told to draw.
import type { Bounds } from "./bounds";
import type { Store } from "./ring";

/** What is needed of a flow to draw it. */
export interface Drawn {
  id: string;
  name: string;
  store: Store;
  /** Whether its throughput is what it receives. */
  receives: boolean;
  srttUs: number;
  /** Bytes per segment. */
  mss: number;
  /** Its window's bounds, where the sharing daemon was heard to set some. */
  bounds: Bounds | undefined;
  /** After this nothing is known. */
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
