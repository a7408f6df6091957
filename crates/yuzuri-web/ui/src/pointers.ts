// Mouse, touch and pen on the live page's chart.
import { chart, panels } from "./chart";
import { charted } from "./charted";
import { setFocus, setMode } from "./choice";
import { el } from "./dom";
import { describe } from "./eventlist";
import { listen, spanned } from "./gestures";
import type { Panel } from "./panel";
import { state } from "./state";
import { timeText } from "./time";
import { MIN_SPAN_US, MAX_SPAN_US, goLive, pan, setCursor, setFollow, setSpan, setView, spans, zoom } from "./view";
import { E } from "./wire";

const tooltip = el("tooltip");

function panelOf(target: EventTarget | null): Panel | undefined {
  return target instanceof Node ? panels.find((panel) => panel.lanes.contains(target)) : undefined;
}

listen<Panel>(chart, {
  panelOf,
  view: () => state.view,
  show: setView,
  move(view) {
    if (state.follow) setFollow(false);
    state.view = view;
    state.dirty = true;
  },
  pinch(view, near, middle) {
    const span = Math.min(Math.max((view.to - view.from) / near, MIN_SPAN_US), MAX_SPAN_US);
    if (state.follow) {
      setSpan(span);
      return;
    }
    state.span = span;
    state.view = spanned(view, span, middle);
    spans();
    state.dirty = true;
  },
  zoom,
  pan,
  point(panel, x, { clientX, clientY }) {
    setCursor(panel.timeAt(x), false);
    state.hover = x;
    pointTooltip(panel, clientX, clientY);
  },
  leave(dragging) {
    tooltip.hidden = true;
    state.hover = undefined;
    if (!dragging && document.activeElement !== chart) setCursor(undefined, false);
  },
});
chart.addEventListener("dblclick", (event) => {
  // The chart has captured the pointer, so the event's target does not show what is below it.
  if (panelOf(document.elementFromPoint(event.clientX, event.clientY)) === undefined) return;
  goLive();
});
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
