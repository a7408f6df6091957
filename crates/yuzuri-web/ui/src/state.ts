// Data and the reader's choices: shared by all parts of the page.
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
  /** The server's count of restarts (a seek in a replay, another filter). */
  epoch: number;
  mode: PanelKind;
  /** The focused flow. */
  focus: string | undefined;
  /** The flows for overlay and multiples. */
  chosen: ReadonlySet<string>;
  /** Whether the view follows the newest data. */
  follow: boolean;
  /** Width of the view, microseconds. */
  span: number;
  view: View;
  /** The time under the cursor, if any. */
  cursor: number | undefined;
  /** Where a resting pointer keeps the cursor while the view moves below it, CSS pixels within the
   * lanes. */
  hover: number | undefined;
  /** When sharing was first seen to bound a window after it had bounded none; microseconds since
   * the session's start. */
  sharingSince: number | undefined;
  /** Why the daemon bounds nothing; empty: it does, or there is none. */
  plainWhy: string;
  /** Whether times are times of day, not since the start. */
  byClock: boolean;
  /** Whether the chart must be redrawn, and the lists. */
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
  plainWhy: "",
  byClock: true,
  dirty: true,
  listDirty: true,
};

/** Whether a recording is shown. */
export const inReplay = (): boolean => (state.status?.replay ?? null) !== null;

export const flows = new Flows();
/** The histories of the flows in the chart. */
export const stores = new Map<string, Store>();
/** The bounds of bounded flows, as far as they are known. */
export const bounds = new Map<string, Bounds>();
