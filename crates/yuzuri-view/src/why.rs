//! Explains in a sentence what limits a flow: the figure, and what to do about it.

use crate::limited::{Figures, FlowLimits, MAX_UNSCALED_BYTES};
use crate::text;
use serde::Serialize;
use yuzuri_cca::CcaKind;
use yuzuri_limits::Limit;

/// The answer to "what limits this flow?".
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// The limit that took the most time; unknown if the flow sends nothing.
    pub limit: Limit,
    /// Its share of the time, 0 to 1.
    pub share: f64,
    /// The limit in a sentence, with its figure.
    pub sentence: String,
    /// What to do about it, or where to look next.
    pub remedy: String,
    /// What would limit the flow without this limit.
    pub next: Option<NextLimit>,
    /// Every limit that took time, with its share of the time, the largest first. The shares sum to
    /// one.
    pub shares: Vec<(Limit, f64)>,
}

/// What would limit a flow next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextLimit {
    /// `congestion-window`, `receiver-window` or `pacing`.
    pub limit: &'static str,
    /// The rate it allows, bits per second.
    pub rate_bps: f64,
}

impl NextLimit {
    /// As a sentence.
    pub fn sentence(&self) -> String {
        let what = match self.limit {
            "receiver-window" => "the receiver's window",
            "pacing" => "the pacing rate",
            _ => "the congestion window",
        };
        format!("{what} would allow {}", text::rate(self.rate_bps))
    }
}

impl Why {
    /// Explains a flow, given its congestion control's name; `None` if it was not observed for any
    /// time.
    pub fn of(flow: &FlowLimits, congestion_control: &str) -> Option<Why> {
        let times = flow.times();
        let ranked = times.ranked();
        let &(limit, share) = ranked.first()?;
        let figures = flow.figures(limit);
        let describer = Describer { flow, figures, congestion_control };
        let (sentence, remedy) = describer.describe(limit);
        Some(Why {
            limit,
            share,
            sentence,
            remedy,
            next: if flow.sends() { describer.next(limit) } else { None },
            shares: ranked,
        })
    }
}

/// A share in per cent. Only a share of 1 reads 100 %: 99.7 is "99 %".
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p >= 100.0 => "100 %".into(),
        p if p >= 10.0 => format!("{:.0} %", p.floor()),
        p if p >= 0.1 => format!("{p:.1} %"),
        _ => "<0.1 %".into(),
    }
}

/// A mean window below this fraction of the largest one has shrunk.
const MUCH_SMALLER: f64 = 0.9;

struct Describer<'a> {
    flow: &'a FlowLimits,
    figures: Figures,
    congestion_control: &'a str,
}

