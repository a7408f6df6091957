//! The screen's state after keys.

use super::{SECOND, TestScreen, feed, filled, sim, two_queues};
use crate::app::{Events, Input, Purpose, View};
use crate::bottlenecks::Bottlenecks;
use crate::keys::{Mouse, MouseKind};
use crate::names::Names;
use crate::theme::Theme;
use crate::totals::TotalsBy;
use ratatui::crossterm::event::KeyCode;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{FlowId, Kind, Source};
use yuzuri_view::{Limits, LiveModel, Replay, SortKey};

#[test]
fn the_sort_key_cycles_in_both_directions() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("s");
    assert_eq!(test_screen.app.sort, SortKey::Cwnd);
    test_screen.keys("<<");
    assert_eq!(test_screen.app.sort, SortKey::Age);
    test_screen.keys(">S");
    assert_eq!((test_screen.app.sort, test_screen.app.reverse), (SortKey::Rate, true));
    assert!(test_screen.text().contains("▲rate"));
}

#[test]
fn the_first_row_is_marked_until_a_flow_is_chosen_which_then_stays() {
    let mut simulated_host = sim::SimulatedHost::new(30, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + 4 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (80, 24));
    assert_eq!((test_screen.app.chosen, test_screen.app.marked()), (None, Some(0)));
    test_screen.keys("↓↓↓");
    let chosen = test_screen.app.chosen.unwrap();
    assert_eq!(test_screen.order()[3], chosen);
    let mut moved = false;
    for second in 5..14 {
        feed(&mut test_screen.model.lock(), &mut simulated_host, sim::START_NS + second * SECOND);
        test_screen.elapsed += Duration::from_secs(1);
        test_screen.draw();
        assert_eq!(test_screen.order()[test_screen.app.marked().unwrap()], chosen);
        moved |= test_screen.app.marked() != Some(3);
    }
    assert!(moved, "the order never changed: this test shows nothing");
    test_screen.code(KeyCode::Home);
    assert_eq!((test_screen.app.chosen, test_screen.app.marked()), (None, Some(0)));
    test_screen.code(KeyCode::End);
    assert_eq!(test_screen.app.marked(), Some(29));
    test_screen.code(KeyCode::PageUp);
    assert!(test_screen.app.marked() < Some(29));
}

#[test]
fn finding_shows_matching_rows_while_it_is_typed_and_esc_undoes_it() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("/CuRl");
    let curls = test_screen.order().len();
    assert!((1..12).contains(&curls), "{curls}");
    assert!(test_screen.text().contains(&format!("{curls} of 12")));
    test_screen.keys(" nosuch");
    assert_eq!(test_screen.order().len(), 0);
    assert!(test_screen.text().contains("No flow matches the search"));
    test_screen.keys("\x1b");
    assert_eq!((test_screen.order().len(), test_screen.app.find.as_str()), (12, ""));
    test_screen.keys("/443\n");
    assert!(test_screen.app.input.is_none());
    assert!(test_screen.order().len() < 12);
    test_screen.keys("\x1b");
    assert_eq!(test_screen.order().len(), 12);
}

#[test]
fn a_wrong_filter_is_explained_and_stays_to_be_put_right() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("fprot:80\n");
    assert!(matches!(&test_screen.app.input, Some(Input { purpose: Purpose::Filter, error: Some(_), .. })));
    let screen = test_screen.text();
    assert!(screen.contains("unknown kind 'prot'") && screen.contains("filter: prot:80"), "{screen}");
    for _ in 0.."prot:80".len() {
        test_screen.code(KeyCode::Backspace);
    }
    test_screen.keys("port:80\n");
    assert!(test_screen.app.input.is_none());
    assert_eq!(test_screen.control.calls(), ["filter port:80"], "a wrong one never reaches the source");
    test_screen.keys("f\x1b");
    assert!(test_screen.control.calls().is_empty());
}

#[test]
fn density_cycles_and_a_refusal_is_shown() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("d");
    assert_eq!(test_screen.control.calls(), ["density 10ms"]);
    test_screen.control.refusal = Some("a recording's density is what it is");
    test_screen.keys("d");
    assert!(test_screen.text().contains("a recording's density is what it is"));
    test_screen.elapsed += Duration::from_secs(9);
    assert!(!test_screen.text().contains("a recording's density is what it is"));
}

