// The page: what is shown, what the reader does, and when things are drawn.
import "./main.css";
import { EventList, describe } from "./eventlist";
import { csvOf, saveCsv, savePng } from "./export";
import { clock, count, elapsed, whole } from "./format";
import { Live, Refusal, history, session as askSession, wish, type Link } from "./live";
import { GLYPHS, STATE_COLORS, drawGlyph, drawState } from "./marks";
import { Panel, read, type Drawn, type PanelKind, type Reading, type TimeAxis, type View } from "./panel";
import { Store } from "./ring";
import { Flows, List, closedAt, flowMore, flowName, flowRate, receives } from "./table";
import { color, flowLetter, startTheme } from "./theme";
import { E, R, STATES, type EventData, type Session, type Status } from "./wire";

function el<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** How far behind the newest data the right edge is: what the server has not yet sent. */
const BEHIND_US = 160_000;
const LEAST_SPAN_US = 20_000;
const MOST_SPAN_US = 2 * 3600e6;
const DEFAULT_SPAN_US = 30e6;
const MOST_CHOSEN = 16;
/** Pauses between drawings when nobody moves anything: one chart each frame, several a dozen times a second. */
const MANY_PAUSE_MS = 80;

const flows = new Flows();
const stores = new Map<string, Store>();
let session: Session | undefined;
let status: Status | undefined;
let link: Link = { state: "connecting" };
let epoch = 0;
let mode: PanelKind = "one";
let focus: string | undefined;
let chosen = new Set<string>();
let follow = true;
let span = DEFAULT_SPAN_US;
let view: View = { from: 0, to: DEFAULT_SPAN_US };
let cursor: number | undefined;
let byClock = true;
let dirty = true;
let listDirty = true;
let lastDrawn = 0;
/** Whether the pasts are from before the connection was lost; they are asked for again once the time is known. */
let stale = false;
let lastReading = 0;
let readAt: number | undefined;
/** The newest time heard of, and when it was heard. */
let heard = { now: 0, at: 0 };
let shownNow = 0;
let panels: Panel[] = [];
let subscribed = "";

const chart = el("chart");
const readout = el("readout");
const tooltip = el("tooltip");
const say = (text: string): void => {
  el("say").textContent = text;
};

// --- time ---------------------------------------------------------------------------------------------------------

function speed(): number {
  const replay = status?.replay;
  return replay === null || replay === undefined ? 1 : replay.paused ? 0 : replay.speed;
}

function hear(now: number): void {
  heard = { now, at: performance.now() };
}

/** The time it is now over there, guessed from the newest message; never back, except after a seek. */
function now(): number {
  if (heard.at === 0) return 0;
  const since = link.state === "open" ? Math.min((performance.now() - heard.at) * 1000 * speed(), 400_000 * Math.max(speed(), 1)) : 0;
  shownNow = Math.max(shownNow, heard.now + since);
  return shownNow;
}

const zero = (): number => status?.zero_unix_us ?? session?.started_unix_us ?? 0;

function timeAxis(): TimeAxis {
  if (!byClock) return { offsetUs: 0, label: elapsed };
  // Ticks on round times of the day, in the reader's time zone.
  const offset = zero() % 3600e6;
  return { offsetUs: offset, label: (us, digits) => clock(zero() + us + (digits === 0 ? 1000 : 0), digits) };
}

const timeText = (us: number, digits: number): string => (byClock ? clock(zero() + us, digits) : elapsed(us, digits));

// --- flows that are drawn ---------------------------------------------------------------------------------------------

/** Ids of the flows in the chart. */
function charted(): string[] {
  if (mode === "one") return focus === undefined ? [] : [focus];
  return [...chosen].filter((id) => flows.all.has(id)).slice(0, MOST_CHOSEN);
}

function subscribe(): void {
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

/** Takes in the past of a flow, from fine and recent to coarse and long ago. */
async function load(id: string): Promise<void> {
  const store = stores.get(id);
  if (store === undefined) return;
  const at = epoch;
  try {
    const newest = heard.now;
    const past = await Promise.all([history(id, newest - 32e6, 1024), history(id, newest - 260e6, 1024), history(id, newest - 4300e6, 2048)]);
    if (at !== epoch || stores.get(id) !== store) return;
    store.fill(past);
    const recent = store.events;
    store.events = [];
    store.addEvents(past[2].events);
    store.addEvents(recent);
    store.eventsFrom = past[2].events_from;
    events.touch();
    listDirty = true;
    dirty = true;
  } catch (error) {
    // Gone meanwhile, or the connection was lost: then all is asked for again once it is back.
    if (error instanceof Refusal && stores.get(id) === store) store.filled = true;
  }
}

function reload(): void {
  for (const [id, store] of stores) {
    store.clear();
    void load(id);
  }
}

function drawnOf(id: string): Drawn | undefined {
  const flow = flows.all.get(id);
  const store = stores.get(id);
  if (flow === undefined || store === undefined) return undefined;
  const closed = closedAt(flow);
  const latest = Math.max(store.latest, now() - BEHIND_US);
  return { id, name: flowName(flow), store, receives: receives(flow), srttUs: Number(flow.row[R.SRTT] ?? 0), mss: Number(flow.row[R.MSS] ?? 0) || 1448, end: closed ?? latest };
}

function choose(id: string, on: boolean): void {
  if (on && chosen.size >= MOST_CHOSEN) {
    say(`At most ${MOST_CHOSEN} flows can be chosen`);
    listDirty = true;
    return;
  }
  chosen = new Set(chosen);
  if (on) chosen.add(id);
  else chosen.delete(id);
  listDirty = true;
  subscribe();
  dirty = true;
}

function setFocus(id: string): void {
  focus = id;
  const flow = flows.all.get(id);
  if (flow !== undefined) say(`${flowName(flow)}, ${flowMore(flow)}`);
  listDirty = true;
  subscribe();
  list.scrollTo(id);
  events.touch();
  dirty = true;
}

function setMode(next: PanelKind): void {
  mode = next;
  if (next !== "one" && chosen.size < 2) {
    // Something to look at: the focus and the fastest.
    const fastest = [...flows.all.values()].sort((a, b) => flowRate(b) - flowRate(a)).map((flow) => flow.who.id);
    const some = new Set([...chosen, ...(focus === undefined ? [] : [focus]), ...fastest]);
    chosen = new Set([...some].slice(0, next === "over" ? 3 : 6));
  }
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-mode]")) {
    button.setAttribute("aria-pressed", String(button.dataset["mode"] === next));
  }
  subscribed = "?";
  listDirty = true;
  events.touch();
  subscribe();
  rebuild();
}

