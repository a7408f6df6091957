//! The congestion controls that a scenario defines, or that current kernels no longer have.

use crate::LabError;
use yuzuri_kernel::before_5_7::{Before57, NAMES};
use yuzuri_kernel::control::CongestionControl;
use yuzuri_scenario::Scenario;

/// The congestion controls registered for a run. They are unregistered on drop, which must follow
/// the end of their flows.
pub struct RunControls {
    /// By kind of terminal.
    controls: Vec<Option<CongestionControl>>,
    /// Congestion controls of older kernels, which flows choose by name.
    _before_5_7: Option<Before57>,
}

impl RunControls {
    /// Registers one for each kind of terminal with its own CUBIC constants. The kernel has only
    /// one list of congestion controls for all namespaces, so that their names contain the run's
    /// number.
    ///
    /// # Errors
    /// If the kernel cannot register it (no `struct_ops`, before 5.6), if a dead run's congestion
    /// control still has the name (before 6.4), or if another run has registered the same
    /// congestion control of an older kernel.
    pub fn register(scenario: &Scenario, run: u16) -> Result<RunControls, LabError> {
        let one = |(number, kind): (usize, &yuzuri_scenario::TerminalSpec)| {
            let spec = kind.cubic.as_ref().filter(|_| kind.count > 0);
            let control =
                spec.map(|spec| CongestionControl::register(&spec.cubic(format!("lab{run}_{number}"))));
            control.transpose().map_err(|e| LabError::Run(format!("terminal[{number}].cubic: {e}")))
        };
        let controls = scenario.terminal.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        let wanted: Vec<&str> = scenario
            .terminal
            .iter()
            .filter(|kind| kind.count > 0)
            .filter_map(|kind| kind.control.as_deref())
            .filter(|control| NAMES.contains(control))
            .collect();
        let former = if wanted.is_empty() { None } else { Some(Before57::register(&wanted)) };
        let former = former.transpose().map_err(|e| LabError::Run(format!("{}: {e}", wanted.join(", "))))?;
        Ok(RunControls { controls, _before_5_7: former })
    }

    /// The name of a kind's congestion control.
    pub fn name(&self, kind_number: usize) -> Option<&str> {
        self.controls.get(kind_number)?.as_ref().map(|control| control.cubic().name.as_str())
    }
}
