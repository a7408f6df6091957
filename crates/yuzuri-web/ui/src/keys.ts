// Keyboard commands.
import { choose, setMode, step } from "./choice";
import { announce, el } from "./dom";
import { openHelp, toggleTheme } from "./help";
import { list } from "./lists";
import { openNumbers } from "./numbers";
import { csv, png } from "./save";
import { setSide, toggleSide } from "./sharing";
import { inReplay, state } from "./state";
import { fitAll, goLive, moveCursor, nextEvent, pan, setCursor, setFollow, toggleClock, zoom } from "./view";

/** The controls next to the list of flows cannot be used while sharing is shown. */
function focusIn(id: string): void {
  if (el("side-flows").hidden) setSide("flows");
  el(id).focus();
}

const KEYS: Record<string, (event: KeyboardEvent) => void> = {
  j: () => step(1),
  k: () => step(-1),
  x: () => state.focus !== undefined && choose(state.focus, !state.chosen.has(state.focus)),
  "1": () => setMode("one"),
  "2": () => setMode("over"),
  "3": () => setMode("small"),
  "4": () => setMode("seq"),
  " ": () => {
    if (inReplay() && state.follow) el("replay-play").click();
    else setFollow(!state.follow);
  },
  a: fitAll,
  l: () => setFollow(true),
  ArrowLeft: (event) => moveCursor(event.shiftKey ? -40 : -2),
  ArrowRight: (event) => moveCursor(event.shiftKey ? 40 : 2),
  Home: () => setCursor(state.view.from, true),
  End: () => setCursor(state.view.to, true),
  "[": () => pan(-0.25 * state.span),
  "]": () => pan(0.25 * state.span),
  "+": () => zoom(1 / 1.5, state.cursor ?? (state.view.from + state.view.to) / 2),
  "=": () => zoom(1 / 1.5, state.cursor ?? (state.view.from + state.view.to) / 2),
  "-": () => zoom(1.5, state.cursor ?? (state.view.from + state.view.to) / 2),
  "0": goLive,
  n: () => nextEvent(false),
  N: () => nextEvent(true),
  "/": () => focusIn("find"),
  f: () => focusIn("filter"),
  s: () => {
    announce(`Sorted by ${list.sortNext()}`);
    state.listDirty = true;
  },
  g: toggleSide,
  i: openNumbers,
  w: toggleClock,
  t: toggleTheme,
  p: png,
  c: csv,
  "?": openHelp,
  Escape: () => setCursor(undefined, false),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
  const target = event.target;
  const typing = target instanceof HTMLInputElement && target.type !== "checkbox";
  if (typing || target instanceof HTMLSelectElement) {
    if (event.key === "Escape" && target instanceof HTMLElement) target.blur();
    return;
  }
  // Space presses a button that has the focus, as everywhere.
  if ((event.key === " " || event.key === "Enter") && (target instanceof HTMLButtonElement || target instanceof HTMLInputElement)) return;
  const scrolls = target instanceof HTMLElement && target.id === "events" && ["ArrowLeft", "ArrowRight", "Home", "End", " "].includes(event.key);
  const inList = target instanceof HTMLTableRowElement;
  const act = inList && event.key === "ArrowDown" ? () => step(1) : inList && event.key === "ArrowUp" ? () => step(-1) : KEYS[event.key];
  if (act === undefined || scrolls) return;
  event.preventDefault();
  act(event);
});
