//! Serves a page with artificial flows, for tests of the page and work on its appearance. The data
//! is generated, never measured: congestion windows that follow CUBIC with losses, timeouts, ECN
//! and reordering.
//!
//! `cargo run --release -p yuzuri-web --example feed -- --flows 200 --rate 1000 --port 8080`

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::{
    Account, CaState, Counts, CpuAccount, Density, Event, Filter, Flow, FlowId, Hook, HookState, Item, Kind,
    LossReason, Marks, Owner, Place, Reason, Role, Session, Setting, Snapshot, Source,
};
use yuzuri_view::{Limits, LiveModel};
use yuzuri_web::{Control, Options, Page, Refused, Replay, serve};

const START_NS: u64 = 1_000_000_000_000;
/// The upper bound of windows from `--bound-at` on, segments.
const BOUND_SEGMENTS: u32 = 8;

struct Words {
    flows: u64,
    rate: u64,
    port: u16,
    wide: bool,
    speed: f64,
    past: u64,
    replay: Option<u64>,
    sampled: bool,
    lossy: bool,
    share_socket: Option<PathBuf>,
    /// Time after which windows are at a sharing bound, seconds since the start.
    bound_at: Option<u64>,
    /// Number of flows, the first ones, that share one queue.
    one_queue: u64,
}

fn words() -> Result<Words, Box<dyn std::error::Error>> {
    let mut words = Words {
        flows: 8,
        rate: 200,
        port: 0,
        wide: false,
        speed: 1.0,
        past: 0,
        replay: None,
        sampled: false,
        lossy: false,
        share_socket: None,
        bound_at: None,
        one_queue: 0,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let bad = |v: String| format!("{v}: not a number");
        match arg.as_str() {
            "--flows" => words.flows = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--rate" => words.rate = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--port" => words.port = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--speed" => words.speed = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--past" => words.past = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--replay" => words.replay = Some(value().and_then(|v| v.parse().map_err(|_| bad(v)))?),
            "--share-socket" => words.share_socket = Some(value()?.into()),
            "--bound-at" => words.bound_at = Some(value().and_then(|v| v.parse().map_err(|_| bad(v)))?),
            "--one-queue" => words.one_queue = value().and_then(|v| v.parse().map_err(|_| bad(v)))?,
            "--wide" => words.wide = true,
            "--sampled" => words.sampled = true,
            "--lossy" => words.lossy = true,
            _ => {
                return Err(format!(
                    "{arg}: flags are --flows N --rate SAMPLES/S --port N --speed X --past SECONDS --replay SECONDS --share-socket PATH --bound-at SECONDS --one-queue FLOWS --wide --sampled --lossy"
                )
                .into());
            }
        }
    }
    Ok(words)
}

/// SplitMix64 (Steele and others, 2014).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
}

/// The delay of a queue that rises until it overflows, at a pace that varies, microseconds in each
/// 20 ms of an hour; then it is repeated.
fn queue() -> Arc<[f32]> {
    let mut random = Random(11);
    let (mut now, mut most, mut pace) = (0.0, 60_000.0, 400.0);
    let mut step = |n: u32| {
        if n.is_multiple_of(20) {
            pace = random.between(100.0, 1000.0);
        }
        now += pace + random.between(-500.0, 500.0);
        if now > most {
            (now, most) = (most * 0.3, random.between(50_000.0, 70_000.0));
        }
        now.max(0.0) as f32
    };
    (0..180_000).map(&mut step).collect()
}

/// An artificial connection.
struct Sender {
    flow: Arc<Flow>,
    random: Random,
    mono_ns: u64,
    cwnd: f64,
    ssthresh: u32,
    w_max: f64,
    fell_ns: u64,
    base_rtt_us: f64,
    path_segments: f64,
    queue_segments: f64,
    state: CaState,
    until_ns: u64,
    acked: f64,
    received: f64,
    retransmitted: u32,
    receives: bool,
    quiet_until_ns: u64,
    /// The queue that it shares with others.
    queue: Option<Arc<[f32]>>,
}

