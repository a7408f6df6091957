//! Settings of other access networks than those of [`draw`](super::draw): the policy was not
//! developed on them. A seed and a number determine a setting.
//!
//! "Log-even" means even over the logarithm. Traffic and radios are drawn as in
//! [`draw`](super::draw).
//!
//! | What | Distribution |
//! |---|---|
//! | Terminals | 1 to 64, log-even |
//! | Access network | even: DSL or cable (RTT 8 to 60 ms; up 0.5 to 50 Mbit/s, down 2 to 20 times as fast); fibre (RTT 2 to 40 ms, 50 to 1000 Mbit/s); mobile (RTT 25 to 120 ms, jitter of 2 to 30 ms each way, 2 to 100 Mbit/s, a new rate every 1 to 8 s, by a factor of 0.4 to 2.5 from the initial rate); satellite (RTT 500 to 700 ms, up 1 to 10 Mbit/s, down 2 to 10 times as fast); all log-even |
//! | Queue of the wire | what the rate carries in 10 to 2000 ms, log-even, at least 10 packets (75 %); FQ-CoDel (25 %) |
//! | Access point | drop-tail of 100, 400 or 1000 packets (25 % each); FQ-CoDel with airtime fairness (25 %) |
//! | Loss | none (60 %), random from 1e-5 to 3e-3, log-even (40 %) |
//! | Limited windows | 20 % of the settings: each terminal has buffers of 64 kB to 1 MB, log-even |
//! | Roaming | 25 %: each terminal with a probability of a third; another rate of the same standard 1 to 6 times, at any time |
//! | Newcomers, leavers, destinations | as in [`draw`](super::draw) |
//! | Outsiders | 30 % of the settings with 2 terminals or more: 1 up to half of the terminals; CUBIC, Reno, BBR, BIC, H-TCP, Illinois, Vegas, Westwood+ or Scalable; half of them begin after 0 to 20 s |
//! | Messages | each is lost with a probability of 0 (50 %), 2 % or 10 % (25 % each) |

use super::draw::{DURATION_MS, Draw, Drawn, WARM_UP_MS};
use yuzuri_netmodel::Random;
use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::Phy;
use yuzuri_netmodel::wire::{LineConfig, LossConfig, WireConfig};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{Change, ChangeKind, Direction, Scenario, SenderConfig, Traffic};

/// Bytes of a full packet on the wire.
const PACKET_BYTES: f64 = 1518.0;
/// The algorithms of outsiders.
const OUTSIDE: [Algorithm; 9] = [
    Algorithm::Cubic,
    Algorithm::Reno,
    Algorithm::Bbr,
    Algorithm::Bic,
    Algorithm::Htcp,
    Algorithm::Illinois,
    Algorithm::Vegas,
    Algorithm::Westwood,
    Algorithm::Scalable,
];

/// The access network.
struct Access {
    name: &'static str,
    rtt_ms: f64,
    up_mbps: f64,
    down_mbps: f64,
    jitter_ms: f64,
}

/// Random setting `number` of this seed.
pub fn setting(seed: u64, number: u64) -> Drawn {
    let mut draw = Draw(Random::new(number, seed));
    let n = draw.0.log_uniform(1.0, 65.0) as usize;
    let (phys, mixed) = draw.phys(n);
    let outsider_count = if n >= 2 && draw.0.uniform() < 0.3 { 1 + draw.0.uniform_index(n / 2) } else { 0 };
    let access = access(&mut draw);
    let wire = wire(&mut draw, &access);
    let lossy = wire.up.loss != LossConfig::None;
    let managed = !matches!(wire.up.queue, QueueConfig::DropTail { .. });
    let (moves, far) = (draw.0.uniform() < 0.25, draw.0.uniform() < 0.25);
    let mut terminals = draw.terminals(n, outsider_count, moves, far);
    for terminal in &mut terminals[n - outsider_count..] {
        let algorithm = draw.0.choose(&OUTSIDE);
        terminal.sender = SenderConfig { algorithm, ..terminal.sender.clone() };
        let start_ms = draw.even(0.0, 20_000.0) as u64;
        terminal.start_ms = if draw.0.uniform() < 0.5 { start_ms } else { 0 };
    }
    let limited = draw.0.uniform() < 0.2;
    if limited {
        for terminal in &mut terminals {
            terminal.sender.window_bytes = draw.0.log_uniform(64e3, 1e6) as u64;
        }
    }
    let download = Traffic::Bulk { direction: Direction::Down, bytes: None };
    let downloads = terminals.iter().any(|terminal| terminal.traffic == download);
    let mut scenario = Scenario::wireless(&phys, wire, terminals, DURATION_MS).seeded(number + 1);
    scenario.warm_up_ms = WARM_UP_MS;
    let ap_packets = draw.0.choose(&[100, 400, 1000, 0]);
    if let Some(cell) = &mut scenario.cell {
        cell.ap.airtime_fairness = ap_packets == 0;
        cell.ap.queue = match ap_packets {
            0 => QueueConfig::FqCodel(FqCodelConfig::default()),
            packets => QueueConfig::drop_tail(packets),
        };
    }
    let roams = roam(&mut draw, &mut scenario, &phys);
    let varies = access.name == "mobile";
    if varies {
        vary(&mut draw, &mut scenario, access.up_mbps);
    }
    let message_loss = draw.0.choose(&[0.0, 0.0, 0.02, 0.1]);
    let classes = [
        (true, "all"),
        (outsider_count == 0, "no outsiders"),
        (outsider_count > 0, "outsiders"),
        (n >= super::draw::MIN_CROWDED_TERMINALS, "9 terminals or more"),
        (mixed, "mixed standards"),
        (far, "several destinations"),
        (moves, "newcomers and leavers"),
        (roams, "radios change"),
        (varies, "the wire changes"),
        (lossy, "loss"),
        (managed || ap_packets == 0, "managed queues"),
        (downloads, "downloads"),
        (true, access.name),
        (limited, "limited windows"),
    ];
    let ap = if ap_packets == 0 { "FQ-CoDel".to_owned() } else { ap_packets.to_string() };
    let queue = match &scenario.wire.up.queue {
        QueueConfig::DropTail { packets: Some(packets), .. } => format!("{packets} packets"),
        _ => "FQ-CoDel".to_owned(),
    };
    let Access { name, rtt_ms, up_mbps, down_mbps, .. } = access;
    let mut description = format!(
        "{n} terminals, {name}, {rtt_ms:.0} ms, {up_mbps:.1}/{down_mbps:.0} Mbit/s, {queue}, AP {ap}"
    );
    let kinds = [
        (lossy, "loss"),
        (moves, "come and go"),
        (far, "several destinations"),
        (roams, "roaming"),
        (limited, "limited windows"),
    ];
    for (_, text) in kinds.iter().filter(|(holds, _)| *holds) {
        description += &format!(", {text}");
    }
    if outsider_count > 0 {
        description += &format!(", {outsider_count} outside");
    }
    let classes = classes.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    Drawn { number, scenario, phys, outsider_count, message_loss, classes, description }
}

