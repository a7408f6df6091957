//! The gate: loads the programs, attaches them, reads their observations, writes bounds.

use crate::attach::{AttachMode, Attached};
use crate::key::{FlowKey, address_bytes};
use crate::raw::{bound_bytes, mac_bytes, rate_bytes, read_bucket, read_flow, until_ns};
use crate::skel::{GateSkel, GateSkelBuilder};
use crate::{Counts, FlowSeen, GateError, OtherTraffic};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use yuzuri_kernel::clock::{KernelClock, mono_ns};
use yuzuri_kernel::with_log;

/// The options of a gate.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of connections tracked, at least 1. Beyond that the least recently used one
    /// is forgotten, and passes unmodified. Each takes about 300 bytes of kernel memory, allocated
    /// at the start.
    pub flows: u32,
    /// Attach by tcx if the kernel supports it. `false`: by clsact, as kernels before 6.6 need.
    pub tcx: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { flows: 16_384, tcx: true }
    }
}

/// An ACK passes if the last one went to the station this long ago or longer (`bpf/thin.h`).
pub const MAX_ACK_GAP: Duration = Duration::from_millis(10);

/// The treatment of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// Its bound on bytes in flight; 0: not bounded, whatever its station's bound is.
    pub bytes: u32,
    /// ACKs that acknowledge fewer than this many bytes beyond the last one may be dropped, while
    /// half as many bytes have passed up behind them; 0: none.
    pub thin_bytes: u32,
}

impl From<u32> for Bound {
    /// Every ACK is forwarded.
    fn from(bytes: u32) -> Bound {
        Bound { bytes, thin_bytes: 0 }
    }
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards the station.
    Down,
    /// From the station.
    Up,
}

/// All entries of a table, in one batch. The kernel does not split a bucket between two batches, so
/// a batch may have fewer entries than requested, which libbpf-rs takes for the last batch.
fn entries(
    table: &impl MapCore,
    what: &'static str,
) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>, GateError> {
    let all = table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY);
    all.map_err(GateError::table(what))
}

/// A program's decision on a test frame.
#[derive(Debug, Clone)]
pub struct TestOutcome {
    /// The packet afterwards.
    pub frame: Vec<u8>,
    /// Whether the packet passes.
    pub passes: bool,
    /// The mean duration of a run.
    pub mean: Duration,
}

/// A loaded gate. Dropping it removes its programs from all devices; every connection is unbounded
/// from then on.
pub struct Gate {
    attached: Vec<Attached>,
    skel: GateSkel<'static>,
    /// Bounds expire by the kernel's clock.
    clock: KernelClock,
    tcx: bool,
}

impl Gate {
    /// Loads the programs. They do nothing before [`Gate::attach`].
    ///
    /// # Errors
    /// Without privilege, or if the kernel rejects the programs.
    pub fn load(options: &Options) -> Result<Gate, GateError> {
        let clock = KernelClock::measure()?;
        // The skeleton borrows it for its whole life, which may be that of the process.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = with_log("opening the BPF object", || GateSkelBuilder::default().open(object))?;
        let flows = options.flows.max(1);
        with_log("sizing the table of connections", || open.maps.flows.set_max_entries(flows))?;
        with_log("sizing the table of bounds", || open.maps.bounds.set_max_entries(flows))?;
        let skel = with_log("loading the gate's programs", || open.load())?;
        Ok(Gate { attached: Vec::new(), skel, clock, tcx: options.tcx })
    }

    /// Attaches the programs to a device of this network namespace towards stations: their own, or
    /// the bridge. A device that has them already keeps them.
    ///
    /// # Errors
    /// If the device does not exist, it carries no Ethernet frames, or the kernel refuses.
    pub fn attach(&mut self, device: &str) -> Result<AttachMode, GateError> {
        if let Some(there) = self.attached.iter().find(|a| a.device == device) {
            return Ok(there.mode());
        }
        let (down, up) = (self.skel.progs.down.as_fd(), self.skel.progs.up.as_fd());
        let attached = Attached::new(device, down, up, self.tcx)?;
        let mode = attached.mode();
        self.attached.push(attached);
        Ok(mode)
    }

