//! Records a simulated run in the formats of the monitor and of the driver.

use super::STARTED_UNIX_NS;
use crate::LabError;
use crate::driver::{QueueTrace, Snapshot as Accounts};
use crate::net::Addresses;
use crate::run::RECORDING_FILE;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;
use yuzuri_scenario::Scenario;
use yuzuri_sim::{FlowState, Sender, Watch, WatchedAt};
use yuzuri_trace::recording::Writer;
use yuzuri_trace::{
    Account, CaState, Counts, CpuAccount, Density, Event, Flow, FlowId, Item, Kind, Marks, Reason, Role,
    Session, Snapshot, Source,
};

/// Number of events that are buffered before they are passed to the writer.
const MAX_HELD: usize = 4096;

/// A flow's last record.
struct Track {
    at_ns: u64,
    state: CaState,
    ssthresh: u32,
    recoveries: u64,
    timeouts: u64,
    /// Acknowledgements since then.
    acks: u16,
}

/// Records a simulated run.
pub(super) struct Recorder<'a> {
    writer: Writer,
    items: Vec<Item>,
    /// By connection.
    tracks: Vec<Option<Track>>,
    terminals: BTreeMap<FlowId, usize>,
    /// Minimum interval between samples.
    density: Density,
    account: CpuAccount,
    queues: QueueTrace,
    accounts: Vec<Accounts>,
    /// Passed to the writer instead of the current time, so that the recording does not depend on
    /// it.
    begun: Instant,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64),
}

/// The recorded data.
pub(super) struct Recorded {
    /// The terminal of each flow.
    pub(super) terminals: BTreeMap<FlowId, usize>,
    /// The accounts at the start and the end of the evaluated part.
    pub(super) snapshots: Vec<Accounts>,
    pub(super) queues: QueueTrace,
    pub(super) account: Account,
}

impl<'a> Recorder<'a> {
    pub(super) fn create(
        scenario: &Scenario,
        folder: &Path,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(f64),
    ) -> Result<Recorder<'a>, LabError> {
        let density = match Duration::from_secs_f64(scenario.sample_ms / 1000.0).as_nanos() as u64 {
            0 => Density::EveryAck,
            ns => Density::Interval { ns },
        };
        let session = Session {
            yuzuri: env!("CARGO_PKG_VERSION").into(),
            host: "simulated".into(),
            kernel: super::NO_KERNEL.into(),
            machine: std::env::consts::ARCH.into(),
            source: Source::Events,
            density,
            filter: String::new(),
            hooks: Vec::new(),
            started_unix_ns: STARTED_UNIX_NS,
            started_mono_ns: 0,
        };
        let writer = Writer::create(&folder.join(RECORDING_FILE), &session, false)
            .map_err(|error| LabError::Run(format!("the recording: {error}")))?;
        let columns = scenario.terminals().map(|terminal| terminal.name());
        let columns = columns.chain(["ap", "wire up", "wire down"].map(String::from)).collect();
        let interval_ns = Duration::from_secs_f64(scenario.queue_ms / 1000.0).as_nanos() as u64;
        Ok(Recorder {
            writer,
            items: Vec::new(),
            tracks: Vec::new(),
            terminals: BTreeMap::new(),
            density,
            account: CpuAccount::default(),
            queues: QueueTrace { columns, interval_ns, packets: Vec::new() },
            accounts: Vec::new(),
            begun: Instant::now(),
            stop,
            progress,
        })
    }

    /// Passes the buffered events to the writer.
    fn write_batch(&mut self) {
        // The writer counts what could not be written, and retries.
        let _ = self.writer.write(&self.items, self.begun);
        self.items.clear();
    }

    /// Ends the recording.
    pub(super) fn finish(mut self) -> Result<Recorded, LabError> {
        self.write_batch();
        let account = Account {
            mono_ns: self.accounts.last().map_or(0, |last| last.at.as_nanos()),
            wall_offset_ns: STARTED_UNIX_NS,
            cpus: vec![self.account],
        };
        let (account, summary) = self.writer.conclude(account);
        match summary.failed {
            Some(error) => Err(LabError::Run(format!("the recording: {error}"))),
            None => Ok(Recorded {
                terminals: self.terminals,
                snapshots: self.accounts,
                queues: self.queues,
                account,
            }),
        }
    }

    fn record(&mut self, event: Event) {
        self.account.seen += 1;
        self.account.kept += 1;
        self.items.push(Item::Event(event));
        if self.items.len() >= MAX_HELD {
            self.write_batch();
        }
    }

    /// Records the flow's identity and the opening of its connection.
    fn open(&mut self, flow: &FlowState<'_>, event: Event) {
        let addresses = Addresses { run: 0 };
        let port = 40_000 + flow.connection as u16;
        let client = SocketAddr::new(IpAddr::V4(addresses.terminal(flow.terminal)), port);
        let server = SocketAddr::new(IpAddr::V4(addresses.server()), yuzuri_transfer::DEFAULT_PORT);
        // The sending end opens the connection.
        let (local, remote) = if flow.upload { (client, server) } else { (server, client) };
        self.terminals.insert(event.flow, flow.terminal);
        let identity = Flow {
            id: event.flow,
            local,
            remote,
            congestion_control: flow.sender.algorithm().into(),
            role: Role::Opened,
            ..Flow::default()
        };
        self.account.seen += 1;
        self.account.kept += 1;
        self.items.push(Item::Flow(identity.into()));
        self.record(Event { kind: Kind::Open, reason: Reason::Opened, ..event });
    }
}

