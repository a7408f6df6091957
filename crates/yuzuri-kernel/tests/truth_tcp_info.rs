//! A record compared with `TCP_INFO` and `ss -tin` of the same moment.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::tcp_info::{self, TcpInfo, differences};
use common::{Pair, Watched, events, flow_id, has};
use std::collections::HashMap;
use std::io::Write;
use yuzuri_testnet::{Net, Relay, Side, Verdict};
use yuzuri_trace::{Density, Event, Kind, Marks, Snapshot};

/// Returns the record caused by one byte from the far end, and `TCP_INFO` from before it. The
/// record is taken before the segment is processed, so the two must be equal. Repeats this if a
/// timer or another segment came in between.
fn record_and_info<T>(watched: &mut Watched, pair: &Pair, read: impl Fn() -> T) -> (Event, TcpInfo, T) {
    let local = pair.near_addr();
    let own = |items: &[yuzuri_trace::Item]| -> Vec<Event> {
        let id = flow_id(items, local);
        events(items).into_iter().filter(|e| Some(e.flow) == id).copied().collect()
    };
    for _ in 0..50 {
        // Earlier records are read before: later ones belong to the byte.
        let before_ns = yuzuri_kernel::clock::mono_ns();
        let info = tcp_info::read(&pair.near);
        let seen = read();
        let again = tcp_info::read(&pair.near);
        (&pair.far).write_all(&[1]).unwrap();
        let arrived = info.tcpi_bytes_received + 1;
        common::read_exactly(&pair.near, 1);
        assert_eq!(tcp_info::read(&pair.near).tcpi_bytes_received, arrived);
        let bytes = |e: &Event| e.snapshot.bytes_received;
        watched.until("the byte's record", |items| {
            own(items).iter().any(|e| e.mono_ns >= before_ns && bytes(e) + 1 == arrived)
        });
        let since: Vec<Event> = own(&watched.items).into_iter().filter(|e| e.mono_ns >= before_ns).collect();
        let quiet = TcpInfo { tcpi_last_data_sent: 0, tcpi_last_ack_recv: 0, tcpi_last_data_recv: 0, ..info };
        let still =
            TcpInfo { tcpi_last_data_sent: 0, tcpi_last_ack_recv: 0, tcpi_last_data_recv: 0, ..again };
        if since[0].kind == Kind::Sample && bytes(&since[0]) + 1 == arrived && quiet == still {
            return (since[0], info, seen);
        }
    }
    panic!("the flow never rested");
}

#[test]
fn an_idle_flow_equals_tcp_info() {
    let Some(net) = Net::or_skip("an_idle_flow_equals_tcp_info") else { return };
    net.shape(Side::A, 50, 30_000).unwrap();
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    for (control, to) in [("cubic", net.v4(Side::B)), ("bbr", net.v6(Side::B)), ("reno", net.v4(Side::B))] {
        let pair = Pair::new(&net, Side::A, to, control);
        for bytes in [1, 100_000, 2_000_000] {
            pair.send(bytes);
            let (event, info, ()) = record_and_info(&mut watched, &pair, || ());
            assert_eq!(differences(&event, &info), [""; 0], "{control}, {bytes} bytes");
        }
        pair.close();
    }
    watched.finish_whole();
}

