// The sharing view, and the bounds in charts, from the daemon on this host. It is polled while the
// page is visible.
import { Bounds } from "./bounds";
import { setFocus } from "./choice";
import { announce, el, put } from "./dom";
import { number } from "./flows";
import { Refusal, share as askShare } from "./live";
import { facts, Lines, span, table } from "./sharetables";
import { isAbsent, isAccessPoint, isStatus, type ShareAbsent, type ShareAnswer, type ShareFlow, type ShareInterface, type ShareStatus } from "./sharewire";
import * as words from "./sharewords";
import { removeStations, showStations } from "./stations";
import { bounds, flows, inReplay, state } from "./state";
import { now } from "./time";
import { R } from "./wire";

/** A bound holds for 1.5 s in the kernel: with one request a second, the chart has no gaps. */
const PAUSE_MS = 1000;
/** Without a daemon there are no bounds to record while the view is closed, so polls are rare. */
const ABSENT_PAUSE_MS = 5000;

/** The watched flow for a flow of the daemon, by the socket's cookie. */
function idOf(flow: ShareFlow): string | undefined {
  if (Number.isSafeInteger(flow.id)) return flow.id.toString(16);
  // Kernel cookies near 2^64 exceed the exact range of numbers here.
  for (const { who } of flows.all.values()) if (who.local === flow.local && who.remote === flow.remote) return who.id;
  return undefined;
}

/** An interface's part of the view. */
class Section {
  readonly root = document.createElement("section");
  private readonly write: (key: string, text: string) => void;
  private readonly members: Lines<ShareInterface["members"][number]>;
  private readonly flows: Lines<ShareFlow>;

  constructor(name: string) {
    this.root.setAttribute("aria-label", `Sharing on ${name}`);
    const head = document.createElement("h3");
    head.textContent = name;
    this.root.append(head);
    this.write = facts(this.root, [["phase", "Phase"], ["capacity", "Capacity"], ["share", "Share of one"], ["queue", "Queue"], ["benefit", "Benefit"], ["members", "Members"], ["leader", "Leader"], ["group", "Group"]]);
    this.members = table(this.root, `Members on ${name}`, [["Member", "text"], ["Sends", "yes"], ["Leads", "yes"], ["Heard", "age"], ["Address", "text"]], "No member is known.", (row) => {
      row.cells[0].append(span(""), span("own"));
      row.cells[4].append(span(""), span("key"));
    });
    this.flows = table(this.root, `This terminal's flows on ${name}`, [["Own flow", "text"], ["Lower", "num"], ["Upper", "num"], ["cwnd", "num"], ["Rule", "rule"]], "No flow of this terminal sends here.", (row) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(span("name"), span("more"));
      row.cells[0].append(button);
      row.cells[4].append(span(""), span("sr"));
    });
  }

  render(each: ShareInterface): void {
    const { write } = this;
    const phase = words.phase(each.summary);
    write("phase", `${phase.short}. ${phase.long}`);
    write("capacity", words.capacity(each.summary));
    write("share", words.share(each.summary));
    write("queue", words.queue(each.summary));
    write("benefit", words.benefit(each));
    write("members", words.members(each));
    write("leader", words.leader(each));
    write("group", words.group(each));
    const yes = (is: boolean): string => (is ? "yes" : "–");
    this.members.update(each.members, (member) => member.node, (row, member) => {
      const own = words.isOwn(member);
      row.classList.toggle("this", own);
      put(row.cells[0].children[0], words.called(member));
      put(row.cells[0].children[1], own ? "this" : "");
      row.cells[0].title = member.name === undefined ? member.node : `${member.node} calls itself ${member.name}`;
      put(row.cells[1], yes(member.sends));
      put(row.cells[2], yes(member.leads));
      put(row.cells[3], own ? "–" : words.age(member.age_s));
      put(row.cells[4].children[0], member.address === undefined ? "this terminal" : words.host(member.address));
      put(row.cells[4].children[1], member.other_key === true ? words.OTHER_KEY.short : "");
      row.cells[4].title = [member.address ?? "", member.other_key === true ? words.OTHER_KEY.long : ""].filter(Boolean).join(": ");
    });
    this.flows.update(each.flows, (flow) => `${flow.id} ${flow.local} ${flow.remote}`, showFlow);
  }
}

function showFlow(row: HTMLTableRowElement, flow: ShareFlow): void {
  const id = idOf(flow);
  const known = id === undefined ? undefined : flows.all.get(id);
  const button = row.cells[0].firstElementChild as HTMLButtonElement;
  put(button.children[0], flow.remote);
  put(button.children[1], `from ${flow.local}`);
  button.title = known === undefined ? `${flow.local} > ${flow.remote}: not among the watched flows` : `${flow.local} > ${flow.remote}: show its chart`;
  button.disabled = known === undefined;
  button.dataset["flow"] = id ?? "";
  put(row.cells[1], words.bound(flow.bound.lower));
  put(row.cells[2], words.bound(flow.bound.upper));
  put(row.cells[3], String(known === undefined ? flow.cwnd : number(known, R.CWND)));
  const { short, long } = words.rule(flow);
  put(row.cells[4].children[0], short);
  put(row.cells[4].children[1], `: ${long}`);
  row.cells[4].title = long;
  row.classList.toggle("focus", id !== undefined && id === state.focus);
}

const sections = new Map<string, Section>();

function removeSections(): void {
  for (const { root } of sections.values()) root.remove();
  sections.clear();
}

