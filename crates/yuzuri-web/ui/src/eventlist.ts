// The list of events, newest first.
import { put, svg } from "./dom";
import { count } from "./format";
import { glyphOf, letterShift, outline, STATE_COLORS, STATE_LETTERS } from "./marks";
import { E, Kind, Mark, STATES, type EventData, type Session } from "./wire";

const MAX_KEPT = 2000;
const MAX_SHOWN = 150;
/** Number of newest events considered for the list, since many of them may be folded into one
 * row. */
const MAX_FOLDED = 1000;

/** An event as text. */
export function describe(event: EventData, session: Session | undefined): { what: string; why: string } {
  const kind = session?.kinds[event[E.KIND]] ?? String(event[E.KIND]);
  const why = session?.reasons[event[E.REASON]] ?? "";
  if (event[E.KIND] === Kind.STATE) return { what: `${STATES[event[E.BEFORE] as 0]} → ${STATES[event[E.STATE] as 0]}`, why };
  if (event[E.KIND] === Kind.SAMPLE && (event[E.MARKS] & Mark.DSACK) !== 0) return { what: "DSACK", why };
  return { what: kind, why };
}

/** An event, and how many of its kind directly preceded it. */
export interface Folded {
  event: EventData;
  count: number;
}

/** The events of several lists, each oldest first, by number from the newest on; at most `each` of a list. */
export function* newestFirst(lists: readonly (readonly EventData[])[], each: number): Generator<EventData> {
  const left = lists.filter((list) => list.length > 0).map((list) => ({ list, at: list.length - 1, end: Math.max(list.length - each, 0) }));
  while (left.length > 0) {
    let newest = 0;
    for (let n = 1; n < left.length; n += 1) {
      if (left[n].list[left[n].at][E.NUMBER] > left[newest].list[left[newest].at][E.NUMBER]) newest = n;
    }
    const one = left[newest];
    yield one.list[one.at];
    one.at -= 1;
    if (one.at < one.end) left.splice(newest, 1);
  }
}

const MERGED_FIELDS = [E.FLOW, E.KIND, E.REASON, E.PLACE, E.STATE, E.BEFORE] as const;

/** Folds events, newest first, into at most `max` lines: an event that repeats the one before it is
 * counted instead of listed. */
export function fold(events: Iterable<EventData>, max: number): Folded[] {
  const folded: Folded[] = [];
  for (const event of events) {
    const last = folded[folded.length - 1];
    if (last !== undefined && MERGED_FIELDS.every((place) => last.event[place] === event[place])) last.count += 1;
    else if (folded.length === max) break;
    else folded.push({ event, count: 1 });
  }
  return folded;
}

export class EventList {
  private events: EventData[] = [];
  private shown: Folded[] = [];
  private skipped = 0;
  private changed = true;
  private readonly body = document.createElement("tbody");
  private readonly note = document.createElement("div");
  private readonly table = document.createElement("table");
  /** Rows by content. A row stays with its event, and is reused once that event has left the list.
   * The cost of an update is therefore proportional to the new events, not to the list. */
  private rows = new Map<string, HTMLTableRowElement>();

  /** Called when an event is chosen. */
  onChoice: (event: EventData) => void = () => undefined;

  constructor(root: HTMLElement, private readonly skippedNote: HTMLElement) {
    // Roles are explicit because the rows are grids, which some browsers do not recognise as a
    // table.
    this.table.setAttribute("role", "table");
    this.table.setAttribute("aria-label", "Events");
    const head = document.createElement("tr");
    head.setAttribute("role", "row");
    for (const [name, kind] of [["Time", ""], ["Flow", "wide"], ["What", ""], ["Reason", ""], ["Place in the kernel", "wide"], ["cwnd", "right"]] as const) {
      const th = document.createElement("th");
      th.textContent = name;
      th.scope = "col";
      th.setAttribute("role", "columnheader");
      th.className = kind;
      head.append(th);
    }
    const thead = document.createElement("thead");
    thead.append(head);
    for (const group of [thead, this.body]) group.setAttribute("role", "rowgroup");
    this.table.append(thead, this.body);
    this.note.className = "note";
    root.append(this.table, this.note);
    // One listener for all rows, since there are up to MAX_SHOWN.
    this.body.addEventListener("click", ({ target }) => {
      const number = target instanceof Element ? Number(target.closest("tr")?.dataset["number"]) : NaN;
      const found = this.shown.find(({ event }) => event[E.NUMBER] === number);
      if (found !== undefined) this.onChoice(found.event);
    });
  }

  clear(): void {
    this.events = [];
    this.skipped = 0;
    this.changed = true;
  }

