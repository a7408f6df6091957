//! The cell's nodes and the interface through which it is driven. `exchange` implements the events
//! on the channel.

use super::account::{CellAccount, NodeAccount};
use super::backlog::{Backlog, BacklogDrops, GROUP, Item, Receiver};
use super::config::MAX_STATIONS;
use super::contention::{Contention, NodeIndex};
use super::exchange::{Channel, OnAir};
use super::frame_terms::FrameTerms;
use super::ledger::{Ledger, node_account};
use super::link::Link;
use super::voice::Voice;
use super::{Access, CellConfig, Node, Phy, StationConfig, Timing, To};
use crate::random::Random;
use crate::{Arrival, ConfigError, Packet, Time};

/// Index of the access point.
pub(super) const AP: NodeIndex = 0;

/// Sending side of one node.
#[derive(Clone, Debug)]
pub(super) struct Terminal<P> {
    /// Whether the node is associated; always true for the access point.
    pub(super) present: bool,
    pub(super) backlog: Backlog<P>,
    pub(super) voice: Voice<P>,
    /// Links by receiver.
    pub(super) links: Vec<Link<P>>,
    /// Receiver of MPDUs that await a retransmission. It is served first.
    pub(super) unfinished: Option<Receiver>,
    /// Frame durations of the link to the access point; unused for the access point itself.
    pub(super) terms: FrameTerms,
    pub(super) mpdu_error_rate: f64,
    access: Option<Access>,
}

impl<P: Packet> Terminal<P> {
    /// Number of queued packets, excluding those that the MAC has dequeued.
    pub(super) fn packets(&self) -> usize {
        self.backlog.packets() + self.voice.packets()
    }
}

/// One 802.11 cell.
#[derive(Clone, Debug)]
pub struct Cell<P> {
    pub(super) config: CellConfig,
    pub(super) timing: Timing,
    pub(super) random: Random,
    /// The access point, followed by the stations.
    pub(super) nodes: Vec<Terminal<P>>,
    pub(super) contention: Contention,
    pub(super) channel: Channel,
    pub(super) on_air: Vec<OnAir>,
    pub(super) group_on_air: Option<Item<P>>,
    pub(super) ledger: Ledger,
    pub(super) account: CellAccount,
    pub(super) winners: Vec<(NodeIndex, Time)>,
    pub(super) ends: Vec<(Time, NodeIndex)>,
    /// Minimum duration of a frame that carries a packet, ns.
    pub(super) min_frame_ns: u64,
    /// The time up to which the cell has been simulated.
    pub(super) now: Time,
    /// Arrivals from calls other than `advance` that had to advance the cell. The next `advance`
    /// returns them.
    early_arrivals: Vec<Arrival<P, Node>>,
}

impl<P: Packet> Cell<P> {
    /// Creates an idle cell. Runs with the same seed are identical.
    ///
    /// # Errors
    /// Returns an error that names the invalid field, its value and the allowed values.
    pub fn new(config: &CellConfig, seed: u64) -> Result<Cell<P>, ConfigError> {
        config.check()?;
        let timing = Timing::new(config.band);
        let mut cell = Cell {
            config: CellConfig { stations: Vec::new(), ..config.clone() },
            timing,
            random: Random::new(seed, 11),
            nodes: Vec::new(),
            contention: Contention::new(timing, Random::new(seed, 12)),
            channel: Channel::Idle,
            on_air: Vec::new(),
            group_on_air: None,
            ledger: Ledger::default(),
            account: CellAccount::default(),
            winners: Vec::new(),
            ends: Vec::new(),
            min_frame_ns: 0,
            now: Time::ZERO,
            early_arrivals: Vec::new(),
        };
        // The access point transmits at the rates of its stations; its own terms are not used.
        cell.nodes.push(Terminal {
            present: true,
            backlog: Backlog::new(&config.ap.queue, config.ap.airtime_fairness),
            voice: Voice::new(),
            links: vec![Link::new()],
            unfinished: None,
            terms: FrameTerms::new(Phy::g(6), config, timing),
            mpdu_error_rate: 0.0,
            access: config.ap.access,
        });
        cell.contention.add(config.ap.access.unwrap_or(Access::DCF), false);
        for station in &config.stations {
            cell.add_station(station);
        }
        cell.stations_changed();
        Ok(cell)
    }

