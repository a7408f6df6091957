//! Determines what limits a TCP sender: exactly one [`Limit`] for each interval of its time.
//!
//! This crate does no I/O and has no clock. Its callers pass in their observations: the kernel's
//! own values (at every ACK, or polled), or packets captured at the sender or at the receiver. The
//! answers use the same terms for all of them, so that a recording, the live page and a capture of
//! one transfer can be compared.
//!
//! ```
//! use yuzuri_limits::{Classifier, Limit, LimitTimes, Observation};
//!
//! // A receiver whose window is 20 kB, seen at an ACK each 10 ms.
//! let at = |time_us: u64| Observation {
//!     time_us,
//!     mss_bytes: 1000,
//!     cwnd_segments: 50,
//!     in_flight_segments: 20,
//!     outstanding_bytes: 20_000,
//!     receive_window_bytes: Some(20_000),
//!     unsent_bytes: Some(100_000),
//!     ..Observation::default()
//! };
//! let (mut classifier, mut times) = (Classifier::default(), LimitTimes::default());
//! for n in 0..=100 {
//!     classifier.observe(&at(n * 10_000), |stretch| times.add(stretch.limit, stretch.to_us - stretch.from_us));
//! }
//! assert_eq!(times.share(Limit::ReceiverWindow), 1.0);
//! ```

mod bound;
mod buffer;
mod classifier;
mod limit;
mod losses;
mod observation;
mod pace;
mod previous;
mod reader;
mod times;

pub use classifier::{Classifier, LimitInterval};
pub use limit::{Limit, ParseLimitError};
pub use losses::came_before;
pub use observation::{Moment, Observation, Reduction, significant_queue_us};
pub use reader::Reader;
pub use times::LimitTimes;
