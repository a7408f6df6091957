//! Maps terminals to stations of the model.

use super::frame::Frame;
use crate::net::station_of;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::{Cell, CellAccount, CellConfig, Node, NodeAccount, StationConfig, To};

/// The mapping between terminals and stations: the model numbers stations in the order in which
/// they associate.
pub(super) struct StationMap {
    stations: Vec<StationConfig>,
    /// By terminal: its current or last station.
    last: Vec<Option<u16>>,
    /// By terminal: whether it is associated.
    there: Vec<bool>,
    /// By station.
    terminals: Vec<u16>,
}

impl StationMap {
    /// Creates the mapping, and the cell with the terminals present at the start.
    pub(super) fn new(cell: &CellConfig, absent: &[u16]) -> (StationMap, CellConfig) {
        let count = cell.stations.len() as u16;
        let terminals: Vec<u16> = (0..count).filter(|terminal| !absent.contains(terminal)).collect();
        let mut last = vec![None; cell.stations.len()];
        let mut there = vec![false; cell.stations.len()];
        for (station, terminal) in terminals.iter().enumerate() {
            last[usize::from(*terminal)] = Some(station as u16);
            there[usize::from(*terminal)] = true;
        }
        let present =
            terminals.iter().map(|terminal| cell.stations[usize::from(*terminal)].clone()).collect();
        let start = CellConfig { stations: present, ..cell.clone() };
        (StationMap { stations: cell.stations.clone(), last, there, terminals }, start)
    }

    pub(super) fn terminal(&self, station: u16) -> u16 {
        self.terminals[usize::from(station)]
    }

    pub(super) fn node(&self, terminal: u16) -> Option<Node> {
        let at = usize::from(terminal);
        if *self.there.get(at)? { self.last[at].map(Node::Station) } else { None }
    }

    pub(super) fn join(&mut self, terminal: u16, at: Time, cell: &mut Cell<Frame>) {
        let number = usize::from(terminal);
        // The configuration was validated with all terminals present.
        if let Some(station) = self.stations.get(number)
            && let Ok(place) = cell.join(at, station)
        {
            let at = usize::from(place);
            // The station number of a terminal that left may be reused, and its account with it.
            if let Some(before) = self.terminals.get(at).copied() {
                self.last[usize::from(before)] = None;
            } else {
                self.terminals.resize(at + 1, terminal);
            }
            self.terminals[at] = terminal;
            (self.last[number], self.there[number]) = (Some(place), true);
        }
    }

    pub(super) fn leave(&mut self, terminal: u16, at: Time, cell: &mut Cell<Frame>) {
        if let Some(Node::Station(station)) = self.node(terminal) {
            cell.leave(at, station);
            self.there[usize::from(terminal)] = false;
        }
    }

    /// The destination of a frame by its MAC address. An unknown address goes to the access point,
    /// whose host drops it.
    pub(super) fn goes_to(&self, frame: &Frame) -> To {
        match frame.destination() {
            Some(mac) if mac[0] & 1 == 1 => To::Group,
            Some(mac) => {
                To::One(station_of(mac).and_then(|terminal| self.node(terminal)).unwrap_or(Node::Ap))
            }
            None => To::One(Node::Ap),
        }
    }

    /// The account with the terminals in order.
    pub(super) fn in_order(&self, account: &CellAccount) -> CellAccount {
        let of = |station: &Option<u16>| {
            station.and_then(|n| account.node(Node::Station(n)).copied()).unwrap_or_default()
        };
        let stations: Vec<NodeAccount> = self.last.iter().map(of).collect();
        CellAccount { stations, ..account.clone() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_netmodel::radio::Phy;

    #[test]
    fn a_freed_place_is_reused() {
        let config = CellConfig::new(vec![StationConfig::new(Phy::g(54)); 3]);
        let (mut stations, present) = StationMap::new(&config, &[2]);
        let mut cell: Cell<Frame> = Cell::new(&present, 1).unwrap();
        assert_eq!(stations.node(1), Some(Node::Station(1)));
        assert_eq!(stations.node(2), None);
        stations.leave(0, Time::from_nanos(1), &mut cell);
        assert_eq!(stations.node(0), None);
        // The third terminal takes over the first one's number.
        stations.join(2, Time::from_nanos(2), &mut cell);
        assert_eq!((stations.node(2), stations.terminal(0)), (Some(Node::Station(0)), 2));
        // The first one returns with a new number, and all of them are distinguished.
        stations.join(0, Time::from_nanos(3), &mut cell);
        assert_eq!((stations.node(0), stations.terminal(2)), (Some(Node::Station(2)), 0));
        for terminal in 0..3 {
            let Some(Node::Station(station)) = stations.node(terminal) else { panic!("{terminal} is there") };
            assert_eq!(stations.terminal(station), terminal);
        }
        assert_eq!(stations.in_order(cell.account()).stations.len(), 3);
    }
}
