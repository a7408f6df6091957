//! Enforces the bounds: through `yuzuri-kernel`, through the process's own sockets, or not at all
//! if neither is available.

use crate::ShareError;
use crate::migrated::MigratedFlows;
use crate::own::OwnSockets;
use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;
use yuzuri_kernel::control::{Bound, ControlError, CubicParams, Steered};
use yuzuri_kernel::steer::{FlowState, NewFlows, Scope, SteerOptions, Steering};
use yuzuri_policy::Decision;
use yuzuri_trace::FlowId;

/// Lifetime of a bound beyond the tick that set it. It tolerates two late ticks; if the daemon is
/// killed, its flows are unbounded again within 2 s.
pub(crate) const LASTS: Duration = Duration::from_millis(1500);

/// A flow counts as idle after this many walks without activity. By then nothing has changed within
/// the 4 s that the policy looks back.
pub(crate) const IDLE_AFTER_WALKS: u16 = 10;

/// After this many consecutive ticks at which the kernel failed, the enforcer stops bounding.
const MAX_REFUSED_IN_A_ROW: u32 = 6;

/// Sets the bounds.
enum Backend {
    /// The congestion control in the kernel, for every flow of the namespace.
    Kernel(Box<Steering>),
    /// The process's own sockets.
    Own(OwnSockets),
}

/// The flows that a walk reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkCoverage {
    /// Every flow.
    All,
    /// All flows except this many idle ones.
    But(u32),
    /// None: the kernel returned an error.
    Nothing,
}

pub(crate) struct Enforcer {
    backend: Option<Backend>,
    /// Why there is no backend.
    why: Option<String>,
    bounded: HashSet<FlowId>,
    /// Flows with a bound that did not fit into the kernel's table.
    without_room: HashSet<FlowId>,
    refused_in_a_row: u32,
    /// Calls that the kernel failed.
    pub(crate) refused: u64,
    migrated: MigratedFlows,
    /// Why the record of restored flows was not written.
    pub(crate) not_stored: Option<ShareError>,
}

impl Enforcer {
    /// Registers the congestion control. Before the first walk only new flows are affected.
    pub(crate) fn take(
        control_name: &str,
        migrated: MigratedFlows,
        bounds_capacity: Option<u32>,
    ) -> Result<Enforcer, ControlError> {
        let cubic = CubicParams { name: control_name.into(), ..CubicParams::default() };
        // Migrate nothing until the interfaces are known.
        let options = SteerOptions {
            cubic,
            migrates: false,
            migrated_before: migrated.before(),
            bounds_capacity,
            idle_after_walks: IDLE_AFTER_WALKS,
            ..SteerOptions::default()
        };
        let mut enforcer = Enforcer::none(None);
        enforcer.backend = Some(Backend::Kernel(Box::new(Steering::start(&options)?)));
        enforcer.migrated = migrated;
        Ok(enforcer)
    }

    /// An enforcer for the process's own sockets.
    pub(crate) fn of_own(sockets: OwnSockets) -> Enforcer {
        let mut enforcer = Enforcer::none(None);
        enforcer.backend = Some(Backend::Own(sockets));
        enforcer
    }

    /// An enforcer that bounds nothing, with the reason.
    pub(crate) fn none(why: Option<String>) -> Enforcer {
        Enforcer {
            backend: None,
            why,
            bounded: HashSet::new(),
            without_room: HashSet::new(),
            refused_in_a_row: 0,
            refused: 0,
            migrated: MigratedFlows::default(),
            not_stored: None,
        }
    }

    pub(crate) fn steers(&self) -> bool {
        self.backend.is_some()
    }

