//! Tracks whether a station is a member of the group itself, and whether it stays within its share.

use serde::{Deserialize, Serialize};
use yuzuri_policy::Report;

/// A station that carries this multiple of its share while shares are enforced ...
const BEYOND: f64 = 1.5;
/// ... for this many consecutive ticks exceeds it, whatever it reports. A member needs less time to
/// receive a smaller share and to drain its windows.
const MAX_TICKS_BEYOND: u32 = 20;
/// Such a station is bounded like one without yuzuri for this many ticks.
const BOUNDED_FOR: u32 = 600;

/// How a station takes part in the group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembershipState {
    /// It does not: the gate reports for it and bounds it.
    #[default]
    None,
    /// It reports, and bounds itself.
    Member,
    /// It reports, but carries more than its share: the gate bounds it.
    Exceeds,
}

impl MembershipState {
    /// Its name on screens: the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            MembershipState::None => "none",
            MembershipState::Member => "member",
            MembershipState::Exceeds => "exceeds",
        }
    }
}

/// A station's part in the group over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Membership {
    is_member: bool,
    /// Consecutive ticks in which it carried too much.
    beyond: u32,
    /// Ticks for which it is still bounded.
    bounded: u32,
}

impl Membership {
    /// Processes a tick: the station's own report, the rate seen by the gate, and its share while
    /// shares are enforced, bit/s.
    pub(super) fn observe(&mut self, own: Option<&Report>, seen_bps: f64, may_bps: Option<f64>) {
        self.is_member = own.is_some();
        if !self.is_member {
            *self = Membership::default();
            return;
        }
        self.bounded = self.bounded.saturating_sub(1);
        let is_beyond = may_bps.is_some_and(|bps| seen_bps > BEYOND * bps) && self.bounded == 0;
        self.beyond = if is_beyond { self.beyond + 1 } else { 0 };
        if self.beyond == MAX_TICKS_BEYOND {
            (self.beyond, self.bounded) = (0, BOUNDED_FOR);
        }
    }

    pub(crate) fn bounds_itself(&self) -> bool {
        self.is_member && self.bounded == 0
    }

    pub(crate) fn state(&self) -> MembershipState {
        match (self.is_member, self.bounded) {
            (false, _) => MembershipState::None,
            (true, 0) => MembershipState::Member,
            (true, _) => MembershipState::Exceeds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_above_its_share_for_long_is_bounded_for_a_while() {
        let (mut membership, report) = (Membership::default(), Report::default());
        membership.observe(None, 9e6, Some(1e6));
        assert_eq!((membership.bounds_itself(), membership.state()), (false, MembershipState::None));
        // Not while no share is enforced, not for a small excess, and not for a short one.
        for (bps, may_bps) in [(9e6, None), (1.4e6, Some(1e6)), (9e6, Some(9e6))] {
            for _ in 0..100 {
                membership.observe(Some(&report), bps, may_bps);
                assert!(membership.bounds_itself());
            }
        }
        for _ in 0..19 {
            membership.observe(Some(&report), 2e6, Some(1e6));
        }
        membership.observe(Some(&report), 1e6, Some(1e6));
        assert!(membership.bounds_itself(), "it has come down");
        for _ in 0..20 {
            assert!(membership.bounds_itself());
            membership.observe(Some(&report), 2e6, Some(1e6));
        }
        assert_eq!(membership.state(), MembershipState::Exceeds);
        for _ in 0..599 {
            membership.observe(Some(&report), 2e6, Some(1e6));
            assert!(!membership.bounds_itself());
        }
        membership.observe(Some(&report), 1e6, Some(1e6));
        assert!(membership.bounds_itself(), "it may show that it keeps to it");
    }
}
