//! The effect of each key on the screen's state.

use super::{Action, App, Events, Input, Message, Purpose, View, density_words, sort_name, speed_words};
use crate::clock;
use crate::edit::Edit;
use crate::names::Names;
use crate::totals::{NO_BOTTLENECK, TotalsBy, UNKNOWN};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;
use yuzuri_trace::{Density, Filter};
use yuzuri_view::{Control, Refused, SortKey};

const DENSITIES: [Density; 4] = [
    Density::Interval { ns: 1_000_000 },
    Density::Interval { ns: 10_000_000 },
    Density::Interval { ns: 100_000_000 },
    Density::EveryAck,
];

const SEEK_NS: i64 = 10_000_000_000;

impl App {
    fn show_message(&mut self, is_error: bool, text: String, elapsed: Duration) {
        // Errors take longer to read.
        let stay = Duration::from_secs(if is_error { 8 } else { 4 });
        self.message = Some(Message { text, is_error, until: elapsed + stay });
    }

    fn show_result(&mut self, done: String, result: Result<(), Refused>, elapsed: Duration) {
        match result {
            Ok(()) => self.show_message(false, done, elapsed),
            Err(why) => self.show_message(true, why.to_string(), elapsed),
        }
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent, control: &dyn Control, elapsed: Duration) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Action::Quit,
                KeyCode::Char('z') => return Action::Suspend,
                KeyCode::Char('l') => return Action::Clear,
                _ => {}
            }
        }
        if self.input.is_some() {
            self.input_key(key, control, elapsed);
            return Action::None;
        }
        if let Some(scrolled) = self.help {
            return self.help_key(key, scrolled);
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') | KeyCode::F(1) => self.help = Some(0),
            KeyCode::Char('/') => self.open_input(Purpose::Find, self.find.clone()),
            KeyCode::Char('f') => {
                let filter = self.frame_data.as_ref().map(|l| l.filter.clone()).unwrap_or_default();
                self.open_input(Purpose::Filter, filter);
            }
            KeyCode::Char('d') => self.next_density(control, elapsed),
            KeyCode::Char('p' | ' ') => self.pause(control, elapsed),
            KeyCode::Char('[') => self.change_speed(0.5, control, elapsed),
            KeyCode::Char(']') => self.change_speed(2.0, control, elapsed),
            KeyCode::Char(',') => self.seek(-SEEK_NS, control, elapsed),
            KeyCode::Char('.') => self.seek(SEEK_NS, control, elapsed),
            KeyCode::Char('n') => self.toggle_names(elapsed),
            KeyCode::Char('m') => {
                self.has_mouse = !self.has_mouse;
                let message =
                    if self.has_mouse { "the mouse controls the screen" } else { "the mouse selects text" };
                self.show_message(false, message.into(), elapsed);
                return Action::Mouse(self.has_mouse);
            }
            KeyCode::Char('e') => {
                self.events_back = 0;
                self.events = match self.events {
                    Events::Off => Events::Panel,
                    Events::Panel => Events::Full,
                    Events::Full => Events::Off,
                };
            }
            KeyCode::Esc => self.back(),
            _ if self.events == Events::Full => self.events_key(key.code),
            _ if self.view == View::Table => self.table_key(key.code, elapsed),
            _ => self.chart_key(key.code),
        }
        Action::None
    }

    fn back(&mut self) {
        if self.message.take().is_some_and(|m| m.is_error) {
            // Esc has dismissed the error.
        } else if self.events == Events::Full {
            self.events = Events::Off;
        } else if self.view == View::Chart {
            self.view = View::Table;
            self.chart.cursor_ns = None;
            self.chart.to_ns = None;
            self.arrange_now();
        } else if self.totals.is_some() {
            self.totals = None;
        } else if !self.find.is_empty() {
            self.find.clear();
            self.arrange_now();
        } else {
            self.events = Events::Off;
        }
    }

    fn totals_key(&mut self, code: KeyCode, by: TotalsBy, elapsed: Duration) {
        let page = self.table_rows;
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.totals_at = self.totals_at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.totals_at += 1,
            KeyCode::PageUp => self.totals_at = self.totals_at.saturating_sub(page),
            KeyCode::PageDown => self.totals_at += page,
            KeyCode::Home | KeyCode::Char('g') => self.totals_at = 0,
            KeyCode::End | KeyCode::Char('G') => self.totals_at = usize::MAX,
            KeyCode::Char('t') => self.next_totals(elapsed),
            KeyCode::Enter => {
                let name = self.totals_by(by).get(self.totals_at).map(|total| total.name.clone());
                self.totals = None;
                // Flows of unknown processes and bottlenecks have no word in common.
                let name = name.filter(|name| ![UNKNOWN, NO_BOTTLENECK].contains(&name.as_str()));
                self.find_rows(name.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Shows the other ends' names, or their addresses again.
    fn toggle_names(&mut self, elapsed: Duration) {
        self.names = match self.names {
            Some(_) => None,
            None => Some(Names::start(self.look_up)),
        };
        self.name_remotes();
        let message = if self.names.is_some() { "names of remote hosts, by DNS" } else { "addresses" };
        self.show_message(false, message.into(), elapsed);
    }

    fn next_totals(&mut self, elapsed: Duration) {
        self.totals = TotalsBy::next_key(self.totals);
        self.totals_at = 0;
        self.totals_order.clear();
        let message = self.totals.map_or("each flow".to_owned(), |by| format!("totals by {}", by.label()));
        self.show_message(false, message, elapsed);
    }

    /// Pins the marked flow to the top, or lets it go.
    fn pin(&mut self) {
        let Some(at) = self.marked() else { return };
        self.choose_at(at);
        if let Some(id) = self.chosen
            && !self.pinned.remove(&id)
        {
            self.pinned.insert(id);
        }
        self.arrange(&self.ranks());
    }

    pub(super) fn table_key(&mut self, code: KeyCode, elapsed: Duration) {
        if let Some(by) = self.totals {
            return self.totals_key(code, by, elapsed);
        }
        let page = self.table_rows as isize;
        match code {
            KeyCode::Char('t') => self.next_totals(elapsed),
            KeyCode::Char('x') => self.pin(),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-page),
            KeyCode::PageDown => self.move_by(page),
            KeyCode::Home | KeyCode::Char('g') => {
                self.chosen = None;
                self.chosen_at = 0;
            }
            KeyCode::End | KeyCode::Char('G') => self.choose_at(usize::MAX),
            KeyCode::Char('s' | '>') => self.sort_by(1, elapsed),
            KeyCode::Char('<') => self.sort_by(SortKey::ALL.len() - 1, elapsed),
            KeyCode::Char('S') => {
                self.reverse = !self.reverse;
                self.sort_by(0, elapsed);
            }
            KeyCode::Enter => {
                if let Some(at) = self.marked() {
                    self.choose_at(at);
                    self.view = View::Chart;
                }
            }
            _ => {}
        }
    }

    /// Sorts by a column, or reverses the order if the table is already sorted by it.
    pub(super) fn sort_by_column(&mut self, key: SortKey, elapsed: Duration) {
        self.reverse = self.sort == key && !self.reverse;
        self.sort = key;
        self.sort_by(0, elapsed);
    }

    fn sort_by(&mut self, step: usize, elapsed: Duration) {
        let at = SortKey::ALL.iter().position(|key| *key == self.sort).unwrap_or(0);
        self.sort = SortKey::ALL[(at + step) % SortKey::ALL.len()];
        self.sorted_at = Some(elapsed);
        self.arrange_now();
        let reversed = if self.reverse { ", reversed" } else { "" };
        self.show_message(false, format!("sorted by {}{reversed}", sort_name(self.sort)), elapsed);
    }

    pub(super) fn chart_key(&mut self, code: KeyCode) {
        let Some(now) = self.frame_data.as_ref().map(|frame_data| frame_data.now_ns) else { return };
        let column = self.chart.column_ns() as i64;
        let quarter = self.chart.span_ns() as i64 / 4;
        match code {
            KeyCode::Char('+' | '=') => self.chart.zoom_in(now),
            KeyCode::Char('-') => self.chart.zoom_out(now),
            KeyCode::Left => self.chart.pan(-quarter, now),
            KeyCode::Right => self.chart.pan(quarter, now),
            KeyCode::End | KeyCode::Char('0') => {
                self.chart.to_ns = None;
                self.chart.cursor_ns = None;
            }
            KeyCode::Char('h') => self.chart.move_cursor(-column, now),
            KeyCode::Char('l') => self.chart.move_cursor(column, now),
            KeyCode::Char('H') => self.chart.move_cursor(-10 * column, now),
            KeyCode::Char('L') => self.chart.move_cursor(10 * column, now),
            KeyCode::Char('c') => match self.chart.cursor_ns {
                Some(_) => self.chart.cursor_ns = None,
                None => self.chart.move_cursor(0, now),
            },
            KeyCode::Char('w') => self.chart.prefers_windows = !self.chart.prefers_windows,
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            _ => {}
        }
    }

    pub(super) fn events_key(&mut self, code: KeyCode) {
        let page = self.events_rows;
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.events_back += 1,
            KeyCode::Down | KeyCode::Char('j') => self.events_back = self.events_back.saturating_sub(1),
            KeyCode::PageUp => self.events_back += page,
            KeyCode::PageDown => self.events_back = self.events_back.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => self.events_back = usize::MAX,
            KeyCode::End | KeyCode::Char('G') => self.events_back = 0,
            _ => {}
        }
        self.limit_events_back();
    }

    fn help_key(&mut self, key: KeyEvent, scrolled: usize) -> Action {
        self.help = match key.code {
            KeyCode::Down | KeyCode::Char('j') => Some((scrolled + 1).min(self.help_most)),
            KeyCode::Up | KeyCode::Char('k') => Some(scrolled.saturating_sub(1)),
            KeyCode::PageDown => Some((scrolled + 10).min(self.help_most)),
            KeyCode::PageUp => Some(scrolled.saturating_sub(10)),
            KeyCode::Char('q') => return Action::Quit,
            _ => None,
        };
        Action::None
    }

    fn open_input(&mut self, purpose: Purpose, text: String) {
        self.message = None;
        self.input = Some(Input { purpose, edit: Edit::new(&text), error: None, before: text });
    }

    fn input_key(&mut self, key: KeyEvent, control: &dyn Control, elapsed: Duration) {
        let Some(mut input) = self.input.take() else { return };
        match (key.code, input.purpose) {
            (KeyCode::Esc, Purpose::Find) => self.find_rows(input.before),
            (KeyCode::Esc, Purpose::Filter) => {}
            (KeyCode::Enter, Purpose::Find) => {}
            (KeyCode::Enter, Purpose::Filter) => {
                let text = input.edit.text().trim().to_owned();
                let set = |text: &str| {
                    control
                        .set_filter(text.parse::<Filter>().map_err(|e| e.to_string())?)
                        .map_err(|e| e.to_string())
                };
                match set(&text) {
                    Ok(()) if text.is_empty() => {
                        self.show_message(false, "all flows are watched".into(), elapsed)
                    }
                    Ok(()) => self.show_message(false, format!("watching {text}"), elapsed),
                    Err(why) => {
                        input.error = Some(why);
                        self.input = Some(input);
                    }
                }
            }
            (_, purpose) => {
                if input.edit.key(key) {
                    input.error = None;
                    if purpose == Purpose::Find {
                        self.find_rows(input.edit.text());
                    }
                }
                self.input = Some(input);
            }
        }
    }

    fn find_rows(&mut self, find: String) {
        self.find = find;
        self.events_back = 0;
        self.arrange(&self.ranks());
    }

    fn next_density(&mut self, control: &dyn Control, elapsed: Duration) {
        let Some(now) = self.frame_data.as_ref().map(|frame_data| frame_data.density) else { return };
        let at = DENSITIES.iter().position(|d| *d == now);
        let next = DENSITIES[at.map_or(0, |at| (at + 1) % DENSITIES.len())];
        let done = format!("samples per flow: {}", density_words(next));
        self.show_result(done, control.set_density(next), elapsed);
    }

    fn pause(&mut self, control: &dyn Control, elapsed: Duration) {
        match self.replay {
            Some(replay) => {
                let done = if replay.paused { "replay resumed" } else { "replay paused" };
                self.show_result(done.into(), control.set_paused(!replay.paused), elapsed);
            }
            None => {
                self.frozen = !self.frozen;
                let done =
                    if self.frozen { "the screen is frozen; watching continues" } else { "live again" };
                self.show_message(false, done.into(), elapsed);
            }
        }
    }

    fn change_speed(&mut self, factor: f64, control: &dyn Control, elapsed: Duration) {
        let speed = (self.replay.map_or(1.0, |r| r.speed) * factor).clamp(1.0 / 64.0, 1024.0);
        self.show_result(format!("speed {}", speed_words(speed)), control.set_speed(speed), elapsed);
    }

    fn seek(&mut self, by_ns: i64, control: &dyn Control, elapsed: Duration) {
        let (at, length) = self.replay.map_or((0, 0), |r| (r.position_ns, r.length_ns));
        let to = at.saturating_add_signed(by_ns).min(length);
        let result = control.seek(to);
        if result.is_ok() {
            // The view may have been panned past the current replay position.
            self.chart.to_ns = None;
            self.chart.cursor_ns = None;
        }
        self.show_result(format!("at {}", clock::position(to)), result, elapsed);
    }
}
