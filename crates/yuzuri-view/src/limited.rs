//! What limits a flow: the kernel's records as observations of `yuzuri-limits`, and the figures of
//! each limit.

use serde::Serialize;
use yuzuri_cca::CcaKind;
use yuzuri_limits::{Classifier, Limit, LimitInterval, LimitTimes, Moment, Observation, Reduction};
use yuzuri_trace::{CaState, Event, Kind, Marks, Reason, Sender, Snapshot};

/// Means over the time for which a limit applied.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// The time, microseconds.
    pub time_us: f64,
    /// Congestion window, segments.
    pub cwnd_segments: f64,
    /// The receiver's window, bytes; 0 where unknown.
    pub receive_window_bytes: f64,
    /// Bytes outstanding.
    pub outstanding_bytes: f64,
    /// Maximum segment size, bytes.
    pub mss_bytes: f64,
    /// Memory of the send queue, bytes.
    pub send_memory_bytes: f64,
    /// The send buffer (`sk_sndbuf`), bytes; 0 where unknown.
    pub send_buffer_bytes: f64,
    /// Smoothed RTT, microseconds; 0 where not measured.
    pub srtt_us: f64,
    /// RTT above its minimum, microseconds.
    pub queue_us: f64,
    /// Pacing rate, bits per second; infinite where unlimited.
    pub pacing_rate_bps: f64,
}

impl Figures {
    /// Adds an interval with this observation.
    fn add(&mut self, seen: &Observation, time_us: u64) {
        let time_us = time_us as f64;
        self.time_us += time_us;
        let part = if self.time_us > 0.0 { time_us / self.time_us } else { 0.0 };
        let mean = |mean: &mut f64, value: f64| *mean += (value - *mean) * part;
        mean(&mut self.cwnd_segments, seen.cwnd_segments.into());
        mean(&mut self.receive_window_bytes, seen.receive_window_bytes.unwrap_or(0) as f64);
        mean(&mut self.outstanding_bytes, seen.outstanding_bytes as f64);
        mean(&mut self.mss_bytes, seen.mss_bytes.into());
        mean(&mut self.send_memory_bytes, seen.send_memory_bytes.unwrap_or(0) as f64);
        mean(&mut self.send_buffer_bytes, seen.send_buffer_bytes.unwrap_or(0) as f64);
        mean(&mut self.srtt_us, seen.srtt_us.unwrap_or(0).into());
        let queue_us = seen.srtt_us.unwrap_or(0).saturating_sub(seen.min_rtt_us.unwrap_or(u32::MAX));
        mean(&mut self.queue_us, queue_us.into());
        match seen.pacing_rate_bps {
            // A mean with an infinite rate would not be a number.
            None => self.pacing_rate_bps = f64::INFINITY,
            Some(_) if self.pacing_rate_bps.is_infinite() => {}
            Some(rate) => mean(&mut self.pacing_rate_bps, rate as f64),
        }
    }

    /// The rate that a window of `window_bytes` allows over the RTT, bits per second.
    pub fn allows_bps(&self, window_bytes: f64) -> Option<f64> {
        (self.srtt_us > 0.0).then(|| window_bytes * 8e6 / self.srtt_us)
    }

    /// The rate that the congestion window allows, bits per second.
    pub fn cwnd_bps(&self) -> Option<f64> {
        self.allows_bps(self.cwnd_segments * self.mss_bytes)
    }

    /// The rate that the receiver's window allows, bits per second.
    pub fn receiver_bps(&self) -> Option<f64> {
        self.allows_bps(self.receive_window_bytes).filter(|rate| *rate > 0.0)
    }
}

/// A flow's counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    time_us: u64,
    acked_bytes: u64,
    received_bytes: u64,
    retransmitted: u32,
    /// Slow start threshold, segments.
    ssthresh: u32,
}

/// The kernel's own chronographs (`TCP_INFO`): for how long a flow had unsent or unacknowledged
/// data, and for how long of this the receiver's window or the send buffer limited it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Chronographs {
    /// Unsent or unacknowledged data, microseconds.
    pub busy_us: u64,
    /// The receiver's window was full, microseconds.
    pub rwnd_limited_us: u64,
    /// The send buffer was full, microseconds.
    pub sndbuf_limited_us: u64,
}

