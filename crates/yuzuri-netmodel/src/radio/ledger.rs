//! Books the channel's time: every nanosecond to a node and a purpose, or to idleness.

use super::account::{Airtime, CellAccount, NodeAccount};
use super::contention::NodeIndex;
use crate::Time;

/// What a stretch of busy time is for.
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
struct Stretch {
    end: Time,
    node: NodeIndex,
    purpose: Purpose,
}

/// The stretches of the running exchange that are not booked yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    stretches: Vec<Stretch>,
    done: usize,
    settled: Time,
}

impl Ledger {
    /// The channel is busy with this until `end`; stretches follow one another.
    pub(super) fn add(&mut self, end: Time, node: NodeIndex, purpose: Purpose) {
        self.stretches.push(Stretch { end, node, purpose });
    }

    /// Books everything up to `to`; what is no stretch's is idle, in `contention` or not.
    pub(super) fn settle(&mut self, to: Time, contention: bool, account: &mut CellAccount) {
        while self.settled < to {
            let Some(stretch) = self.stretches.get(self.done) else {
                let nanos = to.nanos_since(self.settled);
                *(if contention { &mut account.idle.contention_ns } else { &mut account.idle.empty_ns }) +=
                    nanos;
                self.settled = to;
                break;
            };
            let end = stretch.end.min(to);
            *field(&mut node_account(account, stretch.node).airtime, stretch.purpose) +=
                end.nanos_since(self.settled);
            self.settled = self.settled.max(end);
            if end == stretch.end {
                self.done += 1;
            }
        }
        if self.done == self.stretches.len() {
            self.stretches.clear();
            self.done = 0;
        }
    }

    /// The last `nanos` booked as `from` turn out to be `to`.
    pub(super) fn rebook(account: &mut NodeAccount, nanos: u64, from: Purpose, to: Purpose) {
        *field(&mut account.airtime, from) -= nanos;
        *field(&mut account.airtime, to) += nanos;
    }

    /// Books a collision that begins at `begin`: while k nodes send at once, each bears one kth. `ends` are the nodes and the
    /// ends of their frames; they are sorted here.
    pub(super) fn add_collision(&mut self, begin: Time, ends: &mut [(Time, NodeIndex)]) {
        ends.sort_unstable();
        let mut share = 0;
        let mut layer_begin = begin;
        let mut booked = begin;
        let nodes = ends.len() as u64;
        for (ended, &(end, node)) in ends.iter().enumerate() {
            share += end.nanos_since(layer_begin) / (nodes - ended as u64);
            layer_begin = end;
            // The last one ends the collision and bears what division left over.
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