    /// Queues a packet at node `from` at time `now`; a drop is counted in the statistics. `now`
    /// must not precede an earlier call. Events due up to `now` are processed first, and the next
    /// [`advance`](Cell::advance) returns their arrivals.
    pub fn send(&mut self, now: Time, from: Node, to: To, packet: P) {
        let now = self.catch_up(now);
        let Some(node) = self.index(from) else {
            // A station that never existed has no statistics of its own.
            self.account.unknown_senders += 1;
            return;
        };
        self.enqueue(now, node, Item { packet, origin: from, to, order: 0 });
    }

    /// Time of the next event if nothing is sent before.
    pub fn next(&self) -> Option<Time> {
        self.early_arrival().or_else(|| Some(self.due()).filter(|at| *at != Time::MAX))
    }

    pub(super) fn early_arrival(&self) -> Option<Time> {
        self.early_arrivals.first().map(|arrival| arrival.at)
    }

    /// Processes all events up to and including `to`. Arrivals are appended to `out` in time order.
    pub fn advance(&mut self, to: Time, out: &mut Vec<Arrival<P, Node>>) {
        out.append(&mut self.early_arrivals);
        self.run(to, out);
    }

    /// Statistics up to the time of the last call.
    pub fn account(&self) -> &CellAccount {
        &self.account
    }

    /// Associates a station at `now` and returns its number, the lowest free one. The statistics of
    /// an earlier station with the same number continue.
    ///
    /// # Errors
    /// Returns an error if the station's configuration is invalid or 2007 stations are already
    /// associated.
    pub fn join(&mut self, now: Time, station: &StationConfig) -> Result<u16, ConfigError> {
        station.check(self.config.band).map_err(|error| error.within("station"))?;
        self.catch_up(now);
        let number =
            match (1..self.nodes.len()).find(|node| !self.nodes[*node].present && !self.is_on_air(*node)) {
                Some(node) => {
                    self.place_station(node, station);
                    node - 1
                }
                None if self.nodes.len() <= MAX_STATIONS => {
                    self.add_station(station);
                    self.nodes.len() - 2
                }
                None => {
                    let why =
                        "an access point has association identifiers for 2007 stations; let one leave first";
                    return Err(ConfigError::new("stations", self.nodes.len(), why));
                }
            };
        self.stations_changed();
        Ok(number as u16)
    }

    /// Removes a station at `now`. Packets queued at or for it are dropped and counted as departed.
    /// Does nothing if the station is not associated.
    pub fn leave(&mut self, now: Time, station: u16) {
        let now = self.catch_up(now);
        let Some(node) = self.index(Node::Station(station)).filter(|node| self.nodes[*node].present) else {
            return;
        };
        self.nodes[node].present = false;
        self.cancel(node);
        self.discard(now, node, 1);
        self.discard(now, AP, node);
        // A node in an exchange is dealt with at the end of the exchange.
        for idle in [node, AP] {
            if !self.is_on_air(idle) && !self.has_work(idle) {
                self.contention.withdraw(idle);
            }
        }
        if matches!(self.channel, Channel::Idle) {
            self.contention.find_next();
        }
        self.stations_changed();
    }

