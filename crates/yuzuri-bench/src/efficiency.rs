//! Measures efficiency: bits per second of CPU time with an observer, relative to without.

use crate::cpu::{self, Softirqs};
use crate::ends::{CUBIC, Ends};
use crate::figure::{self, Figure, Section, Target};
use crate::load::{Load, LoadArgs};
use crate::observers::{Agent, Bpftrace, poll_ss};
use crate::programs::Empty;
use crate::tidy::Stop;
use crate::{Paths, Scale};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_testnet::{Net, Side};

/// The observer of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Default,
    EveryAck,
    DefaultRecording,
    EveryAckRecording,
    Nothing,
    Bpftrace,
    Ss(u32),
}

impl Watcher {
    const ALL: [Watcher; 8] = [
        Watcher::Default,
        Watcher::EveryAck,
        Watcher::DefaultRecording,
        Watcher::EveryAckRecording,
        Watcher::Nothing,
        Watcher::Bpftrace,
        Watcher::Ss(10),
        Watcher::Ss(100),
    ];

    fn name(self) -> String {
        match self {
            Watcher::Default => "yuzuri, default density".into(),
            Watcher::EveryAck => "yuzuri, every ACK".into(),
            Watcher::DefaultRecording => "yuzuri, default density, recording".into(),
            Watcher::EveryAckRecording => "yuzuri, every ACK, recording".into(),
            Watcher::Nothing => "a program at tcp:tcp_probe that does nothing".into(),
            Watcher::Bpftrace => "bpftrace printing tcp:tcp_probe".into(),
            Watcher::Ss(hz) => format!("ss -tin at {hz} Hz"),
        }
    }

