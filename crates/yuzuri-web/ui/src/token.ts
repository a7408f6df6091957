// The token that the page shows at each request. It came in the address's fragment, which a browser sends to nobody, and is
// kept for this tab and this origin: host *and* port. A cookie would go to all ports of the host, so to other users' servers.

import type { PanelKind } from "./drawn";

const KEY = "yuzuri-token";

/** The token of an address, in its fragment or, as older addresses have it, in its query. */
export function tokenIn(hash: string, search: string): string | undefined {
  const found = [hash, search].flatMap((part) => part.replace(/^[#?]/, "").split("&")).find((pair) => pair.startsWith("token="));
  const token = found?.slice("token=".length);
  return token !== undefined && /^[0-9A-Za-z_-]{1,128}$/.test(token) ? token : undefined;
}

const VIEWS = new Map<string, PanelKind>([["one", "one"], ["sequence", "seq"], ["overlay", "over"], ["multiples", "small"]]);

/** How the address wants flows to be shown at first (`--view`). */
export function viewIn(hash: string): PanelKind | undefined {
  const found = hash.replace(/^#/, "").split("&").find((pair) => pair.startsWith("view="));
  return VIEWS.get(found?.slice("view=".length) ?? "");
}

let known: string | undefined;

/** Takes the token out of the address bar, and so out of what is bookmarked or copied; whether there was one. */
export function takeToken(): boolean {
  const token = tokenIn(location.hash, location.search);
  if (token === undefined) return false;
  known = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // A browser that keeps nothing: it lasts until the page is loaded anew.
  }
  window.history.replaceState(null, "", location.pathname);
  return true;
}

/** What a request carries. */
export function credentials(): Record<string, string> {
  try {
    known ??= sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    // As above.
  }
  return known === undefined ? {} : { Authorization: `Bearer ${known}` };
}