// --- the chart ------------------------------------------------------------------------------------------------------

function heights(): { main: number; rtt: number } {
  const narrow = window.innerWidth <= 860;
  if (mode === "small") return { main: narrow ? 130 : 150, rtt: 0 };
  const room = narrow ? 420 : Math.max(window.innerHeight - 430, 330);
  return mode === "over" ? { main: Math.round(room * 0.76), rtt: Math.round(room * 0.3) } : { main: Math.round(room * 0.66), rtt: Math.round(room * 0.32) };
}

function rebuild(): void {
  lastReading = 0;
  for (const panel of panels) panel.destroy();
  panels = [];
  chart.classList.toggle("grid", mode === "small");
  readout.classList.toggle("short", mode === "small");
  const ids = charted();
  const number = mode === "small" ? ids.length : Math.min(ids.length, 1);
  for (let n = 0; n < number; n += 1) {
    const panel = new Panel(mode, heights());
    if (mode === "small") {
      const title = document.createElement("div");
      title.className = "panel-title";
      title.append(document.createElement("b"), document.createElement("span"));
      panel.root.prepend(title);
      const id = ids[n];
      title.addEventListener("click", () => setFocus(id));
      title.addEventListener("dblclick", () => {
        setFocus(id);
        setMode("one");
      });
    }
    chart.append(panel.root);
    panels.push(panel);
  }
  tooltip.hidden = true;
  dirty = true;
}

function draw(): void {
  if (follow) {
    const pixel = span / Math.max(panels[0]?.edges.width ?? 1000, 100);
    const end = Math.floor((now() - BEHIND_US) / pixel) * pixel;
    view = { from: end - span, to: end };
  }
  const axis = timeAxis();
  const drawn = charted().map(drawnOf).filter((flow): flow is Drawn => flow !== undefined);
  const width = Math.floor((mode === "small" ? panels[0]?.root.clientWidth : chart.clientWidth) ?? 0);
  chart.hidden = drawn.length === 0;
  showEmpty(drawn.length === 0);
  if (drawn.length === 0 || width < 50) return;
  if (mode === "small") {
    panels.forEach((panel, n) => {
      const flow = drawn[n];
      if (flow === undefined) return;
      panel.draw([flow], view, axis, width);
      panel.cursor(cursor);
      panel.root.classList.toggle("focus", flow.id === focus);
      const at = read(flow, panel, 0, cursor ?? view.to, flows.all.get(flow.id)?.row);
      const title = panel.root.firstElementChild;
      if (title?.firstElementChild instanceof HTMLElement) title.firstElementChild.textContent = flow.name;
      if (title?.lastElementChild instanceof HTMLElement) title.lastElementChild.textContent = at === undefined ? "" : `${at.cwnd.split(" (")[0].replace(" seg", "")} seg · ${at.rate}`;
    });
    if (readingDue()) readingMany(drawn);
  } else {
    panels[0]?.draw(drawn, view, axis, width);
    panels[0]?.cursor(cursor);
    if (!readingDue()) return;
    if (mode === "one") readingOne(drawn[0]);
    else readingMany(drawn);
  }
}

/** Numbers that run with the time are written ten times a second, those at a cursor at once. */
function readingDue(): boolean {
  const time = performance.now();
  if (cursor === readAt && time - lastReading < 100) return false;
  readAt = cursor;
  lastReading = time;
  return true;
}