    fn target(self) -> Option<Target> {
        match self {
            Watcher::Default => Some(Target::AtLeast(0.98)),
            Watcher::EveryAck => Some(Target::AtLeast(0.95)),
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
        "Efficiency: bits moved per CPU-second, as a part of that without a watcher",
        "4 bulk flows (cubic), both ends watched. Each run with a watcher stands between two without, and its \
         figure is its bits per CPU-second over the mean of theirs. CPU time is that of the traffic's process, of the \
         watcher with all its children, and of the kernel's threads for soft interrupts, by the scheduler's account in \
         nanoseconds; the machine's total is not taken, because others' work would be in it. Where the \
         median's interval at 95 % confidence is known, it is said. The command runs as `watch --quiet`; recordings and \
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
    for (at, setting) in settings.iter().enumerate() {
        // The targets apply to packets of wire size.
        measure(&mut section, &net, setting, at == 0, paths, scale, stop)?;
    }
    Ok(section)
}

/// Waits until an idle process uses less than 3 % of a CPU, at most 3 s.
fn settled(pid: u32) -> anyhow::Result<()> {
    for _ in 0..15 {
        let before = cpu::process_ns(pid)?;
        std::thread::sleep(REST);
        if u128::from(cpu::process_ns(pid)? - before) < REST.as_nanos() * 3 / 100 {
            return Ok(());
        }
    }
    anyhow::bail!("process {pid} does not come to rest although nothing moves")
}

/// Bits per second of CPU time.
fn bits_per_cpu_s(bytes: u64, cpu_ns: u64) -> f64 {
    bytes as f64 * 8e9 / cpu_ns as f64
}

fn measure(
    section: &mut Section,
    net: &Net,
    setting: &Setting,
    must: bool,
    paths: &Paths,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let softirqs = Softirqs::find();
    let mut load = Load::start(&LoadArgs {
        ends: Ends {
            from: net.name(setting.from).to_owned(),
            into: net.name(setting.into).to_owned(),
            to: setting.to,
            cpu: setting.cpu,
            control: CUBIC.into(),
        },
        flows: 4,
        mss: None,
    })?;
    let warm = load.move_bytes(200_000_000)?;
    let warm = load.move_bytes(warm.bytes)?;
    let bytes = (warm.bytes as f64 * 350e6 / warm.wall_ns as f64).clamp(50e6, 4e9) as u64;
    let mut run = Run { net, setting, softirqs: &softirqs, bytes, paths };
    let rounds = scale.of(7, 2);
    // Medians that have a target get more pairs: a single ratio varies by more than its distance
    // from the target.
    let order: Vec<(usize, Watcher)> = Watcher::ALL
        .into_iter()
        .enumerate()
        .flat_map(|(at, watcher)| {
            let decides = must && (watcher.target().is_some() || watcher == Watcher::Nothing);
            std::iter::repeat_n((at, watcher), if decides { scale.of(8, 1) } else { 1 })
        })
        .collect();
    let mut ratios = vec![Vec::new(); Watcher::ALL.len()];
    let mut watched = vec![Vec::new(); Watcher::ALL.len()];
    let (mut alone, mut gone) = (Vec::new(), Vec::new());
    let mut before = run.alone(&mut load)?;
    for round in 0..rounds {
        eprintln!("efficiency: {}, round {} of {rounds}", setting.name, round + 1);
        for &(at, watcher) in &order {
            stop.check()?;
            if gone.contains(&at) {
                continue;
            }
            match run.watched(&mut load, watcher) {
                Ok(with) => {
                    let after = run.alone(&mut load)?;
                    ratios[at].push(with.bits_per_cpu_s * 2.0 / (before + after));
                    watched[at].push(with);
                    alone.push(after / 1e9);
                    before = after;
                }
                // External tools may be missing; Yuzuri may not.
                Err(error) if matches!(watcher, Watcher::Bpftrace | Watcher::Ss(_)) => {
                    section.missing.push(format!("{}: {error:#}", watcher.name()));
                    gone.push(at);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let name = format!("{}: nobody", setting.name);
    section.add(Figure::of(name.as_str(), "Gbit per CPU-second", &alone), &name);
    for (at, watcher) in Watcher::ALL.into_iter().enumerate().filter(|(at, _)| !gone.contains(at)) {
        let name = format!("{}: {}", setting.name, watcher.name());
        let figure = Figure::of(name.as_str(), "", &ratios[at]);
        let target = watcher.target().filter(|_| must);
        let figure = figure.map(|f| match target {
            Some(target) => f.must(target),
            None => f,
        });
        let sure = figure::median_interval(&ratios[at])
            .map(|(low, high)| format!("median in {low:.3} to {high:.3}"));
        let part = |of: fn(&Watched) -> Option<f64>| {
            let values: Vec<f64> = watched[at].iter().filter_map(of).collect();
            Figure::of("", "", &values).map(|f| f.median * 100.0)
        };
        let own = part(|w| w.own).map(|p| format!("its process {p:.1} % of all"));
        let lost = part(|w| w.lost).map(|p| format!("lost {p:.1} % of events"));
        let note: Vec<String> = sure.into_iter().chain(own).chain(lost).collect();
        section.add(figure.map(|f| f.note(note.join("; "))), &name);
    }
    Ok(())
}

/// The result of a run with an observer.
#[derive(Clone, Copy, Default)]
struct Watched {
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
const REST: Duration = Duration::from_millis(200);

impl Run<'_> {
    /// Every run starts with this after the idle time: the first transfer costs more, with or
    /// without an observer.
    fn warm_up(&self, load: &mut Load) -> anyhow::Result<()> {
        std::thread::sleep(REST);
        load.move_bytes(self.bytes / 4).map(drop)
    }

    /// Measures the traffic without an observer.
    fn alone(&mut self, load: &mut Load) -> anyhow::Result<f64> {
        self.warm_up(load)?;
        let before = self.softirqs.ns();
        let ran = load.move_bytes(self.bytes)?;
        Ok(bits_per_cpu_s(ran.bytes, ran.cpu_ns + self.softirqs.ns() - before))
    }

    /// Measures the traffic plus the CPU time of process `pid`.
    fn beside(&mut self, load: &mut Load, pid: u32) -> anyhow::Result<Watched> {
        self.warm_up(load)?;
        let (softirqs, own) = (self.softirqs.ns(), cpu::process_ns(pid)?);
        let ran = load.move_bytes(self.bytes)?;
        let own = cpu::process_ns(pid)? - own;
        let all = ran.cpu_ns + self.softirqs.ns() - softirqs + own;
        Ok(Watched {
            bits_per_cpu_s: bits_per_cpu_s(ran.bytes, all),
            own: Some(own as f64 / all as f64),
            lost: None,
        })
    }

    fn watched(&mut self, load: &mut Load, watcher: Watcher) -> anyhow::Result<Watched> {
        match watcher {
            Watcher::Default => self.agent(load, &[]),
            Watcher::EveryAck => self.agent(load, &["--density", "ack"]),
            Watcher::DefaultRecording => self.recording(load, &[]),
            Watcher::EveryAckRecording => self.recording(load, &["--density", "ack"]),
            Watcher::Nothing => {
                let _attached = Empty::attach()?;
                Ok(Watched { bits_per_cpu_s: self.alone(load)?, ..Watched::default() })
            }
            Watcher::Bpftrace => self.bpftrace(load),
            Watcher::Ss(hz) => Ok(Watched { bits_per_cpu_s: self.ss(load, hz)?, ..Watched::default() }),
        }
    }

    fn agent(&mut self, load: &mut Load, args: &[&str]) -> anyhow::Result<Watched> {
        let ends =
            [self.setting.from, self.setting.into].map(|side| format!("netns:{}", self.net.name(side)));
        let mut all = vec![ends[0].as_str(), ends[1].as_str(), "--quiet"];
        all.extend(args);
        let agent = Agent::start(&self.paths.yuzuri, &all)?;
        // One-time work (reading the kernel's symbols, finding the flows' owners) is not part of
        // the cost of watching. The agent first sees the flows, then gets time until it only sleeps
        // between reads.
        load.move_bytes(self.bytes / 10)?;
        settled(agent.pid())?;
        let watched = self.beside(load, agent.pid())?;
        let said = agent.finish()?;
        Ok(Watched { lost: Some(said.lost as f64 / said.seen.max(1) as f64), ..watched })
    }

    fn recording(&mut self, load: &mut Load, args: &[&str]) -> anyhow::Result<Watched> {
        let folder = tempfile::tempdir_in(&self.paths.memory)?;
        let file = folder.path().join("bench.arrows").to_string_lossy().into_owned();
        let mut all = vec!["--record", &file];
        all.extend(args);
        self.agent(load, &all)
    }

    fn bpftrace(&mut self, load: &mut Load) -> anyhow::Result<Watched> {
        let mut bpftrace = Bpftrace::start(&self.paths.memory)?;
        let until = Instant::now() + Duration::from_secs(15);
        while bpftrace.written() < 100_000 {
            bpftrace.runs()?;
            anyhow::ensure!(Instant::now() < until, "bpftrace printed nothing for 15 s");
            load.move_bytes(self.bytes / 50)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        let watched = self.beside(load, bpftrace.pid())?;
        let (lines, lost) = bpftrace.finish()?;
        Ok(Watched { lost: Some(lost as f64 / (lines + lost).max(1) as f64), ..watched })
    }

    fn ss(&mut self, load: &mut Load, hz: u32) -> anyhow::Result<f64> {
        let (stop, cpu_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        self.warm_up(load)?;
        std::thread::scope(|scope| {
            let polling = scope.spawn(|| self.net.inside(self.setting.from, || poll_ss(hz, &stop, &cpu_ns)));
            let before = self.softirqs.ns() + cpu_ns.load(Ordering::Relaxed);
            let ran = load.move_bytes(self.bytes);
            let others = self.softirqs.ns() + cpu_ns.load(Ordering::Relaxed) - before;
            stop.store(true, Ordering::Relaxed);
            polling.join().map_err(|_| anyhow::anyhow!("the thread that runs ss panicked"))??;
            let ran = ran?;
            Ok(bits_per_cpu_s(ran.bytes, ran.cpu_ns + others))
        })
    }
}
