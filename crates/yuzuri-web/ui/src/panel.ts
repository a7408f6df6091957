// A chart: lanes of lines over one axis of time, strips of states, marks of events.
import uPlot from "uplot";
import { rate, roundUp, timeUs, count } from "./format";
import { GLYPHS, STATE_COLORS, drawGlyph, drawState, glyphOf, glyphsOfKinds, type Glyph } from "./marks";
import type { Store } from "./ring";
import { color, flowColor, flowDash, flowLetter } from "./theme";
import { Columns, grid, type Grid } from "./thin";
import { E, Mark, STATES, type EventData } from "./wire";

/** What a panel needs to know of a flow to draw it. */
export interface Drawn {
  id: string;
  name: string;
  store: Store;
  /** Whether its throughput is what it receives. */
  receives: boolean;
  srttUs: number;
  /** Bytes per segment. */
  mss: number;
  /** After this nothing is known. */
  end: number;
}

export interface View {
  from: number;
  to: number;
}

export type PanelKind = "one" | "over" | "small";

/** How times are written, and what is added to them so that ticks fall on round times. */
export interface TimeAxis {
  offsetUs: number;
  label(us: number, digits: number): string;
}

const GUTTER = 60;
const NARROW_GUTTER = 40;
const INCREMENTS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const LINES = ["resent", "ACK signs", "other"];
const LINE_HEIGHT = 17;

interface Scale {
  max: number;
}

/** Number of a rate's unit, so that an axis has one unit. */
function unitOf(bps: number): { by: number; name: string } {
  if (bps >= 1e9) return { by: 1e9, name: "Gbps" };
  if (bps >= 1e6) return { by: 1e6, name: "Mbps" };
  return { by: 1e3, name: "kbps" };
}

export class Panel {
  readonly root = document.createElement("section");
  readonly lanes = document.createElement("div");
  private readonly plots: uPlot[] = [];
  private readonly strip = document.createElement("canvas");
  private readonly line = document.createElement("div");
  private readonly brush = document.createElement("div");
  private readonly titles: { left: HTMLElement; right: HTMLElement | undefined }[] = [];
  private columns: Columns[] = [];
  private drawn: Drawn[] = [];
  private view: View = { from: 0, to: 1 };
  private axis: TimeAxis = { offsetUs: 0, label: (us) => String(us) };
  private g: Grid = { start: 0, pixel: 1, pixels: 0 };
  private xs: number[] = [];
  private scales = { cwnd: { max: 1 } as Scale, rate: { max: 1 } as Scale, rtt: { max: 1 } as Scale };
  private width = 0;
  private gutter = GUTTER;
  private placed: { x: number; y: number; glyph: Glyph; events: EventData[] }[] = [];
  private flowsKey = "";

  constructor(readonly kind: PanelKind, private readonly heights: { main: number; rtt: number }) {
    this.root.className = `panel panel-${kind}`;
    this.lanes.className = "lanes";
    this.line.className = "cursor-line";
    this.brush.className = "brush";
    this.line.hidden = true;
    this.brush.hidden = true;
    this.strip.className = "strip";
    this.root.append(this.lanes);
  }

  /** Takes the panel apart. */
  destroy(): void {
    for (const plot of this.plots) plot.destroy();
    this.plots.length = 0;
    this.root.remove();
  }

  setHeights(main: number, rtt: number): void {
    if (this.heights.main === main && this.heights.rtt === rtt) return;
    this.heights.main = main;
    this.heights.rtt = rtt;
    this.width = 0;
  }

  /** Left and right edge of the lines, CSS pixels within `lanes`. */
  get edges(): { left: number; width: number } {
    return { left: this.gutter, width: Math.max(this.width - this.gutter * (this.kind === "over" ? 1.25 : 2), 1) };
  }

  timeAt(x: number): number {
    const { left, width } = this.edges;
    return this.view.from + ((x - left) / width) * (this.view.to - this.view.from);
  }

  xOf(time: number): number {
    const { left, width } = this.edges;
    return left + ((time - this.view.from) / (this.view.to - this.view.from)) * width;
  }

  private rightGutter(): number {
    return this.kind === "over" ? this.gutter / 4 : this.gutter;
  }

