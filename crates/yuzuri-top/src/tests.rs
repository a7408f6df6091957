//! Screens drawn from realistic flows, kept as text, and the screen's state under keys.

#![allow(clippy::unwrap_used)]

use crate::app::{Action, App, Events, Input, Purpose, View};
use crate::clock::Clock;
use crate::draw;
use crate::look;
use crate::theme::Theme;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use yuzuri_trace::{Density, FlowId, Item, Kind, Source};
use yuzuri_view::{Book, Control, Limits, Refused, Replay, SortKey};

#[path = "../examples/sim/mod.rs"]
mod sim;

const SECOND: u64 = 1_000_000_000;

/// A book of what the flows did in so many seconds.
fn filled(flows: usize, seconds: u64, source: Source, lossy: bool) -> Book {
    let mut world = sim::World::new(flows, 7);
    world.lossy = lossy;
    let mut book = Book::new(Arc::new(sim::session(source)), Limits::default());
    feed(&mut book, &mut world, sim::START_NS + seconds * SECOND);
    book
}

fn feed(book: &mut Book, world: &mut sim::World, to_ns: u64) {
    world.advance(to_ns, &mut |item| {
        book.apply(&item);
        if let Item::Event(event) = &item {
            book.advance(event.mono_ns);
        }
    });
    book.advance(to_ns);
}

/// A source that remembers what it was asked.
#[derive(Default)]
struct Asked {
    calls: Mutex<Vec<String>>,
    refusal: Option<&'static str>,
    replay: Option<Replay>,
}

