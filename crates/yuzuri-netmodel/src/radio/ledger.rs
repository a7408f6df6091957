//! Accounting of channel time: every nanosecond is charged to a node and a purpose or to idle time.

use super::account::{Airtime, CellAccount, NodeAccount};
use super::contention::NodeIndex;
use crate::Time;

/// Purpose of an interval of busy time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Data,
    Response,
    Protection,
    BlockAckReq,
    Group,
    Failed,
    Collision,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    end: Time,
    node: NodeIndex,
    purpose: Purpose,
}

/// Intervals of the current exchange that have not been charged yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    intervals: Vec<Interval>,
    done: usize,
    settled: Time,
}

impl Ledger {
    /// Appends an interval that lasts until `end`. Intervals are contiguous.
    pub(super) fn add(&mut self, end: Time, node: NodeIndex, purpose: Purpose) {
        self.intervals.push(Interval { end, node, purpose });
    }

    /// Charges all time up to `to`. Time outside intervals is idle, with or without contention.
    pub(super) fn settle(&mut self, to: Time, contention: bool, account: &mut CellAccount) {
        while self.settled < to {
            let Some(interval) = self.intervals.get(self.done) else {
                let nanos = to.nanos_since(self.settled);
                *(if contention { &mut account.idle.contention_ns } else { &mut account.idle.empty_ns }) +=
                    nanos;
                self.settled = to;
                break;
            };
            let end = interval.end.min(to);
            *field(&mut node_account(account, interval.node).airtime, interval.purpose) +=
                end.nanos_since(self.settled);
            self.settled = self.settled.max(end);
            if end == interval.end {
                self.done += 1;
            }
        }
        if self.done == self.intervals.len() {
            self.intervals.clear();
            self.done = 0;
        }
    }

    /// Moves the last `nanos` from one purpose to another.
    pub(super) fn move_airtime(account: &mut NodeAccount, nanos: u64, from: Purpose, to: Purpose) {
        *field(&mut account.airtime, from) -= nanos;
        *field(&mut account.airtime, to) += nanos;
    }

    /// Adds the intervals of a collision that starts at `begin`: while k nodes transmit, each is
    /// charged 1/k. `ends` holds the ends of the frames and their nodes; it is sorted here.
    pub(super) fn add_collision(&mut self, begin: Time, ends: &mut [(Time, NodeIndex)]) {
        ends.sort_unstable();
        let mut share = 0;
        let mut layer_begin = begin;
        let mut booked = begin;
        let nodes = ends.len() as u64;
        for (ended, &(end, node)) in ends.iter().enumerate() {
            share += end.nanos_since(layer_begin) / (nodes - ended as u64);
            layer_begin = end;
            // The last node ends the collision and is charged the remainder of the divisions.
            booked = if ended + 1 == ends.len() { end } else { booked.after_nanos(share) };
            self.add(booked, node, Purpose::Collision);
        }
    }
}

pub(super) fn node_account(account: &mut CellAccount, node: NodeIndex) -> &mut NodeAccount {
    match node.checked_sub(1) {
        None => &mut account.ap,
        Some(station) => &mut account.stations[station],
    }
}

fn field(airtime: &mut Airtime, purpose: Purpose) -> &mut u64 {
    match purpose {
        Purpose::Data => &mut airtime.data_ns,
        Purpose::Response => &mut airtime.response_ns,
        Purpose::Protection => &mut airtime.protection_ns,
        Purpose::BlockAckReq => &mut airtime.block_ack_req_ns,
        Purpose::Group => &mut airtime.group_ns,
        Purpose::Failed => &mut airtime.failed_ns,
        Purpose::Collision => &mut airtime.collision_ns,
    }
}
