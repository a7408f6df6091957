//! The screen in a real terminal (tmux): its contents, and that every exit path restores the
//! terminal.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The example's binary; `cargo test` builds both.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/screen");
    assert!(path.exists(), "{} is missing: cargo build -p yuzuri-top --example screen", path.display());
    path
}

fn has_tmux() -> bool {
    let found = Command::new("tmux").arg("-V").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!(
            "skipped: tmux is not installed, so there is no real terminal to test in (apt install tmux)"
        );
    }
    found
}

/// A shell in a separate tmux server.
struct Tmux {
    socket: String,
    folder: PathBuf,
}

impl Tmux {
    fn new(columns: u16, rows: u16) -> Tmux {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = format!("yuzuri-top-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&socket);
        std::fs::create_dir(&folder).unwrap();
        let tmux = Tmux { socket, folder };
        let (x, y) = (columns.to_string(), rows.to_string());
        let shell = "env -u NO_COLOR LC_ALL=C.UTF-8 PS1='ready> ' bash --norc --noprofile -i";
        let out = tmux.run(&["-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", &x, "-y", &y, shell]);
        assert!(out.status.success(), "{out:?}");
        tmux.run(&["set-option", "-g", "status", "off"]);
        tmux.wait_for("ready>");
        tmux
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap()
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p", "-t", "s"]).stdout).into_owned()
    }

    /// The screen with the sequences that make its colours.
    fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-e", "-p", "-t", "s"]).stdout).into_owned()
    }

    fn key(&self, key: &str) {
        self.run(&["send-keys", "-t", "s", key]);
    }

    fn line(&self, text: &str) {
        self.run(&["send-keys", "-t", "s", "-l", text]);
        self.key("Enter");
    }

    fn asks(&self, format: &str) -> String {
        let out = self.run(&["display-message", "-p", "-t", "s", format]);
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("'{text}'"), |screen| screen.contains(text))
    }

    /// Starts the example in the shell, after saving the terminal settings.
    fn start(&self, arguments: &str) {
        self.line("echo typed-before; stty -g > before");
        self.wait_for("typed-before\n");
        self.line(&format!("{} {arguments}", example().display()));
        self.wait_for("q quit");
        assert_eq!(self.asks("#{alternate_on} #{cursor_flag}"), "1 0");
    }

    /// Checks that the terminal is restored: main screen, cursor, settings, and previous contents.
    fn is_restored(&self) {
        self.wait_until("the main screen", |_| self.asks("#{alternate_on} #{cursor_flag}") == "0 1");
        self.line("stty -g > after; cmp before after && echo the-same");
        let screen = self.wait_for("\nthe-same");
        assert!(screen.contains("typed-before\n"), "{screen}");
    }

    /// A shell that runs in the test's folder.
    fn in_folder(columns: u16, rows: u16) -> Tmux {
        let tmux = Tmux::new(columns, rows);
        tmux.line(&format!("cd {}", tmux.folder.display()));
        tmux
    }

    fn report(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.join("report")).ok().filter(|text| text.ends_with('\n'))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn table_chart_events_help_and_quit() {
    if !has_tmux() {
        return;
    }
    let tmux = Tmux::in_folder(100, 30);
    tmux.start("12 lossy");
    let table = tmux.wait_for("remote address");
    assert!(table.contains("studio-3") && table.contains("Mbit/s") && table.contains('▸'), "{table}");
    assert!(table.contains("seen ") && table.contains("LOST "), "{table}");

    tmux.key("Down");
    tmux.key("Enter");
    // The screen may be captured while it is being drawn.
    tmux.wait_until("the whole chart", |screen| {
        ["in view", "throughput", "state ", "srtt"].iter().all(|words| screen.contains(words))
            && screen.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c))
    });
    tmux.key("h");
    tmux.wait_for("▸ ");
    tmux.key("Escape");
    tmux.wait_for("remote address");

    tmux.key("e");
    tmux.wait_for("place in the kernel");
    let events = tmux.wait_for("tcp_enter_recovery");
    assert!(events.contains("fast-retransmit"), "{events}");
    tmux.key("e");
    tmux.wait_until("the whole screen of events", |screen| !screen.contains("remote address"));
    tmux.key("e");

    tmux.key("?");
    tmux.wait_for("Everywhere");
    tmux.key("Escape");
    tmux.wait_for("remote address");

    tmux.key("f");
    tmux.line("prot:80");
    tmux.wait_for("unknown kind 'prot'");
    tmux.key("C-u");
    tmux.line("port:5201");
    tmux.wait_for("filter port:5201");

    for (size, shows) in [((60, 15), "remote address"), ((50, 10), "needs 60x15"), ((180, 40), "min rtt")] {
        let (x, y) = (size.0.to_string(), size.1.to_string());
        tmux.run(&["resize-window", "-t", "s", "-x", &x, "-y", &y]);
        tmux.wait_for(shows);
    }
    tmux.run(&["resize-window", "-t", "s", "-x", "100", "-y", "30"]);
    tmux.key("q");
    tmux.wait_for("ended by the user");
    tmux.is_restored();
}

