import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Bounds, LIFETIME_US } from "../src/bounds";
import { type AccessPointStatus, isAbsent, isAccessPoint, isStatus, type ShareAnswer, type ShareStatus } from "../src/sharewire";
import * as words from "../src/sharewords";
import { grid } from "../src/thin";

type Values = (number | null)[];
const golden = (): ShareStatus => JSON.parse(readFileSync("../tests/data/share-status.json", "utf8")) as ShareStatus;

test("bounds are steps from when they are known, and end when they are not", () => {
  const bounds = new Bounds();
  bounds.add(1e6, { lower: 10, upper: 20 });
  bounds.add(2e6, { lower: 10, upper: 20 });
  bounds.add(3e6, { lower: 0, upper: 40 });
  // A long gap without polling.
  bounds.add(10e6, { lower: 5, upper: 0 });
  assert.equal(bounds.at(999_999), undefined);
  assert.deepEqual([1e6, 2.5e6, 2_999_999].map((time) => bounds.at(time)?.upper), [20, 20, 20]);
  assert.equal(bounds.at(3e6)?.upper, 40);
  assert.equal(bounds.at(3e6 + LIFETIME_US), undefined);
  assert.equal(bounds.at(10e6)?.lower, 5);
  const g = grid(0, 12e6, 12);
  const [lower, upper]: [Values, Values] = [new Array<null>(g.pixels * 2).fill(null), new Array<null>(g.pixels * 2).fill(null)];
  assert.equal(bounds.fill(lower, upper, g, 11.2e6), 40);
  assert.deepEqual(upper.slice(0, 10), [null, null, 20, 20, 20, 20, 40, 40, 40, null]);
  assert.deepEqual(lower.slice(0, 10), [null, null, 10, 10, 10, 10, null, null, null, null]);
  assert.deepEqual(lower.slice(19), [null, 5, 5, 5, null, null, null].slice(0, lower.length - 19));
});

test("bounds of hours take no more than their room, and the newest stay", () => {
  const bounds = new Bounds();
  for (let n = 1; n <= 20_000; n += 1) bounds.add(n * 1e6, { lower: 0, upper: n });
  assert.equal(bounds.at(20_000e6)?.upper, 20_000);
  assert.equal(bounds.at(19_000e6)?.upper, 19_000);
  assert.equal(bounds.at(10_000e6), undefined);
});

test("the daemon's status and its absence are told apart from other answers", () => {
  const absent: ShareAnswer = { running: false, why: "none", help: null };
  assert.ok(isAbsent(absent) && !isStatus(absent));
  assert.ok(isStatus(golden()) && !isAbsent(golden()));
  for (const other of [{}, { error: "x" }, { interfaces: {} }, { interfaces: [{}], policy: {} }]) assert.ok(!isStatus(other as ShareAnswer));
  // Each field that the page reads is mandatory.
  const without = (path: readonly string[]): ShareAnswer => {
    const status = golden();
    let at = status as unknown as Record<string, unknown>;
    for (const name of path.slice(0, -1)) at = at[name] as Record<string, unknown>;
    delete at[path[path.length - 1]];
    return status;
  };
  for (const path of ["steers", "keyed", "problems", "policy", "policy objective", "interfaces 0 name", "interfaces 0 members 1 age_s", "interfaces 0 flows 2 bound upper", "interfaces 0 flows 0 rule", "interfaces 0 summary phase"]) assert.ok(!isStatus(without(path.split(" "))), path);
  for (const path of ["interfaces 0 summary", "interfaces 0 leader", "interfaces 0 group", "interfaces 0 members 1 address", "uptime_s"]) assert.ok(isStatus(without(path.split(" "))), path);
});

const accessPoint = (): AccessPointStatus => JSON.parse(readFileSync("../tests/data/ap-status.json", "utf8")) as AccessPointStatus;

