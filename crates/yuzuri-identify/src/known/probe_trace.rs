//! The tracepoint `tcp:tcp_probe` as printed by the kernel (`/sys/kernel/tracing/trace_pipe`,
//! `perf script`). Lines of `tcp:tcp_cong_state_set` and `tcp:tcp_retransmit_skb` in between report
//! losses.

use super::probe_csv::{Row, Rows, finite};
use super::time::seconds_ns;
use super::{LineReader, LogFlows};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use yuzuri_trace::{CaState, Flow};

/// Ends of a connection, the sender first.
type Key = (SocketAddr, SocketAddr);

/// The state of a flow.
#[derive(Debug, Default)]
struct State {
    rows: Rows,
    state: Option<CaState>,
    retransmitted: u64,
    /// The socket's number, which newer kernels print.
    cookie: Option<u64>,
}

/// Reads the trace.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    flows: HashMap<Key, State>,
    /// Whether the trace contains states and retransmissions at all.
    states: bool,
    retransmissions: bool,
}

impl LineReader for Reader {
    type Key = Key;

    fn line(&mut self, line: &str, log_flows: &mut LogFlows<'_, Key>) -> bool {
        let Some((head, event, fields)) = parts(line) else { return true };
        let read = match event {
            "tcp_probe" => self.probe(head, fields, log_flows),
            "tcp_cong_state_set" => self.state(fields),
            "tcp_retransmit_skb" => self.retransmission(fields),
            _ => Some(()),
        };
        read.is_some()
    }
}

/// The part before the event, the event, and its fields; `perf` writes the subsystem before it
/// (`tcp:tcp_probe`).
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let place = line.find("tcp_")?;
    let (head, rest) = line.split_at(place);
    let (event, fields) = rest.split_once(": ")?;
    Some((head.trim_end_matches("tcp:"), event, fields))
}

fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

/// A number, decimal or as the kernel's `%#x` writes it.
fn number(fields: &str, name: &str) -> Option<u32> {
    let text = field(fields, name)?;
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The ends as events other than `tcp_probe` write them.
fn ends(fields: &str) -> Option<Key> {
    let six = field(fields, "family") == Some("AF_INET6");
    let (from, to) = if six { ("saddrv6", "daddrv6") } else { ("saddr", "daddr") };
    let end = |address: &str, port: &str| {
        let address: IpAddr = field(fields, address)?.parse().ok()?;
        Some(SocketAddr::new(address, field(fields, port)?.parse().ok()?))
    };
    Some((end(from, "sport")?, end(to, "dport")?))
}

impl Reader {
    fn probe(&mut self, head: &str, fields: &str, log_flows: &mut LogFlows<'_, Key>) -> Option<()> {
        // The last word before the event is its time.
        let at_ns = seconds_ns(head.trim_end().trim_end_matches(':').split_whitespace().next_back()?)?;
        let key: Key = (field(fields, "src")?.parse().ok()?, field(fields, "dest")?.parse().ok()?);
        let row = Row {
            at_ns,
            nxt: number(fields, "snd_nxt")?,
            una: number(fields, "snd_una")?,
            cwnd: number(fields, "snd_cwnd")?,
            ssthresh: finite(number(fields, "ssthresh")?),
            window_bytes: u64::from(number(fields, "snd_wnd")?),
            srtt_us: number(fields, "srtt")?,
        };
        if self.flows.len() >= super::MAX_FLOWS && !self.flows.contains_key(&key) {
            return None;
        }
        let cookie = field(fields, "sock_cookie").and_then(|cookie| u64::from_str_radix(cookie, 16).ok());
        let flow = self.flows.entry(key).or_default();
        if flow.cookie != cookie {
            // Another connection between the same ends.
            log_flows.end(key);
            *flow = State { cookie, ..State::default() };
        }
        if let Some(mut sample) = flow.rows.sample(row) {
            // An algorithm's own reductions (`tcp_enter_cwr`) look like those by ECN: they are left
            // to the replay.
            sample.state = self.states.then(|| flow.state.unwrap_or_default()).map(|state| match state {
                CaState::Cwr => CaState::Open,
                other => other,
            });
            sample.retransmitted = self.retransmissions.then_some(flow.retransmitted);
            log_flows.sample(key, || Flow { local: key.0, remote: key.1, ..Flow::default() }, &sample);
        }
        Some(())
    }

    fn state(&mut self, fields: &str) -> Option<()> {
        self.states = true;
        let state = CaState::from_kernel(u8::try_from(number(fields, "cong_state")?).ok()?)?;
        if let Some(flow) = self.flows.get_mut(&ends(fields)?) {
            flow.state = Some(state);
        }
        Some(())
    }

    fn retransmission(&mut self, fields: &str) -> Option<()> {
        self.retransmissions = true;
        if let Some(flow) = self.flows.get_mut(&ends(fields)?) {
            flow.retransmitted += 1;
        }
        Some(())
    }
}
