//! A random case: the path, what limits the transfer, and the limits that count as right.

use std::time::Duration;
use yuzuri_limits::Limit;

/// SplitMix64: the same seed draws the same cases.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, number: u64) -> Rng {
        let mut rng =
            Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    /// Uniform in the logarithm: 1 to 2 is as likely as 10 to 20.
    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.part())
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }
}

/// The kinds that existed first: a later one has numbers of its own, so that a seed draws their
/// cases as before.
const FIRST_KINDS: usize = 13;

/// The kinds of cases.
pub const KINDS: [&str; FIRST_KINDS + 1] = [
    "receiver-window",
    "slow-reader",
    "application",
    "application-bursts",
    "send-buffer",
    "pacing",
    "loss",
    "short-queue",
    "bufferbloat",
    "device-drops",
    "device-holds",
    "two-limits",
    "sharing",
    "autotuned-window",
];

/// The number of a round's case of a kind, given the kind's index.
pub fn number(round: u64, kind: usize) -> u64 {
    match kind.checked_sub(FIRST_KINDS) {
        None => round * FIRST_KINDS as u64 + kind as u64,
        Some(later) => (later as u64 + 1) * 1_000_000 + round,
    }
}

/// How a program reads or writes: the bytes per call, and the interval between calls. An `every` of
/// zero means without a pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IoPattern {
    pub bytes: usize,
    pub every: Duration,
}

impl IoPattern {
    const BULK: IoPattern = IoPattern { bytes: 256 << 10, every: Duration::ZERO };

    fn at_rate(bytes_per_s: f64, every: Duration) -> IoPattern {
        IoPattern { bytes: (bytes_per_s * every.as_secs_f64()).max(1.0) as usize, every }
    }
}

/// A part of the transfer, with one limit.
#[derive(Debug, Clone)]
pub struct Phase {
    pub writes: IoPattern,
    pub reads: IoPattern,
    /// SO_MAX_PACING_RATE, bytes per second.
    pub pacing: Option<u64>,
    /// The limits that count as right.
    pub right: Vec<Limit>,
}

impl Phase {
    fn of(right: &[Limit]) -> Phase {
        Phase { writes: IoPattern::BULK, reads: IoPattern::BULK, pacing: None, right: right.to_vec() }
    }
}

/// A transfer.
#[derive(Debug, Clone)]
pub struct Case {
    pub kind: &'static str,
    pub control: &'static str,
    pub rate_bps: f64,
    pub rtt: Duration,
    pub queue_bytes: f64,
    pub loss: f64,
    pub receive_buffer: Option<usize>,
    /// The largest receive buffer that the kernel chooses itself, bytes (`tcp_rmem`).
    pub max_receive_buffer: Option<usize>,
    pub send_buffer: Option<usize>,
    /// TBF at the sender's own device: rate in bits per second and limit in bytes.
    pub device: Option<(f64, f64)>,
    /// Upper bound of a sharing group, segments.
    pub bound: Option<u32>,
    /// Whether TCP passes more than one segment at once to the device.
    pub gso: bool,
    /// Whether network cards fill in checksums.
    pub offloads_checksums: bool,
    /// Whether it is observed from its beginning, or only once it has reached its limit.
    pub begins: bool,
    /// Time from the connection to the evaluated part.
    pub warm_up: Duration,
    /// After the warm-up, wait for the next loss. Until then, losses do not limit the transfer.
    pub waits_for_loss: bool,
    pub phases: Vec<Phase>,
}

const MSS: f64 = 1448.0;

impl Case {
    fn bdp_bytes(&self) -> f64 {
        self.rate_bps / 8.0 * self.rtt.as_secs_f64()
    }

    /// Half of the rate that a buffer of this size allows over the path, bytes per second. A reader
    /// that is only slightly slower than its buffer's window would have two right limits.
    fn half_of(&self, buffer_bytes: f64) -> f64 {
        buffer_bytes / self.rtt.as_secs_f64() / 2.0
    }

