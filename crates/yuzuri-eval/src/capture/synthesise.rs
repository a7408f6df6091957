//! A capture of downloads for measuring readers.

use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use yuzuri_capture::{Flags, Framing, NewSegment, PcapWriter, TcpOptions};

const PAYLOAD_BYTES: u16 = 1448;

/// A download: two segments, then their ACK.
struct Download {
    server: SocketAddr,
    client: SocketAddr,
    /// Packets sent so far, of both ends.
    step: u64,
    isn: u32,
    sent_bytes: u32,
    delayed_us: u64,
}

impl Download {
    fn next(&mut self, time_us: u64) -> NewSegment {
        let step = self.step;
        self.step += 1;
        let clock_ms = (time_us / 1000) as u32;
        let stamps = Some((clock_ms, clock_ms.wrapping_sub(self.delayed_us as u32 / 1000)));
        let syn = TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: stamps,
            ..TcpOptions::default()
        };
        let options = TcpOptions { timestamps: stamps, ..TcpOptions::default() };
        let up = NewSegment { seq: 0x1000, options, ..NewSegment::new(self.client, self.server) };
        let down = NewSegment { ack: 0x1001, options, ..NewSegment::new(self.server, self.client) };
        let seq = self.isn.wrapping_add(1).wrapping_add(self.sent_bytes);
        match step {
            0 => NewSegment { flags: Flags::SYN, options: syn, ..up },
            1 => NewSegment { flags: Flags::SYN | Flags::ACK, seq: self.isn, options: syn, ..down },
            _ if step % 3 == 2 => NewSegment { seq: 0x1001, ack: seq, window: 4000, ..up },
            _ => {
                self.sent_bytes = self.sent_bytes.wrapping_add(u32::from(PAYLOAD_BYTES));
                NewSegment { seq, payload_bytes: PAYLOAD_BYTES, ..down }
            }
        }
    }
}

#[derive(clap::Args)]
pub struct Args {
    packets: u64,
    seed: u64,
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    flows: u32,
    snaplen: u32,
    file: PathBuf,
}

/// Writes the file.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let &Args { packets, seed, flows, snaplen, ref file } = args;
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let mut downloads: Vec<Download> = (0..flows)
        .map(|flow| Download {
            server: SocketAddr::new(Ipv4Addr::from_bits(0x0a00_0000 | ((flow % 251) << 8) | 1).into(), 443),
            client: SocketAddr::new(
                Ipv4Addr::from_bits(0xc0a8_0000 | (flow >> 4)).into(),
                32768 + (flow % 16) as u16,
            ),
            step: 0,
            isn: random.next() as u32,
            sent_bytes: 0,
            delayed_us: 5_000 + random.next() % 100_000,
        })
        .collect();
    let mut writer =
        PcapWriter::new(BufWriter::new(std::fs::File::create(file)?), Framing::Ethernet, snaplen)?;
    let mut frame = Vec::new();
    let mut time_us = 0;
    let mut left = packets;
    while left > 0 {
        // Packets of a flow come in bursts.
        let download = &mut downloads[(random.next() % u64::from(flows)) as usize];
        for _ in 0..(1 + random.next() % 6).min(left) {
            time_us += 1 + random.next() % 20;
            frame.clear();
            let wire_bytes = download.next(time_us).encode(Framing::Ethernet, &mut frame);
            frame.resize(wire_bytes.min(snaplen) as usize, 0);
            writer.write(1_700_000_000_000_000_000 + (time_us * 1000) as i64, &frame, wire_bytes)?;
            left -= 1;
        }
    }
    writer.into_inner().flush()?;
    Ok(())
}

/// xorshift64*: Marsaglia 2003, Vigna 2016.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}