/// Segments lost, SACKed, retransmitted and not yet sent: every field but zero.
#[test]
fn a_flow_with_losses_equals_tcp_info() {
    const TEST: &str = "a_flow_with_losses_equals_tcp_info";
    for v6 in [false, true] {
        let Some(net) = Net::or_skip(TEST) else { return };
        let Some(relay) = Relay::or_skip(&net, TEST) else { return };
        let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
        let to = if v6 { relay.v6(Side::B) } else { relay.v4(Side::B) };
        // A receive buffer smaller than the window: some data stays unsent.
        let small = |socket: &socket2::Socket| socket.set_recv_buffer_size(64 * 1024).unwrap();
        let pair = Pair::with(&net, Side::A, to, "cubic", small);
        pair.send(200_000);
        // One segment is lost repeatedly: its successors are SACKed.
        let mut lost = None;
        relay.decide(move |packet| match &packet.tcp {
            Some(tcp) if packet.from == Side::A && tcp.is_data() => {
                if *lost.get_or_insert(tcp.seq) == tcp.seq { Verdict::Drop } else { Verdict::Pass }
            }
            _ => Verdict::Pass,
        });
        pair.near.set_nonblocking(true).unwrap();
        let chunk = vec![7; 64 * 1024];
        while (&pair.near).write(&chunk).is_ok() {}
        pair.near.set_nonblocking(false).unwrap();
        let full = || {
            let info = tcp_info::read(&pair.near);
            info.tcpi_sacked > 0 && info.tcpi_notsent_bytes > 0 && info.tcpi_total_retrans > 0
        };
        assert!(yuzuri_testnet::eventually(full), "{:?}", tcp_info::read(&pair.near));
        for _ in 0..3 {
            let (event, info, ()) = record_and_info(&mut watched, &pair, || ());
            assert!(info.tcpi_unacked > 0 && info.tcpi_sacked > 0 && info.tcpi_lost + info.tcpi_retrans > 0);
            assert!(info.tcpi_notsent_bytes > 0 && info.tcpi_total_retrans > 0, "{info:?}");
            assert_eq!(differences(&event, &info), [""; 0]);
            assert!(event.snapshot.wmem_queued > event.snapshot.notsent);
        }
        drop(pair);
        watched.finish_whole();
    }
}

/// A writer that waits for room in the send buffer is reported, and requests that wait for their
/// answers are not mistaken for one.
#[test]
fn a_writer_that_waits_is_reported() {
    let Some(net) = Net::or_skip("a_writer_that_waits_is_reported") else { return };
    // The queue is larger than the send buffer: nothing stays unsent.
    net.shape(Side::A, 20, 200_000).unwrap();
    let watched = Watched::of(&net, Side::A, Density::EveryAck);
    let small = |socket: &socket2::Socket| socket.set_send_buffer_size(32 * 1024).unwrap();
    let blocked = Pair::with(&net, Side::A, net.v4(Side::B), "cubic", small);
    blocked.send(6_000_000);
    let requests = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    for _ in 0..50 {
        requests.send(64);
    }
    let seen = watched.finish_whole();
    let waits = |pair: &Pair| {
        let acks = seen.of(pair.near_addr()).into_iter().filter(|e| e.kind == Kind::Sample);
        let is_sent = |e: &Event| e.snapshot.notsent == 0 && e.snapshot.sender.outstanding_bytes > 0;
        let sent: Vec<_> = acks.filter(|e| is_sent(e)).collect();
        let marked = sent.iter().filter(|e| e.marks.contains(Marks::NO_SPACE)).count();
        (marked, sent.len())
    };
    let (marked, of) = waits(&blocked);
    assert!(of > 200 && marked * 10 > of * 9, "{marked} of {of}");
    let (marked, of) = waits(&requests);
    assert!(of >= 50 && marked == 0, "{marked} of {of}");
}

/// The fields of `ss`: `cwnd:10`, and those with a blank before the value (`pacing_rate 12bps`).
fn words(text: &str) -> HashMap<String, String> {
    let mut words = HashMap::new();
    let mut tokens = text.split_whitespace().peekable();
    while let Some(token) = tokens.next() {
        match token.split_once(':') {
            Some((name, value)) => drop(words.insert(name.to_owned(), value.to_owned())),
            None if matches!(token, "pacing_rate" | "delivery_rate" | "send") => {
                words.insert(token.to_owned(), tokens.next().unwrap_or("").to_owned());
            }
            None => drop(words.insert(token.to_owned(), String::new())),
        }
    }
    words
}

