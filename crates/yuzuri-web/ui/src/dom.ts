// The page's own elements.

/** An element of `index.html`. */
export function el<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Changes the text of an element that contains only text, if it differs. The text node is reused:
 * `textContent` would create a new one each time, hundreds a second in a long list. */
export function put(element: Element | null | undefined, text: string): void {
  if (element === null || element === undefined) return;
  const only = element.firstChild;
  if (only instanceof Text && only.nextSibling === null) {
    if (only.data !== text) only.data = text;
  } else if (element.textContent !== text) {
    element.textContent = text;
  }
}

export const svg = <K extends keyof SVGElementTagNameMap>(name: K): SVGElementTagNameMap[K] => document.createElementNS("http://www.w3.org/2000/svg", name);

/** Announces the reader's last action to a screen reader; the same text is announced again. */
export const announce = (text: string): void => {
  el("announcement").textContent = text;
};