  private build(width: number, flows: Drawn[]): void {
    for (const plot of this.plots) plot.destroy();
    this.plots.length = 0;
    this.titles.length = 0;
    this.lanes.replaceChildren();
    this.width = width;
    this.gutter = width < 520 ? NARROW_GUTTER : GUTTER;
    const small = this.kind === "small";
    if (this.kind === "over") {
      const each = Math.round(this.heights.main / 2);
      this.lane(this.overPlot(width, each, flows, "cwnd", false), "cwnd, segments", "--cwnd");
      this.lane(this.overPlot(width, each, flows, "rate", false), "throughput", "--rate");
      this.lanes.append(this.strip);
      this.lane(this.overPlot(width, this.heights.rtt + 26, flows, "rtt", true), "srtt, ms", "--rtt");
    } else {
      this.lane(this.mainPlot(width, this.heights.main + (small ? 24 : 0), small), "cwnd, segments", "--cwnd", "throughput", "--rate");
      this.lanes.append(this.strip);
      if (!small) this.lane(this.rttPlot(width, this.heights.rtt + 26), "RTT, ms", "--rtt");
    }
    const lines = this.kind === "one" ? 16 + LINES.length * LINE_HEIGHT : this.kind === "small" ? 9 : flows.length * 12 + 4;
    this.size(this.strip, width, lines);
    this.lanes.append(this.line, this.brush);
  }

  private size(canvas: HTMLCanvasElement, width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }

  private lane(plot: uPlot, left: string, leftColor: string, right?: string, rightColor?: string): void {
    const box = document.createElement("div");
    box.className = "lane";
    const title = (text: string, ground: string, side: string): HTMLElement => {
      const element = document.createElement("span");
      element.className = `axis-title ${side}`;
      element.style.color = `var(${ground}-text)`;
      element.textContent = text;
      box.append(element);
      return element;
    };
    box.append(plot.root);
    this.titles.push({ left: title(left, leftColor, "left"), right: right === undefined ? undefined : title(right, rightColor ?? "--text", "right") });
    this.lanes.append(box);
    this.plots.push(plot);
  }

  private xAxis(show: boolean): uPlot.Axis {
    return {
      show: true,
      stroke: () => color("--muted"),
      font: FONT,
      size: show ? 26 : 0,
      gap: 4,
      space: this.width < 520 ? 68 : 90,
      incrs: INCREMENTS,
      grid: { stroke: () => color("--grid"), width: 1 },
      ticks: { show, stroke: () => color("--grid"), size: 4 },
      values: (_, splits, __, ___, increment) => {
        const digits = increment >= 1 ? 0 : increment >= 0.1 ? 1 : increment >= 0.01 ? 2 : 3;
        return show ? splits.map((s) => this.axis.label(Math.round(s * 1e6 - this.axis.offsetUs), digits)) : splits.map(() => "");
      },
    };
  }

  private yAxis(scale: string, ground: string, side: 1 | 3, values: (v: number) => string, withGrid: boolean): uPlot.Axis {
    return {
      scale,
      side,
      stroke: () => color(`${ground}-text`),
      font: FONT,
      size: this.gutter,
      gap: 5,
      space: 34,
      grid: withGrid ? { stroke: () => color("--grid"), width: 1 } : { show: false },
      ticks: { show: false },
      values: (_, splits) => splits.map((v) => (v === null ? "" : values(v))),
    };
  }

  private options(width: number, height: number, withX: boolean, extra: Partial<uPlot.Options>): uPlot.Options {
    const right = this.rightGutter();
    return {
      width,
      height,
      padding: [24, extra.axes !== undefined && extra.axes.length > 1 ? 0 : right, withX ? 0 : 4, 0],
      cursor: { show: false },
      legend: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      series: [],
      ...extra,
      axes: [this.xAxis(withX), ...(extra.axes ?? [])],
      scales: { x: { time: false, auto: false }, ...extra.scales },
    };
  }

  private range(scale: Scale): uPlot.Scale.Range {
    return () => [0, scale.max];
  }

