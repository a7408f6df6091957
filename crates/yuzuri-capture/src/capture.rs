//! A capture, read packet by packet.

use crate::buffer::Buffer;
use crate::error::{OpenError, ReadError};
use crate::facts::{
    Checksums, Clock, Compression, Ending, FileFacts, FlowCounts, Format as FileFormat, Skip, Skipped,
    Tunnels,
};
use crate::file::erf::{self, Erf};
use crate::file::pcap::{self, Pcap};
use crate::file::pcapng::{self, PcapNg};
use crate::file::snoop::{self, Snoop};
use crate::file::{Format, Head, Step};
use crate::flows::{FlowClock, FlowKey, FlowSlot, PackedKey, Place, Sighting, Table};
use crate::input::Unpacked;
use crate::ip::{self, IpPacket};
use crate::partition::Partition;
use crate::segment::{Checksum, Ecn, Segment};
use crate::sniff;
use crate::tcp;
use crate::tunnel;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Limits of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Most flows that are remembered at a time, 1 to 2^31; each takes about 150 bytes. Of more, the one seen least recently
    /// is ended.
    pub max_flows: usize,
    /// After so long without a packet, a SYN with another initial sequence number begins a new flow. 60 s, as long as
    /// Linux keeps a closed connection's ports (`TCP_TIMEWAIT_LEN`).
    pub idle: Duration,
    /// Whether TCP checksums are checked. Costs time with whole packets only.
    pub checksums: bool,
    /// Whose segments are given.
    pub partition: Partition,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_flows: 100_000,
            idle: Duration::from_secs(60),
            checksums: true,
            partition: Partition::ALL,
        }
    }
}

/// The next thing in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A TCP segment. Whoever needs it after the next call copies it.
    Segment(&'a Segment),
    /// The flow in this slot is over: a new connection took over its addresses and ports, or it was evicted for the limit
    /// of flows. Its key can be asked for until the next item; the slot is used again. Flows that are still there at the
    /// end of the file are not announced.
    Ended(FlowSlot),
}

/// A capture: packets in, TCP segments by flow out.
pub struct Capture<R: Read = Box<dyn Read + Send>> {
    name: String,
    buffer: Buffer<Unpacked<R>>,
    format: Format,
    sorter: Sorter,
}

/// Puts segments into their flows.
struct Sorter {
    table: Table,
    facts: FileFacts,
    checksums: bool,
    partition: Partition,
    /// The segment that is handed out. It stays in its place: it is long enough for copies to show.
    segment: Segment,
    /// `segment` belongs to a new flow, but the end of another one is told before.
    pending: Option<Sighting>,
    /// Reading does not simply go on: something is pending, or there is no more.
    stopped: bool,
}

impl Capture {
    /// Opens a file, or standard input where the path is `-`.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Capture, OpenError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return Capture::new(Box::new(std::io::stdin()), "standard input", options);
        }
        let name = path.display().to_string();
        let file = match File::open(path) {
            Ok(file) => file,
            Err(source) => return Err(OpenError::File { name, source }),
        };
        Capture::new(Box::new(file), &name, options)
    }
}

