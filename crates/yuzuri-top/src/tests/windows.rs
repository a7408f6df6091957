//! The plot of the peer's window and of unsent data.

use super::{SECOND, TestScreen, sim};
use crate::theme::Theme;
use ratatui::buffer::Buffer;
use std::net::SocketAddr;
use std::sync::Arc;
use yuzuri_trace::{Event, Flow, FlowId, Item, Kind, Snapshot, Source};
use yuzuri_view::{Limits, LiveModel};

/// A flow whose peer closes its window after 10 of 20 s, so that the unsent data grow.
fn closing_window() -> LiveModel {
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    let end: SocketAddr = "10.0.0.1:5001".parse().unwrap();
    let flow = Flow { id: FlowId(1), local: end, remote: end, ..Flow::default() };
    model.apply(&Item::Flow(Arc::new(flow)));
    for tenth in 0..200 {
        let mono_ns = sim::START_NS + tenth * SECOND / 10;
        let (snd_wnd, notsent) = if tenth < 100 { (800_000, 0) } else { (0, 400_000) };
        let snapshot =
            Snapshot { cwnd: 10, srtt_us: 30_000, mss: 1448, snd_wnd, notsent, ..Snapshot::default() };
        let event = Event { mono_ns, flow: FlowId(1), kind: Kind::Sample, snapshot, ..Event::default() };
        model.apply(&Item::Event(event));
    }
    model.advance(sim::START_NS + 20 * SECOND);
    model
}

/// The rows of the plot, top first: from the one labelled `⠤ wnd`, as long as there is an axis.
fn plot(buffer: &Buffer) -> Option<Vec<String>> {
    let text = super::text(buffer);
    let rows: Vec<&str> = text.lines().collect();
    let top = rows.iter().position(|row| row.ends_with("⠤ wnd"))?;
    // The next plot has a label, too.
    let is_plot =
        |row: &&&str| row.chars().nth(5).is_some_and(|c| "┤│".contains(c)) && !row.ends_with("srtt");
    Some(rows[top..].iter().take_while(is_plot).take(8).map(|row| (*row).to_owned()).collect())
}

fn is_thin(c: char) -> bool {
    ('\u{2801}'..='\u{28ff}').contains(&c)
}

fn is_thick(c: char) -> bool {
    "▀▄█".contains(c)
}

/// Where a row has a shape: whether in the quarter that begins at a fifth of the width, and in the
/// last quarter.
fn sides(row: &str, shape: fn(char) -> bool) -> (bool, bool) {
    let cells: Vec<char> = row.chars().skip(6).take(row.chars().count() - 12).collect();
    let n = cells.len();
    let has = |part: &[char]| part.iter().filter(|c| shape(**c)).count() > part.len() / 3;
    (has(&cells[n / 5..n * 9 / 20]), has(&cells[n * 3 / 4..]))
}

#[test]
fn the_peers_window_and_unsent_data_are_lines() {
    for (size, keys) in [((120, 40), "\n"), ((200, 50), "\n"), ((80, 24), "\nw"), ((60, 15), "\nw")] {
        let mut test_screen = TestScreen::new(closing_window(), Theme::DARK, size);
        test_screen.keys(keys);
        let buffer = test_screen.draw();
        let rows = plot(&buffer).unwrap_or_else(|| panic!("{size:?}: no plot in\n{}", super::text(&buffer)));
        let whole = rows.join("\n");
        let (first, last) = (&rows[0], &rows[rows.len() - 1]);
        // The axis ends at the largest value; rows have at least one dot for each half.
        assert!(first.starts_with(" 800k┤"), "{size:?}:\n{whole}");
        if rows.len() < 2 {
            continue;
        }
        assert_eq!(sides(first, is_thin), (true, false), "{size:?}: an open window is high:\n{whole}");
        assert_eq!(sides(last, is_thick), (true, false), "{size:?}: nothing is unsent:\n{whole}");
        let middle = rows[1..rows.len() - 1].iter().chain([last]);
        let (_, unsent) = middle.fold((false, false), |(left, right), row| {
            let (a, b) = sides(row, is_thick);
            (left || a, right || b)
        });
        assert!(unsent, "{size:?}: unsent data are half as high as the window was:\n{whole}");
        assert_eq!(sides(last, is_thin), (false, true), "{size:?}: a closed window is low:\n{whole}");
    }
}

