//! Looking at a run while it goes on.

use crate::sender::Sender;
use std::ops::ControlFlow;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;

/// A sender after it has handled an acknowledgement or a timer.
#[derive(Clone, Copy)]
pub struct FlowState<'a> {
    /// Its connection: connections are numbered from 0 in the order of the terminals.
    pub connection: u32,
    /// Its terminal.
    pub terminal: usize,
    /// Whether the sender is at the terminal; else it is at the server.
    pub upload: bool,
    /// Whether it was an acknowledgement; else a timer.
    pub by_ack: bool,
    /// The sender.
    pub sender: &'a Sender,
}

/// When radio and wire are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedAt {
    /// Another interval has passed; the first is shown at 0.
    Interval,
    /// The warm-up is over.
    WarmedUp,
    /// The run is over.
    End,
}

/// Who looks at a run. Nothing of the run depends on it, but for its early end.
pub trait Watch {
    /// How often radio and wire are shown, nanoseconds.
    fn interval_ns(&self) -> u64;

    /// A sender has handled an acknowledgement or a timer.
    fn sender(&mut self, now: Time, flow: FlowState<'_>);

    /// Radio and wire at a moment. [`ControlFlow::Break`] ends the run.
    fn network(
        &mut self,
        now: Time,
        at: WatchedAt,
        cell: Option<&CellAccount>,
        wire: &WireAccount,
    ) -> ControlFlow<()>;
}
