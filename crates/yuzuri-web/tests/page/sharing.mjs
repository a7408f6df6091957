// The sharing view, with a unix socket that answers with a daemon's status document.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drawn, eventually, feed, ready, text, until } from "./browser.mjs";
import { line, open, shots, test, value } from "./session.mjs";

const golden = () => JSON.parse(readFileSync(new URL("../data/share-status.json", import.meta.url), "utf8"));

/** Answers with `status` as the daemon does, and counts requests. */
function daemon(path, status) {
  const answer = { status, asked: 0 };
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.on("end", () => {
      answer.asked += 1;
      socket.end(`${JSON.stringify(answer.status)}\n`);
    });
    socket.resume();
  });
  const up = new Promise((resolve) => server.listen(path, resolve));
  return { answer, up, close: () => server.close() };
}

/** A feed whose page requests the status at its own socket; nobody listens on the socket yet. */
async function startPage() {
  const folder = mkdtempSync(join(tmpdir(), "yuzuri-page-"));
  const socket = join(folder, "share.sock");
  const { child, url } = await feed("--flows", "8", "--past", "30", "--rate", "200", "--share-socket", socket);
  const close = () => {
    child.kill();
    rmSync(folder, { recursive: true });
  };
  return { socket, url, close };
}

/** Focuses the flow that is bounded in the golden document. */
const look = async (page) => {
  await page.locator('[data-flow="1000"]').click();
  await until(page, () => document.querySelector('tr.flow[data-id="1000"]').getAttribute("aria-selected") === "true");
};

test("the overlay says why nothing is shared yet, and compares each flow before and since", async () => {
  const { socket, url, close } = await startPage();
  const { answer, up, close: end } = daemon(socket, { ...golden(), steers: false, why_not: "sharing begins in 12 s", interfaces: [] });
  await up;
  const page = await open(`${url}&view=overlay`);
  await ready(page);
  await until(page, () => document.querySelector(".tiles .past")?.textContent === "plain: sharing begins in 12 s");
  assert.ok(!(await page.locator("#compared").isVisible()), "there is nothing to compare");
  answer.status = golden();
  await until(page, () => document.querySelectorAll("#compared:not([hidden]) tbody tr").length === 8);
  await until(page, () => [...document.querySelectorAll("#compared tbody tr")].every((row) => row.cells.length === 7 && Number(row.cells[1].textContent) > 0 && Number(row.cells[2].textContent) > 0));
  assert.match(await text(page, ".tiles .past"), /^\S+ .* before, \S+ .* since$/);
  if (shots) await page.screenshot({ path: `${shots}/compared.png` });
  await page.keyboard.press("1");
  await until(page, () => document.querySelector("#compared").hidden);
  await page.close();
  end();
  close();
});

test("records show where sharing limits a window, in a replay and in a page that is opened later", async () => {
  for (const [flags, expected] of [[["--replay", "120"], undefined], [[], /status of 502/]]) {
    const { child, url } = await feed("--flows", "4", "--past", "40", "--bound-at", "20", ...flags);
    const page = await open(`${url}&view=overlay`, { expected });
    await ready(page);
    await page.click("#span-all");
    await until(page, () => [...document.querySelectorAll(".begins-line")].some((each) => !each.hidden && each.textContent === "sharing limits a window"));
    await until(page, () => document.querySelectorAll("#compared:not([hidden]) tbody tr").length === 4);
    assert.equal(await text(page, "#compared h3"), "Before sharing limited a window, and since");
    // A window that rests at its bound shows it, without a daemon's answer.
    await page.keyboard.press("1");
    await until(page, () => document.querySelector('[data-value="bounds"]')?.textContent === "up to 8 seg, lower unknown");
    await line(page, "--bound", 30);
    await page.close();
    child.kill();
  }
  // If the first record is already bounded, the beginning is unknown.
  const { child, url } = await feed("--flows", "4", "--past", "40", "--bound-at", "0", "--replay", "120");
  const page = await open(`${url}&view=overlay`);
  await ready(page);
  await page.click("#span-all");
  await drawn(page);
  assert.ok(await page.locator(".begins-line").first().isHidden());
  assert.ok(!(await page.locator("#compared").isVisible()));
  await page.close();
  child.kill();
});

