//! Measures efficiency: bits per second of CPU time with an observer, relative to without.

use crate::cpu::{self, Softirqs};
use crate::ends::{CUBIC, Endpoints};
use crate::figure::{self, Figure, Section, Target};
use crate::load::{Load, LoadArgs};
use crate::observers::{Agent, Bpftrace, poll_ss};
use crate::programs::NoopProgram;
use crate::tidy::Stop;
use crate::{Paths, Scale};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};

/// The observer of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observer {
    Default,
    EveryAck,
    DefaultRecording,
    EveryAckRecording,
    Noop,
    Bpftrace,
    Ss(u32),
}

impl Observer {
    const ALL: [Observer; 8] = [
        Observer::Default,
        Observer::EveryAck,
        Observer::DefaultRecording,
        Observer::EveryAckRecording,
        Observer::Noop,
        Observer::Bpftrace,
        Observer::Ss(10),
        Observer::Ss(100),
    ];

    fn name(self) -> String {
        match self {
            Observer::Default => "yuzuri, default density".into(),
            Observer::EveryAck => "yuzuri, every ACK".into(),
            Observer::DefaultRecording => "yuzuri, default density, recording".into(),
            Observer::EveryAckRecording => "yuzuri, every ACK, recording".into(),
            Observer::Noop => "no-op program at tcp:tcp_probe".into(),
            Observer::Bpftrace => "bpftrace printing tcp:tcp_probe".into(),
            Observer::Ss(hz) => format!("ss -tin at {hz} Hz"),
        }
    }

    fn target(self) -> Option<Target> {
        match self {
            Observer::Default => Some(Target::AtLeast(0.98)),
            Observer::EveryAck => Some(Target::AtLeast(0.95)),
            _ => None,
        }
    }
}

/// The traffic's CPU in settings pinned to one CPU; the scheduler places the observer.
const TRAFFIC_CPU: usize = 0;

/// A traffic setting.
struct Setting {
    name: &'static str,
    from: Side,
    into: Side,
    to: std::net::IpAddr,
    /// The CPU of both ends; `None`: the scheduler places them.
    cpu: Option<usize>,
}

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Efficiency: bits per CPU-second relative to no observer",
        "4 bulk flows (cubic), both ends watched. Each run with an observer is bracketed by two without; the \
         figure is its bits per CPU-second divided by the mean of theirs. CPU time is that of the traffic's process, of the \
         observer with all its children, and of the ksoftirqd threads, from the scheduler's accounting in \
         nanoseconds; the machine's total would include unrelated load. Notes give the 95 % confidence interval of the \
         median where there are enough values. The command runs as `watch --quiet`; runs \
         with a recording transfer ten times as much, so that they contain several of its writes; recordings and \
         the output of bpftrace and ss go to files in memory. ss watches the senders, the others both ends.",
    );
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let veth = |name, cpu| Setting { name, from: Side::A, into: Side::B, to: net.v4(Side::B), cpu };
    let loopback = [127, 0, 0, 1].into();
    let settings = [
        veth("veth, MTU 1500, no offloads", None),
        // Caches stay warm and nothing waits: TCP is cheapest here, so overhead is most visible.
        veth("the same on one CPU", Some(TRAFFIC_CPU)),
        Setting { name: "loopback, GSO", from: Side::A, into: Side::A, to: loopback, cpu: None },
    ];
    let is_asked = |at: usize| scale.setting.is_none_or(|number| usize::from(number) == at + 1);
    for (at, setting) in settings.iter().enumerate().filter(|(at, _)| is_asked(*at)) {
        // The targets apply to packets of wire size.
        measure(&mut section, &net, setting, at == 0, paths, scale, stop)?;
    }
    Ok(section)
}

/// Waits until an idle process uses less than 3 % of a CPU, at most 3 s.
fn wait_until_idle(pid: u32) -> anyhow::Result<()> {
    for _ in 0..15 {
        let before = cpu::process_ns(pid)?;
        std::thread::sleep(IDLE_TIME);
        if u128::from(cpu::process_ns(pid)? - before) < IDLE_TIME.as_nanos() * 3 / 100 {
            return Ok(());
        }
    }
    anyhow::bail!("process {pid} is not idle although there is no traffic")
}

/// Bits per second of CPU time.
fn bits_per_cpu_s(bytes: u64, cpu_ns: u64) -> f64 {
    bytes as f64 * 8e9 / cpu_ns as f64
}

