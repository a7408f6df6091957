// The list of flows and the list of events, as the page uses them.
import { showBottlenecks } from "./bottlenecks";
import { charted } from "./charted";
import { el } from "./dom";
import { EventList } from "./eventlist";
import type { GroupKey } from "./groups";
import { flows, state, stores } from "./state";
import { List } from "./table";
import { timeText } from "./time";

export const list = new List(el("list"), flows);
export const events = new EventList(el("events"), el("events-skipped"));

el<HTMLInputElement>("events-own").addEventListener("change", () => events.touch());
el<HTMLInputElement>("find").addEventListener("input", (event) => {
  list.find((event.target as HTMLInputElement).value);
  state.listDirty = true;
});

el<HTMLSelectElement>("group").addEventListener("change", (event) => {
  list.groupBy((event.target as HTMLSelectElement).value as GroupKey);
  state.listDirty = true;
});

/** Brings both up to date. */
export function updateLists(): void {
  const shown = list.update(state.focus, state.chosen);
  showBottlenecks();
  const all = flows.all.size;
  el("found").textContent = shown === all ? `${all} flow${all === 1 ? "" : "s"}` : `${shown} of ${all}`;
  const own = el<HTMLInputElement>("events-own").checked ? charted().map((id) => stores.get(id)?.events ?? []) : undefined;
  events.update(own, state.session, (us) => timeText(us, 3), (id) => {
    const flow = flows.all.get(id);
    return flow === undefined ? id : flow.name;
  });
}
