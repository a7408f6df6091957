// Mouse, touch and pen on the chart.
import { chart, panels } from "./chart";
import { charted } from "./charted";
import { setFocus, setMode } from "./choice";
import { el } from "./dom";
import { describe } from "./eventlist";
import type { View } from "./drawn";
import type { Panel } from "./panel";
import { state } from "./state";
import { timeText } from "./time";
import { MIN_SPAN_US, MAX_SPAN_US, goLive, pan, setCursor, setFollow, setSpan, setView, spans, zoom } from "./view";
import { E } from "./wire";

const tooltip = el("tooltip");

interface Touch {
  x: number;
  y: number;
}
const pointers = new Map<number, Touch>();
let drag: { panel: Panel; from: number; pan: boolean; view: View; moved: boolean } | undefined;
let pinch: { distance: number; middle: number; view: View } | undefined;

function panelOf(target: EventTarget | null): Panel | undefined {
  return target instanceof Node ? panels.find((panel) => panel.lanes.contains(target)) : undefined;
}

const within = (panel: Panel, x: number): number => x - panel.lanes.getBoundingClientRect().left;

chart.addEventListener("pointerdown", (event) => {
  const panel = panelOf(event.target);
  if (panel === undefined || event.button > 1) return;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  chart.setPointerCapture(event.pointerId);
  const touch = event.pointerType === "touch";
  if (pointers.size === 2) {
    const [a, b] = [...pointers.values()];
    drag = undefined;
    panel.select(undefined, 0);
    pinch = { distance: Math.max(Math.abs(a.x - b.x), 20), middle: panel.timeAt(within(panel, (a.x + b.x) / 2)), view: { ...state.view } };
    return;
  }
  drag = { panel, from: event.clientX, pan: touch || event.shiftKey || event.button === 1, view: { ...state.view }, moved: false };
});

chart.addEventListener("pointermove", (event) => {
  const panel = drag?.panel ?? panelOf(event.target);
  if (pointers.has(event.pointerId)) pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pinch !== undefined && pointers.size === 2) {
    const [a, b] = [...pointers.values()];
    const wide = pinch.view.to - pinch.view.from;
    const next = Math.min(Math.max((wide * pinch.distance) / Math.max(Math.abs(a.x - b.x), 20), MIN_SPAN_US), MAX_SPAN_US);
    if (state.follow) {
      setSpan(next);
    } else {
      const part = (pinch.middle - pinch.view.from) / wide;
      state.span = next;
      state.view = { from: pinch.middle - part * next, to: pinch.middle + (1 - part) * next };
      spans();
      state.dirty = true;
    }
    return;
  }
  if (panel === undefined) return;
  if (drag !== undefined && pointers.has(event.pointerId)) {
    const far = event.clientX - drag.from;
    if (Math.abs(far) > 4) drag.moved = true;
    if (drag.moved && drag.pan) {
      if (state.follow) setFollow(false);
      const us = (far / panel.edges.width) * (drag.view.to - drag.view.from);
      state.view = { from: drag.view.from - us, to: drag.view.to - us };
      state.dirty = true;
    } else if (drag.moved) {
      panel.select(within(panel, drag.from), within(panel, event.clientX));
    }
  }
  const x = within(panel, event.clientX);
  const { left, width } = panel.edges;
  if (x < left || x > left + width) return;
  setCursor(panel.timeAt(x), false);
  state.hover = x;
  pointTooltip(panel, event.clientX, event.clientY);
});

function endPointer(event: PointerEvent): void {
  pointers.delete(event.pointerId);
  if (pointers.size < 2) pinch = undefined;
  if (drag === undefined) return;
  const { panel, from, pan: panned, moved } = drag;
  drag = undefined;
  panel.select(undefined, 0);
  if (moved && !panned && event.type === "pointerup") {
    const [a, b] = [panel.timeAt(within(panel, from)), panel.timeAt(within(panel, event.clientX))];
    if (Math.abs(within(panel, from) - within(panel, event.clientX)) > 6) setView(Math.min(a, b), Math.max(a, b));
  }
}
chart.addEventListener("pointerup", endPointer);
chart.addEventListener("pointercancel", endPointer);
chart.addEventListener("pointerleave", () => {
  tooltip.hidden = true;
  state.hover = undefined;
  if (drag === undefined && document.activeElement !== chart) setCursor(undefined, false);
});
chart.addEventListener("dblclick", (event) => {
  // The chart has captured the pointer, so the event's target does not show what is below it.
  if (panelOf(document.elementFromPoint(event.clientX, event.clientY)) === undefined) return;
  goLive();
});
chart.addEventListener(
  "wheel",
  (event) => {
    const panel = panelOf(event.target);
    // On a narrow page the wheel scrolls, unless with ctrl (which is also what a pinch on a touchpad sends).
    if (panel === undefined || (window.innerWidth <= 860 && !event.ctrlKey)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX / panel.edges.width) * state.span);
    else zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.002), panel.timeAt(within(panel, event.clientX)));
  },
  { passive: false },
);

function pointTooltip(panel: Panel, clientX: number, clientY: number): void {
  const own = panel.lanes.getBoundingClientRect();
  const mark = panel.markAt(clientX - own.left, clientY - own.top);
  tooltip.hidden = mark === undefined;
  if (mark === undefined) return;
  const head = document.createElement("b");
  head.textContent = `${mark.glyph.letter} · ${mark.glyph.label}`;
  const lines = mark.events.slice(0, 6).map((event) => {
    const { what, why } = describe(event, state.session);
    const line = document.createElement("div");
    line.textContent = [timeText(event[E.TIME], 3), what, why, event[E.PLACE]].filter((part) => part !== "").join(" · ");
    return line;
  });
  if (mark.events.length > 6) {
    const more = document.createElement("div");
    more.textContent = `and ${mark.events.length - 6} more here`;
    lines.push(more);
  }
  tooltip.replaceChildren(head, ...lines);
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.min(Math.max(clientX + 14, 6), window.innerWidth - box.width - 6)}px`;
  tooltip.style.top = `${clientY + 18 + box.height > window.innerHeight ? clientY - box.height - 12 : clientY + 18}px`;
}

/** A title in the multiples: a click focuses its flow, a double click shows it alone. */
function titled(target: EventTarget | null): string | undefined {
  const at = target instanceof Node ? panels.findIndex((panel) => panel.root.firstElementChild !== panel.lanes && panel.root.firstElementChild?.contains(target)) : -1;
  return charted()[at];
}
chart.addEventListener("click", ({ target }) => {
  const id = titled(target);
  if (id !== undefined) setFocus(id);
});
chart.addEventListener("dblclick", ({ target }) => {
  const id = titled(target);
  if (id === undefined) return;
  setFocus(id);
  setMode("one");
});
