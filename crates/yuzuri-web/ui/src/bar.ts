// The bars at the top: the observed device, the account of records, the connection, the replay.
import { announce, el, put } from "./dom";
import { count, counted, elapsed, whole } from "./format";
import { showFollow } from "./follow";
import { inReplay, state } from "./state";
import { newest, timeText } from "./time";
import type { Session } from "./wire";

export function showSession(session: Session): void {
  el("host").textContent = session.host;
  el("kernel").textContent = `${session.kernel} · ${session.machine}`;
  el("kernel").title = session.kernel;
  document.title = `Yuzuri · ${session.host}`;
  const badge = el("source");
  badge.hidden = session.source !== "sampled";
  badge.textContent = "sampled";
  badge.title = "Polled from TCP_INFO instead of recorded at each event: changes between two polls appear only as a difference";
  const hooks = session.hooks.map((hook) => {
    const item = document.createElement("li");
    const name = document.createElement("code");
    name.textContent = hook.name;
    if (hook.state === "used") item.append(name, ` ${hook.provides}`);
    else {
      item.className = "missing";
      item.append(name, ` missing: ${hook.state.missing.why}; ${hook.state.missing.instead}`);
    }
    return item;
  });
  el("help-hooks").replaceChildren(...hooks);
  el<HTMLInputElement>("filter").title = session.filter_syntax;
}

/** The state of the view: live, a recording, or the data from before the connection was lost. */
function showPill(): void {
  const pill = el("link");
  const shown = state.link.state !== "open" ? state.link.state : inReplay() ? "replay" : "live";
  pill.className = `pill ${shown}`;
  put(pill, shown);
}

let linkTimer: number | undefined;
export function showLink(): void {
  window.clearInterval(linkTimer);
  const banner = el("banner");
  if (state.link.state === "lost") {
    const lost = state.link;
    const since = newest() > 0 ? ` What you see is from ${timeText(newest(), 0)}.` : "";
    // A screen reader announces each change, so the count of seconds is not in it.
    put(el("banner-why"), `${lost.again === undefined ? "Not connected" : "Connection lost"}: ${lost.why}.${since}`);
    const setTitle = (again: number): void => {
      const left = Math.max(Math.ceil((again - Date.now()) / 1000), 0);
      put(el("banner-again"), left > 0 ? `Trying again in ${left} s.` : "Trying again …");
    };
    banner.hidden = false;
    const { again } = lost;
    if (again === undefined) put(el("banner-again"), "");
    else {
      setTitle(again);
      linkTimer = window.setInterval(() => setTitle(again), 500);
    }
  } else {
    if (state.link.state === "open") banner.hidden = true;
  }
  showPill();
  state.dirty = true;
}

/** The account's parts: created once, since they change twice a second. */
const account = el("account");
const [seen, kept, lostCount] = ["b", "b", "b"].map((name) => document.createElement(name));
const accountMore = document.createElement("span");
const accountParts = ["seen ", seen, " = kept ", kept, " + lost ", lostCount, accountMore];

export function showStatus(): void {
  const { status } = state;
  if (status === undefined) return;
  const lost = status.lost ?? 0;
  const skipped = status.not_shown > 0 ? ` · page skipped ${count(status.not_shown)}` : "";
  if (status.seen === null || status.kept === null) {
    put(account, `no account yet${skipped}`);
  } else {
    if (accountMore.parentNode === null) account.replaceChildren(...accountParts);
    put(seen, whole(status.seen));
    put(kept, whole(status.kept));
    put(lostCount, whole(lost));
    put(accountMore, `${lost > 0 ? ` ▲ ${status.reasons.map(([why, n]) => `${why} ${count(n)}`).join(", ")}` : ""}${skipped}`);
  }
  if (lost > 0 && !account.classList.contains("lossy")) announce("Records were lost; the account says how many");
  account.classList.toggle("lossy", lost > 0);
  account.title =
    `Records due, kept and lost since the start. ${whole(status.thinned ?? 0)} more were merged into a later sample by the density.` +
    (status.not_shown > 0 ? ` ${whole(status.not_shown)} were not shown because a browser did not keep up; this does not affect recordings.` : "") +
    (status.forgotten > 0 ? ` Dropped from the table: ${counted(whole(status.forgotten), "old flow")}.` : "");
  const filter = el<HTMLInputElement>("filter");
  if (document.activeElement !== filter && filter.dataset["sent"] !== status.filter) {
    filter.value = status.filter;
    filter.dataset["sent"] = status.filter;
  }
  const density = el<HTMLSelectElement>("density");
  const interval = String(status.interval_us);
  if (document.activeElement !== density && density.value !== interval) {
    if (![...density.options].some((option) => option.value === interval)) density.add(new Option(`${status.interval_us / 1000} ms`, interval));
    density.value = interval;
  }
  showReplay();
}

function showReplay(): void {
  const replay = state.status?.replay ?? null;
  if (el("replay").hidden !== (replay === null)) {
    el("replay").hidden = replay === null;
    showPill();
    showFollow();
  }
  if (replay === null) return;
  const play = el("replay-play");
  const atEnd = replay.length_us > 0 && replay.position_us >= replay.length_us;
  put(play, replay.paused ? "Play" : atEnd ? "Ended" : "Pause");
  const seek = el<HTMLInputElement>("replay-seek");
  if (document.activeElement !== seek || !seek.matches(":active")) seek.value = String(Math.round((replay.position_us / Math.max(replay.length_us, 1)) * 1000));
  put(el("replay-time"), `${elapsed(replay.position_us, 0)} / ${elapsed(replay.length_us, 0)}`);
  seek.setAttribute("aria-valuetext", `${elapsed(replay.position_us, 0)} of ${elapsed(replay.length_us, 0)}`);
  const choice = el<HTMLSelectElement>("replay-speed");
  if (document.activeElement !== choice) {
    const value = String(replay.speed);
    if (![...choice.options].some((option) => option.value === value)) choice.add(new Option(`${value}×`, value));
    choice.value = value;
  }
}
