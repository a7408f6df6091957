//! A half-connection in the network: a sender at one end, a receiver at the other.

use crate::receiver::Receiver;
use crate::scenario::Terminal;
use crate::segment::MSS_BYTES;
use crate::sender::{LocalQueue, Sender};
use crate::steer::Observation;
use yuzuri_netmodel::Time;

pub(crate) struct Connection {
    pub(crate) terminal: usize,
    /// The sender is at the terminal.
    pub(crate) upload: bool,
    pub(crate) opened: bool,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// When the schedule will next check the timers; `Time::MAX`: never.
    pub(super) sender_armed: Time,
    pub(super) receiver_armed: Time,
    window_bytes: u64,
}

impl Connection {
    pub(super) fn new(id: u32, number: usize, upload: bool, terminal: &Terminal, seed: u64) -> Connection {
        let mut config = terminal.sender.clone();
        if !upload {
            // The server's interface is no bottleneck.
            config.small_queue_shift = None;
        }
        Connection {
            terminal: number,
            upload,
            opened: false,
            window_bytes: config.window_bytes,
            sender: Sender::new(id, config, seed),
            receiver: Receiver::new(id, terminal.receiver),
            sender_armed: Time::MAX,
            receiver_armed: Time::MAX,
        }
    }

    pub(crate) fn open(&mut self) {
        self.opened = true;
        self.sender.open();
    }

    pub(super) fn observe(&self, local: LocalQueue) -> Observation {
        let window = self.sender.window();
        Observation {
            srtt_us: window.srtt_us,
            min_rtt_us: window.min_rtt_us.unwrap_or(0),
            delivered: window.delivered,
            acked_bytes: self.sender.acked_bytes(),
            cwnd: window.cwnd,
            in_flight: window.in_flight,
            app_limited: window.app_limited > 0,
            retransmitted: self.sender.counts().retransmissions,
            lost: self.sender.counts().lost,
            mss_bytes: MSS_BYTES.into(),
            window_bytes: self.window_bytes,
            timestamps: self.sender.timestamps(),
            local_segments: local.segments,
        }
    }
}