impl Describer<'_> {
    fn rate_bps(&self) -> f64 {
        self.flow.acked_bytes() as f64 * 8e6 / self.flow.times().total_us().max(1) as f64
    }

    /// "20 kB over 41 ms allow 3.9 Mbit/s".
    fn allow(&self, window_bytes: f64) -> String {
        let window = text::bytes(window_bytes);
        match self.figures.allows_bps(window_bytes) {
            Some(rate) => {
                format!("{window} over {} allow {}", text::time_us(self.figures.srtt_us), text::rate(rate))
            }
            None => window,
        }
    }

    /// The retransmitted segments.
    fn retransmitted(&self) -> String {
        text::counted(text::count(self.flow.retransmitted().into()), "segment")
    }

    /// "28 segments over 41 ms allow 7.9 Mbit/s".
    fn cwnd(&self) -> String {
        let f = &self.figures;
        let segments = text::counted(format!("{:.0}", f.cwnd_segments), "segment");
        match f.cwnd_bps() {
            Some(rate) => format!("{segments} over {} allow {}", text::time_us(f.srtt_us), text::rate(rate)),
            None => segments,
        }
    }

    /// The window or buffer that a higher rate needs, bytes, and that rate.
    fn needed(&self, window_bytes: f64) -> Option<(f64, f64)> {
        let rate_bps = self.figures.allows_bps(window_bytes).filter(|rate_bps| *rate_bps > 0.0)?;
        let more_bps = round_rate_above(rate_bps);
        Some((window_bytes * more_bps / rate_bps, more_bps))
    }

    /// The same in words: "103 kB for 20 Mbit/s".
    fn for_more(&self, window_bytes: f64) -> String {
        self.needed(window_bytes).map_or("larger".into(), |(bytes, rate_bps)| {
            format!("{} for {}", text::bytes(bytes), text::rate(rate_bps))
        })
    }

    /// The limit of windows without scaling, if the window that is needed exceeds it.
    fn end_of_unscaled(&self) -> &'static str {
        let needed = self.needed(self.figures.receive_window_bytes);
        if self.flow.is_unscaled() && needed.is_none_or(|(bytes, _)| bytes > MAX_UNSCALED_BYTES as f64) {
            ". This connection's windows end at 64 kB, because they are not scaled: for more, the buffer must be \
             larger when the connection is opened, and net.ipv4.tcp_window_scaling on at both ends"
        } else {
            ""
        }
    }

    /// A slow reader's window. It stays the same if the receiver acknowledges only when its program
    /// reads.
    fn unread(&self) -> String {
        let (window, largest) = (self.figures.receive_window_bytes, self.flow.largest_window_bytes() as f64);
        if window < largest * MUCH_SMALLER {
            format!("its window fell to {} from {}", text::bytes(window), text::bytes(largest))
        } else {
            format!("its window of {} opens only as it reads", text::bytes(window))
        }
    }

    /// A queue's delay. A capture from a flow's middle lacks the minimum RTT: the queue may never
    /// have been empty.
    fn queue(&self) -> String {
        let least = if self.flow.from_packets() && !self.flow.saw_begin() { "at least " } else { "" };
        format!("{least}{}", text::time_us(self.figures.queue_us))
    }

    fn describe(&self, limit: Limit) -> (String, String) {
        let f = &self.figures;
        match limit {
            Limit::Application => (
                "the application: it has no more data to send".into(),
                "look at the program that sends: what it waits for (its disk, its peer's answers, its own work)".into(),
            ),
            Limit::SendBuffer => (
                format!("the send buffer, which is full: {}", self.allow(f.outstanding_bytes)),
                if f.send_buffer_bytes > 0.0 {
                    format!(
                        "the buffer is {}: raise it (net.ipv4.tcp_wmem; SO_SNDBUF in the program, or better no \
                         SO_SNDBUF at all); it would have to be {}",
                        text::bytes(f.send_buffer_bytes),
                        self.for_more(f.send_buffer_bytes)
                    )
                } else {
                    format!(
                        "raise the buffer (net.ipv4.tcp_wmem; SO_SNDBUF in the program, or better no SO_SNDBUF at all), \
                         so that it holds {}",
                        self.for_more(f.outstanding_bytes)
                    )
                },
            ),
            Limit::ReceiverWindow if self.flow.fills_unscaled() => (
                format!("the receiver's window: {}", self.allow(f.receive_window_bytes)),
                "windows of this connection are not scaled, so 64 kB is the maximum (RFC 7323), whatever \
                 the receiver's buffer: turn \
                 net.ipv4.tcp_window_scaling on at both ends, or look for a middlebox that strips the option from SYNs"
                    .into(),
            ),
            Limit::ReceiverWindow => (
                format!("the receiver's window: {}", self.allow(f.receive_window_bytes)),
                format!(
                    "the receiver's buffer (net.ipv4.tcp_rmem there, or SO_RCVBUF in its program) is small: the window \
                     would have to be {}{}",
                    self.for_more(f.receive_window_bytes),
                    self.end_of_unscaled()
                ),
            ),
            Limit::SlowReader => (
                format!("the receiving application: it reads slowly, and {}", self.unread()),
                format!(
                    "look at the program that receives; it takes {}. A larger buffer does not help",
                    text::rate(self.rate_bps())
                ),
            ),
            Limit::Receiver => (
                format!("the receiver, whose window is full: {}", self.allow(f.receive_window_bytes)),
                format!(
                    "its buffer is small, or its program reads slowly: a flow that is seen from its middle does not show \
                     whether the window was larger before. If ss -tn shows a Recv-Q above 0 there, look at the \
                     program; else at the buffer (net.ipv4.tcp_rmem, or SO_RCVBUF): the window would have to be {}{}",
                    self.for_more(f.receive_window_bytes),
                    self.end_of_unscaled()
                ),
            ),
            Limit::SlowStart => (
                format!("the congestion window in slow start: {}", self.cwnd()),
                "it doubles each round trip: keep connections open between transfers, or raise initcwnd (ip route)".into(),
            ),
            Limit::CongestionAvoidance => (
                format!("the congestion window, which grows: {}", self.cwnd()),
                "there is no queue on the path: it carries more once the window has grown; on a long path another \
                 congestion control grows faster"
                    .into(),
            ),
            Limit::Loss => (
                format!(
                    "the congestion window, reduced by loss: {}; {} retransmitted",
                    self.cwnd(),
                    self.retransmitted()
                ),
                "there is no queue on the path while segments are lost: look for a lossy link, a policer or a very short \
                 queue, or use a congestion control that does not treat each loss as congestion (bbr)"
                    .into(),
            ),
            Limit::Sharing => (
                format!("the bound that the sharing group set: {}", self.cwnd()),
                "see the shares with yuzuri share status".into(),
            ),
            Limit::Recovery => (
                format!(
                    "fast recovery: {} retransmitted",
                    self.retransmitted()
                ),
                "look at where segments are lost (yuzuri watch shows each retransmission)".into(),
            ),
            Limit::Timeout => (
                format!(
                    "the wait for retransmission timeouts: {} retransmitted",
                    self.retransmitted()
                ),
                "whole windows are lost, or the path is interrupted: look at the link, a firewall, the path MTU".into(),
            ),
            Limit::Pacing => {
                // Packets show the resulting rate, not the configured one.
                let known = f.pacing_rate_bps.is_finite() && f.pacing_rate_bps > 0.0;
                let rate = text::rate(if known { f.pacing_rate_bps } else { self.rate_bps() });
                if CcaKind::of(self.congestion_control) == Some(CcaKind::Model) {
                    let own = format!("pacing at {rate}: {}'s estimate of the path's rate", self.congestion_control);
                    (own, "nothing to do if that is the path's rate".into())
                } else if self.congestion_control.is_empty() {
                    (
                        format!("pacing at {rate}"),
                        "the program sets that rate (SO_MAX_PACING_RATE), a queueing discipline does (fq maxrate), or the \
                         congestion control, such as bbr, paces at its estimate of the path's rate: then there is \
                         nothing to do"
                            .into(),
                    )
                } else {
                    (
                        format!("pacing at {rate}"),
                        "raise or remove that rate: the program sets it (SO_MAX_PACING_RATE), or a queueing discipline \
                         does (fq maxrate)"
                            .into(),
                    )
                }
            }
            Limit::OwnDevice => (
                // Packets pass a capture behind that queue.
                if self.flow.from_packets() {
                    format!("the queue of the sender's own device: it takes {}", text::rate(self.rate_bps()))
                } else {
                    format!(
                        "the queue of the sender's own device: it takes {}, and segments wait {}",
                        text::rate(self.rate_bps()),
                        text::time_us(f.queue_us)
                    )
                },
                "raise the rate of the interface: of its queueing discipline (tc -s qdisc) or its link (ethtool)".into(),
            ),
            Limit::SenderRate => (
                format!(
                    "pacing or the sender's own device, which packets do not distinguish: {}, and the path \
                     carries more",
                    text::rate(self.rate_bps())
                ),
                "capture at the sender from the connection's beginning, or run yuzuri why there; it is the \
                 program's SO_MAX_PACING_RATE, a queueing discipline (fq, tbf), the congestion control's own \
                 pacing, or a slow interface"
                    .into(),
            ),
            Limit::Path => (
                format!(
                    "the path, which is full: this flow gets {}, and a queue holds its segments for {} of the RTT of {}",
                    text::rate(self.rate_bps()),
                    self.queue(),
                    text::time_us(f.srtt_us)
                ),
                "this is the path's rate, or this flow's part of it: a larger window only makes the queue longer; for a \
                 shorter queue, use fq_codel or cake where the path is narrowest"
                    .into(),
            ),
            Limit::Unknown if !self.flow.sends() => (
                format!(
                    "this end sends nothing (it received {})",
                    text::bytes(self.flow.received_bytes() as f64)
                ),
                "run yuzuri why at the other end: only the sender shows what limits a transfer".into(),
            ),
            Limit::Unknown if self.flow.from_packets() && self.flow.saw_begin() => (
                "the capture does not show what limits it".into(),
                "packets do not show everything that limits a sender, such as a bound on its window or the queue of its \
                 device: run yuzuri why at the sender, or capture there"
                    .into(),
            ),
            Limit::Unknown if self.flow.from_packets() => (
                "the capture does not show what limits it".into(),
                "packets do not show a bound on the window, nor what limits a flow that is seen from its middle; capture \
                 from the connection's beginning, at the sender, or run yuzuri why there"
                    .into(),
            ),
            Limit::Unknown => (
                "the records do not show what limits it".into(),
                "they do not distinguish the application from the send buffer, or pacing from the device's queue, or \
                 records are missing: to learn more, run yuzuri why as root from the connection's beginning"
                    .into(),
            ),
        }
    }

    /// The lowest of the limits that were not reached.
    fn next(&self, limit: Limit) -> Option<NextLimit> {
        let f = &self.figures;
        let has_kernel_state = !self.flow.from_packets();
        let congestion = f
            .cwnd_bps()
            .filter(|_| has_kernel_state)
            .map(|rate_bps| NextLimit { limit: "congestion-window", rate_bps });
        let receiver = f.receiver_bps().map(|rate_bps| NextLimit { limit: "receiver-window", rate_bps });
        let candidates = match limit {
            Limit::ReceiverWindow => [congestion, None],
            Limit::SlowReader | Limit::Receiver => [congestion, None],
            Limit::Application | Limit::SendBuffer | Limit::Pacing => [congestion, receiver],
            limit if limit.is_congestion_window() && limit != Limit::Path => [receiver, None],
            _ => [None, None],
        };
        candidates.into_iter().flatten().min_by(|a, b| a.rate_bps.total_cmp(&b.rate_bps))
    }
}

