// The sharing view with real daemons: two terminals on one link, each in its network namespace,
// send to a server (YUZURI=path of the program; needs root and struct_ops).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { eventually, ready, text, until } from "./browser.mjs";
import { live, program, run, start } from "./live.mjs";
import { line, open, shots } from "./session.mjs";

const NAME = "sharing: with real daemons, the group and the bounds of a real flow";
const base = `yzp${process.pid}`;
const host = (n) => `${base}h${n}`;

/** A server (0) with a bridge, and hosts on it behind a link of 20 Mbit/s with a queue of 60 ms. */
function cell(hosts) {
  for (let n = 0; n <= hosts; n += 1) {
    run(`ip netns add ${host(n)}`);
    run(`ip -n ${host(n)} link set lo up`);
  }
  run(`ip -n ${host(0)} link add br0 type bridge`);
  run(`ip -n ${host(0)} addr add 10.89.0.100/24 dev br0`);
  run(`ip -n ${host(0)} link set br0 up`);
  for (let n = 1; n <= hosts; n += 1) {
    run(`ip link add eth0 netns ${host(n)} type veth peer name h${n} netns ${host(0)}`);
    run(`ip -n ${host(0)} link set h${n} master br0 up`);
    run(`ip -n ${host(n)} addr add 10.89.0.${n}/24 broadcast + dev eth0`);
    run(`ip -n ${host(n)} link set eth0 up`);
    run(`tc -n ${host(n)} qdisc replace dev eth0 root tbf rate 20mbit burst 10k limit 150000`);
  }
}

async function check(folder, children) {
  cell(2);
  const inside = (n, ...words) => start("ip", ["netns", "exec", host(n), program, ...words], children);
  const places = (n) => ["--runtime", join(folder, `run${n}`), "--state", join(folder, `state${n}`)];
  // Each terminal signs with its own key and accepts the other's, as during a change of keys. One
  // key file is readable for every user.
  const key = (n) => join(folder, `key${n}`);
  for (const n of [1, 2]) execFileSync(program, ["share", "key", key(n)]);
  chmodSync(key(1), 0o644);
  for (const n of [1, 2]) {
    const keys = ["--key-file", key(n), "--accept-key-file", key(3 - n)];
    const daemon = inside(n, "share", ...places(n), ...keys, "--group", base, "--interface", "eth0", "--control", `${base}_${n}`);
    if (!(await daemon.until("sharing;"))) {
      assert.match(daemon.all(), /not permitted|it needs struct_ops/);
      return `skipped: ${daemon.all().trim()}`;
    }
  }
  await inside(0, "receive").until("listening");
  for (const n of [1, 2]) inside(n, "send", "10.89.0.100", "--time", "0");
  const socket = join(folder, "run1", "share.sock");
  const watch = start(program, ["watch", "--web", "127.0.0.1:0", "--share-socket", socket, "laddr:10.89.0.1", `netns:${host(1)}`], children);
  assert.ok(await watch.until("the page is at"), watch.all());
  const page = await open(watch.all().match(/the page is at (\S+)/)[1]);
  await ready(page);
  await page.keyboard.press("g");
  await until(page, () => document.querySelectorAll('#share-interfaces table[aria-label^="Members"] tbody tr').length === 2);
  await until(page, () => document.querySelector('[data-share="members"]').textContent === "2, of which 2 send");
  const status = () => JSON.parse(execFileSync(program, ["share", "status", "--json", "--runtime", join(folder, "run1")]).toString());
  const members = status().interfaces[0].members.map((member) => member.node.slice(0, 8));
  const shown = await page.evaluate(() => [...document.querySelectorAll('#share-interfaces table[aria-label^="Members"] tbody td:first-child')].map((cell) => cell.textContent));
  assert.deepEqual(shown, [`${members[0]}this`, members[1]]);
  await until(page, () => document.querySelector("#share-warned").checkVisibility());
  const warnings = status().warnings;
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /key1: its mode 0644 lets every user of this machine/);
  assert.equal(await text(page, "#share-warnings"), warnings[0]);
  await until(page, () => [...document.querySelectorAll("#share-interfaces .key")].map((each) => each.textContent).join() === ",other key");
  assert.match(await text(page, "#share-remarks"), /eth0: 1 member still signs with the other key/);
  // The page and the daemon identify the flow by its cookie. Then its bounds in the chart equal
  // those of the daemon.
  const flow = page.locator("#share-interfaces button:enabled").first();
  await flow.click();
  const id = status().interfaces[0].flows.find((each) => each.obeys).id.toString(16);
  assert.equal(await flow.getAttribute("data-flow"), id);
  await eventually(page, () => text(page, '[data-value="bounds"]'), (bounds) => / \d+ seg$/.test(bounds));
  await line(page, "--bound", 30);
  await eventually(
    page,
    async () => [status().interfaces[0].flows.find((each) => each.obeys).bound, await text(page, '[data-value="bounds"]')],
    ([{ lower, upper }, cell]) => upper > 0 && cell === (lower > 0 ? `${lower} to ${upper} seg` : `up to ${upper} seg`),
  );
  if (shots) {
    // Wait for some steps of the bound.
    await page.waitForTimeout(15_000);
    await page.screenshot({ path: `${shots}/sharing-live.png` });
  }
  // The daemon ends, and the view reports that.
  await children[0].end();
  await until(page, () => !document.querySelector("#share-absent").hidden);
  await page.context().close();
  return "";
}

live(NAME, [0, 1, 2].map(host), check);
