//! The transfer of buffers: [`send`] sends buffers of 1 MB, or of any size, over one or more connections and tells
//! of each when it was first written, when its last packet was sent, when its last byte was acknowledged, and what
//! congestion window, slow start threshold and round-trip time the connection had when that last packet was sent.
//! [`receive`] takes what many send and throws it away.
//!
//! On the wire there is nothing but the bytes of the buffers, so that anything that reads will do as the other
//! end: `nc -l 4950 >/dev/null`, for one.
//!
//! # Where the figures come from
//! The kernel stamps the last packet of each buffer (`SO_TIMESTAMPING`: TCP handed it to the device, the driver took
//! it, its ACK came) and adds the connection's variables of that very moment. Nothing is polled in between, and no
//! privilege is needed. Where the kernel does not do that (some sandboxes), `TCP_INFO` is polled every 2 ms instead,
//! and such buffers are marked [`BufferSource::TcpInfo`].
//!
//! # What throughput means
//! [`Buffer::throughput_bps`] is that of the visualizer: the buffer's bytes × 8 / (last acknowledgement − first
//! write). To keep this honest, the kernel holds only about 20 ms of unsent data (`TCP_NOTSENT_LOWAT`), so that a
//! buffer's first write is not counted while megabytes of earlier buffers wait in front of it.
//!
//! By default buffers follow each other without a pause. One that is first written while the one before it is
//! still in flight then includes about one round trip in which the path works for its neighbours: on a path of
//! 10 Mbit/s and 256 ms, a buffer of 1 MB shows 7.6 Mbit/s. [`Buffer::carried_bps`] counts all bytes of the connection that
//! were acknowledged between the same two moments, 10 Mbit/s here, and is the one to plot against the window.
//! With [`SendOptions::wait_ack`] each buffer is written only when the one before it is acknowledged; both figures
//! are then the same and both true, because the path really idles in between. [`SendSummary::throughput_bps`] is all bytes
//! over the whole time, in either mode.
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
mod gate;
mod ledger;
mod options;
mod payload;
mod receive;
mod report;
mod send;
mod spread;
mod stamps;
mod sys;
mod target;
mod tcp_info;

pub use error::{FailureKind, ReceiveError, SendError};
pub use events::{
    Buffer, BufferSource, Connected, ConnectionSummary, Note, Progress, SendEvent, SendSummary, Shared,
    ThroughputSpread, WarningKind,
};
pub use gate::Gate;
pub use options::{Limits, SendOptions, Shown, ShownConnection};
pub use payload::{PAYLOAD_BYTES, payload};
pub use receive::{End, Listener, ReceiveEvent, ReceiveOptions, ReceiveSummary, Received, receive};
pub use report::{Both, JsonLines, Report, human::ReceiveText, human::SendText, limit::MaxLines};
pub use send::send;
pub use target::{Family, Target, TargetError};

/// The port of `yuzuri receive`, and of `yuzuri send` where none is given.
pub const DEFAULT_PORT: u16 = 4950;
