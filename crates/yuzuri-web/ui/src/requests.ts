// The reader's requests to the server: another filter, another density, another position in a
// replay.
import { announce, el } from "./dom";
import { Refusal, request } from "./live";
import { state } from "./state";

async function post(path: string, body: unknown, error: HTMLElement): Promise<boolean> {
  error.textContent = "";
  try {
    await request(path, body);
    return true;
  } catch (problem) {
    error.textContent = problem instanceof Refusal ? problem.message : "The server does not answer; nothing was changed.";
    return false;
  }
}

el<HTMLFormElement>("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const box = el<HTMLInputElement>("filter");
  void post("/api/filter", { filter: box.value.trim() }, el("filter-error")).then((done) => {
    box.setAttribute("aria-invalid", String(!done));
    if (done) {
      box.dataset["sent"] = box.value.trim();
      announce("Filter applied");
    }
  });
});
el<HTMLSelectElement>("density").addEventListener("change", (event) => {
  const choice = event.target as HTMLSelectElement;
  void post("/api/density", { interval_us: Number(choice.value) }, el("filter-error")).then((done) => {
    if (!done) choice.value = String(state.status?.interval_us ?? choice.value);
    choice.blur();
  });
});
el("replay-play").addEventListener("click", () => void post("/api/replay", { paused: !(state.status?.replay?.paused ?? false) }, el("replay-error")));
el<HTMLSelectElement>("replay-speed").addEventListener("change", (event) => {
  const choice = event.target as HTMLSelectElement;
  void post("/api/replay", { speed: Number(choice.value) }, el("replay-error"));
  choice.blur();
});
el<HTMLInputElement>("replay-seek").addEventListener("change", (event) => {
  const part = Number((event.target as HTMLInputElement).value) / 1000;
  void post("/api/replay", { position_us: Math.round(part * (state.status?.replay?.length_us ?? 0)) }, el("replay-error"));
});
