//! Generates realistic flows from a seed: windows that grow like CUBIC's, a queue that fills,
//! losses with their events and kernel functions, pauses, closing. The example and the drawing
//! tests use it. The tests of the kernel monitor cover the screen with real flows.

use std::net::SocketAddr;
use std::sync::Arc;
use yuzuri_trace::{
    Account, CaState, Counts, CpuAccount, Density, Event, Flow, FlowId, Item, Kind, LossReason, Marks, Owner,
    Place, Reason, Role, Session, Snapshot, Source,
};

/// Start of the stream, monotonic nanoseconds.
pub const START_NS: u64 = 5_000_000_000_000;
const STEP_NS: u64 = 5_000_000;
const MSS: u32 = 1448;

/// The session metadata of the stream.
pub fn session(source: Source) -> Session {
    Session {
        yuzuri: "0.1.0".into(),
        host: "studio-3".into(),
        kernel: "6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024".into(),
        machine: "x86_64".into(),
        source,
        density: Density::default(),
        filter: String::new(),
        hooks: Vec::new(),
        started_unix_ns: 1_700_000_000_000_000_000,
        started_mono_ns: START_NS,
    }
}

struct Sender {
    flow: Arc<Flow>,
    opens_ns: u64,
    closes_ns: Option<u64>,
    capacity_bps: f64,
    base_rtt_ns: f64,
    queue_segments: f64,
    /// The flow pauses in the second half of each period; 0: never.
    pause_period_ns: u64,
    cwnd: f64,
    w_max: f64,
    ssthresh: u32,
    epoch_ns: u64,
    state: CaState,
    until_ns: u64,
    acked: f64,
    retrans: u32,
    losses: u32,
    open: bool,
    gone: bool,
}

/// The flows.
pub struct SimulatedHost {
    senders: Vec<Sender>,
    now_ns: u64,
    random: u64,
    seen: u64,
    lost: u64,
    account_due_ns: u64,
    /// Lose some records every second, for screens that must show loss.
    pub lossy: bool,
}

impl SimulatedHost {
    /// Creates this number of flows.
    pub fn new(flows: usize, seed: u64) -> SimulatedHost {
        let mut simulated_host = SimulatedHost {
            senders: Vec::new(),
            now_ns: START_NS,
            random: seed | 1,
            seen: 0,
            lost: 0,
            account_due_ns: START_NS + 1_000_000_000,
            lossy: false,
        };
        for n in 0..flows {
            let sender = simulated_host.sender(n);
            simulated_host.senders.push(sender);
        }
        simulated_host
    }

