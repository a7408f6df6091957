// The buttons that save the view.
import { panels } from "./chart";
import { charted, drawnOf } from "./charted";
import { announce, el } from "./dom";
import { isSingle } from "./drawn";
import { csvOf, saveCsv, savePng } from "./export";
import { clock, counted } from "./format";
import { flows, state } from "./state";
import { flowLetter } from "./theme";
import { zero } from "./time";

export function png(): void {
  const names = charted().map((id) => flows.all.get(id)).filter((flow) => flow !== undefined);
  const head = isSingle(state.mode) && names[0] !== undefined ? `${names[0].who.local} → ${names[0].who.remote} · ${names[0].who.control}` : `${counted(names.length, "flow")}${state.mode === "over" ? `: ${names.map((flow, n) => `${flowLetter(n)} ${flow.name}`).join(", ")}` : ""}`;
  const account = state.status === undefined || state.status.seen === null ? "" : ` · seen ${state.status.seen} = kept ${state.status.kept ?? 0} + lost ${state.status.lost ?? 0}`;
  const foot = `${clock(zero() + state.view.from, 3)} to ${clock(zero() + state.view.to, 3)} · ${state.session?.host ?? ""} ${state.session?.kernel ?? ""}${state.session?.source === "sampled" ? " · sampled" : ""}${account} · Yuzuri ${state.session?.yuzuri ?? ""}`;
  savePng(panels.map((panel, n) => ({ panel, title: state.mode === "small" && names[n] !== undefined ? names[n].name : "" })), head, foot, zero() + state.view.to);
  announce("Picture saved");
}
export function csv(): void {
  const drawn = charted().flatMap((id) => {
    const flow = flows.all.get(id);
    const known = drawnOf(id);
    return flow === undefined || known === undefined ? [] : [{ ...known, local: flow.who.local, remote: flow.who.remote }];
  });
  const pixel = (state.view.to - state.view.from) / Math.max(panels[0]?.edges.width ?? 1000, 1);
  saveCsv(csvOf(drawn, state.view, pixel, zero()), zero() + state.view.to);
  announce("Data saved");
}
el("png").addEventListener("click", png);
el("csv").addEventListener("click", csv);
