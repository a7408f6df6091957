// The page's content on wide and narrow screens: lines, the list, values, saved files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { inflateSync } from "node:zlib";
import { drawn, eventually, feed, ready, text, until } from "./browser.mjs";
import { line, open, shots, test, value } from "./session.mjs";

/** A PNG's size and number of different colours (8 bit RGB or RGBA, not interlaced). */
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

test("lines of both colours are drawn, in both themes with enough contrast", async (url) => {
  for (const colorScheme of ["dark", "light"]) {
    const page = await open(url, { colorScheme });
    await ready(page);
    // The window is light blue, the throughput is pink.
    await line(page, "--cwnd");
    await line(page, "--rate");
    for (const name of ["--cwnd", "--rate", "--rtt", "--ssthresh", "--bound", "--disorder", "--cwr", "--recovery", "--loss"]) {
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

test("lines that moved with the view are as if they were drawn at once", async (url) => {
  const page = await open(url);
  await ready(page);
  // Long enough for the whole view to come from many small drawings.
  await page.click('[data-span="5"]');
  await page.waitForTimeout(6000);
  await page.click("#pause");
  await drawn(page);
  // In one call: the finest data of these five seconds is soon dropped.
  const lanes = await page.evaluate(async () => {
    /** Whether each pixel has the colour of the lane's line that is not dashed. */
    const pixels = () =>
      ["--cwnd", "--rtt"].map((name, lane) => {
        const canvas = document.querySelectorAll(".lanes .lines")[lane];
        const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue(name).match(/\w\w/g).map((hex) => parseInt(hex, 16));
        // On the right, the newest data is still arriving.
        const { data } = canvas.getContext("2d").getImageData(0, 0, Math.floor(canvas.width * 0.8), canvas.height);
        const is = new Uint8Array(data.length / 4);
        for (let n = 0; n < is.length; n += 1) is[n] = data[n * 4 + 3] > 200 && Math.abs(data[n * 4] - r) + Math.abs(data[n * 4 + 1] - g) + Math.abs(data[n * 4 + 2] - b) < 60 ? 1 : 0;
        return is;
      });
    const moved = pixels();
    // Another theme and back: everything is drawn again.
    for (let n = 0; n < 2; n += 1) {
      document.querySelector("#theme").click();
      for (let frame = 0; frame < 5; frame += 1) await new Promise(requestAnimationFrame);
    }
    const whole = pixels();
    return moved.map((lane, n) => ({ shown: lane.reduce((sum, is) => sum + is, 0), differ: lane.reduce((sum, is, at) => sum + (is === whole[n][at] ? 0 : 1), 0) }));
  });
  for (const { shown, differ } of lanes) {
    // A dashed line that crosses it may have its dashes elsewhere: they begin at the left edge.
    assert.ok(shown > 300 && differ < shown * 0.02, JSON.stringify(lanes));
  }
  await page.close();
});

test("the list is sorted and searched", async (url) => {
  const page = await open(url);
  await ready(page);
  // Values change between two sortings, so only the first and last line are compared.
  const sorted = (order) =>
    until(page, (sort) => {
      const head = document.querySelector(`th[aria-sort="${sort}"]`);
      const cells = [...document.querySelectorAll("tr.flow .cwnd-cell")].map(({ textContent }) => Number.parseFloat(textContent) * (textContent.includes("k") ? 1e3 : 1));
      const [first, last] = [cells[0], cells[cells.length - 1]];
      return head?.textContent === "cwnd" && cells.length > 2 && (sort === "descending" ? first > last : first < last);
    }, order);
  await page.getByRole("button", { name: "cwnd" }).click();
  await sorted("descending");
  await page.getByRole("button", { name: "cwnd" }).click();
  await sorted("ascending");
  const name = await page.locator("tr.flow .name").first().textContent();
  const all = await page.locator("tr.flow").count();
  await page.fill("#find", name);
  // The filter shows the flow of that name, and no flow that lacks a word of it.
  await until(page, ([wanted, before]) => {
    const rows = [...document.querySelectorAll("tr.flow")];
    const names = rows.map((row) => row.querySelector(".name"));
    const texts = rows.map((row, n) => `${row.textContent} ${names[n].title}`.toLowerCase());
    const words = wanted.toLowerCase().split(/\s+/);
    return names.some((e) => e.textContent === wanted) && rows.length < before && texts.every((text) => words.every((word) => text.includes(word)));
  }, [name, all]);
  await page.fill("#find", "no such flow");
  await until(page, () => document.querySelectorAll("tr.flow").length === 0);
  assert.match(await text(page, "#found"), /^0 of \d+/);
  await page.context().close();
});

test("flows are grouped, folded and summed", async (url) => {
  const page = await open(url);
  await ready(page);
  const flows = await page.locator("tr.flow").count();
  assert.equal(await text(page, "tfoot .more"), `${flows} flows`);
  await page.selectOption("#group", "process");
  await until(page, () => document.querySelectorAll("tr.group").length > 1);
  // Each group's line is above its flows, and shows their number.
  const reported = await page.evaluate(() => {
    const groups = [];
    for (const row of document.querySelectorAll(".list tbody tr")) {
      if (row.classList.contains("group")) groups.push([Number.parseInt(row.querySelector(".more").textContent, 10), 0]);
      else groups[groups.length - 1][1] += 1;
    }
    return groups;
  });
  assert.ok(reported.every(([stated, listed]) => stated === listed), JSON.stringify(reported));
  assert.equal(reported.reduce((sum, [stated]) => sum + stated, 0), flows);
  await page.locator("tr.group").first().click();
  await until(page, (left) => document.querySelectorAll("tr.flow").length === left, flows - reported[0][1]);
  assert.equal(await page.locator("tr.group .fold").first().getAttribute("aria-expanded"), "false");
  // The total includes folded flows.
  assert.equal(await text(page, "tfoot .more"), `${flows} flows`);
  await page.selectOption("#group", "");
  await until(page, (all) => document.querySelectorAll("tr.group").length === 0 && document.querySelectorAll("tr.flow").length === all, flows);
  await page.context().close();
});

/** Numbers of a bucket (`STRIDE` of `ui/src/fields.ts`). */
const STRIDE = 28;

test("flows that share a bottleneck are named above the list, in a flow's values, and as a group", async () => {
  for (const flags of [[], ["--replay", "120"]]) {
    const { child, url } = await feed("--flows", "6", "--past", "30", "--one-queue", "3", ...flags);
    const page = await open(url);
    await ready(page);
    const names = await eventually(page, () => page.locator("#bottlenecks li").allTextContents(), (found) => found.length === 1);
    assert.match(names[0], /^3 flows share a bottleneck: .+, .+, .+$/);
    await page.locator('tr.flow[data-id="1000"]').click();
    await until(page, () => document.querySelector('[data-value="bottleneck"]')?.textContent.split(", ").length === 2);
    assert.ok(await page.locator('[data-value="bottleneck"]').isVisible());
    // A flow in another queue shares no bottleneck.
    await page.locator('tr.flow[data-id="1004"]').click();
    await until(page, () => document.querySelector('[data-value="bottleneck"]')?.textContent === "");
    assert.ok(!(await page.locator('[data-value="bottleneck"]').isVisible()));
    await page.selectOption("#group", "bottleneck");
    await until(page, () => document.querySelectorAll("tr.sum.group").length === 2);
    assert.match(await text(page, "#list"), /bottleneck 1.*3 flows/s);
    if (shots) await page.screenshot({ path: `${shots}/bottleneck${flags.length}.png` });
    await page.close();
    child.kill();
  }
}, "own");

test("the cursor reads what the server knows", async (url) => {
  const page = await open(url);
  await ready(page);
  await line(page, "--cwnd");
  await page.focus("#chart");
  await page.keyboard.press(" ");
  let checked = 0;
  for (let n = 0; n < 8; n += 1) {
    await page.keyboard.press("Shift+ArrowLeft");
    await drawn(page);
    const reported = { cwnd: await value(page, "cwnd"), srtt: await value(page, "srtt"), at: await text(page, "#announcement") };
    const id = await page.locator('tr.flow[aria-selected="true"]').getAttribute("data-id");
    const last = Number.parseInt(reported.cwnd, 10);
    const headers = { Authorization: `Bearer ${new URL(url).hash.slice("#token=".length)}` };
    const get = (path) => page.evaluate(async ([p, h]) => (await fetch(p, { headers: h })).json(), [path, headers]);
    const session = await get("/api/session");
    const history = await get(`/api/flows/${id}/history?from=0&points=4096`);
    const shown = await page.evaluate(() => document.querySelector('[data-value="time"]').textContent);
    const near_ = [];
    for (let i = 0; i < history.buckets.length; i += STRIDE) {
      const wall = new Date((session.started_unix_us + history.buckets[i]) / 1000);
      const [h, m, s] = shown.split(":").map(Number);
      const here = wall.getHours() * 3600 + wall.getMinutes() * 60 + wall.getSeconds() + wall.getMilliseconds() / 1000;
      if (Math.abs(here - (h * 3600 + m * 60 + s)) < 0.6) near_.push([history.buckets[i + 3], history.buckets[i + 4]]);
    }
    if (near_.length === 0) continue;
    const [low, high] = [Math.min(...near_.map((b) => b[0])), Math.max(...near_.map((b) => b[1]))];
    assert.ok(last >= low && last <= high, `cwnd ${reported.cwnd} at ${shown}, the server says ${low} to ${high}`);
    assert.match(reported.cwnd, / seg$/);
    assert.match(reported.srtt, /ms|s/);
    assert.match(reported.at, /cwnd .* throughput .* srtt/);
    checked += 1;
  }
  assert.ok(checked >= 4, `${checked} places could be compared`);
  await page.context().close();
});

test("a flow's limit is shown in the list, above the chart, in its lane and in the CSV", async (url) => {
  const page = await open(url);
  await ready(page);
  await line(page, "--cwnd");
  const limits = await page.evaluate(async (token) => (await (await fetch("/api/session", { headers: { Authorization: `Bearer ${token}` } })).json()).limits, new URL(url).hash.slice("#token=".length));
  assert.ok(limits.includes("path") && limits.includes("receiver-window"));
  const cell = page.locator('tr.flow[aria-selected="true"] .limit-cell');
  await until(page, () => document.querySelector('tr.flow[aria-selected="true"] .limit-cell').title !== "");
  const [name, part] = (await cell.getAttribute("title")).match(/^([a-z-]+): .*; (\d+) % of/).slice(1);
  assert.ok(limits.includes(name) && Number(part) > 0 && Number(part) <= 100, `${name} ${part}`);
  // The lane and the values at the cursor agree.
  await page.focus("#chart");
  await page.keyboard.press(" ");
  await page.keyboard.press("Shift+ArrowLeft");
  await drawn(page);
  const read = await value(page, "limit");
  assert.ok(limits.includes(read), read);
  const colors = await page.evaluate(() => {
    const canvas = document.querySelector("canvas.strip");
    const ratio = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext("2d").getImageData(0, Math.round(25 * ratio), canvas.width, 1);
    return new Set(Array.from({ length: canvas.width }, (_, x) => [...data.slice(x * 4, x * 4 + 4)].join())).size;
  });
  assert.ok(colors >= 2, `${colors} colours in the lane of limits`);
  const file = await download(page, () => page.click("#csv"));
  const lines = file.data.toString().trim().split("\n").map((row) => row.split(","));
  const reported = lines.slice(1).map((row) => row[lines[0].indexOf("limited_by")]);
  assert.ok(reported.every((limit) => limit === "" || limits.includes(limit)) && reported.includes(name === "unknown" ? read : name), [...new Set(reported)].join());
  await page.context().close();
});

test("the toolbar is one line at 1280, and headings are whole", async (url) => {
  const page = await open(url, { viewport: { width: 1280, height: 860 } });
  await ready(page);
  for (const mode of ["one", "over", "small", "seq"]) {
    await page.click(`[data-mode="${mode}"]`);
    await drawn(page);
    const height = await page.evaluate(() => document.querySelector(".controls").clientHeight);
    assert.ok(height < 40, `${mode}: ${height}`);
    const overlap = await page.evaluate(() => [...document.querySelectorAll(".lane")].filter((lane) => {
      const [left, right] = [".left", ".right"].map((side) => lane.querySelector(`.axis-title${side}`)?.getBoundingClientRect());
      return left !== undefined && right !== undefined && left.right > right.left;
    }).length);
    assert.equal(overlap, 0, `${mode}: titles overlap`);
  }
  const cut = await page.evaluate(() => [...document.querySelectorAll(".list th button")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent));
  assert.deepEqual(cut, []);
  await page.context().close();
});

test("PNG and CSV hold what is shown", async (url) => {
  const page = await open(url);
  await ready(page);
  await line(page, "--rate");
  const picture = await download(page, () => page.click("#png"));
  assert.match(picture.name, /^yuzuri-.*\.png$/);
  const { width, height, bytes } = png(picture.data);
  // Two pixels of the picture for each of the page, also on a screen that has only one.
  const shown = await page.evaluate(() => [window.devicePixelRatio, document.querySelector("#chart").getBoundingClientRect().width]);
  assert.deepEqual([shown[0], width], [1, Math.round(shown[1] * 2)]);
  assert.ok(height > 800 && bytes > 20_000, `${width}x${height}, ${bytes} bytes`);
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

test("on a phone nothing is wider than the screen", async (url) => {
  const page = await open(url, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await ready(page);
  await line(page, "--cwnd", 50);
  const [flows, chart] = await page.evaluate(() => ["#list", "#chart"].map((id) => document.querySelector(id).getBoundingClientRect().top));
  assert.ok(flows < chart && flows < 400, `the list comes first: ${flows}, ${chart}`);
  for (const mode of ["one", "over", "small"]) {
    await page.click(`[data-mode="${mode}"]`);
    await drawn(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${mode}: ${wide}`);
  }
  await page.click('[data-mode="one"]');
  await drawn(page);
  if (shots) await page.screenshot({ path: `${shots}/phone.png` });
  await page.context().close();
});

test("first paint within a second, page within 150 kB", async (url) => {
  const page = await open(url);
  await ready(page);
  const reported = await page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
    bytes: performance.getEntriesByType("resource").filter((e) => /\.(js|css|svg)$/.test(e.name)).reduce((n, e) => n + e.encodedBodySize, performance.getEntriesByType("navigation")[0].encodedBodySize),
  }));
  console.log(`  first paint ${reported.paint?.toFixed(0)} ms, ${reported.bytes} bytes over the wire`);
  assert.ok(reported.paint < 1000);
  assert.ok(reported.bytes < 150_000);
  await page.context().close();
});
