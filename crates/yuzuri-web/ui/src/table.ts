// The list of flows. Rows are kept and changed in place; a row's picture is drawn only while it can be seen.
import { count, rate, timeUs } from "./format";
import { color } from "./theme";
import { R, STATES, type RowData, type RowsMessage, type Who } from "./wire";
import { STATE_LETTERS } from "./marks";

/** A flow as the list knows it. */
export interface Flow {
  who: Who;
  row: RowData;
  /** What the text filter looks in. */
  text: string;
  rates: number[];
  windows: number[];
  sparkAt: number;
}

export type SortKey = "name" | "rate" | "cwnd" | "srtt" | "resent" | "state";
const KEYS: readonly SortKey[] = ["rate", "cwnd", "srtt", "resent", "state", "name"];
const SPARK_POINTS = 60;
const SPARK_US = 500_000;
/** Rows on the page at most: a list of more is narrowed by its filters, not by scrolling. */
const MOST_ROWS = 400;

const number = (flow: Flow, place: number): number => Number(flow.row[place] ?? 0);
export const flowRate = (flow: Flow): number => number(flow, R.SENT) + number(flow, R.RECEIVED);
/** Whether a flow mostly receives. */
export const receives = (flow: Flow): boolean => number(flow, R.BYTES_RECEIVED) > number(flow, R.ACKED);
export const closedAt = (flow: Flow): number | null => (flow.row[R.CLOSED] ?? null) as number | null;

/** A flow's name in short: the other end, and who talks to it. */
export const flowName = (flow: Flow): string => flow.who.remote;
export function flowMore(flow: Flow): string {
  const { process, pid, local, netns_name, control } = flow.who;
  const owner = process === null ? "" : `${process}/${pid ?? "?"}`;
  return [owner, netns_name === null ? "" : `netns ${netns_name}`, control, `from ${local}`].filter((part) => part !== "").join(" · ");
}

/** All flows, as the server tells of them. */
export class Flows {
  readonly all = new Map<string, Flow>();

  take(message: RowsMessage): void {
    if (message.all) {
      const present = new Set(message.rows.map((row) => row[0]));
      for (const id of this.all.keys()) if (!present.has(id)) this.all.delete(id);
    }
    const new_ = new Map(message.flows.map((who) => [who.id, who]));
    for (const row of message.rows) {
      const known = this.all.get(row[0]);
      const who = new_.get(row[0]) ?? known?.who;
      if (who === undefined) continue;
      if (known === undefined) {
        this.all.set(row[0], { who, row, text: "", rates: [], windows: [], sparkAt: 0 });
      } else {
        known.row = row;
      }
    }
    for (const [id, who] of new_) {
      const flow = this.all.get(id);
      if (flow === undefined) continue;
      flow.who = who;
      flow.text = [who.local, who.remote, who.process, who.pid, who.netns_name, who.netns, who.control, who.id].join(" ").toLowerCase();
    }
    for (const [id, [rates, windows]] of Object.entries(message.sparks)) {
      const flow = this.all.get(id);
      if (flow === undefined) continue;
      flow.rates = rates;
      flow.windows = windows;
      flow.sparkAt = message.now;
    }
    for (const id of message.gone) this.all.delete(id);
    for (const flow of this.all.values()) {
      if (message.now - flow.sparkAt < SPARK_US || closedAt(flow) !== null) continue;
      flow.sparkAt = message.now;
      flow.rates.push(flowRate(flow));
      flow.windows.push(number(flow, R.CWND));
      if (flow.rates.length > SPARK_POINTS) flow.rates.shift();
      if (flow.windows.length > SPARK_POINTS) flow.windows.shift();
    }
  }
}

interface Line {
  tr: HTMLTableRowElement;
  box: HTMLInputElement;
  name: HTMLElement;
  more: HTMLElement;
  canvas: HTMLCanvasElement;
  cells: Record<"rate" | "cwnd" | "srtt" | "resent", HTMLTableCellElement>;
  state: HTMLElement;
  seen: boolean;
  told: string;
  drawn: number;
}

export interface ListEvents {
  focus(id: string): void;
  choose(id: string, chosen: boolean): void;
}

export class List {
  private readonly body = document.createElement("tbody");
  private readonly note = document.createElement("div");
  private readonly heads = new Map<SortKey, HTMLTableCellElement>();
  private readonly lines = new Map<string, Line>();
  private readonly watcher: IntersectionObserver;
  private sort: { key: SortKey; up: boolean } = { key: "rate", up: false };
  private words: string[] = [];
  private order: string[] = [];
  private sortedAt = 0;
  private pointer = false;