test("an access point's status is told apart from a terminal's, and each field that the page reads has to be there", () => {
  assert.ok(isAccessPoint(accessPoint()) && !isStatus(accessPoint()) && !isAbsent(accessPoint()));
  assert.ok(!isAccessPoint(golden()));
  const changed = (path: string, to: unknown): ShareAnswer => {
    const status = accessPoint();
    let at = status as unknown as Record<string, unknown>;
    const names = path.split(" ");
    for (const name of names.slice(0, -1)) at = at[name] as Record<string, unknown>;
    if (to === undefined) delete at[names[names.length - 1]];
    else at[names[names.length - 1]] = to;
    return status;
  };
  for (const path of ["dry_run", "stations", "policy", "problems", "stations 0 station", "stations 1 addresses", "stations 0 bounded", "plain fairness", "groups 0 members", "summary phase"]) assert.ok(!isAccessPoint(changed(path, undefined)), path);
  for (const path of ["plain", "shared", "summary", "groups", "stations 0 share_bps", "stations 0 membership", "version"]) assert.ok(isAccessPoint(changed(path, undefined)), path);
  assert.ok(!isAccessPoint(changed("stations 0 share_bps", "12")));
});

test("an access point's status is put in words", () => {
  const status = accessPoint();
  assert.deepEqual(status.stations.map((each) => words.boundBy(each).short), ["gate", "itself", "gate", "nobody"]);
  assert.equal(words.boundBy({ ...status.stations[1], membership: "exceeds" }).short, "gate, exceeds");
  assert.match(words.boundBy({ ...status.stations[0], ignores_window: true }).long, /beyond its window/);
  assert.equal(words.stations(status), "4, of which 3 send");
  assert.equal(words.figures(status.plain), "36.9 Mbit/s, RTT 412 ms, fairness 0.871");
  assert.equal(words.figures(undefined), "–");
  assert.equal(words.groups(status), "8b1f00c2 (led from here, 1 member)");
  const { groups: _, ...none } = status;
  assert.match(words.groups(none), /have the members. key/);
});

test("the status is put in words", () => {
  const status = golden();
  const wlan = status.interfaces[0];
  assert.equal(words.policy(status), "yuzuri");
  assert.equal(words.phase(wlan.summary).short, "holding");
  assert.equal(words.capacity(wlan.summary), "84.0 Mbit/s");
  assert.deepEqual([words.share(wlan.summary), words.queue(wlan.summary)], ["42.0 Mbit/s", "up to 20.0 ms"]);
  assert.equal(words.members(wlan), "3, of which 2 send");
  assert.equal(words.leader(wlan), "c0ffee01");
  assert.equal(words.leader({ ...wlan, leads: true }), "this terminal");
  assert.equal(words.group(wlan), "8b1f00c2 (by BSSID)");
  assert.deepEqual(wlan.members.map(words.isOwn), [true, false, false]);
  assert.deepEqual(wlan.members.map((member) => words.host(member.address ?? "")), ["", "10.0.0.3", "fe80::a00:4%2"]);
  assert.deepEqual(wlan.flows.map((flow) => words.rule(flow).short), ["its share", "starting up", "left alone"]);
  assert.deepEqual([wlan.members[0], { ...wlan.members[0], name: "kitchen" }].map(words.called), ["1f3a5c7e", "kitchen 1f3a5c7e"]);
  assert.match(words.rule(wlan.flows[0]).long, /16 at a time/);
  assert.match(words.rule(wlan.flows[1]).long, /Losses do not reduce/);
  assert.match(words.rule(wlan.flows[2]).long, /bbr: chosen by its program/);
  assert.deepEqual(words.remarks(status), ["1 flow with other local addresses, not bounded."]);
});

test("unknown values, and those of another version, are shown as such", () => {
  const { why_not: _, ...status } = golden();
  assert.equal(words.policy({ ...status, steers: false, why_not: "no BTF" }), "yuzuri, but nothing is bounded: no BTF");
  const { summary, group: __, leader: ___, ...silent } = status.interfaces[0];
  assert.ok(summary !== undefined);
  assert.equal(words.phase(undefined).short, "no summary");
  assert.deepEqual([words.capacity(undefined), words.members(silent), words.leader(silent), words.group(silent)], ["–", "3, of which 2 send", "not known", "not known yet"]);
  assert.match(words.capacity({ ...summary, wire_bps: 5e7 }), /wire/);
  assert.equal(words.phase({ ...summary, phase: "dance" }).short, "dance");
  assert.match(words.rule({ ...silent.flows[0], rule: "dance" }).long, /another version/);
  assert.equal(words.remarks({ ...status, keyed: false, interfaces: [], flows_elsewhere: 0, problems: ["eth0: gone"] }).length, 3);
});