impl Asked {
    fn note(&self, call: String) -> Result<(), Refused> {
        self.calls.lock().unwrap().push(call);
        self.refusal.map_or(Ok(()), |why| Err(Refused::Failed(why.to_owned())))
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Control for Asked {
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
struct Bench {
    app: App,
    book: Mutex<Book>,
    control: Asked,
    elapsed: Duration,
    size: (u16, u16),
}

impl Bench {
    fn new(book: Book, theme: Theme, size: (u16, u16)) -> Bench {
        let app = App::new(theme, Clock::Utc);
        let mut bench =
            Bench { app, book: Mutex::new(book), control: Asked::default(), elapsed: Duration::ZERO, size };
        bench.draw();
        bench
    }

    fn small() -> Bench {
        Bench::new(filled(12, 12, Source::Events, false), Theme::DARK, (80, 24))
    }

    /// One frame, a tenth of a second later.
    fn draw(&mut self) -> Buffer {
        self.elapsed += Duration::from_millis(100);
        self.app.refresh(&self.book, &self.control, self.elapsed);
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
        self.app.lines().map(look::Line::id).collect()
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

/// Compares a screen with the one that is kept; `UPDATE_GOLDEN=1` keeps it anew (look at what changed).
fn golden(name: &str, screen: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let kept =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e} (UPDATE_GOLDEN=1 makes it)"));
    assert!(kept == screen, "{name} differs from {path} (UPDATE_GOLDEN=1 keeps it):\n{screen}");
}

#[test]
fn screens_are_as_they_were() {
    for (size, flows) in [((60, 15), 12), ((80, 24), 12), ((200, 50), 60)] {
        let name = |what: &str| format!("{}x{}-{what}", size.0, size.1);
        let mut bench = Bench::new(filled(flows, 17, Source::Events, size.0 == 80), Theme::DARK, size);
        golden(&name("table"), &bench.text());
        bench.keys("↓↓\n");
        golden(&name("chart"), &bench.text());
        bench.keys("-hhhhhhhh");
        golden(&name("cursor"), &bench.text());
        bench.keys("\x1be");
        golden(&name("events"), &bench.text());
        bench.keys("e");
        golden(&name("events-full"), &bench.text());
        bench.keys("e?");
        golden(&name("help"), &bench.text());
    }
}

#[test]
fn polled_flows_are_marked_as_sampled_and_loss_stands_out() {
    let mut bench = Bench::new(filled(3, 3, Source::Sampled, true), Theme::DARK, (80, 24));
    let screen = bench.text();
    assert!(screen.contains(" SAMPLED "), "{screen}");
    assert!(screen.contains("LOST 51 (ring-full 51)"), "{screen}");
    let buffer = bench.draw();
    let (_, cell) = find(&buffer, "LOST");
    assert!(cell.modifier.contains(Modifier::BOLD) && cell.fg == Color::LightRed);
    let row = text(&buffer).lines().nth(2).unwrap().to_owned();
    let number = |word: &str| -> u64 {
        row.split(word).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(number("seen "), number("kept ") + number("LOST "));
}

fn find<'a>(buffer: &'a Buffer, word: &str) -> (u16, &'a ratatui::buffer::Cell) {
    for (y, row) in text(buffer).lines().enumerate() {
        if let Some(at) = row.find(word) {
            let x = row[..at].chars().count() as u16;
            return (y as u16, &buffer[(x, y as u16)]);
        }
    }
    panic!("no {word:?} in\n{}", text(buffer));
}

#[test]
fn without_colour_and_unicode_all_is_still_said() {
    let mut bench = Bench::new(filled(12, 17, Source::Events, true), Theme::PLAIN_ASCII, (100, 30));
    for keys in ["", "↓\n", "hhh", "\x1be", "e", "e?"] {
        bench.keys(keys);
        let buffer = bench.draw();
        for cell in &buffer.content {
            assert!(cell.symbol().is_ascii(), "{:?} in\n{}", cell.symbol(), text(&buffer));
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
    let chart = {
        bench.keys("\x1b\x1b\n");
        bench.text()
    };
    assert!(chart.contains("cwnd") && chart.contains('*') && chart.contains('='), "{chart}");
}

#[test]
fn closed_flows_are_dimmed_and_say_so() {
    let mut bench = Bench::new(filled(12, 17, Source::Events, false), Theme::LIGHT, (160, 24));
    let buffer = bench.draw();
    let table = text(&buffer);
    let (y, row) = table.lines().enumerate().skip(4).find(|(_, row)| row.contains(" closed ")).unwrap();
    let x = row[..row.find("closed").unwrap()].chars().count();
    assert!(buffer[(x as u16, y as u16)].modifier.contains(Modifier::DIM));
    assert!(text(&buffer).contains("12 flows, 2 closed"), "{}", text(&buffer));
}

#[test]
fn a_screen_too_small_says_so() {
    for size in [(59, 15), (60, 14), (1, 1), (0, 0), (20, 3)] {
        let mut bench = Bench::small();
        bench.size = size;
        let screen = bench.text();
        assert!(size.0 < 40 || screen.contains("needs 60x15"), "{screen}");
    }
}

#[test]
fn columns_do_not_move_while_figures_change() {
    let mut world = sim::World::new(12, 7);
    let mut book = Book::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut book, &mut world, sim::START_NS + 4 * SECOND);
    let mut bench = Bench::new(book, Theme::DARK, (132, 24));
    let titles = |screen: &str| screen.lines().nth(3).unwrap().to_owned();
    let before = titles(&bench.text());
    for tenth in 1..100 {
        feed(&mut bench.book.lock().unwrap(), &mut world, sim::START_NS + 4 * SECOND + tenth * SECOND / 10);
        let screen = bench.text();
        assert_eq!(titles(&screen), before);
    }
}

#[test]
fn rows_are_sorted_as_the_book_sorts_them() {
    let book = filled(40, 9, Source::Events, false);
    for key in [
        SortKey::Rate,
        SortKey::Cwnd,
        SortKey::Srtt,
        SortKey::Retransmits,
        SortKey::Address,
        SortKey::Process,
        SortKey::Control,
        SortKey::Age,
    ] {
        for reverse in [false, true] {
            let mut lines = look::Look::at(&book, look::Log::default()).lines;
            look::sort(&mut lines, key, reverse);
            let ours: Vec<FlowId> = lines.iter().map(look::Line::id).collect();
            let books: Vec<FlowId> = book.sorted(key, reverse).iter().map(|row| row.flow.id).collect();
            assert_eq!(ours, books, "{key:?} {reverse}");
        }
    }
}

#[test]
fn the_sort_key_goes_round_and_back() {
    let mut bench = Bench::small();
    bench.keys("s");
    assert_eq!(bench.app.sort, SortKey::Cwnd);
    bench.keys("<<");
    assert_eq!(bench.app.sort, SortKey::Age);
    bench.keys(">S");
    assert_eq!((bench.app.sort, bench.app.reverse), (SortKey::Rate, true));
    assert!(bench.text().contains("▲rate"));
}

#[test]
fn the_first_row_is_marked_until_a_flow_is_chosen_which_then_stays() {
    let mut world = sim::World::new(30, 7);
    let mut book = Book::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut book, &mut world, sim::START_NS + 4 * SECOND);
    let mut bench = Bench::new(book, Theme::DARK, (80, 24));
    assert_eq!((bench.app.chosen, bench.app.marked()), (None, Some(0)));
    bench.keys("↓↓↓");
    let chosen = bench.app.chosen.unwrap();
    assert_eq!(bench.order()[3], chosen);
    let mut moved = false;
    for second in 5..14 {
        feed(&mut bench.book.lock().unwrap(), &mut world, sim::START_NS + second * SECOND);
        bench.elapsed += Duration::from_secs(1);
        bench.draw();
        assert_eq!(bench.order()[bench.app.marked().unwrap()], chosen);
        moved |= bench.app.marked() != Some(3);
    }
    assert!(moved, "the order never changed: this test shows nothing");
    bench.code(KeyCode::Home);
    assert_eq!((bench.app.chosen, bench.app.marked()), (None, Some(0)));
    bench.code(KeyCode::End);
    assert_eq!(bench.app.marked(), Some(29));
    bench.code(KeyCode::PageUp);
    assert!(bench.app.marked() < Some(29));
}

#[test]
fn finding_shows_matching_rows_while_it_is_typed_and_esc_undoes_it() {
    let mut bench = Bench::small();
    bench.keys("/CuRl");
    let curls = bench.order().len();
    assert!((1..12).contains(&curls), "{curls}");
    assert!(bench.text().contains(&format!("{curls} of 12")));
    bench.keys(" nosuch");
    assert_eq!(bench.order().len(), 0);
    assert!(bench.text().contains("No flow contains"));
    bench.keys("\x1b");
    assert_eq!((bench.order().len(), bench.app.find.as_str()), (12, ""));
    bench.keys("/443\n");
    assert!(bench.app.input.is_none());
    assert!(bench.order().len() < 12);
    bench.keys("\x1b");
    assert_eq!(bench.order().len(), 12);
}

#[test]
fn a_wrong_filter_is_explained_and_stays_to_be_put_right() {
    let mut bench = Bench::small();
    bench.keys("fprot:80\n");
    assert!(matches!(&bench.app.input, Some(Input { purpose: Purpose::Filter, error: Some(_), .. })));
    let screen = bench.text();
    assert!(screen.contains("unknown kind 'prot'") && screen.contains("filter: prot:80"), "{screen}");
    for _ in 0.."prot:80".len() {
        bench.code(KeyCode::Backspace);
    }
    bench.keys("port:80\n");
    assert!(bench.app.input.is_none());
    assert_eq!(bench.control.calls(), ["filter port:80"], "a wrong one never reaches the source");
    bench.keys("f\x1b");
    assert!(bench.control.calls().is_empty());
}

#[test]
fn density_goes_round_and_a_refusal_is_shown() {
    let mut bench = Bench::small();
    bench.keys("d");
    assert_eq!(bench.control.calls(), ["density 10ms"]);
    bench.control.refusal = Some("a recording's density is what it is");
    bench.keys("d");
    assert!(bench.text().contains("a recording's density is what it is"));
    bench.elapsed += Duration::from_secs(9);
    assert!(!bench.text().contains("a recording's density is what it is"));
}

#[test]
fn a_frozen_screen_stands_still_and_can_still_be_sorted() {
    let mut world = sim::World::new(12, 7);
    let mut book = Book::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut book, &mut world, sim::START_NS + 4 * SECOND);
    let mut bench = Bench::new(book, Theme::DARK, (80, 24));
    bench.keys("p");
    bench.elapsed += Duration::from_secs(5);
    let before = bench.text();
    assert!(before.contains("FROZEN"));
    feed(&mut bench.book.lock().unwrap(), &mut world, sim::START_NS + 9 * SECOND);
    assert_eq!(bench.text(), before);
    bench.keys("s");
    let cwnds: Vec<u32> = bench.app.lines().map(|l| l.last.snapshot.cwnd).collect();
    assert!(cwnds.is_sorted_by(|a, b| a >= b), "{cwnds:?}");
    bench.keys("p");
    assert_ne!(bench.text(), before);
}

#[test]
fn a_replay_is_halted_sped_up_and_moved() {
    let mut bench = Bench::small();
    bench.control.replay =
        Some(Replay { paused: false, speed: 2.0, position_ns: 12 * SECOND, length_ns: 90 * SECOND });
    assert!(bench.text().contains("REPLAY ▶ 2× 0:12/1:30"), "{}", bench.text());
    bench.keys("p[],.");
    let expected = ["paused true", "speed 1", "speed 4", "seek 2000000000", "seek 22000000000"];
    assert_eq!(bench.control.calls(), expected);
    assert!(!bench.app.frozen);
}

#[test]
fn a_replay_that_is_moved_back_shows_no_events_of_the_future() {
    let mut bench = Bench::small();
    let before = bench.app.look.as_ref().unwrap().log.entries.len();
    assert!(before > 50);
    *bench.book.lock().unwrap() = filled(12, 4, Source::Events, false);
    bench.draw();
    let log = &bench.app.look.as_ref().unwrap().log.entries;
    assert!(log.len() < before && log.iter().all(|e| e.event.mono_ns <= sim::START_NS + 5 * SECOND));
    assert!(log.iter().zip(1..).all(|(entry, n)| entry.number == n), "numbers without gaps");
}

#[test]
fn zoom_pan_and_cursor_stay_within_the_flows_life() {
    let mut bench = Bench::small();
    bench.keys("↓\n");
    let span = bench.app.chart.span_ns();
    bench.keys("+");
    assert!(bench.app.chart.span_ns() < span);
    for _ in 0..100 {
        bench.code(KeyCode::Left);
    }
    let to = bench.app.chart.to_ns.unwrap();
    assert!(to >= bench.app.chart.first_ns, "{to}");
    bench.keys("h");
    let screen = bench.text();
    assert!(screen.contains('▸'), "{screen}");
    for _ in 0..1000 {
        bench.code(KeyCode::Char('H'));
    }
    assert!(bench.app.chart.cursor_ns.unwrap() >= bench.app.chart.first_ns);
    for _ in 0..100 {
        bench.code(KeyCode::Right);
    }
    assert_eq!(bench.app.chart.to_ns, None, "back in the present it follows the present");
    bench.keys("c");
    assert_eq!(bench.app.chart.cursor_ns, None);
    bench.keys("\x1b");
    assert_eq!(bench.app.view, View::Table);
}

#[test]
fn the_cursor_reads_what_was_recorded() {
    let mut bench = Bench::small();
    bench.keys("↓\n");
    bench.draw();
    bench.keys("hhhhh");
    let at = bench.app.chart.cursor_ns.unwrap();
    let column = bench.app.chart.column_ns();
    let book = filled(12, 12, Source::Events, false);
    let row = book.row(bench.app.chosen.unwrap()).unwrap();
    let from = bench.app.chart.left_ns(book.now_ns());
    let start = from + (at - from) / column * column;
    let truth = row.history.window(sim::START_NS, book.now_ns(), 100_000);
    let inside: Vec<_> = truth.iter().filter(|b| (start..start + column).contains(&b.last_ns)).collect();
    let last = inside.last().unwrap().cwnd.2;
    let screen = bench.text();
    let reading = screen.lines().find(|line| line.contains('▸')).unwrap().to_owned();
    let word = reading.split("cwnd ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert_eq!(word, yuzuri_view::text::count(last.into()), "{reading}");
}

#[test]
fn events_scrolled_back_stay_in_place_as_new_ones_come() {
    let mut world = sim::World::new(12, 7);
    let mut book = Book::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut book, &mut world, sim::START_NS + 8 * SECOND);
    let mut bench = Bench::new(book, Theme::DARK, (80, 24));
    bench.keys("ee");
    assert_eq!(bench.app.events, Events::Full);
    bench.keys("kkkkk");
    assert_eq!(bench.app.events_back, 5);
    let body = |screen: &str| screen.lines().skip(4).take(19).collect::<Vec<_>>().join("\n");
    let before = body(&bench.text());
    feed(&mut bench.book.lock().unwrap(), &mut world, sim::START_NS + 10 * SECOND);
    assert_eq!(body(&bench.text()), before);
    assert!(bench.app.events_back > 5);
    bench.code(KeyCode::End);
    assert_ne!(body(&bench.text()), before);
    let newest = bench.app.events_shown().next_back().unwrap().event;
    assert_ne!(newest.kind, Kind::Sample);
}

#[test]
fn a_hostile_process_name_cannot_write_to_the_terminal() {
    let mut book = filled(1, 2, Source::Events, false);
    let flow = yuzuri_trace::Flow {
        owner: Some(yuzuri_trace::Owner { pid: 1, name: "\x1b[2J\u{202e}漢字\n".into() }),
        ..(*book.rows().next().unwrap().flow).clone()
    };
    book.apply(&Item::Flow(Arc::new(flow)));
    let mut bench = Bench::new(book, Theme::DARK, (160, 24));
    bench.keys("\n");
    for keys in ["", "\x1b", "e"] {
        bench.keys(keys);
        let buffer = bench.draw();
        assert!(buffer.content.iter().all(|cell| !cell.symbol().contains(char::is_control)));
    }
}

thread_local! {
    /// One book for all cases: filling it costs more than drawing from it.
    static SHARED: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Flows and seconds of the books that take each other's place.
const BOOKS: [(usize, u64); 3] = [(4, 3), (25, 6), (25, 12)];

#[derive(Debug, Clone)]
enum Step {
    Key(KeyCode, bool),
    Resize(u16, u16),
    /// Another book, as when a replay is moved or flows go away.
    Book(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let code = prop_oneof![
        8 => prop::sample::select("qjkgGsS<>/fdep ?[],.+-=0hlHLc17:".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        1 => any::<char>().prop_map(KeyCode::Char),
        6 => prop::sample::select(vec![
            KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::PageUp, KeyCode::PageDown,
            KeyCode::Home, KeyCode::End, KeyCode::Enter, KeyCode::Esc, KeyCode::Backspace, KeyCode::Delete,
            KeyCode::Tab, KeyCode::F(1), KeyCode::Null,
        ]),
    ];
    prop_oneof![
        20 => (code, prop::bool::weighted(0.05)).prop_map(|(code, ctrl)| Step::Key(code, ctrl)),
        3 => (0u16..220, 0u16..70).prop_map(|(w, h)| Step::Resize(w, h)),
        1 => (0..BOOKS.len()).prop_map(Step::Book),
        1 => (0u64..3000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Any keys, any sizes, any change of the book: no panic, and a chosen flow stays chosen while it is there.
    #[test]
    fn nothing_breaks_the_screen(steps in prop::collection::vec(step(), 1..60)) {
        SHARED.with_borrow_mut(|shared| -> Result<(), TestCaseError> {
            let bench = shared.get_or_insert_with(Bench::small);
            bench.app = App::new(Theme::DARK, Clock::Utc);
            for step in steps {
                match step {
                    Step::Key(code, ctrl) => {
                        let modifiers = if ctrl { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
                        bench.app.key(KeyEvent::new(code, modifiers), &bench.control, bench.elapsed);
                        bench.control.calls();
                    }
                    Step::Resize(w, h) => bench.size = (w, h),
                    Step::Book(n) => {
                        let (flows, seconds) = BOOKS[n];
                        *bench.book.lock().unwrap() = filled(flows, seconds, Source::Events, false);
                    }
                    Step::Wait(ms) => bench.elapsed += Duration::from_millis(ms),
                }
                let chosen = bench.app.chosen;
                bench.draw();
                if let Some(chosen) = chosen
                    && bench.order().contains(&chosen)
                {
                    prop_assert_eq!(bench.app.chosen, Some(chosen));
                    prop_assert_eq!(bench.app.marked().map(|at| bench.order()[at]), Some(chosen));
                    let rows = bench.app.table_top..bench.app.table_top + bench.app.table_rows;
                    let drawn = bench.app.view == View::Table && bench.app.events == Events::Off
                        && bench.app.help.is_none() && bench.size.0 >= 60 && bench.size.1 >= 15;
                    prop_assert!(!drawn || rows.contains(&bench.app.marked().unwrap()));
                }
            }
            Ok(())
        })?;
    }
}
