// A chart: lanes of lines over a common time axis, with the strip of states and marks between them.
import type uPlot from "uplot";
import { put } from "./dom";
import { isSingle, type Drawn, type PanelKind, type View } from "./drawn";
import { rate, roundUp, timeUs } from "./format";
import { UNKNOWN, limitName } from "./limits";
import { Lines, type Style } from "./lines";
import { STATE_COLORS } from "./marks";
import { FONT, LOWER_DASH, UPPER_DASH, mainPlot, overPlot, rttPlot, sequencePlot, unitOf, type Ground, type Quantity, type TimeAxis } from "./plots";
import { Sequence } from "./sequence";
import type { Begins } from "./since";
import { Strip, runs, type PlacedMark, type StripGround } from "./strip";
import { color, flowColor, flowDash } from "./theme";
import { Columns, grid, scaleEnd, type Grid } from "./thin";

type Values = readonly (number | null)[];

const GUTTER = 60;
const NARROW_GUTTER = 44;

export class Panel implements Ground, StripGround {
  readonly root = document.createElement("section");
  readonly lanes = document.createElement("div");
  private readonly plots: uPlot[] = [];
  /** Each draws the axes and lines of a lane, for this stretch of time in seconds. */
  private readonly layers: ((x: { min: number; max: number }) => void)[] = [];
  private readonly strip: Strip;
  private readonly line = document.createElement("div");
  private readonly brush = document.createElement("div");
  private readonly begins = document.createElement("div");
  private readonly titles: { left: HTMLElement; right: HTMLElement | undefined }[] = [];
  columns: Columns[] = [];
  flows: Drawn[] = [];
  view: View = { from: 0, to: 1 };
  axis: TimeAxis = { offsetUs: 0, label: (us) => String(us) };
  grid: Grid = { start: 0, pixel: 1, pixels: 0 };
  readonly scales = { cwnd: { max: 1 }, rate: { max: 1 }, rtt: { max: 1 } };
  width = 0;
  gutter = GUTTER;
  private readonly sequence = new Sequence();
  private readonly above = { rate: "", rtt: "" };
  private xs: number[] = [];
  private flowsKey = "";