test("sharing: without a daemon the view shows how to start one, with one it shows its status", async () => {
  const { socket, url, close } = await startPage();
  const page = await open(url, { expected: /status of 502/ });
  await ready(page);
  assert.equal(await value(page, "bounds"), "–");
  await page.keyboard.press("g");
  await until(page, () => !document.querySelector("#share-absent").hidden);
  assert.match(await text(page, "#share-why"), /No sharing here: no sharing daemon answers at .*share\.sock/);
  assert.match(await text(page, "#share-help"), /yuzuri share/);
  assert.ok(!(await page.locator("#list").isVisible()));
  if (shots) await page.screenshot({ path: `${shots}/sharing-absent.png` });

  const { answer, up, close: end } = daemon(socket, golden());
  await up;
  await until(page, () => !document.querySelector("#share-status").hidden);
  const fact = (key) => text(page, `[data-share="${key}"]`);
  assert.equal(await text(page, "#share-policy"), "yuzuri");
  assert.equal(await text(page, "#share-objective"), "balanced");
  assert.match(await fact("phase"), /^holding\. Each member keeps/);
  assert.equal(await fact("capacity"), "84.0 Mbit/s");
  assert.equal(await fact("members"), "3, of which 2 send");
  assert.equal(await fact("leader"), "c0ffee01");
  const cells = (name) => page.evaluate((label) => [...document.querySelectorAll(`#share-interfaces table[aria-label^="${label}"] tbody tr`)].map((row) => [...row.cells].map((cell) => (cell.querySelector(".name") ?? cell).textContent)), name);
  assert.deepEqual(await cells("Members"), [
    ["1f3a5c7ethis", "yes", "–", "–", "this terminal"],
    ["c0ffee01", "yes", "yes", "now", "10.0.0.3"],
    ["0badcafe", "–", "–", "31 s", "fe80::a00:4%2"],
  ]);
  const flows = await cells("This terminal's flows");
  assert.deepEqual(flows.map(([name, lower, upper]) => [name, lower, upper]), [["192.0.2.10:5201", "28", "84"], ["192.0.2.11:443", "–", "–"], ["[2001:db8:ffff::1]:443", "–", "–"]]);
  assert.deepEqual(flows.map((row) => row[4].split(":")[0]), ["its share", "starting up", "left alone"]);
  assert.match(await page.locator("#share-interfaces td.rule").first().getAttribute("title"), /share of the capacity/);
  // The page finds a flow's window, which changes, by the socket's cookie, and that of the last
  // flow by its addresses, since its cookie exceeds the exact range of numbers.
  await eventually(page, () => cells("This terminal's flows"), (now) => now[0][3] !== flows[0][3]);
  assert.equal(await page.locator("#share-interfaces button:enabled").count(), 3);

  // The bounds in the chart: both lines, the values at the cursor, the legend.
  await look(page);
  await until(page, () => document.querySelector('[data-value="bounds"]').textContent === "28 to 84 seg");
  await line(page, "--bound", 8);
  // No daemon answered before, so a line marks where bounds begin.
  await until(page, () => [...document.querySelectorAll(".begins-line")].some((each) => !each.hidden && each.textContent === "sharing begins"));
  answer.status.interfaces[0].flows[0].bound = { lower: 0, upper: 60 };
  await until(page, () => document.querySelector('[data-value="bounds"]').textContent === "up to 60 seg");
  assert.match(await text(page, "#help-lines"), /upper bound of the window by sharing/);
  await until(page, () => document.querySelector("#chart-text").textContent.includes("bounds up to 60 seg"));

  // The daemon's warnings, and a member that signs with the other key during a change of keys.
  assert.ok(!(await page.locator("#share-warned").isVisible()), "no warning yet");
  const warning = "key file /etc/yuzuri/share.key: its mode 0644 lets every user of this machine read or change the key; set it to 0600 or 0640";
  answer.status.warnings = [warning];
  answer.status.interfaces[0].members[1].other_key = true;
  await until(page, () => document.querySelector("#share-warned").checkVisibility());
  assert.match(await text(page, "#share-warned"), /Sharing works, but the daemon warns:/);
  assert.equal(await text(page, "#share-warnings li"), warning);
  await until(page, () => [...document.querySelectorAll("#share-interfaces .key")].map((each) => each.textContent).join() === ",other key,");
  assert.match(await page.locator("#share-interfaces .key", { hasText: "other key" }).locator("xpath=..").getAttribute("title"), /^10\.0\.0\.3:48770: It signs with the second key that this terminal accepts/);
  assert.match(await text(page, "#share-remarks"), /wlan0: 1 member still signs with the other key.*slows no transfer/);
  if (shots) await page.screenshot({ path: `${shots}/sharing-warned.png` });
  delete answer.status.warnings;
  delete answer.status.interfaces[0].members[1].other_key;
  await until(page, () => !document.querySelector("#share-warned").checkVisibility());
  await until(page, () => !document.querySelector("#share-remarks").textContent.includes("other key"));

  // The daemon's texts are never interpreted as HTML.
  const bad = '<img src=x onerror="window.hurt=1"><b>x</b>';
  Object.assign(answer.status, { steers: false, why_not: bad, problems: [bad], warnings: [bad] });
  Object.assign(answer.status.interfaces[0], { name: bad, group: bad, group_from: bad });
  Object.assign(answer.status.interfaces[0].flows[2], { control_state: bad, remote: bad });
  Object.assign(answer.status.interfaces[0].members[2], { node: bad, address: bad });
  answer.status.interfaces[0].summary.phase = bad;
  await until(page, () => document.querySelector("#share-policy").textContent.includes("nothing is bounded: <img"));
  await until(page, () => document.querySelector("#share-interfaces h3").textContent.startsWith("<img"));
  assert.equal(await page.locator("#side-sharing img, #side-sharing b").count(), 0);
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  // The page reports a daemon of another version and an answer that is not a JSON object, and keeps
  // the earlier content.
  answer.status = { interfaces: [{ name: "eth9", members: [{}], flows: [{}] }], policy: {} };
  await until(page, () => document.querySelector("#share-trouble").textContent.includes("another version"));
  answer.status = golden();
  await until(page, () => document.querySelector("#share-trouble").textContent === "" && document.querySelector("#share-interfaces h3").textContent === "wlan0");
  answer.status = [1];
  await until(page, () => document.querySelector("#share-trouble").textContent.includes("a JSON object"));
  end();
  await until(page, () => !document.querySelector("#share-absent").hidden);
  await page.keyboard.press("/");
  assert.ok(await page.locator("#find").isVisible());
  assert.equal(await page.evaluate(() => document.activeElement.id), "find");
  await page.context().close();
  close();
}, "own");

