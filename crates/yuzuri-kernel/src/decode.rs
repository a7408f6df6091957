//! Converts the kernel's records to the types of `yuzuri_trace`.

use crate::abi::*;
use crate::places;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;
use yuzuri_trace::{
    CaState, Counts, Event, Flow, FlowId, Kind, Marks, Owner, Place, Reason, Role, Sender, Snapshot,
};

/// The content of a flow record, without what user space adds.
pub(crate) struct Identity {
    pub(crate) flow: Flow,
    /// The filter selects by owner, and the kernel does not know the owner.
    pub(crate) undecided: bool,
}

pub(crate) fn identity(record: &flow_record) -> Identity {
    let address =
        |bytes: [u8; 16], port| SocketAddr::new(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(), port);
    let role = match record.role {
        ROLE_OPENED => Role::Opened,
        ROLE_ACCEPTED => Role::Accepted,
        _ => Role::Unknown,
    };
    let flow = Flow {
        id: FlowId(record.cookie),
        local: address(record.local, record.local_port),
        remote: address(record.remote, record.remote_port),
        netns: record.netns,
        netns_name: None,
        owner: (record.pid != 0).then(|| Owner { pid: record.pid, name: text(&record.name) }),
        cgroup: record.cgroup,
        congestion_control: text(&record.control),
        role,
        inode: record.inode,
    };
    Identity { flow, undecided: record.undecided != 0 }
}

/// A C string in a fixed field.
fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The place of nearly every record, looked up only once.
static PROBE: LazyLock<Place> = LazyLock::new(|| Place::named("tcp:tcp_probe"));

/// Decodes an event. `frames` are the TCP functions of its stack, innermost first.
pub(crate) fn event(record: &event_record, cpu: u16, frames: &[&str]) -> Event {
    let state = CaState::from_kernel(record.ca_state).unwrap_or_default();
    let before = CaState::from_kernel(record.ca_before).unwrap_or_default();
    let has = |mark| record.marks & mark != 0;
    let mut marks = Marks(record.marks & MARKS_SHARED);
    for (kernels, ours) in [
        (MARK_AT_BOUND, Marks::AT_BOUND),
        (MARK_REPORTS_BOUND, Marks::REPORTS_BOUND),
        (MARK_NO_SPACE, Marks::NO_SPACE),
        (MARK_CWND_LIMITED, Marks::CWND_LIMITED),
        (MARK_THROTTLED, Marks::THROTTLED),
    ] {
        if has(kernels) {
            marks.insert(ours);
        }
    }
    let undone = has(MARK_UNDO);
    let tracepoint = |name| Place::named(name);
    let (kind, reason, place, ca_state, ca_before) = match record.kind {
        RECORD_STATE => {
            let ece = marks.contains(Marks::ECE);
            let reason = places::state_reason(before, state, frames, undone, has(MARK_RENEGING), ece);
            let timer = matches!(reason, Reason::Timeout | Reason::SackReneging);
            let kind = if timer { Kind::Timeout } else { Kind::State };
            let place = places::place(frames).unwrap_or_else(|| tracepoint("tcp:tcp_cong_state_set"));
            (kind, reason, place, state, before)
        }
        RECORD_RETRANSMIT => {
            let reason = places::retransmit_reason(state, frames, has(MARK_AFTER_RTO));
            let place = places::place(frames).unwrap_or_else(|| tracepoint("tcp:tcp_retransmit_skb"));
            (Kind::Retransmit, reason, place, state, state)
        }
        RECORD_OPEN => {
            let reason = match record.ca_state {
                ROLE_OPENED => Reason::Opened,
                ROLE_ACCEPTED => Reason::Accepted,
                _ => Reason::None,
            };
            (Kind::Open, reason, tracepoint("sock:inet_sock_set_state"), before, before)
        }
        RECORD_CLOSE => {
            let reason = match record.stack as i32 {
                0 => Reason::Closed,
                libc::ETIMEDOUT => Reason::TimedOut,
                _ => Reason::Reset,
            };
            (Kind::Close, reason, tracepoint("sock:inet_sock_set_state"), before, before)
        }
        _ => {
            let (kind, reason) = if has(MARK_CONTROL) {
                (Kind::Control, Reason::Chosen)
            } else if undone {
                (Kind::Undo, Reason::Undo)
            } else if has(MARK_REORDERING) {
                (Kind::Reordering, Reason::None)
            } else {
                (Kind::Sample, Reason::None)
            };
            // A record of an ACK has no stack: its place is the tracepoint.
            let place = places::place(frames).unwrap_or_else(|| *PROBE);
            (kind, reason, place, state, before)
        }
    };
    let counts = Counts {
        acks: record.acks,
        dup_acks: record.dup_acks,
        sacks: record.sacks,
        dsacks: record.dsacks.into(),
    };
    Event {
        mono_ns: record.mono_ns,
        flow: FlowId(record.cookie),
        kind,
        reason,
        place,
        ca_state,
        ca_before,
        marks,
        counts,
        snapshot: snapshot(record),
        cpu,
    }
}

