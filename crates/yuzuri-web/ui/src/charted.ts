// The flows in the chart, and their data.
import { isSingle, type Drawn } from "./drawn";
import { bounds, flows, state, stores } from "./state";
import { endedAt } from "./flows";
import { BEHIND_US, now } from "./time";
import { R } from "./wire";

/** Maximum number of flows in the overlay or the multiples: the server's limit of subscribed
 * flows. */
export const MAX_CHOSEN = 16;

/** Ids of the flows in the chart. */
export function charted(): string[] {
  if (isSingle(state.mode)) return state.focus === undefined ? [] : [state.focus];
  return [...state.chosen].filter((id) => flows.all.has(id)).slice(0, MAX_CHOSEN);
}

export function drawnOf(id: string): Drawn | undefined {
  const flow = flows.all.get(id);
  const store = stores.get(id);
  if (flow === undefined || store === undefined) return undefined;
  const ended = endedAt(flow);
  const latest = Math.max(store.latest, now() - BEHIND_US);
  return { id, name: flow.name, store, receives: flow.receives, mss: Number(flow.row[R.MSS] ?? 0) || 1448, bounds: bounds.get(id), end: ended ?? latest };
}

/** The flows with data, in the order of the chart. */
export const drawn = (): Drawn[] => charted().map(drawnOf).filter((flow): flow is Drawn => flow !== undefined);