function showStatus(status: ShareStatus): void {
  removeStations();
  put(el("share-policy"), words.policy(status));
  put(el("share-objective"), status.policy.objective);
  const wanted = new Set(status.interfaces.map((each) => each.name));
  for (const [name, section] of sections) {
    if (wanted.has(name)) continue;
    section.root.remove();
    sections.delete(name);
  }
  for (const each of status.interfaces) {
    let section = sections.get(each.name);
    if (section === undefined) {
      section = new Section(each.name);
      sections.set(each.name, section);
      el("share-interfaces").append(section.root);
    }
    section.render(each);
  }
  showWarnings(status.warnings ?? []);
  put(el("share-remarks"), words.remarks(status).join(" "));
}

/** Unchanged warnings keep their elements, so that a screen reader announces them once. */
function showWarnings(warnings: readonly string[]): void {
  const list = el("share-warnings");
  while (list.children.length > warnings.length) list.lastElementChild?.remove();
  while (list.children.length < warnings.length) list.append(document.createElement("li"));
  warnings.forEach((warning, n) => put(list.children[n], warning));
  el("share-warned").hidden = warnings.length === 0;
}

function showAbsent({ why, help }: ShareAbsent): void {
  put(el("share-why"), `No sharing here: ${why}.`);
  put(el("share-help"), help ?? "");
  el("share-todo").hidden = help === null;
  el("share-key").hidden = help?.includes("--key-file") !== true;
}

/** Whether the last answer had no bound at all, and whether the daemon was gone since sharing
 * began. */
let wasUnbounded = false;
let hasEnded = false;

/** Records the time at which bounds begin; if the first answer has bounds, that time is unknown. */
function recordStart(status: ShareStatus, at: number): void {
  const isBounded = status.interfaces.some((each) => each.flows.some((flow) => flow.obeys && flow.bound.upper > 0));
  if (isBounded && wasUnbounded && (state.sharingSince === undefined || hasEnded)) {
    state.sharingSince = at;
    hasEnded = false;
  }
  wasUnbounded = !isBounded;
}

/** Stores the reported bounds for the charts. */
function recordBounds(status: ShareStatus): void {
  const at = now();
  for (const id of bounds.keys()) if (!flows.all.has(id)) bounds.delete(id);
  if (at === 0) return;
  recordStart(status, at);
  for (const flow of status.interfaces.flatMap((each) => each.flows)) {
    const id = flow.obeys ? idOf(flow) : undefined;
    if (id === undefined || !flows.all.has(id)) continue;
    const kept = bounds.get(id) ?? new Bounds();
    bounds.set(id, kept);
    kept.add(at, flow.bound);
  }
  state.dirty = true;
}

function show(part: "wait" | "absent" | "status"): void {
  el("share-wait").hidden = part !== "wait";
  el("share-absent").hidden = part !== "absent";
  el("share-status").hidden = part !== "status";
}

/** Why the view may be out of date; empty: it is current. */
const trouble = (why: string): void => {
  put(el("share-trouble"), why);
  if (el("share-status").hidden && el("share-absent").hidden) put(el("share-wait"), why);
};

let timer: number | undefined;
let asking = false;
let isAbsentNow = false;
const isOpen = (): boolean => !el("side-sharing").hidden;
/** A recording has no daemon: the request is made only so that the open view can say so. */
const wanted = (): boolean => document.visibilityState === "visible" && (isOpen() || !inReplay());

const UNKNOWN = "The page does not understand the daemon's answer: the daemon may have another version.";

/** Shows an answer; returns why the view may be out of date. */
function take(answer: ShareAnswer): string {
  isAbsentNow = isAbsent(answer);
  state.plainWhy = isStatus(answer) && !answer.steers ? (answer.why_not ?? "") : "";
  if (isAbsent(answer)) {
    wasUnbounded = true;
    hasEnded = true;
    showAbsent(answer);
    show("absent");
    return "";
  }
  if (isAccessPoint(answer)) {
    removeSections();
    showWarnings([]);
    showStations(answer);
    show("status");
    return "";
  }
  if (!isStatus(answer)) return UNKNOWN;
  showStatus(answer);
  recordBounds(answer);
  show("status");
  return "";
}

/** Polls, and repeats after a pause as long as that is wanted. */
export async function refresh(): Promise<void> {
  window.clearTimeout(timer);
  if (asking || !wanted()) return;
  asking = true;
  try {
    trouble(take(await askShare()));
  } catch (error) {
    trouble(`This view is out of date: ${error instanceof Refusal ? error.message : "the server does not answer"}.`);
  }
  asking = false;
  window.clearTimeout(timer);
  timer = window.setTimeout(() => void refresh(), isAbsentNow && !isOpen() ? ABSENT_PAUSE_MS : PAUSE_MS);
}

export type Side = "flows" | "sharing";

export function setSide(side: Side): void {
  el("side-flows").hidden = side !== "flows";
  el("side-sharing").hidden = side !== "sharing";
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-side]")) {
    button.setAttribute("aria-pressed", String(button.dataset["side"] === side));
  }
  state.listDirty = true;
  announce(side === "flows" ? "Flows" : "Sharing");
  void refresh();
}

export const toggleSide = (): void => setSide(el("side-flows").hidden ? "flows" : "sharing");

for (const button of document.querySelectorAll<HTMLButtonElement>("[data-side]")) {
  button.addEventListener("click", () => setSide(button.dataset["side"] as Side));
}
el("share-interfaces").addEventListener("click", ({ target }) => {
  const id = target instanceof Element ? target.closest("button")?.dataset["flow"] : undefined;
  if (id !== undefined && flows.all.has(id)) {
    setFocus(id);
    void refresh();
  }
});
document.addEventListener("visibilitychange", () => void refresh());
