//! Two runs side by side: their figures, and their RTTs and throughput on one axis.

use super::html::HtmlReport;
use super::lines::{self, Line};
use super::series::{self, TerminalSeries};
use crate::run::{RECORD_FILE, RECORDING_FILE, RunRecord, Weighted};
use crate::{LabError, batch};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use yuzuri_plot::escaped;
use yuzuri_stats::upper_median_by;

/// One of the compared runs.
struct Compared {
    name: String,
    folder: PathBuf,
    record: RunRecord,
    terminals: Vec<TerminalSeries>,
    /// Microseconds.
    rtts: Weighted,
}

/// Maximum number of points of a drawn distribution.
const POINTS: usize = 300;

/// The page that compares two runs. Each is a run's folder, or a results folder with valid runs of
/// a single point, of which the first is used.
///
/// # Errors
/// If one is neither, or cannot be read, or lacks its recording.
pub fn page(one: &Path, other: &Path) -> Result<String, LabError> {
    let mut runs = [open(one)?, open(other)?];
    distinguish_names(&mut runs);
    let mut page = HtmlReport::with_title("Two runs compared");
    for (letter, run) in ["A", "B"].iter().zip(&runs) {
        let valid = if run.record.valid { "" } else { " <b>This run is not valid.</b>" };
        let _ = writeln!(
            page.text,
            "<p><b>{letter}</b>: {}, {}, seed {}, {} time.{valid}</p>",
            escaped(&run.record.title),
            escaped(&run.name),
            run.record.task.seed,
            run.record.task.clock.name()
        );
    }
    table(&mut page, &runs);
    let both = |of: &dyn Fn(&Compared) -> Vec<(f64, f64)>| -> Vec<Line> {
        let line = |(letter, run): (&str, &Compared)| Line {
            name: format!("{letter}: {}", run.name),
            points: of(run),
        };
        ["A", "B"].into_iter().zip(&runs).map(line).collect()
    };
    let end_s = runs[0].record.to_s.max(runs[1].record.to_s);
    page.figure(
        lines::distributions(&both(&|run| quantile_points(&run.rtts)), "smoothed RTT of the senders, ms"),
        "Distribution of the RTT by time, all terminals together",
    )?;
    page.figure(
        lines::over_time(&both(&Compared::rtt_over_time), end_s, "ms"),
        "Smoothed RTT over time: the median of the terminals",
    )?;
    page.figure(
        lines::distributions(
            &both(&|run| quantile_points(&run.rates())),
            "throughput of all terminals, Mbit/s",
        ),
        "Distribution of the total throughput by time",
    )?;
    page.figure(
        lines::over_time(&both(&Compared::total_over_time), end_s, "Mbit/s"),
        "Throughput over time, the sum of the terminals",
    )?;
    Ok(page.text + "</html>\n")
}

fn open(path: &Path) -> Result<Compared, LabError> {
    let wrong = |why: String| LabError::Results { path: path.to_owned(), why };
    let (folder, record) = if path.join(RECORD_FILE).is_file() {
        (path.to_owned(), RunRecord::open(path)?)
    } else {
        single_point(path)?
    };
    if !folder.join(RECORDING_FILE).exists() {
        return Err(wrong("its recording was removed: repeat the run".into()));
    }
    let terminals = series::terminals(&folder, &record)?;
    let rtts = series::rtts(&folder, &record)?;
    let folder = folder.canonicalize().map_err(LabError::file(&folder))?;
    let seed = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Compared { name: format!("{}/{seed}", record.task.point), folder, record, terminals, rtts })
}

/// Names two runs of one point and seed by their folders, from the first part that differs; a run
/// compared with itself keeps one name.
fn distinguish_names(runs: &mut [Compared; 2]) {
    let [a, b] = runs;
    if a.name != b.name || a.folder == b.folder {
        return;
    }
    let same = a.folder.iter().zip(&b.folder).take_while(|(a, b)| a == b).count();
    let rest =
        |run: &Compared| run.folder.iter().skip(same).collect::<PathBuf>().to_string_lossy().into_owned();
    (a.name, b.name) = (rest(a), rest(b));
}

