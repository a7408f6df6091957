// Processes the server's messages.
import { showLink, showSession, showStatus } from "./bar";
import { chooseNew, focusSome, reload, subscribe } from "./choice";
import { events } from "./lists";
import { session as askSession, type Listener } from "./live";
import { bounds, flows, state, stores } from "./state";
import { jump, receiveTime } from "./time";
import { E, R } from "./wire";

/** Whether the histories are from before the connection was lost, or from before a change of the time
 * range or of the flows. They are requested again with the next list of all flows: it shows the time,
 * and which flows the server has already read. */
let outdated = false;

/** Discards all data, for another time range or other flows. */
function startOver(next: number): void {
  state.epoch = next;
  jump();
  bounds.clear();
  events.clear();
  reload(new Set());
  outdated = true;
  state.dirty = true;
}

export const listener: Listener = {
  link(next) {
    state.link = next;
    showLink();
  },
  hello(next) {
    if (state.session === undefined) void loadSession();
    state.epoch = next;
    jump();
    // It may be another server with another time.
    bounds.clear();
    events.clear();
    outdated = true;
  },
  rows(message) {
    receiveTime(message.now);
    if (message.epoch !== state.epoch) startOver(message.epoch);
    if (outdated) reload(new Set(message.rows.map((row) => row[R.ID])));
    outdated = false;
    flows.take(message);
    focusSome();
    chooseNew();
    subscribe();
    state.listDirty = true;
  },
  chart(message) {
    receiveTime(message.now);
    if (message.epoch !== state.epoch) startOver(message.epoch);
    for (const [id, buckets] of Object.entries(message.flows)) stores.get(id)?.push(buckets);
    state.dirty = true;
  },
  events(message) {
    events.add(message.events, message.skipped);
    for (const event of message.events) stores.get(event[E.FLOW])?.addEvents([event]);
    state.dirty = true;
  },
  status(message) {
    receiveTime(message.now);
    if (message.epoch !== state.epoch) startOver(message.epoch);
    state.status = message;
    showStatus();
  },
  gap: () => reload(),
};

export async function loadSession(): Promise<void> {
  try {
    state.session = await askSession();
  } catch {
    // The connection reports the error, and requests the history again after reconnecting.
    return;
  }
  showSession(state.session);
  events.touch();
}
