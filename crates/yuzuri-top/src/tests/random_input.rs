//! Random keys in random order.

use super::{TestScreen, filled};
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
    static SHARED: RefCell<Option<TestScreen>> = const { RefCell::new(None) };
}

/// Flows and seconds of the alternative models.
const MODELS: [(usize, u64); 3] = [(4, 3), (25, 6), (25, 12)];

#[derive(Debug, Clone)]
enum Step {
    Key(KeyCode, bool),
    Resize(u16, u16),
    /// Another model, like after a replay seek or when flows disappear.
    Model(usize),
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
        1 => (0..MODELS.len()).prop_map(Step::Model),
        1 => (0u64..3000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// For any keys, sizes and model changes: no panic, and a chosen flow stays chosen while it
    /// exists.
    #[test]
    fn random_input_does_not_panic(steps in prop::collection::vec(step(), 1..60)) {
        SHARED.with_borrow_mut(|shared| -> Result<(), TestCaseError> {
            let test_screen = shared.get_or_insert_with(TestScreen::small);
            test_screen.app = App::new(Theme::DARK, Clock::Utc);
            for step in steps {
                match step {
                    Step::Key(code, ctrl) => {
                        let modifiers = if ctrl { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
                        test_screen.app.key(KeyEvent::new(code, modifiers), &test_screen.control, test_screen.elapsed);
                        test_screen.control.calls();
                    }
                    Step::Resize(w, h) => test_screen.size = (w, h),
                    Step::Model(n) => {
                        let (flows, seconds) = MODELS[n];
                        *test_screen.model.lock() = filled(flows, seconds, Source::Events, false);
                    }
                    Step::Wait(ms) => test_screen.elapsed += Duration::from_millis(ms),
                }
                let chosen = test_screen.app.chosen;
                test_screen.draw();
                if let Some(chosen) = chosen
                    && test_screen.order().contains(&chosen)
                {
                    prop_assert_eq!(test_screen.app.chosen, Some(chosen));
                    prop_assert_eq!(test_screen.app.marked().map(|at| test_screen.order()[at]), Some(chosen));
                    let rows = test_screen.app.table_top..test_screen.app.table_top + test_screen.app.table_rows;
                    let drawn = test_screen.app.view == View::Table && test_screen.app.events == Events::Off
                        && test_screen.app.help.is_none() && test_screen.size.0 >= 60 && test_screen.size.1 >= 15;
                    prop_assert!(!drawn || rows.contains(&test_screen.app.marked().unwrap()));
                }
            }
            Ok(())
        })?;
    }
}
