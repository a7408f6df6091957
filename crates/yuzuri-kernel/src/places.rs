//! Kernel stacks: the TCP function in which an event happened, and the reason that follows from it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use yuzuri_trace::{CaState, Place, Reason};

/// Why the kernel's symbols are not known.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// The file cannot be read.
    #[error("/proc/kallsyms cannot be read: {0}")]
    Read(std::io::Error),
    /// Every address in it is zero.
    #[error("/proc/kallsyms shows no addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)")]
    NoAddresses,
}

/// The kernel's TCP functions by address.
#[derive(Debug, Default, Clone)]
pub struct Symbols {
    /// Start, end, name; sorted by start.
    functions: Vec<(u64, u64, Box<str>)>,
}

impl Symbols {
    /// Reads `/proc/kallsyms`, keeping only TCP's functions (about 900 of 120,000).
    ///
    /// # Errors
    /// If the file cannot be read, or shows no addresses (`kernel.kptr_restrict`).
    pub fn load() -> Result<Symbols, SymbolsError> {
        let symbols = File::open("/proc/kallsyms")
            .and_then(|file| Symbols::parse(BufReader::with_capacity(64 << 10, file)))
            .map_err(SymbolsError::Read)?;
        if symbols.functions.is_empty() {
            return Err(SymbolsError::NoAddresses);
        }
        Ok(symbols)
    }

    /// The number of functions.
    #[allow(clippy::len_without_is_empty)] // an empty one is an error of load()
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Line by line: the whole text is 6 MB.
    fn parse(mut text: impl BufRead) -> std::io::Result<Symbols> {
        // All functions: one ends where the next begins.
        let mut starts = Vec::new();
        let mut functions: Vec<(u64, u64, Box<str>)> = Vec::new();
        let mut line = String::new();
        while {
            line.clear();
            text.read_line(&mut line)? > 0
        } {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let Some(start) = u64::from_str_radix(address, 16).ok().filter(|address| *address > 0) else {
                continue;
            };
            starts.push(start);
            if is_tcp(name) {
                // The compiler's clones ("tcp_xmit_retransmit_queue.part.0") count as the original
                // function.
                functions.push((start, 0, name.split('.').next().unwrap_or(name).into()));
            }
        }
        starts.sort_unstable();
        functions.sort_unstable();
        for (start, end, _) in &mut functions {
            let after = starts.partition_point(|address| *address <= *start);
            *end = starts.get(after).copied().unwrap_or(*start + 4096);
        }
        Ok(Symbols { functions })
    }

    fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (_, end, name) = self.functions.get(after.checked_sub(1)?)?;
        // A return address after a call that never returns may equal the end.
        (address <= *end).then_some(name)
    }

    /// The TCP functions of a stack, innermost first.
    pub(crate) fn frames<'a>(&'a self, stack: &'a [u64]) -> Vec<&'a str> {
        stack.iter().take_while(|a| **a != 0).filter_map(|a| self.name(*a)).collect()
    }
}

fn is_tcp(name: &str) -> bool {
    // The tracepoints' own functions contain the names of what they trace.
    let tracing = ["__traceiter_", "__bpf_trace_", "__probestub_", "perf_trace_", "trace_"];
    name.contains("tcp") && !tracing.iter().any(|prefix| name.starts_with(prefix))
}

/// Functions that only carry out an operation: the place is their caller.
const WRAPPERS: [&str; 5] = [
    "tcp_set_ca_state",
    "__tcp_retransmit_skb",
    "tcp_retransmit_skb",
    "tcp_enter_cwr",
    "trace_tcp_retransmit_skb",
];

/// The place of an event, from its stack.
pub(crate) fn place(frames: &[&str]) -> Option<Place> {
    // tcp_enter_cwr is the better name if nothing else is known: its caller may have been inlined
    // beyond recognition.
    let caller = frames.iter().find(|f| !WRAPPERS.contains(f));
    caller.or(frames.last()).map(|name| Place::named(name))
}

/// Why the congestion state changed.
pub(crate) fn state_reason(
    before: CaState,
    after: CaState,
    frames: &[&str],
    undone: bool,
    reneging: bool,
    ece: bool,
) -> Reason {
    match after {
        CaState::Open if undone => Reason::Undo,
        CaState::Open if before == CaState::Disorder => Reason::Resolved,
        CaState::Open => Reason::Recovered,
        CaState::Disorder if undone => Reason::Undo,
        CaState::Disorder => Reason::DupAck,
        CaState::Cwr => {
            // Both come through tcp_enter_cwr: from the transmit path it is the device's own queue,
            // from the ACK path it is ECE. An ACK may also lead to a transmission: the innermost of
            // the two decides.
            let transmit = frames.iter().position(|f| f.contains("transmit_skb"));
            let ack = frames
                .iter()
                .position(|f| matches!(*f, "tcp_ack" | "tcp_fastretrans_alert" | "tcp_try_to_open"));
            match (transmit, ack) {
                (Some(t), Some(a)) if t < a => Reason::LocalCongestion,
                (Some(_), None) => Reason::LocalCongestion,
                (_, Some(_)) => Reason::Ecn,
                (None, None) if ece => Reason::Ecn,
                (None, None) => Reason::LocalCongestion,
            }
        }
        CaState::Recovery => Reason::FastRetransmit,
        CaState::Loss if frames.contains(&"tcp_simple_retransmit") => Reason::Mtu,
        CaState::Loss if reneging => Reason::SackReneging,
        CaState::Loss => Reason::Timeout,
    }
}