function showEmpty(empty: boolean): void {
  const box = el("empty");
  box.hidden = !empty;
  readout.hidden = empty;
  if (!empty || box.dataset["key"] === `${flows.all.size}${mode}${status?.filter}${link.state}`) return;
  box.dataset["key"] = `${flows.all.size}${mode}${status?.filter}${link.state}`;
  const head = document.createElement("h2");
  const text = document.createElement("p");
  if (flows.all.size > 0) {
    head.textContent = mode === "one" ? "Choose a flow" : "No flow is chosen";
    text.textContent = "Tick flows in the list, or press j and k to go through them and x to choose.";
  } else if (link.state !== "open") {
    head.textContent = "Connecting …";
  } else {
    head.textContent = "No flows yet";
    text.append("Nothing has sent or received over TCP since watching began. Start a transfer, for example ");
    const code = document.createElement("code");
    code.textContent = "yuzuri send HOST:PORT";
    text.append(code, status?.filter ? `, or widen the filter “${status.filter}”.` : ", or open a web page.");
  }
  box.replaceChildren(head, text);
}

/** Parts of the line of values are made once and only their text is changed. */
const slots = new Map<string, HTMLElement>();
let readoutShape = "";

function readingOne(flow: Drawn | undefined): void {
  const known = flow === undefined ? undefined : flows.all.get(flow.id);
  if (flow === undefined || known === undefined) return;
  if (readoutShape !== "one") {
    readoutShape = "one";
    slots.clear();
    const title = document.createElement("div");
    title.className = "title";
    const name = document.createElement("b");
    const more = document.createElement("span");
    title.append(name, more);
    slots.set("name", name).set("more", more);
    const items: Node[] = [title];
    const item = (key: string, label: string, swatch: string, kind: string): void => {
      const box = document.createElement("span");
      box.className = "item";
      if (swatch !== "") {
        const line = document.createElement("span");
        line.className = `swatch ${kind}`;
        line.style.borderTopColor = `var(${swatch})`;
        box.append(line);
      }
      const small = document.createElement("i");
      small.textContent = label;
      const value = document.createElement("span");
      value.dataset["value"] = key;
      box.append(small, value);
      slots.set(key, value);
      items.push(box);
    };
    item("time", "at", "", "");
    item("cwnd", "cwnd", "--cwnd", "");
    item("ssthresh", "ssthresh", "--ssthresh", "dashed");
    item("rate", "throughput", "--rate", "");
    item("srtt", "srtt", "--rtt", "");
    item("minRtt", "min RTT", "--min-rtt", "dotted");
    item("inFlight", "in flight", "", "");
    item("state", "state", "", "");
    readout.replaceChildren(...items);
  }
  const put = (key: string, text: string): void => {
    const slot = slots.get(key);
    if (slot !== undefined && slot.textContent !== text) slot.textContent = text;
  };
  put("name", `${known.who.local} → ${known.who.remote}`);
  put("more", flowMore(known).replace(/ · from .*$/, ""));
  const at = cursor ?? Math.min(view.to, flow.end);
  const values = read(flow, panels[0], 0, at, known.row);
  put("time", cursor === undefined ? (follow ? "now" : timeText(at, 3)) : timeText(at, 3));
  for (const key of ["cwnd", "ssthresh", "rate", "srtt", "minRtt", "inFlight", "state"] as const) put(key, values?.[key] ?? "–");
}

function readingMany(drawn: Drawn[]): void {
  const key = `${mode}:${drawn.map((flow) => flow.id).join()}`;
  const columns = ["cwnd", "ssthresh", "rate", "srtt", "inFlight", "state"] as const;
  if (mode === "small") {
    if (readoutShape !== key) {
      readoutShape = key;
      const note = document.createElement("span");
      note.className = "muted";
      readout.replaceChildren(note);
      slots.clear();
      slots.set("note", note);
    }
    const note = slots.get("note");
    if (note !== undefined) note.textContent = `${drawn.length} flows side by side · cwnd left, throughput right${cursor === undefined ? "" : ` · at ${timeText(cursor, 3)}`}`;
    return;
  }
  if (readoutShape !== key) {
    readoutShape = key;
    slots.clear();
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of ["Flow", "cwnd", "ssthresh", "throughput", "srtt", "in flight", "state"]) {
      const th = document.createElement("th");
      th.textContent = name;
      head.append(th);
    }
    const body = table.createTBody();
    drawn.forEach((flow, n) => {
      const row = body.insertRow();
      const name = row.insertCell();
      const letter = document.createElement("span");
      letter.className = "letter";
      letter.textContent = flowLetter(n);
      letter.style.color = `var(--flow-${n % 8})`;
      name.append(letter, flow.name);
      for (const column of columns) slots.set(`${n}${column}`, row.insertCell());
    });
    readout.replaceChildren(table);
  }
  drawn.forEach((flow, n) => {
    const values: Reading | undefined = read(flow, panels[0], n, cursor ?? Math.min(view.to, flow.end), flows.all.get(flow.id)?.row);
    for (const column of columns) {
      const slot = slots.get(`${n}${column}`);
      // The spread is for one flow: here it would make the columns jump.
      const text = (values?.[column] ?? "–").replace(/ \(.*\)/, "");
      if (slot !== undefined && slot.textContent !== text) slot.textContent = text;
    }
  });
}

function setFollow(on: boolean): void {
  follow = on;
  const button = el("pause");
  button.textContent = on ? "Pause" : "Go live";
  button.setAttribute("aria-pressed", String(!on));
  say(on ? "Following live" : "View frozen; data keeps coming");
  dirty = true;
}

