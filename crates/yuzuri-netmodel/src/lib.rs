//! Models of a packet's path: one 802.11 cell ([`radio::Cell`]), the wired path behind its access
//! point ([`wire::Wire`]) and their queues ([`queue`]). All are pure state machines without I/O,
//! clock or threads; the driver supplies the time.
//!
//! A driver must call [`advance`](radio::Cell::advance) up to the present time before it calls
//! [`send`](radio::Cell::send).
//!
//! ```
//! use yuzuri_netmodel::radio::{Cell, CellConfig, Node, Phy, StationConfig, To};
//! use yuzuri_netmodel::{Packet, Time};
//!
//! #[derive(Clone)]
//! struct Segment;
//! impl Packet for Segment {
//!     fn bytes(&self) -> u32 {
//!         1514
//!     }
//!     fn flow(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! let config = CellConfig::new(vec![StationConfig::new(Phy::ac(80, 1, 9)); 2]);
//! let mut cell = Cell::new(&config, 1)?;
//! cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), Segment);
//! let mut arrivals = Vec::new();
//! while let Some(at) = cell.next() {
//!     cell.advance(at, &mut arrivals);
//! }
//! assert_eq!(arrivals.len(), 1);
//! assert_eq!((arrivals[0].at_node, arrivals[0].from), (Node::Ap, Node::Station(0)));
//! # Ok::<(), yuzuri_netmodel::ConfigError>(())
//! ```
//!
//! `docs/radio.md` describes what the radio model covers, what it leaves out and how it is
//! validated.

mod error;
pub mod fairness;
mod packet;
pub mod queue;
pub mod radio;
mod random;
mod time;
pub mod wire;

pub use error::ConfigError;
pub use packet::{Arrival, Packet};
pub use random::Random;
pub use time::Time;