/// The first valid run of a results folder with a single point.
fn single_point(path: &Path) -> Result<(PathBuf, RunRecord), LabError> {
    let wrong = |why: String| LabError::Results { path: path.to_owned(), why };
    let mut runs = batch::finished(path)?;
    runs.retain(|(_, record)| record.valid);
    let mut points: Vec<&str> = runs.iter().map(|(_, record)| record.task.point.as_str()).collect();
    points.sort_unstable();
    points.dedup();
    match points[..] {
        [] => Err(wrong("there is no valid run in it".into())),
        [_] => Ok(runs.swap_remove(0)),
        [first, ..] => Err(wrong(format!(
            "it has {} points: name the folder of a run in it, as {}",
            points.len(),
            path.join(first).join("seed-1").display()
        ))),
    }
}

impl Compared {
    /// The sum of the terminals' throughput, by interval.
    fn total_over_time(&self) -> Vec<(f64, f64)> {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        for terminal in &self.terminals {
            for (n, (t, rate)) in terminal.throughput.iter().enumerate() {
                match sums.get_mut(n) {
                    Some((_, sum)) => *sum += rate,
                    None => sums.push((*t, *rate)),
                }
            }
        }
        sums
    }

    /// The same in the evaluated part, kbit/s.
    fn rates(&self) -> Weighted {
        let mut all = Weighted::default();
        let evaluated = |t: f64| (self.record.from_s..=self.record.to_s).contains(&t);
        for (_, mbps) in self.total_over_time().into_iter().filter(|(t, _)| evaluated(*t)) {
            all.add((mbps * 1000.0) as u32, 1);
        }
        all
    }

    /// The median of the terminals.
    fn rtt_over_time(&self) -> Vec<(f64, f64)> {
        const TIMES: usize = 200;
        let step_s = self.record.to_s / TIMES as f64;
        let at = |n: usize| {
            let t = (n as f64 + 0.5) * step_s;
            let latest = |terminal: &TerminalSeries| {
                let before = terminal.srtt.partition_point(|(at, _)| *at <= t);
                let (since, srtt) = *terminal.srtt.get(before.checked_sub(1)?)?;
                (t - since <= 1.0_f64.max(step_s)).then_some(srtt)
            };
            let mut all: Vec<f64> = self.terminals.iter().filter_map(latest).collect();
            Some((t, upper_median_by(&mut all, f64::total_cmp)?))
        };
        (0..TIMES).filter_map(at).collect()
    }
}

/// A distribution with its values in thousands.
pub(super) fn quantile_points(weighted: &Weighted) -> Vec<(f64, f64)> {
    weighted.cumulative(POINTS).into_iter().map(|(value, part)| (f64::from(value) / 1000.0, part)).collect()
}

fn table(page: &mut HtmlReport, runs: &[Compared; 2]) {
    type Of = fn(&Compared) -> Option<f64>;
    let rows: [(&str, Of, usize); 9] = [
        ("total throughput, Mbit/s", |run| Some(run.record.totals.throughput_mbps), 2),
        ("Jain's index", |run| run.record.totals.jain, 3),
        ("mean RTT, ms", |run| run.record.totals.rtt_mean_ms, 1),
        ("median RTT, ms", |run| Some(run.rtts.quantile(0.5)? / 1000.0), 1),
        ("95th percentile of the RTT, ms", |run| run.record.totals.rtt_p95_ms, 1),
        ("99th percentile of the RTT, ms", |run| Some(run.rtts.quantile(0.99)? / 1000.0), 1),
        ("terminals", |run| Some(run.record.terminals.len() as f64), 0),
        ("retransmitted segments", |run| Some(run.record.totals.retransmissions as f64), 0),
        ("packets dropped or lost", |run| Some(run.record.totals.drops as f64), 0),
    ];
    page.text += "<div class=\"scroll\"><table><tr><th>figure<th>A<th>B<th>B is greater by";
    for (name, of, digits) in rows {
        let [a, b] = [of(&runs[0]), of(&runs[1])];
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
        let more = match (a, b) {
            (Some(a), Some(b)) if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
            _ => "–".to_owned(),
        };
        let _ = write!(page.text, "<tr><td>{name}<td>{}<td>{}<td>{more}", cell(a), cell(b));
    }
    page.text += "</table></div>";
}
