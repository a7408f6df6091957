//! An oracle for a setting: a leader that knows each member's possible rate at each moment.

use super::draw::Drawn;
use super::rates::Rates;
use yuzuri_netmodel::Time;
use yuzuri_sim::{Direction, Oracle, Traffic, TrueCapacity};

/// A wire that is used to this fraction of its rate is the bottleneck.
const FULL: f64 = 0.99;
/// Part of a wire's rate that is payload: 1448 bytes of 1514.
const PAYLOAD_OF_WIRE: f64 = 1448.0 / 1514.0;

/// Each sender, including outsiders, gets the same fraction of its rate alone; all downloads
/// together count as one more sender on the air.
pub fn of(drawn: &Drawn) -> Oracle {
    let mut rates = Rates::of(drawn);
    let outsider_count = drawn.outsider_count as f64;
    let download = Traffic::Bulk { direction: Direction::Down, bytes: None };
    let downloads = drawn.scenario.terminals.iter().any(|terminal| terminal.traffic == download);
    Box::new(move |now: Time, senders: u16| {
        rates.advance(now);
        let (alone_bps, wire_bps) = (&rates.alone_bps, rates.wire_bps * PAYLOAD_OF_WIRE);
        let senders = f64::from(senders.max(1));
        let uploads = senders + outsider_count;
        let mean_bps = alone_bps.iter().map(|bps| bps.min(wire_bps)).sum::<f64>() / alone_bps.len() as f64;
        let by_air = 1.0 / (uploads + f64::from(u8::from(downloads)));
        let by_wire = wire_bps / (uploads * mean_bps);
        let part = by_air.min(by_wire);
        TrueCapacity {
            capacity_bps: part * senders * mean_bps,
            air: part * senders,
            paced: by_wire * FULL < by_air,
            wire_bps: wire_bps as u64,
        }
    })
}
