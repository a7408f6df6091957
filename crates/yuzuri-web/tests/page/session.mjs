// Shared by all checks: one browser, the folder for screenshots, and helpers that read the page.
import { mkdirSync } from "node:fs";
import { eventually, launch, open as openIn } from "./browser.mjs";

export const browser = await launch();
export const open = (url, options) => openIn(browser, url, options);

/** Folder for screenshots, if requested. */
export const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

/** Checks in order; `only` is "own" for a check that starts its own feeds and needs no address. */
export const tests = [];
export const test = (name, run, only) => tests.push({ name, run, only });

/** A value from the line above the chart. */
export const value = (page, key) => page.locator(`[data-value="${key}"]`).textContent();

/** Number of pixels of the chart's lanes that are close to a colour. */
export function near(page, name) {
  return page.evaluate((property) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${property})`;
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    let n = 0;
    for (const canvas of document.querySelectorAll(".lanes .lane canvas")) {
      const copy = document.createElement("canvas");
      copy.width = canvas.width;
      copy.height = canvas.height;
      const c = copy.getContext("2d", { willReadFrequently: true });
      c.drawImage(canvas, 0, 0);
      const { data } = c.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24) n += 1;
      }
    }
    return n;
  }, name);
}

/** Waits until a line of a colour is drawn: more than `pixels` pixels of it. */
export const line = (page, name, pixels = 150) => eventually(page, () => near(page, name), (found) => found > pixels);
