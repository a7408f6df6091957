//! The monitor: loads the BPF programs, attaches them, and converts their records to items.

#![expect(unsafe_code, reason = "calls of libbpf")]

mod dumps;

use crate::abi::{self, Record};
use crate::clock::{self, KernelClock};
use crate::dump::{self, DumpResult, DumpWorker};
use crate::features::with_log;
use crate::owners::Owners;
use crate::places::Symbols;
use crate::program_stats::ProgramStats;
use crate::reader::Reader;
use crate::ring::{self, Rings};
use crate::settings;
use crate::skel::monitor::{MonitorSkel, MonitorSkelBuilder};
use crate::wakeup::Wakeup;
use crate::{Watch, WatchError, features, session, table_sizes};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use yuzuri_trace::{
    Account, CpuAccount, Density, Filter, FlowId, Hook, HookState, Item, LossReason, Owner, Session, Setting,
    Source,
};

/// What to watch and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The flows to watch.
    pub filter: Filter,
    /// How often each flow is sampled.
    pub density: Density,
    /// Bytes of each CPU's ring buffer; rounded up to a power of two of records (160 bytes each).
    /// `None`: 4 MiB for up to 4 CPUs, 16 MiB shared among more, at least 512 KiB each.
    pub ring_bytes: Option<usize>,
}

/// Why the observation could not begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The kernel denies us BPF.
    #[error(
        "loading the kernel monitor: not permitted ({0}); run as root, or with CAP_BPF and CAP_PERFMON, or use --poll"
    )]
    NotPermitted(String),
    /// The kernel has no type information.
    #[error(
        "loading the kernel monitor: this kernel has no BTF (/sys/kernel/btf/vmlinux is missing); \
         it needs CONFIG_DEBUG_INFO_BTF=y, as every current distribution's kernel has; or use --poll"
    )]
    NoBtf,
    /// An indispensable tracepoint is missing.
    #[error(
        "loading the kernel monitor: this kernel has no typed tracepoint {0} (it needs Linux 5.8 or later); use --poll"
    )]
    NoTracepoint(&'static str),
    /// The kernel refuses a program.
    #[error(
        "loading the kernel monitor: {0}; `yuzuri doctor` shows what this kernel offers; --poll works \
         without BPF"
    )]
    Load(String),
    /// A filter names something that does not exist.
    #[error("filter: {0}")]
    Filter(#[from] WatchError),
}

/// The capacities of tables in the kernel; see docs/monitor.md, "Tables in the kernel".
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct TableSizes {
    /// Owners passed to the programs for their flows.
    pub owners: u32,
    /// Call stacks.
    pub stacks: u32,
}

/// Capacity for call stacks: the code paths to a change of state or a retransmission are some
/// dozens.
const STACKS: u32 = 2048;

/// The running kernel monitor. Dropping it detaches and removes everything that it loaded into the
/// kernel.
pub struct Monitor {
    // Before `skel`: the links must be dropped first.
    links: Vec<libbpf_rs::Link>,
    rings: Rings,
    wakeup: Wakeup,
    skel: MonitorSkel<'static>,
    clock: KernelClock,
    session: Arc<Session>,
    filter: Filter,
    density: Density,
    generation: u32,
    reader: Reader,
    dump_worker: DumpWorker,
    /// A dump result that waits until the ring buffers are read up to its time.
    dump_result: Option<DumpResult>,
    /// Records of flows that only the dump found.
    sampled: u64,
    /// Lost records at the time of the last dump requested because of losses.
    swept_lost: u64,
    sweep_due_ns: u64,
    /// When the next dump is due although no record was lost.
    recheck_due_ns: u64,
    /// Owners that the programs wait for, and for which their map had no room yet.
    waiting_owners: VecDeque<(FlowId, Owner)>,
    account_due_ns: u64,
    pending: Vec<Item>,
}