/// The values of a flow whose records are all the same, on a screen of 160 x 40.
fn unchanged(snapshot: Snapshot) -> TestScreen {
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    let end: SocketAddr = "10.0.0.1:5001".parse().unwrap();
    model.apply(&Item::Flow(Arc::new(Flow { id: FlowId(1), local: end, remote: end, ..Flow::default() })));
    for tenth in 0..200 {
        let mono_ns = sim::START_NS + tenth * SECOND / 10;
        let event = Event { mono_ns, flow: FlowId(1), kind: Kind::Sample, snapshot, ..Event::default() };
        model.apply(&Item::Event(event));
    }
    model.advance(sim::START_NS + 20 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (160, 40));
    test_screen.keys("\n");
    test_screen
}

/// Whether the plot contains such a dot. Right of the plot are its labels.
fn has(rows: &[String], is_kind: fn(char) -> bool) -> bool {
    rows.iter().any(|row| row.rsplit_once('│').is_some_and(|(plot, _)| plot.contains(is_kind)))
}

/// Records of a source that does not know the unsent data: a peer's window, and no second line.
#[test]
fn unknown_unsent_data_are_no_line() {
    let mut test_screen = unchanged(Snapshot { cwnd: 10, mss: 1448, snd_wnd: 800_000, ..Snapshot::UNKNOWN });
    let rows = plot(&test_screen.draw()).unwrap();
    assert!(rows[0].starts_with(" 800k┤") && sides(&rows[0], is_thin) == (true, true), "{}", rows.join("\n"));
    assert!(!has(&rows, is_thick), "{}", rows.join("\n"));
    assert!(test_screen.text().contains("peer window 800 kB  unsent -"), "{}", test_screen.text());
}

/// Records of a source whose peer's window never limits: the axis is that of the unsent data.
#[test]
fn an_unknown_window_is_no_line() {
    let mut test_screen = unchanged(Snapshot { cwnd: 10, mss: 1448, notsent: 400_000, ..Snapshot::UNKNOWN });
    let rows = plot(&test_screen.draw()).unwrap();
    assert!(rows[0].starts_with(" 400k┤") && has(&rows, is_thick), "{}", rows.join("\n"));
    assert!(!has(&rows, is_thin), "{}", rows.join("\n"));
    assert!(test_screen.text().contains("peer window -  unsent 400 kB"), "{}", test_screen.text());
}

#[test]
fn a_low_screen_shows_the_windows_or_the_rtt() {
    let mut test_screen = TestScreen::new(closing_window(), Theme::DARK, (80, 24));
    test_screen.keys("\n");
    let has = |test_screen: &mut TestScreen| {
        (test_screen.text().contains("│srtt"), test_screen.text().contains("│⠤ wnd"))
    };
    assert_eq!(has(&mut test_screen), (true, false));
    test_screen.keys("w");
    assert_eq!(has(&mut test_screen), (false, true));
    test_screen.keys("w");
    assert_eq!(has(&mut test_screen), (true, false));
    // A screen with room shows both.
    test_screen.size = (120, 40);
    assert_eq!(has(&mut test_screen), (true, true));
    test_screen.keys("w");
    assert_eq!(has(&mut test_screen), (true, true));
}

#[test]
fn the_cursor_reads_the_peers_window_and_unsent_data() {
    let mut test_screen = TestScreen::new(closing_window(), Theme::DARK, (160, 40));
    test_screen.keys("\n");
    assert!(test_screen.text().contains("peer window 0 B  unsent 400 kB"), "{}", test_screen.text());
    test_screen.keys(&"H".repeat(12));
    assert!(test_screen.text().contains("peer window 800 kB  unsent 0 B"), "{}", test_screen.text());
}
