// The visible stretch of time, and the time under the cursor.
import { panels } from "./chart";
import { drawn } from "./charted";
import { setFocus } from "./choice";
import { announce, el, put } from "./dom";
import { isSingle } from "./drawn";
import { describe } from "./eventlist";
import { spanned } from "./gestures";
import { events } from "./lists";
import { read } from "./reading";
import { showFollow } from "./follow";
import { DEFAULT_SPAN_US, flows, inReplay, state, stores } from "./state";
import { newest, timeText } from "./time";
import { E, type EventData } from "./wire";

export const MIN_SPAN_US = 20_000;
export const MAX_SPAN_US = 2 * 3600e6;

export function setFollow(on: boolean): void {
  state.follow = on;
  showFollow();
  announce(on ? (inReplay() ? "Following the replay" : "Following live") : "View frozen; data keeps coming");
  state.dirty = true;
}

export function spans(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-span]")) {
    button.setAttribute("aria-pressed", String(Math.abs(Number(button.dataset["span"]) * 1e6 - state.span) < 1000));
  }
}

/** Zooms around a time; while following, around the right edge. */
export function zoom(factor: number, around: number): void {
  const next = Math.min(Math.max(state.span * factor, MIN_SPAN_US), MAX_SPAN_US);
  if (!state.follow) {
    state.view = spanned(state.view, next, around);
  }
  state.span = next;
  spans();
  state.dirty = true;
}

export function pan(us: number): void {
  if (state.follow) setFollow(false);
  state.view = { from: state.view.from + us, to: state.view.to + us };
  state.dirty = true;
}

export function setSpan(us: number): void {
  state.span = us;
  if (!state.follow) state.view = { from: state.view.to - us, to: state.view.to };
  spans();
  state.dirty = true;
}

export function setView(from: number, to: number): void {
  setFollow(false);
  const middle = (from + to) / 2;
  state.span = Math.max(to - from, MIN_SPAN_US);
  state.view = { from: middle - state.span / 2, to: middle + state.span / 2 };
  spans();
}

export function setCursor(time: number | undefined, spoken: boolean): void {
  state.cursor = time;
  state.hover = undefined;
  state.dirty = true;
  if (!spoken || time === undefined) return;
  const flow = drawn()[0];
  const values = flow === undefined ? undefined : read(flow, panels[0], 0, time, flows.all.get(flow.id)?.row);
  if (values === undefined) announce(`${timeText(time, 3)}: nothing known`);
  else announce(`${timeText(time, 3)}: cwnd ${values.cwnd}, ssthresh ${values.ssthresh}, throughput ${values.rate}, srtt ${values.srtt}, in flight ${values.inFlight}, ${values.state}, limited by ${values.limit}`);
}

/** Shows everything since the start of the observation. */
export function fitAll(): void {
  setSpan(Math.min(Math.max(newest(), 1e6), MAX_SPAN_US));
  setFollow(true);
}

/** Goes to an event: centres it if it is not in the view. */
export function goTo(event: EventData): void {
  const time = event[E.TIME];
  if (isSingle(state.mode) && state.focus !== event[E.FLOW] && flows.all.has(event[E.FLOW])) setFocus(event[E.FLOW]);
  setFollow(false);
  if (time < state.view.from || time > state.view.to) state.view = { from: time - state.span / 2, to: time + state.span / 2 };
  setCursor(time, false);
  const { what, why } = describe(event, state.session);
  announce(`${timeText(time, 3)}: ${what} ${why}, ${event[E.PLACE]}`);
}

export function nextEvent(back: boolean): void {
  const store = stores.get(state.focus ?? "");
  if (store === undefined) return;
  const from = state.cursor ?? state.view.to;
  const found = back ? [...store.events].reverse().find((e) => e[E.TIME] < from - 1) : store.events.find((e) => e[E.TIME] > from + 1);
  if (found !== undefined) goTo(found);
}

export function toggleClock(): void {
  state.byClock = !state.byClock;
  put(el("clock"), state.byClock ? "Clock" : "Elapsed");
  events.touch();
  state.dirty = true;
}

/** Returns to the start: the newest half minute. */
export function goLive(): void {
  setSpan(DEFAULT_SPAN_US);
  setFollow(true);
}

/** Moves the cursor by pixels, and freezes the view so that it stays. */
export function moveCursor(pixels: number): void {
  const width = panels[0]?.edges.width ?? 1000;
  const wide = state.view.to - state.view.from;
  if (state.follow) setFollow(false);
  const time = Math.min(Math.max((state.cursor ?? state.view.to) + (pixels / width) * wide, state.view.from), state.view.to);
  setCursor(time, true);
}

for (const button of document.querySelectorAll<HTMLButtonElement>("[data-span]")) {
  button.addEventListener("click", () => setSpan(Number(button.dataset["span"]) * 1e6));
}
el("span-all").addEventListener("click", fitAll);
el("pause").addEventListener("click", () => setFollow(!state.follow));
el("clock").addEventListener("click", toggleClock);
spans();
