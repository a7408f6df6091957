// The pictures of a report made from files, redrawn so that they zoom together. The report
// shows the same as still pictures where scripts do not run.
import "./report.css";
import { listen, spanned, type Lanes } from "./gestures";
import type { View } from "./drawn";
import { differencePlot, rttPlot, ratePlot, sequencePlot, windowPlot, type Lines } from "./reportplots";
import { Rounds, limitsAt, scale, type Data } from "./reportdata";
import { followTheme } from "./theme";
import type uPlot from "uplot";

const MIN_SPAN_US = 100;
const NARROW = 520;
const HELP =
  "Charts over time zoom together: drag over a period, turn the wheel or spread two fingers; drag with shift or one finger to move; double click shows all.";

/** One of a section's pictures: a figure's lanes of lines. */
class Figure implements Lanes, Lines {
  readonly lanes = document.createElement("div");
  private readonly brush = document.createElement("div");
  private plots: uPlot[] = [];
  private strip: HTMLCanvasElement | undefined;
  width = 0;
  gutter = 60;
  readonly rightGutter = 16;
  readonly axis = { offsetUs: 0, label: (us: number, digits: number): string => (us / 1e6).toFixed(digits) };
  readonly scales: Lines["scales"] = {};

  constructor(private readonly kind: string, readonly section: Section) {
    this.lanes.className = "lanes";
    this.lanes.tabIndex = 0;
    this.brush.className = "brush";
    this.brush.hidden = true;
  }

  get data(): Data {
    return this.section.data;
  }

  get view(): View {
    return this.section.view;
  }

  get edges(): { left: number; width: number } {
    return { left: this.gutter, width: Math.max(this.width - this.gutter - this.rightGutter, 1) };
  }

  timeAt(x: number): number {
    return this.view.from + ((x - this.edges.left) / this.edges.width) * (this.view.to - this.view.from);
  }

  select(from: number | undefined, to: number): void {
    this.brush.hidden = from === undefined;
    if (from === undefined) return;
    this.brush.style.left = `${Math.min(from, to)}px`;
    this.brush.style.width = `${Math.abs(to - from)}px`;
  }

  private build(width: number): void {
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
    this.strip = undefined;
    this.lanes.replaceChildren();
    this.width = width;
    this.gutter = width < NARROW ? 44 : 60;
    const tall = width < NARROW ? 0.7 : 1;
    const lane = (plot: uPlot, title: string): void => {
      const box = document.createElement("div");
      const words = document.createElement("span");
      box.className = "lane";
      words.className = "axis-title";
      words.textContent = title;
      box.append(plot.root, words);
      this.lanes.append(box);
      this.plots.push(plot);
    };
    if (this.kind === "window") {
      lane(windowPlot(this, width, Math.round(300 * tall)), "window, segments");
      if (this.data.limits.length > 0) {
        this.strip = document.createElement("canvas");
        this.strip.className = "strip";
        this.lanes.append(this.strip);
      }
      lane(differencePlot(this, width, Math.round(140 * tall)), "algorithm - window");
    } else if (this.kind === "rates") {
      lane(ratePlot(this, width, Math.round(150 * tall)), "throughput, Mbit/s");
      lane(rttPlot(this, width, Math.round(170 * tall)), "RTT, ms");
    } else {
      lane(sequencePlot(this, width, Math.round(420 * tall)), "bytes since the first");
    }
    this.lanes.append(this.brush);
  }

  draw(): void {
    const width = Math.floor(this.lanes.clientWidth);
    if (width === 0) return;
    if (width !== this.width) this.build(width);
    const { from, to } = this.view;
    Object.assign(this.scales, scale(this.data, this.section.rounds, this.view));
    const x = { min: from / 1e6, max: to / 1e6 };
    const { rounds } = this.section;
    const lists = this.kind === "window" ? [rounds.windows(this.view), rounds.differences(this.view)] : this.kind === "rates" ? rounds.rates(this.view) : [[[x.min, x.max], [null, null]]];
    this.plots.forEach((plot, n) =>
      plot.batch(() => {
        plot.setData(lists[n] as uPlot.AlignedData, false);
        plot.setScale("x", x);
      }),
    );
    this.drawStrip();
  }

  private drawStrip(): void {
    const { strip, edges, view } = this;
    if (strip === undefined) return;
    const ratio = window.devicePixelRatio || 1;
    strip.width = Math.round(this.width * ratio);
    strip.height = Math.round(14 * ratio);
    strip.style.width = `${this.width}px`;
    strip.style.height = "14px";
    const c = strip.getContext("2d");
    if (c === null) return;
    const x = (us: number): number => (edges.left + ((us - view.from) / (view.to - view.from)) * edges.width) * ratio;
    const [left, right] = [edges.left * ratio, (edges.left + edges.width) * ratio];
    for (const [a, b, name] of limitsAt(this.data, view)) {
      const start = Math.max(x(a), left);
      c.fillStyle = this.section.limitColor(name);
      c.fillRect(start, 0, Math.max(Math.min(x(b), right) - start, ratio), strip.height);
    }
  }
}