    /// Changes the rate between a station and the access point, starting with the next frame.
    /// Packets stay in the access category in which they were queued; voice queued from now on may
    /// overtake voice that a radio without EDCA queued as best effort.
    ///
    /// # Errors
    /// Returns an error if the rate is invalid or the station is not associated.
    pub fn set_phy(&mut self, now: Time, station: u16, phy: Phy) -> Result<(), ConfigError> {
        let known = self.index(Node::Station(station)).filter(|node| self.nodes[*node].present);
        let Some(node) = known else {
            let why = format!("no such station; there are {}", self.nodes.len() - 1);
            return Err(ConfigError::new("station", station, why));
        };
        let mut config = StationConfig::new(phy);
        config.access = self.nodes[node].access;
        config.check(self.config.band)?;
        self.catch_up(now);
        self.nodes[node].terms = FrameTerms::new(phy, &self.config, self.timing);
        self.contention.set_access(node, config.access(), phy.is_qos());
        self.stations_changed();
        if matches!(self.channel, Channel::Idle) {
            self.contention.find_next();
        }
        Ok(())
    }

    /// Changes the probability, 0 to 1, that an MPDU between a station and the access point is
    /// corrupted.
    ///
    /// # Errors
    /// Returns an error if the probability is out of range or the station is not associated.
    pub fn set_mpdu_error_rate(
        &mut self,
        now: Time,
        station: u16,
        probability: f64,
    ) -> Result<(), ConfigError> {
        crate::error::check_range("mpdu_error_rate", probability, 0.0, 1.0)?;
        let Some(node) = self.index(Node::Station(station)).filter(|node| self.nodes[*node].present) else {
            let why = format!("no such station; there are {}", self.nodes.len() - 1);
            return Err(ConfigError::new("station", station, why));
        };
        self.catch_up(now);
        self.nodes[node].mpdu_error_rate = probability;
        Ok(())
    }