    pub(crate) fn why_not(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Flows that are plain CUBIC because the kernel's table of bounds is full.
    pub(crate) fn without_room(&self) -> &HashSet<FlowId> {
        &self.without_room
    }

    /// The full table as a problem message for users.
    pub(crate) fn room_problem(&self) -> Option<String> {
        let Some(Backend::Kernel(steering)) = &self.backend else { return None };
        let without = self.without_room.len();
        (without > 0).then(|| {
            format!(
                "the kernel's table can bound {} flows: the {without} with the lowest rates remain plain \
                 CUBIC; a restart makes a table large enough for the sockets that are open then",
                steering.control().capacity()
            )
        })
    }

    /// Why new flows are migrated only at the next walk; `None`: they start under the congestion
    /// control.
    pub(crate) fn new_flows_wait(&self) -> Option<&str> {
        match self.backend.as_ref()? {
            Backend::Own(_) => None,
            Backend::Kernel(steering) => match steering.new_flows() {
                NewFlows::AtOnce => None,
                NewFlows::AtNextWalk(why) => Some(why),
            },
        }
    }

    /// Restricts migration to flows with these local addresses; an empty scope stops it.
    pub(crate) fn set_scope(&mut self, scope: &Scope) -> Result<(), ControlError> {
        if let Some(Backend::Kernel(steering)) = &mut self.backend {
            if scope.0.is_empty() {
                steering.set_migrating(false);
                return Ok(());
            }
            steering.set_scope(scope)?;
            steering.set_migrating(true);
        }
        Ok(())
    }

    /// Reports the current flows, without idle ones unless `all` is set.
    pub(crate) fn observe(&mut self, out: &mut Vec<FlowState>, all: bool) -> WalkCoverage {
        out.clear();
        match &mut self.backend {
            None => WalkCoverage::All,
            Some(Backend::Own(sockets)) => {
                sockets.observe(out);
                WalkCoverage::All
            }
            Some(Backend::Kernel(steering)) => {
                if all {
                    steering.report_all();
                }
                let seen = steering.observe(out);
                let coverage = match seen {
                    Err(_) => WalkCoverage::Nothing,
                    Ok(()) if steering.reported_all() => WalkCoverage::All,
                    Ok(()) => WalkCoverage::But(steering.idle_flows()),
                };
                self.judge(seen);
                coverage
            }
        }
    }

    /// Passes the decisions for flows under our congestion control to the kernel. If its table is
    /// too small, the flows with the highest `rate_bps` are bounded.
    pub(crate) fn apply<'a>(
        &mut self,
        decisions: impl Iterator<Item = &'a Decision>,
        rate_bps: impl Fn(u64) -> f64,
    ) {
        let Some(backend) = &mut self.backend else { return };
        let mut steered_flows = Vec::new();
        for decision in decisions {
            let flow = FlowId(decision.flow);
            let bound = Bound { lower: decision.bound.lower, upper: decision.bound.upper };
            let steered = Steered { bound, no_decrease: decision.no_decrease, burst: decision.burst };
            if steered != Steered::default() {
                steered_flows.push((flow, steered));
            }
        }
        let result = match backend {
            Backend::Kernel(steering) => {
                if steered_flows.len() > steering.control().capacity() {
                    steered_flows
                        .sort_by(|(one, _), (other, _)| rate_bps(other.0).total_cmp(&rate_bps(one.0)));
                }
                let wanted: HashSet<FlowId> = steered_flows.iter().map(|(flow, _)| *flow).collect();
                self.bounded.difference(&wanted).for_each(|flow| steering.release(*flow));
                steering.steer_all(&steered_flows, LASTS).map_err(|error| error.to_string())
            }
            Backend::Own(sockets) => {
                let bounds: Vec<_> =
                    steered_flows.iter().map(|(flow, steered)| (*flow, steered.bound)).collect();
                sockets.apply(&bounds).map(|()| steered_flows.len()).map_err(|error| error.to_string())
            }
        };
        // After an error it is unknown which bounds the kernel stored. Treat all of them as
        // bounded, so that they are released later.
        let fits = *result.as_ref().unwrap_or(&steered_flows.len());
        let ids = |part: &[(FlowId, Steered)]| part.iter().map(|(flow, _)| *flow).collect();
        let (bounded, without_room) = steered_flows.split_at(fits);
        (self.bounded, self.without_room) = (ids(bounded), ids(without_room));
        self.judge(result.map(drop));
    }

    fn judge<E: Display>(&mut self, result: Result<(), E>) {
        let Err(error) = result else {
            self.refused_in_a_row = 0;
            return;
        };
        self.refused += 1;
        self.refused_in_a_row += 1;
        if self.refused_in_a_row >= MAX_REFUSED_IN_A_ROW {
            self.release_all(format!("the kernel refused {MAX_REFUSED_IN_A_ROW} times in a row: {error}"));
        }
    }

    /// Restores the former congestion control of every flow, and records those that were restored.
    pub(crate) fn release_all(&mut self, why: String) -> Option<Result<(usize, usize), ControlError>> {
        let backend = self.backend.take()?;
        self.why = Some(why);
        self.bounded.clear();
        self.without_room.clear();
        Some(match backend {
            Backend::Own(sockets) => Ok((sockets.release(), 0)),
            Backend::Kernel(steering) => steering.leave().map(|left| {
                self.not_stored = self.migrated.store(&left.migrated_back).err();
                (left.migrated_back.len(), left.not_migrated_back.len())
            }),
        })
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        // There is nobody left to receive the error.
        let _ = self.release_all(String::new());
    }
}
