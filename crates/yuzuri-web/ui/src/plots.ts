// The plots of a chart: their axes, scales and lines.
import uPlot from "uplot";
import { count } from "./format";
import { color, flowColor, flowLetter } from "./theme";

export const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const INCREMENTS = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/** Dashes of the bounds: they differ from each other and from ssthresh even without colour. */
export const LOWER_DASH = [2, 3];
export const UPPER_DASH = [9, 3, 2, 3];

/** How times are written, and the offset that places ticks on round times. */
export interface TimeAxis {
  offsetUs: number;
  label(us: number, digits: number): string;
}

type Values = readonly (number | null)[];
export type Quantity = "cwnd" | "rate" | "rtt";

/** What axes read from their panel while drawing. */
export interface Axes {
  readonly width: number;
  /** Width reserved for labels left and right of the lines, CSS pixels. */
  readonly gutter: number;
  readonly rightGutter: number;
  readonly axis: TimeAxis;
}

/** What plots read from their panel while drawing. */
export interface Ground extends Axes {
  /** The range of sequence numbers, bytes. */
  readonly bytes: { from: number; to: number };
  /** Upper end of each scale, in the data's unit (segments, bit/s, microseconds). */
  readonly scales: Readonly<Record<Quantity, { max: number }>>;
}

/** The unit for a rate and its size in bit/s, so that an axis has one unit. */
export function unitOf(bps: number): { by: number; name: string } {
  if (bps >= 1e9) return { by: 1e9, name: "Gbit/s" };
  if (bps >= 1e6) return { by: 1e6, name: "Mbit/s" };
  return { by: 1e3, name: "kbit/s" };
}

export function trim(value: number): string {
  return String(Number(value.toPrecision(4)));
}

function xAxis(ground: Axes, show: boolean): uPlot.Axis {
  return {
    show: true,
    stroke: () => color("--muted"),
    font: FONT,
    size: show ? 26 : 0,
    gap: 4,
    space: ground.width < 520 ? 68 : 90,
    incrs: INCREMENTS,
    grid: { stroke: () => color("--grid"), width: 1 },
    ticks: { show, stroke: () => color("--grid"), size: 4 },
    values: (_, splits, __, ___, increment) => {
      const digits = Math.max(0, Math.ceil(-Math.log10(increment) - 1e-9));
      return show ? splits.map((s) => ground.axis.label(Math.round(s * 1e6 - ground.axis.offsetUs), digits)) : splits.map(() => "");
    },
  };
}

export function yAxis(ground: Axes, scale: string, hue: string, side: 1 | 3, write: (v: number) => string, withGrid: boolean): uPlot.Axis {
  return {
    scale,
    side,
    stroke: () => color(`${hue}-text`),
    font: FONT,
    size: ground.gutter,
    gap: 5,
    space: 34,
    grid: withGrid ? { stroke: () => color("--grid"), width: 1 } : { show: false },
    ticks: { show: false },
    values: (_, splits) => splits.map((v) => (v === null ? "" : write(v))),
  };
}

export function options(ground: Axes, width: number, height: number, withX: boolean, extra: Partial<uPlot.Options>): uPlot.Options {
  const right = ground.rightGutter;
  return {
    width,
    height,
    padding: [24, extra.axes !== undefined && extra.axes.length > 1 ? 0 : right, withX ? 0 : 4, 0],
    cursor: { show: false },
    legend: { show: false },
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    series: [],
    ...extra,
    axes: [xAxis(ground, withX), ...(extra.axes ?? [])],
    scales: { x: { time: false, auto: false }, ...extra.scales },
  };
}

function range(scale: { max: number }): uPlot.Scale.Range {
  return () => [0, scale.max];
}

/** A series without a line, which ties a scale to an axis; `Lines` draws the lines. */
const onlyScale = (scale: string): uPlot.Series => ({ scale, paths: () => null, points: { show: false } });

/** The axes of a flow's windows (left) and throughput (right). */
export function mainPlot(ground: Ground, width: number, height: number, withX: boolean, tint: (u: uPlot) => void): uPlot {
  const rates = (v: number): string => trim(v / unitOf(ground.scales.rate.max).by);
  const made = options(ground, width, height, withX, {
    scales: { cwnd: { range: range(ground.scales.cwnd) }, rate: { range: range(ground.scales.rate) } },
    axes: [yAxis(ground, "cwnd", "--cwnd", 3, (v) => count(v), true), yAxis(ground, "rate", "--rate", 1, rates, false)],
    series: [{}, onlyScale("rate"), onlyScale("cwnd")],
    hooks: { drawClear: [(u) => tint(u)] },
  });
  return new uPlot(made, [[0, 1], [null, null], [null, null]]);
}