/// How long the reader waits if it is needed soon and no ring buffer is filling.
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// The reader is woken when a ring buffer is filled to `1 / WAKEUP_PART`.
const WAKEUP_PART: u32 = 8;
/// A ring buffer above this level is filling; it wakes the reader at a slightly higher level.
const FILL_THRESHOLD: f64 = 0.1;
const _: () = assert!(FILL_THRESHOLD < 1.0 / WAKEUP_PART as f64);
const ACCOUNT_NS: u64 = 1_000_000_000;
/// Records of a silent flow: its identity and a sample.
const SILENT_RECORDS: u64 = 2;
/// A program writes an event immediately after reading its time; only a preempted CPU takes longer.
const SETTLE_NS: u64 = 200_000;

impl Monitor {
    /// Loads and attaches.
    ///
    /// # Errors
    /// Without privilege, without BTF, or if the kernel refuses a program; see [`MonitorError`].
    pub fn start(options: &Options) -> Result<Monitor, MonitorError> {
        Monitor::start_with_tables(options, &TableSizes { owners: table_sizes::for_flows(), stacks: STACKS })
    }

    /// As [`Monitor::start`], with other table sizes, to test what happens when they are full.
    #[doc(hidden)]
    pub fn start_with_tables(options: &Options, sizes: &TableSizes) -> Result<Monitor, MonitorError> {
        let config = settings::config(&options.filter, options.density, 1).map_err(MonitorError::Filter)?;
        let features = features::Tracepoints::read().ok_or(MonitorError::NoBtf)?;
        if !features.tcp_probe {
            return Err(MonitorError::NoTracepoint("tcp:tcp_probe"));
        }
        let clock = KernelClock::measure()?;
        let thread = |e| MonitorError::Load(format!("starting a thread: {e}"));
        let owners = Owners::new().map_err(thread)?;
        let mut dump_worker = DumpWorker::new().map_err(thread)?;
        let (sender, symbols_coming) = mpsc::channel();
        // 120,000 lines to read: in parallel with the loading of the programs, which takes as long.
        std::thread::spawn(move || sender.send(Symbols::load()));
        let cpus = ring::count()
            .ok_or_else(|| MonitorError::Load("the kernel does not report its possible CPUs".into()))?;
        let slots_per_cpu = slots(options.ring_bytes, cpus);

        // The object must live as long as the process: libbpf frees its content when `skel` is
        // dropped, these few bytes stay.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = with_log("opening the BPF object", || MonitorSkelBuilder::default().open(object))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.slots_per_cpu = slots_per_cpu;
            rodata.wakeup_at = slots_per_cpu / WAKEUP_PART;
            rodata.cpu_mask = ring::controls(cpus) - 1;
            rodata.state_hook = features.tcp_cong_state_set;
        }
        if let Some(data) = open.maps.data_data.as_deref_mut() {
            data.config = config;
        }
        open.progs.on_state.set_autoload(features.tcp_cong_state_set);
        with_log("sizing the rings and tables", || {
            open.maps.slots.set_max_entries(slots_per_cpu * cpus as u32)?;
            // Enlarging the map moves its memory.
            open.maps.bss_controls_data = None;
            open.maps
                .bss_controls
                .set_value_size(ring::controls(cpus) * size_of::<abi::ring_control>() as u32)?;
            open.maps.owners.set_max_entries(sizes.owners)?;
            open.maps.stacks.set_max_entries(sizes.stacks)
        })?;
        let skel = with_log("loading the BPF programs", || open.load())?;
        let rings = Rings::new(skel.maps.slots.as_fd(), skel.maps.bss_controls.as_fd(), cpus, slots_per_cpu)
            .map_err(|e| MonitorError::Load(format!("mapping the rings: {e}")))?;

        let wakeup = Wakeup::new(skel.maps.wakeup.as_fd())
            .map_err(|e| MonitorError::Load(format!("mapping the ring buffer that wakes the reader: {e}")))?;