function spans(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-span]")) {
    button.setAttribute("aria-pressed", String(Math.abs(Number(button.dataset["span"]) * 1e6 - span) < 1000));
  }
}

/** Zooms around a time; while following, around the right edge. */
function zoom(factor: number, around: number): void {
  const next = Math.min(Math.max(span * factor, LEAST_SPAN_US), MOST_SPAN_US);
  if (!follow) {
    const part = (around - view.from) / (view.to - view.from);
    view = { from: around - part * next, to: around + (1 - part) * next };
  }
  span = next;
  spans();
  dirty = true;
}

function pan(us: number): void {
  if (follow) setFollow(false);
  view = { from: view.from + us, to: view.to + us };
  dirty = true;
}

function setSpan(us: number): void {
  span = us;
  if (!follow) view = { from: view.to - us, to: view.to };
  spans();
  dirty = true;
}

function setView(from: number, to: number): void {
  setFollow(false);
  const middle = (from + to) / 2;
  span = Math.max(to - from, LEAST_SPAN_US);
  view = { from: middle - span / 2, to: middle + span / 2 };
  spans();
}

function setCursor(time: number | undefined, spoken: boolean): void {
  cursor = time;
  dirty = true;
  if (!spoken || time === undefined) return;
  const flow = charted().map(drawnOf)[0];
  const values = flow === undefined ? undefined : read(flow, panels[0], 0, time, flows.all.get(flow.id)?.row);
  if (values === undefined) say(`${timeText(time, 3)}: nothing known`);
  else say(`${timeText(time, 3)}: cwnd ${values.cwnd}, ssthresh ${values.ssthresh}, throughput ${values.rate}, srtt ${values.srtt}, in flight ${values.inFlight}, ${values.state}`);
}

/** Goes to an event: into the middle of the view if it is not in it. */
function goTo(event: EventData): void {
  const time = event[E.TIME];
  if (mode === "one" && focus !== event[E.FLOW] && flows.all.has(event[E.FLOW])) setFocus(event[E.FLOW]);
  setFollow(false);
  if (time < view.from || time > view.to) view = { from: time - span / 2, to: time + span / 2 };
  setCursor(time, false);
  const { what, why } = describe(event, session);
  say(`${timeText(time, 3)}: ${what} ${why}, ${event[E.PLACE]}`);
}

function nextEvent(back: boolean): void {
  const store = stores.get(focus ?? "");
  if (store === undefined) return;
  const from = cursor ?? view.to;
  const found = back ? [...store.events].reverse().find((e) => e[E.TIME] < from - 1) : store.events.find((e) => e[E.TIME] > from + 1);
  if (found !== undefined) goTo(found);
}

// --- pointers -------------------------------------------------------------------------------------------------------

interface Touch {
  x: number;
  y: number;
}
const pointers = new Map<number, Touch>();
let drag: { panel: Panel; from: number; pan: boolean; view: View; moved: boolean } | undefined;
let pinch: { distance: number; middle: number; view: View } | undefined;

function panelOf(target: EventTarget | null): Panel | undefined {
  return target instanceof Node ? panels.find((panel) => panel.lanes.contains(target)) : undefined;
}

const within = (panel: Panel, x: number): number => x - panel.lanes.getBoundingClientRect().left;

chart.addEventListener("pointerdown", (event) => {
  const panel = panelOf(event.target);
  if (panel === undefined || event.button > 1) return;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  chart.setPointerCapture(event.pointerId);
  const touch = event.pointerType === "touch";
  if (pointers.size === 2) {
    const [a, b] = [...pointers.values()];
    drag = undefined;
    panel.select(undefined, 0);
    pinch = { distance: Math.max(Math.abs(a.x - b.x), 20), middle: panel.timeAt(within(panel, (a.x + b.x) / 2)), view: { ...view } };
    return;
  }
  drag = { panel, from: event.clientX, pan: touch || event.shiftKey || event.button === 1, view: { ...view }, moved: false };
});

chart.addEventListener("pointermove", (event) => {
  const panel = drag?.panel ?? panelOf(event.target);
  if (pointers.has(event.pointerId)) pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pinch !== undefined && pointers.size === 2) {
    const [a, b] = [...pointers.values()];
    const wide = pinch.view.to - pinch.view.from;
    const next = Math.min(Math.max((wide * pinch.distance) / Math.max(Math.abs(a.x - b.x), 20), LEAST_SPAN_US), MOST_SPAN_US);
    if (follow) {
      setSpan(next);
    } else {
      const part = (pinch.middle - pinch.view.from) / wide;
      span = next;
      view = { from: pinch.middle - part * next, to: pinch.middle + (1 - part) * next };
      spans();
      dirty = true;
    }
    return;
  }
  if (panel === undefined) return;
  if (drag !== undefined && pointers.has(event.pointerId)) {
    const far = event.clientX - drag.from;
    if (Math.abs(far) > 4) drag.moved = true;
    if (drag.moved && drag.pan) {
      if (follow) setFollow(false);
      const us = (far / panel.edges.width) * (drag.view.to - drag.view.from);
      view = { from: drag.view.from - us, to: drag.view.to - us };
      dirty = true;
    } else if (drag.moved) {
      panel.select(within(panel, drag.from), within(panel, event.clientX));
    }
  }
  const x = within(panel, event.clientX);
  const { left, width } = panel.edges;
  if (x < left || x > left + width) return;
  setCursor(panel.timeAt(x), false);
  pointTooltip(panel, event.clientX, event.clientY);
});