impl Sender {
    fn new(n: u64, now_ns: u64, queue: Option<Arc<[f32]>>) -> Sender {
        let mut random = Random(n.wrapping_mul(7919) + 1);
        let base_rtt_us =
            [2_000.0, 12_000.0, 35_000.0, 80_000.0, 256_000.0][(n % 5) as usize] * random.between(0.8, 1.2);
        let path_segments = random.between(20.0, 160.0);
        let names = ["yuzuri", "iperf3", "curl", "rsync", "firefox", "sshd"];
        let control = ["cubic", "cubic", "bbr", "reno"][(n % 4) as usize];
        let (local, remote) = if n % 7 == 3 {
            (
                format!("[2001:db8::{:x}]:{}", 16 + n, 40_000 + n % 20_000),
                "[2001:db8:ffff::1]:443".to_string(),
            )
        } else {
            (
                format!("10.0.{}.2:{}", n % 4, 40_000 + n % 20_000),
                format!("192.0.2.{}:{}", 10 + n % 60, [5201, 443, 8080][(n % 3) as usize]),
            )
        };
        let flow = Flow {
            id: FlowId(0x1000 + n),
            local: local.parse().expect("a generated address is valid"),
            remote: remote.parse().expect("a generated address is valid"),
            netns: 4_026_531_840 + (n % 3) as u32,
            netns_name: [None, Some("phone1"), Some("phone2")][(n % 3) as usize].map(str::to_string),
            owner: (n % 9 != 8).then(|| Owner { pid: 1200 + n as u32, name: names[(n % 6) as usize].into() }),
            congestion_control: control.into(),
            role: if n % 5 == 4 { Role::Accepted } else { Role::Opened },
            ..Flow::default()
        };
        Sender {
            flow: Arc::new(flow),
            mono_ns: now_ns + random.next() % 1_000_000,
            cwnd: 10.0,
            ssthresh: Snapshot::SSTHRESH_INFINITE,
            w_max: 0.0,
            fell_ns: now_ns,
            base_rtt_us,
            path_segments,
            queue_segments: path_segments * random.between(0.3, 1.0),
            state: CaState::Open,
            until_ns: 0,
            acked: 0.0,
            received: 0.0,
            retransmitted: 0,
            receives: n % 11 == 10,
            quiet_until_ns: 0,
            queue,
            random,
        }
    }

    fn srtt_us(&self) -> f64 {
        if let Some(queue) = &self.queue {
            let place = ((self.mono_ns - START_NS) / 20_000_000) as usize;
            return self.base_rtt_us + f64::from(queue[place % queue.len()]);
        }
        self.base_rtt_us * (1.0 + ((self.cwnd - self.path_segments).max(0.0) / self.path_segments))
    }

    fn snapshot(&mut self) -> Snapshot {
        let srtt = self.srtt_us() * self.random.between(0.98, 1.04);
        let cwnd = self.cwnd.max(1.0) as u32;
        let rate = self.cwnd.min(self.path_segments) * 1448.0 * 8e6 / self.base_rtt_us;
        Snapshot {
            cwnd,
            ssthresh: self.ssthresh,
            srtt_us: srtt as u32,
            rttvar_us: (srtt * 0.05) as u32,
            min_rtt_us: self.base_rtt_us as u32,
            packets_out: cwnd,
            sacked_out: if self.state == CaState::Recovery { cwnd / 5 } else { 0 },
            lost_out: if self.state >= CaState::Recovery { 1 + cwnd / 20 } else { 0 },
            retrans_out: u32::from(self.state >= CaState::Recovery),
            mss: 1448,
            snd_wnd: 3_145_728,
            rcv_wnd: 65_536,
            wmem_queued: cwnd * 2304,
            notsent: 180_000,
            bytes_acked: self.acked as u64,
            bytes_received: self.received as u64,
            delivery_rate_bps: rate as u64,
            pacing_rate_bps: (rate * 1.2) as u64,
            total_retrans: self.retransmitted,
            reordering: 3,
            ..Snapshot::UNKNOWN
        }
    }

    fn event(&mut self, kind: Kind, reason: Reason, place: &'static str) -> Event {
        let snapshot = self.snapshot();
        Event {
            mono_ns: self.mono_ns,
            flow: self.flow.id,
            kind,
            reason,
            place: Place::named(place),
            ca_state: self.state,
            ca_before: self.state,
            marks: Marks::default(),
            counts: Counts { acks: 1, ..Counts::default() },
            snapshot,
            cpu: (self.flow.id.0 % 2) as u16,
        }
    }

    fn enter(&mut self, state: CaState, reason: Reason, place: &'static str, out: &mut Vec<Item>) {
        let before = self.state;
        self.state = state;
        let event = Event { ca_before: before, ..self.event(Kind::State, reason, place) };
        out.push(Item::Event(event));
    }

    fn reduce(&mut self, by: f64) {
        self.w_max = self.cwnd;
        self.cwnd = (self.cwnd * by).max(2.0);
        self.ssthresh = self.cwnd as u32;
        self.fell_ns = self.mono_ns;
    }

