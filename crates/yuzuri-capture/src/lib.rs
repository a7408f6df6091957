//! From the bytes of any packet capture to TCP segments by flow: pcap, pcapng, snoop and ERF, plain or compressed, of files or of
//! streams, in bounded memory and at the speed of the memory they come from.
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
//! No byte of a capture is trusted: what cannot be read is counted by reason in [`FileFacts`] and passed over, a file that is
//! cut or damaged gives all that comes before, and the memory in use depends on [`Options`] alone.
#![forbid(unsafe_code)]

mod buffer;
mod capture;
mod checksum;
mod error;
mod facts;
mod file;
mod flows;
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
