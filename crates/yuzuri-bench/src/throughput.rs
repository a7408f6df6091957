//! Measures how many events per second the monitor keeps without loss.

use crate::cpu;
use crate::ends::{CUBIC, Endpoints};
use crate::figure::{Figure, Section, Target};
use crate::inject::Injector;
use crate::load::{Load, LoadArgs};
use crate::observers::{Agent, FinalAccount};
use crate::reading::MonitorReader;
use crate::tidy::Stop;
use crate::{Paths, Scale};
use anyhow::{Context, ensure};
use std::path::Path;
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Account, Density, Filter};

/// Target: events per second without loss.
const EVENTS_PER_S: f64 = 600_000.0;
/// Injection rate for that target, higher so that the injection itself does not fall short of it.
const INJECTED_PER_S: u64 = 720_000;
/// Injection rates, to find the highest one without loss.
const RATES_PER_S: [u64; 6] = [800_000, 1_000_000, 1_250_000, 1_500_000, 2_000_000, 3_000_000];
/// Connections whose ACKs are injected.
const CONNECTIONS: usize = 64;

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Events per second kept without loss, every ACK, default rings",
        "Injected: pure ACKs that match 64 established connections enter the receiving side of the network stack (XDP \
         test run with live frames) from one thread on each CPU, 720,000 per second in total; from there everything is \
         real. The monitor is read at its own pace on the same CPUs; with a recording it is the command itself with \
         `watch --density ack --record`. Sent: bulk flows over loopback with segments of 88 bytes and no offloads, as \
         fast as both CPUs can send.",
    );
    injected(&mut section, paths, scale, stop)?;
    sent(&mut section, scale, stop)?;
    Ok(section)
}

struct Measurement {
    kept_per_s: f64,
    lost: f64,
    reader_percent: f64,
    why: String,
}

impl Measurement {
    fn of(kept: u64, lost: u64, wall: Duration, reader_ns: u64, why: String) -> Measurement {
        let seconds = wall.as_secs_f64();
        Measurement {
            kept_per_s: kept as f64 / seconds,
            lost: lost as f64,
            reader_percent: reader_ns as f64 / 1e7 / seconds,
            why,
        }
    }
}

/// Adds three lines to the table. A rate counts as kept only if no event was lost.
fn add_figures(section: &mut Section, name: &str, seen: &[Measurement], has_target: bool) {
    let kept: Vec<f64> = seen.iter().map(|s| s.kept_per_s).collect();
    let lost: Vec<f64> = seen.iter().map(|s| s.lost).collect();
    let reader: Vec<f64> = seen.iter().map(|s| s.reader_percent).collect();
    let target = |f: Option<Figure>, target| f.map(|f| if has_target { f.with_target(target) } else { f });
    let rate = Figure::of(format!("{name}: kept"), "events/s", &kept);
    let short = has_target && seen.iter().all(|s| s.lost == 0.0 && s.kept_per_s < EVENTS_PER_S);
    let note = if short { "no loss; the CPUs could not inject more" } else { "" };
    section.add(target(rate, Target::AtLeast(EVENTS_PER_S)).map(|f| f.note(note)), name);
    let why = seen.iter().find(|s| s.lost > 0.0).map(|s| s.why.clone()).unwrap_or_default();
    let lost = Figure::of(format!("{name}: lost"), "events", &lost);
    section.add(target(lost, Target::AtMost(0.0)).map(|f| f.note(why)), name);
    section.add(Figure::of(format!("{name}: CPU of the reader"), "% of one", &reader), name);
}

fn injected(section: &mut Section, paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let injector = match Injector::new(&net, CONNECTIONS) {
        Ok(injector) => injector,
        Err(error) => {
            section.missing.push(format!("injected ACKs: {error:#} (live frames need Linux 5.18)"));
            return Ok(());
        }
    };
    let filter: Filter = format!("netns:{}", net.name(Side::B)).parse()?;
    let (rounds, time) = (scale.of(5, 2), Duration::from_millis(scale.of(2000, 800) as u64));

    let mut seen = Vec::new();
    for round in 0..rounds {
        eprintln!("throughput: injected, round {} of {rounds}", round + 1);
        seen.push(read_injected(&net, &injector, &filter, INJECTED_PER_S, time, stop)?);
    }
    add_figures(section, "injected", &seen, true);

    let mut max_rates = Vec::new();
    for round in 0..scale.of(3, 1) {
        let mut best = 0.0f64;
        for rate in RATES_PER_S {
            eprintln!("throughput: highest rate without loss, round {}, {rate}/s", round + 1);
            let seen = read_injected(&net, &injector, &filter, rate, time / 2, stop)?;
            if seen.lost > 0.0 {
                break;
            }
            best = best.max(seen.kept_per_s);
            if seen.kept_per_s < rate as f64 * 0.9 {
                break;
            }
        }
        max_rates.push(best);
    }
    let what = "injected: highest rate without loss";
    let bound = "the next rate lost events, or the CPUs could not inject it";
    section.add(Figure::of(what, "events/s", &max_rates).map(|f| f.note(bound)), what);

    for (place, folder) in [("tmpfs", &paths.memory), ("disk", &paths.disk)] {
        let mut seen = Vec::new();
        let mut sizes = Vec::new();
        for round in 0..scale.of(3, 1) {
            eprintln!("throughput: recording to {place}, round {}", round + 1);
            let (one, bytes) = record_injected(&net, &injector, paths, folder, time, stop)?;
            sizes.push(bytes as f64 / (one.kept_per_s * time.as_secs_f64()));
            seen.push(one);
        }
        add_figures(section, &format!("recording to {place}"), &seen, true);
        section.add(Figure::of(format!("recording to {place}: file"), "bytes/event", &sizes), place);
    }
    Ok(())
}

