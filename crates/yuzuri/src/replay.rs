//! `yuzuri replay`: a recording as if live.

use crate::cli::ReplayArgs;
use crate::confine;
use crate::watch::print::{Printer, Style};
use anyhow::bail;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::{stop_flag, stopped};
use yuzuri_trace::recording::{ReadError, Reader, Tail, is_being_written};
use yuzuri_trace::{Account, Item};
use yuzuri_view::{Control, Ingest, Refused, Replay};
use yuzuri_watch::{Live, Sink, model};
use yuzuri_web::{Bound, Page};

/// The interval at which the replay advances.
const TICK: Duration = Duration::from_millis(20);

/// Shows a recording in a browser, on the terminal screen, or as lines of JSON.
pub fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let identity =
        args.web.web.and_then(|_| Identity::chosen(args.web.user.as_deref()).transpose()).transpose()?;
    let stop = stop_flag()?;
    let recording = Recording::open(&args.file)?;
    let reader = recording.read()?;
    let session = Arc::new(reader.session().clone());
    let player = Arc::new(Player::new(&args, session.started_mono_ns));
    let bound = args.web.web.map(|address| Bound::at(yuzuri_web::Options::new(address))).transpose()?;
    if bound.is_some() {
        confine::to(identity, &SystemCalls::of_open_sockets())?;
    }
    let playback = RecordingPlayback::new(recording.clone(), reader);
    measure(recording, player.clone(), stop.clone());
    if args.json {
        let mut printer = Printer::new(Style::Json, &session)?;
        let mut last = None;
        let ended = play(
            playback,
            &player,
            &mut |step| {
                let Step::Items(items) = step else { return Ok(()) };
                for item in items {
                    if let Item::Account(account) = item {
                        last = Some(account.clone());
                    }
                }
                printer.take(items)
            },
            true,
            &stop,
        )?;
        if let Some(ended) = ended {
            printer.value(&ended.json(last.as_deref()))?;
            if ended.broke.is_some() {
                return Ok(ExitCode::FAILURE);
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.web.web.is_none() && !std::io::stdout().is_terminal() {
        bail!(
            "standard output is not a terminal, so the recording cannot be shown there; use --web or --json"
        );
    }
    let model = model(&session);
    let page = args.web.web.is_some().then(|| Page::new(model.clone(), player.clone()));
    let feed = page.clone().map(|page| -> Box<dyn Ingest> { Box::new(page) });
    let mut live = Live::at(model.clone(), player.now.clone()).feeding(feed);
    let mut show = |step: Step<'_>| match step {
        Step::Items(items) => live.take(items),
        Step::Restart => {
            live.restart(&session);
            Ok(())
        }
        Step::Tick => live.tick(),
    };
    if let (Some(page), Some(bound)) = (page, bound) {
        let server = bound.serve(page)?;
        yuzuri_exit::note!(
            "yuzuri: replaying {} at {}; Ctrl-C ends it",
            args.file.display(),
            args.web.view.of(server.url())
        );
        let played = play(playback, &player, &mut show, false, &stop);
        server.stop();
        played?;
    } else {
        std::thread::scope(|scope| {
            let playing = scope.spawn(|| play(playback, &player, &mut show, false, &stop));
            let shown = yuzuri_top::run(model, player.as_ref(), args.theme.of(), &stop);
            stop.store(true, Ordering::Relaxed);
            let played = playing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            shown?;
            played.map(drop)
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An instruction for the views of the replay.
enum Step<'a> {
    /// Show these items.
    Items(&'a [Item]),
    /// Discard everything: the replay starts over.
    Restart,
    /// Nothing was due in this interval.
    Tick,
}

/// An open recording. It can be read repeatedly without being opened again, for which this process
/// may lack the privilege by then.
#[derive(Clone)]
struct Recording {
    name: String,
    file: Arc<File>,
}

impl Recording {
    fn open(path: &Path) -> Result<Recording, ReadError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Recording { name, file: Arc::new(file) }),
            Err(source) => Err(ReadError::Open { name, source }),
        }
    }

    fn read(&self) -> Result<Reader<BufReader<IndependentReader>>, ReadError> {
        let from_start = IndependentReader { file: self.file.clone(), at: 0 };
        Reader::new(BufReader::with_capacity(256 << 10, from_start), self.name.clone())
    }
}

/// A file's bytes, read independently of other readers.
struct IndependentReader {
    file: Arc<File>,
    at: u64,
}

impl Read for IndependentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.read_at(buffer, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// The recording, read from its beginning on, as often as needed.
struct RecordingPlayback {
    recording: Recording,
    reader: Reader<BufReader<IndependentReader>>,
    /// Items read and not yet due.
    ahead: std::vec::IntoIter<Item>,
    next: Option<Item>,
    ended: bool,
    /// The error that stopped reading before the end.
    broke: Option<String>,
}

/// How a recording ended.
struct Ended {
    tail: Option<Tail>,
    broke: Option<String>,
}

impl Ended {
    /// The last line of JSON.
    fn json(&self, account: Option<&Account>) -> Value {
        let (complete, ending) = match (&self.broke, self.tail) {
            (Some(_), _) => (Some(false), "damaged"),
            (None, Some(tail)) => (tail.complete(), tail.name()),
            (None, None) => (None, Tail::Unknown.name()),
        };
        json!({
            "kind": "end", "complete": complete, "ending": ending, "error": self.broke,
            "seen": account.map(Account::seen), "kept": account.map(Account::kept),
            "lost": account.map(Account::lost), "thinned": account.map(Account::thinned),
        })
    }
}

impl RecordingPlayback {
    fn new(recording: Recording, reader: Reader<BufReader<IndependentReader>>) -> RecordingPlayback {
        RecordingPlayback {
            recording,
            reader,
            ahead: Vec::new().into_iter(),
            next: None,
            ended: false,
            broke: None,
        }
    }

    fn rewind(&mut self) -> Result<(), ReadError> {
        *self = RecordingPlayback::new(self.recording.clone(), self.recording.read()?);
        Ok(())
    }

    /// The items up to a time, at most `most`; fewer if further ones are not due.
    fn until(&mut self, mono_ns: u64, most: usize, out: &mut Vec<Item>) {
        while out.len() < most && !self.ended {
            let Some(item) = self.next.take().or_else(|| self.ahead.next()) else {
                match self.reader.next_batch() {
                    Ok(Some(batch)) => self.ahead = batch.into_iter(),
                    Ok(None) => self.ended = true,
                    // Everything before the error is valid: show it to its end.
                    Err(error) => {
                        self.broke = Some(error.to_string());
                        self.ended = true;
                    }
                }
                continue;
            };
            // An identity has no time of its own: it belongs to the item after it.
            if time_of(&item).is_some_and(|at| at > mono_ns) {
                self.next = Some(item);
                return;
            }
            out.push(item);
        }
    }
}

fn time_of(item: &Item) -> Option<u64> {
    match item {
        Item::Event(event) => Some(event.mono_ns),
        Item::Account(account) => Some(account.mono_ns),
        Item::Setting(setting) => Some(setting.mono_ns),
        Item::Flow(_) => None,
    }
}

/// Plays until stopped. `ends`: the end of the recording ends the replay, which is then reported.
fn play(
    mut playback: RecordingPlayback,
    player: &Player,
    show: &mut dyn FnMut(Step<'_>) -> anyhow::Result<()>,
    ends: bool,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Ended>> {
    /// Maximum number of items shown at a time, so that a fast replay stays responsive.
    const AT_ONCE: usize = 50_000;
    let mut items = Vec::new();
    while !stopped(stop) {
        let tick_start = Instant::now();
        if player.take_rewind() {
            playback.rewind()?;
            show(Step::Restart)?;
        }
        let now = player.advance(tick_start);
        items.clear();
        playback.until(now, AT_ONCE, &mut items);
        if items.is_empty() {
            show(Step::Tick)?;
        } else {
            show(Step::Items(&items))?;
        }
        if playback.ended {
            let tail = playback.reader.tail();
            player.at_end(tail, playback.broke.as_deref());
            if ends {
                return Ok(Some(Ended { tail, broke: playback.broke }));
            }
        }
        // More is due immediately: no pause.
        if items.len() < AT_ONCE {
            std::thread::sleep(TICK.saturating_sub(tick_start.elapsed()));
        }
    }
    Ok(None)
}

/// Measures the length of the recording, in parallel with the replay.
fn measure(recording: Recording, player: Arc<Player>, stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let Ok(mut reader) = recording.read() else { return };
        // The length of a damaged recording is that of its readable part.
        while let Ok(Some(batch)) = reader.next_batch() {
            if let Some(last) = batch.iter().filter_map(time_of).max() {
                player.reaches(last);
            }
            if stopped(&stop) {
                return;
            }
        }
    });
}

struct State {
    paused: bool,
    speed: f64,
    /// The replay's position, at a time.
    position_ns: u64,
    since: Instant,
    length_ns: u64,
    /// The position is before items already shown: the replay starts over.
    rewind: bool,
    /// Whether the recording's end was reported.
    said_ending: bool,
}

/// The replay's state, and the requests of the user interfaces.
struct Player {
    start_ns: u64,
    /// The recording's current time, for the user interfaces.
    now: Arc<AtomicU64>,
    state: Mutex<State>,
    name: String,
}

impl Player {
    fn new(args: &ReplayArgs, start_ns: u64) -> Player {
        let state = State {
            paused: args.paused,
            speed: args.speed,
            position_ns: 0,
            since: Instant::now(),
            length_ns: 0,
            rewind: false,
            said_ending: false,
        };
        let name = args.file.display().to_string();
        Player { start_ns, now: Arc::new(AtomicU64::new(start_ns)), state: Mutex::new(state), name }
    }

    /// Advances the position; returns the recording's time.
    fn advance(&self, at: Instant) -> u64 {
        let mut state = self.state.lock();
        let passed = at.saturating_duration_since(state.since);
        state.since = at;
        if !state.paused {
            let step = (passed.as_nanos() as f64 * state.speed) as u64;
            state.position_ns = state.position_ns.saturating_add(step);
        }
        let now = self.start_ns.saturating_add(state.position_ns);
        self.now.store(now, Ordering::Relaxed);
        now
    }

    fn take_rewind(&self) -> bool {
        std::mem::take(&mut self.state.lock().rewind)
    }

    fn reaches(&self, mono_ns: u64) {
        let mut state = self.state.lock();
        state.length_ns = state.length_ns.max(mono_ns.saturating_sub(self.start_ns));
    }

    /// The end of the recording: the replay stops there.
    fn at_end(&self, tail: Option<Tail>, broke: Option<&str>) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.said_ending, true) {
            match (broke, tail) {
                (Some(error), _) => yuzuri_exit::note!("yuzuri: {error}"),
                (None, Some(Tail::Unfinished)) if is_being_written(Path::new(&self.name)) => {
                    yuzuri_exit::note!(
                        "yuzuri: {} is still being written: this is its content so far",
                        self.name
                    );
                }
                (None, Some(tail)) if tail != Tail::Complete => {
                    yuzuri_exit::note!("yuzuri: {} {tail}", self.name)
                }
                _ => {}
            }
        }
        if state.position_ns >= state.length_ns && state.length_ns > 0 {
            state.position_ns = state.length_ns;
            state.paused = true;
        }
    }
}

impl Control for Player {
    fn set_filter(&self, _filter: yuzuri_trace::Filter) -> Result<(), Refused> {
        Err(Refused::Unavailable(
            "the filter of a recording is fixed: it contains the flows that were \
        recorded"
                .into(),
        ))
    }

    fn set_density(&self, _density: yuzuri_trace::Density) -> Result<(), Refused> {
        Err(Refused::Unavailable(
            "the density of a recording is fixed: it contains the samples that were \
        recorded"
                .into(),
        ))
    }

    fn replay(&self) -> Option<Replay> {
        let state = self.state.lock();
        let length_ns = state.length_ns.max(state.position_ns);
        Some(Replay { paused: state.paused, speed: state.speed, position_ns: state.position_ns, length_ns })
    }

    fn set_paused(&self, paused: bool) -> Result<(), Refused> {
        let mut state = self.state.lock();
        // Continuing from the end means from the beginning.
        if !paused && state.length_ns > 0 && state.position_ns >= state.length_ns {
            state.position_ns = 0;
            state.rewind = true;
        }
        state.paused = paused;
        Ok(())
    }

    fn set_speed(&self, speed: f64) -> Result<(), Refused> {
        if !(0.01..=1000.0).contains(&speed) {
            return Err(Refused::Failed(format!("a speed of {speed} is not possible: choose 0.01 to 1000")));
        }
        self.state.lock().speed = speed;
        Ok(())
    }

    fn seek(&self, position_ns: u64) -> Result<(), Refused> {
        let mut state = self.state.lock();
        if position_ns < state.position_ns {
            state.rewind = true;
        }
        state.position_ns = position_ns.min(state.length_ns);
        Ok(())
    }
}
