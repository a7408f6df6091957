//! Any input from a browser, or from anyone who reaches the port: always an HTTP answer, never an
//! internal error, and without the token only a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parking_lot::Mutex;
use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{Density, Event, Filter, Flow, FlowId, Item, Kind, Session, Source};
use yuzuri_view::{Control, Limits, LiveModel, Refused, Replay};
use yuzuri_web::{Fuzzed, Page};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Short, because most inputs are incomplete requests, whose rest never arrives.
const TIMEOUT: Duration = Duration::from_millis(5);

/// Accepts every valid request.
struct AcceptsAll;

impl Control for AcceptsAll {
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        assert_eq!(filter.to_string().parse(), Ok(filter));
        Ok(())
    }

    fn set_density(&self, density: Density) -> Result<(), Refused> {
        assert!(density.interval().as_secs() <= 60);
        Ok(())
    }

    fn replay(&self) -> Option<Replay> {
        Some(Replay { paused: false, speed: 1.0, position_ns: 5, length_ns: 1_000_000_000 })
    }

    fn set_paused(&self, _: bool) -> Result<(), Refused> {
        Ok(())
    }

    fn set_speed(&self, speed: f64) -> Result<(), Refused> {
        assert!((0.01..=1000.0).contains(&speed));
        Ok(())
    }

    fn seek(&self, position_ns: u64) -> Result<(), Refused> {
        assert!(position_ns <= 1_000_000_000);
        Ok(())
    }
}

fn page() -> Page {
    let session = Session {
        yuzuri: "0".into(),
        host: "host".into(),
        kernel: "kernel".into(),
        machine: "machine".into(),
        source: Source::Events,
        density: Density::default(),
        filter: String::new(),
        hooks: vec![],
        started_unix_ns: 1_700_000_000_000_000_000,
        started_mono_ns: 5_000_000_000,
    };
    let mut model = LiveModel::new(Arc::new(session), Limits::default());
    model.apply(&Item::Flow(Arc::new(Flow { id: FlowId(1), ..Flow::default() })));
    for n in 0..500 {
        let kind = if n % 50 == 0 { Kind::Retransmit } else { Kind::Sample };
        let mono_ns = 5_000_000_000 + n * 1_000_000;
        model.apply(&Item::Event(Event { flow: FlowId(1), kind, mono_ns, ..Event::default() }));
    }
    Page::new(Arc::new(Mutex::new(model)), Arc::new(AcceptsAll))
}

thread_local! {
    static OPEN: LazyCell<Fuzzed> = LazyCell::new(|| Fuzzed::new(page(), None, TIMEOUT).expect("a runtime"));
    static GUARDED: LazyCell<Fuzzed> = LazyCell::new(|| Fuzzed::new(page(), Some(SECRET), TIMEOUT).expect("a runtime"));
}

/// Whether an answer contains more than the page's own files: the API's answers are JSON, events or
/// CSV.
fn has_data(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.split("HTTP/1.1 ").any(|part| {
        let head = part.split("\r\n\r\n").next().unwrap_or_default().to_lowercase();
        let kinds = ["application/json", "text/event-stream", "text/csv"];
        head.starts_with('2') && kinds.iter().any(|kind| head.contains(&format!("content-type: {kind}")))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let answer = OPEN.with(|page| page.answer(bytes));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
    // 503 means too many browsers: there is never more than one here.
    assert!(!answer.starts_with(b"HTTP/1.1 5"), "{}", answer.escape_ascii());
    let answer = GUARDED.with(|page| page.answer(bytes));
    let knows = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    assert!(knows || !has_data(&answer), "{}", answer.escape_ascii());
});