  add(events: EventData[], skipped: number): void {
    this.skipped += skipped;
    let newest = this.events[this.events.length - 1]?.[E.NUMBER] ?? 0;
    for (const event of events) {
      if (event[E.NUMBER] <= newest) continue;
      newest = event[E.NUMBER];
      this.events.push(event);
    }
    if (this.events.length > MAX_KEPT * 1.25) this.events = this.events.slice(-MAX_KEPT);
    this.changed = true;
  }

  touch(): void {
    this.changed = true;
  }

  /** Shows the events of some flows (each oldest first), or of all as far as they have arrived. */
  update(only: EventData[][] | undefined, session: Session | undefined, time: (us: number) => string, name: (id: string) => string): void {
    if (!this.changed) return;
    this.changed = false;
    this.shown = fold(newestFirst(only ?? [this.events], MAX_FOLDED), MAX_SHOWN);
    const keys = this.shown.map(({ event, count }) => `${event[E.NUMBER]} ${count} ${time(event[E.TIME])} ${name(event[E.FLOW])}`);
    const kept = new Set(keys);
    const free = [...this.rows].filter(([key]) => !kept.has(key)).map(([, row]) => row);
    const rows = new Map<string, HTMLTableRowElement>();
    let place: Element | null = this.body.firstElementChild;
    for (const [n, folded] of this.shown.entries()) {
      let row = this.rows.get(keys[n]);
      if (row === undefined) {
        row = free.pop() ?? this.row();
        this.fill(row, folded, session, time, name);
      }
      rows.set(keys[n], row);
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
    }
    for (const row of free) row.remove();
    this.rows = rows;
    this.table.hidden = rows.size === 0;
    this.note.hidden = rows.size > 0;
    put(this.note, only === undefined ? "Nothing has happened yet." : "Nothing has happened to these flows yet.");
    put(this.skippedNote, only === undefined && this.skipped > 0 ? `${count(this.skipped)} of other flows not listed` : "");
  }

  private row(): HTMLTableRowElement {
    const row = document.createElement("tr");
    row.className = "event";
    row.setAttribute("role", "row");
    for (const kind of ["num", "wide", "", "", "wide", "right num"]) {
      const cell = document.createElement("td");
      cell.className = kind;
      cell.setAttribute("role", "cell");
      row.append(cell);
    }
    row.cells[2].append(icon(), document.createElement("span"));
    row.cells[4].append(document.createElement("code"));
    return row;
  }

  private fill(row: HTMLTableRowElement, { event, count }: Folded, session: Session | undefined, time: (us: number) => string, name: (id: string) => string): void {
    const { what, why } = describe(event, session);
    row.dataset["number"] = String(event[E.NUMBER]);
    put(row.cells[0], time(event[E.TIME]));
    put(row.cells[1], name(event[E.FLOW]));
    put(row.cells[3], why);
    put(row.cells[5], String(event[E.CWND]));
    put(row.cells[2].lastElementChild, count > 1 ? `${what} ×${count}` : what);
    row.title = count > 1 ? `${count} in a row; the time is that of the newest` : "";
    put(row.cells[4].firstElementChild, event[E.PLACE]);
    fillIcon(row.cells[2].firstElementChild as SVGSVGElement, event);
  }
}

const ICON_SIZE = 17;
/** The background of a state's letter. */
const STATE_GROUND = "M1 2h15v13h-15z";

/** The icon for an event's mark: SVG, because each canvas would be a layer of its own in the
 * browser. */
function icon(): SVGSVGElement {
  const root = svg("svg");
  root.setAttribute("viewBox", `0 0 ${ICON_SIZE} ${ICON_SIZE}`);
  root.setAttribute("aria-hidden", "true");
  const letter = svg("text");
  letter.setAttribute("x", String(ICON_SIZE / 2));
  root.append(svg("path"), letter);
  return root;
}

function fillIcon(root: SVGSVGElement, event: EventData): void {
  const [shape, letter] = root.children;
  const middle = ICON_SIZE / 2;
  const show = (path: string, ground: string, text: string, y: number): void => {
    shape.setAttribute("d", path);
    shape.setAttribute("fill", ground === "" ? "none" : `var(${ground})`);
    letter.setAttribute("y", String(y));
    put(letter, text);
  };
  const glyph = glyphOf(event);
  const state = event[E.STATE];
  if (glyph !== undefined) show(outline(glyph.shape, middle, middle, 6.3), glyph.color, glyph.letter, middle + letterShift(glyph.shape, 6.3));
  else if (event[E.KIND] === Kind.STATE && state > 0) show(STATE_GROUND, STATE_COLORS[state as 1], STATE_LETTERS[state as 1], 9);
  else show("", "", "", middle);
}
