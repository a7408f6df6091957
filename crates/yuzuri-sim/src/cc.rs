//! Congestion control: the algorithms of `yuzuri-cca`, and the bounds that a policy sets on their
//! windows.

pub use yuzuri_cca::*;

use serde::{Deserialize, Serialize};

/// Smallest effective upper bound, segments: two, or the minimum that BBR needs to probe the path
/// (`bbr_cwnd_min_target`).
const MIN_UPPER: u32 = 2;
const MIN_UPPER_BBR: u32 = 4;

/// Bounds that a policy sets on a congestion window, segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The window grows to this bound with each acknowledgement, in state Open only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// The window does not grow past this bound; a larger window shrinks by the segments
    /// acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<u32>,
    /// A loss reduces neither cwnd nor ssthresh (the mode of the kernel monitor's paper).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_decrease: bool,
    /// Pace the sender, in bursts of this many segments (`min_tso_segs`), instead of sending
    /// whenever the window allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Bounds {
    /// The upper bound that the window is kept to, segments. `by_model`: the algorithm sets the
    /// whole window ([`CongestionControl::controls_all`]).
    pub(crate) fn effective_upper(&self, by_model: bool) -> Option<u32> {
        let least = if by_model { MIN_UPPER_BBR } else { MIN_UPPER };
        self.upper.map(|upper| upper.max(least))
    }

    /// `cong_avoid` with bounds. Above the upper bound the window shrinks by the segments
    /// acknowledged. Below the lower bound it grows by them, in state Open. In between, the
    /// algorithm sets it.
    pub(crate) fn cong_avoid(&self, cca: &mut dyn CongestionControl, window: &mut Window, acked: u32) {
        let upper = self.effective_upper(false).unwrap_or(u32::MAX);
        let lower = self.lower.unwrap_or(0).min(upper);
        if window.cwnd > upper {
            window.cwnd = window.cwnd.saturating_sub(acked).max(upper);
            window.cwnd_cnt = 0;
            cca.held();
            return;
        }
        if window.cwnd < lower && window.state == CaState::Open {
            if window.is_cwnd_limited() {
                window.cwnd = window.cwnd.saturating_add(acked).min(lower);
            }
            return;
        }
        if window.cwnd == upper {
            window.cwnd_cnt = 0;
            cca.held();
            return;
        }
        cca.cong_avoid(window, acked);
        if window.cwnd > upper {
            window.cwnd = upper;
        }
    }

    /// `ssthresh` with bounds. With `no_decrease` the algorithm still sees the loss, but ssthresh
    /// stays at cwnd.
    pub(crate) fn ssthresh(&self, cca: &mut dyn CongestionControl, window: &mut Window) -> u32 {
        let reduced = cca.ssthresh(window);
        if self.no_decrease { window.cwnd.max(2) } else { reduced }
    }

    /// `cong_control` with bounds. The window is clamped to the upper bound. Below the lower bound
    /// it grows by the segments acknowledged, in state Open and unless the algorithm is draining
    /// the path.
    pub(crate) fn cong_control(
        &self,
        cca: &mut dyn CongestionControl,
        window: &mut Window,
        sample: &RateSample,
    ) {
        cca.cong_control(window, sample);
        if let Some(upper) = self.effective_upper(true) {
            window.cwnd = window.cwnd.min(upper);
        }
        if let Some(lower) = self.lower
            && window.state == CaState::Open
            && !cca.is_draining()
            && window.cwnd < lower
        {
            window.cwnd = (window.cwnd + sample.acked).min(lower);
        }
    }
}