        let mut links = Vec::new();
        let mut hooks = Vec::new();
        let programs = [
            (&skel.progs.on_ack, "tp_btf/tcp_probe", "state at each ACK, before it is processed", true, ""),
            (
                &skel.progs.on_state,
                "tp_btf/tcp_cong_state_set",
                "changes of ca_state, with place and reason",
                features.tcp_cong_state_set,
                "the next ACK shows the change, without its place",
            ),
            (&skel.progs.on_retransmit, "tp_btf/tcp_retransmit_skb", "retransmissions", true, ""),
            (&skel.progs.on_socket, "tp_btf/inet_sock_set_state", "open, close, owner", true, ""),
        ];
        for (program, name, provides, there, instead) in programs {
            let state = if there {
                links.push(with_log(name, || program.attach())?);
                HookState::Used
            } else {
                let why = "this kernel has no such tracepoint (it needs Linux 5.19 or later)".to_owned();
                HookState::Missing { why, instead: instead.to_owned() }
            };
            hooks.push(Hook { name: name.to_owned(), provides: provides.to_owned(), state });
        }
        hooks.push(features::stacks_hook());
        hooks.push(dump::hook());
        let mut reader = Reader::new(symbols_coming, owners, clock, &options.filter);
        // From here on the hooks report every event; a dump finds earlier flows that are silent.
        dump_worker.request_flows(&options.filter);
        reader.expect_dump();
        let now = clock::mono_ns();
        let session = session::describe(Source::Events, options.density, &options.filter, hooks);
        Ok(Monitor {
            links,
            rings,
            wakeup,
            skel,
            clock,
            session: Arc::new(session),
            filter: options.filter.clone(),
            density: options.density,
            generation: 1,
            reader,
            dump_worker,
            dump_result: None,
            sampled: 0,
            swept_lost: 0,
            sweep_due_ns: 0,
            recheck_due_ns: now + dumps::MIN_RECHECK_NS,
            waiting_owners: VecDeque::new(),
            account_due_ns: now + ACCOUNT_NS,
            pending: Vec::new(),
        })
    }

    /// The fill level of the fullest ring buffer, 0 to 1.
    pub fn max_fill(&self) -> f64 {
        self.rings.max_fill()
    }

    /// The number of flows tracked: open and selected flows, and those whose owner is being looked
    /// up.
    pub fn known_flows(&self) -> usize {
        self.reader.known_flows()
    }

    /// The kernel's statistics of our programs.
    pub fn programs(&self) -> Vec<ProgramStats> {
        let progs = &self.skel.progs;
        let all = [&progs.on_ack, &progs.on_state, &progs.on_retransmit, &progs.on_socket];
        all.into_iter()
            .filter_map(|p| ProgramStats::read(p.name().to_string_lossy().into_owned(), p))
            .collect()
    }

    fn drain(&mut self, until_ns: u64, out: &mut Vec<Item>) {
        out.append(&mut self.pending);
        // Growing step by step would copy everything twice.
        out.reserve(self.rings.waiting());
        let Monitor { rings, reader, skel, clock, .. } = self;
        let read_stack = |id: u32| {
            let bytes =
                skel.maps.stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            bytes.chunks_exact(8).filter_map(|c| Some(u64::from_ne_bytes(c.try_into().ok()?))).collect()
        };
        rings.drain(clock.kernels(until_ns), |cpu, record| reader.take(cpu, record, read_stack, out));
        // At the end no later call could return them.
        reader.release(until_ns == u64::MAX, read_stack, out);
    }

    /// Arms the wakeup. False: a ring buffer may already be filled beyond its level.
    fn arm_wakeup(&mut self) -> bool {
        let Some(data) = self.skel.maps.data_data.as_deref_mut() else { return false };
        // SAFETY: an aligned u32 in our mapping of the programs' data, accessed atomically.
        unsafe { AtomicU32::from_ptr(&raw mut data.wakeup_armed) }.store(1, Ordering::SeqCst);
        // Programs check it after they have reserved their slot.
        self.rings.max_fill() <= FILL_THRESHOLD
    }

    /// Processes results from outside the ring buffers, which were read up to a time.
    fn search_owners(&mut self, until_ns: u64, out: &mut Vec<Item>) {
        self.reader.search_owners(until_ns, out);
        if self.dump_result.is_none() {
            self.dump_result = self.dump_worker.take();
        }
        self.add_unrecorded_flows(until_ns, out);
        self.pass_owners();
    }

    /// Whether other threads will have something soon that the programs or the next records need.
    fn awaits_results(&self) -> bool {
        self.awaits_any_dump() || self.reader.is_holding() || self.reader.is_searching()
    }

    /// Passes owners to the programs for flows that they cannot decide.
    fn pass_owners(&mut self) {
        /// Writing these takes some milliseconds: the ring buffers must not wait longer.
        const MAX_AT_ONCE: usize = 4096;
        self.waiting_owners.extend(self.reader.take_owners());
        for _ in 0..self.waiting_owners.len().min(MAX_AT_ONCE) {
            let Some((id, owner)) = self.waiting_owners.front() else { break };
            let mut name = [0i8; 16];
            for (to, from) in name.iter_mut().zip(owner.name.bytes().take(15)) {
                *to = from as i8;
            }
            // SAFETY: `owner` is 20 bytes of integers without padding.
            let bytes: [u8; size_of::<abi::owner>()] =
                unsafe { std::mem::transmute(abi::owner { pid: owner.pid, name }) };
            if self.skel.maps.owners.update(&id.0.to_ne_bytes(), &bytes, MapFlags::ANY).is_err() {
                // No room, or no memory: the entries are removed when their flows have events.
                // Until then the programs count undecided flows.
                break;
            }
            self.waiting_owners.pop_front();
        }
    }

    /// Removes owners that the programs have not used: under another filter they may never be used.
    fn remove_owners(&mut self) {
        self.waiting_owners.clear();
        let owners = &self.skel.maps.owners;
        let keys: Vec<Vec<u8>> = owners.keys().collect();
        for key in keys {
            // A program may have removed it already.
            let _ = owners.delete(&key);
        }
    }
}

