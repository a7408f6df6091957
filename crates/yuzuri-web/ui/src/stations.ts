// The sharing view of an access point: its stations, their shares, and their throughput before and
// now.
import { el, put } from "./dom";
import { rate } from "./format";
import { facts, type Lines, span, table } from "./sharetables";
import type { AccessPointStatus, Station } from "./sharewire";
import * as words from "./sharewords";

class Stations {
  readonly root = document.createElement("section");
  private readonly write: (key: string, text: string) => void;
  private readonly lines: Lines<Station>;

  constructor() {
    this.root.setAttribute("aria-label", "Stations of this access point");
    const head = document.createElement("h3");
    head.textContent = "Stations";
    this.root.append(head);
    this.write = facts(this.root, [["phase", "Phase"], ["capacity", "Capacity"], ["share", "Share of one"], ["queue", "Queue"], ["stations", "Stations"], ["groups", "Groups"], ["plain", "Without bounds"], ["shared", "With bounds"]]);
    this.lines = table(this.root, "Stations", [["Station", "text"], ["Mbit/s", "age"], ["Share", "age"], ["RTT ms", "age"], ["Bounded", "yes"], ["By", "rule"]], "No station has uploaded anything yet.", (row) => {
      row.cells[0].append(span(""), span("more"));
      row.cells[5].append(span(""), span("sr"));
    });
  }

  show(status: AccessPointStatus): void {
    const { write } = this;
    const phase = words.phase(status.summary);
    write("phase", `${phase.short}. ${phase.long}`);
    write("capacity", words.capacity(status.summary));
    write("share", words.share(status.summary));
    write("queue", words.queue(status.summary));
    write("stations", words.stations(status));
    write("groups", words.groups(status));
    write("plain", words.figures(status.plain));
    write("shared", words.figures(status.shared));
    const busiest = [...status.stations].sort((a, b) => b.rate_bps + b.other_bps - a.rate_bps - a.other_bps);
    this.lines.update(busiest, (each) => each.station, (row, each) => {
      put(row.cells[0].children[0], each.addresses[0] ?? each.station);
      put(row.cells[0].children[1], each.addresses.length > 0 ? each.station : "");
      row.cells[0].title = [each.station, ...each.addresses].join(", ");
      put(row.cells[1], words.mbps(each.rate_bps + each.other_bps));
      row.cells[1].title = each.other_bps > 0 ? `${rate(each.other_bps)} of it has no window that could be lowered (QUIC, other UDP, tunnels)` : "";
      put(row.cells[2], each.share_bps === undefined ? "–" : words.mbps(each.share_bps));
      put(row.cells[3], each.srtt_us > 0 ? (each.srtt_us / 1e3).toFixed(1) : "–");
      put(row.cells[4], `${each.bounded}/${each.uploads}`);
      const { short, long } = words.boundBy(each);
      put(row.cells[5].children[0], short);
      put(row.cells[5].children[1], `: ${long}`);
      row.cells[5].title = long;
    });
  }
}

let shown: Stations | undefined;

export function removeStations(): void {
  shown?.root.remove();
  shown = undefined;
}

export function showStations(status: AccessPointStatus): void {
  put(el("share-policy"), `${status.policy.name}, at this access point${status.dry_run ? ": dry run: nothing is bounded" : ""}`);
  put(el("share-objective"), status.policy.objective);
  if (shown === undefined) {
    shown = new Stations();
    el("share-interfaces").append(shown.root);
  }
  shown.show(status);
  put(el("share-remarks"), status.problems.join(" "));
}
