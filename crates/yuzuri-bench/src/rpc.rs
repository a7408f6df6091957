//! Measures the cost of watching small messages, where each segment carries little work:
//! transactions per second of CPU time with an observer, relative to without.

use crate::cpu::{self, Softirqs};
use crate::ends::Endpoints;
use crate::figure::{self, Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::observers::Agent;
use crate::programs::NoopProgram;
use crate::tidy::Stop;
use crate::{Paths, Scale};
use std::time::Duration;
use yuzuri_testnet::{Net, Side};

/// Target ratio of transactions per second of CPU time.
const MIN_RATIO: f64 = 0.95;
const TRAFFIC_CPU: usize = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observer {
    Default,
    EveryAck,
    Noop,
}

impl Observer {
    const ALL: [Observer; 3] = [Observer::Default, Observer::EveryAck, Observer::Noop];

    fn name(self) -> &'static str {
        match self {
            Observer::Default => "yuzuri, default density",
            Observer::EveryAck => "yuzuri, every ACK",
            Observer::Noop => "no-op program at tcp:tcp_probe",
        }
    }
}

struct Setting {
    name: &'static str,
    connections: usize,
    bulk: usize,
    /// Bytes that each bulk connection moves per transaction.
    bulk_bytes: u64,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "64 connections", connections: 64, bulk: 0, bulk_bytes: 0 },
    Setting { name: "64 connections beside 2 bulk flows", connections: 64, bulk: 2, bulk_bytes: 2_000 },
    Setting { name: "10,000 connections", connections: 10_000, bulk: 0, bulk_bytes: 0 },
];

/// Runs the benchmark.
pub fn run(paths: &Paths, scale: Scale, stop: &Stop) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Small messages: transactions per CPU-second relative to no observer",
        "Requests of 64 bytes and responses of 256 over a veth pair, up to 64 in flight at once, both ends watched, all \
         traffic on one CPU; each concurrent bulk flow moves 2,000 bytes per transaction, which is part of the \
         work. Each run with an observer is bracketed by two without; the figure is its transactions per CPU-second divided \
         by the mean of theirs. CPU time is that of the traffic's process, of the command (`watch --quiet`) and of the \
         ksoftirqd threads. Notes give the 95 % confidence interval of the median.",
    );
    for setting in &SETTINGS {
        measure(&mut section, setting, paths, scale, stop)?;
    }
    Ok(section)
}

fn measure(
    section: &mut Section,
    setting: &Setting,
    paths: &Paths,
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<()> {
    let net = Net::new().map_err(anyhow::Error::msg)?;
    let messages = Messages::start(&MessageArgs {
        ends: Endpoints::of(&net).on_cpu(TRAFFIC_CPU),
        connections: setting.connections,
        bulk: setting.bulk,
    })?;
    let mut run =
        Run { net: &net, messages, setting, softirqs: Softirqs::find(), transactions: 10_000, paths };
    run.without_observer()?;
    // Enough transactions for a third of a second, and at least one per connection.
    let warm = run.messages.exchange(run.transactions, run.bulk_bytes())?;
    run.transactions =
        (warm.transactions * 350_000_000 / warm.wall_ns.max(1)).clamp(setting.connections as u64, 1_000_000);
    let rounds = scale.of(21, 3);
    let mut ratios = Observer::ALL.map(|_| Vec::new());
    let mut own = Observer::ALL.map(|_| Vec::new());
    let mut unobserved = Vec::new();
    let mut before = run.without_observer()?;
    for round in 0..rounds {
        eprintln!("messages: {}, round {} of {rounds}", setting.name, round + 1);
        for (at, observer) in Observer::ALL.into_iter().enumerate() {
            stop.check()?;
            let (rate, own_fraction) = run.with_observer(observer)?;
            let after = run.without_observer()?;
            ratios[at].push(rate * 2.0 / (before + after));
            own[at].extend(own_fraction);
            unobserved.push(after);
            before = after;
        }
    }
    let name = format!("{}: without observer", setting.name);
    section.add(Figure::of(name.as_str(), "per CPU-second", &unobserved), &name);
    for (at, observer) in Observer::ALL.into_iter().enumerate() {
        let name = format!("{}: {}", setting.name, observer.name());
        let interval = figure::median_interval(&ratios[at])
            .map(|(low, high)| format!("95 % interval of the median {low:.3} to {high:.3}"));
        let own = Figure::of("", "", &own[at])
            .map(|f| format!("its process {:.1} % of the CPU time", f.median * 100.0));
        let note: Vec<String> = interval.into_iter().chain(own).collect();
        let figure = Figure::of(name.as_str(), "", &ratios[at]).map(|f| f.note(note.join("; ")));
        let has_target = observer != Observer::Noop;
        section.add(
            figure.map(|f| if has_target { f.with_target(Target::AtLeast(MIN_RATIO)) } else { f }),
            &name,
        );
    }
    Ok(())
}

struct Run<'a> {
    net: &'a Net,
    messages: Messages,
    setting: &'a Setting,
    softirqs: Softirqs,
    transactions: u64,
    paths: &'a Paths,
}

impl Run<'_> {
    fn bulk_bytes(&self) -> u64 {
        self.transactions * self.setting.bulk_bytes
    }

    /// Transactions per second of CPU time, and the fraction of it that process `pid` used.
    fn measure(&mut self, pid: Option<u32>) -> anyhow::Result<(f64, f64)> {
        let process_cpu_ns = || pid.map_or(Ok(0), cpu::process_ns);
        self.messages.exchange(self.transactions / 4, self.bulk_bytes() / 4)?;
        let (softirqs, own) = (self.softirqs.ns(), process_cpu_ns()?);
        let done = self.messages.exchange(self.transactions, self.bulk_bytes())?;
        let own = process_cpu_ns()? - own;
        let all = done.cpu_ns + self.softirqs.ns() - softirqs + own;
        Ok((done.transactions as f64 * 1e9 / all as f64, own as f64 / all as f64))
    }

    fn without_observer(&mut self) -> anyhow::Result<f64> {
        Ok(self.measure(None)?.0)
    }

    fn with_observer(&mut self, observer: Observer) -> anyhow::Result<(f64, Option<f64>)> {
        let density = match observer {
            Observer::Noop => {
                let _attached = NoopProgram::attach()?;
                return Ok((self.without_observer()?, None));
            }
            Observer::Default => "1ms",
            Observer::EveryAck => "ack",
        };
        let ends = [Side::A, Side::B].map(|side| format!("netns:{}", self.net.name(side)));
        let args = [&ends[0], &ends[1], "--quiet", "--density", density];
        let agent = Agent::start(&self.paths.yuzuri, &args)?;
        // One-time work (reading the kernel's symbols, first sight of the flows) is not part of the
        // cost of watching.
        self.messages.exchange(self.setting.connections as u64 * 2, 0)?;
        wait_until_idle(agent.pid())?;
        let (rate, own) = self.measure(Some(agent.pid()))?;
        agent.finish()?;
        Ok((rate, Some(own)))
    }
}

/// Waits until a process uses less than 3 % of a CPU without traffic, at most 6 s.
fn wait_until_idle(pid: u32) -> anyhow::Result<()> {
    const IDLE_TIME: Duration = Duration::from_millis(200);
    for _ in 0..30 {
        let before = cpu::process_ns(pid)?;
        std::thread::sleep(IDLE_TIME);
        if u128::from(cpu::process_ns(pid)? - before) < IDLE_TIME.as_nanos() * 3 / 100 {
            return Ok(());
        }
    }
    anyhow::bail!("process {pid} is not idle although there is no traffic")
}