fn snapshot(record: &event_record) -> Snapshot {
    let delivered_bits = u64::from(record.rate_delivered) * u64::from(record.mss) * 8;
    let interval_us = u64::from(record.rate_interval_us);
    Snapshot {
        cwnd: record.snd_cwnd,
        ssthresh: record.snd_ssthresh,
        srtt_us: record.srtt_us >> 3,
        rttvar_us: record.mdev_us >> 2,
        min_rtt_us: record.min_rtt_us,
        packets_out: record.packets_out,
        sacked_out: record.sacked_out,
        lost_out: record.lost_out,
        retrans_out: record.retrans_out,
        mss: record.mss.into(),
        snd_wnd: record.snd_wnd,
        rcv_wnd: record.rcv_wnd,
        wmem_queued: record.wmem_queued,
        notsent: record.notsent,
        bytes_acked: record.bytes_acked,
        bytes_received: record.bytes_received,
        // Only a broken record has more bits than 64 bits can hold: no rate is that high.
        delivery_rate_bps: delivered_bits.saturating_mul(1_000_000).checked_div(interval_us).unwrap_or(0),
        pacing_rate_bps: match record.pacing_rate {
            u64::MAX => u64::MAX,
            // Before 6.10 and on 32 bits, "unlimited" is the largest u32.
            rate if rate == u64::from(u32::MAX) => u64::MAX,
            rate => rate.saturating_mul(8),
        },
        total_retrans: record.total_retrans,
        reordering: record.reordering.into(),
        sender: Sender {
            sndbuf: record.sndbuf,
            // The kernel's count starts at one.
            wmem_alloc: record.wmem_alloc.saturating_sub(1),
            outstanding_bytes: record.outstanding,
            max_window: record.max_window,
            prior_cwnd: record.prior_cwnd,
            pacing_wait_us: record.pacing_wait_us,
            // To keep records cheap, they omit the window scale, which never changes, and the
            // chronographs, which show nothing that the marks do not; TCP_INFO has both.
            ..Sender::UNKNOWN
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_timeout_is_an_event_of_its_own_kind() {
        let record = event_record {
            kind: RECORD_STATE,
            ca_state: 4,
            ca_before: 1,
            srtt_us: 800,
            marks: Marks::SACK.0,
            ..Default::default()
        };
        let event = event(&record, 1, &["tcp_enter_loss", "tcp_retransmit_timer"]);
        assert_eq!((event.kind, event.reason), (Kind::Timeout, Reason::Timeout));
        assert_eq!((event.ca_before, event.ca_state), (CaState::Disorder, CaState::Loss));
        assert_eq!(event.place.name(), "tcp_enter_loss");
        assert_eq!(event.snapshot.srtt_us, 100);
    }

    #[test]
    fn an_ipv4_flow_is_shown_as_ipv4() {
        let mut record = flow_record { local_port: 80, ..Default::default() };
        record.local[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        record.control[..4].copy_from_slice(&[b'r' as i8, b'e' as i8, b'n' as i8, b'o' as i8]);
        let identity = identity(&record);
        assert_eq!(identity.flow.local, "10.0.0.1:80".parse().unwrap());
        assert_eq!(identity.flow.congestion_control, "reno");
        assert_eq!(identity.flow.owner, None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode(low: [u8; 32], rest in prop::collection::vec(any::<u8>(), RECORD_BYTES - 32)) {
            let mut bytes = [0u8; RECORD_BYTES];
            bytes[..32].copy_from_slice(&low);
            bytes[32..].copy_from_slice(&rest);
            let record = Record::from_bytes(bytes);
            let _ = event(record.event(), 0, &[]);
            let _ = identity(record.flow());
        }
    }
}
