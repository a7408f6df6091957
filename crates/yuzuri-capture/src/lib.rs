//! Turns any packet capture into TCP segments by flow: pcap, pcapng, snoop and ERF, plain or
//! compressed, from files or streams, in bounded memory and at memory speed.
//!
//! ```no_run
//! use yuzuri_capture::{Capture, Item, Options};
//!
//! let mut capture = Capture::open("transfer.pcap.xz", &Options::default())?;
//! while let Some(item) = capture.next_item()? {
//!     match item {
//!         Item::Segment(&segment) if segment.first => println!("{}", capture.key(segment.flow).expect("its flow")),
//!         Item::Segment(_) => {}
//!         // Its slot is used again.
//!         Item::Ended(flow) => println!("{} is over", capture.key(flow).expect("its flow")),
//!     }
//! }
//! println!("{:?}", capture.facts());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No byte of a capture is trusted. Unreadable packets are counted by reason in [`FileFacts`] and
//! skipped, a truncated or damaged file yields everything before the damage, and memory use depends
//! only on [`Options`].
#![forbid(unsafe_code)]

mod buffer;
mod capture;
pub mod checksum;
mod error;
mod facts;
mod file;
mod flows;
mod header_prediction;
mod input;
mod ip;
mod link;
mod partition;
mod segment;
mod sniff;
mod tcp;
mod tunnel;
mod write;

pub use capture::{Capture, Flows, Item, Options};
pub use error::{OpenError, ReadError};
pub use facts::{
    Checksums, Clock, Compression, Damage, Ending, FileFacts, FlowCounts, Format, LinkTypeCount, Skipped,
    Tunnels,
};
pub use flows::{FlowClock, FlowKey, FlowSlot};
pub use input::Unpacked;
pub use partition::Partition;
pub use segment::{Checksum, Ecn, End, Flags, SackBlocks, Segment, TcpOptions};
pub use sniff::is_capture;
pub use write::{Framing, NewSegment, PcapWriter};
