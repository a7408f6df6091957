//! The flows of a capture on several threads, each flow on one of them.

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use yuzuri_capture::{Capture, FlowKey, FlowSlot, Item, ReadError, Segment};

/// What follows a part of a capture's flows, on a thread of its own. Slots are its own, too: dense from 0, and used again once
/// their flow is over.
pub trait Part: Send {
    /// A new flow.
    fn begin(&mut self, flow: FlowSlot, key: FlowKey);
    /// A segment of a flow.
    fn segment(&mut self, segment: &Segment);
    /// A flow is over, before the capture's end.
    fn end(&mut self, flow: FlowSlot);
    /// Nothing more comes: flows that are left are over.
    fn finish(&mut self);
}

/// What the reader tells a part.
enum Message {
    Begin(FlowSlot, FlowKey),
    Segment(Segment),
    End(FlowSlot),
}

/// Messages are handed over so many at a time, and so many times a part may lag behind: what waits of a part is below half a megabyte.
const BATCH: usize = 512;
const BATCHES: usize = 4;

/// Packets between two looks at `go_on`.
const LOOK: u64 = 1 << 12;

/// Reads a capture to its end, or until `go_on` (asked now and then) says no; the flows go to `parts`, each of which works on a thread of
/// its own while this one reads. A single part is called on this thread as the packets come, without delay. Gives whether
/// the end was reached. The parts have finished, whatever the outcome.
///
/// # Panics
/// With no parts.
pub fn spread<R: Read, P: Part>(
    capture: &mut Capture<R>,
    parts: &mut [P],
    go_on: impl Fn() -> bool,
) -> Result<bool, ReadError> {
    if let [part] = parts {
        let read = feed(capture, go_on, |told| match told {
            Told::Begin(slot, key) => part.begin(slot, key),
            Told::Segment(segment) => part.segment(segment),
            Told::End(slot) => part.end(slot),
        });
        part.finish();
        return read;
    }
    let number = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    assert!(number > 0, "flows without a part to go to");
    let part = |slot: FlowSlot| (slot.0 % number) as usize;
    let own = |slot: FlowSlot| FlowSlot(slot.0 / number);
    std::thread::scope(|scope| {
        let mut lines: Vec<Line> = (parts.iter_mut())
            .map(|part| {
                let (sender, receiver) = sync_channel(BATCHES);
                let (giver, emptied) = channel();
                scope.spawn(move || work(part, &receiver, &giver));
                Line { sender, emptied, batch: Vec::with_capacity(BATCH) }
            })
            .collect();
        let read = feed(capture, go_on, |told| match told {
            Told::Begin(slot, key) => lines[part(slot)].push(Message::Begin(own(slot), key)),
            Told::Segment(segment) => {
                let flow = own(segment.flow);
                lines[part(segment.flow)].push(Message::Segment(Segment { flow, ..*segment }));
            }
            Told::End(slot) => lines[part(slot)].push(Message::End(own(slot))),
        });
        lines.iter_mut().for_each(Line::hand_over);
        read
    })
}

/// The way to a part.
struct Line {
    sender: SyncSender<Vec<Message>>,
    /// Batches that were read, to be filled again: new ones would be new pages each time.
    emptied: Receiver<Vec<Message>>,
    batch: Vec<Message>,
}

impl Line {
    fn push(&mut self, message: Message) {
        self.batch.push(message);
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let next = self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.batch, next);
        // Nobody listens where a part has panicked, which the end of its scope tells.
        let _ = self.sender.send(batch);
    }
}

fn work(part: &mut impl Part, messages: &Receiver<Vec<Message>>, emptied: &Sender<Vec<Message>>) {
    for mut batch in messages {
        for message in &batch {
            match message {
                Message::Begin(slot, key) => part.begin(*slot, *key),
                Message::Segment(segment) => part.segment(segment),
                Message::End(slot) => part.end(*slot),
            }
        }
        batch.clear();
        // At the end nobody takes it any more.
        let _ = emptied.send(batch);
    }
    part.finish();
}

/// What is read, with slots of the capture.
enum Told<'a> {
    Begin(FlowSlot, FlowKey),
    Segment(&'a Segment),
    End(FlowSlot),
}

#[inline(always)]
fn feed<R: Read>(
    capture: &mut Capture<R>,
    go_on: impl Fn() -> bool,
    mut tell: impl FnMut(Told<'_>),
) -> Result<bool, ReadError> {
    let mut count = 0u64;
    while let Some(item) = capture.next_item()? {
        match item {
            Item::Segment(segment) => {
                count += 1;
                if count.is_multiple_of(LOOK) && !go_on() {
                    return Ok(false);
                }
                if !segment.first {
                    tell(Told::Segment(segment));
                    continue;
                }
                let segment = *segment;
                if let Some(key) = capture.key(segment.flow) {
                    tell(Told::Begin(segment.flow, key));
                }
                tell(Told::Segment(&segment));
            }
            Item::Ended(slot) => tell(Told::End(slot)),
        }
    }
    Ok(true)
}
