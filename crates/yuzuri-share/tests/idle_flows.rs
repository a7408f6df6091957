//! Thousands of idle flows: the daemon skips them, lists the largest flows, and still counts every
//! one.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, keyed};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use yuzuri_share::{MAX_ROWS, Status};

const FLOWS: usize = 2_000;

struct Idle {
    near: TcpStream,
    far: TcpStream,
}

fn connect(cell: &Cell) -> Vec<Idle> {
    let to = SocketAddr::new(Ipv4Addr::new(10, 88, 0, 100).into(), 0);
    let listener = cell.inside(0, || TcpListener::bind(to).unwrap());
    let address = listener.local_addr().unwrap();
    cell.inside(1, || {
        let one = |_| {
            let near = TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap();
            Idle { near, far: listener.accept().unwrap().0 }
        };
        (0..FLOWS).map(one).collect()
    })
}

fn counts(status: &Status) -> (usize, u32, u32, u32) {
    let Some(interface) = status.interfaces.first() else { return (0, 0, 0, 0) };
    let counts = &interface.flow_counts;
    (interface.flows.len(), counts.all, counts.idle, counts.left_out)
}

#[test]
fn idle_flows_are_omitted_and_counted_until_they_send() {
    const TEST: &str = "idle_flows_are_omitted_and_counted_until_they_send";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let mut flows = connect(&cell);
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(3)) else { return };
    let (all, left_out) = (FLOWS as u32, (FLOWS - MAX_ROWS) as u32);
    let at_rest = (MAX_ROWS, all, all, left_out);
    let status = instance.until("every flow at rest", |status| counts(status) == at_rest);
    // 18,000 flows with one row each would be 5 MB.
    let length = serde_json::to_vec(status.as_ref()).unwrap().len();
    assert!(length < 120_000, "{length} bytes");
    let text = yuzuri_share::table(&status);
    assert!(text.contains(&format!("and {left_out} more of {all} flows")), "{text}");
    // A request for all flows returns all of them; the next status is as short as before.
    let asked = instance.status_cell.ask_for_all();
    assert!(yuzuri_testnet::eventually(|| instance.status_cell.all_since(asked).is_some()));
    let every = instance.status_cell.all_since(asked).unwrap();
    assert_eq!(counts(&every), (FLOWS, all, all, 0));
    let not_taken =
        every.interfaces[0].flows.iter().find(|flow| !flow.control_state.starts_with("migrated from"));
    assert_eq!(not_taken, None, "all were taken before they rested");
    assert_eq!(counts(&instance.status()), at_rest);

    // An idle flow sends data: it is listed first, with its rate and its bounds, until it is idle
    // again.
    let local = flows[700].near.local_addr().unwrap();
    let message = [7; 100_000];
    instance.until("the flow that speaks", |status| {
        (&flows[700].near).write_all(&message).unwrap();
        (&flows[700].far).read_exact(&mut vec![0; message.len()]).unwrap();
        let first = &status.interfaces[0].flows[0];
        first.local == local && first.rate_bps > 0 && status.interfaces[0].flow_counts.idle == all - 1
    });
    instance.until("the flow at rest again", |status| counts(status) == at_rest);

    // No event reports the end of an idle flow; the next scan counts the remaining ones.
    flows.truncate(FLOWS - 300);
    let fewer = (MAX_ROWS, all - 300, all - 300, left_out - 300);
    instance.until("the flows that are left", |status| counts(status) == fewer);
    instance.leave();
    // All flows get their former congestion control back, including idle ones.
    let used = |stream: &TcpStream| socket2::SockRef::from(stream).tcp_congestion().unwrap();
    for flow in &flows {
        let control = used(&flow.near);
        assert!(!control.starts_with(b"yd"), "{}", String::from_utf8_lossy(&control));
    }
}
