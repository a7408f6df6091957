// The chart's panels: created for its flows, drawn, or replaced by an explanation.
import { describeChart } from "./alternative";
import { sharingBegins } from "./begins";
import { charted, drawn } from "./charted";
import { el, put } from "./dom";
import { isSingle } from "./drawn";
import { Panel } from "./panel";
import { read } from "./reading";
import { readAgain, readout, showReading } from "./readout";
import { flows, state } from "./state";
import { stripHeight } from "./strip";
import { BEHIND_US, now, timeAxis } from "./time";

export const chart = el("chart");
export const panels: Panel[] = [];

/** Axis of times, borders and the margin below the chart, CSS pixels. */
const MARGIN_PX = 44;

/** From the chart's upper edge to the end of its part of the window, CSS pixels. */
function roomBelow(): number {
  const part = chart.parentElement as HTMLElement;
  return part.clientHeight - (readout.offsetTop + readout.offsetHeight - part.offsetTop) - MARGIN_PX;
}

function heights(): { main: number; rtt: number } {
  const narrow = window.innerWidth <= 860;
  if (state.mode === "small") return { main: narrow ? 130 : 150, rtt: 0 };
  if (state.mode === "over") {
    // All lanes in sight, if the window has room for them.
    const room = narrow ? 445 : Math.max(roomBelow() - stripHeight("over", charted().length), 300);
    return { main: Math.round(room * 0.72), rtt: Math.round(room * 0.28) };
  }
  const room = narrow ? 420 : Math.max(window.innerHeight - 430, 330);
  return { main: Math.round(room * 0.66), rtt: Math.round(room * 0.32) };
}

/** Measured when it changes: reading it at each drawing would force a layout of the lists that have
 * just changed. */
let chartWidth = 0;

/** Fits the panels to the window's size. */
function fit(): void {
  chartWidth = chart.clientWidth;
  const { main, rtt } = heights();
  for (const panel of panels) panel.setHeights(main, rtt);
  state.dirty = true;
}

/** Width of a pixel of the lines, microseconds. */
export const pixelUs = (): number => state.span / Math.max(panels[0]?.edges.width ?? 1000, 100);

/** Rebuilds the panels, for other flows or in another mode. */
export function rebuild(): void {
  readAgain();
  // Content below the chart stays in place until the new chart is drawn.
  chart.style.minHeight = `${chart.offsetHeight}px`;
  for (const panel of panels) panel.destroy();
  panels.length = 0;
  chart.classList.toggle("grid", state.mode === "small");
  readout.classList.toggle("short", state.mode === "small");
  readout.classList.toggle("many", state.mode === "over");
  const ids = charted().length;
  const number = state.mode === "small" ? ids : Math.min(ids, 1);
  for (let n = 0; n < number; n += 1) {
    const panel = new Panel(state.mode, heights());
    if (state.mode === "small") {
      const title = document.createElement("div");
      title.className = "panel-title";
      title.append(document.createElement("b"), document.createElement("span"));
      panel.root.prepend(title);
    }
    chart.append(panel.root);
    panels.push(panel);
  }
  el("tooltip").hidden = true;
  state.dirty = true;
}

/** Draws the current view. */
export function draw(): void {
  if (state.follow) {
    const pixel = pixelUs();
    const end = Math.floor((now() - BEHIND_US) / pixel) * pixel;
    state.view = { from: end - state.span, to: end };
    const edges = panels[0]?.edges;
    if (state.hover !== undefined && edges !== undefined) state.cursor = state.view.from + ((state.hover - edges.left) / edges.width) * state.span;
  }
  const axis = timeAxis();
  const all = drawn();
  const width = Math.floor((state.mode === "small" ? panels[0]?.root.clientWidth : chartWidth) ?? 0);
  chart.hidden = all.length === 0;
  showEmpty(all.length === 0);
  if (all.length === 0 || width < 50) return;
  const begins = sharingBegins();
  if (state.mode === "small") {
    panels.forEach((panel, n) => {
      const flow = all[n];
      if (flow === undefined) return;
      panel.draw([flow], state.view, axis, width);
      panel.cursor(state.cursor);
      panel.sharingBegins(begins);
      panel.root.classList.toggle("focus", flow.id === state.focus);
      const at = read(flow, panel, 0, state.cursor ?? state.view.to, flows.all.get(flow.id)?.row);
      const title = panel.root.firstElementChild;
      put(title?.firstElementChild, flow.name);
      put(title?.lastElementChild, at === undefined ? "" : `${at.cwnd.split(" (")[0].replace(" seg", "")} seg · ${at.rate}`);
    });
  } else {
    panels[0]?.draw(all, state.view, axis, width);
    panels[0]?.cursor(state.cursor);
    panels[0]?.sharingBegins(begins);
  }
  chart.style.minHeight = "";
  showReading(all, panels[0], begins);
  describeChart(all, panels);
}

/** Explains why there is no chart. */
function showEmpty(empty: boolean): void {
  const box = el("empty");
  box.hidden = !empty;
  readout.hidden = empty;
  if (!empty || box.dataset["key"] === `${flows.all.size}${state.mode}${state.status?.filter}${state.link.state}`) return;
  box.dataset["key"] = `${flows.all.size}${state.mode}${state.status?.filter}${state.link.state}`;
  const head = document.createElement("h2");
  const text = document.createElement("p");
  if (flows.all.size > 0) {
    head.textContent = isSingle(state.mode) ? "Choose a flow" : "No flow is chosen";
    text.textContent = "Select flows in the list, or move with j and k and select with x.";
  } else if (state.link.state !== "open") {
    head.textContent = "Connecting …";
  } else {
    head.textContent = "No flows yet";
    text.append("Nothing has sent or received over TCP since watching began. Start a transfer, for example ");
    const code = document.createElement("code");
    code.textContent = "yuzuri send HOST:PORT";
    text.append(code, state.status?.filter ? `, or widen the filter “${state.status.filter}”.` : ", or open a web page.");
  }
  box.replaceChildren(head, text);
}

const resized = new ResizeObserver(fit);
resized.observe(chart);
resized.observe(readout);
window.addEventListener("resize", fit);
