//! Observes a run while it is in progress.

use crate::sender::Sender;
use std::ops::ControlFlow;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;

/// A sender after it has handled an ACK or a timer.
#[derive(Clone, Copy)]
pub struct FlowState<'a> {
    /// Its connection; connections are numbered from 0 in the order of the terminals.
    pub connection: u32,
    /// Its terminal.
    pub terminal: usize,
    /// Whether the sender is at the terminal; otherwise it is at the server.
    pub upload: bool,
    /// Whether an ACK was handled; otherwise a timer.
    pub by_ack: bool,
    /// The sender.
    pub sender: &'a Sender,
}

/// When radio and wire are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedAt {
    /// An interval has passed; the first report is at time 0.
    Interval,
    /// The warm-up is over.
    WarmedUp,
    /// The run is over.
    End,
}

/// An observer of a run. It cannot change the run, but it can end it early.
pub trait Watch {
    /// Interval between reports of radio and wire, nanoseconds.
    fn interval_ns(&self) -> u64;

    /// Called after a sender has handled an ACK or a timer.
    fn sender(&mut self, now: Time, flow: FlowState<'_>);

    /// Called with the state of radio and wire. [`ControlFlow::Break`] ends the run.
    fn network(
        &mut self,
        now: Time,
        at: WatchedAt,
        cell: Option<&CellAccount>,
        wire: &WireAccount,
    ) -> ControlFlow<()>;
}
