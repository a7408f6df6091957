// The list of events, newest first.
import { put } from "./dom";
import { count } from "./format";
import { drawGlyph, glyphOf, STATE_LETTERS } from "./marks";
import { color } from "./theme";
import { E, Kind, Mark, STATES, type EventData, type Session } from "./wire";

const MOST_KEPT = 2000;
const MOST_SHOWN = 150;

/** What happened in words. */
export function describe(event: EventData, session: Session | undefined): { what: string; why: string } {
  const kind = session?.kinds[event[E.KIND]] ?? String(event[E.KIND]);
  const why = session?.reasons[event[E.REASON]] ?? "";
  if (event[E.KIND] === Kind.STATE) return { what: `${STATES[event[E.BEFORE] as 0]} → ${STATES[event[E.STATE] as 0]}`, why };
  if (event[E.KIND] === Kind.SAMPLE && (event[E.MARKS] & Mark.DSACK) !== 0) return { what: "DSACK", why };
  return { what: kind, why };
}

export class EventList {
  private events: EventData[] = [];
  private shown: EventData[] = [];
  private skipped = 0;
  private changed = true;
  private readonly body = document.createElement("tbody");
  private readonly note = document.createElement("div");
  private readonly table = document.createElement("table");
  /** Rows are kept and filled anew: making them new at each turn would keep the garbage collector busy. */
  private readonly rows: HTMLTableRowElement[] = [];

  /** What choosing an event does. */
  onChoice: (event: EventData) => void = () => undefined;

  constructor(root: HTMLElement, private readonly skippedNote: HTMLElement) {
    this.table.setAttribute("aria-label", "Events");
    const head = document.createElement("tr");
    for (const [name, kind] of [["Time", ""], ["Flow", "wide"], ["What", ""], ["Reason", ""], ["Place in the kernel", "wide"], ["cwnd", "right"]] as const) {
      const th = document.createElement("th");
      th.textContent = name;
      th.scope = "col";
      th.className = kind;
      head.append(th);
    }
    const thead = document.createElement("thead");
    thead.append(head);
    this.table.append(thead, this.body);
    this.note.className = "note";
    root.append(this.table, this.note);
    // One listener for all rows: of these there are up to MOST_SHOWN.
    this.body.addEventListener("click", ({ target }) => {
      const number = target instanceof Element ? Number(target.closest("tr")?.dataset["number"]) : NaN;
      const event = this.shown.find((shown) => shown[E.NUMBER] === number);
      if (event !== undefined) this.onChoice(event);
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
    if (this.events.length > MOST_KEPT * 1.25) this.events = this.events.slice(-MOST_KEPT);
    this.changed = true;
  }

  touch(): void {
    this.changed = true;
  }

  /** Shows those of some flows (each oldest first), or of all as far as they came. */
  update(only: EventData[][] | undefined, session: Session | undefined, time: (us: number) => string, name: (id: string) => string): void {
    if (!this.changed) return;
    this.changed = false;
    const newest = only === undefined ? this.events.slice(-MOST_SHOWN) : only.flatMap((events) => events.slice(-MOST_SHOWN));
    this.shown = newest.sort((a, b) => b[E.NUMBER] - a[E.NUMBER]).slice(0, MOST_SHOWN);
    let shown = 0;
    for (const event of this.shown) {
      const row = this.rows[shown] ?? this.row(shown);
      shown += 1;
      if (row.dataset["key"] === `${event[E.NUMBER]}${time(event[E.TIME])}`) continue;
      row.dataset["key"] = `${event[E.NUMBER]}${time(event[E.TIME])}`;
      this.fill(row, event, session, time, name);
    }
    this.rows.forEach((row, n) => (row.hidden = n >= shown));
    this.table.hidden = shown === 0;
    this.note.hidden = shown > 0;
    put(this.note, only === undefined ? "Nothing has happened yet." : "Nothing has happened to these flows yet.");
    put(this.skippedNote, only === undefined && this.skipped > 0 ? `${count(this.skipped)} of other flows not listed` : "");
  }

  private row(n: number): HTMLTableRowElement {
    const row = document.createElement("tr");
    row.className = "event";
    for (const kind of ["num", "wide", "", "", "wide", "right num"]) {
      const cell = document.createElement("td");
      cell.className = kind;
      row.append(cell);
    }
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.height = 17 * ratio;
    canvas.style.width = canvas.style.height = "17px";
    row.cells[2].append(canvas, document.createElement("span"));
    row.cells[4].append(document.createElement("code"));
    this.rows[n] = row;
    this.body.append(row);
    return row;
  }

  private fill(row: HTMLTableRowElement, event: EventData, session: Session | undefined, time: (us: number) => string, name: (id: string) => string): void {
    const { what, why } = describe(event, session);
    row.dataset["number"] = String(event[E.NUMBER]);
    put(row.cells[0], time(event[E.TIME]));
    put(row.cells[1], name(event[E.FLOW]));
    put(row.cells[3], why);
    put(row.cells[5], String(event[E.CWND]));
    const canvas = row.cells[2].firstElementChild as HTMLCanvasElement;
    put(row.cells[2].lastElementChild, what);
    put(row.cells[4].firstElementChild, event[E.PLACE]);
    const c = canvas.getContext("2d");
    if (c === null) return;
    const ratio = window.devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, 17, 17);
    const glyph = glyphOf(event);
    if (glyph !== undefined) {
      drawGlyph(c, glyph, 8.5, 8.5, 6.3, color(glyph.color), color("--ink"));
    } else if (event[E.KIND] === Kind.STATE && event[E.STATE] > 0) {
      c.fillStyle = color(["", "--disorder", "--cwr", "--recovery", "--loss"][event[E.STATE]]);
      c.fillRect(1, 2, 15, 13);
      c.fillStyle = color("--ink");
      c.font = "700 10px system-ui, sans-serif";
      c.textAlign = "center";
      c.textBaseline = "middle";
      c.fillText(STATE_LETTERS[event[E.STATE] as 1], 8.5, 9);
    }
  }
}
