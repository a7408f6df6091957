// The page and the server: requests, a lost connection, a replay.
import assert from "node:assert/strict";
import { feed, ready, text, until } from "./browser.mjs";
import { line, open, shots, test } from "./session.mjs";

test("the filter is sent to the server and its error is shown below it", async (url) => {
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
  // Another server has another token: the page reports that and stops retrying.
  await until(page, () => document.querySelector("#banner-why").textContent.includes("open the address that yuzuri printed"));
  assert.equal(await text(page, "#banner-again"), "");
  // Only the fragment differs, so the browser does not reload the page.
  await page.evaluate(() => (window.sameDocument = true));
  await page.goto(back.url);
  assert.ok(await page.evaluate(() => window.sameDocument));
  await until(page, () => document.querySelector("#link").textContent === "live" && document.querySelector("#banner").hidden);
  // The chart is drawn again.
  await line(page, "--cwnd", 100);
  await page.context().close();
  back.child.kill();
}, "own");

test("the token leaves the address bar, is in no cookie, and lasts for the tab", async (url) => {
  const { origin, hash } = new URL(url);
  assert.match(hash, /^#token=[0-9a-f]{32}$/);
  const asked = [];
  const page = await open(url);
  page.on("request", (request) => asked.push(request));
  await ready(page);
  assert.equal(await page.evaluate(() => location.href), `${origin}/`);
  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => location.href), `${origin}/`);
  assert.deepEqual(await page.context().cookies(), []);
  assert.equal(await page.evaluate(() => document.cookie), "");
  const token = hash.slice("#token=".length);
  for (const request of asked) {
    const headers = await request.allHeaders();
    assert.ok(!request.url().includes(token) && headers.cookie === undefined && !(headers.referer ?? "").includes(token), request.url());
    assert.equal(headers.authorization, new URL(request.url()).pathname.startsWith("/api/") ? `Bearer ${token}` : undefined);
  }
  assert.ok(asked.some((request) => request.url().includes("/api/live")));
  await page.context().close();
  // Older versions had the token in the address's query.
  const older = await open(`${origin}/?token=${token}`);
  await ready(older);
  assert.equal(await older.evaluate(() => location.href), `${origin}/`);
  await older.context().close();
});

test("without the token it says what to do", async (url) => {
  const { origin } = new URL(url);
  const page = await open(`${origin}/`, { expected: /status of 401/ });
  await until(page, () => !document.querySelector("#banner").hidden);
  assert.match(await text(page, "#banner-why"), /^Not connected: a token is needed: open the address that yuzuri printed/);
  assert.equal(await page.locator("tr.flow").count(), 0);
  await page.context().close();
});

test("an address that asks for it begins with all flows in one chart, their sum, fairness and RTT", async () => {
  const { child, url } = await feed("--flows", "8");
  const page = await open(`${url}&view=overlay`);
  await ready(page);
  await until(page, () => document.querySelectorAll(".readout .rows tbody tr").length === 8);
  assert.equal(await page.getAttribute('[data-mode="over"]', "aria-pressed"), "true");
  await until(page, () => {
    const [rate, jain, rtt] = [...document.querySelectorAll(".tiles dd:not(.past)")].map((value) => value.textContent);
    return /^[\d.]+ .?bit\/s$/.test(rate) && Number(jain) > 0.125 && Number(jain) <= 1 && / m?s$/.test(rtt);
  });
  // Names are unique, and no element overlaps the table or the chart.
  const names = await page.locator(".readout .rows tbody td:first-child span:last-child").allTextContents();
  assert.equal(new Set(names).size, 8, names.join(", "));
  const [readout, chart] = [await page.locator("#readout").boundingBox(), await page.locator("#chart").boundingBox()];
  assert.ok(readout.y + readout.height <= chart.y);
  await page.setViewportSize({ width: 1280, height: 860 });
  const rows = page.locator(".readout .rows");
  assert.ok(await rows.evaluate((e) => e.scrollWidth <= e.clientWidth), "no column is cut at 1280");
  await page.context().close();
  child.kill();
}, "own");

test("a replay can be halted, sped up and moved", async () => {
  const { child, url } = await feed("--flows", "4", "--replay", "120");
  const page = await open(url);
  await ready(page);
  await until(page, () => !document.querySelector("#replay").hidden);
  // The page shows no live state, and has one button for pausing.
  assert.equal(await text(page, "#link"), "replay");
  assert.equal(await page.locator("#pause").isVisible(), false);
  await page.click("#replay-play");
  await until(page, () => document.querySelector("#replay-play").textContent === "Play");
  await page.selectOption("#replay-speed", "10");
  await page.locator("#replay-seek").evaluate((input) => {
    input.value = "500";
    input.dispatchEvent(new Event("change"));
  });
  await until(page, () => document.querySelector("#replay-time").textContent.startsWith("1:00 / 2:00"));
  // Data before the new position is drawn.
  await line(page, "--cwnd", 100);
  if (shots) await page.screenshot({ path: `${shots}/replay.png` });
  await page.click("#replay-play");
  await until(page, () => Number.parseInt(document.querySelector("#replay-time").textContent.split(":")[0], 10) >= 1 && !document.querySelector("#replay-time").textContent.startsWith("1:00"));
  await page.context().close();
  child.kill();
}, "own");
