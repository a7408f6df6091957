// The list of flows. Rows are kept and changed in place. Only visible rows are updated and drawn in
// each turn, and the style sheet excludes the others from layout: a list of hundreds must not
// reduce the chart's frame rate.
import { put } from "./dom";
import { closedAt, endedAt, flowRate, number, type Flow, type Flows } from "./flows";
import { count, rate, timeUs } from "./format";
import { grouped, sumOf, type GroupKey } from "./groups";
import { limitColor, limitMeaning, limitName, limitShort } from "./limits";
import { STATE_LETTERS } from "./marks";
import { Spark } from "./spark";
import { SumLine } from "./sumline";
import { R, STATES } from "./wire";

export type SortKey = "name" | "rate" | "limit" | "cwnd" | "srtt" | "resent" | "state";
const KEYS: readonly SortKey[] = ["rate", "limit", "cwnd", "srtt", "resent", "state", "name"];
/** Maximum number of rows on the page: filters narrow longer lists, not scrolling. */
const MAX_ROWS = 400;
/** Invisible lines are updated once in this many turns, an equal part of them in each turn. */
const HIDDEN_ROW_INTERVAL = 10;

interface Line {
  tr: HTMLTableRowElement;
  box: HTMLInputElement;
  name: HTMLElement;
  more: HTMLElement;
  picture: Spark;
  cells: Record<"rate" | "limit" | "cwnd" | "srtt" | "resent", HTMLTableCellElement>;
  state: HTMLElement;
  seen: boolean;
  texts_shown: string;
  /** The line's current mark: focused or chosen; undefined: not marked yet. */
  marked: string | undefined;
  drawn: number;
}

/** What limits a flow, index into `LIMITS`; below 0 if unknown. */
const limitOf = (flow: Flow): number => Number(flow.row[R.LIMIT] ?? -1);

export class List {
  private readonly body = document.createElement("tbody");
  private readonly note = document.createElement("div");
  private readonly heads = new Map<SortKey, HTMLTableCellElement>();
  private readonly lines = new Map<string, Line>();
  private readonly watcher: IntersectionObserver;
  private sort: { key: SortKey; up: boolean } = { key: "rate", up: false };
  private words: string[] = [];
  private order: string[] = [];
  private by: GroupKey = "";
  private readonly folded = new Set<string>();
  /** The groups' names and flows, in order, and their lines; a single group without a name if there
   * are none. */
  private groups: { name: string; ids: string[] }[] = [];
  private readonly groupLines = new Map<string, SumLine>();
  private readonly total = new SumLine();
  private found: Flow[] = [];
  private sortedAt = 0;
  private turn = 0;
  private pointer = false;

  /** The reader's actions on a line: focuses its flow, or chooses it. */
  onFocus: (id: string) => void = () => undefined;
  onChoice: (id: string, chosen: boolean) => void = () => undefined;
  onFold: () => void = () => undefined;

