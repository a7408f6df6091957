//! What is possible for a gate that only lowers windows: every upload has one constant window, from
//! the first ACK on. Several windows are tried; those that carry at least 0.98 of CUBIC's total
//! count.

use super::Args;
use super::contender::{Contender, run_fixed};
use super::figures::Figures;
use super::setting::{Group, Setting};
use crate::sharing::{each, watched, write_lines};
use serde::Serialize;
use yuzuri_gate::Bound;
use yuzuri_sim::{MSS_BYTES, ScenarioError, hint_of};

/// The queues for which windows are tried, ms; with the first one, the path is not full.
const QUEUES_MS: [f64; 11] = [-3.0, 0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0];
/// Thinning: one ACK for this many segments; 0: no thinning.
const THIN_SEGMENTS: [u32; 3] = [0, 4, 8];
/// The fraction of CUBIC's total that a window must reach.
const MIN_THROUGHPUT_RATIO: f64 = 0.98;
const MSS: u32 = MSS_BYTES as u32;

/// The results of a window.
#[derive(Clone, Debug, Serialize)]
struct WindowTrial {
    segments: u32,
    thin_segments: u32,
    figures: Figures,
}

/// A setting.
#[derive(Serialize)]
struct Outcome {
    setting: String,
    group: &'static str,
    cubic: Figures,
    tries: Vec<WindowTrial>,
}

/// The windows to try, segments.
fn windows(setting: &Setting) -> Vec<u32> {
    let wire_bps = setting.wire_mbps as f64 * 1e6;
    let uploads = setting.phys.len() - usize::from(setting.group == Group::Call);
    let alone_bps = hint_of(setting.phys[0]).alone_bps as f64;
    let share_bps = alone_bps.min(wire_bps) / uploads as f64;
    let segments = |queue_ms: f64| {
        let seconds = (setting.rtt_ms as f64 + queue_ms) / 1e3;
        ((share_bps * seconds / 8.0 / f64::from(MSS)).ceil() as u32).max(1)
    };
    let mut all: Vec<u32> = QUEUES_MS.into_iter().map(segments).collect();
    all.dedup();
    all
}

impl Outcome {
    fn of(setting: &Setting, seed: u64, thins: bool) -> Result<Outcome, ScenarioError> {
        let thin: &[u32] = if thins { &THIN_SEGMENTS } else { &THIN_SEGMENTS[..1] };
        let mut tries = Vec::new();
        for segments in windows(setting) {
            for thin_segments in thin {
                let bound = Bound { bytes: segments * MSS, thin_bytes: thin_segments * MSS };
                let figures = Figures::of(setting, &run_fixed(setting, seed, bound)?);
                tries.push(WindowTrial { segments, thin_segments: *thin_segments, figures });
            }
        }
        let cubic = Figures::run(Contender::Cubic, setting, seed)?;
        Ok(Outcome { setting: setting.name(), group: setting.group.title(), cubic, tries })
    }

    fn ratio(&self, one: &WindowTrial) -> f64 {
        one.figures.total_mbps / self.cubic.total_mbps
    }

    /// The minimum of a figure over the windows that reach this fraction.
    fn least(&self, figure: impl Fn(&Figures) -> f64) -> Option<(&WindowTrial, f64)> {
        let sufficient =
            self.tries.iter().filter(|one| one.thin_segments == 0 && self.ratio(one) >= MIN_THROUGHPUT_RATIO);
        sufficient.map(|one| (one, figure(&one.figures))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The largest total over CUBIC's, with or without thinning.
    fn most(&self, is_thinned: bool) -> Option<&WindowTrial> {
        let of = self.tries.iter().filter(|one| (one.thin_segments > 0) == is_thinned);
        of.max_by(|a, b| a.figures.total_mbps.total_cmp(&b.figures.total_mbps))
    }

    fn row(&self) -> String {
        let cell = |of: Option<(&WindowTrial, f64)>| {
            of.map_or("-".into(), |(one, ms)| format!("{ms:.0} ({}; {:.3})", one.segments, self.ratio(one)))
        };
        let most = |one: Option<&WindowTrial>| {
            let text = |one: &WindowTrial| {
                format!("{:.3} ({}; {})", self.ratio(one), one.segments, one.thin_segments)
            };
            one.map_or("-".into(), text)
        };
        let call = if self.cubic.call_ms.is_nan() { None } else { self.least(|f| f.call_ms) };
        format!(
            "| {} | {:.1} | {} | {} | {} | {} |",
            self.setting,
            self.cubic.total_mbps,
            cell(self.least(|f| f.queue_ms)),
            cell(call),
            most(self.most(false)),
            most(self.most(true)),
        )
    }
}

/// Runs and prints.
pub fn run(args: &Args, settings: &[Setting]) -> anyhow::Result<()> {
    let alike = |setting: &&Setting| matches!(setting.group, Group::Alike | Group::Call);
    let settings: Vec<&Setting> = settings.iter().filter(alike).collect();
    let outcomes: Vec<Outcome> = watched(args.jobs, |jobs, stop, progress| {
        each(&settings, jobs, stop, progress, |setting| Outcome::of(setting, args.seed, setting.is_80211g()))
    })?;
    write_lines(args.json.as_deref(), &outcomes)?;
    println!(
        "| setting | CUBIC, Mbit/s | least queue, ms (window; total over CUBIC) | least 99th percentile of the call, ms | most (window; thinned) | most, thinned |\n|---|---|---|---|---|---|"
    );
    outcomes.iter().for_each(|one| println!("{}", one.row()));
    let of = |is: &dyn Fn(&Outcome) -> Option<bool>| {
        let all: Vec<bool> = outcomes.iter().filter_map(is).collect();
        format!("{} of {}", all.iter().filter(|is| **is).count(), all.len())
    };
    let is_call = |one: &Outcome| !one.cubic.call_ms.is_nan();
    let queue =
        |one: &Outcome| (!is_call(one)).then(|| one.least(|f| f.queue_ms).is_some_and(|l| l.1 <= 30.0));
    let call = |one: &Outcome| is_call(one).then(|| one.least(|f| f.call_ms).is_some_and(|l| l.1 <= 40.0));
    let thinned = |one: &Outcome| one.most(true).map(|t| one.ratio(t) >= 1.05);
    println!(
        "\n30 ms of queue: {}; 40 ms of a call: {}; 1.05 thinned: {}",
        of(&queue),
        of(&call),
        of(&thinned)
    );
    Ok(())
}
