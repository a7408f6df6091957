//! The screen's state after keys.

use super::{Bench, SECOND, feed, filled, sim, two_queues};
use crate::app::{Events, Input, Purpose, View};
use crate::bottlenecks::Bottlenecks;
use crate::keys::{Mouse, MouseKind};
use crate::names::Names;
use crate::theme::Theme;
use crate::totals::By;
use ratatui::crossterm::event::KeyCode;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_trace::{FlowId, Kind, Source};
use yuzuri_view::{Limits, LiveModel, Replay, SortKey};

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
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut world, sim::START_NS + 4 * SECOND);
    let mut bench = Bench::new(model, Theme::DARK, (80, 24));
    assert_eq!((bench.app.chosen, bench.app.marked()), (None, Some(0)));
    bench.keys("↓↓↓");
    let chosen = bench.app.chosen.unwrap();
    assert_eq!(bench.order()[3], chosen);
    let mut moved = false;
    for second in 5..14 {
        feed(&mut bench.model.lock(), &mut world, sim::START_NS + second * SECOND);
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
    assert!(bench.text().contains("No flow matches the search"));
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
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut world, sim::START_NS + 4 * SECOND);
    let mut bench = Bench::new(model, Theme::DARK, (80, 24));
    bench.keys("p");
    bench.elapsed += Duration::from_secs(5);
    let before = bench.text();
    assert!(before.contains("FROZEN"));
    feed(&mut bench.model.lock(), &mut world, sim::START_NS + 9 * SECOND);
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
    *bench.model.lock() = filled(12, 4, Source::Events, false);
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
    let model = filled(12, 12, Source::Events, false);
    let row = model.row(bench.app.chosen.unwrap()).unwrap();
    let from = bench.app.chart.left_ns(model.now_ns());
    let start = from + (at - from) / column * column;
    let truth = row.history.window(sim::START_NS, model.now_ns(), 100_000);
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
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut world, sim::START_NS + 8 * SECOND);
    let mut bench = Bench::new(model, Theme::DARK, (80, 24));
    bench.keys("ee");
    assert_eq!(bench.app.events, Events::Full);
    bench.keys("kkkkk");
    assert_eq!(bench.app.events_back, 5);
    let body = |screen: &str| screen.lines().skip(4).take(19).collect::<Vec<_>>().join("\n");
    let before = body(&bench.text());
    feed(&mut bench.model.lock(), &mut world, sim::START_NS + 10 * SECOND);
    assert_eq!(body(&bench.text()), before);
    assert!(bench.app.events_back > 5);
    bench.code(KeyCode::End);
    assert_ne!(body(&bench.text()), before);
    let newest = bench.app.events_shown().next_back().unwrap().event;
    assert_ne!(newest.kind, Kind::Sample);
}

#[test]
fn totals_are_shown_in_turn_and_lead_to_their_flows() {
    let mut bench = Bench::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    let flows = bench.app.total();
    for head in ["process", "remote host", "local address and interface", "shared bottleneck"] {
        bench.keys("t");
        let screen = bench.text();
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines[3].trim_start().starts_with(head), "{screen}");
        let sum = lines[lines.len() - 2];
        assert!(sum.contains("sum of ") && sum.contains(&format!(" {flows} ")), "{screen}");
    }
    bench.keys("ttt");
    assert!(bench.text().lines().nth(3).unwrap().trim_start().starts_with("remote host"));
    let first = bench.text().lines().nth(4).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    bench.keys("\n");
    assert_eq!((bench.app.totals, &bench.app.find), (None, &first));
    assert!(
        bench.app.lines().len() > 0 && bench.app.lines().all(|line| line.flow.to_string().contains(&first))
    );
}

#[test]
fn flows_that_share_a_bottleneck_are_a_group_and_say_so() {
    let session = Arc::new(sim::session(Source::Events));
    let mut model = LiveModel::new(session.clone(), Limits::default());
    for item in two_queues::items(sim::START_NS) {
        model.apply(&item);
    }
    let mut bench = Bench::new(model, Theme::DARK, (120, 40));
    bench.app.bottlenecks = Some(Bottlenecks::start());
    bench.keys("tttt");
    let started = std::time::Instant::now();
    while !bench.text().contains("bottleneck-1 ") {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "none: {}", bench.text());
    }
    let row = bench.text().lines().find(|line| line.contains("bottleneck-1 ")).unwrap().to_owned();
    assert_eq!(row.split_whitespace().filter(|word| *word == "2").count(), 1, "{row}");
    // Enter leads to its flows.
    let at = bench.app.totals_by(By::Bottleneck).iter().position(|total| total.name == "bottleneck-1");
    (0..at.unwrap()).for_each(|_| bench.keys("↓"));
    bench.keys("\n");
    let mut found: Vec<u64> = bench.app.lines().map(|line| line.id().0).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 3]);
    bench.keys("\n");
    assert_eq!(bench.app.view, View::Chart);
    assert!(bench.text().contains("shares its bottleneck with 1 flow"), "{}", bench.text());
    // A replay that was moved back to where there was no flow yet.
    let shares = |bench: &Bench| bench.app.bottlenecks.as_ref().unwrap().of(FlowId(1));
    assert_eq!(shares(&bench), Some(1));
    *bench.model.lock() = LiveModel::new(session, Limits::default());
    bench.draw();
    assert_eq!(shares(&bench), None);
}

