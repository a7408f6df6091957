//! Shared by the tests of steering: connections for which nobody chose a congestion control.
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

use crate::common::{Pair, accept};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use yuzuri_kernel::control::{ControlError, CubicParams};
use yuzuri_kernel::steer::{FlowState, SteerOptions, Steering};
use yuzuri_testnet::{Net, Side};

/// A unique name, so that tests can run in parallel.
pub fn name(what: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("ys{}{what}{}", std::process::id() % 100_000, NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn options(what: &str) -> SteerOptions {
    SteerOptions {
        cubic: CubicParams { name: name(what), ..CubicParams::default() },
        ..SteerOptions::default()
    }
}

/// Steers side A.
pub fn start(test: &str, net: &Net, options: SteerOptions) -> Option<Steering> {
    match net.inside(Side::A, || Steering::start(&options)) {
        Ok(steering) => Some(steering),
        Err(error @ ControlError::NotPermitted(_)) => {
            println!("{test}: skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn pair(net: &Net, from: Side, to: IpAddr) -> Pair {
    pair_with(net, from, from.other(), to)
}

/// A connection, within a side if both are the same.
pub fn pair_with(net: &Net, from: Side, at: Side, to: IpAddr) -> Pair {
    let listener = net.inside(at, || TcpListener::bind(SocketAddr::new(to, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let near = net.inside(from, || TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap());
    Pair::of(near, accept(&listener).0)
}

/// The congestion control of a connection, as the kernel reports it.
pub fn control_of(stream: &TcpStream) -> String {
    let bytes = socket2::SockRef::from(stream).tcp_congestion().unwrap();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

/// Makes one walk; returns the near end of a pair in it.
pub fn state_of(steering: &mut Steering, pair: &Pair) -> FlowState {
    let mut flows = Vec::new();
    steering.observe(&mut flows).unwrap();
    let found = flows.iter().find(|flow| flow.local == pair.near_addr());
    *found.unwrap_or_else(|| panic!("{} is not in {flows:#?}", pair.near_addr()))
}

/// Sends until the flow's window is the largest that its bound allows. The window is never above
/// it. It is below after a loss at the end of a transfer, or if the machine stalled the sender;
/// then it comes up to it again.
pub fn send_at_upper_bound(steering: &mut Steering, pair: &Pair, upper: u32) -> FlowState {
    const MAX_TRIES: usize = 20;
    for _ in 0..MAX_TRIES {
        pair.send(500_000);
        let flow = state_of(steering, pair);
        assert!(flow.cwnd <= upper, "{flow:?}");
        if flow.cwnd == upper {
            return flow;
        }
    }
    panic!("never at its bound of {upper}: {:?}", state_of(steering, pair));
}
