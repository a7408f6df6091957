// Where sharing begins for the flows in the chart.
import { charted } from "./charted";
import { byDaemon, byRecords, type Begins } from "./since";
import { flows, state } from "./state";
import { R } from "./wire";

/** From the daemon's answers, or else (in a recording, or in a page that was opened later) from the
 * records. */
export function sharingBegins(): Begins | undefined {
  if (state.sharingSince !== undefined) return byDaemon(state.sharingSince);
  const known = charted().map((id) => flows.all.get(id)).filter((flow) => flow !== undefined);
  return byRecords(known.map(({ who, row }) => ({ first: who.first, bound: (row[R.BOUND_SINCE] ?? null) as number | null })));
}