impl Watch for Monitor {
    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn density(&self) -> Density {
        self.density
    }

    fn set(&mut self, filter: &Filter, density: Density) -> Result<(), WatchError> {
        let generation = self.generation.wrapping_add(1).max(1);
        let config = settings::config(filter, density, generation)?;
        let target = self.skel.maps.data_data.as_deref_mut().map(|data| &raw mut data.config);
        let Some(target) = target else { return Err(WatchError::NotMapped) };
        // SAFETY: the pointer is to our mapping of the program's data section, aligned for the
        // type. The programs read it at any time. A flow decided on half-written terms still
        // carries the previous generation and is decided again, so the generation must become
        // visible last.
        unsafe {
            let before = (*target).generation;
            target.write_volatile(abi::config { generation: before, ..config });
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            (&raw mut (*target).generation).write_volatile(generation);
        }
        self.generation = generation;
        self.density = density;
        // The programs announce every flow again, but silent flows have no events.
        if self.filter != *filter {
            self.filter = filter.clone();
            self.reader.forget(filter);
            self.remove_owners();
            self.reader.expect_dump();
            self.dump_result = None;
            self.dump_worker.request_flows(filter);
        }
        let setting = Setting { mono_ns: clock::mono_ns(), filter: filter.to_string(), density };
        self.pending.push(Item::Setting(Arc::new(setting)));
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<Item>) {
        let now = clock::mono_ns();
        let until = now.saturating_sub(SETTLE_NS);
        if self.lost() != self.swept_lost {
            self.reader.expect_losses();
        }
        self.drain(until, out);
        self.search_owners(until, out);
        self.sweep(now);
        self.recheck(now);
        if now >= self.account_due_ns {
            self.account_due_ns = now + ACCOUNT_NS;
            out.push(Item::Account(Arc::new(self.account())));
        }
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<Item>) -> Account {
        self.links.clear();
        // A program running on another CPU ends within microseconds; RCU waits for it when a map is
        // freed, but we want its record.
        let until = Instant::now() + Duration::from_millis(20);
        loop {
            self.drain(u64::MAX, out);
            let account = self.account();
            if account.seen() == account.kept() + account.lost() || Instant::now() > until {
                self.conclude(out);
                let account = self.account();
                out.push(Item::Account(Arc::new(account.clone())));
                return account;
            }
            std::thread::yield_now();
        }
    }

