// The help, and the switch between dark and light, which redraws the page.
import { rebuild } from "./chart";
import { el } from "./dom";
import { LOWER_DASH, UPPER_DASH } from "./plots";
import { limitColor, limitMeaning } from "./limits";
import { GLYPHS, STATE_COLORS, drawGlyph, drawState } from "./marks";
import { color, startTheme } from "./theme";
import { LIMITS, STATES } from "./wire";

const help = el<HTMLDialogElement>("help");
export const openHelp = (): void => help.showModal();
export const toggleTheme = startTheme(() => {
  rebuild();
  legends();
});

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
    ...entry(stroke("--bound", UPPER_DASH, 1.5), "upper bound of the window by sharing (without the daemon's answer, as in a replay: where the window rests at it); in Sequence: how far the receiver's window reaches"),
    ...entry(stroke("--bound", LOWER_DASH, 1.5), "lower bound of the window by sharing, from the daemon's answers only: records do not contain it, so a replay shows none"),
    ...entry((c) => {
      c.fillStyle = color("--rate-area");
      c.fillRect(0, 9, 34, 9);
      stroke("--rate", [], 2)(c);
    }, "throughput (right), with the area below it shaded"),
    ...entry(stroke("--rtt", [], 2), "srtt; band: smallest to largest"),
    ...entry(stroke("--min-rtt", [2, 3], 1.5), "min RTT since this page began to watch"),
  );
  const why = ["", "duplicate ACKs or SACKs arrived", "the window is being reduced (ECN, own queue full)", "fast retransmission", "after a timeout"];
  el("help-states").replaceChildren(
    ...[1, 2, 3, 4].flatMap((state) => entry((c) => drawState(c, state, 0, 2, 34, 14, color(STATE_COLORS[state]), color("--ink")), `${STATES[state]}: ${why[state]}`)),
  );
  el("help-limits").replaceChildren(
    ...LIMITS.flatMap(([name, short], limit) =>
      entry((c) => {
        c.fillStyle = color(limitColor(limit));
        c.fillRect(0, 2, 34, 14);
        c.fillStyle = color("--ink");
        c.font = "600 9px system-ui, sans-serif";
        c.textAlign = "center";
        c.textBaseline = "middle";
        c.fillText(short, 17, 9.5);
      }, `${name}: ${limitMeaning(limit)}`),
    ),
  );
  el("help-marks").replaceChildren(
    ...Object.values(GLYPHS).flatMap((glyph) => entry((c) => drawGlyph(c, glyph, 12, 9, 5.8, color(glyph.color), color("--ink")), glyph.label)),
  );
}

el("theme").addEventListener("click", toggleTheme);
el("help-open").addEventListener("click", openHelp);
legends();