    fn uniform_part(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn sender(&mut self, n: usize) -> Sender {
        let names = ["iperf3", "curl", "rsync", "firefox", "sshd", "Web Content"];
        let controls = ["cubic", "cubic", "bbr", "reno", "cubic", "dctcp"];
        let (local, remote) = if n % 7 == 5 {
            (format!("[2001:db8:17::{:x}]:{}", n + 16, 40_000 + n), "[2001:db8:ffff:1::53]:443".to_owned())
        } else {
            (
                format!("192.168.10.{}:{}", 20 + n % 3, 40_312 + n * 7),
                format!("10.{}.0.{}:{}", n % 4, 2 + n % 5, [5201, 443, 873, 80, 22][n % 5]),
            )
        };
        let parse = |text: String| text.parse::<SocketAddr>().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let flow = Flow {
            id: FlowId(0x1a00 + n as u64),
            local: parse(local),
            remote: parse(remote),
            netns: 4_026_531_840,
            netns_name: (n % 7 == 3).then(|| "term-a".to_owned()),
            owner: (n % 11 != 9)
                .then(|| Owner { pid: 1200 + n as u32 * 13, name: names[n % names.len()].into() }),
            congestion_control: controls[n % controls.len()].into(),
            role: Role::Opened,
            ..Flow::default()
        };
        Sender {
            flow: Arc::new(flow),
            opens_ns: START_NS + (n as u64 % 10) * 300_000_000,
            closes_ns: (n % 6 == 4).then_some(START_NS + 14_000_000_000 + n as u64 * 100_000_000),
            capacity_bps: [12.4e6, 93.1e6, 0.62e6, 480e6, 2.9e6][n % 5] * (0.7 + 0.6 * self.uniform_part()),
            base_rtt_ns: [31e6, 4.2e6, 256e6, 0.45e6, 88e6, 140e6][n % 6] * (0.8 + 0.4 * self.uniform_part()),
            queue_segments: 20.0 + 60.0 * self.uniform_part(),
            pause_period_ns: if n % 8 == 6 { 6_000_000_000 } else { 0 },
            cwnd: 10.0,
            w_max: 0.0,
            ssthresh: Snapshot::SSTHRESH_INFINITE,
            epoch_ns: 0,
            state: CaState::Open,
            until_ns: 0,
            acked: 0.0,
            retrans: 0,
            losses: 0,
            open: false,
            gone: false,
        }
    }

    /// Advances to `to_ns` and passes each item to `give`.
    pub fn advance(&mut self, to_ns: u64, give: &mut dyn FnMut(Item)) {
        while self.now_ns + STEP_NS <= to_ns {
            self.now_ns += STEP_NS;
            for n in 0..self.senders.len() {
                let uniform = self.uniform_part();
                let now = self.now_ns + n as u64 % 50 * 90_000;
                self.senders[n].step(now, uniform, &mut |item| {
                    if matches!(item, Item::Event(_)) {
                        self.seen += 1;
                    }
                    give(item);
                });
            }
            if self.now_ns >= self.account_due_ns {
                self.account_due_ns += 1_000_000_000;
                self.lost += u64::from(self.lossy) * 17;
                give(Item::Account(Arc::new(self.account())));
            }
        }
    }

    fn account(&self) -> Account {
        let cpu = CpuAccount {
            cpu: Some(0),
            seen: self.seen + self.lost,
            kept: self.seen,
            lost: vec![(LossReason::RingFull, self.lost)],
            thinned: self.seen * 7,
        };
        Account {
            mono_ns: self.now_ns,
            wall_offset_ns: session(Source::Events).wall_offset_ns(),
            cpus: vec![cpu],
        }
    }
}

impl Sender {
    fn event(&self, now_ns: u64, kind: Kind, reason: Reason, place: &str, rtt_ns: f64) -> Event {
        let in_flight = if self.acked > 0.0 { self.cwnd as u32 } else { 0 };
        let lost = if self.state >= CaState::Recovery { 1 + self.losses % 4 } else { 0 };
        let bdp = self.capacity_bps * self.base_rtt_ns / 8e9;
        let rate = self.capacity_bps.min(self.cwnd * f64::from(MSS) * 8e9 / rtt_ns);
        Event {
            mono_ns: now_ns,
            flow: self.flow.id,
            kind,
            reason,
            place: Place::named(place),
            ca_state: self.state,
            ca_before: self.state,
            marks: if self.state == CaState::Open { Marks::default() } else { Marks::SACK },
            counts: Counts { acks: 1, ..Counts::default() },
            snapshot: Snapshot {
                cwnd: self.cwnd as u32,
                ssthresh: self.ssthresh,
                srtt_us: (rtt_ns / 1000.0) as u32,
                rttvar_us: (rtt_ns / 9000.0) as u32,
                min_rtt_us: (self.base_rtt_ns / 1000.0) as u32,
                packets_out: in_flight,
                lost_out: lost.min(in_flight),
                mss: MSS,
                snd_wnd: 3_145_728,
                rcv_wnd: 64_240,
                notsent: (bdp / 3.0) as u32,
                bytes_acked: self.acked as u64,
                delivery_rate_bps: rate as u64,
                pacing_rate_bps: (rate * 1.2) as u64,
                total_retrans: self.retrans,
                reordering: 3,
                ..Snapshot::default()
            },
            cpu: 0,
        }
    }