/** Bytes with enough digits to distinguish ticks. */
export function byteTicks(splits: readonly number[]): string[] {
  const step = Math.abs((splits[1] ?? 1) - (splits[0] ?? 0));
  const last = Math.abs(splits[splits.length - 1] ?? 0);
  const [by, name] = last >= 1e9 ? [1e9, "GB"] : last >= 1e6 ? [1e6, "MB"] : last >= 1e3 ? [1e3, "kB"] : [1, "B"];
  // A step of 2.5 needs one digit more than its size suggests.
  let digits = Math.max(0, Math.ceil(-Math.log10(step / by) - 1e-9));
  if (Math.abs(Number((step / by).toFixed(digits)) * by - step) > step / 100) digits += 1;
  return splits.map((value) => `${(value / by).toFixed(Math.min(digits, 6))} ${name}`);
}

export function sequencePlot(ground: Ground, width: number, height: number, tint: (u: uPlot) => void): uPlot {
  const axis = yAxis(ground, "bytes", "--cwnd", 3, () => "", true);
  const made = options(ground, width, height, false, {
    scales: { bytes: { range: () => [ground.bytes.from, ground.bytes.to] } },
    axes: [
      { ...axis, values: (_, splits) => byteTicks(splits) },
      { ...yAxis(ground, "bytes", "--cwnd", 1, () => "", false), show: true },
    ],
    series: [
      {},
      { scale: "bytes", stroke: () => color("--bound"), width: 1.25, dash: UPPER_DASH, points: { show: false }, spanGaps: false },
      { scale: "bytes", stroke: () => color("--ssthresh"), width: 1.25, dash: [2, 3], points: { show: false }, spanGaps: false },
      { scale: "bytes", stroke: () => color("--rate"), width: 1.4, points: { show: false }, spanGaps: false },
      { scale: "bytes", stroke: () => color("--cwnd"), width: 2, points: { show: false }, spanGaps: false },
      { scale: "bytes", stroke: () => color("--cwnd"), width: 1.5, dash: [2, 3], points: { show: false }, spanGaps: false },
    ],
    // Data in flight.
    bands: [{ series: [3, 4], fill: () => color("--rate-area") }],
    hooks: { drawClear: [(u) => tint(u)] },
  });
  return new uPlot(made, [[0, 1], ...Array.from({ length: 5 }, () => [null, null])] as uPlot.AlignedData);
}

/** The axes of a flow's round-trip times. */
export function rttPlot(ground: Ground, width: number, height: number): uPlot {
  const made = options(ground, width, height, true, {
    scales: { rtt: { range: range(ground.scales.rtt) } },
    axes: [yAxis(ground, "rtt", "--rtt", 3, (v) => trim(v / 1000), true), { ...yAxis(ground, "rtt", "--rtt", 1, () => "", false), show: true }],
    series: [{}, onlyScale("rtt")],
  });
  return new uPlot(made, [[0, 1], [null, null]]);
}

/** The axes of several flows' lines, which are `lines`, two points per pixel. */
export function overPlot(ground: Ground, width: number, height: number, lines: () => readonly Values[], scale: Quantity, withX: boolean): uPlot {
  const values = (v: number): string =>
    scale === "cwnd" ? count(v) : scale === "rtt" ? trim(v / 1000) : trim(v / unitOf(ground.scales.rate.max).by);
  const made = options(ground, width, height, withX, {
    scales: { [scale]: { range: range(ground.scales[scale]) } },
    axes: [yAxis(ground, scale, `--${scale}`, 3, values, true)],
    series: [{}, onlyScale(scale)],
    hooks: { draw: [(u) => letters(u, lines(), ground.scales[scale].max)] },
  });
  return new uPlot(made, [[0, 1], [null, null]]);
}

/** The flows' letters at the right end of their lines. */
function letters(u: uPlot, lines: readonly Values[], max: number): void {
  const ratio = window.devicePixelRatio || 1;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = `700 ${10 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const ends: { letter: string; ink: string; x: number; y: number }[] = [];
  lines.forEach((list, n) => {
    // The last pixel is beyond the edge.
    let i = list.length - 3;
    while (i > 0 && (list[i] === null || list[i] === undefined)) i -= 1;
    const value = list[i];
    if (value === null || value === undefined) return;
    const x = bbox.left + Math.min(((i + 1) / 2) * ratio + 2 * ratio, bbox.width + 2 * ratio);
    ends.push({ letter: flowLetter(n), ink: flowColor(n), x, y: bbox.top + bbox.height * (1 - value / max) });
  });
  // If lines end at the same height, their letters are stacked as long as there is room.
  const apart = Math.min(11 * ratio, bbox.height / Math.max(ends.length, 1));
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, n) => (end.y = Math.max(end.y, (ends[n - 1]?.y ?? -Infinity) + apart)));
  for (let n = ends.length - 1, lowest = bbox.top + bbox.height; n >= 0; n -= 1, lowest -= apart) ends[n].y = Math.min(ends[n].y, lowest);
  for (const { letter, ink, x, y } of ends) {
    ctx.fillStyle = ink;
    ctx.fillText(letter, x, y);
  }
  ctx.restore();
}