impl<R: Read> Capture<R> {
    /// Reads from anything; `name` is what errors call it.
    pub fn new(reader: R, name: &str, options: &Options) -> Result<Capture<R>, OpenError> {
        if !(1..=1 << 31).contains(&options.max_flows) {
            let value = options.max_flows.to_string();
            return Err(OpenError::Options {
                field: "max_flows",
                value,
                allowed: "allowed are 1 to 2147483648",
            });
        }
        let failed = |source| OpenError::File { name: name.into(), source };
        let (input, compression) = Unpacked::new(reader).map_err(failed)?;
        let mut buffer = Buffer::new(input);
        let packed = compression != Compression::None;
        // The shortest header of a format; what is missing of a longer one shows in its own place.
        let whole = buffer.has(snoop::HEADER_BYTES).map_err(failed)?;
        let not_a_capture = |buffer: &mut Buffer<Unpacked<R>>| {
            // Enough to tell a tar archive; what cannot be had changes nothing.
            let _ = buffer.has(512);
            let beginning = &buffer.ready()[..buffer.ready().len().min(512)];
            OpenError::NotACapture {
                name: name.into(),
                looks: sniff::looks_like(beginning, packed, buffer.unsound()),
            }
        };
        if !whole {
            return Err(not_a_capture(&mut buffer));
        }
        let (format, facts) = match recognise(&mut buffer, compression).map_err(failed)? {
            Some(found) => found,
            None => return Err(not_a_capture(&mut buffer)),
        };
        let idle_ns = u64::try_from(options.idle.as_nanos()).unwrap_or(u64::MAX);
        Ok(Capture {
            name: name.into(),
            buffer,
            format,
            sorter: Sorter {
                table: Table::new(options.max_flows, idle_ns),
                facts,
                checksums: options.checksums,
                partition: options.partition,
                segment: Segment::EMPTY,
                pending: None,
                stopped: false,
            },
        })
    }

    /// The next segment, or the end of a flow; `None` at the end of the file, however it ends
    /// ([`FileFacts::ending`]), and after an error.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        Ok(self.advance()?.map(|found| self.sorter.item(found)))
    }

    /// Becomes a part of the loop that calls it.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Found>, ReadError> {
        let sorter = &mut self.sorter;
        if sorter.stopped {
            return Ok(sorter.resume());
        }
        let mut head = Head::EMPTY;
        loop {
            let step = match self.format.next(&mut self.buffer, &mut sorter.facts, &mut head) {
                Ok(step) => step,
                Err(source) => {
                    sorter.stopped = true;
                    return Err(ReadError { name: self.name.clone(), packets: sorter.facts.packets, source });
                }
            };
            let skip = match step {
                Step::Packet(captured) => {
                    sorter.note(captured, &head);
                    match sorter.sort(captured, &head) {
                        Ok(None) => continue,
                        Ok(found) => return Ok(found),
                        Err(skip) => skip,
                    }
                }
                Step::Skipped(skip) => {
                    sorter.facts.packets += 1;
                    skip
                }
                Step::End(ending) => {
                    sorter.facts.ending = ending;
                    sorter.stopped = true;
                    return Ok(None);
                }
            };
            sorter.facts.skipped.count(skip);
        }
    }

    /// Goes through all that is left, with a value that is handed on from item to item.
    ///
    /// ```
    /// # fn read(capture: &mut yuzuri_capture::Capture) -> Result<(), yuzuri_capture::ReadError> {
    /// use yuzuri_capture::Item;
    /// let payload_bytes = capture.fold(0, |sum, item, _flows| match item {
    ///     Item::Segment(segment) => sum + u64::from(segment.payload_bytes),
    ///     Item::Ended(_) => sum,
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fold<T>(
        &mut self,
        start: T,
        mut with: impl FnMut(T, Item<'_>, &Flows<'_>) -> T,
    ) -> Result<T, ReadError> {
        let mut value = start;
        while let Some(found) = self.advance()? {
            value = with(value, self.sorter.item(found), &Flows { sorter: &self.sorter });
        }
        Ok(value)
    }

    /// The endpoints of the flow in a slot; `None` for a slot that never came up.
    pub fn key(&self, flow: FlowSlot) -> Option<FlowKey> {
        self.sorter.key(flow)
    }

    /// The time stamps of the flow in a slot; `None` for a slot that never came up.
    pub fn clock(&self, flow: FlowSlot) -> Option<FlowClock> {
        self.sorter.clock(flow)
    }

    /// Flows that are remembered now, of all shares.
    pub fn live_flows(&self) -> usize {
        self.sorter.table.len()
    }

    /// What is known of the file so far.
    pub fn facts(&self) -> &FileFacts {
        &self.sorter.facts
    }
}

