// The page in real Chromium against a real server.
//
//   node run.mjs [URL]            checks; without a URL it starts the made-up feed itself (FEED=path of its binary)
//   node run.mjs --load [URL]     frames per second and heap; best with 200 flows at 1000 samples/s
//
// SHOTS=folder keeps screenshots. MINUTES=n is how long --load looks at the heap (default 2).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { inflateSync } from "node:zlib";
import { chromium } from "playwright-core";

const args = process.argv.slice(2);
const load = args.includes("--load");
const given = args.find((arg) => arg.startsWith("http"));
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
const ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--js-flags=--expose-gc"];

const children = [];
async function feed(...flags) {
  const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../../target", import.meta.url));
  const binary = process.env.FEED ?? [`${target}/release/examples/feed`, `${target}/debug/examples/feed`].find(existsSync);
  if (!binary) throw new Error("no feed: run `cargo build --release -p yuzuri-web --example feed`, or give a URL");
  const child = spawn(binary, flags, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const url = await new Promise((resolve, reject) => {
    child.stdout.once("data", (data) => resolve(String(data).trim()));
    child.once("exit", (code) => reject(new Error(`the feed ended with ${code}`)));
  });
  return { child, url };
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGS });
const problems = [];
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "dark", acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.on("console", (m) => {
    // The lost connection of the test of it is told by the browser too.
    if (["error", "warning"].includes(m.type()) && !page.expected?.test(m.text())) problems.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => problems.push(`exception: ${e.stack}`));
  await page.goto(url);
  return page;
}
const ready = (page) => page.waitForFunction(() => document.querySelectorAll("tr.flow").length > 0 && document.querySelector(".lanes canvas") !== null);
/** Waits until `hold` of the page gives something true. */
const until = (page, hold, arg) => page.waitForFunction(hold, arg, { timeout: 20_000, polling: 50 });
const text = (page, selector) => page.locator(selector).first().textContent();
const value = (page, key) => page.locator(`[data-value="${key}"]`).textContent();