/** A flow's pictures, with one view. */
class Section {
  readonly rounds: Rounds;
  view: View;
  private readonly figures: Figure[] = [];
  private asked = false;
  private readonly colors = new Map<string, string>();

  constructor(readonly root: HTMLElement, readonly data: Data) {
    this.rounds = new Rounds(data);
    this.view = { from: 0, to: data.end };
    for (const figure of root.querySelectorAll<HTMLElement>("figure[data-lanes]")) {
      const made = new Figure(figure.dataset["lanes"] ?? "", this);
      const picture = figure.querySelector("svg");
      made.lanes.setAttribute("role", "img");
      made.lanes.setAttribute("aria-label", `${picture?.getAttribute("aria-label") ?? ""}; keys: + and - zoom, [ and ] move, 0 shows all`);
      picture?.replaceWith(made.lanes);
      this.figures.push(made);
    }
    const words = document.createElement("p");
    words.className = "small";
    words.textContent = HELP;
    this.figures[0]?.lanes.closest("figure")?.before(words);
    this.handle();
  }

  limitColor(name: string): string {
    let value = this.colors.get(name);
    if (value === undefined) {
      const key = document.createElement("span");
      key.className = `key ${name}`;
      this.root.append(key);
      value = getComputedStyle(key).getPropertyValue("--key").trim();
      key.remove();
      this.colors.set(name, value);
    }
    return value;
  }

  /** Draws all again before the next frame. */
  redraw(colors = false): void {
    if (colors) this.colors.clear();
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      for (const figure of this.figures) figure.draw();
      this.root.dataset["view"] = `${Math.round(this.view.from)} ${Math.round(this.view.to)}`;
    });
  }

  /** Shows a view, within what the flow has. */
  private show(view: View): void {
    const span = Math.min(Math.max(view.to - view.from, MIN_SPAN_US), this.data.end);
    const from = Math.min(Math.max(view.from, 0), this.data.end - span);
    this.view = { from, to: from + span };
    this.redraw();
  }

  private zoom(factor: number, around: number): void {
    this.show(spanned(this.view, Math.max((this.view.to - this.view.from) * factor, MIN_SPAN_US), around));
  }

  private pan(us: number): void {
    const { from, to } = this.view;
    this.show({ from: from + us, to: to + us });
  }

  private handle(): void {
    listen<Figure>(this.root, {
      panelOf: (target) => (target instanceof Node ? this.figures.find((figure) => figure.lanes.contains(target)) : undefined),
      view: () => this.view,
      show: (from, to) => this.show({ from, to }),
      move: (view) => this.show(view),
      pinch: (view, near, middle) => this.show(spanned(view, (view.to - view.from) / near, middle)),
      zoom: (factor, around) => this.zoom(factor, around),
      pan: (us) => this.pan(us),
      point: () => undefined,
      leave: () => undefined,
    });
    const all = { from: 0, to: this.data.end };
    // The section has captured the pointer, so the event's target does not show what is below it.
    this.root.addEventListener("dblclick", ({ clientX, clientY }) => {
      const below = document.elementFromPoint(clientX, clientY);
      if (this.figures.some((figure) => figure.lanes.contains(below))) this.show(all);
    });
    this.root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.figures.some((figure) => figure.lanes === event.target)) return;
      const { from, to } = this.view;
      const keys: Record<string, () => void> = {
        "+": () => this.zoom(1 / 1.5, (from + to) / 2),
        "=": () => this.zoom(1 / 1.5, (from + to) / 2),
        "-": () => this.zoom(1.5, (from + to) / 2),
        "[": () => this.pan(-0.25 * (to - from)),
        "]": () => this.pan(0.25 * (to - from)),
        "0": () => this.show(all),
      };
      const act = keys[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    });
  }
}

const sections: Section[] = [];
for (const data of document.querySelectorAll<HTMLScriptElement>("script.zoom")) {
  const root = data.closest("section");
  if (root === null) continue;
  const section = new Section(root, JSON.parse(data.textContent ?? "") as Data);
  sections.push(section);
  section.redraw();
  for (const details of root.querySelectorAll("details")) details.addEventListener("toggle", () => section.redraw());
}
window.addEventListener("resize", () => sections.forEach((section) => section.redraw()));
followTheme(() => sections.forEach((section) => section.redraw(true)));
