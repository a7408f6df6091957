//! Acknowledgements that passed the capture and have not taken effect at the sender yet.

use std::collections::VecDeque;

/// An acknowledgement. Thousands of flows have some waiting, and small entries stay in the cache:
/// blocks, which few have, are stored separately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) at_ns: i64,
    pub(super) ack: u64,
    /// Only valid if `timed` is set.
    pub(super) timestamp: u32,
    pub(super) echo: u32,
    pub(super) window_bytes: u32,
    /// The segment had no data.
    pub(super) pure: bool,
    /// The window field, not scaled, and whether it is that of a SYN beside scaled ones.
    pub(super) window: (u16, bool),
    pub(super) timed: bool,
    pub(super) ece: bool,
    pub(super) blocks_used: u8,
}

/// Selectively acknowledged, from and to.
pub(super) type Blocks = [(u64, u64); 4];

/// Acknowledgements that wait for their echo, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    answers: VecDeque<Answer>,
    /// The blocks of those that have any.
    blocks: VecDeque<Blocks>,
}

impl Waiting {
    /// `blocks` must be given if the answer says so.
    pub(super) fn push(&mut self, answer: Answer, blocks: Option<Blocks>) {
        self.answers.push_back(answer);
        if let Some(blocks) = blocks {
            self.blocks.push_back(blocks);
        }
    }

    /// The oldest. If it has blocks, [`Waiting::pop_blocks`] must follow.
    pub(super) fn pop(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// The blocks of the acknowledgement that was just taken.
    pub(super) fn pop_blocks(&mut self) -> Blocks {
        self.blocks.pop_front().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Answer> {
        self.answers.front()
    }

    /// The waiting acknowledgements, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter()
    }

    pub(super) fn clear(&mut self) {
        self.answers.clear();
        self.blocks.clear();
    }
}