impl Chronographs {
    /// Since the connection began, if the record has them.
    pub fn of(sender: &Sender) -> Option<Chronographs> {
        sender.has_chronographs().then_some(Chronographs {
            busy_us: sender.busy_us,
            rwnd_limited_us: sender.rwnd_limited_us,
            sndbuf_limited_us: sender.sndbuf_limited_us,
        })
    }

    fn since(&self, earlier: &Chronographs) -> Chronographs {
        Chronographs {
            busy_us: self.busy_us.saturating_sub(earlier.busy_us),
            rwnd_limited_us: self.rwnd_limited_us.saturating_sub(earlier.rwnd_limited_us),
            sndbuf_limited_us: self.sndbuf_limited_us.saturating_sub(earlier.sndbuf_limited_us),
        }
    }
}

/// The largest window without window scaling (RFC 7323), bytes.
pub(crate) const MAX_UNSCALED_BYTES: u64 = 65_535;

/// Determines, record by record, what limits one flow.
#[derive(Debug, Clone, Default)]
pub struct FlowLimits {
    classifier: Classifier,
    times: LimitTimes,
    figures: Vec<(Limit, Figures)>,
    skips_figures: bool,
    first: Option<Counts>,
    last: Counts,
    sends: bool,
    has_window: bool,
    from_packets: bool,
    cca: Option<CcaKind>,
    largest_window_bytes: u64,
    mss_bytes: u32,
    window_scale: Option<u32>,
    chronographs: Option<(Chronographs, Chronographs)>,
}

impl FlowLimits {
    /// Omits [`FlowLimits::figures`], whose means take a tenth of the time of a record.
    pub fn without_figures() -> FlowLimits {
        FlowLimits { skips_figures: true, ..FlowLimits::default() }
    }

    /// Sets the scale of the receiver's window, for observations from packets; records have it.
    pub fn scaled_by(&mut self, scale: Option<u8>) {
        self.window_scale = scale.map(u32::from);
    }

    /// What the kernel's chronographs had reached before the first record.
    pub fn chronographs_from(&mut self, before: Chronographs) {
        if let Some((first, _)) = &mut self.chronographs {
            *first = before;
        }
    }

    /// The kernel's chronographs for the time of the observation, if it reported them twice.
    pub fn chronographs(&self) -> Option<Chronographs> {
        let (first, last) = self.chronographs?;
        (first != last).then(|| last.since(&first))
    }

    /// Whether the receiver's window is known to have no scale: then no buffer makes it larger than
    /// 64 kB (RFC 7323).
    pub fn is_unscaled(&self) -> bool {
        self.window_scale == Some(0)
    }

    /// Whether the receiver's window is as large as it can be without a scale: a receiver rounds it
    /// down to whole segments.
    pub fn fills_unscaled(&self) -> bool {
        let next = self.largest_window_bytes + u64::from(self.mss_bytes);
        self.is_unscaled() && self.largest_window_bytes <= MAX_UNSCALED_BYTES && next > MAX_UNSCALED_BYTES
    }

    /// Sets the congestion control's name; called as soon as it is known and whenever it changes.
    pub fn controlled_by(&mut self, congestion_control: &str) {
        self.cca = CcaKind::of(congestion_control);
    }

    /// Processes a record, and passes the time since the previous one to `interval`.
    pub fn add(&mut self, event: &Event, interval: impl FnMut(LimitInterval)) {
        if !event.has_snapshot() {
            return;
        }
        let s = &event.snapshot;
        self.has_window |= s.known_snd_wnd_bytes().is_some_and(|bytes| bytes > 0);
        let mut now = observation(event, self.has_window);
        now.cca = self.cca;
        let counts = Counts {
            time_us: now.time_us,
            acked_bytes: s.bytes_acked,
            received_bytes: s.bytes_received,
            retransmitted: s.total_retrans,
            ssthresh: s.ssthresh,
        };
        if event.marks.contains(Marks::SAMPLED) && now.reduction.is_none() && self.first.is_some() {
            now.reduction = reduced_between(&self.last, &counts);
        }
        self.sends |= s.packets_out > 1;
        self.mss_bytes = s.mss;
        if s.sender.snd_wscale != u32::MAX {
            self.window_scale = Some(s.sender.snd_wscale);
        }
        if let Some(chronographs) = Chronographs::of(&s.sender) {
            let (_, last) = self.chronographs.get_or_insert((chronographs, chronographs));
            *last = chronographs;
        }
        self.take(&now, counts, interval);
    }