  constructor(readonly kind: PanelKind, private readonly heights: { main: number; rtt: number }) {
    this.root.className = `panel panel-${kind}`;
    this.lanes.className = "lanes";
    this.line.className = "cursor-line";
    this.brush.className = "brush";
    this.begins.className = "begins-line";
    this.begins.append(document.createElement("span"));
    this.line.hidden = true;
    this.begins.hidden = true;
    this.brush.hidden = true;
    this.strip = new Strip(kind);
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

  get bytes(): { from: number; to: number } {
    return this.sequence.range;
  }

  /** Left and right edge of the lines, CSS pixels within `lanes`. */
  get edges(): { left: number; width: number } {
    return { left: this.gutter, width: Math.max(this.width - this.gutter - this.rightGutter, 1) };
  }

  timeAt(x: number): number {
    const { left, width } = this.edges;
    return this.view.from + ((x - left) / width) * (this.view.to - this.view.from);
  }

  xOf(time: number): number {
    const { left, width } = this.edges;
    return left + ((time - this.view.from) / (this.view.to - this.view.from)) * width;
  }

  get rightGutter(): number {
    return this.kind === "over" ? this.gutter / 4 : this.gutter;
  }

  private build(width: number, flows: Drawn[]): void {
    for (const plot of this.plots) plot.destroy();
    this.plots.length = 0;
    this.layers.length = 0;
    this.titles.length = 0;
    this.lanes.replaceChildren();
    this.width = width;
    this.gutter = width < 520 ? NARROW_GUTTER : GUTTER;
    const small = this.kind === "small";
    if (this.kind === "over") {
      const each = Math.round(this.heights.main / 2);
      this.over("cwnd", width, each, "cwnd, segments");
      this.over("rate", width, each, "throughput");
      this.lanes.append(this.strip.canvas);
      this.over("rtt", width, this.heights.rtt + 26, "srtt, ms");
    } else {
      const tint = (u: uPlot): void => this.tint(u);
      if (this.kind === "seq") this.lane(sequencePlot(this, width, this.heights.main, tint), "bytes", "--cwnd");
      else {
        this.lane(mainPlot(this, width, this.heights.main + (small ? 24 : 0), small, tint), "cwnd, segments", "--cwnd", "throughput", "--rate");
        this.mainLines();
      }
      this.lanes.append(this.strip.canvas);
      if (!small) {
        this.lane(rttPlot(this, width, this.heights.rtt + 26), "RTT, ms", "--rtt");
        this.rttLines();
      }
    }
    this.strip.size(width, flows.length);
    this.lanes.append(this.begins, this.line, this.brush);
  }

  /** A lane with the lines of all flows. */
  private over(quantity: Quantity, width: number, height: number, title: string): void {
    const lines = (): Values[] => this.columns.map((c) => (quantity === "rtt" ? c.srtt : c[quantity]));
    const styles = (): Style[] => this.flows.map((_, n) => ({ color: flowColor(n), width: 1.6, dash: flowDash(n), max: this.scales[quantity].max }));
    this.lane(overPlot(this, width, height, lines, quantity, quantity === "rtt"), title, `--${quantity}`);
    this.layer(lines, styles);
  }

  /** Draws lines over the last plot. */
  private layer(values: () => Values[], styles: () => Style[]): void {
    const plot = this.plots[this.plots.length - 1];
    const lines = new Lines();
    plot.root.parentElement?.append(lines.canvas);
    this.layers.push((x) => {
      plot.batch(() => {
        plot.setData([[x.min, x.max], ...plot.series.slice(1).map(() => [null, null])] as uPlot.AlignedData, false);
        plot.setScale("x", x);
      });
      lines.place(plot.bbox);
      lines.draw(values(), { grid: this.grid, view: this.view, styles: styles() });
    });
  }

  /** The lines of one flow's windows and throughput. */
  private mainLines(): void {
    const line = (name: string, width: number, dash: readonly number[] = []): Style => ({ color: color(name), width, dash, max: this.scales.cwnd.max });
    const values = (): Values[] => this.columns.map((c) => [c.rate, c.ssthresh, c.cwnd, c.lower, c.upper])[0] ?? [];
    this.layer(values, () => [
      // The filled area distinguishes it from the window without colour.
      { ...line("--rate", 1.4), max: this.scales.rate.max, area: color("--rate-area") },
      line("--ssthresh", 1.25, [6, 4]),
      line("--cwnd", 2),
      // Drawn after the window, which often lies on its bound.
      line("--bound", 1.25, LOWER_DASH),
      line("--bound", 1.25, UPPER_DASH),
    ]);
  }

  private rttLines(): void {
    const line = (name: string, width: number, dash: readonly number[] = []): Style => ({ color: color(name), width, dash, max: this.scales.rtt.max });
    const values = (): Values[] => this.columns.map((c) => [c.srttMax, c.srttMin, c.srtt, c.minRtt])[0] ?? [];
    this.layer(values, () => [{ ...line("--rtt-band", 0.5), area: color("--rtt-band"), to: 1 }, line("--rtt-band", 0.5), line("--rtt", 1.6), line("--min-rtt", 1.25, [2, 3])]);
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

  /** A faint background behind the lines where the state was not Open. */
  private tint(u: uPlot): void {
    const columns = this.columns[0];
    if (columns === undefined) return;
    const { ctx, bbox } = u;
    const perPixel = (this.grid.pixel / (this.view.to - this.view.from)) * bbox.width;
    const left = bbox.left + ((this.grid.start - this.view.from) / this.grid.pixel) * perPixel;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    runs(columns, (state, first, last) => {
      ctx.fillStyle = color(STATE_COLORS[state]);
      ctx.globalAlpha = 0.13;
      ctx.fillRect(left + first * perPixel, bbox.top, Math.max((last - first) * perPixel, 1.5), bbox.height);
    });
    ctx.restore();
  }

  /** Draws a view of flows into the given width. */
  draw(flows: Drawn[], view: View, axis: TimeAxis, width: number): void {
    const key = `${flows.map((f) => f.id).join()}|${window.devicePixelRatio}`;
    if (width !== this.width || (this.kind === "over" && key !== this.flowsKey)) this.build(width, flows);
    this.flowsKey = key;
    this.flows = flows;
    this.view = view;
    this.axis = axis;
    this.grid = grid(view.from, view.to, this.edges.width);
    while (this.columns.length < flows.length) this.columns.push(new Columns());
    this.columns.length = flows.length;
    const most = { cwnd: 1, rate: 1000, rtt: 100 };
    const highest = { rate: 0, rtt: 0 };
    flows.forEach((flow, n) => {
      const columns = this.columns[n];
      columns.fill(flow.store, this.grid, flow.end, flow.receives, flow.mss);
      if (flow.bounds !== undefined) columns.bound(flow.bounds, this.grid, flow.end);
      // A slow start threshold or a bound far above the window would flatten it; then only the
      // cursor shows it.
      most.cwnd = Math.max(most.cwnd, columns.most.cwnd, Math.min(Math.max(columns.most.ssthresh, columns.most.bound), columns.most.cwnd * 1.6));
      most.rate = Math.max(most.rate, scaleEnd(columns.rate, columns.most.rate));
      most.rtt = Math.max(most.rtt, scaleEnd(columns.srttMax, columns.most.rtt));
      highest.rate = Math.max(highest.rate, columns.most.rate);
      highest.rtt = Math.max(highest.rtt, columns.most.rtt);
    });
    this.scales.cwnd.max = roundUp(most.cwnd * 1.06);
    this.scales.rate.max = roundUp(most.rate * 1.06);
    this.scales.rtt.max = roundUp((most.rtt * 1.06) / 1000) * 1000;
    // The largest value above the scale is shown next to the unit.
    this.above.rate = highest.rate > this.scales.rate.max ? `, up to ${rate(highest.rate)}` : "";
    this.above.rtt = highest.rtt > this.scales.rtt.max ? `, up to ${timeUs(highest.rtt)}` : "";
    const x = { min: (view.from + axis.offsetUs) / 1e6, max: (view.to + axis.offsetUs) / 1e6 };
    if (this.kind === "over") {
      this.showUnit(this.titles[1].left);
      this.showRtt(this.titles[2].left, "srtt");
    } else if (this.kind === "seq") {
      this.drawSequence(flows[0], x);
    } else {
      this.showUnit(this.titles[0].right);
    }
    if (isSingle(this.kind)) this.showRtt(this.titles[1].left, "RTT");
    for (const drawLane of this.layers) drawLane(x);
    this.strip.draw(this);
  }

  private drawSequence(flow: Drawn | undefined, x: { min: number; max: number }): void {
    if (flow === undefined) return;
    this.times();
    const { sequence } = this;
    sequence.fill(flow.store, this.grid, flow.end, flow.receives);
    const plot = this.plots[0];
    plot.batch(() => {
      plot.setData([this.xs, sequence.windowEnd, sequence.written, sequence.sent, sequence.acked, sequence.arrived] as uPlot.AlignedData, false);
      plot.setScale("x", x);
    });
    put(this.titles[0].left, flow.receives ? "bytes received, and how far our window reaches" : "bytes written, sent, acknowledged and SACKed, and how far the peer's window reaches");
  }

  private showUnit(title: HTMLElement | undefined): void {
    // A small chart has no room beside the other title.
    put(title, `throughput, ${unitOf(this.scales.rate.max).name}${this.kind === "small" ? "" : this.above.rate}`);
  }

  private showRtt(title: HTMLElement, what: string): void {
    put(title, `${what}, ms${this.above.rtt}`);
  }

  private times(): void {
    const { start, pixel, pixels } = this.grid;
    this.xs.length = pixels * 2;
    for (let p = 0; p < pixels; p += 1) {
      const time = (start + p * pixel + this.axis.offsetUs) / 1e6;
      this.xs[p * 2] = time;
      this.xs[p * 2 + 1] = time + pixel / 2e6;
    }
  }

  /** The mark under a point of `lanes`, if any. */
  markAt(x: number, y: number): PlacedMark | undefined {
    return this.strip.markAt(x, y - this.strip.canvas.offsetTop);
  }

  /** Shows a line at a time, or hides it if that time is not in the view. */
  private put(line: HTMLElement, time: number | undefined): void {
    const shown = time !== undefined && time >= this.view.from && time <= this.view.to;
    line.hidden = !shown;
    if (shown) line.style.transform = `translateX(${this.xOf(time)}px)`;
  }

  /** Shows the cursor at a time, or hides it. */
  cursor(time: number | undefined): void {
    this.put(this.line, time);
  }

  /** Shows where sharing begins, if that is known. */
  sharingBegins(begins: Begins | undefined): void {
    if (begins !== undefined) {
      put(this.begins.firstElementChild, begins.mark);
      // The words are on the side with more room.
      this.begins.classList.toggle("left", begins.at > (this.view.from + this.view.to) / 2);
    }
    this.put(this.begins, begins?.at);
  }

  /** Shows the stretch selected by a drag, CSS pixels, or hides it. */
  select(from: number | undefined, to: number): void {
    this.brush.hidden = from === undefined;
    if (from === undefined) return;
    this.brush.style.left = `${Math.min(from, to)}px`;
    this.brush.style.width = `${Math.abs(to - from)}px`;
  }

  /** Throughput as drawn at a time. */
  rateAt(n: number, time: number): number | null {
    const p = Math.floor((time - this.grid.start) / this.grid.pixel);
    return this.columns[n]?.rate[p * 2] ?? null;
  }

  /** What limited the n-th flow at a time, as drawn. */
  limitAt(n: number, time: number): string | undefined {
    return limitName(this.columns[n]?.limit[Math.floor((time - this.grid.start) / this.grid.pixel)] ?? UNKNOWN);
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
    if (!this.begins.hidden) {
      const box = this.begins.getBoundingClientRect();
      const own = this.lanes.getBoundingClientRect();
      c.fillStyle = getComputedStyle(this.begins).color;
      c.fillRect(x + box.left - own.left, y, 1, own.height);
      const isLeft = this.begins.classList.contains("left");
      c.textAlign = isLeft ? "right" : "left";
      c.fillText(this.begins.textContent ?? "", x + box.left - own.left + (isLeft ? -4 : 4), y + 16);
    }
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
