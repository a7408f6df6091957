//! Congestion control: the algorithms of `yuzuri-cca`, and the bounds that a policy sets on what they do.

pub use yuzuri_cca::*;

use serde::{Deserialize, Serialize};

/// Least window that an upper bound leaves, segments: two, and what BBR needs to see the path (`bbr_cwnd_min_target`).
const MIN_UPPER: u32 = 2;
const MIN_UPPER_BBR: u32 = 4;

/// Bounds a policy sets on a window, in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Reached by growth with each acknowledgement, in state Open only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// Growth stops here; a window above it shrinks by what is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<u32>,
    /// Neither window nor threshold is cut on a sign of loss (the mode of the kernel monitor's paper).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_decrease: bool,
    /// Segments leave at the pacing rate, so many at once (`min_tso_segs`), instead of whenever the window lets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Bounds {
    /// `cong_avoid` under bounds: above the upper one the window shrinks by what is acknowledged, below the lower one it grows by it in state
    /// Open, and between them the algorithm rules.
    pub(crate) fn cong_avoid(&self, cca: &mut dyn CongestionControl, window: &mut Window, acked: u32) {
        let upper = self.upper.map_or(u32::MAX, |upper| upper.max(MIN_UPPER));
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

    /// `ssthresh` under bounds: without decrease the algorithm hears of the loss, and the threshold stays at the window.
    pub(crate) fn ssthresh(&self, cca: &mut dyn CongestionControl, window: &mut Window) -> u32 {
        let reduced = cca.ssthresh(window);
        if self.no_decrease { window.cwnd.max(2) } else { reduced }
    }

    /// `cong_control` under bounds: the window is cut to the upper one, and below the lower one it grows by what is acknowledged in state Open, unless
    /// the algorithm is draining the path.
    pub(crate) fn cong_control(
        &self,
        cca: &mut dyn CongestionControl,
        window: &mut Window,
        sample: &RateSample,
    ) {
        cca.cong_control(window, sample);
        if let Some(upper) = self.upper {
            window.cwnd = window.cwnd.min(upper.max(MIN_UPPER_BBR));
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