#[test]
fn a_pinned_flow_stays_at_the_top() {
    let mut bench = Bench::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    bench.keys("↓↓↓x");
    let pinned = bench.app.chosen.unwrap();
    for _ in 0..2 {
        bench.keys("sS");
        bench.draw();
        assert_eq!(bench.app.lines().next().unwrap().id(), pinned);
    }
    let row = bench.text().lines().nth(4).unwrap().to_owned();
    assert!(row.contains('•'), "{row}");
    bench.keys("xS");
    assert!(bench.app.pinned.is_empty() && !bench.text().contains('•'));
}

#[test]
fn the_sum_of_all_flows_is_drawn_where_there_is_room() {
    let mut world = sim::World::new(6, 7);
    let mut model = LiveModel::new(Arc::new(sim::session(Source::Events)), Limits::default());
    feed(&mut model, &mut world, sim::START_NS + 2 * SECOND);
    let mut bench = Bench::new(model, Theme::DARK, (120, 40));
    for second in 3..13 {
        feed(&mut bench.model.lock(), &mut world, sim::START_NS + second * SECOND);
        bench.draw();
    }
    assert_eq!(bench.app.sum_bps.len(), 11);
    let open = bench.app.lines().filter(|line| line.closed_ns.is_none());
    let sum: f64 = open.map(|line| line.rate_bps).sum();
    let screen = bench.text();
    assert!(screen.contains(&format!("sum of all flows {}", yuzuri_view::text::rate(sum))), "{screen}");
    assert!(screen.contains('▄') || screen.contains('▀'), "{screen}");
    // All rows below the list and an empty one are the graph's.
    let rows: Vec<&str> = screen.lines().collect();
    let list = rows.iter().position(|row| row.contains("remote address")).unwrap();
    assert!(rows[list + bench.app.shown.len() + 2].contains("sum of all flows"), "{screen}");
    bench.size = (80, 15);
    assert!(!bench.text().contains("sum of all"), "no room");
}

#[test]
fn the_mouse_chooses_sorts_scrolls_and_reads() {
    let mut bench = Bench::new(filled(12, 12, Source::Events, false), Theme::DARK, (120, 40));
    let press = |bench: &mut Bench, x, y| {
        bench.app.mouse(Mouse { what: MouseKind::Press, x, y }, bench.elapsed);
        bench.text()
    };
    let order = bench.order();
    press(&mut bench, 20, 4 + 5);
    assert_eq!((bench.app.chosen, bench.app.view), (Some(order[5]), View::Table));
    // Clicks below the last flow do nothing.
    press(&mut bench, 20, 30);
    assert_eq!(bench.app.chosen, Some(order[5]));
    let title = bench.text().lines().nth(3).unwrap().split("cwnd").next().unwrap().chars().count() as u16;
    press(&mut bench, title, 3);
    assert_eq!((bench.app.sort, bench.app.reverse), (SortKey::Cwnd, false));
    press(&mut bench, title, 3);
    assert_eq!((bench.app.sort, bench.app.reverse), (SortKey::Cwnd, true));
    let at = bench.app.marked().unwrap();
    bench.app.mouse(Mouse { what: MouseKind::WheelUp, x: 0, y: 9 }, bench.elapsed);
    assert_eq!(bench.app.marked(), Some(at.saturating_sub(3)));
    let at = bench.app.marked().unwrap() as u16;
    press(&mut bench, 20, 4 + at);
    assert_eq!(bench.app.view, View::Chart);
    let screen = press(&mut bench, 60, 12);
    assert!(bench.app.chart.cursor_ns.is_some() && screen.contains('▸'), "{screen}");
    let span = bench.app.chart.span_ns();
    bench.app.mouse(Mouse { what: MouseKind::WheelUp, x: 60, y: 9 }, bench.elapsed);
    assert!(bench.app.chart.span_ns() < span);
}

#[test]
fn names_of_remote_hosts_are_shown_found_and_left_again() {
    let mut bench = Bench::new(filled(12, 12, Source::Events, false), Theme::DARK, (160, 40));
    bench.app.names =
        Some(Names::start(|ip| ip.is_ipv4().then(|| format!("host-{}", ip.to_string().replace('.', "-")))));
    let started = std::time::Instant::now();
    while !bench.text().contains("host-10-") {
        assert!(started.elapsed() < Duration::from_secs(20), "no name: {}", bench.text());
    }
    bench.keys("/host-10");
    assert!(bench.app.lines().len() > 0, "names are looked in");
    bench.keys("\n");
    bench.code(KeyCode::Esc);
    bench.keys("n");
    assert!(bench.app.names.is_none() && !bench.text().contains("host-10-"));
}