/// The bytes that a terminal sends for a mouse (SGR 1006), and a pin, at both usual sizes.
#[test]
fn the_mouse_is_reported_and_a_flow_pinned() {
    if !has_tmux() {
        return;
    }
    for (columns, rows) in [(80, 24), (120, 40)] {
        let tmux = Tmux::in_folder(columns, rows);
        tmux.start("12 lossy");
        tmux.wait_for("remote address");
        let on = |is: &'static str| move |tmux: &Tmux| tmux.asks("#{mouse_sgr_flag}") == is;
        if !on("1")(&tmux) {
            tmux.key("m");
            tmux.wait_until("the mouse's reports", |_| on("1")(&tmux));
        }
        let marked = |screen: &str| screen.lines().position(|line| line.contains('▸'));
        let click = |row: usize| {
            // Rows are counted from 1.
            let bytes = format!("\x1b[<0;10;{0}M\x1b[<0;10;{0}m", row + 1);
            tmux.run(&["send-keys", "-t", "s", "-l", &bytes]);
        };
        click(6);
        tmux.wait_until("the clicked row", |screen| marked(screen) == Some(6));
        tmux.key("x");
        tmux.wait_until("the pinned flow at the top", |screen| {
            screen.lines().nth(4).is_some_and(|line| line.contains('•'))
        });
        tmux.key("m");
        tmux.wait_until("no mouse's reports", |_| on("0")(&tmux));
        tmux.key("q");
        tmux.wait_for("ended by the user");
        tmux.is_restored();
    }
}

#[test]
fn the_terminal_is_asked_for_its_background() {
    if !has_tmux() {
        return;
    }
    // The columns of cwnd in light blue, or in blue.
    let (bright, deep) = ("\x1b[38;5;12m", "\x1b[38;5;4m");
    for (colour, shown, not_shown) in [("#fdf6e3", deep, bright), ("#002b36", bright, deep)] {
        let tmux = Tmux::in_folder(100, 30);
        tmux.run(&["set-option", "-g", "window-style", &format!("bg={colour}")]);
        tmux.line("unset COLORFGBG");
        tmux.start("12");
        tmux.key("Enter");
        tmux.wait_for("in view");
        let coloured = || {
            let screen = tmux.run(&["capture-pane", "-e", "-p", "-t", "s"]).stdout;
            String::from_utf8_lossy(&screen).into_owned()
        };
        tmux.wait_until(colour, |_| coloured().contains(shown) && !coloured().contains(not_shown));
        tmux.key("q");
        tmux.is_restored();
    }
}

