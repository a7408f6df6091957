// What passes between the page and the server: wishes, a lost connection, a replay.
import assert from "node:assert/strict";
import { feed, ready, text, until } from "./browser.mjs";
import { line, open, shots, test } from "./session.mjs";

test("the filter is asked for and its error is shown below it", async (url) => {
  const page = await open(url);
  page.expected = /status of 4\d\d/;
  await ready(page);
  await page.fill("#filter", "prot:80");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#filter-error").textContent.includes("prot:80"));
  const [box, error] = [await page.locator("#filter").boundingBox(), await page.locator("#filter-error").boundingBox()];
  assert.ok(error.y >= box.y + box.height);
  assert.equal(await page.getAttribute("#filter", "aria-invalid"), "true");
  await page.context().close();
});

test("nothing yet, losses, sampled, lost connection and its return", async () => {
  const empty = await feed("--flows", "0");
  let page = await open(empty.url);
  page.expected = /ERR_|Failed to load/;
  await until(page, () => document.querySelector("#empty h2")?.textContent === "No flows yet");
  if (shots) await page.screenshot({ path: `${shots}/empty.png` });
  await page.context().close();
  empty.child.kill();

  const { child, url } = await feed("--flows", "4", "--past", "20", "--lossy", "--sampled");
  page = await open(url);
  page.expected = /ERR_|Failed to load/;
  await ready(page);
  await until(page, () => document.querySelector("#account").classList.contains("lossy"));
  assert.match(await text(page, "#account"), /seen .* = kept .* \+ lost \d+.*ring-full/);
  assert.ok(await page.locator("#source").isVisible());
  child.kill();
  await until(page, () => document.querySelector("#link").textContent === "lost" && !document.querySelector("#banner").hidden);
  if (shots) await page.screenshot({ path: `${shots}/lost.png` });
  const back = await feed("--flows", "4", "--past", "20", "--port", new URL(url).port);
  await until(page, () => document.querySelector("#link").textContent === "live" && document.querySelector("#banner").hidden);
  // It draws again.
  await line(page, "--cwnd", 100);
  await page.context().close();
  back.child.kill();
}, "own");

test("a replay can be halted, sped up and moved", async () => {
  const { child, url } = await feed("--flows", "4", "--replay", "120");
  const page = await open(url);
  await ready(page);
  await until(page, () => !document.querySelector("#replay").hidden);
  await page.click("#replay-play");
  await until(page, () => document.querySelector("#replay-play").textContent === "Play");
  await page.selectOption("#replay-speed", "10");
  await page.locator("#replay-seek").evaluate((input) => {
    input.value = "500";
    input.dispatchEvent(new Event("change"));
  });
  await until(page, () => document.querySelector("#replay-time").textContent.startsWith("1:00 / 2:00"));
  // The past before the new place is drawn.
  await line(page, "--cwnd", 100);
  if (shots) await page.screenshot({ path: `${shots}/replay.png` });
  await page.click("#replay-play");
  await until(page, () => Number.parseInt(document.querySelector("#replay-time").textContent.split(":")[0], 10) >= 1 && !document.querySelector("#replay-time").textContent.startsWith("1:00"));
  await page.context().close();
  child.kill();
}, "own");