    fn retransmit(&mut self, reason: Reason, place: &'static str, out: &mut Vec<Item>) {
        self.retransmitted += 1;
        let event = self.event(Kind::Retransmit, reason, place);
        out.push(Item::Event(event));
    }

    /// Advances by one sample.
    fn step(&mut self, step_ns: u64, out: &mut Vec<Item>) {
        self.mono_ns += step_ns;
        if self.receives {
            self.received += 2.5e6 * step_ns as f64 / 1e9;
            let event = self.event(Kind::Sample, Reason::None, "tcp:tcp_probe");
            return out.push(Item::Event(event));
        }
        if self.mono_ns < self.quiet_until_ns {
            return;
        }
        let rtt_us = self.srtt_us();
        self.acked += self.cwnd * 1448.0 * step_ns as f64 / (rtt_us * 1000.0);
        let rounds = step_ns as f64 / (rtt_us * 1000.0);
        let mut marks = Marks::default();
        match self.state {
            CaState::Open => {
                if self.cwnd < f64::from(self.ssthresh) {
                    self.cwnd += self.cwnd * rounds;
                } else {
                    let t = (self.mono_ns - self.fell_ns) as f64 / 1e9;
                    let k = (self.w_max * 0.3 / 0.4).cbrt();
                    let target = 0.4 * (t - k).powi(3) + self.w_max;
                    self.cwnd += (target - self.cwnd).max(0.0) * rounds.min(1.0);
                }
                self.trouble(step_ns as f64 / 1e9, out);
            }
            _ if self.mono_ns >= self.until_ns => self.calm(out),
            CaState::Disorder | CaState::Recovery => {
                marks.insert(Marks::DUP_ACK);
                marks.insert(Marks::SACK);
            }
            CaState::Loss => self.cwnd = (self.cwnd + self.cwnd * rounds).min(f64::from(self.ssthresh)),
            CaState::Cwr => {}
        }
        let dup = u16::from(marks.contains(Marks::DUP_ACK));
        let mut event = self.event(Kind::Sample, Reason::None, "tcp:tcp_probe");
        event.marks = marks;
        event.counts.dup_acks = dup;
        event.counts.sacks = dup;
        out.push(Item::Event(event));
    }

    fn trouble(&mut self, seconds: f64, out: &mut Vec<Item>) {
        let full = self.cwnd > self.path_segments + self.queue_segments;
        let chance = self.random.unit();
        let rtt_ns = (self.srtt_us() * 1000.0) as u64;
        if full || chance < 0.02 * seconds {
            self.enter(CaState::Disorder, Reason::DupAck, "tcp_fastretrans_alert", out);
            self.mono_ns += rtt_ns / 10 + 1000;
            self.reduce(0.7);
            self.enter(CaState::Recovery, Reason::FastRetransmit, "tcp_enter_recovery", out);
            for _ in 0..1 + self.random.next() % 4 {
                self.mono_ns += 20_000;
                self.retransmit(Reason::FastRetransmit, "tcp_retransmit_skb", out);
            }
            self.until_ns = self.mono_ns + rtt_ns;
        } else if chance < 0.045 * seconds {
            self.quiet_until_ns = self.mono_ns + 2 * rtt_ns + 200_000_000;
            self.mono_ns += 2 * rtt_ns;
            self.retransmit(Reason::TailLossProbe, "tcp_send_loss_probe", out);
            self.mono_ns = self.quiet_until_ns;
            let event = self.event(Kind::Timeout, Reason::Timeout, "tcp_retransmit_timer");
            out.push(Item::Event(event));
            self.reduce(0.5);
            self.cwnd = 1.0;
            self.enter(CaState::Loss, Reason::Timeout, "tcp_enter_loss", out);
            self.retransmit(Reason::Timeout, "tcp_retransmit_skb", out);
            self.until_ns = self.mono_ns + 3 * rtt_ns;
        } else if chance < 0.085 * seconds {
            self.reduce(0.8);
            let local = self.random.unit() < 0.5;
            let (reason, place) = if local {
                (Reason::LocalCongestion, "__tcp_transmit_skb")
            } else {
                (Reason::Ecn, "tcp_enter_cwr")
            };
            self.enter(CaState::Cwr, reason, place, out);
            self.until_ns = self.mono_ns + rtt_ns;
        } else if chance < 0.12 * seconds {
            let mut event = self.event(Kind::Reordering, Reason::None, "tcp_check_sack_reordering");
            event.marks.insert(Marks::DSACK);
            event.counts.dsacks = 1;
            out.push(Item::Event(event));
            let event = self.event(Kind::Undo, Reason::Undo, "tcp_undo_cwnd_reduction");
            out.push(Item::Event(event));
        }
    }