fn read_injected(
    net: &Net,
    injector: &Injector,
    filter: &Filter,
    rate: u64,
    time: Duration,
    stop: &Stop,
) -> anyhow::Result<Measurement> {
    stop.check()?;
    let reading = MonitorReader::start(filter, Density::EveryAck, None)?;
    let (started, reader_ns) = (Instant::now(), reading.cpu_ns());
    let injected = injector.run(net, rate, time)?;
    let wall = started.elapsed();
    let reader_ns = reading.cpu_ns() - reader_ns;
    let account = reading.finish()?;
    let runs = account.seen() - identities(CONNECTIONS, &account);
    ensure!(
        runs.abs_diff(injected) <= injected / 100,
        "{injected} ACKs were injected, {runs} seen: {account}"
    );
    Ok(Measurement::of(account.kept(), account.lost(), wall, reader_ns, account.to_string()))
}

/// Number of records that are flow identities, not events.
fn identities(connections: usize, account: &Account) -> u64 {
    (connections as u64).min(account.seen())
}

fn record_injected(
    net: &Net,
    injector: &Injector,
    paths: &Paths,
    folder: &Path,
    time: Duration,
    stop: &Stop,
) -> anyhow::Result<(Measurement, u64)> {
    stop.check()?;
    let folder = tempfile::tempdir_in(folder).with_context(|| format!("a folder in {}", folder.display()))?;
    let file = folder.path().join("bench.arrows");
    let filter = format!("netns:{}", net.name(Side::B));
    let name = file.to_string_lossy();
    let agent = Agent::start(&paths.yuzuri, &[&filter, "--density", "ack", "--quiet", "--record", &name])?;
    let (started, cpu) = (Instant::now(), cpu::process_ns(agent.pid())?);
    injector.run(net, INJECTED_PER_S, time)?;
    let wall = started.elapsed();
    let cpu = cpu::process_ns(agent.pid())? - cpu;
    let FinalAccount { kept, lost, line, .. } = agent.finish()?;
    // The account already includes what the recorder dropped.
    let dropped = dropped_by_recorder(&file)?;
    let why = if dropped > 0 { format!("{line}; the recorder dropped {dropped}") } else { line };
    let bytes = std::fs::metadata(&file)?.len();
    Ok((Measurement::of(kept, lost, wall, cpu, why), bytes))
}

/// Events that the recorder dropped, according to the recording's last account.
fn dropped_by_recorder(file: &Path) -> anyhow::Result<u64> {
    use yuzuri_trace::{Item, LossReason, recording::Reader};
    let mut reader = Reader::open(file)?;
    let mut dropped = 0;
    while let Some(items) = reader.next_batch()? {
        for item in items.iter() {
            if let Item::Account(account) = item {
                let lost = account.lost_by_reason();
                dropped = lost.iter().find(|(r, _)| *r == LossReason::Recording).map_or(0, |(_, n)| *n);
            }
        }
    }
    Ok(dropped)
}

fn sent(section: &mut Section, scale: Scale, stop: &Stop) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let mut command = net.command(Side::A, "ethtool");
    let done =
        command.args(["-K", "lo", "tso", "off", "gso", "off", "gro", "off"]).status().context("ethtool")?;
    ensure!(done.success(), "disabling the loopback's offloads failed");
    let own = net.name(Side::A).to_owned();
    let filter: Filter = format!("netns:{own}").parse()?;
    let (to, mss) = ([127, 0, 0, 1].into(), Some(88));
    let mut load = Load::start(&LoadArgs {
        ends: Endpoints { from: own.clone(), into: own, to, cpu: None, control: CUBIC.into() },
        flows: 4,
        mss,
    })?;
    let warm = load.transfer(4_000_000)?;
    let bytes = (warm.bytes as f64 * 1.5e9 / warm.wall_ns as f64) as u64;
    let (mut seen, mut gaps) = (Vec::new(), Vec::new());
    for round in 0..scale.of(5, 1) {
        eprintln!("throughput: sent, round {}", round + 1);
        stop.check()?;
        let reading = MonitorReader::start(&filter, Density::EveryAck, None)?;
        let reader_ns = reading.cpu_ns();
        let cost = load.transfer(bytes)?;
        let reader_ns = reading.cpu_ns() - reader_ns;
        gaps.push(reading.longest_gap_us() as f64 / 1000.0);
        let account = reading.finish()?;
        let wall = Duration::from_nanos(cost.wall_ns);
        seen.push(Measurement::of(account.kept(), account.lost(), wall, reader_ns, account.to_string()));
    }
    // As many as two CPUs can send: the traffic, not the monitor, limits the rate.
    add_figures(section, "sent", &seen, false);
    let what = "sent: longest time between two reads";
    section.add(Figure::of(what, "ms", &gaps), what);
    Ok(())
}