    /// Draws a case.
    pub fn draw(kind: &'static str, rng: &mut Rng) -> Case {
        let mut case = Case {
            kind,
            control: rng.one_of(&["cubic", "cubic", "reno"]),
            rate_bps: rng.log_between(5e6, 40e6),
            rtt: Duration::from_secs_f64(rng.log_between(0.01, 0.1)),
            queue_bytes: 0.0,
            loss: 0.0,
            receive_buffer: None,
            max_receive_buffer: None,
            send_buffer: None,
            device: None,
            bound: None,
            gso: rng.part() < 0.5,
            offloads_checksums: false,
            begins: rng.part() < 0.5,
            warm_up: Duration::from_secs(3),
            waits_for_loss: false,
            phases: Vec::new(),
        };
        case.queue_bytes = (case.bdp_bytes() * rng.between(1.0, 2.0)).max(50_000.0);
        let part = rng.between(0.1, 0.6);
        let rate = case.rate_bps / 8.0;
        let tick = Duration::from_secs_f64(rng.log_between(0.002, 0.05));
        let bytes = case.bdp_bytes() * part;
        let phase = match kind {
            "receiver-window" => {
                // The kernel decides how much of the buffer becomes window: at least half of twice
                // SO_RCVBUF.
                case.rtt = case.rtt.max(Duration::from_secs_f64(8_000.0 / rate));
                case.receive_buffer =
                    Some(rng.log_between(4_096.0, bytes.clamp(5_000.0, 200_000.0)) as usize);
                Phase::of(&[Limit::ReceiverWindow])
            }
            "autotuned-window" => {
                // The window is smaller than the buffer, and so smaller than the path.
                case.rate_bps = rng.log_between(20e6, 40e6);
                case.rtt = Duration::from_secs_f64(rng.log_between(0.03, 0.1));
                case.queue_bytes = case.bdp_bytes() * 2.0;
                case.max_receive_buffer = Some((case.bdp_bytes() * part.max(0.2)) as usize);
                Phase::of(&[Limit::ReceiverWindow])
            }
            "slow-reader" => {
                let buffer = rng.log_between(32e3, 256e3);
                case.receive_buffer = Some(buffer as usize);
                let reads = IoPattern::at_rate((rate * part).min(case.half_of(buffer)), tick);
                Phase { reads, ..Phase::of(&[Limit::SlowReader]) }
            }
            "application" => {
                Phase { writes: IoPattern::at_rate(rate * part, tick), ..Phase::of(&[Limit::Application]) }
            }
            "application-bursts" => {
                // At most the initial window, with which an idle connection restarts.
                let bytes = rng.log_between(500.0, 10.0 * MSS) as usize;
                let every = Duration::from_secs_f64(rng.log_between(0.05, 0.7));
                Phase { writes: IoPattern { bytes, every }, ..Phase::of(&[Limit::Application]) }
            }
            "send-buffer" => {
                // The kernel doubles the buffer and charges its own overhead to it. From a larger
                // write it accepts a whole large segment (64 kB) whatever the limit is, and that
                // segment would fill the window.
                let buffer = rng.log_between(2_304.0, bytes.clamp(5_000.0, 200_000.0));
                case.send_buffer = Some(buffer as usize);
                let bytes = rng.log_between(1e3, buffer * 2.0) as usize;
                Phase {
                    writes: IoPattern { bytes, every: Duration::ZERO },
                    ..Phase::of(&[Limit::SendBuffer])
                }
            }
            "pacing" => Phase { pacing: Some((rate * part) as u64), ..Phase::of(&[Limit::Pacing]) },
            "loss" => {
                case.loss = rng.log_between(1e-4, 1e-2);
                case.rate_bps = 150e6;
                case.rtt = Duration::from_secs_f64(rng.log_between(0.02, 0.08));
                case.queue_bytes = 4e6;
                // CUBIC's and Reno's windows at this loss (RFC 9438 section 5.2, RFC 3649) fill
                // less than half the path.
                let window = |loss: f64| {
                    let cubic = 1.17 * (case.rtt.as_secs_f64() / loss.powi(3)).powf(0.25);
                    cubic.max(1.2 / loss.sqrt())
                };
                while window(case.loss) * MSS > case.bdp_bytes() / 2.0 {
                    case.loss *= 2.0;
                }
                Phase::of(&[Limit::Loss, Limit::Recovery, Limit::Timeout])
            }
            "short-queue" => {
                // Delays segments for less than RFC 9406's threshold for a queue.
                let least = (case.rtt.as_secs_f64() / 8.0).clamp(0.004, 0.016);
                let part = rng.between(0.2, 0.6);
                // A queue of less than four segments would drop every burst. One of four is short
                // only on a fast path.
                let rate = rate.max(4.0 * 1500.0 / (least * part));
                case.rate_bps = rate * 8.0;
                case.queue_bytes = rate * least * part;
                // The first losses occur in slow start, long before the window has grown to the
                // capacity of the path.
                case.warm_up = Duration::from_secs(8);
                case.waits_for_loss = true;
                Phase::of(&[Limit::Loss, Limit::Recovery, Limit::Timeout])
            }
            "bufferbloat" => {
                case.rate_bps = rng.log_between(3e6, 12e6);
                case.queue_bytes = case.rate_bps / 8.0 * rng.log_between(0.1, 0.6);
                case.warm_up = Duration::from_secs(6);
                Phase::of(&[Limit::Path, Limit::Recovery, Limit::Timeout])
            }
            "device-drops" | "device-holds" => {
                let drops = kind == "device-drops";
                let limit = if drops { (case.bdp_bytes() * part).max(6_000.0) } else { 10e6 };
                case.device = Some((case.rate_bps * 0.5, limit));
                // `device-holds`: a queue grows in the device until it holds the whole window.
                case.warm_up = Duration::from_secs(if drops { 5 } else { 3 });
                Phase::of(&[Limit::OwnDevice, Limit::Recovery, Limit::Timeout])
            }
            "sharing" => {
                case.control = "sharing";
                case.bound = Some((bytes / MSS).max(4.0) as u32);
                Phase::of(&[Limit::Sharing])
            }
            "two-limits" => {
                // At a higher rate, the receive buffer would limit each part.
                let slow = (rate * part).min(case.half_of(100_000.0));
                let of = |which: &str| match which {
                    "application" => {
                        Phase { writes: IoPattern::at_rate(slow, tick), ..Phase::of(&[Limit::Application]) }
                    }
                    "slow-reader" => {
                        Phase { reads: IoPattern::at_rate(slow, tick), ..Phase::of(&[Limit::SlowReader]) }
                    }
                    _ => Phase { pacing: Some(slow as u64), ..Phase::of(&[Limit::Pacing]) },
                };
                case.receive_buffer = Some(100_000);
                let first = rng.next() % 3;
                let second = (first + 1 + rng.next() % 2) % 3;
                let names = ["application", "slow-reader", "pacing"];
                case.phases.push(of(names[first as usize]));
                of(names[second as usize])
            }
            other => panic!("no kind is called {other}"),
        };
        case.phases.push(phase);
        case.offloads_checksums = rng.part() < 0.5;
        case
    }