    fn calm(&mut self, out: &mut Vec<Item>) {
        self.enter(CaState::Open, Reason::Recovered, "tcp_fastretrans_alert", out);
    }
}

/// All senders, merged in order of time.
struct World {
    senders: Vec<Sender>,
    step_ns: u64,
    /// Items generated ahead of their time (a timeout is decided before it fires).
    early: Vec<Item>,
    made: u64,
    lost: u64,
    account_ns: u64,
    lossy: bool,
}

impl World {
    fn new(words: &Words, now_ns: u64, out: &mut Vec<Item>) -> World {
        let queue = queue();
        let of = |n: u64| (n < words.one_queue).then(|| queue.clone());
        let mut senders: Vec<Sender> = (0..words.flows).map(|n| Sender::new(n, now_ns, of(n))).collect();
        for sender in &mut senders {
            out.push(Item::Flow(sender.flow.clone()));
            let event = sender.event(Kind::Open, Reason::Opened, "inet_sock_set_state");
            out.push(Item::Event(event));
        }
        World {
            senders,
            step_ns: 1_000_000_000 / words.rate.max(1),
            early: Vec::new(),
            made: 0,
            lost: 0,
            account_ns: now_ns,
            lossy: words.lossy,
        }
    }

    fn run_to(&mut self, now_ns: u64, out: &mut Vec<Item>) {
        let before = out.len();
        let is_due = |item: &Item| !matches!(item, Item::Event(event) if event.mono_ns > now_ns);
        out.extend(self.early.extract_if(.., |item| is_due(item)));
        let from = out.len();
        for sender in &mut self.senders {
            while sender.mono_ns + self.step_ns <= now_ns {
                sender.step(self.step_ns, out);
            }
        }
        self.early.extend(out.extract_if(from.., |item| !is_due(item)));
        self.made += (out.len() - before) as u64;
        if now_ns >= self.account_ns {
            self.account_ns = now_ns + 1_000_000_000;
            self.lost += u64::from(self.lossy) * 37;
            let cpu = CpuAccount {
                cpu: Some(0),
                seen: self.made + self.lost,
                kept: self.made,
                lost: vec![(LossReason::RingFull, self.lost)],
                thinned: self.made * 3,
            };
            out.push(Item::Account(Arc::new(Account {
                mono_ns: now_ns,
                wall_offset_ns: wall_offset(),
                cpus: vec![cpu],
            })));
        }
    }
}

fn wall_offset() -> i64 {
    static OFFSET: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *OFFSET.get_or_init(|| {
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        unix.as_nanos() as i64 - START_NS as i64
    })
}

enum Request {
    Set(Setting),
    Seek(u64),
}

struct Driver {
    requests: Mutex<VecDeque<Request>>,
    state: Mutex<Replay>,
    replays: bool,
    setting: Mutex<(String, Density)>,
}

impl Driver {
    fn request_setting(&self, change: impl FnOnce(&mut (String, Density))) {
        let mut now = self.setting.lock();
        change(&mut now);
        let setting = Setting { mono_ns: START_NS, filter: now.0.clone(), density: now.1 };
        self.requests.lock().push_back(Request::Set(setting));
    }

    fn replaying(&self, change: impl FnOnce(&mut Replay)) -> Result<(), Refused> {
        if !self.replays {
            return Err(Refused::Unavailable("this is not a replay".into()));
        }
        change(&mut self.state.lock());
        Ok(())
    }
}

impl Control for Driver {
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        if !filter.cgroups.is_empty() {
            return Err(Refused::Failed(
                "the artificial flows have no cgroups: use a port or an address".into(),
            ));
        }
        self.request_setting(|setting| setting.0 = filter.to_string());
        Ok(())
    }

    fn set_density(&self, density: Density) -> Result<(), Refused> {
        self.request_setting(|setting| setting.1 = density);
        Ok(())
    }

    fn replay(&self) -> Option<Replay> {
        self.replays.then(|| *self.state.lock())
    }

    fn set_paused(&self, paused: bool) -> Result<(), Refused> {
        self.replaying(|state| state.paused = paused)
    }

    fn set_speed(&self, speed: f64) -> Result<(), Refused> {
        self.replaying(|state| state.speed = speed)
    }

    fn seek(&self, position_ns: u64) -> Result<(), Refused> {
        self.replaying(|state| state.position_ns = position_ns)?;
        self.requests.lock().push_back(Request::Seek(position_ns));
        Ok(())
    }
}