#[test]
fn a_frozen_screen_does_not_change_and_can_be_sorted() {
    let mut simulated_host = sim::SimulatedHost::new(12, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + 4 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (80, 24));
    test_screen.keys("p");
    test_screen.elapsed += Duration::from_secs(5);
    let before = test_screen.text();
    assert!(before.contains("FROZEN"));
    feed(&mut test_screen.model.lock(), &mut simulated_host, sim::START_NS + 9 * SECOND);
    assert_eq!(test_screen.text(), before);
    test_screen.keys("s");
    let cwnds: Vec<u32> = test_screen.app.lines().map(|l| l.last.snapshot.cwnd).collect();
    assert!(cwnds.is_sorted_by(|a, b| a >= b), "{cwnds:?}");
    test_screen.keys("p");
    assert_ne!(test_screen.text(), before);
}

#[test]
fn a_replay_is_paused_sped_up_and_sought() {
    let mut test_screen = TestScreen::small();
    test_screen.control.replay =
        Some(Replay { paused: false, speed: 2.0, position_ns: 12 * SECOND, length_ns: 90 * SECOND });
    assert!(test_screen.text().contains("REPLAY ▶ 2× 0:12/1:30"), "{}", test_screen.text());
    test_screen.keys("p[],.");
    let expected = ["paused true", "speed 1", "speed 4", "seek 2000000000", "seek 22000000000"];
    assert_eq!(test_screen.control.calls(), expected);
    assert!(!test_screen.app.frozen);
}

#[test]
fn a_replay_sought_backwards_shows_no_later_events() {
    let mut test_screen = TestScreen::small();
    let before = test_screen.app.frame_data.as_ref().unwrap().log.entries.len();
    assert!(before > 50);
    *test_screen.model.lock() = filled(12, 4, Source::Events, false);
    test_screen.draw();
    let log = &test_screen.app.frame_data.as_ref().unwrap().log.entries;
    assert!(log.len() < before && log.iter().all(|e| e.event.mono_ns <= sim::START_NS + 5 * SECOND));
    assert!(log.iter().zip(1..).all(|(entry, n)| entry.number == n), "numbers without gaps");
}

#[test]
fn zoom_pan_and_cursor_stay_within_the_flows_life() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("↓\n");
    let span = test_screen.app.chart.span_ns();
    test_screen.keys("+");
    assert!(test_screen.app.chart.span_ns() < span);
    for _ in 0..100 {
        test_screen.code(KeyCode::Left);
    }
    let to = test_screen.app.chart.to_ns.unwrap();
    assert!(to >= test_screen.app.chart.first_ns, "{to}");
    test_screen.keys("h");
    let screen = test_screen.text();
    assert!(screen.contains('▸'), "{screen}");
    for _ in 0..1000 {
        test_screen.code(KeyCode::Char('H'));
    }
    assert!(test_screen.app.chart.cursor_ns.unwrap() >= test_screen.app.chart.first_ns);
    for _ in 0..100 {
        test_screen.code(KeyCode::Right);
    }
    assert_eq!(test_screen.app.chart.to_ns, None, "back in the present it follows the present");
    test_screen.keys("c");
    assert_eq!(test_screen.app.chart.cursor_ns, None);
    test_screen.keys("\x1b");
    assert_eq!(test_screen.app.view, View::Table);
}

