//! Measured bulk transfers over TCP. [`send`] sends buffers of 1 MB or any other size over one or
//! more connections. For each buffer it reports when it was first written, when its last packet was
//! sent and when its last byte was acknowledged, and the congestion window, slow start threshold
//! and round-trip time when the last packet was sent. [`receive`] accepts any number of senders and
//! discards the data. [`fetch`] is the reverse: it asks a receiver to send, which the receiver must
//! [allow](ReceiveOptions::reverse).
//!
//! The stream of [`send`] contains only the bytes of the buffers, so any program that reads can act
//! as the peer, for example `nc -l 4950 >/dev/null`.
//!
//! # Where the figures come from
//! The kernel timestamps the last packet of each buffer (`SO_TIMESTAMPING`) when TCP passes it to
//! the device queue, when the driver accepts it and when its ACK arrives, and adds the connection's
//! statistics at that moment. No polling and no privilege is needed. If the kernel does not support
//! this (in some sandboxes), `TCP_INFO` is polled every 2 ms instead, and the buffers are marked
//! [`BufferSource::TcpInfo`].
//!
//! # What throughput means
//! [`Buffer::throughput_bps`] is defined as in the visualizer: the buffer's bytes × 8 / (last
//! acknowledgement − first write). The kernel holds only about 20 ms of unsent data
//! (`TCP_NOTSENT_LOWAT`), so that the interval does not include the time during which megabytes of
//! earlier buffers wait in the send buffer.
//!
//! By default buffers follow each other without a pause. The interval of a buffer that is first
//! written while its predecessor is still in flight includes about one round trip during which the
//! path carries the neighbouring buffers: on a path of 10 Mbit/s and 256 ms, a buffer of 1 MB shows
//! 7.6 Mbit/s. [`Buffer::carried_bps`] counts all bytes of the connection that were acknowledged in
//! the same interval, here 10 Mbit/s, and is the value to plot against the window. With
//! [`SendOptions::wait_ack`] each buffer is written only after its predecessor is acknowledged.
//! Both values are then equal, because the path really idles in between.
//! [`SendSummary::throughput_bps`] is always total bytes over total time.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use yuzuri_transfer::{SendEvent, SendOptions, send};
//!
//! let stop = AtomicBool::new(false);
//! let mut options = SendOptions::new("server:4950".parse()?);
//! options.limits.buffers = Some(100);
//! let mut print = |event: &SendEvent| {
//!     if let SendEvent::Buffer(buffer) = event {
//!         println!("{:.1} Mbit/s, cwnd {}", buffer.throughput_bps as f64 / 1e6, buffer.cwnd);
//!     }
//!     Ok(())
//! };
//! let summary = send(&options, &mut print, &stop)?;
//! println!("{} bytes", summary.bytes_acked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod connect;
mod connection;
mod error;
mod events;
mod fetch;
mod gate;
mod ledger;
mod options;
mod payload;
mod receive;
mod report;
mod reverse;
mod send;
mod stamps;
mod sys;
mod target;
mod tcp_info;
mod throughput_histogram;

pub use error::{FailureKind, ReceiveError, SendError};
pub use events::{
    Buffer, BufferSource, Connected, ConnectionSummary, Note, Progress, SendEvent, SendSummary, Shared,
    ThroughputSpread, WarningKind,
};
pub use fetch::{FetchEvent, FetchSummary, Fetched, fetch};
pub use gate::Gate;
pub use options::{Limits, SendOptions, Shown, ShownConnection};
pub use payload::{PAYLOAD_BYTES, payload};
pub use receive::{End, Listener, ReceiveEvent, ReceiveOptions, ReceiveSummary, Received, receive};
pub use report::{
    Both, JsonLines, Report, human::FetchText, human::ReceiveText, human::SendText, limit::MaxLines,
};
pub use send::send;
pub use target::{Family, Target, TargetError};

/// Default port of `yuzuri receive` and `yuzuri send`.
pub const DEFAULT_PORT: u16 = 4950;
