//! Model of the wired path behind the access point; both directions are independent.

mod line;
mod loss;

use crate::error::check_range;
use crate::queue::QueueConfig;
use crate::{Arrival, ConfigError, Packet, Time};
use line::Line;
use serde::{Deserialize, Serialize};

pub use line::LineAccount;
pub use loss::LossConfig;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the access point to the server.
    Up,
    /// From the server to the access point.
    Down,
}

/// Configuration of one direction: a queue, a transmitter, then delay, jitter and loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineConfig {
    /// Rate, bits per second. Without it the transmitter is infinitely fast and the queue stays
    /// empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Bytes per packet on the wire beyond [`Packet::bytes`]: 4 for the Ethernet FCS (default), 24
    /// with preamble and interpacket gap.
    pub overhead_bytes: u32,
    /// Propagation delay, µs.
    pub delay_us: u64,
    /// Maximum additional delay, drawn uniformly per packet, µs. Packets do not overtake each
    /// other.
    pub jitter_us: u64,
    /// Loss after the queue.
    pub loss: LossConfig,
    /// Queue of the transmitter.
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

/// Configuration of both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WireConfig {
    /// From the access point to the server.
    pub up: LineConfig,
    /// From the server to the access point.
    pub down: LineConfig,
}

impl WireConfig {
    /// The same configuration in both directions.
    pub fn symmetric(line: LineConfig) -> WireConfig {
        WireConfig { up: line.clone(), down: line }
    }
}

/// Statistics of both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireAccount {
    /// From the access point to the server.
    pub up: LineAccount,
    /// From the server to the access point.
    pub down: LineAccount,
}

/// The wired path behind the access point.
#[derive(Clone, Debug)]
pub struct Wire<P> {
    up: Line<P>,
    down: Line<P>,
    account: WireAccount,
}

impl<P: Packet> Wire<P> {
    /// Creates an empty wire. Runs with the same seed are identical.
    ///
    /// # Errors
    /// Returns an error that names the invalid field, its value and the allowed range.
    pub fn new(config: &WireConfig, seed: u64) -> Result<Wire<P>, ConfigError> {
        config.up.check().map_err(|error| error.within("up"))?;
        config.down.check().map_err(|error| error.within("down"))?;
        Ok(Wire {
            up: Line::new(&config.up, seed, 1)?,
            down: Line::new(&config.down, seed, 2)?,
            account: WireAccount::default(),
        })
    }

    /// Like [`new`](Wire::new), for a wire behind a cell with the same seed. The random sequences
    /// of wire and cell are independent.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Wire::new).
    pub fn behind_cell(config: &WireConfig, seed: u64) -> Result<Wire<P>, ConfigError> {
        Wire::new(config, seed ^ 0x5749_5245)
    }

    /// Sends a packet at `now`, which must not precede an earlier call. A drop is counted in the
    /// statistics.
    pub fn send(&mut self, now: Time, direction: Direction, packet: P) {
        match direction {
            Direction::Up => self.up.send(now, packet, &mut self.account.up),
            Direction::Down => self.down.send(now, packet, &mut self.account.down),
        }
    }

    /// Changes the rate of both directions, starting with the next transmission.
    ///
    /// # Errors
    /// Returns an error if the rate is out of range.
    pub fn set_rate(&mut self, rate_bps: u64) -> Result<(), ConfigError> {
        check_range("rate_bps", rate_bps, 1000, 1_000_000_000_000)?;
        self.up.set_rate(rate_bps);
        self.down.set_rate(rate_bps);
        Ok(())
    }

    /// Time of the next event, an arrival or the end of a transmission, if nothing is sent before.
    pub fn next(&self) -> Option<Time> {
        match (self.up.next(), self.down.next()) {
            (Some(up), Some(down)) => Some(up.min(down)),
            (up, down) => up.or(down),
        }
    }

    /// Lower bound on the next arrival if nothing is sent before; `None` if nothing will arrive.
    /// There may be no arrival at that time, for example because of a loss; call this again then.
    pub fn next_arrival(&self) -> Option<Time> {
        [self.up.next_arrival(), self.down.next_arrival()].into_iter().flatten().min()
    }

    /// Processes all events up to and including `to`. Arrivals are appended to `out` in time order.
    /// Their `at_node` and `from` both hold the direction at whose end the packet arrived.
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

    /// Statistics so far.
    pub fn account(&self) -> &WireAccount {
        &self.account
    }
}