/** How many pixels of the chart's first canvas are near a colour. */
function near(page, name) {
  return page.evaluate((property) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${property})`;
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    const canvas = document.querySelector(".lanes canvas");
    const copy = document.createElement("canvas");
    copy.width = canvas.width;
    copy.height = canvas.height;
    const c = copy.getContext("2d", { willReadFrequently: true });
    c.drawImage(canvas, 0, 0);
    const { data } = c.getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24) n += 1;
    }
    return n;
  }, name);
}

/** A PNG's size and how many different colours are in it (8 bit RGB or RGBA, not interlaced). */
function png(file) {
  assert.equal(file.readUInt32BE(0), 0x89504e47);
  const [width, height, kind] = [file.readUInt32BE(16), file.readUInt32BE(20), file[25]];
  const parts = [];
  for (let at = 8; at < file.length; ) {
    const length = file.readUInt32BE(at);
    if (file.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(file.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  const raw = inflateSync(Buffer.concat(parts));
  assert.equal(raw.length, height * (width * (kind === 6 ? 4 : 3) + 1));
  return { width, height, bytes: file.length };
}

async function download(page, action) {
  const [file] = await Promise.all([page.waitForEvent("download"), action()]);
  return { name: file.suggestedFilename(), data: readFileSync(await file.path()) };
}

/** Relative luminance contrast (WCAG 2) of two custom properties. */
const contrast = (page, a, b) =>
  page.evaluate(([x, y]) => {
    const luminance = (name) => {
      const probe = document.createElement("i");
      probe.style.color = `var(${name})`;
      document.body.append(probe);
      const rgb = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map((v) => v / 255);
      probe.remove();
      const [r, g, bl] = rgb.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
    };
    const [l, m] = [luminance(x), luminance(y)].sort((p, q) => q - p);
    return (l + 0.05) / (m + 0.05);
  }, [a, b]);

const tests = [];
const test = (name, run, only) => tests.push({ name, run, only });

test("lines of both colours are drawn, in both themes with enough contrast", async (url) => {
  for (const colorScheme of ["dark", "light"]) {
    const page = await open(url, { colorScheme });
    await ready(page);
    await page.waitForTimeout(1500);
    assert.ok((await near(page, "--cwnd")) > 150, "light blue");
    assert.ok((await near(page, "--rate")) > 150, "pink");
    for (const name of ["--cwnd", "--rate", "--rtt", "--ssthresh", "--disorder", "--cwr", "--recovery", "--loss"]) {
      const by = await contrast(page, name, "--panel");
      assert.ok(by >= 3, `${name} on ${colorScheme}: ${by.toFixed(2)}`);
    }
    for (const name of ["--text", "--muted", "--cwnd-text", "--rate-text"]) {
      const by = await contrast(page, name, "--panel");
      assert.ok(by >= 4.5, `${name} on ${colorScheme}: ${by.toFixed(2)}`);
    }
    if (shots) await page.screenshot({ path: `${shots}/desktop-${colorScheme}.png` });
    await page.context().close();
  }
});

test("the list is sorted and found in", async (url) => {
  const page = await open(url);
  await ready(page);
  const numbers = async (cell) => (await page.locator(`tr.flow .${cell}`).allTextContents()).map((t) => Number.parseFloat(t) * (t.includes("k") ? 1e3 : 1));
  await page.getByRole("button", { name: "cwnd" }).click();
  await page.waitForTimeout(600);
  const all = await numbers("cwnd-cell");
  assert.equal(await page.locator('th[aria-sort="descending"]').textContent(), "cwnd");
  // Values move on between two sortings; the ends do not change places.
  assert.ok(all[0] >= all[all.length - 1]);
  await page.getByRole("button", { name: "cwnd" }).click();
  await page.waitForTimeout(600);
  const up = await numbers("cwnd-cell");
  assert.ok(up[0] <= up[up.length - 1]);
  const name = await page.locator("tr.flow .name").first().textContent();
  await page.fill("#find", name);
  await until(page, (n) => document.querySelectorAll("tr.flow").length >= 1 && [...document.querySelectorAll("tr.flow .name")].every((e) => e.textContent === n), name);
  await page.fill("#find", "no such flow");
  await until(page, () => document.querySelectorAll("tr.flow").length === 0);
  assert.match(await text(page, "#found"), /^0 of \d+/);
  await page.context().close();
});

test("the cursor reads what the server knows", async (url) => {
  const page = await open(url);
  await ready(page);
  await page.waitForTimeout(1500);
  await page.focus("#chart");
  await page.keyboard.press(" ");
  let checked = 0;
  for (let n = 0; n < 8; n += 1) {
    await page.keyboard.press("Shift+ArrowLeft");
    await page.waitForTimeout(80);
    const told = { cwnd: await value(page, "cwnd"), srtt: await value(page, "srtt"), at: await text(page, "#say") };
    const id = await page.locator('tr.flow[aria-selected="true"]').getAttribute("data-id");
    const last = Number.parseInt(told.cwnd, 10);
    const get = (path) => page.evaluate(async (p) => (await fetch(p)).json(), path);
    const session = await get("/api/session");
    const history = await get(`/api/flows/${id}/history?from=0&points=4096`);
    const shown = await page.evaluate(() => document.querySelector('[data-value="time"]').textContent);
    const near_ = [];
    for (let i = 0; i < history.buckets.length; i += 19) {
      const wall = new Date((session.started_unix_us + history.buckets[i]) / 1000);
      const [h, m, s] = shown.split(":").map(Number);
      const here = wall.getHours() * 3600 + wall.getMinutes() * 60 + wall.getSeconds() + wall.getMilliseconds() / 1000;
      if (Math.abs(here - (h * 3600 + m * 60 + s)) < 0.6) near_.push([history.buckets[i + 3], history.buckets[i + 4]]);
    }
    if (near_.length === 0) continue;
    const [low, high] = [Math.min(...near_.map((b) => b[0])), Math.max(...near_.map((b) => b[1]))];
    assert.ok(last >= low && last <= high, `cwnd ${told.cwnd} at ${shown}, the server says ${low} to ${high}`);
    assert.match(told.cwnd, / seg$/);
    assert.match(told.srtt, /ms|s/);
    assert.match(told.at, /cwnd .* throughput .* srtt/);
    checked += 1;
  }
  assert.ok(checked >= 4, `${checked} places could be compared`);
  await page.context().close();
});

test("pause freezes, zoom and drag choose, double click goes live", async (url) => {
  const page = await open(url);
  await ready(page);
  await page.waitForTimeout(800);
  await page.click("#pause");
  assert.equal(await text(page, "#pause"), "Go live");
  const box = await page.locator(".lanes").boundingBox();
  const at = (part, high = 0.3) => [box.x + 60 + (box.width - 120) * part, box.y + box.height * high];
  const picture = () => page.locator(".lanes canvas").first().evaluate((c) => c.toDataURL().length + c.toDataURL().slice(-4000));
  await page.mouse.move(...at(0.5));
  await page.waitForTimeout(300);
  const before = await picture();
  await page.waitForTimeout(900);
  assert.equal(await picture(), before, "a frozen view stays");
  const time = async (part) => {
    await page.mouse.move(...at(part));
    await page.waitForTimeout(150);
    const [h, m, s] = (await value(page, "time")).split(":").map(Number);
    return h * 3600 + m * 60 + s;
  };
  const wide = async () => (await time(0.95)) - (await time(0.05));
  const span = await wide();
  assert.ok(Math.abs(span - 27) < 1, `30 s are shown: ${span}`);
  await page.mouse.move(...at(0.5));
  await page.mouse.wheel(0, -120);
  await page.waitForTimeout(150);
  assert.ok((await wide()) < span * 0.9, "the wheel zooms in");
  await page.mouse.move(...at(0.4));
  await page.mouse.down();
  await page.mouse.move(...at(0.6), { steps: 5 });
  await page.mouse.up();
  await page.waitForTimeout(150);
  assert.ok((await wide()) < span * 0.25, "a drag chooses a stretch");
  const from = await time(0.5);
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(0.3));
  await page.mouse.down();
  await page.mouse.move(...at(0.6), { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  assert.ok((await time(0.5)) < from, "shift and drag move back");
  await page.mouse.dblclick(...at(0.5));
  assert.equal(await text(page, "#pause"), "Pause");
  await page.context().close();
});

test("PNG and CSV hold what is shown", async (url) => {
  const page = await open(url);
  await ready(page);
  await page.waitForTimeout(1500);
  const picture = await download(page, () => page.click("#png"));
  assert.match(picture.name, /^yuzuri-.*\.png$/);
  const { width, height, bytes } = png(picture.data);
  assert.ok(width > 1200 && height > 800 && bytes > 20_000, `${width}x${height}, ${bytes} bytes`);
  const file = await download(page, () => page.click("#csv"));
  const lines = file.data.toString().trim().split("\n");
  const head = lines[0].split(",");
  assert.ok(lines.length > 100, `${lines.length} lines`);
  const column = (name) => lines.slice(1).map((line) => line.split(",")[head.indexOf(name)]);
  const times = column("since_start_us").map(Number);
  assert.ok(times.every((t, n) => n === 0 || t >= times[n - 1]), "in order of time");
  assert.ok(times[times.length - 1] - times[0] <= 30.1e6);
  assert.ok(column("cwnd").every((c) => Number(c) >= 0) && column("throughput_bps").some((r) => Number(r) > 0));
  const id = await page.locator('tr.flow[aria-selected="true"]').getAttribute("data-id");
  assert.ok(column("flow").every((f) => f === id));
  await page.context().close();
});

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

test("all can be done by keyboard", async (url) => {
  const page = await open(url);
  await ready(page);
  const key = (k) => page.keyboard.press(k);
  const focused = () => page.locator('tr.flow[aria-selected="true"]').getAttribute("data-id");
  const first = await focused();
  await key("j");
  await until(page, (id) => document.querySelector('tr.flow[aria-selected="true"]')?.dataset.id !== id, first);
  await key("x");
  await until(page, () => document.querySelector('tr.flow[aria-selected="true"] input').checked);
  await key("2");
  await until(page, () => document.querySelectorAll(".panel-over canvas").length === 4);
  await page.waitForTimeout(700);
  if (shots) await page.screenshot({ path: `${shots}/overlay.png` });
  await key("3");
  await until(page, () => document.querySelectorAll(".panel-small").length >= 2);
  await page.waitForTimeout(900);
  if (shots) await page.screenshot({ path: `${shots}/small-multiples.png` });
  await key("1");
  await key(" ");
  assert.equal(await text(page, "#pause"), "Go live");
  await key("0");
  assert.equal(await text(page, "#pause"), "Pause");
  const shown = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await key("t");
  await until(page, (old) => getComputedStyle(document.body).backgroundColor !== old, shown);
  await key("?");
  assert.ok(await page.locator("#help").isVisible());
  if (shots) await page.screenshot({ path: `${shots}/help.png` });
  await key("Escape");
  assert.ok(!(await page.locator("#help").isVisible()));
  await key("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "find");
  await key("Escape");
  await key("n");
  assert.ok((await text(page, "#say")).length > 0);
  // Whatever has the focus shows it.
  for (let n = 0; n < 30; n += 1) {
    await key("Tab");
    const outline = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement === document.body ? "body" : style.outlineStyle;
    });
    assert.ok(outline !== "none", await page.evaluate(() => document.activeElement.outerHTML.slice(0, 120)));
  }
  await page.context().close();
});

test("on a phone nothing is wider than the screen", async (url) => {
  const page = await open(url, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await ready(page);
  await page.waitForTimeout(900);
  for (const mode of ["one", "over", "small"]) {
    await page.click(`[data-mode="${mode}"]`);
    await page.waitForTimeout(400);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${mode}: ${wide}`);
  }
  await page.click('[data-mode="one"]');
  await page.waitForTimeout(600);
  if (shots) await page.screenshot({ path: `${shots}/phone.png` });
  await page.context().close();
});

