// The plots of a report's pictures.
import uPlot from "uplot";
import type { View } from "./drawn";
import { count } from "./format";
import { ACKNOWLEDGED, RETRANSMITTED, SELECTIVE, marksOf, type Data, type Scales } from "./reportdata";
import { byteTicks, options, trim, yAxis, type Axes } from "./plots";
import { color } from "./theme";

/** What plots read from their picture while drawing. */
export interface Lines extends Axes {
  readonly data: Data;
  readonly view: View;
  readonly scales: Scales;
}

type Name = keyof Scales;

function plot(lines: Lines, width: number, height: number, name: Name, write: (v: number) => string, series: uPlot.Series[], extra: Partial<uPlot.Options> = {}, withX = true): uPlot {
  const axis = yAxis(lines, name, "--soft", 3, write, true);
  const made = options(lines, width, height, withX, {
    scales: { [name]: { range: () => lines.scales[name] ?? [0, 1] } },
    axes: [name === "bytes" ? { ...axis, values: (_, splits) => byteTicks(splits) } : axis],
    series: [{}, ...series],
    ...extra,
  });
  return new uPlot(made, [[0, 1], ...series.map(() => [null, null])] as uPlot.AlignedData);
}

const line = (scale: Name, hue: string, width = 1.2): uPlot.Series => ({ scale, stroke: () => color(hue), width, points: { show: false }, spanGaps: false });
const dots = (scale: Name, hue: string): uPlot.Series => ({ scale, stroke: () => color(hue), fill: () => color(hue), paths: () => null, points: { show: true, size: 4, width: 0, fill: () => color(hue) } });

/** Draws within the lines' part of a canvas. */
function inside(u: uPlot, paint: (c: CanvasRenderingContext2D) => void): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  paint(ctx);
  ctx.restore();
}

export function windowPlot(lines: Lines, width: number, height: number): uPlot {
  const x = (u: uPlot, us: number): number => u.valToPos(us / 1e6, "x", true);
  const bands = (u: uPlot): void =>
    inside(u, (c) => {
      for (const [from, to, repair] of lines.data.bands) {
        if (to < lines.view.from || from > lines.view.to) continue;
        c.fillStyle = color(repair ? "--repair" : "--limited");
        c.fillRect(x(u, from), u.bbox.top, Math.max(x(u, to) - x(u, from), 1), u.bbox.height);
      }
    });
  const losses = (u: uPlot): void =>
    inside(u, (c) => {
      c.fillStyle = color("--loss");
      for (const [at, before, timeout] of lines.data.losses) {
        const size = (timeout ? 7 : 4) * (window.devicePixelRatio || 1);
        const [left, top] = [x(u, at), u.valToPos(Math.min(before, lines.scales.window?.[1] ?? before), "window", true)];
        c.beginPath();
        c.moveTo(left, top - size);
        c.lineTo(left - size, top + size / 2);
        c.lineTo(left + size, top + size / 2);
        c.fill();
      }
    });
  return plot(lines, width, height, "window", (v) => count(v), [dots("window", "--seen"), line("window", "--algorithm")], { hooks: { drawClear: [bands], draw: [losses] } }, false);
}

export const differencePlot = (lines: Lines, width: number, height: number): uPlot =>
  plot(lines, width, height, "difference", trim, [dots("difference", "--algorithm")]);

export const ratePlot = (lines: Lines, width: number, height: number): uPlot =>
  plot(lines, width, height, "rate", (v) => trim(v / 1e6), [line("rate", "--seen", 1.5)], {}, false);

export const rttPlot = (lines: Lines, width: number, height: number): uPlot =>
  plot(lines, width, height, "rtt", (v) => trim(v / 1000), [line("rtt", "--algorithm"), line("rtt", "--seen", 1.5), line("rtt", "--other")]);

/** As tcptrace draws it: a stroke for each segment, steps of acknowledgements and of the window's end. */
export function sequencePlot(lines: Lines, width: number, height: number): uPlot {
  const paint = (u: uPlot): void =>
    inside(u, (c) => {
      const marks = marksOf(lines.data);
      const [first, end] = marks.shown(lines.view);
      const ratio = window.devicePixelRatio || 1;
      const x = (n: number): number => u.valToPos(marks.time[n] / 1e6, "x", true);
      const y = (bytes: number): number => u.valToPos(bytes, "bytes", true);
      const top = lines.scales.bytes?.[1] ?? Infinity;
      // Lines hold their value until the next acknowledgement; the first value comes from before
      // the view.
      let before = first - 1;
      while (before >= 0 && marks.kind[before] !== ACKNOWLEDGED) before -= 1;
      for (const [values, hue] of [[marks.to, "--other"], [marks.from, "--soft"]] as const) {
        c.strokeStyle = color(hue);
        c.lineWidth = ratio;
        c.beginPath();
        let last: number | undefined;
        for (let n = Math.max(before, 0); n < end; n += 1) {
          if (marks.kind[n] !== ACKNOWLEDGED) continue;
          // The window's end is unknown, or above the picture.
          if (Number.isNaN(values[n]) || values[n] > top) {
            last = undefined;
            continue;
          }
          if (last === undefined) c.moveTo(x(n), y(values[n]));
          else c.lineTo(x(n), y(last));
          c.lineTo(x(n), y(values[n]));
          last = values[n];
        }
        if (last !== undefined) c.lineTo(u.bbox.left + u.bbox.width, y(last));
        c.stroke();
      }
      const strokes: Record<number, [string, number]> = { 0: ["--seen", 1], [SELECTIVE]: ["--algorithm", 1], [RETRANSMITTED]: ["--loss", 2] };
      for (const [kind, [hue, wide]] of Object.entries(strokes)) {
        c.strokeStyle = color(hue);
        c.lineWidth = wide * ratio;
        c.beginPath();
        for (let n = first; n < end; n += 1) {
          if (marks.kind[n] !== Number(kind)) continue;
          const low = y(marks.from[n]);
          c.moveTo(x(n), low);
          // At least one pixel.
          c.lineTo(x(n), Math.min(y(marks.to[n]), low - ratio));
        }
        c.stroke();
      }
    });
  return plot(lines, width, height, "bytes", trim, [line("bytes", "--seen")], { hooks: { draw: [paint] } });
}
