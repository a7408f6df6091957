//! Validation of a scenario beyond its syntax.

use crate::{ApForwarding, PathSpec, Problem, Scenario, ShareChoice, ShareSpec, TerminalSpec, WorkloadSpec};
use yuzuri_netmodel::radio::Cell;
use yuzuri_netmodel::wire::Wire;
use yuzuri_netmodel::{ConfigError, Packet};

/// A packet type for checking whether the models accept a configuration.
#[derive(Clone)]
struct Nothing;

impl Packet for Nothing {
    fn bytes(&self) -> u32 {
        0
    }

    fn flow(&self) -> u64 {
        0
    }
}

struct Found(Vec<Problem>);

impl Found {
    fn range(&mut self, field: impl Into<String>, value: f64, min: f64, max: f64) {
        // Written so that NaN is rejected as well.
        if !(value >= min && value <= max) {
            self.0.push(Problem::new(
                field,
                format!("{value} is out of range: it must be from {min} to {max}"),
            ));
        }
    }

    fn unless(&mut self, good: bool, field: impl Into<String>, what: impl Into<String>) {
        if !good {
            self.0.push(Problem::new(field, what));
        }
    }
}

impl Scenario {
    /// All problems; empty for a valid scenario.
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Found(Vec::new());
        found.unless(!self.title.trim().is_empty(), "title", "it is empty");
        found.range("duration_s", self.duration_s, 1.0, 36_000.0);
        found.unless(
            self.warm_up_s >= 0.0 && self.warm_up_s < self.duration_s,
            "warm_up_s",
            format!(
                "{} is out of range: it must be at least 0 and less than duration_s ({})",
                self.warm_up_s, self.duration_s
            ),
        );
        found.range("repetitions", f64::from(self.repetitions), 1.0, 1000.0);
        found.range("sample_ms", self.sample_ms, 0.0, 10_000.0);
        found.range("queue_ms", self.queue_ms, 1.0, 10_000.0);
        if let Some(bytes) = self.capture_bytes {
            found.range("capture_bytes", f64::from(bytes), 54.0, f64::from(Self::MAX_CAPTURE_BYTES));
            let servers = self.terminal.iter().position(|kind| kind.name == "server");
            if let Some(at) = servers {
                let what = "the server's capture has this name: choose another one";
                found.0.push(Problem::new(format!("terminal[{at}].name"), what));
            }
        }
        for (name, _) in
            self.sysctl.iter().filter(|(name, _)| !name.starts_with("net.") || name.contains('/'))
        {
            found.0.push(Problem::new(
                format!("sysctl.\"{name}\""),
                "a host of the lab has only the parameters below net.",
            ));
        }
        self.path(&mut found);
        if let Some(share) = &self.share {
            self.share(&mut found, "share", share);
        }
        if let Some(shaper) = &self.shaper {
            found.unless(
                self.ap == ApForwarding::Host,
                "shaper",
                "this needs an access point whose kernel forwards packets: write ap = \"host\"",
            );
            found.range("shaper.rate_mbps", shaper.rate_mbps, 0.1, 100_000.0);
        }
        if let Some(gate) = &self.gate {
            let all = [("weight", &gate.weight, [0.1, 10.0]), ("max_mbps", &gate.max_mbps, [0.1, 100_000.0])];
            for (key, values, [min, max]) in all {
                for (name, value) in values {
                    let field = format!("gate.{key}.{name}");
                    let is_there = self.terminal.iter().any(|kind| kind.name == *name);
                    found.unless(is_there, &field, format!("there are no terminals called '{name}'"));
                    found.range(field, *value, min, max);
                }
            }
            found.unless(
                self.ap == ApForwarding::Host,
                "gate",
                "this needs an access point whose kernel forwards packets: write ap = \"host\"",
            );
            found.unless(
                gate.starts_s >= 0.0 && gate.starts_s < self.duration_s,
                "gate.starts_s",
                format!(
                    "{} is out of range: it must be at least 0 and less than duration_s ({})",
                    gate.starts_s, self.duration_s
                ),
            );
        }
        let terminals: u32 = self.terminal.iter().map(|kind| kind.count.min(1000)).sum();
        found.unless(terminals > 0, "terminal", "there are no terminals: at least one is needed");
        found.unless(
            terminals <= Self::MAX_TERMINALS,
            "terminal",
            format!("{terminals} terminals are too many: at most {} are supported", Self::MAX_TERMINALS),
        );
        for (at, kind) in self.terminal.iter().enumerate() {
            self.terminal(&mut found, &format!("terminal[{at}]"), kind);
            let named = self.terminal[..at].iter().any(|other| other.name == kind.name);
            found.unless(
                !named,
                format!("terminal[{at}].name"),
                format!("another terminal is called '{}', too", kind.name),
            );
        }
        workload(&mut found, "workload", &self.workload);
        if terminals > 0 && terminals <= Self::MAX_TERMINALS {
            self.models(&mut found);
        }
        found.0
    }

    fn path(&self, found: &mut Found) {
        let path = &self.path;
        found.range("path.rtt_ms", path.rtt_ms, 0.0, 100_000.0);
        found.range("path.jitter_ms", path.jitter_ms, 0.0, 100_000.0);
        if let Some(rate) = path.rate_mbps {
            found.range("path.rate_mbps", rate, 0.001, 1_000_000.0);
        }
        found.range("path.queue_packets", f64::from(path.queue_packets), 1.0, 100_000_000.0);
        found.range("path.mtu_bytes", f64::from(path.mtu_bytes), 576.0, f64::from(PathSpec::MAX_MTU_BYTES));
        found.range("path.loss", path.loss, 0.0, 1.0);
        found.range("path.loss_down", path.loss_down, 0.0, 1.0);
    }

    fn terminal(&self, found: &mut Found, field: &str, kind: &TerminalSpec) {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        found.unless(
            (1..=32).contains(&kind.name.len()) && kind.name.chars().all(good),
            format!("{field}.name"),
            format!("'{}' is not a valid name: use 1 to 32 letters, digits, - and _", kind.name),
        );
        if let Some(window) = kind.window {
            found.range(format!("{field}.window"), f64::from(window), 2.0, 1_000_000.0);
        }
        if let Some(window) = kind.initial_window {
            found.range(format!("{field}.initial_window"), f64::from(window), 1.0, 1000.0);
        }
        if let Some(control) = &kind.control {
            let good = (1..16).contains(&control.len()) && control.chars().all(good);
            found.unless(
                good,
                format!("{field}.control"),
                format!("'{control}' cannot be a congestion control's name"),
            );
        }
        if let Some(spec) = &kind.cubic {
            found.unless(
                kind.control.is_none(),
                format!("{field}.cubic"),
                "`control` is set as well: set only one of them",
            );
            if let Err(error) = spec.cubic("cubic".into()).check() {
                found.0.push(Problem::new(format!("{field}.cubic"), error.what));
            }
            for (name, bound) in [("floor", spec.floor), ("cap", spec.cap)] {
                if let Some(bound) = bound {
                    found.range(format!("{field}.cubic.{name}"), f64::from(bound), 2.0, 1_000_000.0);
                }
            }
            found.unless(
                spec.cap.is_none_or(|cap| spec.floor.unwrap_or(0) <= cap),
                format!("{field}.cubic.cap"),
                "it is below the minimum",
            );
        }
        if kind.paced {
            let by_us = !matches!(
                self.workload_of(kind),
                WorkloadSpec::RequestResponse { .. }
                    | WorkloadSpec::Iperf3 { .. }
                    | WorkloadSpec::Quic {}
                    | WorkloadSpec::Call { .. }
            );
            found.unless(
                by_us,
                format!("{field}.paced"),
                "only bulk, buffers and on-off workloads pace: leave this out, or choose one of them",
            );
        }
        if let Some(share) = self.share_of(kind) {
            if matches!(kind.share, Some(ShareChoice::With(_))) {
                self.share(found, &format!("{field}.share"), &share);
            }
            for (name, given) in [("control", kind.control.is_some()), ("cubic", kind.cubic.is_some())] {
                found.unless(
                    !given,
                    format!("{field}.{name}"),
                    "this terminal takes part in [share], which chooses the congestion control: leave this out, or set share = false",
                );
            }
        }
        found.range(format!("{field}.joins_s"), kind.joins_s, 0.0, self.duration_s);
        if let Some(leaves) = kind.leaves_s {
            found.unless(
                leaves > kind.joins_s && leaves <= self.duration_s,
                format!("{field}.leaves_s"),
                format!(
                    "{leaves} is out of range: it must be greater than joins_s ({}) and at most duration_s ({})",
                    kind.joins_s, self.duration_s
                ),
            );
        }
        self.cells(found, field, kind);
        if let Some(spec) = &kind.workload {
            workload(found, &format!("{field}.workload"), spec);
        }
    }

    /// The cells that a kind of terminal is in.
    fn cells(&self, found: &mut Found, field: &str, kind: &TerminalSpec) {
        let what = "there is one cell: add [second_cell], or leave this out";
        let keys = [
            ("cell", kind.cell != 1),
            ("moves_s", kind.moves_s.is_some()),
            ("phy_there", kind.phy_there.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, is_given)| *is_given && self.second_cell.is_none()) {
            found.0.push(Problem::new(format!("{field}.{key}"), what));
        }
        found.range(format!("{field}.cell"), f64::from(kind.cell), 1.0, 2.0);
        found.range(format!("{field}.away_ms"), kind.away_ms, 0.0, 60_000.0);
        let Some(moves_s) = kind.moves_s else { return };
        let ends_s = self.leaves_s(kind) - kind.away_ms / 1000.0;
        found.unless(
            moves_s > kind.joins_s && moves_s < ends_s,
            format!("{field}.moves_s"),
            format!(
                "{moves_s} is out of range: it must be after joins_s ({}), and {} ms before the terminal leaves ({})",
                kind.joins_s,
                kind.away_ms,
                self.leaves_s(kind)
            ),
        );
    }

    fn share(&self, found: &mut Found, field: &str, share: &ShareSpec) {
        if let Some(rate) = share.capacity_mbps {
            found.range(format!("{field}.capacity_mbps"), rate, 0.001, 1_000_000.0);
        }
        found.unless(
            share.starts_s >= 0.0 && share.starts_s < self.duration_s,
            format!("{field}.starts_s"),
            format!(
                "{} is out of range: it must be at least 0 and less than duration_s ({})",
                share.starts_s, self.duration_s
            ),
        );
    }

    /// Checks the configurations of the radio model and the wire model.
    fn models(&self, found: &mut Found) {
        let configs = [("cell", self.cell_config().map(Some)), ("second_cell", self.second_cell_config())];
        for (field, config) in configs {
            match config {
                Ok(None) => {}
                Ok(Some(config)) => {
                    if let Err(error) = Cell::<Nothing>::new(&config, 1) {
                        // A station is the same in both.
                        let problem = self.of_cell(field, &error);
                        if !found.0.contains(&problem) {
                            found.0.push(problem);
                        }
                    }
                }
                Err(problem) => found.0.push(problem),
            }
        }
        // Do not report again what the checks of the path have found.
        if !found.0.iter().any(|problem| problem.field.starts_with("path."))
            && let Err(error) = Wire::<Nothing>::new(&self.wire_config(), 1)
        {
            found.0.push(Problem::new(format!("path.{}", error.field), model_words(&error)));
        }
    }

    /// Maps the model's station number to the terminal entry of the file.
    fn of_cell(&self, field: &str, error: &ConfigError) -> Problem {
        let station = error.field.strip_prefix("stations[").and_then(|rest| rest.split_once(']'));
        let kind = station.and_then(|(number, rest)| {
            let terminal = self.terminals().nth(number.parse().ok()?)?;
            let is_elsewhere = (field == "second_cell") != (terminal.kind.cell == 2);
            let is_there = is_elsewhere && terminal.kind.phy_there.is_some();
            let rest = match rest.strip_prefix(".phy") {
                Some(rest) if is_there => format!(".phy_there{rest}"),
                Some(rest) => format!(".phy{rest}"),
                None => format!(".station{rest}"),
            };
            Some(format!("terminal[{}]{rest}", terminal.kind_number))
        });
        let field = kind.unwrap_or_else(|| match error.field.as_str() {
            "stations" => "terminal".to_owned(),
            other => format!("{field}.{other}"),
        });
        Problem::new(field, model_words(error))
    }
}