    /// The case in one line.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} {:.1} Mbit/s {:.0} ms queue {:.0} kB{}{}{}",
            self.control,
            self.rate_bps / 1e6,
            self.rtt.as_secs_f64() * 1e3,
            self.queue_bytes / 1e3,
            if self.gso { "" } else { " no-gso" },
            if self.offloads_checksums { " cards" } else { "" },
            if self.begins { " from-begin" } else { "" },
        );
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text += &format!(" {name} {value}");
            }
        };
        add("loss", (self.loss > 0.0).then(|| format!("{:.5}", self.loss)));
        add("rcvbuf", self.receive_buffer.map(|b| b.to_string()));
        add("tcp_rmem", self.max_receive_buffer.map(|b| b.to_string()));
        add("sndbuf", self.send_buffer.map(|b| b.to_string()));
        add(
            "device",
            self.device.map(|(rate, limit)| format!("{:.1} Mbit/s {:.0} kB", rate / 1e6, limit / 1e3)),
        );
        add("bound", self.bound.map(|b| b.to_string()));
        for phase in &self.phases {
            let pattern =
                |r: IoPattern| (r != IoPattern::BULK).then(|| format!("{} B/{:?}", r.bytes, r.every));
            add("writes", pattern(phase.writes));
            add("reads", pattern(phase.reads));
            add("paced", phase.pacing.map(|p| format!("{:.1} Mbit/s", p as f64 * 8e-6)));
        }
        text
    }
}