    /// Processes an observation made from packets, and passes the time since the previous one to
    /// `interval`.
    pub fn add_packets(&mut self, now: &Observation, interval: impl FnMut(LimitInterval)) {
        self.from_packets = true;
        self.mss_bytes = now.mss_bytes;
        let counts = Counts {
            time_us: now.time_us,
            acked_bytes: now.acked_bytes,
            retransmitted: now.retransmitted_segments,
            ..Counts::default()
        };
        self.take(now, counts, interval);
    }

    fn take(&mut self, now: &Observation, counts: Counts, mut interval: impl FnMut(LimitInterval)) {
        let first = *self.first.get_or_insert(counts);
        // SYN and FIN count as a byte each.
        let acked_bytes = counts.acked_bytes.saturating_sub(first.acked_bytes);
        self.sends |= acked_bytes > 2 || now.unsent_bytes.is_some_and(|unsent| unsent > 0);
        let window_bytes = now.receive_window_bytes.max(now.largest_window_bytes).unwrap_or(0);
        self.largest_window_bytes = self.largest_window_bytes.max(window_bytes);
        let FlowLimits { classifier, times, figures, skips_figures, .. } = self;
        classifier.observe(now, |stretch_of_time| {
            let LimitInterval { from_us, to_us, limit } = stretch_of_time;
            times.add(limit, to_us - from_us);
            if !*skips_figures {
                let place = figures.iter().position(|(of, _)| *of == limit).unwrap_or_else(|| {
                    figures.push((limit, Figures::default()));
                    figures.len() - 1
                });
                figures[place].1.add(now, to_us - from_us);
            }
            interval(stretch_of_time);
        });
        self.last = counts;
    }

    /// Whether the observations come from packets. Packets show no more of the congestion window
    /// than what is in flight.
    pub fn from_packets(&self) -> bool {
        self.from_packets
    }

    /// Whether the flow sent anything while it was observed, or tried to. If it did not, what
    /// limits the transfer is unknown: only the other end sees it.
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// The limit of the latest interval.
    pub fn limit(&self) -> Limit {
        if self.sends { self.classifier.limit() } else { Limit::Unknown }
    }

    /// The time of each limit.
    pub fn times(&self) -> LimitTimes {
        if self.sends {
            return self.times;
        }
        let mut times = LimitTimes::default();
        times.add(Limit::Unknown, self.times.total_us());
        times
    }

    /// Means over the time for which a limit applied; zeros after [`FlowLimits::without_figures`].
    pub fn figures(&self, limit: Limit) -> Figures {
        self.figures.iter().find(|(of, _)| *of == limit).map(|(_, figures)| *figures).unwrap_or_default()
    }

    /// For how long the flow was observed, microseconds.
    pub fn time_us(&self) -> u64 {
        self.first.map_or(0, |first| self.last.time_us.saturating_sub(first.time_us))
    }

    /// Whether the flow was observed from its beginning.
    pub fn saw_begin(&self) -> bool {
        self.classifier.saw_begin()
    }

    /// Bytes acknowledged while the flow was observed.
    pub fn acked_bytes(&self) -> u64 {
        self.first.map_or(0, |first| self.last.acked_bytes.saturating_sub(first.acked_bytes))
    }

    /// Bytes received while the flow was observed.
    pub fn received_bytes(&self) -> u64 {
        self.first.map_or(0, |first| self.last.received_bytes.saturating_sub(first.received_bytes))
    }

    /// Segments retransmitted while the flow was observed.
    pub fn retransmitted(&self) -> u32 {
        self.first.map_or(0, |first| self.last.retransmitted.saturating_sub(first.retransmitted))
    }