fn model_words(error: &ConfigError) -> String {
    format!("{} is not valid: {}", error.value, error.allowed)
}

fn workload(found: &mut Found, field: &str, spec: &WorkloadSpec) {
    match spec {
        WorkloadSpec::Bulk { connections, .. } | WorkloadSpec::Iperf3 { connections, .. } => {
            found.range(format!("{field}.connections"), f64::from(*connections), 1.0, 60.0);
        }
        WorkloadSpec::Buffers { bytes, count, .. } => {
            let max = WorkloadSpec::MAX_BUFFER_BYTES;
            found.range(format!("{field}.bytes"), *bytes as f64, 1.0, max as f64);
            found.unless(
                *count != Some(0),
                format!("{field}.count"),
                "0 is out of range: it must be at least 1",
            );
        }
        WorkloadSpec::OnOff { on_s, off_s } => {
            found.range(format!("{field}.on_s"), *on_s, 0.01, 36_000.0);
            found.range(format!("{field}.off_s"), *off_s, 0.0, 36_000.0);
        }
        WorkloadSpec::RequestResponse { request_bytes, response_bytes, think_ms } => {
            found.range(
                format!("{field}.request_bytes"),
                f64::from(*request_bytes),
                f64::from(WorkloadSpec::MIN_REQUEST_BYTES),
                1e9,
            );
            found.range(format!("{field}.response_bytes"), f64::from(*response_bytes), 1.0, 1e9);
            found.range(format!("{field}.think_ms"), *think_ms, 0.0, 3_600_000.0);
        }
        WorkloadSpec::Call { bytes, interval_ms } => {
            found.range(format!("{field}.bytes"), f64::from(*bytes), 8.0, 1400.0);
            found.range(format!("{field}.interval_ms"), *interval_ms, 1.0, 10_000.0);
        }
        WorkloadSpec::Quic {} | WorkloadSpec::Idle {} => {}
    }
}
