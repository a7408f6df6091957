//! Writes flows to disk as JSON while a capture is read, and reads them back in order: a million of
//! them would take gigabytes of memory.

use crate::error::IdentifyError;
use crate::json;
use crate::report::FlowReport;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;

/// Bytes of JSON per compressed block.
const BLOCK_BYTES: usize = 256 << 10;
/// Decompressed blocks cached while they are read: flows that began one after the other mostly end
/// in the same order.
const BLOCKS: usize = 64;
/// Entries per sorted run. The runs are sorted separately, and merged while they are read, so that
/// a million flows need not be moved.
const RUN: usize = 1 << 15;
/// A fast compression level: the verdicts of flows are similar.
const LEVEL: i32 = 1;
/// An address and a port, in the order of addresses; all zeros is none.
type PackedAddress = [u8; 19];

/// The position of a flow's JSON, and the keys by which flows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    start_ns: i64,
    from: PackedAddress,
    to: PackedAddress,
    part: u16,
    block: u32,
    offset: u32,
    bytes: u32,
}

/// The flows of a part of a capture, written to disk as they end.
#[derive(Debug)]
pub struct Spill {
    block: Vec<u8>,
    block_bytes: usize,
    /// Entries per run.
    run: usize,
    /// By block number: its position in the file, compressed.
    blocks: Vec<(u64, u32)>,
    end: u64,
    /// The file; `None` until there is more than one block.
    file: Option<File>,
    /// In runs, each of which is sorted later.
    places: Vec<Vec<Place>>,
    named: u64,
    rounds: bool,
    failed: Option<io::Error>,
}

impl Spill {
    /// Without flows. Rounds are omitted unless `rounds` is set.
    pub fn new(rounds: bool) -> Spill {
        Spill::with_sizes(rounds, BLOCK_BYTES, RUN)
    }

    fn with_sizes(rounds: bool, block_bytes: usize, run: usize) -> Spill {
        Spill {
            block: Vec::new(),
            block_bytes,
            run,
            blocks: Vec::new(),
            end: 0,
            file: None,
            places: Vec::new(),
            named: 0,
            rounds,
            failed: None,
        }
    }

    /// Adds a flow. [`Spilled::of`] reports failures.
    pub fn push(&mut self, flow: FlowReport) {
        if self.failed.is_none()
            && let Err(error) = self.write(flow)
        {
            self.failed = Some(error);
        }
    }