impl Watch for Recorder<'_> {
    fn interval_ns(&self) -> u64 {
        self.queues.interval_ns
    }

    fn sender(&mut self, now: Time, flow: FlowState<'_>) {
        if !flow.sender.is_established() {
            return;
        }
        let number = flow.connection as usize;
        let (window, counts) = (flow.sender.window(), flow.sender.counts());
        let state = window.state;
        let event = Event {
            mono_ns: now.as_nanos(),
            flow: FlowId(u64::from(flow.connection) + 1),
            ca_state: state,
            ca_before: state,
            marks: bound_marks(flow.sender),
            snapshot: snapshot_of(flow.sender),
            ..Event::default()
        };
        if self.tracks.len() <= number {
            self.tracks.resize_with(number + 1, || None);
        }
        let Some(mut track) = self.tracks[number].take() else {
            self.open(&flow, event);
            self.tracks[number] = Some(Track {
                at_ns: event.mono_ns,
                state,
                ssthresh: window.ssthresh,
                recoveries: counts.recoveries,
                timeouts: counts.timeouts,
                acks: 0,
            });
            return;
        };
        track.acks = track.acks.saturating_add(u16::from(flow.by_ack));
        // One acknowledgement may leave a state and enter it again.
        let mut steps: Vec<(Kind, Reason, CaState)> = Vec::new();
        let mut reached = track.state;
        if counts.timeouts > track.timeouts {
            steps.push((Kind::Timeout, Reason::Timeout, CaState::Loss));
            reached = CaState::Loss;
        }
        if counts.recoveries > track.recoveries {
            if reached == CaState::Recovery {
                steps.push((Kind::State, Reason::Recovered, CaState::Open));
            }
            steps.push((Kind::State, Reason::FastRetransmit, CaState::Recovery));
            reached = CaState::Recovery;
        }
        if reached != state {
            steps.push((Kind::State, Reason::None, state));
        }
        let since_ns = event.mono_ns - track.at_ns;
        let is_due = since_ns as u128 >= self.density.interval().as_nanos();
        if steps.is_empty() && (is_due || window.ssthresh != track.ssthresh) {
            steps.push((Kind::Sample, Reason::None, state));
        }
        if steps.is_empty() {
            self.account.thinned += 1;
        }
        for (kind, reason, to) in steps {
            let acks = std::mem::take(&mut track.acks);
            let counts = Counts { acks, ..Counts::default() };
            self.record(Event { kind, reason, ca_before: track.state, ca_state: to, counts, ..event });
            track.state = to;
            track.at_ns = event.mono_ns;
        }
        track.ssthresh = window.ssthresh;
        (track.recoveries, track.timeouts) = (counts.recoveries, counts.timeouts);
        self.tracks[number] = Some(track);
    }

    fn network(
        &mut self,
        now: Time,
        at: WatchedAt,
        cell: Option<&CellAccount>,
        wire: &WireAccount,
    ) -> ControlFlow<()> {
        // Every scenario has a cell.
        let Some(cell) = cell else { return ControlFlow::Break(()) };
        match at {
            WatchedAt::Interval => {
                let stations = cell.stations.iter().map(|station| station.queue.now);
                let rest = [cell.ap.queue.now, wire.up.queued, wire.down.queued];
                self.queues.packets.extend(stations.chain(rest).map(|packets| packets as u32));
                (self.progress)(now.as_secs_f64());
            }
            WatchedAt::WarmedUp | WatchedAt::End => {
                self.accounts.push(Accounts {
                    cell: cell.clone(),
                    second_cell: None,
                    wire: wire.clone(),
                    at: now,
                });
            }
        }
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// What the kernel's window control reports about its bound.
fn bound_marks(sender: &Sender) -> Marks {
    let mut marks = Marks::default();
    if let Some(at_bound) = sender.is_at_upper_bound() {
        marks.insert(Marks::REPORTS_BOUND);
        if at_bound {
            marks.insert(Marks::AT_BOUND);
        }
    }
    marks
}

/// The kernel's variables that the simulator has.
fn snapshot_of(sender: &Sender) -> Snapshot {
    let (window, counts) = (sender.window(), sender.counts());
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Snapshot {
        cwnd: window.cwnd,
        ssthresh: window.ssthresh,
        srtt_us: small(window.srtt_us),
        rttvar_us: small(sender.rttvar_us()),
        min_rtt_us: window.min_rtt_us.map_or(u32::MAX, small),
        packets_out: sender.outstanding(),
        sacked_out: window.sacked_out,
        lost_out: sender.lost_out(),
        retrans_out: sender.retrans_out(),
        mss: window.mss_bytes,
        snd_wnd: sender.snd_wnd_bytes().map_or(u32::MAX, small),
        notsent: sender.unsent_bytes().map_or(u32::MAX, small),
        bytes_acked: sender.acked_bytes(),
        pacing_rate_bps: if window.pacing_rate == 0 {
            u64::MAX
        } else {
            window.pacing_rate.saturating_mul(8)
        },
        total_retrans: small(counts.retransmissions),
        ..Snapshot::UNKNOWN
    }
}