test("the benefit of sharing and pending conditions are shown, and neither is a problem", () => {
  const status = golden();
  const [wlan] = status.interfaces;
  const { benefit: _, ...unknown } = wlan;
  assert.equal(words.benefit(unknown), "–");
  const benefit = { before: { seconds: 30, rate_bps: 8.2e6, srtt_us: 141_000 }, since: { seconds: 60, rate_bps: 8.4e6, srtt_us: 42_000 } };
  assert.match(words.benefit({ ...wlan, benefit }), /^RTT 141 ms → 42(\.0)? ms, throughput 8\.20? Mbit\/s → 8\.40? Mbit\/s since sharing began$/);
  const waits = ["wlan0: waiting for the gateway's link address, which determines the group"];
  const waiting = { ...status, flows_elsewhere: 0, waits, interfaces: [{ ...wlan, benefit }] };
  assert.ok(isStatus(waiting));
  assert.deepEqual(words.remarks(waiting), waits);
  assert.ok(!isStatus({ ...waiting, waits: [7] } as unknown as ShareAnswer));
  assert.ok(!isStatus({ ...waiting, interfaces: [{ ...wlan, benefit: { before: benefit.before } }] } as unknown as ShareAnswer));
});

test("warnings and members with another key are shown with their effect on a transfer", () => {
  const status = golden();
  const [wlan] = status.interfaces;
  assert.ok(isStatus({ ...status, warnings: ["key file /etc/yuzuri/share.key: its mode 0644 …"] }));
  assert.ok(!isStatus({ ...status, warnings: [7] } as unknown as ShareAnswer));
  assert.ok(!isStatus({ ...status, warnings: "x" } as unknown as ShareAnswer));
  const changing = (others: number): ShareStatus => ({ ...status, flows_elsewhere: 0, interfaces: [{ ...wlan, members: wlan.members.map((member, n) => ({ ...member, other_key: n > 0 && n <= others })) }] });
  assert.ok(isStatus(changing(1)));
  assert.deepEqual(words.remarks(changing(0)), []);
  assert.match(words.remarks(changing(1)).join(), /^wlan0: 1 member still signs with the other key.* slows no transfer/);
  assert.match(words.remarks(changing(2)).join(), /^wlan0: 2 members still sign with/);
  const refusing = (refused: Record<string, number>): string => words.remarks({ ...status, flows_elsewhere: 0, interfaces: [{ ...wlan, messages: { refused } }] }).join();
  assert.match(refusing({ tag: 3, keyless: 1, replay: 9 }), /^wlan0: 4 messages were refused because the key is not this group's.* can be slower/);
  assert.match(refusing({ "retired-key": 1 }), /1 message was refused/);
  assert.equal(refusing({ replay: 9, own: 2 }), "");
});

test("every rule and phase of the daemon has words", () => {
  const source = readFileSync("../../yuzuri-policy/src/flow.rs", "utf8");
  const rules = [...source.matchAll(/Rule::\w+ => "([a-z-]+)"/g)].map(([, name]) => name);
  assert.equal(rules.length, Number(source.match(/ALL: \[Rule; (\d+)\]/)?.[1]));
  for (const name of rules) assert.doesNotMatch(words.rule({ ...golden().interfaces[0].flows[0], rule: name }).long, /another version/, name);
  const phases = readFileSync("../../yuzuri-policy/src/report.rs", "utf8").match(/pub enum Phase \{([^}]*)\}/)?.[1] ?? "";
  const names = [...phases.matchAll(/^ {4}([A-Z]\w+),/gm)].map(([, name]) => name.replace(/\B[A-Z]/g, (letter) => `-${letter}`).toLowerCase());
  assert.equal(names.length, 5);
  for (const name of names) assert.notEqual(words.phase({ ...(golden().interfaces[0].summary as NonNullable<ReturnType<typeof golden>["interfaces"][0]["summary"]>), phase: name }).short, name);
});