  private mainPlot(width: number, height: number, withX: boolean): uPlot {
    const rates = (v: number): string => trim(v / unitOf(this.scales.rate.max).by);
    const options = this.options(width, height, withX, {
      scales: { cwnd: { range: this.range(this.scales.cwnd) }, rate: { range: this.range(this.scales.rate) } },
      axes: [this.yAxis("cwnd", "--cwnd", 3, (v) => count(v), true), this.yAxis("rate", "--rate", 1, rates, false)],
      series: [
        {},
        { scale: "rate", stroke: () => color("--rate"), width: 1.6, points: { show: false }, spanGaps: false },
        { scale: "cwnd", stroke: () => color("--ssthresh"), width: 1.25, dash: [6, 4], points: { show: false }, spanGaps: false },
        { scale: "cwnd", stroke: () => color("--cwnd"), width: 1.8, points: { show: false }, spanGaps: false },
      ],
      hooks: { drawClear: [(u) => this.tint(u)] },
    });
    return new uPlot(options, [[0, 1], [null, null], [null, null], [null, null]]);
  }

  private rttPlot(width: number, height: number): uPlot {
    const options = this.options(width, height, true, {
      scales: { rtt: { range: this.range(this.scales.rtt) } },
      axes: [this.yAxis("rtt", "--rtt", 3, (v) => trim(v / 1000), true), { ...this.yAxis("rtt", "--rtt", 1, () => "", false), show: true }],
      series: [
        {},
        { scale: "rtt", stroke: () => color("--rtt-band"), width: 0.5, points: { show: false } },
        { scale: "rtt", stroke: () => color("--rtt-band"), width: 0.5, points: { show: false } },
        { scale: "rtt", stroke: () => color("--rtt"), width: 1.6, points: { show: false } },
        { scale: "rtt", stroke: () => color("--min-rtt"), width: 1.25, dash: [2, 3], points: { show: false } },
      ],
      bands: [{ series: [2, 1], fill: () => color("--rtt-band") }],
    });
    return new uPlot(options, [[0, 1], [null, null], [null, null], [null, null], [null, null]]);
  }

  private overPlot(width: number, height: number, flows: Drawn[], scale: "cwnd" | "rate" | "rtt", withX: boolean): uPlot {
    const values = (v: number): string =>
      scale === "cwnd" ? count(v) : scale === "rtt" ? trim(v / 1000) : trim(v / unitOf(this.scales.rate.max).by);
    const options = this.options(width, height, withX, {
      scales: { [scale]: { range: this.range(this.scales[scale]) } },
      axes: [this.yAxis(scale, `--${scale}`, 3, values, true)],
      series: [
        {},
        ...flows.map((_, n): uPlot.Series => ({ scale, stroke: () => flowColor(n), dash: flowDash(n), width: 1.6, points: { show: false } })),
      ],
      hooks: { draw: [(u) => this.letters(u)] },
    });
    return new uPlot(options, [[0, 1], ...flows.map(() => [null, null])] as uPlot.AlignedData);
  }

  /** A faint ground behind the lines where the state was not Open. */
  private tint(u: uPlot): void {
    const columns = this.columns[0];
    if (columns === undefined) return;
    const { ctx, bbox } = u;
    const perPixel = (this.g.pixel / (this.view.to - this.view.from)) * bbox.width;
    const left = bbox.left + ((this.g.start - this.view.from) / this.g.pixel) * perPixel;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.runs(columns, (state, first, last) => {
      ctx.fillStyle = color(STATE_COLORS[state]);
      ctx.globalAlpha = 0.13;
      ctx.fillRect(left + first * perPixel, bbox.top, Math.max((last - first) * perPixel, 1.5), bbox.height);
    });
    ctx.restore();
  }

  /** Calls back for each stretch of a state other than Open: pixels `first` to `last` (exclusive). */
  private runs(columns: Columns, each: (state: number, first: number, last: number) => void): void {
    const { state } = columns;
    let first = 0;
    for (let p = 1; p <= state.length; p += 1) {
      if (p < state.length && state[p] === state[first]) continue;
      if (state[first] !== 0 && state[first] !== 255) each(state[first], first, p);
      first = p;
    }
  }

