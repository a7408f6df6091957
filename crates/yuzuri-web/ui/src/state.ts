// What is known, and what the reader has chosen to see: where the page's parts meet.
import type { Bounds } from "./bounds";
import type { PanelKind, View } from "./drawn";
import type { Link } from "./live";
import type { Store } from "./ring";
import { Flows } from "./flows";
import type { Session, Status } from "./wire";

export const DEFAULT_SPAN_US = 30e6;

interface State {
  session: Session | undefined;
  status: Status | undefined;
  link: Link;
  /** The server's count of beginnings anew (a seek in a replay, another filter). */
  epoch: number;
  mode: PanelKind;
  /** The flow that is looked at. */
  focus: string | undefined;
  /** The flows for overlay and multiples. */
  chosen: ReadonlySet<string>;
  /** Whether the view follows the newest data. */
  follow: boolean;
  /** Width of the view, microseconds. */
  span: number;
  view: View;
  /** Time that is read, if any. */
  cursor: number | undefined;
  /** Where a resting pointer holds the cursor while the view moves below it, CSS pixels within the lanes. */
  hover: number | undefined;
  /** When sharing was first seen to bound a window, after it was seen to bound none; microseconds since the session's start. */
  sharingSince: number | undefined;
  /** Whether times are of the day, not since the start. */
  byClock: boolean;
  /** Whether the chart is to be drawn anew, and the lists. */
  dirty: boolean;
  listDirty: boolean;
}

export const state: State = {
  session: undefined,
  status: undefined,
  link: { state: "connecting" },
  epoch: 0,
  mode: "one",
  focus: undefined,
  chosen: new Set(),
  follow: true,
  span: DEFAULT_SPAN_US,
  view: { from: 0, to: DEFAULT_SPAN_US },
  cursor: undefined,
  hover: undefined,
  sharingSince: undefined,
  byClock: true,
  dirty: true,
  listDirty: true,
};

/** Whether a recording is shown. */
export const inReplay = (): boolean => (state.status?.replay ?? null) !== null;

export const flows = new Flows();
/** The past of the flows in the chart. */
export const stores = new Map<string, Store>();
/** The bounds of steered flows, from when on they are known. */
export const bounds = new Map<string, Bounds>();
