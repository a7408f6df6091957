//! The radio cells of the access point: one, or two on different channels. The access point bridges
//! them: its radios are ports of one device.

use super::DriverConfig;
use super::frame::Frame;
use super::station_map::StationMap;
use crate::LabError;
use yuzuri_netmodel::radio::{Cell, CellAccount, Node, To};
use yuzuri_netmodel::{Arrival, Time};

/// A cell with its terminals.
struct Radio {
    cell: Cell<Frame>,
    stations: StationMap,
}

/// The destination of a frame from a cell.
pub(super) enum FrameDestination {
    /// To the access point's host.
    Ap,
    Terminal(u16),
}

pub(super) struct Cells {
    radios: Vec<Radio>,
    arrivals: Vec<Arrival<Frame, Node>>,
}

impl Cells {
    pub(super) fn new(config: &DriverConfig) -> Result<Cells, LabError> {
        let mut radios = Vec::new();
        for (number, cell) in [&config.cell].into_iter().chain(&config.second_cell).enumerate() {
            let is_elsewhere = |terminal: &u16| config.in_second_cell.contains(terminal) != (number == 1);
            let absent: Vec<u16> = (0..cell.stations.len() as u16)
                .filter(|terminal| config.absent.contains(terminal) || is_elsewhere(terminal))
                .collect();
            let (stations, present) = StationMap::new(cell, &absent);
            // Another seed: the random events of the cells are independent.
            let cell = Cell::new(&present, config.seed.wrapping_add((number as u64) << 32));
            let cell = cell.map_err(|why| LabError::Run(format!("cell {}: {why}", number + 1)))?;
            radios.push(Radio { cell, stations });
        }
        Ok(Cells { radios, arrivals: Vec::new() })
    }

    /// A terminal associates with the access point's radio of a cell.
    pub(super) fn join(&mut self, terminal: u16, cell: usize, at: Time) {
        if let Some(radio) = self.radios.get_mut(cell) {
            radio.stations.join(terminal, at, &mut radio.cell);
        }
    }

    /// A terminal leaves its cell; the packets queued for it there are lost.
    pub(super) fn leave(&mut self, terminal: u16, at: Time) {
        for Radio { cell, stations } in &mut self.radios {
            stations.leave(terminal, at, cell);
        }
    }

    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.radios.iter().filter_map(|radio| radio.cell.next_arrival()).min()
    }

    /// Advances all cells, and returns what arrives at hosts.
    pub(super) fn advance(&mut self, to: Time, out: &mut Vec<(Time, FrameDestination, Frame)>) {
        for number in 0..self.radios.len() {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            self.radios[number].cell.advance(to, &mut arrivals);
            for Arrival { at, at_node, from, packet } in arrivals.drain(..) {
                match at_node {
                    // A station ignores the access point's retransmission of its own group frame.
                    node if node == from => {}
                    Node::Ap => self.at_ap(at, number, packet, out),
                    Node::Station(station) => {
                        let terminal = self.radios[number].stations.terminal(station);
                        out.push((at, FrameDestination::Terminal(terminal), packet));
                    }
                }
            }
            self.arrivals = arrivals;
        }
    }

    /// The access point bridges its radios, and passes all other frames to its host.
    fn at_ap(
        &mut self,
        at: Time,
        from: usize,
        packet: Frame,
        out: &mut Vec<(Time, FrameDestination, Frame)>,
    ) {
        for Radio { cell, stations } in
            self.radios.iter_mut().enumerate().filter(|(number, _)| *number != from).map(|(_, radio)| radio)
        {
            match stations.goes_to(&packet) {
                To::One(Node::Ap) => {}
                To::Group => cell.send(at, Node::Ap, To::Group, packet.clone()),
                to => return cell.send(at, Node::Ap, to, packet),
            }
        }
        out.push((at, FrameDestination::Ap, packet));
    }

    /// A terminal sends a frame; one that is not associated cannot.
    pub(super) fn send(&mut self, now: Time, terminal: u16, frame: Frame) {
        let there = self.radios.iter_mut().find_map(|radio| Some((radio.stations.node(terminal)?, radio)));
        if let Some((from, Radio { cell, stations })) = there {
            cell.send(now, from, stations.goes_to(&frame), frame);
        }
    }

    /// The access point sends a frame to a terminal. If the terminal is not associated, no station
    /// receives the packet, as when the host forwards it.
    pub(super) fn send_to(&mut self, now: Time, terminal: u16, frame: Frame) {
        let there = self.radios.iter().position(|radio| radio.stations.node(terminal).is_some());
        if let Some(Radio { cell, stations }) = self.radios.get_mut(there.unwrap_or(0)) {
            let node = stations.node(terminal).unwrap_or(Node::Ap);
            cell.send(now, Node::Ap, To::One(node), frame);
        }
    }

    /// The access point's host sends a frame.
    pub(super) fn send_from_host(&mut self, now: Time, frame: Frame) {
        let last = self.radios.len().saturating_sub(1);
        for Radio { cell, stations } in &mut self.radios[..last] {
            match stations.goes_to(&frame) {
                To::One(Node::Ap) => {}
                To::Group => cell.send(now, Node::Ap, To::Group, frame.clone()),
                to => return cell.send(now, Node::Ap, to, frame),
            }
        }
        if let Some(Radio { cell, stations }) = self.radios.last_mut() {
            cell.send(now, Node::Ap, stations.goes_to(&frame), frame);
        }
    }

    /// The cells' accounts, with the terminals in order.
    pub(super) fn accounts(&self) -> Vec<CellAccount> {
        self.radios.iter().map(|radio| radio.stations.in_order(radio.cell.account())).collect()
    }

    /// The queue of a terminal, packets.
    pub(super) fn queued_at(&self, terminal: u16) -> u64 {
        let of =
            |radio: &Radio| radio.cell.account().node(radio.stations.node(terminal)?).map(|n| n.queue.now);
        self.radios.iter().find_map(of).unwrap_or(0)
    }

    /// The queues of the access point's radios, packets.
    pub(super) fn queued_at_ap(&self) -> u64 {
        self.radios.iter().map(|radio| radio.cell.account().ap.queue.now).sum()
    }
}
