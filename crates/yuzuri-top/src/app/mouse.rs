//! The effect of the mouse on the screen's state.

use super::{App, Events, View};
use crate::draw::{CHART_AXIS, HEADER};
use crate::keys::{Mouse, MouseKind};
use ratatui::crossterm::event::KeyCode;
use std::time::Duration;

/// Rows by which a turn of the wheel moves.
const WHEEL_ROWS: usize = 3;

impl App {
    /// Handles a mouse action.
    pub(crate) fn mouse(&mut self, mouse: Mouse, elapsed: Duration) {
        if self.input.is_some() {
            return;
        }
        match mouse.what {
            MouseKind::WheelUp => self.wheel(true, elapsed),
            MouseKind::WheelDown => self.wheel(false, elapsed),
            MouseKind::Press => self.press(mouse.x, mouse.y, elapsed),
        }
    }

    fn wheel(&mut self, is_up: bool, elapsed: Duration) {
        let code = if is_up { KeyCode::Up } else { KeyCode::Down };
        if let Some(scrolled) = self.help {
            let most = self.help_most;
            let next =
                if is_up { scrolled.saturating_sub(WHEEL_ROWS) } else { (scrolled + WHEEL_ROWS).min(most) };
            self.help = Some(next);
        } else if self.events == Events::Full {
            (0..WHEEL_ROWS).for_each(|_| self.events_key(code));
        } else if self.view == View::Table {
            (0..WHEEL_ROWS).for_each(|_| self.table_key(code, elapsed));
        } else {
            self.chart_key(KeyCode::Char(if is_up { '+' } else { '-' }));
        }
    }

    fn press(&mut self, x: u16, y: u16, elapsed: Duration) {
        if self.help.is_some() || self.events == Events::Full || y < HEADER {
            return;
        }
        match self.view {
            View::Chart => {
                let Some(now) = self.frame_data.as_ref().map(|frame_data| frame_data.now_ns) else { return };
                let column = usize::from(x.saturating_sub(CHART_AXIS));
                if x >= CHART_AXIS && column < self.chart.columns {
                    self.chart.cursor_ns =
                        Some(self.chart.left_ns(now) + column as u64 * self.chart.column_ns());
                }
            }
            View::Table if y == HEADER && self.totals.is_none() => {
                let key = self
                    .titles
                    .iter()
                    .find(|(from, end, _)| (*from..*end).contains(&x))
                    .map(|(.., key)| *key);
                if let Some(key) = key {
                    self.sort_by_column(key, elapsed);
                }
            }
            View::Table => {
                let row =
                    usize::from(y).checked_sub(usize::from(HEADER) + 1).filter(|row| *row < self.table_rows);
                let Some(row) = row else { return };
                if self.totals.is_some() {
                    self.totals_at = self.totals_top + row;
                    return;
                }
                let at = self.table_top + row;
                if at >= self.shown.len() {
                    return;
                }
                // A press on the flow that is marked already opens it.
                let is_marked = self.chosen.is_some() && self.marked() == Some(at);
                self.choose_at(at);
                if is_marked {
                    self.view = View::Chart;
                }
            }
        }
    }
}
