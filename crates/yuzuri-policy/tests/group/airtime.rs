//! The airtime of messages, by the timing of IEEE Std 802.11 and the messages of a simulated group.

use crate::net::{Net, Sent, at};
use std::time::Duration;
use yuzuri_netmodel::radio::{Access, Band, Phy, Timing};
use yuzuri_policy::To;

/// LLC/SNAP, IPv4, UDP; MAC header and FCS of a data frame of 802.11g.
const ABOVE_MAC_BYTES: u32 = 8 + 20 + 8;
const MAC_BYTES: u32 = 24 + 4;
const ACK_BYTES: u32 = 14;
const SLOT_NS: u64 = 9_000;

/// DIFS and the mean of the first back-off: a frame in a busy cell waits less, since others count
/// down meanwhile.
fn contention_ns(timing: &Timing) -> u64 {
    timing.aifs_ns(Access::DCF.aifsn) + u64::from(Access::DCF.cw_min) * SLOT_NS / 2
}

/// Unicast at 54 Mbit/s with its Ack at 24.
fn unicast_ns(timing: &Timing, bytes: u32) -> u64 {
    let frame = timing.ppdu_ns(&Phy::g(54), bytes + ABOVE_MAC_BYTES + MAC_BYTES);
    contention_ns(timing) + frame + timing.sifs_ns() + timing.legacy_ns(24, ACK_BYTES)
}

/// Group-addressed: no Ack, at a basic rate. At 1 Mbit/s the DSSS preamble of 192 µs (IEEE Std
/// 802.11-2020, 15.2.2).
fn group_addressed_ns(timing: &Timing, bytes: u32, basic_mbps: u32) -> u64 {
    let bytes = bytes + ABOVE_MAC_BYTES + MAC_BYTES;
    let frame = match basic_mbps {
        1 => 192_000 + u64::from(bytes) * 8_000,
        rate => timing.legacy_ns(rate, bytes),
    };
    contention_ns(timing) + frame
}

/// Every message goes to the access point, and from there once more. `more_bytes`: additional bytes
/// of each message.
fn air_ns(sent: &Sent, basic_mbps: u32, more_bytes: u32) -> u64 {
    let timing = Timing::new(Band::Ghz2);
    let bytes = sent.bytes.len() as u32 + more_bytes;
    let up = unicast_ns(&timing, bytes);
    match sent.to {
        To::All => up + group_addressed_ns(&timing, bytes, basic_mbps),
        To::One(_) => up + unicast_ns(&timing, bytes),
    }
}

#[test]
fn the_timing_by_hand() {
    let timing = Timing::new(Band::Ghz2);
    // DIFS 28 µs, 7.5 slots of 9 µs.
    assert_eq!(contention_ns(&timing), 28_000 + 67_500);
    // 94 bytes and 64 of headers: (16 + 1264 + 6) / 216 = 5.95: 6 symbols, 20 + 24 + 6 µs; SIFS 10;
    // Ack 34.
    assert_eq!(unicast_ns(&timing, 94), 95_500 + 50_000 + 10_000 + 34_000);
    // 166 bytes at 1 Mbit/s.
    assert_eq!(group_addressed_ns(&timing, 102, 1), 95_500 + 192_000 + 166 * 8_000);
}

/// The airtime of a settled group of senders in millionths, the messages per second, and the mean
/// report.
fn share_ppm(senders: u64, basic_mbps: u32) -> (u64, f64, f64) {
    share_with_ppm(senders, basic_mbps, 0)
}

fn share_with_ppm(senders: u64, basic_mbps: u32, more_bytes: u32) -> (u64, f64, f64) {
    let mut net = Net::new(senders);
    for node in 1..=senders {
        let place = net.add(node);
        net.begin(place, 1);
        net.run_for(Duration::from_millis(40));
    }
    net.run_until(at(30_000));
    assert!((0..senders as usize).all(|place| net.senders(place) == Some(senders as u16)));
    let since = net.now;
    net.run_for(Duration::from_secs(120));
    let air: u64 = net.sent_since(since).map(|sent| air_ns(sent, basic_mbps, more_bytes)).sum();
    let sent = net.sent_since(since).count();
    let single: Vec<usize> =
        net.sent_since(since).filter(|sent| sent.to != To::All).map(|sent| sent.bytes.len()).collect();
    let mean = single.iter().sum::<usize>() as f64 / single.len().max(1) as f64;
    (air / 120_000, sent as f64 / 120.0, mean)
}

#[test]
fn sixty_four_senders_cost_at_most_half_a_percent() {
    for senders in [1, 2, 4, 8, 16, 32, 64] {
        for basic_mbps in [1, 6] {
            let (ppm, messages, bytes) = share_ppm(senders, basic_mbps);
            println!(
                "{senders} senders, basic rate {basic_mbps}: {:.3} % of the air, {messages:.1} messages/s, reports of {bytes:.0} bytes",
                ppm as f64 / 1e4
            );
            assert!(ppm <= 5000, "{senders} senders at {basic_mbps} Mbit/s: {ppm} millionths");
        }
    }
}

/// The cost of the ways to exclude a member (`docs/group-keys.md`): a signature in each message, or
/// a notice to each member once.
#[test]
fn a_signature_in_each_message_would_cost_more_air_than_there_is() {
    const SIGNATURE_BYTES: u32 = 64;
    const NOTICE_BYTES: u32 = 111;
    for senders in [1, 8, 64] {
        for basic_mbps in [1, 6] {
            let (with, ..) = share_with_ppm(senders, basic_mbps, SIGNATURE_BYTES);
            let (without, ..) = share_ppm(senders, basic_mbps);
            println!(
                "{senders} senders, basic rate {basic_mbps}: {:.3} % of the air, with signatures {:.3} %",
                without as f64 / 1e4,
                with as f64 / 1e4
            );
            assert!(with > without);
        }
    }
    let (most, ..) = share_with_ppm(64, 1, SIGNATURE_BYTES);
    assert!(most > 5000, "{most} millionths would be within the budget of half a percent");
    let notice_us = 2 * unicast_ns(&Timing::new(Band::Ghz2), NOTICE_BYTES) / 1000;
    println!("a notice to one member: {notice_us} µs of the air, once");
    assert!(notice_us < 1000);
}
