// The button that freezes the view, or lets it follow the newest data again.
import { el, put } from "./dom";
import { inReplay, state } from "./state";

/** In a replay there is another button for halting, so this one is there only while the view is frozen. */
export function showFollow(): void {
  const button = el("pause");
  const replay = inReplay();
  // Its words change, so it is not a button that stays pressed.
  put(button, state.follow ? "Pause" : replay ? "Follow" : "Go live");
  button.hidden = replay && state.follow;
  button.classList.toggle("frozen", !state.follow);
}