    fn step(&mut self, now_ns: u64, uniform: f64, give: &mut dyn FnMut(Item)) {
        if self.gone || now_ns < self.opens_ns {
            return;
        }
        let bdp = self.capacity_bps * self.base_rtt_ns / 8e9 / f64::from(MSS);
        let queued = (self.cwnd - bdp).clamp(0.0, self.queue_segments);
        let queue_ns = queued * f64::from(MSS) * 8e9 / self.capacity_bps;
        let rtt_ns = self.base_rtt_ns + queue_ns + uniform * 0.04 * self.base_rtt_ns;
        if !self.open {
            self.open = true;
            self.epoch_ns = now_ns;
            give(Item::Flow(self.flow.clone()));
            give(Item::Event(self.event(
                now_ns,
                Kind::Open,
                Reason::Opened,
                "inet_csk_complete_hashdance",
                rtt_ns,
            )));
            return;
        }
        if self.closes_ns.is_some_and(|at| now_ns >= at) {
            self.gone = true;
            give(Item::Event(self.event(now_ns, Kind::Close, Reason::Closed, "inet_sock_destruct", rtt_ns)));
            return;
        }
        if self.pause_period_ns > 0
            && (now_ns - self.opens_ns) % self.pause_period_ns > self.pause_period_ns / 2
        {
            return;
        }
        let rate_bps = self.capacity_bps.min(self.cwnd * f64::from(MSS) * 8e9 / rtt_ns);
        self.acked += rate_bps / 8e9 * STEP_NS as f64;
        match self.state {
            CaState::Open | CaState::Disorder => self.grow(now_ns, rtt_ns, bdp, uniform, give),
            _ if now_ns >= self.until_ns => {
                let before = self.state;
                self.state = CaState::Open;
                self.epoch_ns = now_ns;
                self.change(now_ns, before, Reason::Recovered, "tcp_fastretrans_alert", rtt_ns, give);
            }
            _ => {}
        }
        give(Item::Event(self.event(now_ns, Kind::Sample, Reason::None, "tcp:tcp_probe", rtt_ns)));
    }

    fn grow(&mut self, now_ns: u64, rtt_ns: f64, bdp: f64, uniform: f64, give: &mut dyn FnMut(Item)) {
        if self.state == CaState::Disorder {
            self.state = CaState::Open;
            self.change(now_ns, CaState::Disorder, Reason::Resolved, "tcp_try_to_open", rtt_ns, give);
        }
        if self.cwnd < f64::from(self.ssthresh) {
            self.cwnd *= 1.0 + STEP_NS as f64 / rtt_ns.max(STEP_NS as f64);
        } else {
            let t = (now_ns - self.epoch_ns) as f64 / 1e9;
            let k = (self.w_max * 0.3 / 0.4).cbrt();
            self.cwnd = (0.4 * (t - k).powi(3) + self.w_max).max(self.cwnd);
        }
        let overflow = self.cwnd > bdp + self.queue_segments;
        if !overflow && uniform > 0.0005 {
            return;
        }
        let timeout = self.losses % 6 == 5;
        self.losses += 1;
        self.change_to(now_ns, CaState::Disorder, Reason::DupAck, "tcp_try_to_open", rtt_ns, give);
        if !overflow && uniform < 0.0002 {
            return;
        }
        self.w_max = self.cwnd;
        self.cwnd = (self.cwnd * 0.7).max(2.0);
        self.ssthresh = self.cwnd as u32;
        self.until_ns = now_ns + rtt_ns as u64 + STEP_NS;
        if timeout {
            self.cwnd = 1.0;
            give(Item::Event(self.event(
                now_ns,
                Kind::Timeout,
                Reason::Timeout,
                "tcp_retransmit_timer",
                rtt_ns,
            )));
            self.change_to(now_ns, CaState::Loss, Reason::Timeout, "tcp_enter_loss", rtt_ns, give);
        } else {
            self.change_to(
                now_ns,
                CaState::Recovery,
                Reason::FastRetransmit,
                "tcp_enter_recovery",
                rtt_ns,
                give,
            );
        }
        let reason = if timeout { Reason::LossRecovery } else { Reason::FastRetransmit };
        for _ in 0..1 + self.losses % 3 {
            self.retrans += 1;
            give(Item::Event(self.event(now_ns, Kind::Retransmit, reason, "tcp_retransmit_skb", rtt_ns)));
        }
    }

    fn change_to(
        &mut self,
        now_ns: u64,
        state: CaState,
        reason: Reason,
        place: &str,
        rtt_ns: f64,
        give: &mut dyn FnMut(Item),
    ) {
        let before = self.state;
        self.state = state;
        self.change(now_ns, before, reason, place, rtt_ns, give);
    }

    fn change(
        &self,
        now_ns: u64,
        before: CaState,
        reason: Reason,
        place: &str,
        rtt_ns: f64,
        give: &mut dyn FnMut(Item),
    ) {
        let mut event = self.event(now_ns, Kind::State, reason, place, rtt_ns);
        event.ca_before = before;
        give(Item::Event(event));
    }
}