/// Finds out by its first bytes what format a stream has; its header is taken.
fn recognise<R: Read>(
    buffer: &mut Buffer<Unpacked<R>>,
    compression: Compression,
) -> std::io::Result<Option<(Format, FileFacts)>> {
    if buffer.ready().starts_with(&pcapng::SECTION.to_le_bytes()) {
        return Ok(Some((Format::PcapNg(PcapNg::default()), no_facts(FileFormat::PcapNg, compression))));
    }
    if snoop::recognise(buffer.ready()) {
        let mut facts = no_facts(FileFormat::Snoop, compression);
        let snoop = Snoop::new(buffer.take(snoop::HEADER_BYTES), &mut facts);
        return Ok(Some((Format::Snoop(snoop), facts)));
    }
    buffer.has(pcap::HEADER_BYTES)?;
    let kind = buffer.ready().first_chunk().and_then(|header| Some((*header, pcap::recognise(header)?)));
    if let Some((header, kind)) = kind {
        let mut facts = no_facts(kind, compression);
        let pcap = Pcap::new(&header, &mut facts);
        buffer.take(pcap::HEADER_BYTES);
        return Ok(pcap.map(|pcap| (Format::Pcap(pcap), facts)));
    }
    // It has no magic number, so that what has one comes first.
    if erf::recognise(buffer)? {
        let mut facts = no_facts(FileFormat::Erf, compression);
        let erf = Erf::new(&mut facts);
        return Ok(Some((Format::Erf(erf), facts)));
    }
    Ok(None)
}

impl Sorter {
    /// Counts a packet and takes its time.
    #[inline(always)]
    fn note(&mut self, captured: &[u8], head: &Head) {
        let facts = &mut self.facts;
        let captured_bytes = captured.len() as u64;
        facts.packets += 1;
        facts.captured_bytes += captured_bytes;
        // Some programs that cut packets later write the shorter length twice.
        facts.wire_bytes += u64::from(head.on_wire).max(captured_bytes);
        facts.cut_packets += u64::from(captured_bytes < u64::from(head.on_wire));
        if let Some(count) = facts.link_types.get_mut(head.link_place as usize) {
            count.packets += 1;
        }
        let clock = &mut facts.clock;
        let last_ns = clock.last_ns;
        let time_ns = match head.time_ns {
            Some(time_ns) => time_ns,
            None => {
                clock.unstamped += 1;
                last_ns.unwrap_or(0)
            }
        };
        clock.last_ns = Some(time_ns);
        match last_ns {
            None => clock.first_ns = Some(time_ns),
            Some(last_ns) if time_ns < last_ns => {
                clock.steps_back += 1;
                clock.largest_step_back_ns = clock.largest_step_back_ns.max(last_ns.abs_diff(time_ns));
            }
            Some(_) => {}
        }
        self.segment.time_ns = time_ns;
    }

