// A dialog with all numbers of the focused flow's newest record, as in a recording.
import { el, put } from "./dom";
import { whole } from "./format";
import { numbers, type NumberOfRecord } from "./live";
import { flows, state } from "./state";

/** Pause between two requests while the dialog is open. */
const PAUSE_MS = 1000;
const dialog = el<HTMLDialogElement>("numbers");
const body = el("numbers-body");
let timer: number | undefined;

/** A number as the table shows it. */
export const cell = (number: NumberOfRecord): string => (number.value === null ? number.missing || "unknown" : `${whole(number.value)} ${number.unit}`);

function show(list: readonly NumberOfRecord[]): void {
  if (body.children.length !== list.length) {
    body.replaceChildren(
      ...list.map((number) => {
        const row = document.createElement("tr");
        for (const text of [number.name, "", number.source]) row.append(Object.assign(document.createElement("td"), { textContent: text }));
        return row;
      }),
    );
  }
  list.forEach((number, n) => put(body.children[n]?.children[1], cell(number)));
}

async function ask(): Promise<void> {
  const id = state.focus;
  if (id === undefined || !dialog.open) return;
  put(el("numbers-title"), `All numbers of ${flows.all.get(id)?.name ?? id}`);
  try {
    show((await numbers(id)).numbers);
    put(el("numbers-trouble"), "");
  } catch (error) {
    put(el("numbers-trouble"), error instanceof Error ? error.message : String(error));
  }
  if (dialog.open) timer = window.setTimeout(() => void ask(), PAUSE_MS);
}

/** Opens the dialog for the focused flow. */
export function openNumbers(): void {
  if (state.focus === undefined || dialog.open) return;
  dialog.showModal();
  void ask();
}

dialog.addEventListener("close", () => window.clearTimeout(timer));
el("numbers-open").addEventListener("click", openNumbers);
