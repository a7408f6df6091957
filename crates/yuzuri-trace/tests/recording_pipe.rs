//! A recording in a pipe can be read while it is written.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::session;
use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::recording::{FLUSH_AFTER, PipeWriter, Reader, Tail};
use yuzuri_trace::{Event, Flow, FlowId, Item};

/// The pipe's content.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Pipe {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pipe_is_readable_while_it_is_written_and_at_the_end() {
    let flow = Flow { id: FlowId(7), ..Flow::default() };
    let event = |mono_ns| Item::Event(Event { flow: FlowId(7), mono_ns, ..Event::default() });
    let (now, into) = (Instant::now(), Pipe::default());
    let mut pipe = PipeWriter::new(into.clone(), &session()).unwrap();
    pipe.write(&[Item::Flow(Arc::new(flow)), event(1)], now).unwrap();
    let before = into.bytes();
    pipe.flush_due(now + FLUSH_AFTER / 2).unwrap();
    assert_eq!(into.bytes(), before, "it is not due yet");
    pipe.flush_due(now + FLUSH_AFTER).unwrap();
    let midway = into.bytes();
    let rest: Vec<Item> = (2..20_000).map(event).collect();
    pipe.write(&rest, now + FLUSH_AFTER).unwrap();
    let whole = pipe.finish().unwrap().bytes();
    for (bytes, events, complete) in [(midway, 1, false), (whole, 19_999, true)] {
        let mut reader = Reader::new(&bytes[..], "the pipe").unwrap();
        let mut items = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            items.extend(batch);
        }
        let found = items.iter().filter(|item| matches!(item, Item::Event(_))).count();
        assert_eq!(found, events);
        assert_eq!(reader.tail() == Some(Tail::Complete), complete);
    }
}