/// Why a segment was retransmitted.
pub(crate) fn retransmit_reason(state: CaState, frames: &[&str], after_rto: bool) -> Reason {
    for frame in frames {
        match *frame {
            "tcp_send_loss_probe" => return Reason::TailLossProbe,
            "tcp_retransmit_timer" | "tcp_fastopen_synack_timer" => return Reason::Timeout,
            "tcp_simple_retransmit" => return Reason::Mtu,
            _ => {}
        }
    }
    match state {
        CaState::Loss if after_rto => Reason::Timeout,
        CaState::Loss => Reason::LossRecovery,
        CaState::Recovery => Reason::FastRetransmit,
        // Without a stack: outside recovery only the tail-loss probe retransmits.
        _ if frames.is_empty() => Reason::TailLossProbe,
        _ => Reason::FastRetransmit,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KALLSYMS: &str = "\
ffffffff82015600 t tcp_undo_cwnd_reduction
ffffffff820178c0 T tcp_enter_cwr
ffffffff82017900 T other_function
ffffffff8202a1c0 T tcp_xmit_retransmit_queue.part.0
ffffffff8202a1d0 d tcp_data
ffffffff8202c400 T tcp_retransmit_timer
ffffffff8202c500 T __traceiter_tcp_probe
ffffffff8202c600 T last
";

    #[test]
    fn addresses_become_functions() {
        let symbols = Symbols::parse(KALLSYMS.as_bytes()).unwrap();
        let stack = [
            0xffffffff820178d0,
            0xffffffff82017910,
            0xffffffff8202a1d4,
            0xffffffff8202c510,
            0,
            0xffffffff8202c400,
        ];
        assert_eq!(symbols.frames(&stack), ["tcp_enter_cwr", "tcp_xmit_retransmit_queue"]);
    }

    #[test]
    fn zero_addresses_are_no_symbols() {
        assert!(Symbols::parse("".as_bytes()).unwrap().functions.is_empty());
        let hidden: String = KALLSYMS.lines().map(|l| format!("0000000000000000{}\n", &l[16..])).collect();
        assert!(Symbols::parse(hidden.as_bytes()).unwrap().functions.is_empty());
    }

    #[test]
    fn local_congestion_and_ecn_are_distinguished() {
        let local = ["tcp_set_ca_state", "__tcp_transmit_skb", "tcp_write_xmit", "tcp_tsq_handler"];
        let in_ack = ["tcp_set_ca_state", "__tcp_transmit_skb", "tcp_write_xmit", "tcp_ack"];
        let ecn = ["tcp_set_ca_state", "tcp_enter_cwr", "tcp_try_to_open", "tcp_ack"];
        let reason =
            |frames: &[&str], ece| state_reason(CaState::Open, CaState::Cwr, frames, false, false, ece);
        assert_eq!(reason(&local, false), Reason::LocalCongestion);
        assert_eq!(reason(&in_ack, false), Reason::LocalCongestion);
        assert_eq!(reason(&ecn, true), Reason::Ecn);
        assert_eq!(reason(&[], true), Reason::Ecn);
        assert_eq!(reason(&[], false), Reason::LocalCongestion);
        assert_eq!(place(&ecn).unwrap().name(), "tcp_try_to_open");
        assert_eq!(place(&local).unwrap().name(), "__tcp_transmit_skb");
    }

    #[test]
    fn retransmissions_are_distinguished() {
        let probe = ["__tcp_retransmit_skb", "tcp_send_loss_probe", "tcp_write_timer_handler"];
        let fast = ["__tcp_retransmit_skb", "tcp_retransmit_skb", "tcp_xmit_retransmit_queue", "tcp_ack"];
        assert_eq!(retransmit_reason(CaState::Open, &probe, false), Reason::TailLossProbe);
        assert_eq!(retransmit_reason(CaState::Recovery, &fast, false), Reason::FastRetransmit);
        assert_eq!(retransmit_reason(CaState::Loss, &fast, false), Reason::LossRecovery);
        assert_eq!(retransmit_reason(CaState::Loss, &[], true), Reason::Timeout);
        assert_eq!(place(&fast).unwrap().name(), "tcp_xmit_retransmit_queue");
    }
}