fn measure(
    section: &mut Section,
    net: &Net,
    setting: &Setting,
    has_target: bool,
    paths: &Paths,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let softirqs = Softirqs::find();
    let mut load = Load::start(&LoadArgs {
        ends: Endpoints {
            from: net.name(setting.from).to_owned(),
            into: net.name(setting.into).to_owned(),
            to: setting.to,
            cpu: setting.cpu,
            control: CUBIC.into(),
        },
        flows: 4,
        mss: None,
    })?;
    let warm = load.transfer(200_000_000)?;
    let warm = load.transfer(warm.bytes)?;
    let bytes = (warm.bytes as f64 * 350e6 / warm.wall_ns as f64).clamp(50e6, 4e9) as u64;
    let mut run = Run { net, setting, softirqs: &softirqs, bytes, paths };
    let rounds = scale.of(7, 2);
    // Medians that have a target get more pairs: a single ratio varies by more than its distance
    // from the target.
    let schedule: Vec<(usize, Observer)> = Observer::ALL
        .into_iter()
        .enumerate()
        .filter(|(_, observer)| {
            !(scale.no_others && matches!(observer, Observer::Bpftrace | Observer::Ss(_)))
        })
        .flat_map(|(at, observer)| {
            let decides = has_target && (observer.target().is_some() || observer == Observer::Noop);
            std::iter::repeat_n((at, observer), if decides { scale.of(8, 1) } else { 1 })
        })
        .collect();
    let mut ratios = vec![Vec::new(); Observer::ALL.len()];
    let mut observed = vec![Vec::new(); Observer::ALL.len()];
    let (mut unobserved, mut unavailable) = (Vec::new(), Vec::new());
    let mut before = run.without_observer(&mut load)?;
    for round in 0..rounds {
        eprintln!("efficiency: {}, round {} of {rounds}", setting.name, round + 1);
        for &(at, observer) in &schedule {
            stop.check()?;
            if unavailable.contains(&at) {
                continue;
            }
            match run.with_observer(&mut load, observer) {
                Ok(with) => {
                    let after = run.without_observer(&mut load)?;
                    ratios[at].push(with.bits_per_cpu_s * 2.0 / (before + after));
                    observed[at].push(with);
                    unobserved.push(after / 1e9);
                    before = after;
                }
                // External tools may be missing; Yuzuri may not.
                Err(error) if matches!(observer, Observer::Bpftrace | Observer::Ss(_)) => {
                    section.missing.push(format!("{}: {error:#}", observer.name()));
                    unavailable.push(at);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let name = format!("{}: without observer", setting.name);
    section.add(Figure::of(name.as_str(), "Gbit per CPU-second", &unobserved), &name);
    let has_run = |at: usize| !unavailable.contains(&at) && !ratios[at].is_empty();
    for (at, observer) in Observer::ALL.into_iter().enumerate().filter(|(at, _)| has_run(*at)) {
        let name = format!("{}: {}", setting.name, observer.name());
        let figure = Figure::of(name.as_str(), "", &ratios[at]);
        let target = observer.target().filter(|_| has_target);
        let figure = figure.map(|f| match target {
            Some(target) => f.with_target(target),
            None => f,
        });
        let interval = figure::median_interval(&ratios[at])
            .map(|(low, high)| format!("95 % interval of the median {low:.3} to {high:.3}"));
        let percent = |of: fn(&ObservedRun) -> Option<f64>| {
            let values: Vec<f64> = observed[at].iter().filter_map(of).collect();
            Figure::of("", "", &values).map(|f| f.median * 100.0)
        };
        let own = percent(|run| run.own).map(|p| format!("its process {p:.1} % of the CPU time"));
        let lost = percent(|run| run.lost).map(|p| format!("lost {p:.1} % of events"));
        let note: Vec<String> = interval.into_iter().chain(own).chain(lost).collect();
        section.add(figure.map(|f| f.note(note.join("; "))), &name);
    }
    Ok(())
}

/// The result of a run with an observer.
#[derive(Clone, Copy, Default)]
struct ObservedRun {
    bits_per_cpu_s: f64,
    /// Fraction of the CPU time used by the observer's own process; none if it has no process.
    own: Option<f64>,
    /// Fraction of the events that it lost, if it reports that.
    lost: Option<f64>,
}

struct Run<'a> {
    net: &'a Net,
    setting: &'a Setting,
    softirqs: &'a Softirqs,
    bytes: u64,
    paths: &'a Paths,
}

/// Idle time before a run, and the time for which an observer must have been idle.
const IDLE_TIME: Duration = Duration::from_millis(200);

/// A recording's rows are written every 0.8 s, which takes most of its CPU time: a run lasts
/// several times as long, or it would contain one such write or none by chance.
const RECORDING_TRANSFERS: u64 = 10;

impl Run<'_> {
    /// Every run starts with this after the idle time: the first transfer costs more, with or
    /// without an observer.
    fn warm_up(&self, load: &mut Load) -> anyhow::Result<()> {
        std::thread::sleep(IDLE_TIME);
        load.transfer(self.bytes / 4).map(drop)
    }

    /// Measures the traffic without an observer.
    fn without_observer(&mut self, load: &mut Load) -> anyhow::Result<f64> {
        self.warm_up(load)?;
        let before = self.softirqs.ns();
        let ran = load.transfer(self.bytes)?;
        Ok(bits_per_cpu_s(ran.bytes, ran.cpu_ns + self.softirqs.ns() - before))
    }

    /// Measures the traffic plus the CPU time of process `pid`.
    fn with_process(&mut self, load: &mut Load, pid: u32, bytes: u64) -> anyhow::Result<ObservedRun> {
        self.warm_up(load)?;
        let (softirqs, own) = (self.softirqs.ns(), cpu::process_ns(pid)?);
        let ran = load.transfer(bytes)?;
        let own = cpu::process_ns(pid)? - own;
        let all = ran.cpu_ns + self.softirqs.ns() - softirqs + own;
        Ok(ObservedRun {
            bits_per_cpu_s: bits_per_cpu_s(ran.bytes, all),
            own: Some(own as f64 / all as f64),
            lost: None,
        })
    }

    fn with_observer(&mut self, load: &mut Load, observer: Observer) -> anyhow::Result<ObservedRun> {
        match observer {
            Observer::Default => self.agent(load, &[], self.bytes),
            Observer::EveryAck => self.agent(load, &["--density", "ack"], self.bytes),
            Observer::DefaultRecording => self.recording(load, &[]),
            Observer::EveryAckRecording => self.recording(load, &["--density", "ack"]),
            Observer::Noop => {
                let _attached = NoopProgram::attach()?;
                Ok(ObservedRun { bits_per_cpu_s: self.without_observer(load)?, ..ObservedRun::default() })
            }
            Observer::Bpftrace => self.bpftrace(load),
            Observer::Ss(hz) => {
                Ok(ObservedRun { bits_per_cpu_s: self.ss(load, hz)?, ..ObservedRun::default() })
            }
        }
    }

    fn agent(&mut self, load: &mut Load, args: &[&str], bytes: u64) -> anyhow::Result<ObservedRun> {
        let ends =
            [self.setting.from, self.setting.into].map(|side| format!("netns:{}", self.net.name(side)));
        let mut all = vec![ends[0].as_str(), ends[1].as_str(), "--quiet"];
        all.extend(args);
        let agent = Agent::start(&self.paths.yuzuri, &all)?;
        // One-time work (reading the kernel's symbols, finding the flows' owners) is not part of
        // the cost of watching. The agent first sees the flows, then gets time until it only sleeps
        // between reads.
        load.transfer(self.bytes / 10)?;
        wait_until_idle(agent.pid())?;
        let observed = self.with_process(load, agent.pid(), bytes)?;
        let account = agent.finish()?;
        Ok(ObservedRun { lost: Some(account.lost as f64 / account.seen.max(1) as f64), ..observed })
    }

    fn recording(&mut self, load: &mut Load, args: &[&str]) -> anyhow::Result<ObservedRun> {
        let folder = tempfile::tempdir_in(&self.paths.memory)?;
        let file = folder.path().join("bench.arrows").to_string_lossy().into_owned();
        let mut all = vec!["--record", &file];
        all.extend(args);
        self.agent(load, &all, self.bytes * RECORDING_TRANSFERS)
    }

    fn bpftrace(&mut self, load: &mut Load) -> anyhow::Result<ObservedRun> {
        let mut bpftrace = Bpftrace::start(&self.paths.memory)?;
        let until = Instant::now() + Duration::from_secs(15);
        while bpftrace.written() < 100_000 {
            bpftrace.check_running()?;
            anyhow::ensure!(Instant::now() < until, "bpftrace printed nothing for 15 s");
            load.transfer(self.bytes / 50)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        let observed = self.with_process(load, bpftrace.pid(), self.bytes)?;
        let (lines, lost) = bpftrace.finish()?;
        Ok(ObservedRun { lost: Some(lost as f64 / (lines + lost).max(1) as f64), ..observed })
    }

    fn ss(&mut self, load: &mut Load, hz: u32) -> anyhow::Result<f64> {
        let (stop, cpu_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        self.warm_up(load)?;
        std::thread::scope(|scope| {
            let polling = scope.spawn(|| self.net.inside(self.setting.from, || poll_ss(hz, &stop, &cpu_ns)));
            let before = self.softirqs.ns() + cpu_ns.load(Ordering::Relaxed);
            let ran = load.transfer(self.bytes);
            let others = self.softirqs.ns() + cpu_ns.load(Ordering::Relaxed) - before;
            stop.store(true, Ordering::Relaxed);
            polling.join().map_err(|_| anyhow::anyhow!("the thread that runs ss panicked"))??;
            let ran = ran?;
            Ok(bits_per_cpu_s(ran.bytes, ran.cpu_ns + others))
        })
    }
}
