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
    assert!(!parts.is_empty(), "flows without a part to go to");
    if let [part] = parts {
        return feed(capture, part, go_on);
    }
    std::thread::scope(|scope| {
        let lines = parts.iter_mut().map(|part| {
            let (sender, receiver) = sync_channel(BATCHES);
            let (giver, emptied) = channel();
            scope.spawn(move || work(part, &receiver, &giver));
            Line { sender, emptied, batch: Vec::with_capacity(BATCH) }
        });
        feed(capture, &mut Lines(lines.collect()), go_on)
    })
}

/// Reads; all flows go to one part.
#[inline(always)]
fn feed<R: Read>(
    capture: &mut Capture<R>,
    part: &mut impl Part,
    go_on: impl Fn() -> bool,
) -> Result<bool, ReadError> {
    let read = read(capture, part, go_on);
    part.finish();
    read
}

#[inline(always)]
fn read<R: Read>(
    capture: &mut Capture<R>,
    part: &mut impl Part,
    go_on: impl Fn() -> bool,
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
                    part.segment(segment);
                    continue;
                }
                let segment = *segment;
                if let Some(key) = capture.key(segment.flow) {
                    part.begin(segment.flow, key);
                }
                part.segment(&segment);
            }
            Item::Ended(slot) => part.end(slot),
        }
    }
    Ok(true)
}

/// The part that hands each flow on to the one it belongs to, on whose thread slots are that one's own.
struct Lines(Vec<Line>);

impl Lines {
    fn push(&mut self, flow: FlowSlot, message: impl FnOnce(FlowSlot) -> Message) {
        let number = self.0.len();
        let own = FlowSlot((flow.index() / number) as u32);
        self.0[flow.index() % number].push(message(own));
    }
}

impl Part for Lines {
    fn begin(&mut self, flow: FlowSlot, key: FlowKey) {
        self.push(flow, |own| Message::Begin(own, key));
    }

    #[inline]
    fn segment(&mut self, segment: &Segment) {
        self.push(segment.flow, |own| Message::Segment(Segment { flow: own, ..*segment }));
    }

    fn end(&mut self, flow: FlowSlot) {
        self.push(flow, Message::End);
    }

    fn finish(&mut self) {
        self.0.iter_mut().for_each(Line::hand_over);
    }
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
