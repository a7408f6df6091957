//! A screen without a terminal, filled from realistic flows. [`screens`] compares drawings,
//! [`keys`] checks the state after keys, [`random_input`] presses random keys.

#![allow(clippy::unwrap_used)]

mod keys;
mod random_input;
mod screens;
mod windows;

use crate::app::{Action, App};
use crate::clock::Clock;
use crate::draw;
use crate::frame_data::Line;
use crate::theme::Theme;
use parking_lot::Mutex;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{Density, FlowId, Item, Source};
use yuzuri_view::{Control, Limits, LiveModel, Refused, Replay};

#[path = "../examples/sim/mod.rs"]
mod sim;
#[path = "../../yuzuri-view/tests/tools/two_queues.rs"]
mod two_queues;

const SECOND: u64 = 1_000_000_000;

/// A model of the flows after `seconds`.
fn filled(flows: usize, seconds: u64, source: Source, lossy: bool) -> LiveModel {
    let mut simulated_host = sim::SimulatedHost::new(flows, 7);
    simulated_host.lossy = lossy;
    let mut model = LiveModel::new(Arc::new(sim::session(source)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + seconds * SECOND);
    model
}

fn feed(model: &mut LiveModel, simulated_host: &mut sim::SimulatedHost, to_ns: u64) {
    simulated_host.advance(to_ns, &mut |item| {
        model.apply(&item);
        if let Item::Event(event) = &item {
            model.advance(event.mono_ns);
        }
    });
    model.advance(to_ns);
}

/// A source that records the requests that it receives.
#[derive(Default)]
struct RecordingControl {
    calls: Mutex<Vec<String>>,
    refusal: Option<&'static str>,
    replay: Option<Replay>,
}

impl RecordingControl {
    fn note(&self, call: String) -> Result<(), Refused> {
        self.calls.lock().push(call);
        self.refusal.map_or(Ok(()), |why| Err(Refused::Failed(why.to_owned())))
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }
}

impl Control for RecordingControl {
    fn set_filter(&self, filter: yuzuri_trace::Filter) -> Result<(), Refused> {
        self.note(format!("filter {filter}"))
    }
    fn set_density(&self, density: Density) -> Result<(), Refused> {
        self.note(format!("density {density}"))
    }
    fn replay(&self) -> Option<Replay> {
        self.replay
    }
    fn set_paused(&self, paused: bool) -> Result<(), Refused> {
        self.note(format!("paused {paused}"))
    }
    fn set_speed(&self, speed: f64) -> Result<(), Refused> {
        self.note(format!("speed {speed}"))
    }
    fn seek(&self, position_ns: u64) -> Result<(), Refused> {
        self.note(format!("seek {position_ns}"))
    }
}

/// A screen without a terminal.
struct TestScreen {
    app: App,
    model: Mutex<LiveModel>,
    control: RecordingControl,
    elapsed: Duration,
    size: (u16, u16),
}

impl TestScreen {
    fn new(model: LiveModel, theme: Theme, size: (u16, u16)) -> TestScreen {
        let app = App::new(theme, Clock::Utc);
        let mut test_screen = TestScreen {
            app,
            model: Mutex::new(model),
            control: RecordingControl::default(),
            elapsed: Duration::ZERO,
            size,
        };
        test_screen.draw();
        test_screen
    }

    fn small() -> TestScreen {
        TestScreen::new(filled(12, 12, Source::Events, false), Theme::DARK, (80, 24))
    }

    /// Draws one frame, 100 ms later.
    fn draw(&mut self) -> Buffer {
        self.elapsed += Duration::from_millis(100);
        self.app.refresh(&self.model, &self.control, self.elapsed);
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        let mut buffer = Buffer::empty(area);
        draw::draw(area, &mut buffer, &mut self.app);
        buffer
    }

    fn code(&mut self, code: KeyCode) -> Action {
        self.app.key(KeyEvent::new(code, KeyModifiers::NONE), &self.control, self.elapsed)
    }

    fn keys(&mut self, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '↓' => KeyCode::Down,
                '↑' => KeyCode::Up,
                '←' => KeyCode::Left,
                '→' => KeyCode::Right,
                c => KeyCode::Char(c),
            };
            assert_eq!(self.code(code), Action::None, "{key}");
            self.draw();
        }
    }

    fn text(&mut self) -> String {
        self.draw();
        text(&self.draw())
    }

    fn order(&self) -> Vec<FlowId> {
        self.app.lines().map(Line::id).collect()
    }
}

fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut row = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            x += (draw::width(symbol) as u16).max(1);
        }
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}
