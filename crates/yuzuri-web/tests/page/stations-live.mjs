// The sharing view on an access point with the real daemon: two stations without yuzuri upload
// through it (YUZURI=path of the program; needs root and BPF).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { eventually, ready, text, until } from "./browser.mjs";
import { live, program, run, start } from "./live.mjs";
import { open, shots } from "./session.mjs";

const NAME = "sharing: at a real access point, its stations as the daemon reports them";
const base = `yza${process.pid}`;
const hosts = ["ap", "srv", "s1", "s2"];
const host = (name) => `${base}${name}`;

/** Stations on a bridge, and a wire of 20 Mbit/s with a queue of 200 ms to a server. */
function network() {
  for (const name of hosts) {
    run(`ip netns add ${host(name)}`);
    run(`ip -n ${host(name)} link set lo up`);
  }
  run(`ip -n ${host("ap")} link add br0 type bridge`);
  run(`ip -n ${host("ap")} addr add 10.92.0.1/24 dev br0`);
  run(`ip -n ${host("ap")} link set br0 up`);
  for (const n of [1, 2]) {
    run(`ip link add eth0 netns ${host(`s${n}`)} type veth peer name s${n} netns ${host("ap")}`);
    run(`ip -n ${host("ap")} link set s${n} master br0 up`);
    run(`ip -n ${host(`s${n}`)} addr add 10.92.0.1${n}/24 dev eth0`);
    run(`ip -n ${host(`s${n}`)} link set eth0 up`);
    run(`ip -n ${host(`s${n}`)} route add default via 10.92.0.1`);
  }
  run(`ip link add wan netns ${host("ap")} type veth peer name wan netns ${host("srv")}`);
  run(`ip -n ${host("ap")} addr add 10.93.0.1/24 dev wan`);
  run(`ip -n ${host("ap")} link set wan up`);
  run(`ip -n ${host("srv")} addr add 10.93.0.2/24 dev wan`);
  run(`ip -n ${host("srv")} link set wan up`);
  run(`ip -n ${host("srv")} route add default via 10.93.0.1`);
  run(`ip netns exec ${host("ap")} sysctl -q -w net.ipv4.ip_forward=1`);
  run(`tc -n ${host("ap")} qdisc replace dev wan root tbf rate 20mbit burst 10k limit 500000`);
}

async function check(folder, children) {
  network();
  const inside = (name, ...words) => start("ip", ["netns", "exec", host(name), program, ...words], children);
  const daemon = inside("ap", "ap", "-i", "br0", "--runtime", folder);
  if (!(await daemon.until("sharing;"))) {
    assert.match(daemon.all(), /not permitted|BPF|bpf/);
    return `skipped: ${daemon.all().trim()}`;
  }
  await inside("srv", "receive").until("listening");
  for (const n of [1, 2]) inside(`s${n}`, "send", "10.93.0.2", "--time", "0");
  const socket = join(folder, "ap.sock");
  const watch = start(program, ["watch", "--web", "127.0.0.1:0", "--share-socket", socket, `netns:${host("s1")}`], children);
  assert.ok(await watch.until("the page is at"), watch.all());
  const page = await open(watch.all().match(/the page is at (\S+)/)[1]);
  await ready(page);
  await page.keyboard.press("g");
  const cells = () => page.evaluate(() => [...document.querySelectorAll('#share-interfaces table[aria-label="Stations"] tbody tr')].map((row) => [...row.cells].map((cell) => cell.children[0]?.textContent ?? cell.textContent)));
  const shared = (rows) => rows.length === 2 && rows.every((row) => row[4] === "1/1" && row[5] === "gate" && Number(row[2]) > 1);
  const rows = await eventually(page, cells, shared);
  assert.deepEqual((rows ?? (await cells())).map((row) => row[0]).sort(), ["10.92.0.11", "10.92.0.12"]);
  const status = () => JSON.parse(execFileSync(program, ["ap", "status", "--json", "--runtime", folder]).toString());
  const titles = await page.evaluate(() => [...document.querySelectorAll('#share-interfaces table[aria-label="Stations"] tbody td:first-child')].map((cell) => cell.title.split(",")[0]));
  assert.deepEqual(titles.sort(), status().stations.map((each) => each.station).sort());
  await eventually(page, () => text(page, '[data-share="shared"]'), (words) => /Mbit\/s, RTT .* ms, fairness/.test(words));
  assert.equal(await text(page, '[data-share="plain"]'), "–");
  if (shots) await page.screenshot({ path: `${shots}/stations-live.png` });
  // The daemon ends, and the view reports that.
  await children[0].end();
  await until(page, () => !document.querySelector("#share-absent").hidden);
  await page.context().close();
  return "";
}

live(NAME, hosts.map(host), check);