fn session(words: &Words) -> Arc<Session> {
    let hook =
        |name: &str, provides: &str, state| Hook { name: name.into(), provides: provides.into(), state };
    let instead = || HookState::Missing {
        why: "no such tracepoint in this kernel".into(),
        instead: "state changes are seen at the next ACK".into(),
    };
    Arc::new(Session {
        yuzuri: env!("CARGO_PKG_VERSION").into(),
        host: "made-up".into(),
        kernel: "6.12.0 (artificial flows, not a kernel)".into(),
        machine: std::env::consts::ARCH.into(),
        source: if words.sampled { Source::Sampled } else { Source::Events },
        density: Density::default(),
        filter: String::new(),
        hooks: vec![
            hook("tp_btf/tcp_probe", "samples", HookState::Used),
            hook("tp_btf/tcp_cong_state_set", "state changes", instead()),
        ],
        started_unix_ns: START_NS as i64 + wall_offset(),
        started_mono_ns: START_NS,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = words()?;
    let session = session(&words);
    let model = Arc::new(Mutex::new(LiveModel::new(session.clone(), Limits::default())));
    let state = Replay {
        paused: false,
        speed: words.speed,
        position_ns: 0,
        length_ns: words.replay.unwrap_or(0) * 1_000_000_000,
    };
    let driver = Arc::new(Driver {
        requests: Mutex::default(),
        state: Mutex::new(state),
        replays: words.replay.is_some(),
        setting: Mutex::new((String::new(), Density::default())),
    });
    let page = Page::new(model.clone(), driver.clone());
    let ip = if words.wide { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
    let share_socket = words.share_socket.clone();
    let options = Options { share_socket, ..Options::new((ip, words.port).into()) };
    let server = serve(options, page.clone())?;
    println!("{}", server.url());

    let mut items = Vec::new();
    let mut world = World::new(&words, START_NS, &mut items);
    let bound_ns = words.bound_at.map(|seconds| START_NS + seconds * 1_000_000_000);
    let feed = |items: &mut Vec<Item>, now_ns: u64| {
        for item in items.iter_mut() {
            let (Item::Event(event), Some(bound_ns)) = (item, bound_ns) else { continue };
            event.marks.insert(Marks::REPORTS_BOUND);
            if event.mono_ns >= bound_ns {
                event.snapshot.cwnd = event.snapshot.cwnd.min(BOUND_SEGMENTS);
                if event.snapshot.cwnd == BOUND_SEGMENTS {
                    event.marks.insert(Marks::AT_BOUND);
                }
            }
        }
        let mut model = model.lock();
        for item in items.iter() {
            model.apply(item);
        }
        model.advance(now_ns);
        drop(model);
        page.ingest(items);
        items.clear();
    };
    let mut now_ns = START_NS;
    let past = |world: &mut World, items: &mut Vec<Item>, from_ns: u64, to_ns: u64| {
        let mut at = from_ns;
        while at < to_ns {
            at = (at + 50_000_000).min(to_ns);
            world.run_to(at, items);
            feed(items, at);
        }
    };
    past(&mut world, &mut items, now_ns, now_ns + words.past * 1_000_000_000);
    now_ns += words.past * 1_000_000_000;
    let mut last = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let elapsed = last.elapsed();
        last = Instant::now();
        let requests: Vec<Request> = driver.requests.lock().drain(..).collect();
        for request in requests {
            match request {
                Request::Set(setting) => {
                    items.push(Item::Setting(Arc::new(Setting { mono_ns: now_ns, ..setting })))
                }
                Request::Seek(position_ns) => {
                    *model.lock() = LiveModel::new(session.clone(), Limits::default());
                    items.clear();
                    world = World::new(&words, START_NS, &mut items);
                    past(&mut world, &mut items, START_NS, START_NS + position_ns);
                    now_ns = START_NS + position_ns;
                    page.reset();
                }
            }
        }
        let mut state = driver.state.lock();
        let end = words.replay.map(|s| START_NS + s * 1_000_000_000);
        if !(driver.replays && state.paused) {
            let step = (elapsed.as_nanos() as f64 * state.speed) as u64;
            now_ns = end.map_or(now_ns + step, |end| end.min(now_ns + step));
        }
        state.position_ns = now_ns - START_NS;
        drop(state);
        world.run_to(now_ns, &mut items);
        feed(&mut items, now_ns);
    }
}
