// The button that freezes the view, or lets it follow the newest data again.
import { el, put } from "./dom";
import { inReplay, state } from "./state";

/** A replay has its own button to pause, so this one is shown only while the view is frozen. */
export function showFollow(): void {
  const button = el("pause");
  const replay = inReplay();
  // Its label changes, so it is not a toggle button.
  put(button, state.follow ? "Pause" : replay ? "Follow" : "Go live");
  button.hidden = replay && state.follow;
  button.classList.toggle("frozen", !state.follow);
}
