// The token that the page sends with each request. The address's fragment, which a browser does not
// send, contains it, and the page stores it for this tab and this origin: host *and* port. A
// browser would send a cookie to all ports of the host, and so to other users' servers.

import type { PanelKind } from "./drawn";

const KEY = "yuzuri-token";

/** The token of an address, in its fragment or, as in older addresses, in its query. */
export function tokenIn(hash: string, search: string): string | undefined {
  const found = [hash, search].flatMap((part) => part.replace(/^[#?]/, "").split("&")).find((pair) => pair.startsWith("token="));
  const token = found?.slice("token=".length);
  return token !== undefined && /^[0-9A-Za-z_-]{1,128}$/.test(token) ? token : undefined;
}

const VIEWS = new Map<string, PanelKind>([["one", "one"], ["sequence", "seq"], ["overlay", "over"], ["multiples", "small"]]);

/** The initial view that the address asks for (`--view`). */
export function viewIn(hash: string): PanelKind | undefined {
  const found = hash.replace(/^#/, "").split("&").find((pair) => pair.startsWith("view="));
  return VIEWS.get(found?.slice("view=".length) ?? "");
}

let known: string | undefined;

/** Removes the token from the address bar, and so from bookmarks and copies; returns whether there
 * was one. */
export function takeToken(): boolean {
  const token = tokenIn(location.hash, location.search);
  if (token === undefined) return false;
  known = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // A browser without storage: the token lasts until the page is reloaded.
  }
  window.history.replaceState(null, "", location.pathname);
  return true;
}

/** The headers of a request. */
export function credentials(): Record<string, string> {
  try {
    known ??= sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    // As above.
  }
  return known === undefined ? {} : { Authorization: `Bearer ${known}` };
}
