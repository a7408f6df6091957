// Names flows by what distinguishes them: eight flows of one server are not named after the server.
import type { Flow } from "./flows";

/** Maximum length of a part of a name, characters; longer parts lose their middle. */
const MAX_PART = 26;

/** Keeps both ends of a long text: differences are mostly there. */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text;
  const head = Math.ceil((max - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (max - 1 - head))}`;
}

/** Length of the common prefix of all texts, up to its last separator; no text becomes empty
 * without it. */
export function commonPrefix(texts: readonly string[]): number {
  if (texts.length < 2) return 0;
  let length = 0;
  while (texts.every((text) => length < text.length - 1 && text[length] === texts[0][length])) length += 1;
  while (length > 0 && !/[-_./:]/.test(texts[0][length - 1])) length -= 1;
  return length;
}

function split(end: string): { host: string; port: string } {
  const colon = end.lastIndexOf(":");
  return colon < 0 ? { host: end, port: "" } : { host: end.slice(0, colon), port: end.slice(colon + 1) };
}

const distinct = (flows: readonly Flow[], of: (flow: Flow) => string): boolean => flows.some((flow) => of(flow) !== of(flows[0]));

const terminal = ({ who }: Flow): string => who.netns_name ?? split(who.local).host;
const remote = ({ who }: Flow): string => who.remote;
const process = ({ who }: Flow): string => who.process ?? "";
const arrow = (flow: Flow): string => (flow.receives ? "←" : "→");
const joined = (parts: readonly string[], by: string): string => parts.filter((part) => part !== "").join(by);

/** Names all flows: by the terminal (namespace, or own address), the other end and the process, as
 * far as flows differ in them, and by the local port where that is not enough. `more` holds the
 * rest. */
export function nameAll(flows: readonly Flow[]): void {
  if (flows.length === 0) return;
  const spaces = flows.map(({ who }) => who.netns_name).filter((name): name is string => name !== null);
  const cut = commonPrefix([...new Set(spaces)]);
  const byTerminal = distinct(flows, terminal);
  const byProcess = distinct(flows, process);
  // A name must not be empty: if nothing differs, it is the other end.
  const byRemote = distinct(flows, remote) || !(byTerminal || byProcess);
  const names = flows.map((flow) => {
    const parts = [
      byTerminal ? terminal(flow).slice(flow.who.netns_name === null ? 0 : cut) : "",
      byProcess ? process(flow) : "",
      byRemote ? `${arrow(flow)} ${shorten(remote(flow), MAX_PART)}` : "",
    ];
    return joined(parts.map((part) => shorten(part, MAX_PART + 2)), " ");
  });
  const uses = new Map<string, number>();
  for (const name of names) uses.set(name, (uses.get(name) ?? 0) + 1);
  flows.forEach((flow, n) => {
    const { who } = flow;
    flow.name = uses.get(names[n]) === 1 ? names[n] : `${names[n]} :${split(who.local).port}`.trim();
    const owner = who.process === null ? "" : `${who.process}/${who.pid ?? "?"}`;
    flow.owner = joined([owner, who.netns_name === null ? "" : `netns ${who.netns_name}`, who.control], " · ");
    flow.more = joined([byRemote ? "" : `${arrow(flow)} ${who.remote}`, flow.owner, `from ${who.local}`], " · ");
  });
}
