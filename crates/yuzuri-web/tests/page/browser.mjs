// Starts Chromium and the artificial feed; helpers shared by all tests of the page.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGS });

const feeds = [];
/** Starts an artificial feed (FEED=path of its binary); returns its process and address. */
export async function feed(...flags) {
  const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../../target", import.meta.url));
  const binary = process.env.FEED ?? [`${target}/release/examples/feed`, `${target}/debug/examples/feed`].find(existsSync);
  if (!binary) throw new Error("no feed: run `cargo build --release -p yuzuri-web --example feed`, or give a URL");
  const child = spawn(binary, flags, { stdio: ["ignore", "pipe", "inherit"] });
  feeds.push(child);
  const url = await new Promise((resolve, reject) => {
    child.stdout.once("data", (data) => resolve(String(data).trim()));
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the feed ended with ${code}`)));
  });
  return { child, url };
}
export function endFeeds() {
  for (const child of feeds) child.kill();
}

/** Errors and warnings on the consoles of all pages, and exceptions. */
export const problems = [];
/** Opens a page; `expected` matches console messages that are not counted as problems. */
export async function open(browser, url, { expected, ...options } = {}, prepare = undefined) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "dark", acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.expected = expected;
  if (prepare) await page.addInitScript(prepare);
  page.on("console", (m) => {
    // The browser, too, reports the connection that a test interrupts.
    if (["error", "warning"].includes(m.type()) && !page.expected?.test(m.text())) problems.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => problems.push(`exception: ${e.stack}`));
  await page.goto(url);
  return page;
}

export const ready = (page) => page.waitForFunction(() => document.querySelectorAll("tr.flow").length > 0 && document.querySelector(".lanes canvas") !== null);
/** Waits until `hold`, evaluated in the page, returns a true value. */
export const until = (page, hold, arg) => page.waitForFunction(hold, arg, { timeout: 20_000, polling: 50 });
/** Calls `ask` until `hold` returns true for its result, and returns that result; fails with the
 * last result after 20 s. */
export async function eventually(page, ask, hold) {
  for (const end = Date.now() + 20_000; ; await page.waitForTimeout(50)) {
    const now = await ask();
    if (hold(now)) return now;
    if (Date.now() > end) throw new Error(`${hold} does not come to hold: ${JSON.stringify(now)}`);
  }
}
/** Waits until the page has been redrawn, so that it shows the effects of earlier input. */
export const drawn = (page) =>
  page.evaluate(async () => {
    for (let n = 0; n < 3; n += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
  });
/** Waits until the server has sent new figures. */
export async function news(page) {
  const before = await text(page, "#account");
  await until(page, (old) => document.querySelector("#account").textContent !== old, before);
}
export const text = (page, selector) => page.locator(selector).first().textContent();

/** Live objects of the page after garbage collection: bytes of the heap, nodes (including detached
 * ones), listeners. */
export async function living(page) {
  page.cdp ??= await page.context().newCDPSession(page);
  // Objects that the first collection finalises are freed by the second.
  for (let n = 0; n < 2; n += 1) await page.cdp.send("HeapProfiler.collectGarbage");
  const { usedSize } = await page.cdp.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await page.cdp.send("Memory.getDOMCounters");
  return { heapBytes: usedSize, nodes, listeners: jsEventListeners };
}
