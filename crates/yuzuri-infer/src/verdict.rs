//! The result for a flow: the answer, its reasons, its constants.

use crate::cubic::{Cycle, Fit};
use crate::name::{NoneOfThese, Ranked};
use crate::packets::Seen;
use crate::window_trace::{CapturePoint, WindowTrace};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Answer {
    /// An algorithm, and those that this path does not distinguish from it.
    Named {
        /// The most probable algorithm.
        name: String,
        /// All algorithms that the observations do not distinguish, the named one first.
        set: Vec<String>,
    },
    /// No algorithm is named.
    Unknown {
        /// The reason, as text.
        because: String,
    },
}

/// A quantity measured several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Median.
    pub median: f64,
    /// Lower end of a 95 % interval of the median.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Number of measurements.
    pub count: usize,
}

/// CUBIC's constants in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CubicEpoch {
    /// The reduction it follows, as an index in [`WindowTrace::reductions`].
    pub reduction: usize,
    /// By the method of Hozumi 2017, if the epoch shows it.
    pub cycle: Option<Cycle>,
    /// The fit by least squares.
    pub fit: Option<Fit>,
    /// Whether the fit shows a cubic, including its plateau.
    pub counts: bool,
}

/// The constants that the flow showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Constants {
    /// The window after a loss as a fraction of the window before it.
    pub beta: Option<Measured>,
    /// CUBIC's C, segments/s³, by least squares.
    pub cubic_c: Option<Measured>,
    /// CUBIC's C, by replaying the algorithm over all epochs, and its standard error, segments/s³;
    /// only if CUBIC is the best algorithm.
    pub cubic_c_replayed: Option<(f64, f64)>,
    /// CUBIC's b, s³/segment, by the method of Hozumi 2017.
    pub cubic_b: Option<Measured>,
    /// C, segments/s³, by the same method.
    pub cubic_c_paper: Option<Measured>,
    /// CUBIC's constants by epoch.
    pub cubic_epochs: Vec<CubicEpoch>,
    /// Additive increase, segments per round (a of AIMD).
    pub increase: Option<Measured>,
    /// Segments of the initial window.
    pub initial_window: Option<f64>,
    /// The window at which slow start ended, and whether without a loss (HyStart and the like).
    pub slow_start_end: Option<(f64, bool)>,
    /// Whether a reduction below the previous maximum lowered the plateau further (fast
    /// convergence).
    pub fast_convergence: Option<bool>,
    /// Median time between the flight's falls to at most 4 segments without loss, s (BBR's
    /// PROBE_RTT).
    pub probe_rtt_interval_s: Option<f64>,
    /// Flight while probing relative to the flight while cruising (BBR's highest `pacing_gain`).
    pub probe_gain: Option<Measured>,
    /// Time between probes, s.
    pub probe_interval_s: Option<Measured>,
    /// Fraction of segments sent by a clock of the sender, not in response to an acknowledgement;
    /// known only near the sender. A sender whose own device is the bottleneck looks the same.
    pub paced_part: Option<f64>,
}

/// The result for one direction of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The sender.
    pub from: Option<SocketAddr>,
    /// The receiver.
    pub to: Option<SocketAddr>,
    /// Answer.
    pub answer: Answer,
    /// All candidates, the best first.
    pub ranked: Vec<Ranked>,
    /// The alternative that it is none of them.
    #[serde(default)]
    pub none: NoneOfThese,
    /// The reasons, as text.
    pub evidence: Vec<String>,
    /// Anomalies that may impair the answer, as text.
    pub notes: Vec<String>,
    /// Constants.
    pub constants: Constants,
    /// What was seen of the flow; `None` if it came from a recording.
    pub seen: Option<Seen>,
    /// Where the flow was observed.
    pub capture_point: CapturePoint,
    /// Its window trace.
    pub window_trace: WindowTrace,
    /// The window that the best algorithm predicted, by index of the round; NaN if it predicted
    /// none.
    pub predicted: Vec<f32>,
}
