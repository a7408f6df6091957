//! The congestion controls that a scenario makes for itself.

use crate::LabError;
use yuzuri_kernel::control::Control;
use yuzuri_scenario::Scenario;

/// Registered for a run; they go when this is dropped, which must be after the flows ended.
pub struct OwnCubics {
    /// By kind of terminal.
    controls: Vec<Option<Control>>,
}

impl OwnCubics {
    /// Registers one for each kind of terminal that has CUBIC constants of its own. The kernel knows only one list of congestion
    /// controls for all namespaces, so their names carry the run's number.
    ///
    /// # Errors
    /// Where this kernel cannot (no `struct_ops`, before 5.6), or a dead run left the name behind (before 6.4).
    pub fn register(scenario: &Scenario, run: u16) -> Result<OwnCubics, LabError> {
        let one = |(number, kind): (usize, &yuzuri_scenario::TerminalSpec)| {
            let spec = kind.cubic.as_ref().filter(|_| kind.count > 0);
            let control = spec.map(|spec| Control::register(&spec.cubic(format!("lab{run}_{number}"))));
            control.transpose().map_err(|e| LabError::Run(format!("terminal[{number}].cubic: {e}")))
        };
        let controls = scenario.terminal.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        Ok(OwnCubics { controls })
    }

    /// The name that a kind's flows ask for.
    pub fn name(&self, kind_number: usize) -> Option<&str> {
        self.controls.get(kind_number)?.as_ref().map(|control| control.cubic().name.as_str())
    }
}
