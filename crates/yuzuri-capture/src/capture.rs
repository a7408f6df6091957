//! Reads a capture packet by packet.

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
use crate::file::{Format, PacketHeader, Step};
use crate::flows::{FlowClock, FlowKey, FlowSlot, Lookup, PackedKey, Table};
use crate::header_prediction::{self, Predicted};
use crate::input::Unpacked;
use crate::ip::{self, IpPacket};
use crate::partition::Partition;
use crate::segment::{Checksum, Ecn, Flags, Segment, TcpOptions};
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
    /// Flows tracked at a time, 1 to 2^31; each takes about 150 bytes. Beyond it, the flow seen
    /// least recently is evicted.
    pub max_flows: usize,
    /// After this long without a packet, a SYN with another initial sequence number begins a new
    /// flow. Default: 60 s, as long as Linux keeps a closed connection's ports
    /// (`TCP_TIMEWAIT_LEN`).
    pub idle: Duration,
    /// Whether TCP checksums are verified. This costs time only for packets captured whole.
    pub checksums: bool,
    /// The flows whose segments are returned.
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

/// The next item of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A TCP segment. Callers that need it after the next call must copy it.
    Segment(&'a Segment),
    /// The flow in this slot has ended: a new connection took over its addresses and ports, or the
    /// limit of flows evicted it. Its key is available until the next item; then the slot is
    /// reused. Flows still open at the end of the file are not announced.
    Ended(FlowSlot),
}

/// A capture: reads packets and returns TCP segments by flow.
pub struct Capture<R: Read = Box<dyn Read + Send>> {
    name: String,
    buffer: Buffer<Unpacked<R>>,
    format: Format,
    sorter: Sorter,
}

/// Assigns segments to their flows.
struct Sorter {
    table: Table,
    facts: FileFacts,
    checksums: bool,
    partition: Partition,
    /// The segment that is returned. It stays in place, since copying it costs measurable time.
    segment: Segment,
    /// `segment` begins a new flow, but the end of another flow is returned first.
    pending: Option<PackedKey>,
    /// Reading cannot simply continue: something is pending, or the capture has ended.
    stopped: bool,
}

impl Capture {
    /// Opens a file, or standard input if the path is `-`.
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
    /// Reads from any reader; errors call it `name`.
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
        // The shortest header of any format. A longer header that is incomplete is detected by its
        // own format.
        let whole = buffer.has(snoop::HEADER_BYTES).map_err(failed)?;
        let not_a_capture = |buffer: &mut Buffer<Unpacked<R>>| {
            // Enough to recognise a tar archive. It does not matter if fewer bytes are available.
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

    /// The next segment, or the end of a flow. `None` after an error, and at the end of the file,
    /// however it ends ([`FileFacts::ending`]).
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        Ok(self.advance()?.map(|found| self.sorter.item(found)))
    }

    /// Inlined into the caller's loop.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Found>, ReadError> {
        match self.next_predicted() {
            Some(found) => Ok(Some(found)),
            None => self.advance_any(),
        }
    }

    /// The next segment if its packet has the usual headers and is buffered whole. `None`: nothing
    /// was read, or a packet of another partition.
    #[inline(always)]
    fn next_predicted(&mut self) -> Option<Found> {
        if self.sorter.stopped {
            return None;
        }
        let mut head = PacketHeader::EMPTY;
        let ready = self.buffer.ready();
        let (captured, end) = match &self.format {
            Format::Pcap(pcap) => pcap.buffered(ready, &mut head)?,
            Format::PcapNg(pcapng) => pcapng.buffered(ready, &mut head)?,
            Format::Snoop(_) | Format::Erf(_) => return None,
        };
        let mut ip = IpPacket::EMPTY;
        let predicted = header_prediction::decode(captured, head.link, &mut ip)?;
        self.sorter.note(captured, &head);
        let found = self.sorter.assign_predicted(&ip, &predicted);
        self.buffer.take(end);
        found
    }

    /// The same for any packets.
    #[inline(never)]
    fn advance_any(&mut self) -> Result<Option<Found>, ReadError> {
        let sorter = &mut self.sorter;
        if sorter.stopped {
            return Ok(sorter.resume());
        }
        let mut head = PacketHeader::EMPTY;
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

    /// Folds over the remaining items.
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

    /// The endpoints of the flow in a slot; `None` for a slot that was never used.
    pub fn key(&self, flow: FlowSlot) -> Option<FlowKey> {
        self.sorter.key(flow)
    }

    /// The timestamps of the flow in a slot; `None` for a slot that was never used.
    pub fn clock(&self, flow: FlowSlot) -> Option<FlowClock> {
        self.sorter.clock(flow)
    }

    /// Flows tracked now, in all partitions.
    pub fn live_flows(&self) -> usize {
        self.sorter.table.len()
    }

    /// What is known about the file so far.
    pub fn facts(&self) -> &FileFacts {
        &self.sorter.facts
    }
}

/// Recognises a stream's format by its first bytes, and consumes its header.
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
    // ERF has no magic number, so formats that have one come first.
    if erf::recognise(buffer)? {
        let mut facts = no_facts(FileFormat::Erf, compression);
        let erf = Erf::new(&mut facts);
        return Ok(Some((Format::Erf(erf), facts)));
    }
    Ok(None)
}

