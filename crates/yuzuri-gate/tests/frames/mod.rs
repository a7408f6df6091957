//! Creates frames of every form that an access point sees.
#![allow(clippy::unwrap_used, dead_code)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use yuzuri_capture::checksum;
use yuzuri_gate::{Direction, FlowKey};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// A random number generator (xorshift64*), so that a seed gives the same case on every machine.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// With a chance of one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// The headers around a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    V4,
    V6,
    /// IPv4 with options.
    V4Options,
    V4Vlan,
    V6QinQ,
    V4Pppoe,
    V6Pppoe,
    /// PPPoE in a VLAN, as some providers have it.
    V4VlanPppoe,
}

pub const FORMS: [Form; 8] = [
    Form::V4,
    Form::V6,
    Form::V4Options,
    Form::V4Vlan,
    Form::V6QinQ,
    Form::V4Pppoe,
    Form::V6Pppoe,
    Form::V4VlanPppoe,
];

impl Form {
    pub fn is_v6(self) -> bool {
        matches!(self, Form::V6 | Form::V6QinQ | Form::V6Pppoe)
    }
}

/// A TCP segment before encoding.
#[derive(Debug, Clone)]
pub struct Tcp {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Tcp {
    pub fn new(flags: u8, seq: u32, ack: u32, window: u16) -> Tcp {
        Tcp { seq, ack, flags, window, options: Vec::new(), payload: Vec::new() }
    }

    pub fn with(mut self, options: &[u8]) -> Tcp {
        self.options = options.to_vec();
        // To whole words, with NOPs.
        while !self.options.len().is_multiple_of(4) {
            self.options.push(1);
        }
        self
    }

    pub fn carrying(mut self, payload: Vec<u8>) -> Tcp {
        self.payload = payload;
        self
    }
}

/// The connection number `n` of a form.
pub fn key(form: Form, n: u16) -> FlowKey {
    let (station, server) = ends(form, n);
    FlowKey::new(station, server).unwrap()
}

fn ends(form: Form, n: u16) -> (SocketAddr, SocketAddr) {
    let (station, server): (IpAddr, IpAddr) = if form.is_v6() {
        (
            Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x10).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        )
    } else {
        (Ipv4Addr::new(10, 77, 0, 16).into(), Ipv4Addr::new(192, 0, 2, 1).into())
    };
    (SocketAddr::new(station, 40_000 + n), SocketAddr::new(server, 443))
}

/// The offset of the TCP header in a frame of this form.
pub fn tcp_at(form: Form) -> usize {
    match form {
        Form::V4 => 34,
        Form::V6 => 54,
        Form::V4Options => 42,
        Form::V4Vlan => 38,
        Form::V6QinQ => 62,
        Form::V4Pppoe => 42,
        Form::V6Pppoe => 62,
        Form::V4VlanPppoe => 46,
    }
}

/// The complete frame, with correct lengths and checksums.
pub fn frame(form: Form, direction: Direction, n: u16, tcp: &Tcp) -> Vec<u8> {
    let (station, server) = ends(form, n);
    let (from, to) = match direction {
        Direction::Down => (server, station),
        Direction::Up => (station, server),
    };
    let mut segment = Vec::new();
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(tcp.seq.to_be_bytes());
    segment.extend(tcp.ack.to_be_bytes());
    segment.extend([((20 + tcp.options.len()) as u8 / 4) << 4, tcp.flags]);
    segment.extend(tcp.window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(&tcp.options);
    segment.extend(&tcp.payload);
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (source, destination) = (octets(from.ip()), octets(to.ip()));
    let length = (segment.len() as u16).to_be_bytes();
    let checksum = checksum::of(&[&source, &destination, &[0, 6], &length, &segment]);
    segment[16..18].copy_from_slice(&checksum);

    let mut ip = Vec::new();
    if form.is_v6() {
        ip.extend([0x60, 0, 0, 0]);
        ip.extend(length);
        ip.extend([6, 64]);
        ip.extend(&source);
        ip.extend(&destination);
    } else {
        let options: &[u8] = if form == Form::V4Options { &[1; 8] } else { &[] };
        let header = 20 + options.len();
        ip.extend([0x40 | (header as u8 / 4), 0]);
        ip.extend(((header + segment.len()) as u16).to_be_bytes());
        ip.extend([0, 7, 0x40, 0, 64, 6, 0, 0]);
        ip.extend(&source);
        ip.extend(&destination);
        ip.extend(options);
        let checksum = checksum::of(&[&ip]);
        ip[10..12].copy_from_slice(&checksum);
    }
    ip.extend(segment);

    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match form {
        Form::V4Vlan | Form::V4VlanPppoe => frame.extend([0x81, 0, 0, 7]),
        Form::V6QinQ => frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]),
        _ => {}
    }
    match form {
        Form::V4Pppoe | Form::V6Pppoe | Form::V4VlanPppoe => {
            frame.extend([0x88, 0x64, 0x11, 0, 0, 5]);
            frame.extend((ip.len() as u16 + 2).to_be_bytes());
            frame.extend(if form.is_v6() { [0, 0x57] } else { [0, 0x21] });
        }
        _ => frame.extend(if form.is_v6() { [0x86, 0xdd] } else { [8, 0] }),
    }
    frame.extend(ip);
    frame
}

