//! Measures the cost of watching small messages, where each segment carries little work:
//! transactions per second of CPU time with an observer, relative to without.

use crate::cpu::{self, Softirqs};
use crate::ends::Ends;
use crate::figure::{self, Figure, Section, Target};
use crate::messages::{MessageArgs, Messages};
use crate::observers::Agent;
use crate::programs::Empty;
use crate::tidy::Stop;
use crate::{Paths, Scale};
use std::time::Duration;
use yuzuri_testnet::{Net, Side};

/// Target ratio of transactions per second of CPU time.
const LEFT: f64 = 0.95;
const TRAFFIC_CPU: usize = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Default,
    EveryAck,
    Nothing,
}

impl Watcher {
    const ALL: [Watcher; 3] = [Watcher::Default, Watcher::EveryAck, Watcher::Nothing];

    fn name(self) -> &'static str {
        match self {
            Watcher::Default => "yuzuri, default density",
            Watcher::EveryAck => "yuzuri, every ACK",
            Watcher::Nothing => "a program at tcp:tcp_probe that does nothing",
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
        "Small messages: transactions per CPU-second, as a part of those without a watcher",
        "Requests of 64 bytes and responses of 256 over a veth pair, up to 64 under way at once, both ends watched, all \
         traffic on one CPU; beside bulk flows, each of these moves 2,000 bytes for each transaction, which is part of the \
         work. Each run with a watcher stands between two without, and its figure is its transactions per CPU-second over \
         the mean of theirs. CPU time is that of the traffic's process, of the command (`watch --quiet`) and of the kernel's \
         threads for soft interrupts. The median's interval has a confidence of 95 %.",
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
        ends: Ends::of(&net).on_cpu(TRAFFIC_CPU),
        connections: setting.connections,
        bulk: setting.bulk,
    })?;
    let mut run =
        Run { net: &net, messages, setting, softirqs: Softirqs::find(), transactions: 10_000, paths };
    run.alone()?;
    // Enough transactions for a third of a second, and at least one per connection.
    let warm = run.messages.exchange(run.transactions, run.bulk_bytes())?;
    run.transactions =
        (warm.transactions * 350_000_000 / warm.wall_ns.max(1)).clamp(setting.connections as u64, 1_000_000);
    let rounds = scale.of(21, 3);
    let mut ratios = Watcher::ALL.map(|_| Vec::new());
    let mut own = Watcher::ALL.map(|_| Vec::new());
    let mut alone = Vec::new();
    let mut before = run.alone()?;
    for round in 0..rounds {
        eprintln!("messages: {}, round {} of {rounds}", setting.name, round + 1);
        for (at, watcher) in Watcher::ALL.into_iter().enumerate() {
            stop.check()?;
            let (with, part) = run.watched(watcher)?;
            let after = run.alone()?;
            ratios[at].push(with * 2.0 / (before + after));
            own[at].extend(part);
            alone.push(after);
            before = after;
        }
    }
    let name = format!("{}: nobody", setting.name);
    section.add(Figure::of(name.as_str(), "per CPU-second", &alone), &name);
    for (at, watcher) in Watcher::ALL.into_iter().enumerate() {
        let name = format!("{}: {}", setting.name, watcher.name());
        let sure = figure::median_interval(&ratios[at])
            .map(|(low, high)| format!("median in {low:.3} to {high:.3}"));
        let own =
            Figure::of("", "", &own[at]).map(|f| format!("its process {:.1} % of all", f.median * 100.0));
        let note: Vec<String> = sure.into_iter().chain(own).collect();
        let figure = Figure::of(name.as_str(), "", &ratios[at]).map(|f| f.note(note.join("; ")));
        let must = watcher != Watcher::Nothing;
        section.add(figure.map(|f| if must { f.must(Target::AtLeast(LEFT)) } else { f }), &name);
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
        let of_pid = || pid.map_or(Ok(0), cpu::process_ns);
        self.messages.exchange(self.transactions / 4, self.bulk_bytes() / 4)?;
        let (softirqs, own) = (self.softirqs.ns(), of_pid()?);
        let done = self.messages.exchange(self.transactions, self.bulk_bytes())?;
        let own = of_pid()? - own;
        let all = done.cpu_ns + self.softirqs.ns() - softirqs + own;
        Ok((done.transactions as f64 * 1e9 / all as f64, own as f64 / all as f64))
    }

    fn alone(&mut self) -> anyhow::Result<f64> {
        Ok(self.measure(None)?.0)
    }

    fn watched(&mut self, watcher: Watcher) -> anyhow::Result<(f64, Option<f64>)> {
        let density = match watcher {
            Watcher::Nothing => {
                let _attached = Empty::attach()?;
                return Ok((self.alone()?, None));
            }
            Watcher::Default => "1ms",
            Watcher::EveryAck => "ack",
        };
        let ends = [Side::A, Side::B].map(|side| format!("netns:{}", self.net.name(side)));
        let args = [&ends[0], &ends[1], "--quiet", "--density", density];
        let agent = Agent::start(&self.paths.yuzuri, &args)?;
        // One-time work (reading the kernel's symbols, first sight of the flows) is not part of the
        // cost of watching.
        self.messages.exchange(self.setting.connections as u64 * 2, 0)?;
        settled(agent.pid())?;
        let (rate, own) = self.measure(Some(agent.pid()))?;
        agent.finish()?;
        Ok((rate, Some(own)))
    }
}

/// Waits until a process uses less than 3 % of a CPU without traffic, at most 6 s.
fn settled(pid: u32) -> anyhow::Result<()> {
    const REST: Duration = Duration::from_millis(200);
    for _ in 0..30 {
        let before = cpu::process_ns(pid)?;
        std::thread::sleep(REST);
        if u128::from(cpu::process_ns(pid)? - before) < REST.as_nanos() * 3 / 100 {
            return Ok(());
        }
    }
    anyhow::bail!("process {pid} does not come to rest although nothing moves")
}
