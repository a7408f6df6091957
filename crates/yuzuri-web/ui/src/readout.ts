// The line (or table) of values above the chart: at the cursor, or the newest.
import { counted } from "./format";
import { isSingle, type Drawn } from "./drawn";
import { el, put } from "./dom";
import type { Panel } from "./panel";
import { read, readTotals, type Reading } from "./reading";
import { shortOf } from "./limits";
import { showCompared } from "./compared";
import { TOGETHER, sharesWith } from "./bottlenecks";
import { beforeAndSince, type Begins } from "./since";
import { flows, state } from "./state";
import { letterMark } from "./theme";
import { timeText } from "./time";
import { R } from "./wire";

export const readout = el("readout");
/** What the line of SACKed bytes does not show. */
const SACKED = "How much has arrived out of order, not which bytes";
const NO_PLACE = "SACKed: only an amount (records have no sequence numbers; for captures: yuzuri identify --html)";
/** Pause between two updates of numbers that change with time. */
const PAUSE_MS = 100;
let lastReading = 0;
let readAt: number | undefined;

/** Updates the values at the next drawing, without a pause. */
export function readAgain(): void {
  lastReading = 0;
}

/** Shows the values of the drawn flows; `panel` contains all of them. */
export function showReading(drawn: Drawn[], panel: Panel | undefined, begins: Begins | undefined): void {
  if (!due()) return;
  if (state.mode !== "over") showCompared(undefined, "");
  if (isSingle(state.mode)) readingOne(drawn[0], panel);
  else readingMany(drawn, panel, begins);
}

/** Numbers that change with time are updated ten times a second, those at a cursor immediately. */
function due(): boolean {
  const time = performance.now();
  if (state.cursor === readAt && time - lastReading < PAUSE_MS) return false;
  readAt = state.cursor;
  lastReading = time;
  return true;
}

/** The parts of the line of values are created once; only their text changes. */
const slots = new Map<string, HTMLElement>();
let readoutShape = "";