  /** The flows' letters at the right end of their lines. */
  private letters(u: uPlot): void {
    const ratio = window.devicePixelRatio || 1;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = `700 ${10 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    for (let n = 1; n < u.data.length; n += 1) {
      const list = u.data[n];
      let i = list.length - 1;
      while (i > 0 && (list[i] === null || list[i] === undefined || u.data[0][i] > (u.scales["x"].max ?? 0))) i -= 1;
      const value = list[i];
      if (value === null || value === undefined) continue;
      const scale = u.series[n].scale ?? "y";
      const x = Math.min(u.valToPos(u.data[0][i], "x", true) + 3 * ratio, bbox.left + bbox.width + 2 * ratio);
      ctx.fillStyle = flowColor(n - 1);
      ctx.fillText(flowLetter(n - 1), x, u.valToPos(value, scale, true));
    }
    ctx.restore();
  }

  /** Draws a view of flows into the given width. */
  draw(flows: Drawn[], view: View, axis: TimeAxis, width: number): void {
    const key = `${flows.map((f) => f.id).join()}|${window.devicePixelRatio}`;
    if (width !== this.width || (this.kind === "over" && key !== this.flowsKey)) this.build(width, flows);
    this.flowsKey = key;
    this.drawn = flows;
    this.view = view;
    this.axis = axis;
    this.g = grid(view.from, view.to, this.edges.width);
    while (this.columns.length < flows.length) this.columns.push(new Columns());
    this.columns.length = flows.length;
    const most = { cwnd: 1, rate: 1000, rtt: 100 };
    flows.forEach((flow, n) => {
      const columns = this.columns[n];
      columns.fill(flow.store, this.g, flow.end, flow.receives, flow.srttUs, flow.mss);
      // A slow start threshold far above the window would flatten it; it is then read at the cursor only.
      most.cwnd = Math.max(most.cwnd, columns.most.cwnd, Math.min(columns.most.ssthresh, columns.most.cwnd * 1.6));
      most.rate = Math.max(most.rate, columns.most.rate);
      most.rtt = Math.max(most.rtt, columns.most.rtt);
    });
    this.scales.cwnd.max = roundUp(most.cwnd * 1.06);
    this.scales.rate.max = roundUp(most.rate * 1.06);
    this.scales.rtt.max = roundUp((most.rtt * 1.06) / 1000) * 1000;
    this.times();
    const x = { min: (view.from + axis.offsetUs) / 1e6, max: (view.to + axis.offsetUs) / 1e6 };
    const put = (n: number, data: (number | null)[][]): void => {
      const plot = this.plots[n];
      plot.batch(() => {
        plot.setData([this.xs, ...data] as uPlot.AlignedData, false);
        plot.setScale("x", x);
      });
    };
    if (this.kind === "over") {
      put(0, this.columns.map((c) => c.cwnd));
      put(1, this.columns.map((c) => c.rate));
      put(2, this.columns.map((c) => c.srtt));
      this.titles[1].left.textContent = `throughput, ${unitOf(this.scales.rate.max).name}`;
    } else {
      const c = this.columns[0];
      if (c === undefined) return;
      put(0, [c.rate, c.ssthresh, c.cwnd]);
      if (this.kind === "one") put(1, [c.srttMin, c.srttMax, c.srtt, c.minRtt]);
      const right = this.titles[0].right;
      if (right !== undefined) right.textContent = `throughput, ${unitOf(this.scales.rate.max).name}`;
    }
    this.drawStrip();
  }

  private times(): void {
    const { start, pixel, pixels } = this.g;
    this.xs.length = pixels * 2;
    for (let p = 0; p < pixels; p += 1) {
      const time = (start + p * pixel + this.axis.offsetUs) / 1e6;
      this.xs[p * 2] = time;
      this.xs[p * 2 + 1] = time + pixel / 2e6;
    }
  }

  private drawStrip(): void {
    const c = this.strip.getContext("2d");
    if (c === null) return;
    const ratio = window.devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.strip.width, this.strip.height);
    const { left, width } = this.edges;
    const ink = color("--ink");
    const x = (pixel: number): number => Math.max(this.xOf(this.g.start + pixel * this.g.pixel), left);
    const right = left + width;
    const height = this.kind === "one" ? 13 : this.kind === "small" ? 8 : 10;
    c.font = FONT;
    this.columns.forEach((columns, n) => {
      const y = this.kind === "over" ? 2 + n * 12 : this.kind === "small" ? 1 : 0;
      c.fillStyle = color("--strip");
      c.fillRect(left, y, width, height);
      this.runs(columns, (state, first, last) => {
        const from = x(first);
        const to = Math.min(Math.max(x(last), from + 2), right);
        if (to > from) drawState(c, state, from, y, to - from, height, color(STATE_COLORS[state]), ink);
      });
      if (this.kind === "over") {
        c.fillStyle = flowColor(n);
        c.textAlign = "right";
        c.textBaseline = "middle";
        c.fillText(`${flowLetter(n)} state`, left - 6, y + height / 2);
      }
    });
    if (this.kind !== "one") return;
    c.fillStyle = color("--muted");
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText("state", left - 6, 7);
    LINES.forEach((name, n) => {
      const y = 16 + n * LINE_HEIGHT + LINE_HEIGHT / 2;
      c.fillStyle = color("--muted");
      c.fillText(this.gutter < GUTTER ? name.split(" ")[0] : name, left - 6, y);
      c.fillStyle = color("--grid");
      c.fillRect(left, y + LINE_HEIGHT / 2 - 0.5, width, 1);
    });
    this.drawMarks(c, left, right);
  }

  private drawMarks(c: CanvasRenderingContext2D, left: number, right: number): void {
    const flow = this.drawn[0];
    const columns = this.columns[0];
    this.placed = [];
    if (flow === undefined || columns === undefined) return;
    const y = (line: number): number => 16 + line * LINE_HEIGHT + LINE_HEIGHT / 2;
    // Duplicate ACKs and SACKs come in hundreds: ticks, not letters. Upper half duplicate ACKs, lower half SACKs.
    const perPixel = (this.g.pixel / (this.view.to - this.view.from)) * (right - left);
    for (let p = 0; p < columns.marks.length; p += 1) {
      const marks = columns.marks[p];
      if (marks === 0) continue;
      const x = this.xOf(this.g.start + p * this.g.pixel);
      if (x < left || x > right) continue;
      if ((marks & Mark.DUP_ACK) !== 0) {
        c.fillStyle = color("--disorder");
        c.fillRect(x, y(1) - 6, Math.max(perPixel, 1.2), 5);
      }
      if ((marks & Mark.SACK) !== 0) {
        c.fillStyle = color("--recovery");
        c.fillRect(x, y(1) + 1, Math.max(perPixel, 1.2), 5);
      }
    }
    const room = new Map<string, number>();
    const place = (glyph: Glyph, time: number, event: EventData | undefined): void => {
      const at = this.xOf(time);
      if (at < left - 6 || at > right + 6) return;
      const cell = `${glyph.line}:${Math.floor(at / 13)}`;
      const there = room.get(cell);
      if (there !== undefined) {
        const mark = this.placed[there];
        if (event !== undefined) mark.events.push(event);
        // The graver one is shown; the others are told when pointed at.
        if (ORDER.indexOf(glyph) < ORDER.indexOf(mark.glyph)) mark.glyph = glyph;
        return;
      }
      room.set(cell, this.placed.length);
      this.placed.push({ x: Math.min(Math.max(at, left), right), y: y(glyph.line), glyph, events: event === undefined ? [] : [event] });
    };
    for (let p = 0; p < columns.kinds.length; p += 1) {
      const time = this.g.start + p * this.g.pixel;
      if (columns.kinds[p] > 3 && time < flow.store.eventsFrom) {
        for (const glyph of glyphsOfKinds(columns.kinds[p])) place(glyph, time, undefined);
      }
      if ((columns.marks[p] & Mark.DSACK) !== 0) place(GLYPHS.dsack, time, undefined);
      if ((columns.marks[p] & Mark.ECE) !== 0) place(GLYPHS.ece, time, undefined);
    }
    for (const event of flow.store.events) {
      if (event[E.TIME] < this.view.from || event[E.TIME] > this.view.to) continue;
      const glyph = glyphOf(event);
      if (glyph !== undefined) place(glyph, event[E.TIME], event);
    }
    for (const mark of this.placed) {
      drawGlyph(c, mark.glyph, mark.x, mark.y, 5.6, color(mark.glyph.color), color("--ink"));
    }
  }

  /** The mark under a point of `lanes`, if any. */
  markAt(x: number, y: number): { x: number; y: number; glyph: Glyph; events: EventData[] } | undefined {
    const top = this.strip.offsetTop;
    return this.placed.find((mark) => Math.abs(mark.x - x) <= 8 && Math.abs(mark.y + top - y) <= 9);
  }

  /** Shows the cursor at a time, or hides it. */
  cursor(time: number | undefined): void {
    const shown = time !== undefined && time >= this.view.from && time <= this.view.to;
    this.line.hidden = !shown;
    if (shown) this.line.style.transform = `translateX(${this.xOf(time)}px)`;
  }

  /** Shows the stretch that a drag has chosen, CSS pixels, or hides it. */
  select(from: number | undefined, to: number): void {
    this.brush.hidden = from === undefined;
    if (from === undefined) return;
    this.brush.style.left = `${Math.min(from, to)}px`;
    this.brush.style.width = `${Math.abs(to - from)}px`;
  }

  /** Throughput as it is drawn at a time. */
  rateAt(n: number, time: number): number | null {
    const p = Math.floor((time - this.g.start) / this.g.pixel);
    return this.columns[n]?.rate[p * 2] ?? null;
  }

  /** What is drawn, for a picture: canvases with their places in `lanes`, and the titles of the axes. */
  picture(c: CanvasRenderingContext2D, x: number, y: number): void {
    for (const canvas of this.lanes.querySelectorAll("canvas")) {
      const box = canvas.getBoundingClientRect();
      const own = this.lanes.getBoundingClientRect();
      c.drawImage(canvas, x + box.left - own.left, y + box.top - own.top, box.width, box.height);
    }
    c.font = `600 ${FONT}`;
    c.textBaseline = "top";
    const own = this.lanes.getBoundingClientRect();
    for (const { left, right } of this.titles) {
      for (const title of [left, right]) {
        if (title === undefined) continue;
        const box = title.getBoundingClientRect();
        c.fillStyle = getComputedStyle(title).color;
        c.textAlign = "left";
        c.fillText(title.textContent ?? "", x + box.left - own.left, y + box.top - own.top + 2);
      }
    }
  }
}

const ORDER: readonly Glyph[] = Object.values(GLYPHS);

function trim(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** What the cursor reads of a flow at a time. */
export interface Reading {
  time: number;
  width: number;
  cwnd: string;
  ssthresh: string;
  rate: string;
  srtt: string;
  minRtt: string;
  inFlight: string;
  state: string;
  stateNumber: number;
}

const NONE = "–";

/** A value with its spread where it has one. */
function spread(last: number, min: number, max: number, write: (n: number) => string): string {
  if (min === max) return write(last);
  const [low, high] = [write(min), write(max)];
  const unit = low.slice(low.indexOf(" "));
  return `${write(last)} (${low.includes(" ") && high.endsWith(unit) ? low.slice(0, low.indexOf(" ")) : low}–${high})`;
}

export function read(flow: Drawn, panel: Panel | undefined, n: number, time: number, now: readonly (number | string | null)[] | undefined): Reading | undefined {
  const found = time > flow.end + 1e6 ? undefined : flow.store.lookup(time);
  if (found === undefined) return undefined;
  const { data, at, width } = found;
  const throughput = panel?.rateAt(n, time) ?? null;
  const minRtt = data[at + 10] > 0 ? data[at + 10] : Number(now?.[7] ?? 0);
  return {
    time,
    width,
    cwnd: `${spread(data[at + 5], data[at + 3], data[at + 4], (v) => v.toFixed(0))} seg`,
    ssthresh: data[at + 6] > 0 ? `${data[at + 6]} seg` : "none yet",
    rate: throughput === null ? NONE : rate(throughput),
    srtt: data[at + 9] > 0 ? spread(data[at + 9], data[at + 7], data[at + 8], timeUs) : NONE,
    minRtt: minRtt > 0 ? timeUs(minRtt) : NONE,
    inFlight: `${data[at + 11]} seg`,
    state: STATES[data[at + 15] as 0] ?? NONE,
    stateNumber: data[at + 15],
  };
}
