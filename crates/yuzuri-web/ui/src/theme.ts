// Dark and light. Canvases take their colours from the style sheet's custom properties.

let cache = new Map<string, string>();

/** The value of a colour's custom property. */
export function color(name: string): string {
  let value = cache.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    cache.set(name, value);
  }
  return value;
}

/** Colours of flows laid over each other (Okabe and Ito's, adapted to each ground), and dashes to distinguish them without colours. */
export const FLOW_DASHES: number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [14, 4], [2, 6], [6, 2, 2, 2, 2, 2]];
export const flowColor = (n: number): string => color(`--flow-${n % 8}`);
export const flowDash = (n: number): number[] => FLOW_DASHES[Math.floor(n / 8 + n) % FLOW_DASHES.length];
export const flowLetter = (n: number): string => String.fromCharCode(65 + (n % 26));

/** A flow's letter in its colour, for tables. */
export function letterMark(n: number): HTMLElement {
  const letter = document.createElement("span");
  letter.className = "letter";
  letter.textContent = flowLetter(n);
  letter.style.color = `var(--flow-${n % 8})`;
  return letter;
}

const KEY = "yuzuri-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
}

/** Follows the system; `changed` is called after each change. Returns the function to call after a
 * change from elsewhere. */
export function followTheme(changed: () => void): () => void {
  const refresh = (): void => {
    cache = new Map();
    changed();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  return refresh;
}

/** Follows the system until the reader chooses; `changed` is called after each change. */
export function startTheme(changed: () => void): () => void {
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset["theme"] = chosen;
  const refresh = followTheme(changed);
  return () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // A browser without storage still shows it now.
    }
    refresh();
  };
}
