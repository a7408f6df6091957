//! `yuzuri share` on stations of real access points, with the kernel's mac80211: two access points
//! and two stations in a guest, over radios that hear each other without a medium between them
//! (mac80211_hwsim). It tests what nl80211 reports and how the daemon uses it, not performance.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use yuzuri_policy::{Aggregation, GroupId, RadioHint};
use yuzuri_vm::{Equipment, Guest, Image, Kernel};

const KERNEL: Kernel = Kernel::Linux6_12Amd64;

/// The lines "STEP JSON" of a guest's output, by step.
fn steps(output: &str) -> HashMap<&str, Value> {
    let parted = output.lines().filter_map(|line| line.split_once(" {"));
    parted.map(|(step, rest)| (step, serde_json::from_str(&format!("{{{rest}")).unwrap())).collect()
}

/// The rate of a station that sends alone at this rate of its radio.
fn alone(rate_mbps: u64, aggregation: Aggregation) -> u64 {
    RadioHint::of_link(rate_mbps * 1_000_000, aggregation).alone_bps
}

#[test]
#[ignore = "boots a guest with radios: make test-kernels"]
fn stations_share_by_bssid_and_rate_and_roam() {
    if let Some(why) = Image::missing(KERNEL, Equipment::Wireless) {
        println!("stations_share_by_bssid_and_rate_and_roam: skipped: {why}");
        return;
    }
    let [at_65, at_26] = [65, 26].map(|rate_mbps| alone(rate_mbps, Aggregation::Ht));
    let at_54_g = alone(54, Aggregation::None);
    let outcome = Guest::new(KERNEL)
        .equipment(Equipment::Wireless)
        .file(env!("CARGO_BIN_EXE_yuzuri"), "/usr/bin/yuzuri")
        .file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wireless.sh"), "/root/wireless.sh")
        .env("ALONE_AT_65", at_65.to_string())
        .env("ALONE_AT_26", at_26.to_string())
        .env("ALONE_AT_54_G", at_54_g.to_string())
        .program(["sh", "/root/wireless.sh"])
        .run(&mut |_| {}, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let statuses = steps(&outcome.output);
    let link = |step: &str| {
        let status = statuses.get(step).unwrap_or_else(|| panic!("no '{step}' in {}", outcome.output));
        status["interfaces"][0].clone()
    };
    let members = |step: &str| link(step)["members"].as_array().unwrap().len();

    // One access point, one group; each station knows its own rate.
    let [two, three] = ["together 2", "together 3"].map(&link);
    assert_eq!((&two["group_from"], &two["group"]), (&"bssid".into(), &three["group"]));
    assert_eq!((two["alone_bps"].as_u64(), three["alone_bps"].as_u64()), (Some(at_65), Some(at_26)));
    assert_eq!((members("together 2"), members("together 3")), (2, 2));

    // As over any network, one member leads, and both have its summary.
    let [two, three] = ["sending 2", "sending 3"].map(&link);
    assert_eq!(two["leader"], three["leader"]);
    assert_ne!(two["leads"], three["leads"]);
    assert_eq!((&two["summary"]["senders"], &three["summary"]["senders"]), (&2.into(), &2.into()));

    // Another access point means another group, and the station that stayed knows it.
    let roamed = link("roamed 3");
    assert_eq!((&roamed["group_from"], roamed["alone_bps"].as_u64()), (&"bssid".into(), Some(at_54_g)));
    assert_ne!(roamed["group"], two["group"]);
    assert_eq!((members("roamed 3"), members("left 2")), (1, 1));
    assert_eq!(link("left 2")["group"], two["group"]);

    // No access point, no BSSID.
    assert_ne!(link("without 2")["group_from"], "bssid");
}

/// `yuzuri ap` leads the member of its BSS, at the radio's device and at a bridge with another
/// hardware address, reads the stations' rates from nl80211, and bounds the station that does not
/// run yuzuri.
#[test]
#[ignore = "boots guests with radios: make test-kernels"]
fn an_access_point_leads_the_group_of_its_radio() {
    if let Some(why) = Image::missing(KERNEL, Equipment::Wireless) {
        println!("an_access_point_leads_the_group_of_its_radio: skipped: {why}");
        return;
    }
    let [at_65, at_26] = [65, 26].map(|rate_mbps| alone(rate_mbps, Aggregation::Ht));
    for device in ["wlan0", "br0"] {
        let outcome = Guest::new(KERNEL)
            .equipment(Equipment::Wireless)
            .file(env!("CARGO_BIN_EXE_yuzuri"), "/usr/bin/yuzuri")
            .file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wireless_ap.sh"), "/root/wireless_ap.sh")
            .env("DEVICE", device)
            .program(["sh", "/root/wireless_ap.sh"])
            .run(&mut |_| {}, &AtomicBool::new(false))
            .unwrap();
        assert_eq!(outcome.code, 0, "{device}: {}", outcome.output);
        let statuses = steps(&outcome.output);
        let [bssid, ap, member] = ["bssid", "ap", "member"].map(|step| &statuses[step]);
        let is_bridge = device == "br0";
        assert_eq!(bssid["bssid"] != bssid["device"], is_bridge, "{bssid}");
        // The member found its group by the BSSID, and the access point leads it.
        let link = &member["interfaces"][0];
        let octets: Vec<u8> = bssid["bssid"]
            .as_str()
            .unwrap()
            .split(':')
            .map(|octet| u8::from_str_radix(octet, 16).unwrap())
            .collect();
        let group = GroupId::of(&octets).to_string();
        assert_eq!((&link["group_from"], link["group"].as_str()), (&"bssid".into(), Some(&*group)));
        let led = ap["groups"].as_array().unwrap().iter().find(|led| led["group"] == *group).unwrap();
        assert_eq!((&led["leads"], &led["node"]), (&true.into(), &link["leader"]), "{device}");
        assert_eq!(link["summary"]["senders"], 2);
        // Each station's radio rate is known. The wire is the bottleneck, so both stations have the
        // same throughput.
        let station = |address: &str| {
            let mut stations = ap["stations"].as_array().unwrap().iter();
            stations.find(|s| s["addresses"].as_array().unwrap().contains(&address.into())).unwrap()
        };
        let [two, three] = ["10.9.0.12", "10.9.0.13"].map(station);
        println!(
            "{device}: {} and {} bit/s of shares of {} and {}; alone {} and {}",
            two["rate_bps"],
            three["rate_bps"],
            two["share_bps"],
            three["share_bps"],
            two["alone_bps"],
            three["alone_bps"]
        );
        assert_eq!((&two["membership"], &two["bounded"]), (&"member".into(), &0.into()), "{two}");
        assert_eq!((&three["membership"], &three["bounded"]), (&"none".into(), &1.into()), "{three}");
        assert_eq!((two["alone_bps"].as_u64(), three["alone_bps"].as_u64()), (Some(at_65), Some(at_26)));
        assert_eq!(ap["problems"], serde_json::json!([]));
        // A driver without airtime accounting reports no airtime.
        let findings = statuses["doctor"]["findings"].as_array().unwrap();
        let radio = findings.iter().find(|f| f["what"] == "radio wlan0").unwrap();
        assert_eq!(
            (&radio["result"], &radio["found"]),
            (&"ok".into(), &"mac80211_hwsim: reports rate, retries, queue; does not report airtime".into())
        );
    }
}