test("sharing: polled once a second, and only while the page is visible", async () => {
  const { socket, url, close } = await startPage();
  const { answer, up, close: end } = daemon(socket, golden());
  await up;
  const page = await open(url);
  await ready(page);
  const from = performance.now();
  const first = answer.asked;
  // The page polls for the bounds in the charts although the view is closed.
  await eventually(page, () => answer.asked, (asked) => asked >= first + 4);
  assert.ok(performance.now() - from >= 2950, "a pause of a second after each of the first three");
  const still = async (what) => {
    // One request may be in progress.
    await page.waitForTimeout(1100);
    const before = answer.asked;
    await page.waitForTimeout(2500);
    assert.equal(answer.asked, before, what);
  };
  const visibility = (now) =>
    page.evaluate((state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, now);
  await visibility("hidden");
  await still("the page is not seen");
  await visibility("visible");
  const hidden = answer.asked;
  await eventually(page, () => answer.asked, (asked) => asked > hidden);
  await page.context().close();
  end();
  close();
}, "own");

test("sharing: dark and light, wide and narrow, a stable layout, accessible names", async () => {
  const { socket, url, close } = await startPage();
  const { answer, up, close: end } = daemon(socket, golden());
  await up;
  for (const [name, options] of Object.entries({
    dark: { colorScheme: "dark" },
    light: { colorScheme: "light" },
    phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
  })) {
    answer.status = golden();
    const page = await open(url, options);
    await ready(page);
    await page.keyboard.press("g");
    await until(page, () => !document.querySelector("#share-status").hidden);
    await look(page);
    await line(page, "--bound", 8);
    const places = () =>
      page.evaluate(() => [...document.querySelectorAll("#side-sharing h3, #side-sharing dt, #side-sharing tr, .lanes canvas")].map((each) => {
        const { x, y, width, height } = each.getBoundingClientRect();
        return [x, y + window.scrollY, width, height].map(Math.round).join();
      }));
    if (shots) await page.screenshot({ path: `${shots}/sharing-${name}.png`, fullPage: name === "phone" });
    const before = await places();
    // Other values, including fields that appear and disappear.
    const each = answer.status.interfaces[0];
    Object.assign(each.summary, { phase: "probe", capacity_bps: 1_234_567_890, share_bps: 617_000_000, paced: true });
    each.members[2].age_s = 47;
    Object.assign(each.flows[0], { bound: { lower: 1028, upper: 3184 }, rule: "probe" });
    each.flows[1].rule = "app-limited";
    await until(page, () => document.querySelector('[data-share="phase"]').textContent.startsWith("probing"));
    await until(page, () => document.querySelector('[data-value="bounds"]').textContent === "1028 to 3184 seg");
    const moved = (await places()).filter((place, n) => place !== before[n]);
    assert.deepEqual(moved, [], `${name}: everything stays where it is`);
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth - window.innerWidth, ...[...document.querySelectorAll("#side-sharing table")].map((table) => table.scrollWidth - table.parentElement.clientWidth)]);
    assert.ok(wide.every((over) => over <= 0), `${name}: ${wide}`);
    const cdp = await page.context().newCDPSession(page);
    const nodes = (await cdp.send("Accessibility.getFullAXTree")).nodes.filter((node) => !node.ignored);
    assert.deepEqual(nodes.filter((node) => node.role?.value === "table").map((node) => node.name.value).sort(), ["Events", "Members on wlan0", "This terminal's flows on wlan0"]);
    assert.deepEqual(nodes.filter((node) => ["button", "region", "group"].includes(node.role?.value) && !node.name?.value), []);
    await page.context().close();
  }
  end();
  close();
}, "own");

