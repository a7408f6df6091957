//! Random keys in random order.

use super::{Bench, filled};
use crate::app::{App, Events, View};
use crate::clock::Clock;
use crate::theme::Theme;
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cell::RefCell;
use std::time::Duration;
use yuzuri_trace::Source;

thread_local! {
    /// One model for all cases: filling it costs more than drawing.
    static SHARED: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Flows and seconds of the alternative models.
const MODELS: [(usize, u64); 3] = [(4, 3), (25, 6), (25, 12)];

#[derive(Debug, Clone)]
enum Step {
    Key(KeyCode, bool),
    Resize(u16, u16),
    /// Another model, like after a replay seek or when flows disappear.
    LiveModel(usize),
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
        1 => (0..MODELS.len()).prop_map(Step::LiveModel),
        1 => (0u64..3000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// For any keys, sizes and model changes: no panic, and a chosen flow stays chosen while it
    /// exists.
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
                    Step::LiveModel(n) => {
                        let (flows, seconds) = MODELS[n];
                        *bench.model.lock() = filled(flows, seconds, Source::Events, false);
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
