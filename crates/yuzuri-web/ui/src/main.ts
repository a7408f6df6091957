// The page: combines its parts, and draws them in turn with the screen.
import "./main.css";
import { refresh as askBottlenecks } from "./bottlenecks";
import { chart, draw, pixelUs } from "./chart";
import { beginWith, choose, setFocus } from "./choice";
import { isSingle } from "./drawn";
import "./keys";
import { events, list, updateLists } from "./lists";
import { live } from "./live";
import "./pointers";
import { listener, loadSession } from "./server";
import { refresh as askSharing } from "./sharing";
import { flows, state } from "./state";
import { BEHIND_US, now, speed } from "./time";
import { takeToken, viewIn } from "./token";
import { goTo } from "./view";
import "./requests";

/** Pause between two updates of the lists, ms. */
const LISTS_PAUSE_MS = 200;
/** Several charts are drawn in at most this part of the time, and at least a dozen times a second.
 * The browser's work on a drawing delays the next frame, and counts. */
const DRAWING_PART = 1 / 3;
const MAX_PAUSE_MS = 80;
const FRAME_MS = 17;

let lastLists = 0;
let lastDrawn = 0;
/** How long the last drawing took, ms. */
let tookMs = 0;
let hasDrawn = false;
function frame(at: number): void {
  window.requestAnimationFrame(frame);
  if (hasDrawn) tookMs = Math.max(tookMs, at - lastDrawn - FRAME_MS);
  hasDrawn = false;
  if (state.listDirty && at - lastLists > LISTS_PAUSE_MS) {
    state.listDirty = false;
    lastLists = at;
    updateLists();
    // The chart gets the next frame: both would exceed a frame's time.
    return;
  }
  // A following view is redrawn once it has moved by a pixel: less is invisible and costs as much.
  const moves = state.follow && state.link.state === "open" && speed() > 0 && flows.all.size > 0 && now() - BEHIND_US - state.view.to >= pixelUs();
  if (!state.dirty && !moves) return;
  if (!isSingle(state.mode) && at - lastDrawn < Math.min(tookMs / DRAWING_PART, MAX_PAUSE_MS)) return;
  state.dirty = false;
  lastDrawn = at;
  const begun = performance.now();
  draw();
  tookMs = performance.now() - begun;
  hasDrawn = true;
}

list.onFocus = (id) => {
  setFocus(id);
  // If the list comes first, the chart is out of sight.
  if (window.innerWidth <= 860) chart.scrollIntoView({ block: "nearest" });
};
list.onChoice = choose;
list.onFold = () => {
  state.listDirty = true;
};
events.onChoice = goTo;
const view = viewIn(location.hash);
takeToken();
if (view !== undefined) beginWith(view);
live.start(listener);
void loadSession();
void askSharing();
void askBottlenecks();
window.requestAnimationFrame(frame);