#[test]
fn the_cursor_reads_what_was_recorded() {
    let mut test_screen = TestScreen::small();
    test_screen.keys("↓\n");
    test_screen.draw();
    test_screen.keys("hhhhh");
    let at = test_screen.app.chart.cursor_ns.unwrap();
    let column = test_screen.app.chart.column_ns();
    let model = filled(12, 12, Source::Events, false);
    let row = model.row(test_screen.app.chosen.unwrap()).unwrap();
    let from = test_screen.app.chart.left_ns(model.now_ns());
    let start = from + (at - from) / column * column;
    let truth = row.history.window(sim::START_NS, model.now_ns(), 100_000);
    let inside: Vec<_> = truth.iter().filter(|b| (start..start + column).contains(&b.last_ns)).collect();
    let last = inside.last().unwrap().cwnd.2;
    let screen = test_screen.text();
    let reading = screen.lines().find(|line| line.contains('▸')).unwrap().to_owned();
    let word = reading.split("cwnd ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert_eq!(word, yuzuri_view::text::count(last.into()), "{reading}");
}

#[test]
fn events_scrolled_back_stay_in_place_as_new_ones_come() {
    let mut simulated_host = sim::SimulatedHost::new(12, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + 8 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (80, 24));
    test_screen.keys("ee");
    assert_eq!(test_screen.app.events, Events::Full);
    test_screen.keys("kkkkk");
    assert_eq!(test_screen.app.events_back, 5);
    let body = |screen: &str| screen.lines().skip(4).take(19).collect::<Vec<_>>().join("\n");
    let before = body(&test_screen.text());
    feed(&mut test_screen.model.lock(), &mut simulated_host, sim::START_NS + 10 * SECOND);
    assert_eq!(body(&test_screen.text()), before);
    assert!(test_screen.app.events_back > 5);
    test_screen.code(KeyCode::End);
    assert_ne!(body(&test_screen.text()), before);
    let newest = test_screen.app.events_shown().next_back().unwrap().event;
    assert_ne!(newest.kind, Kind::Sample);
}

#[test]
fn the_totals_key_cycles_and_a_total_opens_its_flows() {
    let mut test_screen = TestScreen::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    let flows = test_screen.app.total();
    for head in ["process", "remote host", "local address and interface", "shared bottleneck"] {
        test_screen.keys("t");
        let screen = test_screen.text();
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines[3].trim_start().starts_with(head), "{screen}");
        let sum = lines[lines.len() - 2];
        assert!(sum.contains("sum of ") && sum.contains(&format!(" {flows} ")), "{screen}");
    }
    test_screen.keys("ttt");
    assert!(test_screen.text().lines().nth(3).unwrap().trim_start().starts_with("remote host"));
    let first = test_screen.text().lines().nth(4).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    test_screen.keys("\n");
    assert_eq!((test_screen.app.totals, &test_screen.app.find), (None, &first));
    assert!(
        test_screen.app.lines().len() > 0
            && test_screen.app.lines().all(|line| line.flow.to_string().contains(&first))
    );
}

#[test]
fn flows_that_share_a_bottleneck_are_grouped_and_labelled() {
    let session = Arc::new(sim::session(Source::Events));
    let mut model = LiveModel::new(session.clone(), Limits::default());
    for item in two_queues::items(sim::START_NS) {
        model.apply(&item);
    }
    let mut test_screen = TestScreen::new(model, Theme::DARK, (120, 40));
    test_screen.app.bottlenecks = Some(Bottlenecks::start());
    test_screen.keys("tttt");
    let started = std::time::Instant::now();
    while !test_screen.text().contains("bottleneck-1 ") {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "none: {}", test_screen.text());
    }
    let row = test_screen.text().lines().find(|line| line.contains("bottleneck-1 ")).unwrap().to_owned();
    assert_eq!(row.split_whitespace().filter(|word| *word == "2").count(), 1, "{row}");
    // Enter leads to its flows.
    let at =
        test_screen.app.totals_by(TotalsBy::Bottleneck).iter().position(|total| total.name == "bottleneck-1");
    (0..at.unwrap()).for_each(|_| test_screen.keys("↓"));
    test_screen.keys("\n");
    let mut found: Vec<u64> = test_screen.app.lines().map(|line| line.id().0).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 3]);
    test_screen.keys("\n");
    assert_eq!(test_screen.app.view, View::Chart);
    assert!(test_screen.text().contains("shares its bottleneck with 1 flow"), "{}", test_screen.text());
    // A replay that was moved back to where there was no flow yet.
    let shares = |test_screen: &TestScreen| test_screen.app.bottlenecks.as_ref().unwrap().of(FlowId(1));
    assert_eq!(shares(&test_screen), Some(1));
    *test_screen.model.lock() = LiveModel::new(session, Limits::default());
    test_screen.draw();
    assert_eq!(shares(&test_screen), None);
}

#[test]
fn a_pinned_flow_stays_at_the_top() {
    let mut test_screen = TestScreen::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    test_screen.keys("↓↓↓x");
    let pinned = test_screen.app.chosen.unwrap();
    for _ in 0..2 {
        test_screen.keys("sS");
        test_screen.draw();
        assert_eq!(test_screen.app.lines().next().unwrap().id(), pinned);
    }
    let row = test_screen.text().lines().nth(4).unwrap().to_owned();
    assert!(row.contains('•'), "{row}");
    test_screen.keys("xS");
    assert!(test_screen.app.pinned.is_empty() && !test_screen.text().contains('•'));
}