test("sharing: on an access point its stations, what bounds them, and their figures before", async () => {
  const { socket, url, close } = await startPage();
  const status = JSON.parse(readFileSync(new URL("../data/ap-status.json", import.meta.url), "utf8"));
  const { answer, up, close: end } = daemon(socket, status);
  await up;
  const page = await open(url);
  await ready(page);
  await page.keyboard.press("g");
  await until(page, () => !document.querySelector("#share-status").hidden);
  const fact = (key) => text(page, `[data-share="${key}"]`);
  assert.equal(await text(page, "#share-policy"), "yuzuri, at this access point");
  assert.equal(await fact("capacity"), "37.5 Mbit/s (the wire limits)");
  assert.equal(await fact("stations"), "4, of which 3 send");
  assert.equal(await fact("groups"), "8b1f00c2 (led from here, 1 member)");
  assert.equal(await fact("plain"), "36.9 Mbit/s, RTT 412 ms, fairness 0.871");
  assert.equal(await fact("shared"), "37.2 Mbit/s, RTT 50.5 ms, fairness 0.998");
  assert.equal(await text(page, "#share-remarks"), "a driver tells no rates");
  const rows = () => page.evaluate(() => [...document.querySelectorAll('#share-interfaces table[aria-label="Stations"] tbody tr')].map((row) => [...row.cells].map((cell) => cell.children[0]?.textContent ?? cell.textContent)));
  assert.deepEqual(await rows(), [
    ["10.0.0.12", "12.4", "12.5", "51.0", "0/2", "itself"],
    ["10.0.0.11", "12.0", "12.5", "48.0", "1/1", "gate"],
    ["02:00:5e:10:00:03", "3.0", "–", "–", "0/0", "gate"],
    ["10.0.0.14", "0.9", "12.5", "33.0", "0/1", "nobody"],
  ]);
  if (shots) await page.screenshot({ path: `${shots}/stations.png` });
  // A station leaves, and another one sends more; then a terminal's daemon answers instead.
  answer.status = { ...status, dry_run: true, stations: [status.stations[0], { ...status.stations[3], rate_bps: 20e6 }] };
  await eventually(page, async () => (await rows()).map((row) => row[0]).join(), (now) => now === "10.0.0.14,10.0.0.11");
  assert.match(await text(page, "#share-policy"), /dry run: nothing is bounded/);
  answer.status = golden();
  await until(page, () => document.querySelector('#share-interfaces table[aria-label="Stations"]') === null && document.querySelectorAll("#share-interfaces section").length > 0);
  answer.status = status;
  await until(page, () => document.querySelector('#share-interfaces table[aria-label="Stations"]') !== null && document.querySelectorAll("#share-interfaces section").length === 1);
  await page.context().close();
  end();
  close();
});
