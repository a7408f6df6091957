// Saves the view: as a picture, or as data.
import { limitName } from "./limits";
import { B, Mark, STATES } from "./wire";
import type { Drawn, View } from "./drawn";
import type { Panel } from "./panel";
import { color } from "./theme";
import { smoothing } from "./thin";

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const stamp = (unixUs: number): string => new Date(unixUs / 1000).toISOString().replace(/[:.]/g, "-").slice(0, 19);

/** A picture of the panels with a header and a footer. */
export function savePng(panels: { panel: Panel; title: string }[], head: string, foot: string, unixUs: number): void {
  const box = panels[0]?.panel.root.parentElement?.getBoundingClientRect();
  if (box === undefined) return;
  const ratio = Math.max(window.devicePixelRatio || 1, 2);
  const canvas = document.createElement("canvas");
  const [top, bottom] = [34, 24];
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round((box.height + top + bottom) * ratio);
  const c = canvas.getContext("2d");
  if (c === null) return;
  c.scale(ratio, ratio);
  c.fillStyle = color("--panel");
  c.fillRect(0, 0, box.width, box.height + top + bottom);
  c.fillStyle = color("--text");
  c.font = "600 14px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.fillText(head, 12, top / 2);
  for (const { panel, title } of panels) {
    const own = panel.lanes.getBoundingClientRect();
    if (title !== "") {
      c.fillStyle = color("--text");
      c.font = "600 12px system-ui, sans-serif";
      c.textAlign = "left";
      c.textBaseline = "bottom";
      c.fillText(title, own.left - box.left + 10, own.top - box.top + top - 2);
    }
    panel.picture(c, own.left - box.left, own.top - box.top + top);
  }
  c.fillStyle = color("--muted");
  c.font = "11px system-ui, sans-serif";
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillText(foot, 12, box.height + top + bottom / 2);
  canvas.toBlob((blob) => {
    if (blob !== null) save(blob, `yuzuri-${stamp(unixUs)}.png`);
  });
}

const HEAD =
  "time_unix_us,since_start_us,flow,local,remote,cwnd_min,cwnd_max,cwnd,ssthresh,throughput_bps,srtt_min_us,srtt_max_us,srtt_us,min_rtt_us,in_flight_max,bytes_acked,bytes_received,state,gravest_state,marks,retransmits,samples,limited_by";

/** A field of CSV; text that a spreadsheet would treat as a formula is escaped. */
function field(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** The buckets of a view, one line each, in the resolution in which they are known. */
export function csvOf(flows: (Drawn & { local: string; remote: string })[], view: View, pixelUs: number, zeroUnixUs: number): string {
  const lines = [HEAD];
  for (const flow of flows) {
    const counter = flow.receives ? B.RECEIVED : B.ACKED;
    const times: number[] = [];
    const bytes: number[] = [];
    let early = 0;
    for (const { ring, from, to } of flow.store.pieces(view.from - 2 * smoothing(pixelUs, flow.store.srttAt(view.from)), view.to, pixelUs)) {
      for (let n = from; n < to; n += 1) {
        const at = ring.at(n);
        const d = (place: number): number => ring.data[at + place];
        const time = d(B.LAST);
        times.push(time);
        bytes.push(d(counter));
        if (time < view.from || time > view.to) continue;
        const over = Math.max(smoothing(pixelUs, d(B.SRTT)), ring.width > pixelUs ? 2 * ring.width : 0);
        while (early > 0 && times[early] > time - over) early -= 1;
        while (early + 1 < times.length && times[early + 1] <= time - over) early += 1;
        const span = time - times[early];
        const throughput = span > 0 ? String(Math.round(((d(counter) - bytes[early]) * 8e6) / span)) : "";
        const gravest = d(B.STATES) === 0 ? 0 : 31 - Math.clz32(d(B.STATES));
        const marks = Object.entries(Mark).filter(([, bit]) => (d(B.MARKS) & bit) !== 0).map(([word]) => word.toLowerCase().replace("_", "-"));
        const blank = (value: number): string => (value > 0 ? String(value) : "");
        lines.push(
          [
            Math.round(zeroUnixUs + time), time, flow.id, field(flow.local), field(flow.remote), d(B.CWND_MIN), d(B.CWND_MAX), d(B.CWND), blank(d(B.SSTHRESH)), throughput,
            blank(d(B.SRTT_MIN)), blank(d(B.SRTT_MAX)), blank(d(B.SRTT)), blank(d(B.MIN_RTT)), d(B.IN_FLIGHT), d(B.ACKED), d(B.RECEIVED),
            STATES[d(B.STATE) as 0].toLowerCase(), STATES[gravest as 0].toLowerCase(), marks.join(" "), d(B.RETRANSMITS), d(B.EVENTS), d(B.LIMIT_LEAD) > 0 ? limitName(d(B.LIMIT)) ?? "" : "",
          ].join(","),
        );
      }
    }
  }
  return `${lines.join("\n")}\n`;
}

export function saveCsv(text: string, unixUs: number): void {
  save(new Blob([text], { type: "text/csv" }), `yuzuri-${stamp(unixUs)}.csv`);
}