impl Sorter {
    /// Counts a packet and takes its timestamp.
    #[inline(always)]
    fn note(&mut self, captured: &[u8], head: &PacketHeader) {
        let facts = &mut self.facts;
        let captured_bytes = captured.len() as u64;
        facts.packets += 1;
        facts.captured_bytes += captured_bytes;
        // Some programs that truncate packets afterwards write the shorter length twice.
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

    /// Decodes a packet's headers and finds the segment's flow.
    #[inline(always)]
    fn sort(&mut self, captured: &[u8], head: &PacketHeader) -> Result<Option<Found>, Skip> {
        let mut ip = IpPacket::EMPTY;
        let Some(predicted) = header_prediction::decode(captured, head.link, &mut ip) else {
            // Passes a copy, so that the header itself stays in registers, too.
            return self.sort_any(captured, &{ *head });
        };
        Ok(self.assign_predicted(&ip, &predicted))
    }

    #[inline(always)]
    fn assign_predicted(&mut self, ip: &IpPacket<'_>, predicted: &Predicted) -> Option<Found> {
        let segment = &mut self.segment;
        segment.seq = predicted.seq;
        segment.ack = predicted.ack;
        segment.flags = Flags(predicted.flags);
        segment.window = predicted.window;
        segment.payload_bytes = predicted.payload_bytes;
        self.assign(ip, predicted.ports, |options| {
            options.clear();
            options.timestamps = Some(predicted.timestamps);
        })
    }

    /// The same for any headers. In a function of its own, so that the values of the usual ones
    /// stay in registers.
    #[inline(never)]
    fn sort_any(&mut self, captured: &[u8], head: &PacketHeader) -> Result<Option<Found>, Skip> {
        let header_bytes = head.link.header_bytes(captured)?;
        let on_wire = (head.on_wire as usize).max(captured.len()).saturating_sub(header_bytes);
        let mut ip = IpPacket::EMPTY;
        let packet = captured.get(header_bytes..).ok_or(Skip::Cut)?;
        let mut decoded = ip::decode(packet, on_wire as u32, &mut ip);
        if decoded == Err(Skip::NotTcp) {
            let mut inner = IpPacket::EMPTY;
            decoded = tunnel::enter(packet, on_wire as u32, &mut inner, &mut self.facts.tunnels);
            ip = inner;
        }
        if let Err(skip) = decoded {
            self.facts.fragments += u64::from(skip == Skip::Fragment);
            return Err(skip);
        }
        let mut ports = (0, 0);
        let header_bytes = tcp::decode(&ip, &mut self.segment, &mut ports)?;
        Ok(self.assign(&ip, ports, |options| tcp::decode_options(ip.tcp, header_bytes, options)))
    }

    /// Assigns the segment to its flow. Packets of other partitions are decoded only as far as that
    /// requires: `set_options` decodes the options.
    #[inline(always)]
    fn assign(
        &mut self,
        ip: &IpPacket<'_>,
        ports: (u16, u16),
        set_options: impl FnOnce(&mut TcpOptions),
    ) -> Option<Found> {
        let segment = &mut self.segment;
        let (key, from) = PackedKey::new(ip, ports);
        segment.from = from;
        let facts = &mut self.facts;
        facts.segments += 1;
        facts.fragments += u64::from(ip.fragment);
        let place = self.table.place(key, segment, facts.packets, &mut facts.flows);
        let (Lookup::Known(slot) | Lookup::New(slot) | Lookup::After(slot)) = place;
        let after = matches!(place, Lookup::After(_));
        let Some(flow) = self.partition.own(slot) else {
            if after {
                self.table.place(key, segment, facts.packets, &mut facts.flows);
            }
            return None;
        };

        set_options(&mut segment.options);
        segment.flow = flow;
        segment.first = !matches!(place, Lookup::Known(_));
        segment.wire_bytes = ip.wire_bytes;
        segment.ip_id = ip.id;
        segment.ecn = Ecn::from_bits(ip.ecn_bits);
        segment.fragment = ip.fragment;
        segment.checksum = if self.checksums { tcp::checksum(ip) } else { Checksum::Unknown };
        facts.malformed_options += u64::from(segment.options.malformed);
        let Checksums { unknown, valid, partial, invalid } = &mut facts.checksums;
        *match segment.checksum {
            Checksum::Unknown => unknown,
            Checksum::Valid => valid,
            Checksum::Partial => partial,
            Checksum::Invalid => invalid,
        } += 1;
        if after {
            self.pending = Some(key);
            self.stopped = true;
            return Some(Found::Ended(flow));
        }
        Some(Found::Segment)
    }

    /// Returns the segment that was postponed until the end of another flow had been returned.
    #[cold]
    #[inline(never)]
    fn resume(&mut self) -> Option<Found> {
        let key = self.pending.take()?;
        self.stopped = false;
        // The new flow takes the slot of the flow that ended; the segment already names that slot.
        self.table.place(key, &self.segment, self.facts.packets, &mut self.facts.flows);
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

/// The source of an [`Item`].
enum Found {
    /// The sorter's segment.
    Segment,
    Ended(FlowSlot),
}

/// The flows of a capture, while it is folded.
pub struct Flows<'a> {
    sorter: &'a Sorter,
}

impl Flows<'_> {
    /// The endpoints of the flow in a slot; `None` for a slot that was never used.
    pub fn key(&self, flow: FlowSlot) -> Option<FlowKey> {
        self.sorter.key(flow)
    }

    /// The timestamps of the flow in a slot; `None` for a slot that was never used.
    pub fn clock(&self, flow: FlowSlot) -> Option<FlowClock> {
        self.sorter.clock(flow)
    }
}

pub(crate) fn no_facts(format: FileFormat, compression: Compression) -> FileFacts {
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