#[test]
fn the_sum_of_all_flows_is_drawn_where_there_is_room() {
    let mut simulated_host = sim::SimulatedHost::new(6, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut simulated_host, sim::START_NS + 2 * SECOND);
    let mut test_screen = TestScreen::new(model, Theme::DARK, (120, 40));
    for second in 3..13 {
        feed(&mut test_screen.model.lock(), &mut simulated_host, sim::START_NS + second * SECOND);
        test_screen.draw();
    }
    assert_eq!(test_screen.app.sum_bps.len(), 11);
    let open = test_screen.app.lines().filter(|line| line.closed_ns.is_none());
    let sum: f64 = open.map(|line| line.rate_bps).sum();
    let screen = test_screen.text();
    assert!(screen.contains(&format!("sum of all flows {}", yuzuri_view::text::rate(sum))), "{screen}");
    assert!(screen.contains('▄') || screen.contains('▀'), "{screen}");
    // All rows below the list and an empty one are the graph's.
    let rows: Vec<&str> = screen.lines().collect();
    let list = rows.iter().position(|row| row.contains("remote address")).unwrap();
    assert!(rows[list + test_screen.app.shown.len() + 2].contains("sum of all flows"), "{screen}");
    test_screen.size = (80, 15);
    assert!(!test_screen.text().contains("sum of all"), "no room");
}

#[test]
fn the_mouse_chooses_sorts_scrolls_and_reads() {
    let mut test_screen = TestScreen::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    let press = |test_screen: &mut TestScreen, x, y| {
        test_screen.app.mouse(Mouse { what: MouseKind::Press, x, y }, test_screen.elapsed);
        test_screen.text()
    };
    let order = test_screen.order();
    press(&mut test_screen, 20, 4 + 5);
    assert_eq!((test_screen.app.chosen, test_screen.app.view), (Some(order[5]), View::Table));
    // Clicks below the last flow do nothing.
    press(&mut test_screen, 20, 30);
    assert_eq!(test_screen.app.chosen, Some(order[5]));
    let title =
        test_screen.text().lines().nth(3).unwrap().split("cwnd").next().unwrap().chars().count() as u16;
    press(&mut test_screen, title, 3);
    assert_eq!((test_screen.app.sort, test_screen.app.reverse), (SortKey::Cwnd, false));
    press(&mut test_screen, title, 3);
    assert_eq!((test_screen.app.sort, test_screen.app.reverse), (SortKey::Cwnd, true));
    let at = test_screen.app.marked().unwrap();
    test_screen.app.mouse(Mouse { what: MouseKind::WheelUp, x: 0, y: 9 }, test_screen.elapsed);
    assert_eq!(test_screen.app.marked(), Some(at.saturating_sub(3)));
    let at = test_screen.app.marked().unwrap() as u16;
    press(&mut test_screen, 20, 4 + at);
    assert_eq!(test_screen.app.view, View::Chart);
    let screen = press(&mut test_screen, 60, 12);
    assert!(test_screen.app.chart.cursor_ns.is_some() && screen.contains('▸'), "{screen}");
    let span = test_screen.app.chart.span_ns();
    test_screen.app.mouse(Mouse { what: MouseKind::WheelUp, x: 60, y: 9 }, test_screen.elapsed);
    assert!(test_screen.app.chart.span_ns() < span);
}

#[test]
fn names_of_remote_hosts_are_shown_searched_and_hidden() {
    let mut test_screen = TestScreen::new(filled(12, 12, Source::Events, false), Theme::DARK, (160, 40));
    test_screen.app.names =
        Some(Names::start(|ip| ip.is_ipv4().then(|| format!("host-{}", ip.to_string().replace('.', "-")))));
    let started = std::time::Instant::now();
    while !test_screen.text().contains("host-10-") {
        assert!(started.elapsed() < Duration::from_secs(20), "no name: {}", test_screen.text());
    }
    test_screen.keys("/host-10");
    assert!(test_screen.app.lines().len() > 0, "names are looked in");
    test_screen.keys("\n");
    test_screen.code(KeyCode::Esc);
    test_screen.keys("n");
    assert!(test_screen.app.names.is_none() && !test_screen.text().contains("host-10-"));
}
