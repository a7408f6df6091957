//! Colours, and their replacements.
//!
//! The screen uses only the terminal's 16 colours and its background, because users have configured
//! those to be readable. Letters, shapes or words repeat all information that colours carry.

use crate::keys::Background;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use yuzuri_limits::Limit;
use yuzuri_trace::CaState;

/// Which colours the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeChoice {
    /// According to the environment and the terminal's background.
    #[default]
    Auto,
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// No colours: letters, shapes and words carry all information.
    None,
}

/// The appearance on this terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    colour: bool,
    light: bool,
    ascii: bool,
}

impl Theme {
    #[cfg(test)]
    pub(crate) const DARK: Theme = Theme { colour: true, light: false, ascii: false };
    #[cfg(test)]
    pub(crate) const LIGHT: Theme = Theme { colour: true, light: true, ascii: false };
    #[cfg(test)]
    pub(crate) const PLAIN_ASCII: Theme = Theme { colour: false, light: false, ascii: true };

    /// As chosen, otherwise from the environment: `NO_COLOR` (<https://no-color.org>, which a
    /// choice overrides); `COLORFGBG` for a light background. ASCII if the locale is not UTF-8 or
    /// the terminal is the Linux console, whose font has no Braille.
    pub(crate) fn from_env(choice: ThemeChoice) -> Theme {
        Theme::from_vars(choice, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_vars(choice: ThemeChoice, var: impl Fn(&str) -> Option<String>) -> Theme {
        let background = var("COLORFGBG").and_then(|v| v.rsplit(';').next().map(str::to_owned));
        let locale = var("LC_ALL").or_else(|| var("LC_CTYPE")).or_else(|| var("LANG"));
        // Containers often set no locale, but their terminal is usually a modern one.
        let utf8 = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Theme {
            colour: match choice {
                ThemeChoice::Auto => var("NO_COLOR").is_none(),
                ThemeChoice::Dark | ThemeChoice::Light => true,
                ThemeChoice::None => false,
            },
            light: match choice {
                ThemeChoice::Auto => matches!(background.as_deref(), Some("7" | "15")),
                ThemeChoice::Light => true,
                ThemeChoice::Dark | ThemeChoice::None => false,
            },
            ascii: !utf8 || var("TERM").as_deref() == Some("linux"),
        }
    }

    /// Whether to query the background: it matters, and the environment does not define it. The
    /// Linux console is black.
    pub(crate) fn wants_background(self) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        self.colour && !set("COLORFGBG") && std::env::var_os("TERM").is_none_or(|term| term != "linux")
    }

    /// The same theme for a background that the terminal reported.
    pub(crate) fn on(self, background: Background) -> Theme {
        Theme { light: background == Background::Light, ..self }
    }

    fn pick(self, dark: Color, light: Color) -> Style {
        match (self.colour, self.light) {
            (false, _) => Style::new(),
            (true, false) => Style::new().fg(dark),
            (true, true) => Style::new().fg(light),
        }
    }

    /// cwnd and its axis: light blue, as in the paper's visualizer.
    pub(crate) fn cwnd(self) -> Style {
        self.pick(Color::LightBlue, Color::Blue)
    }

    /// Throughput and its axis: pink.
    pub(crate) fn rate(self) -> Style {
        self.pick(Color::LightMagenta, Color::Magenta)
    }

    /// ssthresh.
    pub(crate) fn ssthresh(self) -> Style {
        self.pick(Color::Yellow, Color::Red)
    }

    /// RTT.
    pub(crate) fn rtt(self) -> Style {
        self.pick(Color::Green, Color::Green)
    }

    /// The peer's receive window, and its axis.
    pub(crate) fn peer_window(self) -> Style {
        self.pick(Color::LightCyan, Color::Cyan)
    }

    /// Data that waits in the send buffer.
    pub(crate) fn unsent(self) -> Style {
        self.pick(Color::Yellow, Color::Red)
    }

    /// A congestion state. Its letter or word is always shown next to it.
    pub(crate) fn state(self, state: CaState) -> Style {
        match state {
            CaState::Open => Style::new(),
            CaState::Disorder => self.pick(Color::Cyan, Color::Blue),
            CaState::Cwr => self.pick(Color::Yellow, Color::Magenta),
            CaState::Recovery => self.pick(Color::LightMagenta, Color::Magenta).add_modifier(Modifier::BOLD),
            CaState::Loss => self.warning(),
        }
    }

    /// What limits a flow. Its word is always shown.
    pub(crate) fn limit(self, limit: Limit) -> Style {
        match limit {
            Limit::Application | Limit::Unknown => self.dim(),
            Limit::SendBuffer | Limit::OwnDevice | Limit::SenderRate => self.pick(Color::Cyan, Color::Blue),
            Limit::ReceiverWindow | Limit::SlowReader | Limit::Receiver => {
                self.pick(Color::LightMagenta, Color::Magenta)
            }
            Limit::SlowStart | Limit::CongestionAvoidance => self.pick(Color::LightBlue, Color::Blue),
            Limit::Sharing => self.pick(Color::LightCyan, Color::Cyan),
            Limit::Recovery | Limit::Loss => self.pick(Color::Yellow, Color::Red),
            Limit::Timeout => self.warning(),
            Limit::Pacing => self.pick(Color::White, Color::Black),
            Limit::Path => self.pick(Color::Green, Color::Green),
        }
    }

    /// Style of errors and warnings.
    pub(crate) fn warning(self) -> Style {
        self.pick(Color::LightRed, Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A badge such as SAMPLED.
    pub(crate) fn badge(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// The chosen row or column.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Labels next to values; closed flows.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Titles and keys.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The last drawing step: replaces characters that the terminal cannot show.
    pub(crate) fn finish(self, buffer: &mut Buffer) {
        if !self.ascii {
            return;
        }
        for cell in &mut buffer.content {
            let Some(c) = cell.symbol().chars().next().filter(|c| !c.is_ascii()) else { continue };
            let plain = match c {
                '\u{2800}' => ' ',
                // A single dot is part of a dashed line.
                '\u{2801}'..='\u{28ff}' if (c as u32 & 0xff).count_ones() == 1 => '.',
                '\u{2801}'..='\u{28ff}' => '*',
                '▁' | '▂' => '_',
                '▃' | '▄' | '▅' => '=',
                '▆' | '▇' | '█' => '#',
                '▀' => '"',
                '▌' | '┃' => '#',
                '│' | '┤' | '├' | '┊' => '|',
                '─' | '━' | '╌' | '–' | '−' => '-',
                '┼' | '└' | '┘' | '┴' | '┬' => '+',
                '▸' | '→' | '▶' => '>',
                '◂' | '←' => '<',
                '▲' | '↑' => '^',
                '▼' | '↓' => 'v',
                '…' => '~',
                '·' | '•' => '.',
                '×' => 'x',
                _ => '?',
            };
            cell.set_char(plain);
        }
    }
}

/// The letter of a state, as in the kernel monitor's paper: D C R L; `·` for Open.
pub(crate) fn letter(state: CaState) -> char {
    match state {
        CaState::Open => '·',
        CaState::Disorder => 'D',
        CaState::Cwr => 'C',
        CaState::Recovery => 'R',
        CaState::Loss => 'L',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(vars: &[(&str, &str)]) -> Theme {
        chosen(ThemeChoice::Auto, vars)
    }

    fn chosen(choice: ThemeChoice, vars: &[(&str, &str)]) -> Theme {
        Theme::from_vars(choice, |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_environment_is_honoured() {
        assert_eq!(theme(&[]), Theme::DARK);
        assert_eq!(theme(&[("COLORFGBG", "0;default;15"), ("LANG", "ja_JP.UTF-8")]), Theme::LIGHT);
        assert_eq!(theme(&[("NO_COLOR", "1"), ("TERM", "linux")]), Theme::PLAIN_ASCII);
        assert_eq!(theme(&[("NO_COLOR", "1"), ("LC_ALL", "C"), ("LANG", "C.UTF-8")]), Theme::PLAIN_ASCII);
    }

    #[test]
    fn a_choice_overrides_the_environment_but_not_the_locale() {
        let no_colour = [("NO_COLOR", "1"), ("COLORFGBG", "15;0"), ("LANG", "C.UTF-8")];
        assert_eq!(chosen(ThemeChoice::Light, &no_colour), Theme::LIGHT);
        assert_eq!(chosen(ThemeChoice::Dark, &[("COLORFGBG", "0;15")]), Theme::DARK);
        assert_eq!(chosen(ThemeChoice::None, &[("LC_ALL", "C")]), Theme::PLAIN_ASCII);
        assert!(chosen(ThemeChoice::Dark, &[("TERM", "linux")]).ascii);
    }

    #[test]
    fn the_background_chooses_the_colours() {
        assert_eq!(Theme::DARK.on(Background::Light), Theme::LIGHT);
        assert_eq!(Theme::LIGHT.on(Background::Dark), Theme::DARK);
    }

    #[test]
    fn no_colour_means_no_colour() {
        let plain = Theme::PLAIN_ASCII;
        let mut styles = vec![plain.cwnd(), plain.rate(), plain.ssthresh(), plain.rtt(), plain.warning()];
        styles.extend(CaState::ALL.map(|state| plain.state(state)));
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
    }
}
