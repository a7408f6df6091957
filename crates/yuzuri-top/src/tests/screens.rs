//! Screens, stored as text.

use super::{SECOND, TestScreen, feed, filled, sim, text};
use crate::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use std::sync::Arc;
use yuzuri_trace::{Item, Source};
use yuzuri_view::{Limits, LiveModel};

/// Compares a screen with the stored one; `UPDATE_GOLDEN=1` stores it again (review the
/// difference).
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
fn screens_match_the_golden_files() {
    for (size, flows) in [((60, 15), 12), ((80, 24), 12), ((200, 50), 60)] {
        let name = |what: &str| format!("{}x{}-{what}", size.0, size.1);
        let mut test_screen =
            TestScreen::new(filled(flows, 17, Source::Events, size.0 == 80), Theme::DARK, size);
        golden(&name("table"), &test_screen.text());
        test_screen.keys("↓↓\n");
        golden(&name("chart"), &test_screen.text());
        test_screen.keys("-hhhhhhhh");
        golden(&name("cursor"), &test_screen.text());
        test_screen.keys("\x1be");
        golden(&name("events"), &test_screen.text());
        test_screen.keys("e");
        golden(&name("events-full"), &test_screen.text());
        test_screen.keys("e?");
        golden(&name("help"), &test_screen.text());
    }
}

#[test]
fn polled_flows_are_marked_as_sampled_and_loss_stands_out() {
    let mut test_screen = TestScreen::new(filled(3, 3, Source::Sampled, true), Theme::DARK, (80, 24));
    let screen = test_screen.text();
    assert!(screen.contains(" SAMPLED "), "{screen}");
    assert!(screen.contains("LOST 51 (ring-full 51)"), "{screen}");
    let buffer = test_screen.draw();
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
fn without_colour_and_unicode_all_information_is_shown() {
    let mut test_screen =
        TestScreen::new(filled(12, 17, Source::Events, true), Theme::PLAIN_ASCII, (100, 30));
    for keys in ["", "↓\n", "hhh", "\x1be", "e", "e?"] {
        test_screen.keys(keys);
        let buffer = test_screen.draw();
        for cell in &buffer.content {
            assert!(cell.symbol().is_ascii(), "{:?} in\n{}", cell.symbol(), text(&buffer));
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
    let chart = {
        test_screen.keys("\x1b\x1b\n");
        test_screen.text()
    };
    assert!(chart.contains("cwnd") && chart.contains('*') && chart.contains('='), "{chart}");
}

#[test]
fn closed_flows_are_dimmed_and_labelled() {
    let mut test_screen = TestScreen::new(filled(12, 17, Source::Events, false), Theme::LIGHT, (160, 24));
    let buffer = test_screen.draw();
    let table = text(&buffer);
    let (y, row) = table.lines().enumerate().skip(4).find(|(_, row)| row.contains(" closed ")).unwrap();
    let x = row[..row.find("closed").unwrap()].chars().count();
    assert!(buffer[(x as u16, y as u16)].modifier.contains(Modifier::DIM));
    assert!(text(&buffer).contains("12 flows, 2 closed"), "{}", text(&buffer));
}

#[test]
fn a_screen_that_is_too_small_shows_a_message() {
    for size in [(59, 15), (60, 14), (1, 1), (0, 0), (20, 3)] {
        let mut test_screen = TestScreen::small();
        test_screen.size = size;
        let screen = test_screen.text();
        assert!(size.0 < 40 || screen.contains("needs 60x15"), "{screen}");
    }
}

#[test]
fn columns_do_not_move_while_figures_change() {
    let mut simulated_host = sim::SimulatedHost::new(12, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + 4 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (132, 24));
    let titles = |screen: &str| screen.lines().nth(3).unwrap().to_owned();
    let before = titles(&test_screen.text());
    for tenth in 1..100 {
        feed(
            &mut test_screen.model.lock(),
            &mut simulated_host,
            sim::START_NS + 4 * SECOND + tenth * SECOND / 10,
        );
        let screen = test_screen.text();
        assert_eq!(titles(&screen), before);
    }
}

#[test]
fn a_hostile_process_name_cannot_write_to_the_terminal() {
    let mut model = filled(1, 2, Source::Events, false);
    let flow = yuzuri_trace::Flow {
        owner: Some(yuzuri_trace::Owner { pid: 1, name: "\x1b[2J\u{202e}漢字\n".into() }),
        ..(*model.rows().next().unwrap().flow).clone()
    };
    model.apply(&Item::Flow(Arc::new(flow)));
    let mut test_screen = TestScreen::new(model, Theme::DARK, (160, 24));
    test_screen.keys("\n");
    for keys in ["", "\x1b", "e"] {
        test_screen.keys(keys);
        let buffer = test_screen.draw();
        assert!(buffer.content.iter().all(|cell| !cell.symbol().contains(char::is_control)));
    }
}