test("first paint within a second, page within 150 kB", async (url) => {
  const page = await open(url);
  await ready(page);
  const told = await page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
    bytes: performance.getEntriesByType("resource").filter((e) => /\.(js|css|svg)$/.test(e.name)).reduce((n, e) => n + e.encodedBodySize, performance.getEntriesByType("navigation")[0].encodedBodySize),
  }));
  console.log(`  first paint ${told.paint?.toFixed(0)} ms, ${told.bytes} bytes over the wire`);
  assert.ok(told.paint < 1000);
  assert.ok(told.bytes < 150_000);
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
  await page.waitForTimeout(800);
  assert.ok((await near(page, "--cwnd")) > 100, "it draws again");
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
  await page.waitForTimeout(900);
  assert.ok((await near(page, "--cwnd")) > 100, "the past before the new place is drawn");
  if (shots) await page.screenshot({ path: `${shots}/replay.png` });
  await page.click("#replay-play");
  await until(page, () => Number.parseInt(document.querySelector("#replay-time").textContent.split(":")[0], 10) >= 1 && !document.querySelector("#replay-time").textContent.startsWith("1:00"));
  await page.context().close();
  child.kill();
}, "own");

async function measure(url) {
  const page = await open(url);
  await ready(page);
  await page.waitForTimeout(3000);
  const frames = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const times = [];
        const frame = (at) => {
          times.push(at);
          if (times.length < 600) requestAnimationFrame(frame);
          else resolve(times.slice(1).map((t, n) => t - times[n]).sort((a, b) => a - b));
        };
        requestAnimationFrame(frame);
      }),
  );
  const at = (part) => frames[Math.floor(frames.length * part)].toFixed(1);
  console.log(`frames: median ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms (${(1000 / (frames.reduce((a, b) => a + b) / frames.length)).toFixed(1)} per second)`);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const metric = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    const { metrics } = await cdp.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((m) => [m.name, m.value]));
  };
  const minutes = Number(process.env.MINUTES ?? 2);
  const start = await metric();
  const heaps = [];
  for (let n = 0; n <= minutes * 4; n += 1) {
    if (n > 0) await page.waitForTimeout(15_000);
    const now = await metric();
    heaps.push(now.JSHeapUsedSize / 1e6);
    console.log(`heap after collection ${heaps[n].toFixed(2)} MB, ${now.Nodes} nodes, script ${((now.TaskDuration - start.TaskDuration) / Math.max(n * 15, 1) * 100).toFixed(0)} % of a core; ${await text(page, "#found")}; ${await text(page, "#account")}`);
  }
  await page.context().close();
  const settled = heaps.slice(Math.floor(heaps.length / 3));
  assert.ok(Math.max(...settled) - Math.min(...settled) < 4, "the heap grows");
}

let failed = 0;
try {
  if (load) {
    const url = given ?? (await feed("--flows", "200", "--rate", "1000", "--speed", process.env.SPEED ?? "1")).url;
    await measure(url);
  } else {
    const url = given ?? (await feed("--flows", "24", "--past", "60", "--rate", "500")).url;
    for (const { name, run, only } of tests) {
      if ((given && only === "own") || (process.env.ONLY && !name.includes(process.env.ONLY))) continue;
      const before = problems.length;
      try {
        await run(url);
        assert.deepEqual(problems.slice(before), [], "nothing on the console");
        console.log(`ok   ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL ${name}\n     ${String(error.stack).split("\n").slice(0, 6).join("\n     ")}`);
      }
    }
  }
} finally {
  await browser.close();
  for (const child of children) child.kill();
}
process.exit(failed === 0 ? 0 : 1);
