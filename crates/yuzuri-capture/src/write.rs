//! Writes captures, for the laboratory and for tests.

use crate::checksum;
use crate::segment::{Ecn, Flags, TcpOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// What precedes the IP packets of a written capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Ethernet (`LINKTYPE_ETHERNET`, 1).
    Ethernet,
    /// Nothing (`LINKTYPE_RAW`, 101).
    Raw,
}

impl Framing {
    /// Its number in tcpdump.org's list.
    pub fn link_type(self) -> u32 {
        match self {
            Framing::Ethernet => 1,
            Framing::Raw => 101,
        }
    }
}

/// Writes a pcap file with timestamps in nanoseconds, little endian.
pub struct PcapWriter<W> {
    out: W,
    snaplen_bytes: u32,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file's header. At most `snaplen_bytes` of each packet are kept.
    pub fn new(mut out: W, framing: Framing, snaplen_bytes: u32) -> io::Result<PcapWriter<W>> {
        let mut header = [0; 24];
        header[..4].copy_from_slice(&0xa1b2_3c4du32.to_le_bytes());
        // Version 2.4.
        header[4] = 2;
        header[6] = 4;
        header[16..20].copy_from_slice(&snaplen_bytes.to_le_bytes());
        header[20..].copy_from_slice(&framing.link_type().to_le_bytes());
        out.write_all(&header)?;
        Ok(PcapWriter { out, snaplen_bytes })
    }

    /// Writes a packet of `wire_bytes`, of which `frame` is the beginning or all. `time_ns` counts
    /// from 1970-01-01 UTC; the format holds times until 2106.
    pub fn write(&mut self, time_ns: i64, frame: &[u8], wire_bytes: u32) -> io::Result<()> {
        const SECOND_NS: i64 = 1_000_000_000;
        let Ok(seconds) = u32::try_from(time_ns.div_euclid(SECOND_NS)) else {
            let why = format!("a pcap file holds times from 1970 until 2106, not {time_ns} ns");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let kept = &frame[..frame.len().min(self.snaplen_bytes as usize)];
        let wire_bytes = wire_bytes.max(kept.len() as u32);
        let mut header = [0; 16];
        let fields = [seconds, time_ns.rem_euclid(SECOND_NS) as u32, kept.len() as u32, wire_bytes];
        for (place, field) in header.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.out.write_all(&header)?;
        self.out.write_all(kept)
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// A TCP segment to be written. Its payload is zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSegment {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver; of the same IP version.
    pub to: SocketAddr,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: Flags,
    /// Window field, not scaled.
    pub window: u16,
    /// Options; at most 40 bytes of them ([`TcpOptions::encode`]).
    pub options: TcpOptions,
    /// Bytes of payload; IP and TCP headers and these are at most 65,535.
    pub payload_bytes: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
}

impl NewSegment {
    /// An empty ACK, to be filled in.
    pub fn new(from: SocketAddr, to: SocketAddr) -> NewSegment {
        NewSegment {
            from,
            to,
            seq: 0,
            ack: 0,
            flags: Flags::ACK,
            window: 0xffff,
            options: TcpOptions::default(),
            payload_bytes: 0,
            ecn: Ecn::NotEct,
        }
    }

    /// Appends the headers, with correct checksums, to `out` and returns the length of the whole
    /// frame. For the payload, the caller appends zeros up to that length.
    pub fn encode(&self, framing: Framing, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let mut options = Vec::with_capacity(40);
        self.options.encode(&mut options);
        let tcp_bytes = 20 + options.len() + usize::from(self.payload_bytes);
        let kind = if self.from.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        if framing == Framing::Ethernet {
            out.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            out.extend_from_slice(&kind);
        }
        let address_sum = self.encode_ip(tcp_bytes as u16, out);
        let header = out.len();
        out.extend_from_slice(&self.from.port().to_be_bytes());
        out.extend_from_slice(&self.to.port().to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        let words = (20 + options.len() as u16) / 4;
        out.extend_from_slice(&(words << 12 | self.flags.0 & 0x1ff).to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&options);
        let sum =
            address_sum + checksum::length_and_protocol(tcp_bytes as u32) + checksum::sum(&out[header..]);
        out[header + 16..header + 18].copy_from_slice(&(!checksum::fold(sum)).to_ne_bytes());
        (out.len() - start) as u32 + u32::from(self.payload_bytes)
    }

    /// Appends the IP header and returns the sum of its addresses.
    fn encode_ip(&self, tcp_bytes: u16, out: &mut Vec<u8>) -> u64 {
        const HOPS: u8 = 64;
        let ip = out.len();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                out.extend_from_slice(&[0x45, self.ecn as u8]);
                out.extend_from_slice(&(20 + tcp_bytes).to_be_bytes());
                // Don't fragment.
                out.extend_from_slice(&[0, 0, 0x40, 0, HOPS, 6, 0, 0]);
                out.extend_from_slice(&from.octets());
                out.extend_from_slice(&to.octets());
                let header = !checksum::fold(checksum::sum(&out[ip..]));
                out[ip + 10..ip + 12].copy_from_slice(&header.to_ne_bytes());
                checksum::sum(&out[ip + 12..])
            }
            (from, to) => {
                let octets = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                out.extend_from_slice(&[0x60, (self.ecn as u8) << 4, 0, 0]);
                out.extend_from_slice(&tcp_bytes.to_be_bytes());
                out.extend_from_slice(&[6, HOPS]);
                out.extend_from_slice(&octets(from));
                out.extend_from_slice(&octets(to));
                checksum::sum(&out[ip + 8..])
            }
        }
    }
}

impl TcpOptions {
    /// Appends the options as in a TCP header, padded to a multiple of 4 bytes: those that fit into
    /// 40 bytes, and as many SACK blocks as fit.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[2, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if self.sack_permitted {
            out.extend_from_slice(&[4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            // Linux combines these two, others pad each to a multiple of 4.
            if !self.sack_permitted {
                out.extend_from_slice(&[1, 1]);
            }
            out.extend_from_slice(&[8, 10]);
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
        } else if self.sack_permitted {
            out.extend_from_slice(&[1, 1]);
        }
        if let Some(shift) = self.window_scale {
            out.extend_from_slice(&[1, 3, 3, shift]);
        }
        let room = 40usize.saturating_sub(out.len() - start + 4) / 8;
        let blocks = &self.sack[..self.sack.len().min(room)];
        if !blocks.is_empty() {
            out.extend_from_slice(&[1, 1, 5, (2 + 8 * blocks.len()) as u8]);
            for (left, right) in blocks {
                out.extend_from_slice(&left.to_be_bytes());
                out.extend_from_slice(&right.to_be_bytes());
            }
        }
    }
}