#[test]
fn a_flow_equals_what_ss_prints() {
    const TEST: &str = "a_flow_equals_what_ss_prints";
    if !has(TEST, "ss") {
        return;
    }
    for control in ["cubic", "bbr"] {
        let Some(net) = Net::or_skip(TEST) else { return };
        let Some(relay) = Relay::or_skip(&net, TEST) else { return };
        let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
        let pair = Pair::new(&net, Side::A, relay.v4(Side::B), control);
        let mut count = 0;
        relay.decide(move |packet| {
            count += usize::from(packet.from == Side::A);
            if count == 40 { Verdict::Drop } else { Verdict::Pass }
        });
        pair.send(300_000);
        let port = pair.near_addr().port();
        let ss = || {
            let output =
                net.command(Side::A, "ss").args(["-tinOH", &format!("sport = :{port}")]).output().unwrap();
            words(&String::from_utf8(output.stdout).unwrap())
        };
        let (event, _, words) = record_and_info(&mut watched, &pair, ss);
        let s: &Snapshot = &event.snapshot;
        // ss omits zeros, and ssthresh while it is infinite.
        let number = |name: &str| -> u64 {
            let value = words.get(name).map_or("0", String::as_str);
            let digits = value.trim_end_matches("bps");
            digits.parse().unwrap_or_else(|e| panic!("{name}:{value}: {e}; {words:?}"))
        };
        let milliseconds = |us: u32| format!("{}", f64::from(us) / 1000.0);
        assert_eq!(u64::from(s.cwnd), number("cwnd"), "{words:?}");
        assert_eq!(s.finite_ssthresh().map_or(0, u64::from), number("ssthresh"), "{words:?}");
        let rtt = format!("{}/{}", milliseconds(s.srtt_us), milliseconds(s.rttvar_us));
        assert_eq!(Some(&rtt), words.get("rtt"), "{words:?}");
        assert_eq!(Some(&milliseconds(s.min_rtt_us)), words.get("minrtt"), "{words:?}");
        assert_eq!(u64::from(s.mss), number("mss"), "{words:?}");
        assert_eq!(s.bytes_acked, number("bytes_acked"), "{words:?}");
        assert_eq!(s.bytes_received, number("bytes_received"), "{words:?}");
        assert_eq!(u64::from(s.snd_wnd), number("snd_wnd"), "{words:?}");
        if words.contains_key("rcv_wnd") {
            assert_eq!(u64::from(s.rcv_wnd), number("rcv_wnd"), "{words:?}");
        }
        for (name, ours) in [
            ("unacked", s.packets_out),
            ("sacked", s.sacked_out),
            ("lost", s.lost_out),
            ("notsent", s.notsent),
        ] {
            assert_eq!(u64::from(ours), number(name), "{name}: {words:?}");
        }
        let retrans = words.get("retrans").map_or("0/0", String::as_str);
        assert_eq!(format!("{}/{}", s.retrans_out, s.total_retrans), retrans, "{words:?}");
        // bytes per second times eight, as in ss.
        assert_eq!(s.pacing_rate_bps, number("pacing_rate"), "{words:?}");
        assert_eq!(s.delivery_rate_bps / 8 * 8, number("delivery_rate"), "{words:?}");
        let limited = event.marks.contains(yuzuri_trace::Marks::APP_LIMITED);
        assert_eq!(limited, words.contains_key("app_limited"), "{words:?}");
        pair.close();
        watched.finish_whole();
    }
}

/// The last record of a flow has its final account, and no record of the flow follows it.
#[test]
fn the_closing_record_has_the_final_state() {
    let Some(net) = Net::or_skip("the_closing_record_has_the_final_state") else { return };
    let watched = Watched::of(&net, Side::A, Density::default());
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    pair.send(500_000);
    let (local, info) = (pair.near_addr(), tcp_info::read(&pair.near));
    pair.close();
    let closed = || net.counter(Side::A, "CurrEstab") == 0;
    assert!(yuzuri_testnet::eventually(closed));
    let mut watched = watched;
    watched.until("the close", |items| events(items).iter().any(|e| e.kind == Kind::Close));
    let seen = watched.finish_whole();
    let last = *seen.of(local).last().unwrap();
    assert_eq!(last.kind, Kind::Close);
    // FIN takes a sequence number.
    let acked = last.snapshot.bytes_acked - info.tcpi_bytes_acked;
    assert!(acked <= 1, "{last:?}");
    assert_eq!(last.snapshot.total_retrans, info.tcpi_total_retrans);
}
