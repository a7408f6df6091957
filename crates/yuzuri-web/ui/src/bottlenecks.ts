// Which flows share a bottleneck, as far as the server can tell. It is asked while the page is visible.
import { el, put } from "./dom";
import type { Flow } from "./flows";
import { bottlenecks as ask } from "./live";
import { flows, state } from "./state";
import type { Bottleneck } from "./wire";

/** The server compares the last minute, which changes slowly. */
const PAUSE_MS = 5000;
/** Names in a sentence; more flows are counted. */
const MAX_NAMED = 3;

export const TOGETHER = "In the last minute, their queues rose and fell together, more than by chance";

let found: readonly Bottleneck[] = [];
let asking = false;
let timer: number | undefined;

/** Names of the known flows among these, and how many more there are. */
function named(ids: readonly string[]): string {
  const names = ids.map((id) => flows.all.get(id)?.name).filter((name) => name !== undefined);
  const rest = names.length - MAX_NAMED;
  return rest > 0 ? `${names.slice(0, MAX_NAMED).join(", ")} and ${rest} more` : names.join(", ");
}

/** The flows that share the flow's bottleneck, as text; empty if none are known. */
export function sharesWith({ bottleneck, who }: Flow): string {
  return named(found[bottleneck - 1]?.flows.filter((other) => other !== who.id) ?? []);
}

/** Each bottleneck in a sentence, above the list. */
export function showBottlenecks(): void {
  const list = el("bottlenecks");
  const known = found.filter((each) => each.flows.filter((id) => flows.all.has(id)).length > 1);
  while (list.children.length > known.length) list.lastElementChild?.remove();
  while (list.children.length < known.length) list.append(document.createElement("li"));
  known.forEach((each, n) => {
    put(list.children[n], `${each.flows.length} flows share a bottleneck: ${named(each.flows)}`);
    (list.children[n] as HTMLElement).title = `${TOGETHER} (correlation ${each.correlation.toFixed(2)})`;
  });
  list.hidden = known.length === 0;
}

/** Asks, and repeats after a pause. */
export async function refresh(): Promise<void> {
  window.clearTimeout(timer);
  if (asking || document.visibilityState !== "visible") return;
  asking = true;
  try {
    const answer = await ask();
    // After a seek, an earlier answer describes other flows.
    found = answer.epoch === state.epoch ? answer.bottlenecks : [];
    for (const flow of flows.all.values()) flow.bottleneck = found.findIndex((each) => each.flows.includes(flow.who.id)) + 1;
    state.listDirty = true;
    state.dirty = true;
  } catch {
    // The connection reports the error; what was found remains until the next answer.
  }
  asking = false;
  timer = window.setTimeout(() => void refresh(), PAUSE_MS);
}

document.addEventListener("visibilitychange", () => void refresh());