    /// The largest window that the receiver advertised, bytes.
    pub fn largest_window_bytes(&self) -> u64 {
        self.largest_window_bytes
    }
}

/// The record as an observation. `has_window`: the source reports the receiver's window, so 0 means
/// a closed window.
fn observation(event: &Event, has_window: bool) -> Observation {
    let s = &event.snapshot;
    let polled = event.marks.contains(Marks::SAMPLED);
    let moment = match event.kind {
        _ if polled => Moment::Polled,
        Kind::Sample => Moment::Arrival,
        Kind::Timeout => Moment::Timeout,
        // Found by the hook of arriving segments.
        Kind::Reordering | Kind::Undo | Kind::Control if event.place.name() == "tcp:tcp_probe" => {
            Moment::Arrival
        }
        _ => Moment::Processing,
    };
    let enters = event.ca_state != event.ca_before && event.ca_state >= CaState::Cwr;
    let reduction = match event.reason {
        Reason::Undo => Some(Reduction::Undone),
        Reason::LocalCongestion if enters => Some(Reduction::OwnDevice),
        // Polling does not show why the state is CWR.
        _ if polled && enters && event.ca_state == CaState::Cwr => Some(Reduction::Cwr),
        _ if polled && event.ca_state == CaState::Cwr => None,
        _ if enters || event.kind == Kind::Timeout => Some(Reduction::Path),
        _ => None,
    };
    let known = |value: u32| (value != u32::MAX).then_some(value);
    let bit = |mark| s.sender.has_marks().then(|| event.marks.contains(mark));
    Observation {
        time_us: event.mono_ns / 1000,
        moment,
        cca: None,
        begins: event.kind == Kind::Open && !polled,
        state: if polled { event.ca_state } else { event.ca_before },
        reduction,
        cwnd_segments: s.cwnd,
        ssthresh_segments: s.finite_ssthresh(),
        in_flight_segments: s.in_flight(),
        outstanding_bytes: match s.sender.outstanding_bytes {
            u32::MAX => u64::from(s.packets_out) * u64::from(s.mss),
            bytes => bytes.into(),
        },
        mss_bytes: s.mss,
        receive_window_bytes: s.known_snd_wnd_bytes().filter(|_| has_window).map(u64::from),
        unsent_bytes: s.known_notsent_bytes().map(u64::from),
        send_memory_bytes: (s.wmem_queued > 0 || s.sender.sndbuf > 0).then_some(s.wmem_queued.into()),
        send_buffer_bytes: (s.sender.sndbuf > 0).then_some(s.sender.sndbuf.into()),
        writer_waits: bit(Marks::NO_SPACE),
        largest_window_bytes: (s.sender.max_window > 0).then_some(s.sender.max_window.into()),
        prior_cwnd_segments: known(s.sender.prior_cwnd),
        pacing_wait_us: known(s.sender.pacing_wait_us),
        own_rate: None,
        cwnd_limited: bit(Marks::CWND_LIMITED),
        at_bound: event.marks.at_bound(),
        device_full: bit(Marks::THROTTLED),
        window_updates: None,
        reads_at_once: None,
        answers_late: None,
        path_is_full: None,
        losses_later: None,
        device_memory_bytes: known(s.sender.wmem_alloc).map(u64::from),
        srtt_us: s.measured_srtt_us(),
        round_min_rtt_us: None,
        rttvar_us: s.rttvar_us,
        min_rtt_us: s.measured_min_rtt_us(),
        pacing_rate_bps: (s.pacing_rate_bps != u64::MAX).then_some(s.pacing_rate_bps),
        acked_bytes: s.bytes_acked,
        retransmitted_segments: s.total_retrans,
    }
}

/// Finds a recovery that ended before the next poll: another slow start threshold, and
/// retransmissions.
fn reduced_between(before: &Counts, after: &Counts) -> Option<Reduction> {
    let reduced = after.ssthresh != Snapshot::SSTHRESH_INFINITE && after.ssthresh != before.ssthresh;
    (reduced && after.retransmitted > before.retransmitted).then_some(Reduction::Path)
}