function endPointer(event: PointerEvent): void {
  pointers.delete(event.pointerId);
  if (pointers.size < 2) pinch = undefined;
  if (drag === undefined) return;
  const { panel, from, pan: panned, moved } = drag;
  drag = undefined;
  panel.select(undefined, 0);
  if (moved && !panned && event.type === "pointerup") {
    const [a, b] = [panel.timeAt(within(panel, from)), panel.timeAt(within(panel, event.clientX))];
    if (Math.abs(within(panel, from) - within(panel, event.clientX)) > 6) setView(Math.min(a, b), Math.max(a, b));
  }
}
chart.addEventListener("pointerup", endPointer);
chart.addEventListener("pointercancel", endPointer);
chart.addEventListener("pointerleave", () => {
  tooltip.hidden = true;
  if (drag === undefined && document.activeElement !== chart) setCursor(undefined, false);
});
chart.addEventListener("dblclick", (event) => {
  // The pointer was captured by the chart, so the event's own target does not tell what is below it.
  if (panelOf(document.elementFromPoint(event.clientX, event.clientY)) === undefined) return;
  setSpan(DEFAULT_SPAN_US);
  setFollow(true);
});
chart.addEventListener(
  "wheel",
  (event) => {
    const panel = panelOf(event.target);
    // On a narrow page the wheel scrolls, unless with ctrl (which is also what a pinch on a touchpad sends).
    if (panel === undefined || (window.innerWidth <= 860 && !event.ctrlKey)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX / panel.edges.width) * span);
    else zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.002), panel.timeAt(within(panel, event.clientX)));
  },
  { passive: false },
);

