//! The flows of a capture on several threads, each flow on one of them.

use super::compact_segment::CompactSegment;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;
use yuzuri_capture::{Capture, FlowKey, FlowSlot, Item, ReadError, Segment};

/// Tracks a part of a capture's flows, on its own thread. It has its own slots: dense from 0, and
/// reused once their flow has ended.
pub trait Part: Send {
    /// A new flow.
    fn begin(&mut self, flow: FlowSlot, key: FlowKey);
    /// A segment of a flow.
    fn segment(&mut self, segment: &Segment);
    /// A flow ended, before the end of the capture.
    fn end(&mut self, flow: FlowSlot);
    /// The capture ended, and so did the remaining flows.
    fn finish(&mut self);
}

/// A message from the reader to a part. Each byte passes from one core's cache to another's, which
/// costs as much as tracking the segment: it is kept small.
enum Message {
    Begin(FlowSlot, Box<FlowKey>),
    CompactSegment(CompactSegment),
    Whole(Box<Segment>),
    End(FlowSlot),
}

impl Message {
    /// A segment of the flow with this slot at the part.
    #[inline(always)]
    fn segment(segment: &Segment, flow: FlowSlot) -> Message {
        match CompactSegment::of(segment, flow) {
            Some(compact) => Message::CompactSegment(compact),
            None => Message::Whole(Box::new(Segment { flow, ..*segment })),
        }
    }
}

/// Messages per batch, and batches that a part may lag behind: the queue of a part stays below half
/// a megabyte.
const BATCH: usize = 1024;
const BATCHES: usize = 8;

/// With two threads, the reader also has time to track one flow in this many. (Reading costs half
/// as much as tracking; a third thread would share the work, but everything would have to be sent
/// to it.)
const READERS: usize = 5;

/// Reads a capture to its end, and distributes the flows to `parts`. A single part is called on
/// this thread as packets arrive, without delay; of two, one works on its own thread while this one
/// reads and tracks some of the flows; three and more each work on their own threads. All parts
/// have finished on return, whatever the result: to stop early, let the capture's reader fail.
///
/// # Panics
/// With no parts.
pub fn spread<R: Read, P: Part>(capture: &mut Capture<R>, parts: &mut [P]) -> Result<(), ReadError> {
    assert!(!parts.is_empty(), "flows without a part to go to");
    if let [part] = parts {
        return feed(capture, part);
    }
    std::thread::scope(|scope| match parts {
        [own, other] => feed(capture, &mut Shared { own, other: PartChannel::to(other, scope) }),
        _ => {
            let lines = parts.iter_mut().map(|part| PartChannel::to(part, scope));
            feed(capture, &mut Distributor(lines.collect()))
        }
    })
}

/// Reads; all flows go to one part.
#[inline(always)]
pub(super) fn feed<R: Read>(capture: &mut Capture<R>, part: &mut impl Part) -> Result<(), ReadError> {
    let read = read(capture, part);
    part.finish();
    read
}

#[inline(always)]
fn read<R: Read>(capture: &mut Capture<R>, part: &mut impl Part) -> Result<(), ReadError> {
    capture.fold((), |(), item, flows| match item {
        Item::Segment(segment) => {
            if segment.first
                && let Some(key) = flows.key(segment.flow)
            {
                part.begin(segment.flow, key);
            }
            part.segment(segment);
        }
        Item::Ended(slot) => part.end(slot),
    })
}

/// Passes each flow to the part that it belongs to, which has its own slots.
struct Distributor(Vec<PartChannel>);

impl Distributor {
    fn push(&mut self, flow: FlowSlot, message: impl FnOnce(FlowSlot) -> Message) {
        let number = self.0.len();
        let own = FlowSlot((flow.index() / number) as u32);
        self.0[flow.index() % number].push(message(own));
    }
}

impl Part for Distributor {
    fn begin(&mut self, flow: FlowSlot, key: FlowKey) {
        self.push(flow, |own| Message::Begin(own, Box::new(key)));
    }

    #[inline]
    fn segment(&mut self, segment: &Segment) {
        self.push(segment.flow, |own| Message::segment(segment, own));
    }

    fn end(&mut self, flow: FlowSlot) {
        self.push(flow, Message::End);
    }

    fn finish(&mut self) {
        self.0.iter_mut().for_each(PartChannel::send_batch);
    }
}

/// A part on the reader's own thread, and one on another.
struct Shared<'a, P> {
    own: &'a mut P,
    other: PartChannel,
}

/// The part that a flow belongs to, of two, and its slot there.
enum PartOf {
    Own(FlowSlot),
    Others(FlowSlot),
}

impl PartOf {
    fn is(flow: FlowSlot) -> Self {
        let round = flow.index() / READERS;
        if flow.index().is_multiple_of(READERS) {
            Self::Own(FlowSlot(round as u32))
        } else {
            Self::Others(FlowSlot((flow.index() - round - 1) as u32))
        }
    }
}

impl<P: Part> Part for Shared<'_, P> {
    fn begin(&mut self, flow: FlowSlot, key: FlowKey) {
        match PartOf::is(flow) {
            PartOf::Own(slot) => self.own.begin(slot, key),
            PartOf::Others(slot) => self.other.push(Message::Begin(slot, Box::new(key))),
        }
    }

    #[inline(always)]
    fn segment(&mut self, segment: &Segment) {
        match PartOf::is(segment.flow) {
            PartOf::Own(flow) => self.own.segment(&Segment { flow, ..*segment }),
            PartOf::Others(flow) => self.other.push(Message::segment(segment, flow)),
        }
    }

    fn end(&mut self, flow: FlowSlot) {
        match PartOf::is(flow) {
            PartOf::Own(slot) => self.own.end(slot),
            PartOf::Others(slot) => self.other.push(Message::End(slot)),
        }
    }

    fn finish(&mut self) {
        self.other.send_batch();
        self.own.finish();
    }
}

/// The channel to a part.
struct PartChannel {
    sender: SyncSender<Vec<Message>>,
    /// Processed batches, for reuse: new ones would allocate pages each time.
    emptied: Receiver<Vec<Message>>,
    batch: Vec<Message>,
}

impl PartChannel {
    /// Creates the channel to a part on a thread of `scope`.
    fn to<'scope, P: Part>(part: &'scope mut P, scope: &'scope Scope<'scope, '_>) -> Self {
        let (sender, receiver) = sync_channel(BATCHES);
        let (giver, emptied) = channel();
        scope.spawn(move || work(part, &receiver, &giver));
        Self { sender, emptied, batch: Vec::with_capacity(BATCH) }
    }

    fn push(&mut self, message: Message) {
        self.batch.push(message);
        if self.batch.len() == BATCH {
            self.send_batch();
        }
    }

    fn send_batch(&mut self) {
        let next = self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.batch, next);
        // There is no receiver if a part has panicked, which the end of its scope reports.
        let _ = self.sender.send(batch);
    }
}

fn work(part: &mut impl Part, messages: &Receiver<Vec<Message>>, emptied: &Sender<Vec<Message>>) {
    for mut batch in messages {
        for message in &batch {
            match message {
                Message::Begin(slot, key) => part.begin(*slot, **key),
                Message::CompactSegment(compact) => part.segment(&compact.segment()),
                Message::Whole(segment) => part.segment(segment),
                Message::End(slot) => part.end(*slot),
            }
        }
        batch.clear();
        // After the last batch there is no receiver.
        let _ = emptied.send(batch);
    }
    part.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_less_than_a_line_of_the_cache() {
        assert!(size_of::<Message>() <= 48, "{}", size_of::<Message>());
    }
}