#[test]
fn the_terminal_is_restored_after_ctrl_c_and_signals() {
    if !has_tmux() {
        return;
    }
    let tmux = Tmux::in_folder(80, 24);
    tmux.start("3");
    tmux.key("C-c");
    tmux.is_restored();
    tmux.line("clear");
    tmux.wait_until("an empty screen", |screen| !screen.contains("the-same"));
    tmux.start("3");
    // The shell is busy; send the signal from outside to the shell's only child.
    let shell = tmux.asks("#{pane_pid}");
    let child = Command::new("pgrep").args(["-P", &shell]).output().unwrap();
    let child = String::from_utf8_lossy(&child.stdout).trim().to_owned();
    assert!(child.parse::<u32>().is_ok(), "one child of the shell: {child:?}");
    assert!(Command::new("kill").args(["-TERM", &child]).status().unwrap().success());
    tmux.wait_for("ended by the user or a signal");
    tmux.is_restored();
}

#[test]
fn the_terminal_is_restored_after_a_panic_and_its_message_is_seen() {
    if !has_tmux() {
        return;
    }
    let tmux = Tmux::in_folder(100, 30);
    tmux.start("3 panic");
    tmux.key("d");
    tmux.wait_for("asked to panic on the screen's thread");
    tmux.is_restored();
    tmux.line("clear");
    tmux.wait_until("an empty screen", |screen| !screen.contains("the-same"));
    tmux.start("3 panic-elsewhere");
    tmux.wait_for("asked to panic elsewhere");
    tmux.wait_for("another part of the program failed");
    tmux.is_restored();
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_fg() {
    if !has_tmux() {
        return;
    }
    let tmux = Tmux::in_folder(80, 24);
    tmux.start("3");
    tmux.key("C-z");
    tmux.wait_for("Stopped");
    assert_eq!(tmux.asks("#{alternate_on} #{cursor_flag}"), "0 1");
    tmux.line("fg");
    tmux.wait_for("remote address");
    tmux.key("q");
    tmux.is_restored();
}

#[test]
fn a_lost_terminal_ends_the_screen_even_where_sighup_is_ignored() {
    if !has_tmux() {
        return;
    }
    let tmux = Tmux::in_folder(80, 24);
    tmux.line("trap '' HUP");
    tmux.start("3 report=report");
    tmux.run(&["kill-session", "-t", "s"]);
    let start = Instant::now();
    let report = loop {
        match tmux.report() {
            Some(report) => break report,
            None => std::thread::sleep(Duration::from_millis(30)),
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "the screen did not notice that its terminal is gone"
        );
    };
    assert!(report.contains("the terminal is no longer available"), "{report}");
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let out = Command::new(example()).arg("3").output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success());
    assert!(error.contains("yuzuri watch --json") && error.contains("--web"), "{error}");
    assert!(out.stdout.is_empty(), "not a byte to a pipe");
}

/// As the terminal gets them: 12 is light blue, 4 is blue (cwnd on a dark and on a light
/// background).
#[test]
fn a_theme_that_was_chosen_has_its_colours() {
    if !has_tmux() {
        return;
    }
    for (arguments, has, has_not) in [("3 dark", "38;5;12m", "38;5;4m"), ("3 light", "38;5;4m", "38;5;12m")] {
        let tmux = Tmux::in_folder(120, 30);
        // The choice overrides the environment.
        tmux.line("export NO_COLOR=1 COLORFGBG='15;0'");
        tmux.start(arguments);
        tmux.wait_until(&format!("{has} of {arguments}"), |_| tmux.coloured().contains(has));
        assert!(!tmux.coloured().contains(has_not), "{arguments}: {:?}", tmux.coloured());
    }
    let tmux = Tmux::in_folder(120, 30);
    tmux.start("3 colourless");
    tmux.wait_for("recov");
    let screen = tmux.coloured();
    assert!(!screen.contains("38;5;") && !screen.contains("48;5;"), "{screen:?}");
    assert!(screen.contains("\u{1b}[1m"), "bold stays: {screen:?}");
}