function pointTooltip(panel: Panel, clientX: number, clientY: number): void {
  const own = panel.lanes.getBoundingClientRect();
  const mark = panel.markAt(clientX - own.left, clientY - own.top);
  tooltip.hidden = mark === undefined;
  if (mark === undefined) return;
  const head = document.createElement("b");
  head.textContent = `${mark.glyph.letter} · ${mark.glyph.label}`;
  const lines = mark.events.slice(0, 6).map((event) => {
    const { what, why } = describe(event, session);
    const line = document.createElement("div");
    line.textContent = [timeText(event[E.TIME], 3), what, why, event[E.PLACE]].filter((part) => part !== "").join(" · ");
    return line;
  });
  if (mark.events.length > 6) {
    const more = document.createElement("div");
    more.textContent = `and ${mark.events.length - 6} more here`;
    lines.push(more);
  }
  tooltip.replaceChildren(head, ...lines);
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.min(Math.max(clientX + 14, 6), window.innerWidth - box.width - 6)}px`;
  tooltip.style.top = `${clientY + 18 + box.height > window.innerHeight ? clientY - box.height - 12 : clientY + 18}px`;
}

// --- what the server says ---------------------------------------------------------------------------------------------

function startOver(next: number): void {
  epoch = next;
  shownNow = 0;
  events.clear();
  reload();
  dirty = true;
}

const live = new Live({
  link(next) {
    link = next;
    showLink();
  },
  hello(next) {
    if (session === undefined) void loadSession();
    epoch = next;
    shownNow = 0;
    events.clear();
    stale = true;
  },
  rows(message) {
    hear(message.now);
    if (message.epoch !== epoch) startOver(message.epoch);
    else if (stale) reload();
    stale = false;
    flows.take(message);
    if (focus === undefined || (!flows.all.has(focus) && mode === "one")) {
      const fastest = [...flows.all.values()].sort((a, b) => flowRate(b) - flowRate(a))[0];
      focus = fastest?.who.id;
    }
    subscribe();
    listDirty = true;
  },
  chart(message) {
    hear(message.now);
    if (message.epoch !== epoch) startOver(message.epoch);
    for (const [id, buckets] of Object.entries(message.flows)) stores.get(id)?.push(buckets);
    dirty = true;
  },
  events(message) {
    events.add(message.events, message.skipped);
    for (const event of message.events) stores.get(event[E.FLOW])?.addEvents([event]);
    dirty = true;
  },
  status(message) {
    hear(message.now);
    if (message.epoch !== epoch) startOver(message.epoch);
    status = message;
    showStatus();
  },
  gap: reload,
});

async function loadSession(): Promise<void> {
  try {
    session = await askSession();
  } catch {
    return;
  }
  el("host").textContent = session.host;
  el("kernel").textContent = `${session.kernel} · ${session.machine}`;
  el("kernel").title = session.kernel;
  document.title = `Yuzuri · ${session.host}`;
  const badge = el("source");
  badge.hidden = session.source !== "sampled";
  badge.textContent = "sampled";
  badge.title = "Polled from TCP_INFO, not recorded at each event: what happened between two polls shows only as a difference";
  const hooks = session.hooks.map((hook) => {
    const item = document.createElement("li");
    const name = document.createElement("code");
    name.textContent = hook.name;
    if (hook.state === "used") item.append(name, ` ${hook.tells}`);
    else {
      item.className = "missing";
      item.append(name, ` missing: ${hook.state.missing.why}; ${hook.state.missing.instead}`);
    }
    return item;
  });
  el("help-hooks").replaceChildren(...hooks);
  el<HTMLInputElement>("filter").title = session.filter_syntax;
  events.touch();
}

let linkTimer: number | undefined;
function showLink(): void {
  window.clearInterval(linkTimer);
  const pill = el("link");
  pill.className = `pill ${link.state}`;
  const banner = el("banner");
  if (link.state === "lost") {
    pill.textContent = "lost";
    const lost = link;
    const tell = (): void => {
      const left = Math.max(Math.ceil((lost.again - Date.now()) / 1000), 0);
      const since = heard.now > 0 ? ` What you see is from ${timeText(heard.now, 0)}.` : "";
      banner.textContent = `Connection lost: ${lost.why}. ${left > 0 ? `Trying again in ${left} s.` : "Trying again …"}${since}`;
    };
    tell();
    banner.hidden = false;
    linkTimer = window.setInterval(tell, 500);
  } else {
    pill.textContent = link.state === "open" ? "live" : "connecting";
    if (link.state === "open") banner.hidden = true;
  }
  dirty = true;
}

function showStatus(): void {
  if (status === undefined) return;
  const account = el("account");
  const lost = status.lost ?? 0;
  const parts: (string | Node)[] = [];
  if (status.seen === null || status.kept === null) {
    parts.push("no account yet");
  } else {
    const strong = (n: number): HTMLElement => {
      const b = document.createElement("b");
      b.textContent = whole(n);
      return b;
    };
    parts.push("seen ", strong(status.seen), " = kept ", strong(status.kept), " + lost ", strong(lost));
    if (lost > 0) parts.push(` ▲ ${status.reasons.map(([why, n]) => `${why} ${count(n)}`).join(", ")}`);
  }
  if (status.face_lost > 0) parts.push(` · page skipped ${count(status.face_lost)}`);
  account.classList.toggle("lossy", lost > 0);
  account.title =
    `Records due, kept and lost since the start. ${whole(status.thinned ?? 0)} more were merged into a later sample by the density.` +
    (status.face_lost > 0 ? ` ${whole(status.face_lost)} were not shown because a browser did not keep up; recordings are not touched by that.` : "") +
    (status.forgotten > 0 ? ` ${whole(status.forgotten)} old flows were dropped from the table.` : "");
  const text = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
  if (account.textContent !== text) account.replaceChildren(...parts);
  const filter = el<HTMLInputElement>("filter");
  if (document.activeElement !== filter && filter.dataset["told"] !== status.filter) {
    filter.value = status.filter;
    filter.dataset["told"] = status.filter;
  }
  const density = el<HTMLSelectElement>("density");
  const interval = String(status.interval_us);
  if (document.activeElement !== density && density.value !== interval) {
    if (![...density.options].some((option) => option.value === interval)) density.add(new Option(`${status.interval_us / 1000} ms`, interval));
    density.value = interval;
  }
  showReplay();
}

function showReplay(): void {
  const replay = status?.replay ?? null;
  el("replay").hidden = replay === null;
  if (replay === null) return;
  const play = el("replay-play");
  const atEnd = replay.length_us > 0 && replay.position_us >= replay.length_us;
  play.textContent = replay.paused ? "Play" : atEnd ? "Ended" : "Pause";
  const seek = el<HTMLInputElement>("replay-seek");
  if (document.activeElement !== seek || !seek.matches(":active")) seek.value = String(Math.round((replay.position_us / Math.max(replay.length_us, 1)) * 1000));
  el("replay-time").textContent = `${elapsed(replay.position_us, 0)} / ${elapsed(replay.length_us, 0)}`;
  seek.setAttribute("aria-valuetext", `${elapsed(replay.position_us, 0)} of ${elapsed(replay.length_us, 0)}`);
  const choice = el<HTMLSelectElement>("replay-speed");
  if (document.activeElement !== choice) {
    const value = String(replay.speed);
    if (![...choice.options].some((option) => option.value === value)) choice.add(new Option(`${value}×`, value));
    choice.value = value;
  }
}

// --- wishes -----------------------------------------------------------------------------------------------------------

async function tell(path: string, body: unknown, error: HTMLElement): Promise<boolean> {
  error.textContent = "";
  try {
    await wish(path, body);
    return true;
  } catch (problem) {
    error.textContent = problem instanceof Refusal ? problem.message : "The server does not answer; nothing was changed.";
    return false;
  }
}

el<HTMLFormElement>("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const box = el<HTMLInputElement>("filter");
  void tell("/api/filter", { filter: box.value.trim() }, el("filter-error")).then((done) => {
    box.setAttribute("aria-invalid", String(!done));
    if (done) {
      box.dataset["told"] = box.value.trim();
      say("Filter applied");
    }
  });
});
el<HTMLSelectElement>("density").addEventListener("change", (event) => {
  const choice = event.target as HTMLSelectElement;
  void tell("/api/density", { interval_us: Number(choice.value) }, el("filter-error")).then((done) => {
    if (!done) choice.value = String(status?.interval_us ?? choice.value);
    choice.blur();
  });
});
el("replay-play").addEventListener("click", () => void tell("/api/replay", { paused: !(status?.replay?.paused ?? false) }, el("replay-error")));
el<HTMLSelectElement>("replay-speed").addEventListener("change", (event) => {
  const choice = event.target as HTMLSelectElement;
  void tell("/api/replay", { speed: Number(choice.value) }, el("replay-error"));
  choice.blur();
});
el<HTMLInputElement>("replay-seek").addEventListener("change", (event) => {
  const part = Number((event.target as HTMLInputElement).value) / 1000;
  void tell("/api/replay", { position_us: Math.round(part * (status?.replay?.length_us ?? 0)) }, el("replay-error"));
});

const list = new List(el("list"), flows, { focus: setFocus, choose });
const events = new EventList(el("events"), el("events-skipped"), goTo);
el<HTMLInputElement>("events-own").addEventListener("change", () => events.touch());
el<HTMLInputElement>("find").addEventListener("input", (event) => {
  list.find((event.target as HTMLInputElement).value);
  listDirty = true;
});
for (const button of document.querySelectorAll<HTMLButtonElement>("[data-mode]")) {
  button.addEventListener("click", () => setMode(button.dataset["mode"] as PanelKind));
}
for (const button of document.querySelectorAll<HTMLButtonElement>("[data-span]")) {
  button.addEventListener("click", () => setSpan(Number(button.dataset["span"]) * 1e6));
}
el("pause").addEventListener("click", () => setFollow(!follow));
function toggleClock(): void {
  byClock = !byClock;
  el("clock").textContent = byClock ? "Clock" : "Elapsed";
  events.touch();
  dirty = true;
}
el("clock").addEventListener("click", toggleClock);

function png(): void {
  const names = charted().map((id) => flows.all.get(id)).filter((flow) => flow !== undefined);
  const head = mode === "one" && names[0] !== undefined ? `${names[0].who.local} → ${names[0].who.remote} · ${names[0].who.control}` : `${names.length} flows${mode === "over" ? `: ${names.map((flow, n) => `${flowLetter(n)} ${flowName(flow)}`).join(", ")}` : ""}`;
  const account = status === undefined || status.seen === null ? "" : ` · seen ${status.seen} = kept ${status.kept ?? 0} + lost ${status.lost ?? 0}`;
  const foot = `${clock(zero() + view.from, 3)} to ${clock(zero() + view.to, 3)} · ${session?.host ?? ""} ${session?.kernel ?? ""}${session?.source === "sampled" ? " · sampled" : ""}${account} · Yuzuri ${session?.yuzuri ?? ""}`;
  savePng(panels.map((panel, n) => ({ panel, title: mode === "small" && names[n] !== undefined ? flowName(names[n]) : "" })), head, foot, zero() + view.to);
  say("Picture saved");
}
function csv(): void {
  const drawn = charted().flatMap((id) => {
    const flow = flows.all.get(id);
    const known = drawnOf(id);
    return flow === undefined || known === undefined ? [] : [{ ...known, local: flow.who.local, remote: flow.who.remote }];
  });
  const pixel = (view.to - view.from) / Math.max(panels[0]?.edges.width ?? 1000, 1);
  saveCsv(csvOf(drawn, view, pixel, zero()), zero() + view.to);
  say("Data saved");
}
el("png").addEventListener("click", png);
el("csv").addEventListener("click", csv);

// --- keys -------------------------------------------------------------------------------------------------------------

function step(by: number): void {
  if (list.listed.length === 0) return;
  const at = list.listed.indexOf(focus ?? "");
  setFocus(list.listed[at < 0 ? 0 : Math.min(Math.max(at + by, 0), list.listed.length - 1)]);
}

function moveCursor(pixels: number): void {
  const width = panels[0]?.edges.width ?? 1000;
  const wide = view.to - view.from;
  if (follow) setFollow(false);
  const time = Math.min(Math.max((cursor ?? view.to) + (pixels / width) * wide, view.from), view.to);
  setCursor(time, true);
}

const help = el<HTMLDialogElement>("help");
const theme = startTheme(() => {
  list.redraw();
  rebuild();
  legends();
  listDirty = true;
});
el("theme").addEventListener("click", theme);
el("help-open").addEventListener("click", () => help.showModal());

const KEYS: Record<string, (event: KeyboardEvent) => void> = {
  j: () => step(1),
  k: () => step(-1),
  x: () => focus !== undefined && choose(focus, !chosen.has(focus)),
  "1": () => setMode("one"),
  "2": () => setMode("over"),
  "3": () => setMode("small"),
  " ": () => setFollow(!follow),
  l: () => setFollow(true),
  ArrowLeft: (event) => moveCursor(event.shiftKey ? -40 : -2),
  ArrowRight: (event) => moveCursor(event.shiftKey ? 40 : 2),
  Home: () => setCursor(view.from, true),
  End: () => setCursor(view.to, true),
  "[": () => pan(-0.25 * span),
  "]": () => pan(0.25 * span),
  "+": () => zoom(1 / 1.5, cursor ?? (view.from + view.to) / 2),
  "=": () => zoom(1 / 1.5, cursor ?? (view.from + view.to) / 2),
  "-": () => zoom(1.5, cursor ?? (view.from + view.to) / 2),
  "0": () => {
    setSpan(DEFAULT_SPAN_US);
    setFollow(true);
  },
  n: () => nextEvent(false),
  N: () => nextEvent(true),
  "/": () => el("find").focus(),
  f: () => el("filter").focus(),
  s: () => {
    say(`Sorted by ${list.sortNext()}`);
    listDirty = true;
  },
  w: toggleClock,
  t: theme,
  p: png,
  c: csv,
  "?": () => help.showModal(),
  Escape: () => setCursor(undefined, false),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const target = event.target;
  const typing = target instanceof HTMLInputElement && target.type !== "checkbox";
  if (typing || target instanceof HTMLSelectElement) {
    if (event.key === "Escape" && target instanceof HTMLElement) target.blur();
    return;
  }
  // Space presses a button that has the focus, as everywhere.
  if ((event.key === " " || event.key === "Enter") && (target instanceof HTMLButtonElement || target instanceof HTMLInputElement)) return;
  const scrolls = target instanceof HTMLElement && target.id === "events" && ["ArrowLeft", "ArrowRight", "Home", "End", " "].includes(event.key);
  const act = KEYS[event.key];
  if (act === undefined || scrolls) return;
  event.preventDefault();
  act(event);
});

// --- help -------------------------------------------------------------------------------------------------------------

function legends(): void {
  const entry = (draw: (c: CanvasRenderingContext2D) => void, text: string): Node[] => {
    const [dt, dd, canvas] = [document.createElement("dt"), document.createElement("dd"), document.createElement("canvas")];
    const ratio = window.devicePixelRatio || 1;
    canvas.width = 34 * ratio;
    canvas.height = 18 * ratio;
    canvas.style.width = "34px";
    canvas.style.height = "18px";
    const c = canvas.getContext("2d");
    if (c !== null) {
      c.scale(ratio, ratio);
      draw(c);
    }
    dt.append(canvas);
    dd.textContent = text;
    return [dt, dd];
  };
  const stroke = (name: string, dash: number[], width: number) => (c: CanvasRenderingContext2D): void => {
    c.strokeStyle = color(name);
    c.setLineDash(dash);
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(0, 9);
    c.lineTo(34, 9);
    c.stroke();
  };
  el("help-lines").replaceChildren(
    ...entry(stroke("--cwnd", [], 2), "cwnd, segments (left)"),
    ...entry(stroke("--ssthresh", [6, 4], 1.5), "ssthresh, segments (left)"),
    ...entry(stroke("--rate", [], 2), "throughput (right)"),
    ...entry(stroke("--rtt", [], 2), "srtt; band: smallest to largest"),
    ...entry(stroke("--min-rtt", [2, 3], 1.5), "min RTT, as far as this page has watched"),
  );
  const why = ["", "duplicate ACKs or SACKs came", "the window is being reduced (ECN, own queue full)", "fast retransmission", "after a timeout"];
  el("help-states").replaceChildren(
    ...[1, 2, 3, 4].flatMap((state) => entry((c) => drawState(c, state, 0, 2, 34, 14, color(STATE_COLORS[state]), color("--ink")), `${STATES[state]}: ${why[state]}`)),
  );
  el("help-marks").replaceChildren(
    ...Object.values(GLYPHS).flatMap((glyph) => entry((c) => drawGlyph(c, glyph, 12, 9, 5.8, color(glyph.color), color("--ink")), glyph.label)),
  );
}

// --- the loop ---------------------------------------------------------------------------------------------------------

let lastList = 0;
function frame(at: number): void {
  window.requestAnimationFrame(frame);
  if (listDirty && at - lastList > 200) {
    listDirty = false;
    lastList = at;
    const shown = list.update(focus, chosen);
    const all = flows.all.size;
    el("found").textContent = shown === all ? `${all} flow${all === 1 ? "" : "s"}` : `${shown} of ${all}`;
    const own = el<HTMLInputElement>("events-own").checked ? charted().map((id) => stores.get(id)?.events ?? []) : undefined;
    events.update(own, session, (us) => timeText(us, 3), (id) => {
      const flow = flows.all.get(id);
      return flow === undefined ? id : flowName(flow);
    });
  }
  // A view that follows is drawn anew once it has moved by a pixel: less cannot be seen and costs as much.
  const pixel = span / Math.max(panels[0]?.edges.width ?? 1000, 100);
  const moves = follow && link.state === "open" && speed() > 0 && flows.all.size > 0 && now() - BEHIND_US - view.to >= pixel;
  if (!dirty && !moves) return;
  if (mode !== "one" && at - lastDrawn < MANY_PAUSE_MS) return;
  dirty = false;
  lastDrawn = at;
  draw();
}

new ResizeObserver(() => {
  const { main, rtt } = heights();
  for (const panel of panels) panel.setHeights(main, rtt);
  dirty = true;
}).observe(chart);
window.addEventListener("resize", () => {
  const { main, rtt } = heights();
  for (const panel of panels) panel.setHeights(main, rtt);
  dirty = true;
});

if (location.search.includes("token=")) {
  // The cookie has it now; the address bar and the history need not.
  window.history.replaceState(null, "", location.pathname);
}
spans();
legends();
live.open();
void loadSession();
window.requestAnimationFrame(frame);