    /// Decodes a packet's headers and finds the segment's flow; of another's share no more than that takes.
    #[inline(always)]
    fn sort(&mut self, captured: &[u8], head: &Head) -> Result<Option<Found>, Skip> {
        let header_bytes = head.link.header_bytes(captured)?;
        let on_wire = (head.on_wire as usize).max(captured.len()).saturating_sub(header_bytes);
        let mut ip = IpPacket::EMPTY;
        let packet = captured.get(header_bytes..).ok_or(Skip::Cut)?;
        let mut decoded = ip::decode(packet, on_wire as u32, &mut ip);
        if decoded == Err(Skip::NotTcp) {
            decoded = tunnel::enter(packet, on_wire as u32, &mut ip, &mut self.facts.tunnels);
        }
        if let Err(skip) = decoded {
            self.facts.fragments += u64::from(skip == Skip::Fragment);
            return Err(skip);
        }
        let segment = &mut self.segment;
        let mut ports = (0, 0);
        let header_bytes = tcp::decode(&ip, segment, &mut ports)?;
        let (key, from) = PackedKey::new(&ip, ports);
        let facts = &mut self.facts;
        facts.segments += 1;
        facts.fragments += u64::from(ip.fragment);
        let sighting =
            Sighting { key, from, time_ns: segment.time_ns, seq: segment.seq, flags: segment.flags };
        let place = self.table.place(&sighting, facts.packets, &mut facts.flows);
        let (Place::Known(slot) | Place::New(slot) | Place::After(slot)) = place;
        let after = matches!(place, Place::After(_));
        let Some(flow) = self.partition.own(slot) else {
            if after {
                self.table.place(&sighting, facts.packets, &mut facts.flows);
            }
            return Ok(None);
        };

        tcp::decode_options(ip.tcp, header_bytes, &mut segment.options);
        segment.flow = flow;
        segment.first = !matches!(place, Place::Known(_));
        segment.wire_bytes = ip.wire_bytes;
        segment.ip_id = ip.id;
        segment.from = from;
        segment.ecn = Ecn::from_bits(ip.ecn_bits);
        segment.fragment = ip.fragment;
        segment.checksum = if self.checksums { tcp::checksum(&ip) } else { Checksum::Unknown };
        facts.malformed_options += u64::from(segment.options.malformed);
        let Checksums { unknown, valid, partial, invalid } = &mut facts.checksums;
        *match segment.checksum {
            Checksum::Unknown => unknown,
            Checksum::Valid => valid,
            Checksum::Partial => partial,
            Checksum::Invalid => invalid,
        } += 1;
        if after {
            self.pending = Some(sighting);
            self.stopped = true;
            return Ok(Some(Found::Ended(flow)));
        }
        Ok(Some(Found::Segment))
    }

    /// Gives the segment that was put off until the end of another flow had been told.
    #[cold]
    #[inline(never)]
    fn resume(&mut self) -> Option<Found> {
        let sighting = self.pending.take()?;
        self.stopped = false;
        // It comes into the slot of the one that ended, which its segment names already.
        self.table.place(&sighting, self.facts.packets, &mut self.facts.flows);
        Some(Found::Segment)
    }

    fn key(&self, flow: FlowSlot) -> Option<FlowKey> {
        self.table.key(self.partition.slot(flow)?)
    }

    fn clock(&self, flow: FlowSlot) -> Option<FlowClock> {
        self.table.clock(self.partition.slot(flow)?)
    }

    #[inline(always)]
    fn item(&self, found: Found) -> Item<'_> {
        match found {
            Found::Segment => Item::Segment(&self.segment),
            Found::Ended(slot) => Item::Ended(slot),
        }
    }
}

/// What [`Item`] is made from.
enum Found {
    /// The sorter's segment.
    Segment,
    Ended(FlowSlot),
}

/// The flows of a capture, while items are handed out.
pub struct Flows<'a> {
    sorter: &'a Sorter,
}

impl Flows<'_> {
    /// The endpoints of the flow in a slot; `None` for a slot that never came up.
    pub fn key(&self, flow: FlowSlot) -> Option<FlowKey> {
        self.sorter.key(flow)
    }

    /// The time stamps of the flow in a slot; `None` for a slot that never came up.
    pub fn clock(&self, flow: FlowSlot) -> Option<FlowClock> {
        self.sorter.clock(flow)
    }
}

fn no_facts(format: FileFormat, compression: Compression) -> FileFacts {
    FileFacts {
        format,
        compression,
        packets: 0,
        captured_bytes: 0,
        wire_bytes: 0,
        segments: 0,
        cut_packets: 0,
        skipped: Skipped::default(),
        fragments: 0,
        malformed_options: 0,
        checksums: Checksums::default(),
        tunnels: Tunnels::default(),
        flows: FlowCounts::default(),
        clock: Clock::default(),
        interfaces: 0,
        link_types: Vec::new(),
        sections: 0,
        other_blocks: 0,
        capture_drops: None,
        ending: Ending::Open,
    }
}