function readingOne(flow: Drawn | undefined, panel: Panel | undefined): void {
  const known = flow === undefined ? undefined : flows.all.get(flow.id);
  if (flow === undefined || known === undefined) return;
  const shape = `${state.mode}:${flow.receives}`;
  if (readoutShape !== shape) {
    readoutShape = shape;
    slots.clear();
    const title = document.createElement("div");
    title.className = "title";
    const name = document.createElement("b");
    const more = document.createElement("span");
    title.append(name, more);
    slots.set("name", name).set("more", more);
    const items: Node[] = [title];
    const item = (key: string, label: string, swatch: string, kind: string, meaning = ""): void => {
      const box = document.createElement("span");
      box.className = "item";
      box.title = meaning;
      if (swatch !== "") {
        const line = document.createElement("span");
        line.className = `swatch ${kind}`;
        line.style.color = `var(${swatch})`;
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
    if (state.mode === "seq") {
      item("acked", flow.receives ? "received" : "acknowledged", "--cwnd", "");
      if (!flow.receives) {
        item("outstanding", "outstanding", "--rate", "area");
        item("sacked", "of these SACKed", "--cwnd", "dotted", SACKED);
        item("unsent", "unsent", "--ssthresh", "dotted");
      }
      item("window", flow.receives ? "our window" : "peer's window", "--bound", "dashdot");
      item("rate", "throughput", "", "");
    } else {
      item("cwnd", "cwnd", "--cwnd", "");
      item("ssthresh", "ssthresh", "--ssthresh", "dashed");
      item("bounds", "bounds", "--bound", "dashdot");
      item("rate", "throughput", "--rate", "area");
    }
    item("srtt", "srtt", "--rtt", "");
    item("minRtt", "min RTT", "--min-rtt", "dotted");
    item("inFlight", "in flight", "", "");
    item("state", "state", "", "");
    item("limit", "limited by", "", "");
    item("bottleneck", "bottleneck with", "", "", TOGETHER);
    slots.get("bottleneck")?.parentElement?.classList.add("long");
    if (state.mode === "seq" && !flow.receives) {
      const note = document.createElement("span");
      note.className = "muted note";
      note.textContent = NO_PLACE;
      items.push(note);
    }
    readout.replaceChildren(...items);
  }
  const write = (key: string, text: string): void => put(slots.get(key), text);
  write("name", `${known.who.local} → ${known.who.remote}`);
  write("more", known.owner);
  const at = state.cursor ?? Math.min(state.view.to, flow.end);
  const values = read(flow, panel, 0, at, known.row);
  write("time", state.cursor === undefined && state.follow && state.link.state === "open" ? "now" : timeText(at, 3));
  for (const key of ["cwnd", "ssthresh", "bounds", "acked", "outstanding", "sacked", "unsent", "window", "rate", "srtt", "minRtt", "inFlight", "state", "limit"] as const) write(key, values?.[key] ?? "–");
  // A flow without bounds has none to show.
  const bounds = slots.get("bounds")?.parentElement;
  if (bounds) bounds.hidden = flow.bounds === undefined && (known.row[R.BOUND_SINCE] ?? null) === null;
  const others = sharesWith(known);
  const bottleneck = slots.get("bottleneck")?.parentElement;
  if (bottleneck) bottleneck.hidden = others === "";
  write("bottleneck", others);
}

function readingMany(drawn: Drawn[], panel: Panel | undefined, begins: Begins | undefined): void {
  const key = `${state.mode}:${drawn.map((flow) => flow.id).join()}`;
  const columns = ["cwnd", "ssthresh", "rate", "srtt", "inFlight", "state", "limit"] as const;
  if (state.mode === "small") {
    if (readoutShape !== key) {
      readoutShape = key;
      const note = document.createElement("span");
      note.className = "muted";
      readout.replaceChildren(note);
      slots.clear();
      slots.set("note", note);
    }
    put(slots.get("note"), `${counted(drawn.length, "flow")} side by side · cwnd left, throughput right${state.cursor === undefined ? "" : ` · at ${timeText(state.cursor, 3)}`}`);
    return;
  }
  if (readoutShape !== key) {
    readoutShape = key;
    slots.clear();
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const [name, column] of [["Flow", ""], ["cwnd", "cwnd"], ["ssthresh", "ssthresh"], ["throughput", "rate"], ["srtt", "srtt"], ["in flight", "inFlight"], ["state", "state"], ["limit", "limit"]] as const) {
      const th = document.createElement("th");
      th.textContent = name;
      th.className = column;
      head.append(th);
    }
    const body = table.createTBody();
    drawn.forEach((flow, n) => {
      const row = body.insertRow();
      const name = row.insertCell();
      const called = document.createElement("span");
      called.textContent = flow.name;
      slots.set(`${n}name`, called);
      name.append(letterMark(n), called);
      for (const column of columns) {
        const cell = row.insertCell();
        cell.className = column;
        slots.set(`${n}${column}`, cell);
      }
    });
    const tiles = document.createElement("dl");
    tiles.className = "tiles";
    for (const [slot, label, title] of [
      ["rate", "Total throughput", "Of the flows in the chart"],
      ["jain", "Fairness", "Jain's index of their throughputs: 1 where all are the same"],
      ["srtt", "Median RTT", "Of their smoothed round-trip times"],
    ] as const) {
      const tile = document.createElement("div");
      const [name, value] = [document.createElement("dt"), document.createElement("dd")];
      name.textContent = label;
      tile.title = title;
      const past = document.createElement("dd");
      past.className = "past";
      tile.append(name, value, past);
      tiles.append(tile);
      slots.set(`total ${slot}`, value).set(`past ${slot}`, past);
    }
    const rows = document.createElement("div");
    rows.className = "rows";
    rows.append(table);
    readout.replaceChildren(tiles, rows);
  }
  const totals = readTotals(drawn, panel, state.cursor ?? state.view.to);
  const compared = beforeAndSince(drawn, begins?.at, state.view.to);
  showCompared(compared, begins?.parts ?? "");
  for (const slot of ["rate", "jain", "srtt"] as const) {
    put(slots.get(`total ${slot}`), totals[slot]);
    const plain = compared === undefined && slot === "rate" ? state.plainWhy : "";
    const past = slots.get(`past ${slot}`);
    if (past !== undefined) {
      past.hidden = compared === undefined && plain === "";
      past.title = compared === undefined ? "" : `${begins?.parts}: means of up to half a minute each, of what the receivers have acknowledged, also selectively`;
    }
    put(past, compared === undefined ? `plain: ${plain}` : `${compared.before[slot]} before, ${compared.since[slot]} since`);
  }
  drawn.forEach((flow, n) => {
    const values: Reading | undefined = read(flow, panel, n, state.cursor ?? Math.min(state.view.to, flow.end), flows.all.get(flow.id)?.row);
    put(slots.get(`${n}name`), flow.name);
    for (const column of columns) {
      // Without the spread, which would make the columns jump.
      const text = (values?.[column] ?? "–").replace(/ \(.*\)/, "");
      put(slots.get(`${n}${column}`), column === "limit" ? shortOf(text) : text);
    }
  });
}