  constructor(root: HTMLElement, private readonly flows: Flows) {
    const table = document.createElement("table");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "Flows");
    // Roles are explicit because the lines are grids, which some browsers do not recognise as a
    // table.
    const head = document.createElement("tr");
    head.setAttribute("role", "row");
    const th = (label: string, key: SortKey | undefined, hint: string, kind: string): void => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
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
    th("Flow", "name", "What distinguishes the flow from the others; below it: the remote end, the process, the congestion control and this end", "text");
    th("Last 30 s", undefined, "", "spark");
    th("Rate", "rate", "Throughput over the last second", "rate-cell");
    th("Limit", "limit", "What limited the flow for most of the last two seconds", "limit-cell");
    th("cwnd", "cwnd", "Congestion window, segments", "cwnd-cell");
    th("srtt", "srtt", "Smoothed round-trip time", "srtt-cell");
    th("Retr", "resent", "Segments retransmitted since the connection's start, as the kernel counts them", "resent-cell");
    th("", "state", "Congestion state: D Disorder, C CWR, R Recovery, L Loss", "");
    this.heads.get("state")?.querySelector("button")?.setAttribute("aria-label", "State");
    const thead = document.createElement("thead");
    thead.append(head);
    const foot = document.createElement("tfoot");
    foot.append(this.total.tr);
    for (const group of [thead, this.body, foot]) group.setAttribute("role", "rowgroup");
    table.append(thead, this.body, foot);
    this.note.className = "note";
    this.note.hidden = true;
    root.append(table, this.note);
    this.listen();
    root.addEventListener("pointerenter", () => (this.pointer = true));
    root.addEventListener("pointerleave", () => (this.pointer = false));
    this.watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const line = this.lines.get((entry.target as HTMLElement).dataset["id"] ?? "");
        if (line === undefined) continue;
        line.seen = entry.isIntersecting;
        line.drawn = 0;
      }
      for (const [id, line] of this.lines) {
        const flow = this.flows.all.get(id);
        if (!line.seen || line.drawn !== 0 || flow === undefined) continue;
        this.show(line, flow);
        this.draw(line, flow);
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

  /** Groups flows that have something in common, each group below a line with its totals. */
  groupBy(by: GroupKey): void {
    this.by = by;
    this.folded.clear();
    this.sortedAt = 0;
  }

  sortBy(key: SortKey): void {
    this.sort = this.sort.key === key ? { key, up: !this.sort.up } : { key, up: key === "name" || key === "limit" };
    this.sortedAt = 0;
    this.headings();
  }

  /** Sorts by the next column; returns its name. */
  sortNext(): string {
    const key = KEYS[(KEYS.indexOf(this.sort.key) + 1) % KEYS.length];
    this.sort = { key, up: key === "name" || key === "limit" };
    this.sortedAt = 0;
    this.headings();
    return key;
  }

  /** One listener of each kind for all rows. */
  private listen(): void {
    const idOf = (target: EventTarget | null): string | undefined => (target instanceof Element ? target.closest("tr")?.dataset["id"] : undefined);
    this.body.addEventListener("change", ({ target }) => {
      const id = idOf(target);
      if (id !== undefined && target instanceof HTMLInputElement) this.onChoice(id, target.checked);
    });
    this.body.addEventListener("click", ({ target }) => {
      const id = idOf(target);
      if (id !== undefined && !(target instanceof HTMLInputElement)) this.onFocus(id);
    });
    this.body.addEventListener("keydown", ({ key, target }) => {
      const id = idOf(target);
      if (id !== undefined && key === "Enter" && target instanceof HTMLTableRowElement) this.onFocus(id);
    });
  }

  private headings(): void {
    for (const [key, cell] of this.heads) {
      cell.setAttribute("aria-sort", key !== this.sort.key ? "none" : this.sort.up ? "ascending" : "descending");
    }
  }

  private value(flow: Flow): number | string {
    switch (this.sort.key) {
      case "name": return flow.name;
      case "rate": return flowRate(flow);
      case "limit": return limitName(limitOf(flow)) ?? "~";
      case "cwnd": return number(flow, R.CWND);
      case "srtt": return number(flow, R.SRTT);
      case "resent": return number(flow, R.TOTAL_RETRANS);
      case "state": return endedAt(flow) !== null ? -1 : number(flow, R.STATE);
    }
  }

  private arrange(): void {
    const found: [number | string, Flow][] = [];
    for (const flow of this.flows.all.values()) {
      const state = closedAt(flow) !== null ? "closed" : endedAt(flow) !== null ? "unwatched" : STATES[number(flow, R.STATE) as 0].toLowerCase();
      const text = `${flow.text} ${flow.name.toLowerCase()} ${state} ${limitName(limitOf(flow)) ?? ""}`;
      if (this.words.every((word) => text.includes(word))) found.push([this.value(flow), flow]);
    }
    const sign = this.sort.up ? 1 : -1;
    found.sort(([a, x], [b, y]) => {
      const order = typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - Number(b);
      return order !== 0 ? sign * order : x.who.id < y.who.id ? -1 : 1;
    });
    this.found = found.map(([, flow]) => flow);
    const shown = this.found.slice(0, MAX_ROWS);
    this.groups = grouped(shown, this.by).map(({ name, flows }) => ({ name, ids: flows.map((flow) => flow.who.id) }));
    this.order = this.groups.flatMap(({ name, ids }) => (this.folded.has(name) ? [] : ids));
    const more = found.length - shown.length;
    this.note.hidden = more <= 0;
    put(this.note, `${more} more: narrow the list with the filter above.`);
  }

  /** Updates the list; returns the number of listed flows. */
  update(focus: string | undefined, chosen: ReadonlySet<string>): number {
    const now = performance.now();
    // While the pointer is over the list, or within two seconds, lines do not move.
    if (this.sortedAt === 0 || (now - this.sortedAt > 2000 && !this.pointer)) {
      this.arrange();
      this.sortedAt = now;
    }
    this.order = this.order.filter((id) => this.flows.all.has(id));
    this.found = this.found.filter((flow) => this.flows.all.has(flow.who.id));
    this.turn = (this.turn + 1) % HIDDEN_ROW_INTERVAL;
    const wanted = new Set(this.order);
    for (const [id, line] of this.lines) {
      if (wanted.has(id)) continue;
      this.watcher.unobserve(line.tr);
      line.tr.remove();
      this.lines.delete(id);
    }
    const active = document.activeElement;
    this.sums();
    let place: Element | null = this.body.firstElementChild;
    const stand = (tr: HTMLTableRowElement): void => {
      if (tr === place) place = place.nextElementSibling;
      else this.body.insertBefore(tr, place);
    };
    const first = new Map(this.groups.map(({ name, ids }) => [ids.find((id) => wanted.has(id)), name]));
    let next = 0;
    const heads = (upTo: number): void => {
      for (; next < upTo; next += 1) {
        const line = this.groupLines.get(this.groups[next].name);
        if (line !== undefined) stand(line.tr);
      }
    };
    for (const [n, id] of this.order.entries()) {
      const group = first.get(id);
      // Folded groups before this one have a line and no flows.
      if (this.by !== "" && group !== undefined) heads(this.groups.findIndex(({ name }) => name === group) + 1);
      const flow = this.flows.all.get(id);
      if (flow === undefined) continue;
      let line = this.lines.get(id);
      if (line === undefined) {
        line = this.line(id);
        this.lines.set(id, line);
      }
      stand(line.tr);
      this.mark(line, focus === id, chosen.has(id));
      if (line.seen || line.texts_shown === "" || n % HIDDEN_ROW_INTERVAL === this.turn) this.show(line, flow);
      if (line.seen && now - line.drawn > 500) this.draw(line, flow);
    }
    heads(this.groups.length);
    // An element that is moved loses the keyboard focus.
    if (active instanceof HTMLElement && active !== document.activeElement && this.body.contains(active)) active.focus({ preventScroll: true });
    return this.found.length;
  }

  /** Updates the totals of all flows and of each group. */
  private sums(): void {
    this.total.tr.hidden = this.found.length < 2;
    if (this.found.length > 1) this.total.show("Sum", sumOf(this.found), false);
    const named = this.by === "" ? [] : this.groups;
    const names = new Set(named.map(({ name }) => name));
    for (const [name, line] of this.groupLines) {
      if (names.has(name)) continue;
      line.tr.remove();
      this.groupLines.delete(name);
    }
    for (const { name, ids } of named) {
      let line = this.groupLines.get(name);
      if (line === undefined) {
        line = new SumLine(() => this.fold(name));
        this.groupLines.set(name, line);
      }
      const flows = ids.map((id) => this.flows.all.get(id)).filter((flow): flow is Flow => flow !== undefined);
      line.show(name, sumOf(flows), this.folded.has(name));
    }
  }

  /** Folds a group, or opens it again; nothing else moves. */
  private fold(name: string): void {
    if (!this.folded.delete(name)) this.folded.add(name);
    this.order = this.groups.flatMap((group) => (this.folded.has(group.name) ? [] : group.ids));
    this.onFold();
  }

  private line(id: string): Line {
    const tr = document.createElement("tr");
    tr.className = "flow";
    tr.setAttribute("role", "row");
    tr.dataset["id"] = id;
    const cell = (kind: string): HTMLTableCellElement => {
      const td = document.createElement("td");
      td.className = kind;
      td.setAttribute("role", "gridcell");
      tr.append(td);
      return td;
    };
    const box = document.createElement("input");
    box.type = "checkbox";
    cell("pick").append(box);
    const name = document.createElement("span");
    const more = document.createElement("span");
    name.className = "name";
    more.className = "more";
    cell("text").append(name, more);
    const picture = new Spark();
    cell("spark").append(picture.root);
    const cells = { rate: cell("rate-cell"), limit: cell("limit-cell"), cwnd: cell("cwnd-cell"), srtt: cell("srtt-cell"), resent: cell("resent-cell") };
    const state = document.createElement("span");
    cell("").append(state);
    const line: Line = { tr, box, name, more, picture, cells, state, seen: false, texts_shown: "", marked: undefined, drawn: 0 };
    this.watcher.observe(tr);
    return line;
  }

  private draw(line: Line, flow: Flow): void {
    line.drawn = performance.now();
    line.picture.draw(flow);
  }

  private mark(line: Line, focus: boolean, chosen: boolean): void {
    const marked = `${focus} ${chosen}`;
    if (marked === line.marked) return;
    line.marked = marked;
    line.tr.setAttribute("aria-selected", String(focus));
    line.tr.tabIndex = focus ? 0 : -1;
    line.box.checked = chosen;
  }

  private show(line: Line, flow: Flow): void {
    const ended = endedAt(flow) === null ? "" : closedAt(flow) === null ? "not watched" : "closed";
    const state = number(flow, R.STATE);
    const limit = limitOf(flow);
    const texts = [
      flow.name, flow.more, ended !== "" ? ended : rate(flowRate(flow)), count(number(flow, R.CWND)),
      number(flow, R.SRTT) > 0 ? timeUs(number(flow, R.SRTT)) : "–", count(number(flow, R.TOTAL_RETRANS)), String(state), limitShort(limit) ?? "–", String(number(flow, R.LIMIT_PART)),
    ];
    const texts_shown = texts.join("\n");
    if (texts_shown === line.texts_shown) return;
    line.texts_shown = texts_shown;
    const { cells } = line;
    put(line.name, texts[0]);
    put(line.more, texts[1]);
    line.name.title = `${flow.who.local} > ${flow.who.remote}`;
    put(cells.rate, texts[2]);
    put(cells.limit, texts[7]);
    cells.limit.style.color = limitName(limit) === undefined ? "" : `var(${limitColor(limit)})`;
    cells.limit.title = limitName(limit) === undefined ? "" : `${limitName(limit)}: ${limitMeaning(limit)}; ${texts[8]} % of the last two seconds`;
    put(cells.cwnd, texts[3]);
    put(cells.srtt, texts[4]);
    put(cells.resent, texts[5]);
    line.state.className = `state-chip s${ended !== "" ? 0 : state}`;
    put(line.state, ended === "closed" ? "×" : ended !== "" ? "–" : state === 0 ? "·" : STATE_LETTERS[state as 1]);
    line.state.title = ended !== "" ? ended : STATES[state as 0];
    line.state.setAttribute("aria-label", line.state.title);
    line.tr.classList.toggle("closed", ended !== "");
    line.box.setAttribute("aria-label", `Choose ${texts[0]} for overlay and multiples`);
  }

  /** Scrolls a flow's line into view; the keyboard focus follows if it is on a line. */
  scrollTo(id: string): void {
    const tr = this.lines.get(id)?.tr;
    tr?.scrollIntoView({ block: "nearest" });
    const active = document.activeElement;
    if (active instanceof HTMLTableRowElement && this.body.contains(active)) tr?.focus({ preventScroll: true });
  }
}