    /// Number of stations that exist or existed. All station numbers are below it.
    pub fn stations(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether a station is associated.
    pub fn is_present(&self, station: u16) -> bool {
        self.index(Node::Station(station)).is_some_and(|node| self.nodes[node].present)
    }

    /// Number of packets in a node's queue, excluding those that the MAC has dequeued.
    pub fn queued(&self, node: Node) -> usize {
        self.index(node).map_or(0, |node| self.nodes[node].packets())
    }

    fn add_station(&mut self, station: &StationConfig) {
        let terms = FrameTerms::new(station.phy, &self.config, self.timing);
        self.contention.add(station.access(), station.phy.is_qos());
        self.nodes.push(Terminal {
            present: true,
            backlog: Backlog::new(&station.queue, false),
            voice: Voice::new(),
            links: vec![Link::new(), Link::new()],
            unfinished: None,
            terms,
            mpdu_error_rate: station.mpdu_error_rate,
            access: station.access,
        });
        self.nodes[AP].links.push(Link::new());
        self.account.stations.push(NodeAccount::default());
    }

    /// Reuses the entry of a station that left.
    fn place_station(&mut self, node: NodeIndex, station: &StationConfig) {
        let terminal = &mut self.nodes[node];
        terminal.present = true;
        terminal.backlog = Backlog::new(&station.queue, false);
        terminal.voice = Voice::new();
        terminal.terms = FrameTerms::new(station.phy, &self.config, self.timing);
        terminal.mpdu_error_rate = station.mpdu_error_rate;
        terminal.access = station.access;
        self.contention.set_access(node, station.access(), station.phy.is_qos());
        self.contention.reset(node);
    }

    /// Updates what depends on the set of stations: the access point uses QoS if at least one
    /// station does, and the fastest station determines the shortest frame.
    fn stations_changed(&mut self) {
        self.find_min_frame();
        let qos = self.nodes[1..].iter().any(|station| station.present && station.terms.phy.is_qos());
        let usual = if qos { Access::BEST_EFFORT } else { Access::DCF };
        self.contention.set_access(AP, self.nodes[AP].access.unwrap_or(usual), qos);
    }

    fn index(&self, node: Node) -> Option<NodeIndex> {
        match node {
            Node::Ap => Some(AP),
            Node::Station(number) => Some(usize::from(number) + 1).filter(|node| *node < self.nodes.len()),
        }
    }

    pub(super) fn node(index: NodeIndex) -> Node {
        match index.checked_sub(1) {
            None => Node::Ap,
            Some(station) => Node::Station(station as u16),
        }
    }

    /// Frame durations between a node and a receiver: those of the station of the two.
    pub(super) fn terms(&self, node: NodeIndex, receiver: Receiver) -> &FrameTerms {
        &self.nodes[if node == AP { receiver } else { node }].terms
    }

    pub(super) fn has_work(&self, node: NodeIndex) -> bool {
        self.nodes[node].unfinished.is_some() || self.nodes[node].packets() > 0
    }

    /// Queues an item at a node.
    pub(super) fn enqueue(&mut self, now: Time, node: NodeIndex, item: Item<P>) {
        let receiver = if node == AP {
            match item.to {
                To::Group => Some(GROUP),
                To::One(to) => self.index(to).filter(|to| *to != AP && self.nodes[*to].present),
            }
        } else {
            // A station sends everything to the access point first.
            let myself = item.to == To::One(Self::node(node));
            let known = match item.to {
                To::One(to) => self.index(to).is_some(),
                To::Group => true,
            };
            (self.nodes[node].present && known && !myself).then_some(1)
        };
        let account = node_account(&mut self.account, node);
        let Some(receiver) = receiver else {
            account.offered += 1;
            account.drops.departed += 1;
            return;
        };
        if receiver == GROUP {
            account.group.offered += 1;
            account.group.queued += 1;
        } else {
            account.offered += 1;
        }
        let mut drops = BacklogDrops::default();
        // A group-addressed frame of the access point carries no access category.
        let voice = receiver != GROUP && item.is_voice() && self.terms(node, receiver).phy.is_qos();
        let terminal = &mut self.nodes[node];
        if !voice {
            terminal.backlog.push(now, receiver, item, &mut drops);
        } else if !terminal.voice.push(receiver, item) {
            drops.one.overflow += 1;
        }
        let account = node_account(&mut self.account, node);
        account.count_drops(&drops);
        account.queue.set(now, terminal.packets());
        if terminal.packets() > 0 && !self.is_on_air(node) {
            self.ledger.settle(now, self.contention.has_contenders(), &mut self.account);
            let in_exchange = !matches!(self.channel, Channel::Idle);
            let busy = in_exchange && !self.is_about_to_respond(node, now);
            if voice {
                self.contention.preempt_by_voice(node, now, busy, in_exchange);
            } else {
                self.contention.request(node, now, busy, in_exchange);
            }
        }
    }

    /// Drops all packets that a node holds for a receiver.
    fn discard(&mut self, now: Time, node: NodeIndex, receiver: Receiver) {
        let terminal = &mut self.nodes[node];
        let waiting = (terminal.backlog.clear(receiver) + terminal.voice.clear(receiver)) as u64;
        if terminal.voice.is_empty() {
            self.contention.resume_best_effort(node);
        }
        let in_mac = terminal.links[receiver].clear() as u64;
        if terminal.unfinished == Some(receiver) {
            terminal.unfinished = None;
        }
        let account = node_account(&mut self.account, node);
        account.drops.departed += waiting + in_mac;
        account.in_mac -= in_mac;
        account.queue.set(now, terminal.packets());
    }

    /// Processes events up to `now`, which cannot go back in time. Keeps the arrivals for
    /// `advance`.
    fn catch_up(&mut self, now: Time) -> Time {
        let mut early_arrivals = std::mem::take(&mut self.early_arrivals);
        self.run(now.max(self.now), &mut early_arrivals);
        self.early_arrivals = early_arrivals;
        self.now
    }

    fn run(&mut self, to: Time, out: &mut Vec<Arrival<P, Node>>) {
        loop {
            let at = self.due();
            if at > to || at == Time::MAX {
                break;
            }
            self.step(at, out);
        }
        if to > self.now && to != Time::MAX {
            self.now = to;
        }
        self.ledger.settle(self.now, self.contention.has_contenders(), &mut self.account);
        self.account.at_ns = self.now.as_nanos();
    }
}