    fn write(&mut self, mut flow: FlowReport) -> io::Result<()> {
        let window_trace = &mut flow.verdict.window_trace;
        let start_ns = window_trace.rounds.first().map_or(i64::MAX, |round| round.start_ns);
        let offset = self.block.len();
        self.named += u64::from(flow.name().is_some());
        json::flow(&mut self.block, &mut flow, self.rounds)?;
        let too_much = |_| io::Error::other("a flow of more than 4 GiB of JSON");
        let place = Place {
            start_ns,
            from: packed(flow.verdict.from),
            to: packed(flow.verdict.to),
            part: 0,
            block: self.blocks.len() as u32,
            offset: u32::try_from(offset).map_err(too_much)?,
            bytes: u32::try_from(self.block.len() - offset).map_err(too_much)?,
        };
        match self.places.last_mut() {
            Some(run) if run.len() < self.run => run.push(place),
            _ => {
                // The run of a small capture grows as needed; further runs are allocated at full
                // size.
                let mut run = Vec::with_capacity(if self.places.is_empty() { 0 } else { self.run });
                run.push(place);
                self.places.push(run);
            }
        }
        if self.block.len() >= self.block_bytes { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> io::Result<()> {
        let block = zstd::bulk::compress(&self.block, LEVEL)?;
        self.block.clear();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.write_all(&block)?;
        self.blocks.push((self.end, block.len() as u32));
        self.end += block.len() as u64;
        Ok(())
    }

    /// The JSON of a block.
    fn read_block(&self, block: u32) -> io::Result<Vec<u8>> {
        let (Some((offset, bytes)), Some(file)) = (self.blocks.get(block as usize), &self.file) else {
            return Ok(self.block.clone());
        };
        let mut packed = vec![0; *bytes as usize];
        file.read_exact_at(&mut packed, *offset)?;
        zstd::stream::decode_all(&packed[..])
    }
}

fn failed(source: io::Error) -> IdentifyError {
    IdentifyError::Spill { source }
}

/// A flow's sender or receiver, comparable as [`SocketAddr`] is.
fn packed(address: Option<SocketAddr>) -> PackedAddress {
    let mut packed = PackedAddress::default();
    if let Some(address) = address {
        match address.ip() {
            IpAddr::V4(ip) => {
                packed[0] = 1;
                packed[1..5].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                packed[0] = 2;
                packed[1..17].copy_from_slice(&ip.octets());
            }
        }
        packed[17..].copy_from_slice(&address.port().to_be_bytes());
    }
    packed
}

/// All flows of a capture, on disk.
#[derive(Debug, Default)]
pub struct Spilled {
    parts: Vec<Spill>,
    /// The sorted runs.
    runs: Vec<Vec<Place>>,
}

impl Spilled {
    /// Combines the parts of a capture.
    pub fn of(mut parts: Vec<Spill>) -> Result<Spilled, IdentifyError> {
        if let Some(error) = parts.iter_mut().find_map(|part| part.failed.take()) {
            return Err(failed(error));
        }
        let mut runs = Vec::new();
        for (number, part) in (0..).zip(&mut parts) {
            for mut run in std::mem::take(&mut part.places) {
                run.iter_mut().for_each(|place| place.part = number);
                run.sort_unstable();
                runs.push(run);
            }
        }
        Ok(Spilled { parts, runs })
    }

    /// The number of flows.
    pub fn flows(&self) -> u64 {
        self.runs.iter().map(|run| run.len() as u64).sum()
    }

    /// How many of these were named.
    pub fn named(&self) -> u64 {
        self.parts.iter().map(|part| part.named).sum()
    }

    /// All entries, sorted: a merge of the runs.
    fn sorted(&self) -> impl Iterator<Item = Place> {
        let begin = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(run, places)| Some(Reverse((*places.first()?, run, 0))));
        let mut nexts: BinaryHeap<_> = begin.collect();
        std::iter::from_fn(move || {
            let Reverse((place, run, at)) = nexts.pop()?;
            nexts.extend(self.runs[run].get(at + 1).map(|next| Reverse((*next, run, at + 1))));
            Some(place)
        })
    }

    /// The JSON of each flow, in the order in which the flows began.
    pub fn each(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), IdentifyError>,
    ) -> Result<(), IdentifyError> {
        let mut held: VecDeque<((u16, u32), Vec<u8>)> = VecDeque::new();
        for place in self.sorted() {
            let key = (place.part, place.block);
            let found = match held.iter().position(|(held, _)| *held == key) {
                // The one used last comes last.
                Some(at) if at + 1 < held.len() => held.remove(at),
                Some(_) => None,
                None => {
                    if held.len() >= BLOCKS {
                        held.pop_front();
                    }
                    let part = &self.parts[usize::from(place.part)];
                    Some((key, part.read_block(place.block).map_err(failed)?))
                }
            };
            held.extend(found);
            let from = place.offset as usize;
            let flow = held.back().and_then(|(_, block)| block.get(from..from + place.bytes as usize));
            take(flow.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_infer::identify;
    use yuzuri_infer::window_trace::{Round, WindowTrace};

    fn flow(start_ns: i64, port: u16) -> FlowReport {
        let round = Round { start_ns, end_ns: start_ns + 1, window: 10.0, ..Round::default() };
        let window_trace = WindowTrace { rounds: vec![round], ..WindowTrace::default() };
        let from = Some(SocketAddr::from(([192, 0, 2, 1], port)));
        FlowReport::new(identify(window_trace, None, from, None), None)
    }

    fn text(mut report: FlowReport, rounds: bool) -> Vec<u8> {
        let mut out = Vec::new();
        json::flow(&mut out, &mut report, rounds).unwrap();
        out
    }

    /// Flows that end in another order than they began, in two parts.
    fn spilled(block_bytes: usize, run: usize, rounds: bool) -> Vec<Vec<u8>> {
        let mut parts = [(); 2].map(|()| Spill::with_sizes(rounds, block_bytes, run));
        for n in 0..400u16 {
            // 7 and 400 have no common factor, so that each time occurs once, except for the last
            // bits.
            let at = i64::from(u32::from(n) * 7 % 400 / 2);
            parts[usize::from(n % 2)].push(flow(at, 1000 + n));
        }
        let spilled = Spilled::of(parts.into()).unwrap();
        assert_eq!((spilled.flows(), spilled.named()), (400, 0));
        let mut found = Vec::new();
        let each = spilled.each(|flow| {
            found.push(flow.to_vec());
            Ok(())
        });
        each.unwrap();
        found
    }

    #[test]
    fn stored_flows_are_read_back_unchanged_in_start_order() {
        let mut expected: Vec<(i64, u16)> =
            (0..400u16).map(|n| (i64::from(u32::from(n) * 7 % 400 / 2), 1000 + n)).collect();
        expected.sort_unstable();
        for rounds in [false, true] {
            let expected: Vec<_> = expected.iter().map(|(at, port)| text(flow(*at, *port), rounds)).collect();
            for (block_bytes, run) in [(1, 400), (5000, 7), (5000, 64), (1 << 20, 1)] {
                assert!(
                    spilled(block_bytes, run, rounds) == expected,
                    "{block_bytes}, {run}, rounds: {rounds}"
                );
            }
        }
    }

    #[test]
    fn addresses_are_in_the_order_of_addresses() {
        let mut addresses: Vec<Option<SocketAddr>> =
            ["10.0.0.2:5", "10.0.0.2:443", "9.0.0.1:80", "[2001:db8::1]:1", "[::1]:9"]
                .into_iter()
                .map(|address| Some(address.parse().unwrap()))
                .chain([None])
                .collect();
        let mut packed_too = addresses.clone();
        addresses.sort_unstable();
        packed_too.sort_unstable_by_key(|address| packed(*address));
        assert_eq!(addresses, packed_too);
    }
}
