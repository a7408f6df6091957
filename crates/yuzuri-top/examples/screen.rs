//! The terminal screen with generated flows: `cargo run -p yuzuri-top --example screen -- [FLOWS]
//! [OPTION]...`
//!
//! Options: `sampled`, `lossy`, `panic` (the screen's thread panics on the key d),
//! `panic-elsewhere` (the feeding thread panics after a second), `dark`, `light`, `colourless`,
//! `report=FILE` (writes the screen's exit reason and its cost to the file).

#![expect(unsafe_code, reason = "system calls of the test")]

mod sim;

use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use yuzuri_top::ThemeChoice;
use yuzuri_trace::{Density, Filter, Item, Setting, Source};
use yuzuri_view::{Control, Limits, LiveModel, Refused};

struct Settings {
    model: Arc<Mutex<LiveModel>>,
    panics: bool,
}

impl Settings {
    fn change(&self, filter: Option<&str>, density: Option<Density>) {
        let mut model = self.model.lock();
        let setting = Setting {
            mono_ns: model.now_ns(),
            filter: filter.unwrap_or(model.filter()).to_owned(),
            density: density.unwrap_or(model.density()),
        };
        model.apply(&Item::Setting(Arc::new(setting)));
    }
}

impl Control for Settings {
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        self.change(Some(&filter.to_string()), None);
        Ok(())
    }

    fn set_density(&self, density: Density) -> Result<(), Refused> {
        assert!(!self.panics, "asked to panic on the screen's thread");
        self.change(None, Some(density));
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let flows = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(12);
    let report = arguments.iter().find_map(|a| a.strip_prefix("report="));
    let theme = match () {
        () if has("dark") => ThemeChoice::Dark,
        () if has("light") => ThemeChoice::Light,
        () if has("colourless") => ThemeChoice::None,
        () => ThemeChoice::Auto,
    };
    let source = if has("sampled") { Source::Sampled } else { Source::Events };

    let stop = match yuzuri_exit::stop_flag() {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("cannot listen for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let model = Arc::new(Mutex::new(LiveModel::new(Arc::new(sim::session(source)), Limits::default())));
    let mut simulated_host = sim::SimulatedHost::new(flows, 7);
    simulated_host.lossy = has("lossy");
    // Start with some history, so that charts are not empty.
    let past_ns = 12_000_000_000;
    feed(&model, &mut simulated_host, sim::START_NS + past_ns);

    let feeding = {
        let (model, stop, panics) = (model.clone(), stop.clone(), has("panic-elsewhere"));
        std::thread::spawn(move || {
            let start = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                assert!(!(panics && start.elapsed() > Duration::from_secs(1)), "asked to panic elsewhere");
                feed(
                    &model,
                    &mut simulated_host,
                    sim::START_NS + past_ns + start.elapsed().as_nanos() as u64,
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let start = Instant::now();
    let control = Settings { model: model.clone(), panics: has("panic") };
    let result = yuzuri_top::run(model, &control, theme, &stop);
    let cost =
        format!("{:.2} % of a core for the screen", 100.0 * thread_cpu_s() / start.elapsed().as_secs_f64());
    stop.store(true, Ordering::Relaxed);
    let feeding = feeding.join();
    let ended = match &result {
        Ok(()) => "ended by the user or a signal".to_owned(),
        Err(error) => format!("error: {error}"),
    };
    if let Some(report) = report
        && let Err(error) = std::fs::write(report, format!("{ended}\n{cost}\n"))
    {
        eprintln!("cannot write {report}: {error}");
    }
    match result {
        Ok(()) if feeding.is_ok() => {
            println!("{ended}; {cost}");
            ExitCode::SUCCESS
        }
        _ => {
            // Standard error may be gone: `eprintln!` would panic.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{ended}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn feed(model: &Mutex<LiveModel>, simulated_host: &mut sim::SimulatedHost, to_ns: u64) {
    let mut items = Vec::new();
    simulated_host.advance(to_ns, &mut |item| items.push(item));
    let mut model = model.lock();
    for item in &items {
        model.apply(item);
        if let Item::Event(event) = item {
            model.advance(event.mono_ns);
        }
    }
    model.advance(to_ns);
}

/// CPU time of this thread, seconds.
fn thread_cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