    /// Finds out whether and how this kernel attaches the programs to devices, without touching one
    /// of this network namespace.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN, which a new network namespace needs, or if the kernel refuses.
    pub fn try_attach(&self) -> Result<AttachMode, GateError> {
        Attached::try_out(self.skel.progs.down.as_fd(), self.skel.progs.up.as_fd(), self.tcx)
    }

    /// Removes the programs from a device.
    pub fn detach(&mut self, device: &str) {
        self.attached.retain(|attached| attached.device != device);
    }

    /// The devices that have the programs, and how these are attached.
    pub fn devices(&self) -> impl Iterator<Item = (&str, AttachMode)> {
        self.attached.iter().map(|attached| (attached.device.as_str(), attached.mode()))
    }

    /// All known connections.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn flows(&self) -> Result<Vec<FlowSeen>, GateError> {
        let all = entries(&self.skel.maps.flows, "reading the table of connections")?;
        let flows = all.filter_map(|(key, value)| {
            Some(FlowSeen::of(FlowKey::read(&key)?, &read_flow(&value)?, self.clock))
        });
        Ok(flows.collect())
    }

    /// Forgets a connection: it passes unmodified from then on.
    pub fn forget(&mut self, flow: &FlowKey) {
        // Either entry may be gone already.
        let _ = self.skel.maps.flows.delete(&flow.bytes());
        let _ = self.skel.maps.bounds.delete(&flow.bytes());
    }

    /// Bounds connections for a limited time; a bound is a number of bytes, or a [`Bound`]. It
    /// takes effect once the data advertised beyond it is acknowledged.
    ///
    /// # Errors
    /// The kernel's error, such as a full table; the bounds before the failed one are in force.
    pub fn bound<B: Into<Bound> + Copy>(
        &mut self,
        flows: &[(FlowKey, B)],
        lasts: Duration,
    ) -> Result<(), GateError> {
        let until_ns = self.until(lasts);
        let bounds = flows.iter().map(|(flow, bound)| {
            let Bound { bytes, thin_bytes } = (*bound).into();
            (flow.bytes(), bound_bytes(until_ns, bytes, thin_bytes))
        });
        self.write(&self.skel.maps.bounds, bounds, "writing the connections' bounds")
    }

    /// Bounds each connection of these stations without a bound of its own, such as new ones.
    ///
    /// # Errors
    /// As [`Gate::bound`].
    pub fn bound_stations(&mut self, stations: &[(IpAddr, u32)], lasts: Duration) -> Result<(), GateError> {
        let until_ns = self.until(lasts);
        let bounds = stations.iter().map(|(station, bytes)| {
            (address_bytes(station.to_canonical()), bound_bytes(until_ns, *bytes, 0))
        });
        self.write(&self.skel.maps.station_bounds, bounds, "writing the stations' bounds")
    }

    /// Bounds each connection of all other stations.
    ///
    /// # Errors
    /// As [`Gate::bound`].
    pub fn bound_others(&mut self, bytes: u32, lasts: Duration) -> Result<(), GateError> {
        let value = bound_bytes(self.until(lasts), bytes, 0);
        let written = self.skel.maps.default_bound.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY);
        written.map_err(GateError::table("writing the bound of new connections"))
    }

    /// The stations' traffic without a window.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn others(&self) -> Result<Vec<OtherTraffic>, GateError> {
        let all = entries(&self.skel.maps.buckets, "reading the stations' traffic without a TCP window")?;
        Ok(all.filter_map(|(mac, value)| OtherTraffic::of(&mac, &read_bucket(&value)?, self.clock)).collect())
    }

    /// Limits stations' traffic without a window, by hardware address, to a rate in bit/s, for a
    /// limited time. Streams below 512 kbit/s have priority. Packets beyond the rate are marked
    /// (ECN) or dropped.
    ///
    /// # Errors
    /// As [`Gate::bound`].
    pub fn police(&mut self, stations: &[([u8; 6], u64)], lasts: Duration) -> Result<(), GateError> {
        let until_ns = self.until(lasts);
        let rates = stations.iter().map(|(mac, bps)| (mac_bytes(*mac), rate_bytes(until_ns, bps / 8)));
        self.write(&self.skel.maps.rates, rates, "writing the stations' rates")
    }

    /// Removes the rate limit of a station.
    pub fn unpolice(&mut self, mac: [u8; 6]) {
        // A missing entry is no error.
        let _ = self.skel.maps.rates.delete(&mac_bytes(mac));
    }

    /// Removes the bound of a connection.
    pub fn release(&mut self, flow: &FlowKey) {
        // A missing entry is no error.
        let _ = self.skel.maps.bounds.delete(&flow.bytes());
    }

    /// Removes the bound of a station's new connections.
    pub fn release_station(&mut self, station: IpAddr) {
        let _ = self.skel.maps.station_bounds.delete(&address_bytes(station.to_canonical()));
    }

    /// The programs' counters.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn counts(&self) -> Result<Counts, GateError> {
        let count = |index: u32| -> Result<u64, GateError> {
            let of_cpus = self.skel.maps.counts.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
            let of_cpus =
                of_cpus.map_err(GateError::table("reading the gate's counters"))?.unwrap_or_default();
            let number = |bytes: Vec<u8>| bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
            Ok(of_cpus.into_iter().map(number).sum())
        };
        // The order of `enum count`.
        Ok(Counts {
            down: count(0)?,
            up: count(1)?,
            lowered: count(2)?,
            unknown_handshake: count(3)?,
            never_modified: count(4)?,
            failed: count(5)?,
            thinned: count(6)?,
            other: count(7)?,
            marked: count(8)?,
            dropped: count(9)?,
            bytes: count(10)?,
        })
    }

    /// Passes a frame to a program `repeat` times, without any device (`BPF_PROG_TEST_RUN`): for
    /// tests and benchmarks.
    ///
    /// # Errors
    /// The kernel's error, such as for a frame of less than 14 bytes.
    pub fn try_packet(
        &self,
        direction: Direction,
        frame: &[u8],
        repeat: u32,
    ) -> Result<TestOutcome, GateError> {
        let program = match direction {
            Direction::Down => &self.skel.progs.down,
            Direction::Up => &self.skel.progs.up,
        };
        let mut out = vec![0; frame.len()];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat,
            ..ProgramInput::default()
        };
        let ran =
            program.test_run(input).map_err(GateError::table("running a program of the gate by hand"))?;
        const TC_ACT_UNSPEC: u32 = u32::MAX;
        let (passes, mean) = (ran.return_value == TC_ACT_UNSPEC, ran.duration);
        Ok(TestOutcome { passes, mean, frame: out })
    }

    /// Writes entries that expire, with one system call. The entries of connections and stations
    /// that are gone stay in the table until it is full; then all expired ones are removed.
    fn write<const KEY: usize, const VALUE: usize>(
        &self,
        table: &impl MapCore,
        written: impl Iterator<Item = ([u8; KEY], [u8; VALUE])>,
        what: &'static str,
    ) -> Result<(), GateError> {
        let (keys, values): (Vec<_>, Vec<_>) = written.unzip();
        if keys.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        // The kernel stops at the first entry that it cannot write.
        let all = || {
            let (keys, values) = (keys.as_flattened(), values.as_flattened());
            table.update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY)
        };
        if all().is_ok() {
            return Ok(());
        }
        let now_ns = self.until(Duration::ZERO);
        for (key, value) in entries(table, what)?.collect::<Vec<_>>() {
            if until_ns(&value).is_some_and(|until_ns| until_ns <= now_ns) {
                // It may be gone already.
                let _ = table.delete(&key);
            }
        }
        all().map_err(GateError::table(what))
    }

    /// The kernel's time after `lasts`, nanoseconds.
    fn until(&self, lasts: Duration) -> u64 {
        let lasts = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        self.clock.kernels(mono_ns()).saturating_add(lasts)
    }
}

#[cfg(test)]
mod stack_tests;