/// The first of 1, 2, 5, 10 ... Mbit/s (or kbit/s) that is at least twice the rate.
fn round_rate_above(rate_bps: f64) -> f64 {
    let wanted = (rate_bps * 2.0).max(1.0);
    let decade = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|rate| *rate >= wanted).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_limits::Observation;
    use yuzuri_trace::{Event, Sender, Snapshot};

    fn flow(of: impl Fn(u64) -> Snapshot) -> FlowLimits {
        let mut flow = FlowLimits::default();
        for n in 0..=1000u64 {
            flow.add(&Event { mono_ns: n * 1_000_000, snapshot: of(n), ..Event::default() }, |_| {});
        }
        flow
    }

    /// 20 kB over 41 ms.
    fn small_window(n: u64) -> Snapshot {
        Snapshot {
            cwnd: 40,
            ssthresh: 20,
            srtt_us: 41_000,
            min_rtt_us: 41_000,
            packets_out: 20,
            mss: 1000,
            snd_wnd: 20_000,
            notsent: 100_000,
            bytes_acked: n * 488,
            ..Snapshot::UNKNOWN
        }
    }

    #[test]
    fn a_small_window_is_reported_with_its_rate_and_the_next_limit() {
        let why = Why::of(&flow(small_window), "cubic").unwrap();
        assert_eq!((why.limit, why.share), (Limit::ReceiverWindow, 1.0));
        assert_eq!(why.sentence, "the receiver's window: 20.0 kB over 41.0 ms allow 3.90 Mbit/s");
        assert!(why.remedy.contains("would have to be 51.2 kB for 10.0 Mbit/s"), "{}", why.remedy);
        let next = why.next.unwrap();
        assert_eq!(next.sentence(), "the congestion window would allow 7.80 Mbit/s");
        assert_eq!(why.shares, [(Limit::ReceiverWindow, 1.0)]);
    }

    /// The window of a connection without scaling: a larger buffer does not help if it is at its
    /// largest, and does not suffice if it is not.
    #[test]
    fn a_window_without_scale_is_distinguished_from_a_small_buffer() {
        let of = |window: u32, scale| {
            let sender = Sender { snd_wscale: scale, ..Sender::UNKNOWN };
            let window = move |n| Snapshot { snd_wnd: window, sender, cwnd: 900, ..small_window(n) };
            Why::of(&flow(move |n| Snapshot { packets_out: window(n).snd_wnd / 1000, ..window(n) }), "cubic")
        };
        let largest = of(65_160, 0).unwrap();
        assert_eq!(largest.limit, Limit::ReceiverWindow);
        assert!(
            largest.remedy.contains("not scaled") && !largest.remedy.contains("tcp_rmem"),
            "{}",
            largest.remedy
        );
        let small = of(30_000, 0).unwrap().remedy;
        assert!(small.contains("tcp_rmem") && small.contains("tcp_window_scaling"), "{small}");
        let enough = of(20_000, 0).unwrap().remedy;
        assert!(enough.contains("51.2 kB") && !enough.contains("scaling"), "{enough}");
        for scale in [7, u32::MAX] {
            assert!(!of(65_160, scale).unwrap().remedy.contains("scal"), "{scale}");
        }
    }

    #[test]
    fn a_capture_with_the_handshake_shows_that_windows_have_no_scale() {
        let mut flow = FlowLimits::default();
        let full =
            Observation { receive_window_bytes: Some(65_160), mss_bytes: 1448, ..Observation::default() };
        for (scale, fills) in [(None, false), (Some(7), false), (Some(0), true)] {
            flow.scaled_by(scale);
            flow.add_packets(&full, |_| {});
            assert_eq!(flow.fills_unscaled(), fills, "{scale:?}");
        }
        flow.add_packets(&Observation { receive_window_bytes: Some(70_000), ..full }, |_| {});
        assert!(!flow.fills_unscaled(), "no unscaled window is that large");
    }

    /// Where it is unknown whether the sender had more to send, neither the application nor a full
    /// window limited it for all that is known.
    #[test]
    fn without_known_unsent_data_no_limit_is_guessed() {
        for packets_out in [0, 5, 20] {
            let unknown = |n| Snapshot { packets_out, notsent: u32::MAX, ..small_window(n) };
            let flow = flow(unknown);
            assert_eq!(flow.times().share(Limit::Unknown), 1.0, "{packets_out}");
        }
    }

    #[test]
    fn a_receiver_sends_one_to_the_sender() {
        let receives = |n| Snapshot { bytes_received: n * 1000, mss: 1000, cwnd: 10, ..Snapshot::UNKNOWN };
        let why = Why::of(&flow(receives), "cubic").unwrap();
        assert_eq!((why.limit, why.share, why.next), (Limit::Unknown, 1.0, None));
        assert!(why.sentence.contains("sends nothing (it received 1.00 MB)"), "{}", why.sentence);
    }

    #[test]
    fn a_flow_without_time_has_no_answer() {
        let mut flow = FlowLimits::default();
        assert_eq!(Why::of(&flow, ""), None);
        flow.add(&Event::default(), |_| {});
        assert_eq!(Why::of(&flow, ""), None);
    }

    #[test]
    fn rates_above_are_round() {
        assert_eq!(round_rate_above(3.9e6), 10e6);
        assert_eq!(round_rate_above(1e6), 2e6);
        assert_eq!(round_rate_above(2.6e6), 10e6);
        assert_eq!(round_rate_above(2.4e6), 5e6);
        assert_eq!(round_rate_above(0.0), 1.0);
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(
            [1.0, 0.9999, 0.5, 0.034, 0.0001].map(percent),
            ["100 %", "99 %", "50 %", "3.4 %", "<0.1 %"]
        );
    }
}
