// Chooses flows: which are in the chart, and their history.
import { rebuild } from "./chart";
import { MAX_CHOSEN, charted } from "./charted";
import { announce } from "./dom";
import { events, list } from "./lists";
import { Refusal, history, live } from "./live";
import { Store } from "./ring";
import { flows, state, stores } from "./state";
import { flowRate } from "./flows";
import { newest } from "./time";
import { isSingle, type PanelKind } from "./drawn";

let subscribed = "";
/** Whether new flows are chosen automatically, until the reader chooses. */
let choosesAll = false;

/** Subscribes to the chart's flows if they have changed. */
export function subscribe(): void {
  const wanted = charted();
  const key = wanted.join();
  if (key === subscribed) return;
  subscribed = key;
  for (const id of stores.keys()) if (!wanted.includes(id)) stores.delete(id);
  live.choose(wanted);
  for (const id of wanted) {
    if (stores.has(id)) continue;
    stores.set(id, new Store());
    void load(id);
  }
  rebuild();
}

/** Loads the history of a flow, from fine and recent to coarse and old. */
async function load(id: string): Promise<void> {
  const store = stores.get(id);
  if (store === undefined) return;
  const at = state.epoch;
  try {
    const to = newest();
    const past = await Promise.all([history(id, to - 32e6, 1024), history(id, to - 260e6, 1024), history(id, to - 4300e6, 2048)]);
    if (at !== state.epoch || stores.get(id) !== store) return;
    store.fill(past);
    const recent = store.events;
    store.events = [];
    store.addEvents(past[2].events);
    store.addEvents(recent);
    store.eventsFrom = past[2].events_from;
    events.touch();
    state.listDirty = true;
    state.dirty = true;
  } catch (error) {
    // The flow is gone, or the connection was lost: then everything is requested again after
    // reconnecting.
    if (error instanceof Refusal && stores.get(id) === store) store.filled = true;
  }
}

/** Discards the history of all flows in the chart and requests it again. `listed`: the flows that the
 * server knows; the others have no history (yet). */
export function reload(listed?: ReadonlySet<string>): void {
  for (const [id, store] of stores) {
    store.clear();
    if (listed === undefined || listed.has(id)) void load(id);
    else store.filled = true;
  }
}

export function choose(id: string, on: boolean): void {
  choosesAll = false;
  if (on && state.chosen.size >= MAX_CHOSEN) {
    announce(`At most ${MAX_CHOSEN} flows can be chosen`);
    state.listDirty = true;
    return;
  }
  const chosen = new Set(state.chosen);
  if (on) chosen.add(id);
  else chosen.delete(id);
  state.chosen = chosen;
  state.listDirty = true;
  subscribe();
  state.dirty = true;
}

export function setFocus(id: string): void {
  state.focus = id;
  const flow = flows.all.get(id);
  if (flow !== undefined) announce(`${flow.name}, ${flow.more}`);
  state.listDirty = true;
  subscribe();
  list.scrollTo(id);
  events.touch();
  state.dirty = true;
}

const fastest = (): string[] => [...flows.all.values()].sort((a, b) => flowRate(b) - flowRate(a)).map((flow) => flow.who.id);

/** Focuses the fastest flow if no flow is focused, or the focused one is gone. */
export function focusSome(): void {
  if (state.focus === undefined || (!flows.all.has(state.focus) && isSingle(state.mode))) state.focus = fastest()[0];
}

/** Starts with all flows in the overlay or the multiples. */
export function beginWith(mode: PanelKind): void {
  choosesAll = !isSingle(mode);
  setMode(mode);
}

/** Chooses new flows, if the address asks for all. */
export function chooseNew(): void {
  if (!choosesAll || state.chosen.size >= MAX_CHOSEN) return;
  const all = [...flows.all.keys()].filter((id) => !state.chosen.has(id));
  if (all.length > 0) state.chosen = new Set([...state.chosen, ...all].slice(0, MAX_CHOSEN));
}

/** Moves the focus down the list by a number of lines. */
export function step(by: number): void {
  if (list.listed.length === 0) return;
  const at = list.listed.indexOf(state.focus ?? "");
  setFocus(list.listed[at < 0 ? 0 : Math.min(Math.max(at + by, 0), list.listed.length - 1)]);
}

export function setMode(next: PanelKind): void {
  state.mode = next;
  if (!isSingle(next) && state.chosen.size < 2 && !choosesAll) {
    // Start with the focused and the fastest flows.
    const some = new Set([...state.chosen, ...(state.focus === undefined ? [] : [state.focus]), ...fastest()]);
    state.chosen = new Set([...some].slice(0, next === "over" ? 3 : 6));
  }
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-mode]")) {
    button.setAttribute("aria-pressed", String(button.dataset["mode"] === next));
  }
  subscribed = "?";
  state.listDirty = true;
  events.touch();
  // Rebuilds the panels.
  subscribe();
}

for (const button of document.querySelectorAll<HTMLButtonElement>("[data-mode]")) {
  button.addEventListener("click", () => setMode(button.dataset["mode"] as PanelKind));
}
