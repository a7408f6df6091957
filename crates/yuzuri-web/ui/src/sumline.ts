// A line of the list with the totals of several flows.
import { put } from "./dom";
import { count, counted, rate, timeUs } from "./format";
import type { Sum } from "./groups";
import { limitColor, limitMeaning, limitName, limitShort } from "./limits";

export class SumLine {
  readonly tr = document.createElement("tr");
  private readonly name = document.createElement("span");
  private readonly more = document.createElement("span");
  private readonly cells: Record<"rate" | "limit" | "cwnd" | "srtt" | "resent", HTMLTableCellElement>;

  /** For a group, which `toggle` opens and folds, or for all flows if there is no toggle. */
  constructor(toggle?: () => void) {
    this.tr.className = toggle === undefined ? "sum" : "sum group";
    this.tr.setAttribute("role", "row");
    const cell = (kind: string): HTMLTableCellElement => {
      const td = document.createElement("td");
      td.className = kind;
      td.setAttribute("role", "gridcell");
      this.tr.append(td);
      return td;
    };
    const pick = cell("pick");
    this.name.className = "name";
    this.more.className = "more";
    cell("text").append(this.name, this.more);
    cell("spark");
    this.cells = { rate: cell("rate-cell"), limit: cell("limit-cell"), cwnd: cell("cwnd-cell"), srtt: cell("srtt-cell"), resent: cell("resent-cell") };
    cell("");
    if (toggle === undefined) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "fold";
    pick.append(button);
    this.tr.addEventListener("click", toggle);
  }

  show(name: string, sum: Sum, folded: boolean): void {
    put(this.name, name);
    put(this.more, `${counted(sum.flows, "flow")}${sum.open < sum.flows ? `, ${sum.open} open` : ""}`);
    const { rate: rateCell, limit, cwnd, srtt, resent } = this.cells;
    put(rateCell, rate(sum.rate));
    put(limit, limitShort(sum.limit) ?? "–");
    const limitText = limitName(sum.limit);
    limit.style.color = limitText === undefined ? "" : `var(${limitColor(sum.limit)})`;
    limit.title = limitText === undefined ? "" : `${limitText}: ${limitMeaning(sum.limit)}; what limits most of them`;
    put(cwnd, count(sum.cwnd));
    cwnd.title = "Sum of the congestion windows";
    put(srtt, sum.srtt > 0 ? timeUs(sum.srtt) : "–");
    srtt.title = "Median of the smoothed round-trip times";
    put(resent, count(sum.resent));
    const fold = this.tr.querySelector("button");
    put(fold, folded ? "▸" : "▾");
    fold?.setAttribute("aria-expanded", String(!folded));
    fold?.setAttribute("aria-label", `Flows of ${name}`);
  }
}