  constructor(root: HTMLElement, private readonly flows: Flows, private readonly events: ListEvents) {
    const table = document.createElement("table");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "Flows");
    const columns = document.createElement("colgroup");
    for (const name of ["pick", "flow", "spark", "rate", "cwnd", "srtt", "resent", "state"]) {
      const col = document.createElement("col");
      col.className = name;
      columns.append(col);
    }
    const head = document.createElement("tr");
    const th = (label: string, key: SortKey | undefined, hint: string, kind: string): void => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = kind;
      if (key === undefined) {
        const span = document.createElement("span");
        span.className = "sr";
        span.textContent = label;
        cell.append(span);
      } else {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = label;
        button.title = hint;
        button.addEventListener("click", () => this.sortBy(key));
        cell.append(button);
        this.heads.set(key, cell);
      }
      head.append(cell);
    };
    th("Chosen", undefined, "", "pick");
    th("Flow", "name", "The other end; below it the process, the namespace, the congestion control and this end", "text");
    th("Last 30 s", undefined, "", "spark");
    th("Rate", "rate", "Throughput over the last second", "rate-cell");
    th("cwnd", "cwnd", "Congestion window, segments", "cwnd-cell");
    th("srtt", "srtt", "Smoothed round-trip time", "srtt-cell");
    th("Resent", "resent", "Retransmissions since the connection's start", "resent-cell");
    th("", "state", "State of the congestion machine: D Disorder, C CWR, R Recovery, L Loss", "");
    this.heads.get("state")?.querySelector("button")?.setAttribute("aria-label", "State");
    const thead = document.createElement("thead");
    thead.append(head);
    table.append(columns, thead, this.body);
    this.note.className = "note";
    this.note.hidden = true;
    root.append(table, this.note);
    root.addEventListener("pointerenter", () => (this.pointer = true));
    root.addEventListener("pointerleave", () => (this.pointer = false));
    this.watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const line = this.lines.get((entry.target as HTMLElement).dataset["id"] ?? "");
        if (line === undefined) continue;
        line.seen = entry.isIntersecting;
        line.drawn = 0;
      }
    });
    this.headings();
  }

  /** The ids as they are listed. */
  get listed(): readonly string[] {
    return this.order;
  }

  find(text: string): void {
    this.words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
    this.sortedAt = 0;
  }

  sortBy(key: SortKey): void {
    this.sort = this.sort.key === key ? { key, up: !this.sort.up } : { key, up: key === "name" };
    this.sortedAt = 0;
    this.headings();
  }

  /** Sorts by the next column; its name. */
  sortNext(): string {
    const key = KEYS[(KEYS.indexOf(this.sort.key) + 1) % KEYS.length];
    this.sort = { key, up: key === "name" };
    this.sortedAt = 0;
    this.headings();
    return key;
  }

  /** Forgets what was drawn (the theme changed). */
  redraw(): void {
    for (const line of this.lines.values()) line.drawn = 0;
  }

  private headings(): void {
    for (const [key, cell] of this.heads) {
      cell.setAttribute("aria-sort", key !== this.sort.key ? "none" : this.sort.up ? "ascending" : "descending");
    }
  }

  private value(flow: Flow): number | string {
    switch (this.sort.key) {
      case "name": return flow.who.remote + flow.who.local;
      case "rate": return flowRate(flow);
      case "cwnd": return number(flow, R.CWND);
      case "srtt": return number(flow, R.SRTT);
      case "resent": return number(flow, R.TOTAL_RETRANS);
      case "state": return closedAt(flow) !== null ? -1 : number(flow, R.STATE);
    }
  }

  private arrange(): void {
    const found: [number | string, Flow][] = [];
    for (const flow of this.flows.all.values()) {
      const state = closedAt(flow) !== null ? "closed" : STATES[number(flow, R.STATE) as 0].toLowerCase();
      if (this.words.every((word) => flow.text.includes(word) || state.includes(word))) found.push([this.value(flow), flow]);
    }
    const sign = this.sort.up ? 1 : -1;
    found.sort(([a, x], [b, y]) => {
      const order = typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - Number(b);
      return order !== 0 ? sign * order : x.who.id < y.who.id ? -1 : 1;
    });
    this.order = found.slice(0, MOST_ROWS).map(([, flow]) => flow.who.id);
    const more = found.length - this.order.length;
    this.note.hidden = more <= 0;
    this.note.textContent = `${more} more: narrow the list with the filter above.`;
  }

  /** Brings the list up to date; how many flows are listed. */
  update(focus: string | undefined, chosen: ReadonlySet<string>): number {
    const now = performance.now();
    // While somebody points at the list, or within two seconds, lines do not jump.
    if (this.sortedAt === 0 || (now - this.sortedAt > 2000 && !this.pointer)) {
      this.arrange();
      this.sortedAt = now;
    }
    this.order = this.order.filter((id) => this.flows.all.has(id));
    const wanted = new Set(this.order);
    for (const [id, line] of this.lines) {
      if (wanted.has(id)) continue;
      this.watcher.unobserve(line.tr);
      line.tr.remove();
      this.lines.delete(id);
    }
    let place: Element | null = this.body.firstElementChild;
    for (const id of this.order) {
      const flow = this.flows.all.get(id);
      if (flow === undefined) continue;
      let line = this.lines.get(id);
      if (line === undefined) {
        line = this.line(id);
        this.lines.set(id, line);
      }
      if (line.tr === place) place = place.nextElementSibling;
      else this.body.insertBefore(line.tr, place);
      this.tell(line, flow, focus === id, chosen.has(id), now);
    }
    return this.order.length;
  }

  private line(id: string): Line {
    const tr = document.createElement("tr");
    tr.className = "flow";
    tr.dataset["id"] = id;
    const cell = (kind: string): HTMLTableCellElement => {
      const td = document.createElement("td");
      td.className = kind;
      tr.append(td);
      return td;
    };
    const box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => this.events.choose(id, box.checked));
    box.addEventListener("click", (event) => event.stopPropagation());
    cell("pick").append(box);
    const name = document.createElement("span");
    const more = document.createElement("span");
    name.className = "name";
    more.className = "more";
    cell("text").append(name, more);
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    cell("spark").append(canvas);
    const cells = { rate: cell("rate-cell"), cwnd: cell("cwnd-cell"), srtt: cell("srtt-cell"), resent: cell("resent-cell") };
    const state = document.createElement("span");
    cell("").append(state);
    tr.addEventListener("click", () => this.events.focus(id));
    tr.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target === tr) this.events.focus(id);
    });
    const line: Line = { tr, box, name, more, canvas, cells, state, seen: false, told: "", drawn: 0 };
    this.watcher.observe(tr);
    return line;
  }

  private tell(line: Line, flow: Flow, focus: boolean, chosen: boolean, now: number): void {
    const closed = closedAt(flow) !== null;
    const state = number(flow, R.STATE);
    const texts = [
      flowName(flow), flowMore(flow), closed ? "closed" : rate(flowRate(flow)), count(number(flow, R.CWND)),
      number(flow, R.SRTT) > 0 ? timeUs(number(flow, R.SRTT)) : "–", count(number(flow, R.TOTAL_RETRANS)), String(state), String(focus), String(chosen),
    ];
    const told = texts.join("\n");
    if (told !== line.told) {
      line.told = told;
      const { cells } = line;
      const put = (element: HTMLElement, text: string): void => {
        if (element.textContent !== text) element.textContent = text;
      };
      put(line.name, texts[0]);
      put(line.more, texts[1]);
      line.name.title = `${flow.who.local} > ${flow.who.remote}`;
      put(cells.rate, texts[2]);
      put(cells.cwnd, texts[3]);
      put(cells.srtt, texts[4]);
      put(cells.resent, texts[5]);
      line.state.className = `state-chip s${closed ? 0 : state}`;
      put(line.state, closed ? "×" : state === 0 ? "·" : STATE_LETTERS[state as 1]);
      line.state.title = closed ? "closed" : STATES[state as 0];
      line.state.setAttribute("aria-label", line.state.title);
      line.tr.classList.toggle("closed", closed);
      line.tr.setAttribute("aria-selected", String(focus));
      line.tr.tabIndex = focus ? 0 : -1;
      line.box.checked = chosen;
      line.box.setAttribute("aria-label", `Choose ${texts[0]} for overlay and multiples`);
    }
    if (line.seen && now - line.drawn > 500) {
      line.drawn = now;
      spark(line.canvas, flow);
    }
  }

  scrollTo(id: string): void {
    this.lines.get(id)?.tr.scrollIntoView({ block: "nearest" });
  }
}

function spark(canvas: HTMLCanvasElement, flow: Flow): void {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  if (w === 0) return;
  if (canvas.width !== Math.round(w * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const c = canvas.getContext("2d");
  if (c === null) return;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  const line = (values: number[], stroke: string, fill: boolean): void => {
    if (values.length < 2) return;
    const most = Math.max(...values, 1);
    c.beginPath();
    const left = w - ((values.length - 1) / (SPARK_POINTS - 1)) * w;
    values.forEach((value, n) => {
      const x = left + (n / (SPARK_POINTS - 1)) * w;
      const y = h - 2 - (value / most) * (h - 4);
      if (n === 0) c.moveTo(x, y);
      else c.lineTo(x, y);
    });
    c.strokeStyle = stroke;
    c.lineWidth = 1.25;
    c.lineJoin = "round";
    c.stroke();
    if (!fill) return;
    c.lineTo(w, h);
    c.lineTo(left, h);
    c.closePath();
    c.globalAlpha = 0.16;
    c.fillStyle = stroke;
    c.fill();
    c.globalAlpha = 1;
  };
  line(flow.rates, color("--rate"), true);
  line(flow.windows, color("--cwnd"), false);
}