fn access(draw: &mut Draw) -> Access {
    let kind = draw.0.uniform_index(4);
    let mut log = |low, high| draw.0.log_uniform(low, high);
    let (name, rtt_ms, up_mbps) = match kind {
        0 => ("DSL or cable", log(8.0, 60.0), log(0.5, 50.0)),
        1 => ("fibre", log(2.0, 40.0), log(50.0, 1000.0)),
        2 => ("mobile", log(25.0, 120.0), log(2.0, 100.0)),
        _ => ("satellite", log(500.0, 700.0), log(1.0, 10.0)),
    };
    let faster = match kind {
        0 => log(2.0, 20.0),
        3 => log(2.0, 10.0),
        _ => 1.0,
    };
    let jitter_ms = if kind == 2 { log(2.0, 30.0) } else { 0.0 };
    Access { name, rtt_ms, up_mbps, down_mbps: up_mbps * faster, jitter_ms }
}

fn wire(draw: &mut Draw, access: &Access) -> WireConfig {
    let queue_s = draw.0.log_uniform(0.010, 2.0);
    let managed = draw.0.uniform() < 0.25;
    let line = |mbps: f64| LineConfig {
        rate_bps: Some((mbps * 1e6) as u64),
        delay_us: (access.rtt_ms * 500.0) as u64,
        jitter_us: (access.jitter_ms * 1000.0) as u64,
        queue: if managed {
            QueueConfig::FqCodel(FqCodelConfig::default())
        } else {
            QueueConfig::drop_tail((mbps * 1e6 * queue_s / 8.0 / PACKET_BYTES).max(10.0) as u32)
        },
        ..LineConfig::default()
    };
    let mut wire = WireConfig { up: line(access.up_mbps), down: line(access.down_mbps) };
    if draw.0.uniform() < 0.4 {
        wire.up.loss = LossConfig::Random { probability: draw.0.log_uniform(1e-5, 3e-3) };
    }
    wire
}

/// Terminals that roam; returns whether any does.
fn roam(draw: &mut Draw, scenario: &mut Scenario, phys: &[Phy]) -> bool {
    if draw.0.uniform() >= 0.25 {
        return false;
    }
    for (number, phy) in phys.iter().enumerate() {
        if draw.0.uniform_index(3) > 0 {
            continue;
        }
        for _ in 0..1 + draw.0.uniform_index(6) {
            let at_ms = draw.even(0.0, DURATION_MS as f64) as u64;
            let phy = phy.standard().random(&mut draw.0);
            scenario.changes.push(Change { at_ms, what: ChangeKind::Radio { terminal: number as u16, phy } });
        }
    }
    !scenario.changes.is_empty()
}

/// A wire whose rate changes all the time.
fn vary(draw: &mut Draw, scenario: &mut Scenario, mbps: f64) {
    let mut at_ms = 0;
    while at_ms < DURATION_MS {
        at_ms += draw.0.log_uniform(1000.0, 8000.0) as u64;
        let rate_bps = (mbps * draw.0.log_uniform(0.4, 2.5) * 1e6) as u64;
        scenario.changes.push(Change { at_ms, what: ChangeKind::Wire { rate_bps } });
    }
}

#[cfg(test)]
mod tests {
    use super::super::CLASSES;
    use super::*;
    use yuzuri_sim::Terminal;

    #[test]
    fn all_kinds_are_drawn() {
        let settings: Vec<Drawn> = (0..400).map(|number| setting(5, number)).collect();
        for class in CLASSES {
            let met = settings.iter().filter(|drawn| drawn.classes.contains(&class)).count();
            assert!(met >= 20, "{class}: {met} of 400");
        }
        for drawn in &settings {
            let n = drawn.phys.len();
            assert!((1..=64).contains(&n) && drawn.outsider_count <= n / 2);
            assert!(drawn.is_steady(0), "{}", drawn.description);
        }
        let begins = |terminal: &Terminal| terminal.start_ms > 0 && terminal.stop_ms.is_none();
        let outsider_count =
            |drawn: &Drawn| drawn.scenario.terminals[drawn.phys.len() - drawn.outsider_count..].to_vec();
        assert!(settings.iter().flat_map(outsider_count).any(|terminal| begins(&terminal)));
    }
}
