// Tables and facts of the view of sharing, changed in place.
import { put } from "./dom";

/** Lines of a table, kept by key and changed in place. */
export class Lines<T> {
  private readonly kept = new Map<string, HTMLTableRowElement>();
  private readonly none: HTMLTableRowElement;

  constructor(private readonly body: HTMLTableSectionElement, private readonly columns: number, none: string, private readonly make: (row: HTMLTableRowElement) => void) {
    this.none = document.createElement("tr");
    const cell = this.none.insertCell();
    cell.colSpan = columns;
    cell.className = "muted";
    cell.textContent = none;
  }

  update(items: readonly T[], key: (item: T) => string, fill: (row: HTMLTableRowElement, item: T) => void): void {
    const wanted = new Map(items.map((item) => [key(item), item]));
    for (const [id, row] of this.kept) {
      if (wanted.has(id)) continue;
      row.remove();
      this.kept.delete(id);
    }
    if (wanted.size === 0) this.body.append(this.none);
    else this.none.remove();
    let place: Element | null = this.body.firstElementChild;
    for (const [id, item] of wanted) {
      let row = this.kept.get(id);
      if (row === undefined) {
        row = document.createElement("tr");
        for (let n = 0; n < this.columns; n += 1) row.insertCell();
        this.make(row);
        this.kept.set(id, row);
      }
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
      fill(row, item);
    }
  }
}

export function table<T>(root: HTMLElement, name: string, heads: readonly [string, string][], none: string, make: (row: HTMLTableRowElement) => void): Lines<T> {
  const made = document.createElement("table");
  made.setAttribute("aria-label", name);
  const columns = document.createElement("colgroup");
  const head = made.createTHead().insertRow();
  for (const [label, kind] of heads) {
    const col = document.createElement("col");
    col.className = kind;
    columns.append(col);
    const th = document.createElement("th");
    th.scope = "col";
    th.className = kind;
    th.textContent = label;
    head.append(th);
  }
  made.prepend(columns);
  root.append(made);
  return new Lines<T>(made.createTBody(), heads.length, none, (row) => {
    heads.forEach(([, kind], n) => (row.cells[n].className = kind));
    make(row);
  });
}

export const span = (kind: string): HTMLSpanElement => {
  const made = document.createElement("span");
  made.className = kind;
  return made;
};

/** A list of named facts; returns the function that writes one by its key. */
export function facts(root: HTMLElement, named: readonly [string, string][]): (key: string, text: string) => void {
  const list = document.createElement("dl");
  list.className = "facts";
  const values = new Map<string, HTMLElement>();
  for (const [key, label] of named) {
    const [box, dt, dd] = [document.createElement("div"), document.createElement("dt"), document.createElement("dd")];
    dt.textContent = label;
    dd.dataset["share"] = key;
    box.className = key;
    box.append(dt, dd);
    list.append(box);
    values.set(key, dd);
  }
  root.append(list);
  return (key, text) => {
    const value = values.get(key);
    put(value, text);
    if (value !== undefined && value.title !== text) value.title = text;
  };
}
