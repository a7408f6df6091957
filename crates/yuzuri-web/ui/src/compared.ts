// The table that compares each flow of the overlay before and since sharing began.
import { el, put } from "./dom";
import type { Compared, Means } from "./since";
import { letterMark } from "./theme";

const COLUMNS: readonly [string, (means: Means) => string][] = [
  ["Mbit/s", ({ rateBps }) => (rateBps / 1e6).toFixed(2)],
  ["RTT, ms", ({ srttUs }) => (srttUs > 0 ? (srttUs / 1e3).toFixed(srttUs < 1e5 ? 1 : 0) : "–")],
  ["retrans/s", ({ retransmitsPerS }) => retransmitsPerS.toFixed(1)],
];
/** Time between two updates, ms: means of half a minute change slowly. */
const PAUSE_MS = 1000;

let shape = "";
let updatedAt = -Infinity;

function build(table: HTMLTableElement, { flows }: Compared): void {
  const cells = (row: HTMLTableRowElement, texts: readonly string[], span: number): void => {
    for (const text of texts) {
      const th = document.createElement("th");
      th.textContent = text;
      th.colSpan = span;
      th.scope = span > 1 ? "colgroup" : "col";
      row.append(th);
    }
  };
  table.tHead?.remove();
  const head = table.createTHead();
  const above = head.insertRow();
  cells(above, [""], 1);
  cells(above, COLUMNS.map(([name]) => name), 2);
  cells(head.insertRow(), ["Flow", ...COLUMNS.flatMap(() => ["before", "since"])], 1);
  const body = document.createElement("tbody");
  flows.forEach((_, n) => {
    const row = body.insertRow();
    const name = row.insertCell();
    name.append(letterMark(n), document.createElement("span"));
    for (let column = 0; column < 2 * COLUMNS.length; column += 1) row.insertCell();
  });
  for (const old of [...table.tBodies]) old.remove();
  table.append(body);
}

/** Shows the comparison below a heading, or nothing. */
export function showCompared(compared: Compared | undefined, heading: string): void {
  const root = el("compared");
  root.hidden = compared === undefined;
  if (compared === undefined) return;
  put(root.querySelector("h3"), heading);
  const key = compared.flows.map(({ flow }) => flow.id).join();
  const time = performance.now();
  if (key === shape && time - updatedAt < PAUSE_MS) return;
  updatedAt = time;
  const table = root.querySelector("table") as HTMLTableElement;
  if (key !== shape) build(table, compared);
  shape = key;
  compared.flows.forEach(({ flow, before, since }, n) => {
    const { cells } = table.tBodies[0].rows[n];
    put(cells[0].children[1], flow.name);
    COLUMNS.forEach(([, text], column) => {
      put(cells[1 + 2 * column], before === undefined ? "–" : text(before));
      put(cells[2 + 2 * column], since === undefined ? "–" : text(since));
    });
  });
}