/// Whether the TCP checksum of a frame that [`frame`] made is right.
pub fn is_sum_right(form: Form, frame: &[u8]) -> bool {
    let at = tcp_at(form);
    let (addresses, length) = if form.is_v6() {
        (&frame[at - 32..at], usize::from(u16::from_be_bytes([frame[at - 36], frame[at - 35]])))
    } else {
        let header = if form == Form::V4Options { 28 } else { 20 };
        let ip = at - header;
        (&frame[ip + 12..ip + 20], usize::from(u16::from_be_bytes([frame[ip + 2], frame[ip + 3]])) - header)
    };
    let tcp = &frame[at..at + length];
    checksum::of(&[addresses, &[0, 6], &(length as u16).to_be_bytes(), tcp]) == [0, 0]
}

/// The options of a SYN: MSS, SACK permitted, and the scale.
pub fn syn_options(scale: Option<u8>) -> Vec<u8> {
    let mut options = vec![2, 4, 5, 0xb4, 4, 2];
    options.extend(scale.into_iter().flat_map(|scale| [3, 3, scale]));
    options
}

/// Timestamps at their usual place.
pub fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options
}

/// Observes the windows advertised to stations, independently of the gate's code and of its model:
/// an advertised right edge must not move left, unless the server itself moves it.
#[derive(Default)]
pub struct WindowObserver {
    edges: HashMap<FlowKey, u32>,
    /// Edges that were advertised after others of their connection.
    pub advertised: u64,
    /// Of these, edges left of the advertised one by less than a unit, with a scale above 10.
    pub rounded: u64,
}

impl WindowObserver {
    /// A connection's advertised edge no longer counts: it started over.
    pub fn forget(&mut self, key: &FlowKey) {
        self.edges.remove(key);
    }

    /// An ACK of a connection with this scale, as sent by the server and as received by the
    /// station; panics if an edge moved left.
    pub fn acked(&mut self, key: FlowKey, form: Form, scale: u8, sent: &[u8], had: &[u8]) {
        let at = tcp_at(form);
        let ack = u32::from_be_bytes(sent[at + 8..at + 12].try_into().unwrap());
        let edge = |frame: &[u8]| {
            let field = u16::from_be_bytes([frame[at + 14], frame[at + 15]]);
            ack.wrapping_add(u32::from(field) << scale)
        };
        let left_of = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        let (offered, advertised) = (edge(sent), edge(had));
        let Some(before) = self.edges.get(&key).copied() else {
            self.edges.insert(key, advertised);
            return;
        };
        self.advertised += 1;
        // An ACK beyond the advertised edge invalidates it. An ACK that is more than a window
        // behind the edge belongs to a part of the connection whose end was not observed.
        let ahead = before.wrapping_sub(ack) as i32;
        if !(0..=3 << 29).contains(&ahead) {
            self.edges.insert(key, advertised);
            return;
        }
        if left_of(advertised, before) && left_of(advertised, offered) {
            let by = before.wrapping_sub(advertised).min(offered.wrapping_sub(advertised));
            assert!(
                scale > 10 && by < 1 << scale,
                "{key}: right edge moved left by {by}, scale {scale}: {sent:02x?}"
            );
            self.rounded += 1;
        }
        if left_of(before, advertised) {
            self.edges.insert(key, advertised);
        }
    }
}
