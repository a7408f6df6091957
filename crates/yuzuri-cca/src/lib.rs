//! Linux's congestion control algorithms without I/O and clock: what `net/ipv4/tcp_*.c` does to the
//! window.
//!
//! An algorithm operates on a [`Window`] and is called like a kernel module
//! ([`CongestionControl`]). Its driver, such as the simulated sender or a replay of a recorded
//! connection, must keep the window's time, acknowledged segments, RTTs and state up to date.
//!
//! ```
//! use yuzuri_cca::{Algorithm, SlowStartExit, Window};
//!
//! let mut algorithm = Algorithm::Reno.make(SlowStartExit::Loss, 1);
//! let mut window = Window::new(250, 1448, false);
//! window.cwnd_limited = true;
//! algorithm.init(&mut window);
//! algorithm.cong_avoid(&mut window, 10);
//! assert_eq!(window.cwnd, 20);
//! assert_eq!(algorithm.ssthresh(&mut window), 10);
//! ```

mod algorithm;
mod bbr;
mod bbr3;
mod bic;
mod ca_state;
mod cdg;
mod congestion_control;
mod cubic;
mod cubic_params;
mod dctcp;
mod facts;
mod highspeed;
mod htcp;
mod hybla;
mod hystart;
mod illinois;
mod lp;
mod nv;
mod reno;
mod scalable;
mod time;
mod vegas;
mod veno;
mod westwood;
mod window;
mod yeah;

pub use algorithm::Algorithm;
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use bic::Bic;
pub use ca_state::CaState;
pub use cdg::Cdg;
pub use congestion_control::{
    AckEvent, AckSample, CloneControl, CongestionControl, CwndEvent, LostSegment, RateSample, Timestamps,
};
pub use cubic::{Cubic, CubicConstants};
pub use cubic_params::{Bound, CubicParams, CubicParamsError};
pub use dctcp::Dctcp;
pub use facts::{BOUNDED_CCA, CcaKind, Facts, Form, Prevalence};
pub use highspeed::HighSpeed;
pub use htcp::Htcp;
pub use hybla::Hybla;
pub use hystart::SlowStartExit;
pub use illinois::Illinois;
pub use lp::Lp;
pub use nv::Nv;
pub use reno::Reno;
pub use scalable::Scalable;
pub use vegas::Vegas;
pub use veno::Veno;
pub use westwood::Westwood;
pub use window::{INITIAL_WINDOW, NO_SSTHRESH, Window};
pub use yeah::Yeah;
