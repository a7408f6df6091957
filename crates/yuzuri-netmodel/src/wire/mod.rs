//! The path behind the access point, each direction on its own.

mod line;
mod loss;

use crate::error::check_range;
use crate::queue::QueueConfig;
use crate::{Arrival, ConfigError, Packet, Time};
use line::Line;
use serde::{Deserialize, Serialize};

pub use line::LineAccount;
pub use loss::LossConfig;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the access point to the server.
    Up,
    /// From the server to the access point.
    Down,
}

/// One direction: a queue, a transmitter of some rate, then delay, jitter and loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineConfig {
    /// Bits per second; absent: infinitely fast, the queue stays empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Bytes on the wire beyond [`Packet::bytes`]: 4 for Ethernet's FCS (default), 24 with preamble and gap.
    pub overhead_bytes: u32,
    /// Time from the last bit sent to the last bit received, µs.
    pub delay_us: u64,
    /// Up to so much more, drawn evenly for each packet, µs. Packets do not overtake each other.
    pub jitter_us: u64,
    /// Loss behind the queue.
    pub loss: LossConfig,
    /// The queue in front of the transmitter.
    pub queue: QueueConfig,
}

impl Default for LineConfig {
    fn default() -> LineConfig {
        LineConfig {
            rate_bps: None,
            overhead_bytes: 4,
            delay_us: 0,
            jitter_us: 0,
            loss: LossConfig::None,
            queue: QueueConfig::drop_tail(1000),
        }
    }
}

impl LineConfig {
    fn check(&self) -> Result<(), ConfigError> {
        if let Some(rate) = self.rate_bps {
            check_range("rate_bps", rate, 1000, 1_000_000_000_000)?;
        }
        check_range("overhead_bytes", self.overhead_bytes, 0, 1000)?;
        check_range("delay_us", self.delay_us, 0, 100_000_000)?;
        check_range("jitter_us", self.jitter_us, 0, 100_000_000)?;
        self.loss.check().map_err(|error| error.within("loss"))?;
        self.queue.check().map_err(|error| error.within("queue"))
    }
}

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WireConfig {
    /// From the access point to the server.
    pub up: LineConfig,
    /// From the server to the access point.
    pub down: LineConfig,
}

impl WireConfig {
    /// The same line both ways.
    pub fn symmetric(line: LineConfig) -> WireConfig {
        WireConfig { up: line.clone(), down: line }
    }
}

/// What happened on the wire, each direction on its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireAccount {
    /// From the access point to the server.
    pub up: LineAccount,
    /// From the server to the access point.
    pub down: LineAccount,
}

/// The path behind the access point.
#[derive(Clone, Debug)]
pub struct Wire<P> {
    up: Line<P>,
    down: Line<P>,
    account: WireAccount,
}

impl<P: Packet> Wire<P> {
    /// An empty wire; one seed, one result.
    ///
    /// # Errors
    /// If a setting is out of range: its field, value and range.
    pub fn new(config: &WireConfig, seed: u64) -> Result<Wire<P>, ConfigError> {
        config.up.check().map_err(|error| error.within("up"))?;
        config.down.check().map_err(|error| error.within("down"))?;
        Ok(Wire {
            up: Line::new(&config.up, seed, 1)?,
            down: Line::new(&config.down, seed, 2)?,
            account: WireAccount::default(),
        })
    }

    /// As [`new`](Wire::new), for the wire behind a cell that has the same seed: its losses do not repeat what the radio
    /// draws.
    ///
    /// # Errors
    /// As [`new`](Wire::new).
    pub fn behind_cell(config: &WireConfig, seed: u64) -> Result<Wire<P>, ConfigError> {
        Wire::new(config, seed ^ 0x5749_5245)
    }

    /// Hands in a packet at `now`, which must not lie before earlier calls. A drop is counted in the account.
    pub fn send(&mut self, now: Time, direction: Direction, packet: P) {
        match direction {
            Direction::Up => self.up.send(now, packet, &mut self.account.up),
            Direction::Down => self.down.send(now, packet, &mut self.account.down),
        }
    }

    /// Changes the rate of both directions from the next transmission on.
    ///
    /// # Errors
    /// If the rate is out of range.
    pub fn set_rate(&mut self, rate_bps: u64) -> Result<(), ConfigError> {
        check_range("rate_bps", rate_bps, 1000, 1_000_000_000_000)?;
        self.up.set_rate(rate_bps);
        self.down.set_rate(rate_bps);
        Ok(())
    }

    /// When the next thing happens if nothing is sent before: an arrival or the end of a transmission.
    pub fn next(&self) -> Option<Time> {
        match (self.up.next(), self.down.next()) {
            (Some(up), Some(down)) => Some(up.min(down)),
            (up, down) => up.or(down),
        }
    }

    /// A moment before which nothing arrives if nothing is sent before; none if nothing will. At it there may still be no
    /// arrival (what was to arrive may have been lost): then ask again.
    pub fn next_arrival(&self) -> Option<Time> {
        [self.up.next_arrival(), self.down.next_arrival()].into_iter().flatten().min()
    }

    /// Runs everything due up to and including `to`. Arrivals are appended to `out` in the order of their times; `at_node` and
    /// `from` are both the direction, at whose end the packet arrived.
    pub fn advance(&mut self, to: Time, out: &mut Vec<Arrival<P, Direction>>) {
        loop {
            let (up, down) = (self.up.next().unwrap_or(Time::MAX), self.down.next().unwrap_or(Time::MAX));
            let at = up.min(down);
            if at > to || at == Time::MAX {
                break;
            }
            let (line, account, direction) = if up <= down {
                (&mut self.up, &mut self.account.up, Direction::Up)
            } else {
                (&mut self.down, &mut self.account.down, Direction::Down)
            };
            if let Some(packet) = line.step(at, account) {
                out.push(Arrival { at, at_node: direction, from: direction, packet });
            }
        }
    }

    /// What happened so far.
    pub fn account(&self) -> &WireAccount {
        &self.account
    }
}