    fn read_interval(&self) -> Duration {
        // Read a filling ring buffer sooner, an empty one later.
        if self.rings.max_fill() > FILL_THRESHOLD { Duration::from_millis(1) } else { READ_INTERVAL }
    }

    fn wait(&mut self, gather: Duration) {
        // After the wakeup, too, the reader waits briefly: records settle, and more follow.
        if gather <= READ_INTERVAL || self.awaits_results() || self.wakeup.take() || !self.arm_wakeup() {
            std::thread::sleep(self.read_interval());
        } else {
            self.wakeup.wait(gather);
        }
    }

    fn account(&self) -> Account {
        let mut cpus = Vec::with_capacity(self.rings.cpus() + 1);
        for cpu in 0..self.rings.cpus() {
            let counters = self.rings.counters(cpu);
            let kept = self.rings.kept(cpu);
            if counters == Default::default() && kept == 0 {
                continue;
            }
            let mut lost = vec![
                (LossReason::RingFull, counters.lost_ring),
                (LossReason::NoMemory, counters.lost_memory),
                (LossReason::OwnerUnknown, counters.lost_owner),
                (LossReason::StackTable, counters.lost_stack),
            ];
            lost.retain(|(_, records)| *records > 0);
            // The last two are not in `selected`: a lost owner is no record of a flow, and a stack
            // accompanies its record.
            let beside = counters.lost_owner + counters.lost_stack;
            cpus.push(CpuAccount {
                cpu: Some(cpu as u16),
                seen: counters.selected.saturating_sub(counters.thinned) + beside,
                kept,
                lost,
                thinned: counters.thinned,
            });
        }
        // Counts that belong to no single CPU: the kernel's count for all CPUs, the records of
        // silent flows, and undecided flows.
        let nested: u64 = self.programs().iter().map(|p| p.recursion_misses).sum();
        let owner_unknown = self.rings.undecided() + SILENT_RECORDS * self.reader.owners_missing();
        if nested + owner_unknown + self.sampled > 0 {
            let mut lost = vec![(LossReason::Nested, nested), (LossReason::OwnerUnknown, owner_unknown)];
            lost.retain(|(_, records)| *records > 0);
            let seen = nested + owner_unknown + self.sampled;
            cpus.push(CpuAccount { cpu: None, seen, kept: self.sampled, lost, thinned: 0 });
        }
        Account { mono_ns: clock::mono_ns(), wall_offset_ns: clock::wall_offset_ns(), cpus }
    }
}

fn slots(ring_bytes: Option<usize>, cpus: usize) -> u32 {
    const RECORD: usize = size_of::<Record>();
    let bytes = ring_bytes.unwrap_or_else(|| (16 << 20) / cpus.max(4)).max(if ring_bytes.is_some() {
        0
    } else {
        512 << 10
    });
    // 16 is twice the number of records that one CPU may write concurrently; 1 GiB per CPU is more
    // than anyone needs.
    (bytes / RECORD).clamp(16, (1 << 30) / RECORD).next_power_of_two() as u32
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_and_bounded() {
        assert_eq!(slots(None, 2), 32768);
        assert_eq!(slots(None, 8), 16384);
        assert_eq!(slots(None, 256), 4096);
        assert_eq!(slots(Some(1), 2), 16);
        assert_eq!(slots(Some(3000), 2), 32);
        assert_eq!(slots(Some(usize::MAX), 2), 1 << 23);
    }
}
