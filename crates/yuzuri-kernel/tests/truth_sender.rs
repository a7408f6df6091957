//! A sender's memory held by the device and its pacing, as recorded, compared with other sources:
//! `SO_MEMINFO` of the same socket, and `SO_MAX_PACING_RATE` with the length of a segment.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::options::send_memory;
use common::{Pair, Watched, events, flow_id, read_exactly, tcp_info};
use std::io::Write;
use std::time::Duration;
use yuzuri_kernel::clock::mono_ns;
use yuzuri_testnet::{Net, Side, set_max_pacing_rate};
use yuzuri_trace::{Density, Event, Kind};

/// `TCP_DELACK_MAX`: how long the kernel may delay an acknowledgement.
const MAX_DELAYED_ACK: Duration = Duration::from_millis(200);

/// The near end's records of arriving segments since `since_ns`, at least one.
fn samples_since(watched: &mut Watched, pair: &Pair, since_ns: u64) -> Vec<Event> {
    let local = pair.near_addr();
    let own = |items: &[yuzuri_trace::Item]| -> Vec<Event> {
        let id = flow_id(items, local);
        let is_own = |e: &&Event| Some(e.flow) == id && e.mono_ns >= since_ns && e.kind == Kind::Sample;
        events(items).into_iter().filter(is_own).copied().collect()
    };
    watched.until("the arriving byte's record", |items| !own(items).is_empty());
    own(&watched.items)
}

/// A device that keeps segments: `wmem_alloc` is what `SO_MEMINFO` shows, and 0 once they have
/// left.
#[test]
fn memory_held_by_the_device_equals_so_meminfo() {
    const MAX_TRIES: usize = 50;
    let Some(net) = Net::or_skip("memory_held_by_the_device_equals_so_meminfo") else { return };
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    pair.exchange();
    let before_ns = mono_ns();
    pair.ping();
    let idle = samples_since(&mut watched, &pair, before_ns);
    assert_eq!((idle[0].snapshot.sender.wmem_alloc, send_memory(&pair.near).alloc), (0, 0));

    common::fill_slow_device(&net, &pair);
    let compared = (0..MAX_TRIES).find_map(|_| {
        let before_ns = mono_ns();
        let before = send_memory(&pair.near);
        pair.ping();
        let seen = samples_since(&mut watched, &pair, before_ns);
        // A segment that leaves meanwhile, or an acknowledgement, changes what is compared.
        (send_memory(&pair.near) == before && before.alloc > 1000).then_some((before, seen))
    });
    let (memory, seen) = compared.expect("the socket never rested");
    for event in seen {
        let s = event.snapshot;
        assert_eq!((s.sender.wmem_alloc, s.sender.sndbuf), (memory.alloc, memory.buffer), "{event:?}");
        assert_eq!(s.wmem_queued, memory.queued, "{event:?}");
    }
    drop(pair);
    watched.finish_whole();
}

/// After a pause, the kernel delays the segment after the next one by half the time that the next
/// one takes at the pacing rate (`tcp_update_skb_after_send`: the pause counts for the other half).
/// So the moment at which the next segment may leave is known from the moment of writing.
#[test]
fn pacing_holds_the_next_segment_as_long_as_the_rate_demands() {
    const MAX_TRIES: usize = 10;
    let Some(net) = Net::or_skip("pacing_holds_the_next_segment_as_long_as_the_rate_demands") else { return };
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    for (bytes_per_s, bytes) in [(2_000u64, 500), (4_000, 1_400), (20_000, 1_400)] {
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
        set_max_pacing_rate(&pair.near, bytes_per_s);
        // The kernel does not pace the first ten segments.
        while tcp_info::read(&pair.near).tcpi_data_segs_out < 12 {
            pair.exchange();
        }
        assert_eq!(tcp_info::read(&pair.near).tcpi_pacing_rate, bytes_per_s);
        let half_ns = bytes as u64 * 1_000_000_000 / bytes_per_s / 2;
        let held = (0..MAX_TRIES).find_map(|_| {
            // A pause longer than half of that time, since the last segment, which may be a delayed
            // acknowledgement.
            std::thread::sleep(Duration::from_nanos(half_ns * 2) + MAX_DELAYED_ACK);

            let written_from_ns = mono_ns();
            (&pair.near).write_all(&vec![7; bytes]).unwrap();
            let written_to_ns = mono_ns();
            read_exactly(&pair.far, bytes);
            pair.ping();
            let seen = samples_since(&mut watched, &pair, written_from_ns);
            let case = format!("{bytes_per_s} B/s, {bytes} bytes: {seen:?}");
            // Rounded down to a microsecond, and by the kernel to a nanosecond.
            let (first_ns, last_ns) = (written_from_ns + half_ns - 2_000, written_to_ns + half_ns + 1_000);
            let waits: Vec<Event> = seen.into_iter().filter(|e| e.mono_ns < first_ns).collect();
            // On a machine that stalled, the byte may have come after the wait.
            (!waits.is_empty()).then_some((waits, first_ns, last_ns, case))
        });
        let (waits, first_ns, last_ns, case) = held.expect("no byte came during the wait");
        for event in waits {
            let next_ns = event.mono_ns + u64::from(event.snapshot.sender.pacing_wait_us) * 1000;
            assert!((first_ns..=last_ns).contains(&next_ns), "{next_ns} in {first_ns}..={last_ns}; {case}");
        }

        // Once that moment has passed, nothing holds the next segment.
        while mono_ns() <= last_ns {
            std::thread::sleep(Duration::from_nanos(last_ns.saturating_sub(mono_ns()) + 1));
        }
        let since_ns = mono_ns();
        pair.ping();
        let seen = samples_since(&mut watched, &pair, since_ns);
        assert!(seen.iter().all(|e| e.snapshot.sender.pacing_wait_us == 0), "{seen:?}");
        pair.close();
    }
    watched.finish_whole();
}
