//! Repeated output of `ss -ti`: a snapshot of each socket every time.

use super::time::{line_ns, seconds_ns};
use super::{LineReader, LogFlows};
use crate::error::IdentifyError;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use yuzuri_infer::samples::Sample;
use yuzuri_trace::{Flow, Snapshot};

/// This end, the other end.
type Key = (SocketAddr, SocketAddr);

/// The state of a socket.
#[derive(Debug, Clone, Copy, Default)]
struct PreviousState {
    acked_bytes: u64,
    segments_in: u64,
    retransmitted: u64,
}

/// Reads the log.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// When `ss` was called, by the line before it.
    called_ns: Option<i64>,
    socket: Option<Key>,
    sockets: HashMap<Key, PreviousState>,
    with_time: u64,
    without_time: u64,
}

impl LineReader for Reader {
    type Key = Key;

    fn line(&mut self, line: &str, log_flows: &mut LogFlows<'_, Key>) -> bool {
        if let Some(ns) = line_ns(line) {
            self.called_ns = Some(ns);
            return true;
        }
        // A time before each line, as `ts` of moreutils puts it.
        let line = match line.split_once(char::is_whitespace) {
            Some((first, rest)) if first.contains('.') && seconds_ns(first).is_some() => {
                self.called_ns = seconds_ns(first);
                rest
            }
            _ => line,
        };
        let mut ends = line.split_whitespace().filter_map(address);
        if let (Some(local), Some(remote)) = (ends.next(), ends.next()) {
            self.socket = Some((local, remote));
        }
        if !line.contains(" cwnd:") {
            return true;
        }
        let Some(key) = self.socket.take() else { return false };
        self.socket(key, line, log_flows).is_some()
    }

    fn check(&self, name: &str) -> Result<(), IdentifyError> {
        if self.with_time == 0 && self.without_time > 0 {
            return Err(IdentifyError::NoTimes { name: name.to_owned() });
        }
        Ok(())
    }
}

/// `10.0.0.1:80`, `[fe80::1]%eth0:80`, `10.0.0.1%eth0:80`; IPv4 in IPv6 is IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.split_once('%') {
        Some((host, _)) => host,
        None => host,
    };
    let host = host.strip_prefix('[').map_or(host, |host| host.trim_end_matches(']'));
    let address = match host.parse().ok()? {
        IpAddr::V6(six) => Ipv6Addr::to_ipv4_mapped(&six).map_or(IpAddr::V6(six), IpAddr::V4),
        four => four,
    };
    Some(SocketAddr::new(address, port.parse().ok()?))
}

/// `name:value` among the words of a line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
}

fn number<T: std::str::FromStr>(line: &str, name: &str) -> Option<T> {
    field(line, name)?.parse().ok()
}

/// Milliseconds with a fraction, as µs.
fn milliseconds_us(text: &str) -> Option<u32> {
    let us = text.trim_end_matches("ms").parse::<f64>().ok()? * 1000.0;
    (0.0..4e9).contains(&us).then_some(us.round() as u32)
}

/// The algorithm's name: the last bare word before the first field, after those for options in use.
fn control(line: &str) -> Option<&str> {
    const OPTIONS: [&str; 7] = ["ts", "sack", "ecn", "ecnseen", "fastopen", "usec_ts", "autoflowlabel"];
    let start = line.find("wscale:").or_else(|| line.find("rto:"))?;
    let word = line[..start].split_whitespace().next_back()?;
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    (plain && !OPTIONS.contains(&word)).then_some(word)
}

impl Reader {
    fn socket(&mut self, key: Key, line: &str, log_flows: &mut LogFlows<'_, Key>) -> Option<()> {
        let cwnd: u32 = number(line, "cwnd")?;
        let srtt_us = milliseconds_us(field(line, "rtt")?.split('/').next()?)?;
        // The socket's own busy time, if the log has no times.
        let busy_ns = field(line, "busy").and_then(milliseconds_us).map(|us| i64::from(us) * 1000);
        let Some(at_ns) = self.called_ns.or(busy_ns) else {
            self.without_time += 1;
            return Some(());
        };
        self.with_time += 1;
        if self.sockets.len() >= super::MAX_FLOWS && !self.sockets.contains_key(&key) {
            return None;
        }
        let count = |name: &str| number::<u64>(line, name).unwrap_or(0);
        let acked_bytes = count("bytes_acked");
        let (outstanding, retransmitted) = field(line, "retrans")
            .and_then(|text| text.split_once('/'))
            .map_or((0, 0), |(now, all)| (now.parse().unwrap_or(0), all.parse().unwrap_or(0)));
        let mss_bytes: u32 = number(line, "mss").unwrap_or(0);
        let (lost, sacked) = (count("lost"), count("sacked"));
        let flight = (count("unacked") + outstanding).saturating_sub(lost + sacked);
        let segments_in = count("segs_in");
        let former = self.sockets.get(&key).copied();
        // Less than before: another connection between the same ends.
        let former = former.filter(|former| former.acked_bytes <= acked_bytes);
        if former.is_none() {
            log_flows.end(key);
        }
        let acks = former.map_or(0, |former| segments_in.saturating_sub(former.segments_in));
        let again = former.map_or(0, |former| u64::saturating_sub(retransmitted, former.retransmitted));
        self.sockets.insert(key, PreviousState { acked_bytes, segments_in, retransmitted });
        let sample = Sample {
            at_ns,
            cwnd,
            ssthresh: number(line, "ssthresh").filter(|threshold| *threshold < Snapshot::SSTHRESH_INFINITE),
            srtt_us,
            min_rtt_us: field(line, "minrtt").and_then(milliseconds_us).unwrap_or(0),
            acked_bytes,
            sacked_bytes: Some(sacked * u64::from(mss_bytes)),
            flight: Some(u32::try_from(flight).unwrap_or(u32::MAX)),
            acks: u32::try_from(acks).unwrap_or(u32::MAX),
            retransmitted: Some(retransmitted),
            window_bytes: count("snd_wnd"),
            repairing: outstanding > 0 || lost > 0 || again > 0,
            loss_signs: u32::try_from(again).unwrap_or(u32::MAX),
            application: line.split_whitespace().any(|word| word == "app_limited"),
            mss_bytes,
            ..Sample::default()
        };
        let control = control(line).unwrap_or_default();
        let flow = || Flow {
            local: key.0,
            remote: key.1,
            congestion_control: control.to_owned(),
            ..Flow::default()
        };
        log_flows.sample(key, flow, &sample);
        Some(())
    }
}
