//! Our congestion control in the kernel: CUBIC with configurable constants, whose window user space
//! can bound for each flow.
//!
//! It is registered by name and chosen like any other (`TCP_CONGESTION`, a route's `congctl`, a
//! sysctl); it does not affect flows that did not choose it. Dropping a [`CongestionControl`]
//! unregisters it. Flows that use it keep it until they end, and become plain CUBIC once their
//! bounds expire.

pub(crate) mod jiffies;
mod leftover;
mod steered;

pub use steered::Steered;
pub use yuzuri_cca::{Bound, CubicParams, CubicParamsError};

use crate::MonitorError;
use crate::clock::{self, KernelClock};
use crate::features::{first_line, with_log};
use crate::platform::{calls_programs, checks_calls, kernel_version};
use crate::skel::control::{ControlSkel, ControlSkelBuilder, OpenControlSkel, types};
use crate::table_sizes;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::time::Duration;
use yuzuri_trace::FlowId;

/// A registered congestion control.
pub struct CongestionControl {
    // Before `skel`: the link must be dropped first, or a kernel before 6.4 keeps the registration.
    link: Option<libbpf_rs::Link>,
    skel: ControlSkel<'static>,
    cubic: CubicParams,
    /// Bounds expire by the kernel's clock.
    clock: KernelClock,
    instance: u64,
    /// The content of the kernel's map.
    bounds: HashMap<FlowId, types::bound>,
    /// The capacity of the kernel's map, flows.
    capacity: usize,
}

/// Why a control could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A parameter is out of its range.
    #[error(transparent)]
    CubicParams(#[from] CubicParamsError),
    /// The name is taken.
    #[error(
        "congestion control {0:?} is already registered: stop the program that registered it, or choose another name"
    )]
    Taken(String),
    /// The kernel denies us BPF.
    #[error(
        "registering a congestion control: not permitted ({0}); run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NotPermitted(String),
    /// The kernel refused the control.
    #[error(
        "registering a congestion control: {0}; it needs struct_ops for TCP (Linux 5.6 with CONFIG_BPF_JIT and \
         CONFIG_DEBUG_INFO_BTF)"
    )]
    Kernel(String),
    /// The kernel would panic at the first call of our programs.
    #[error(
        "registering a congestion control: this kernel checks indirect calls (kCFI) but does not support BPF programs \
         with it: it would panic; this needs Linux 6.9 on x86_64, 6.18 on arm64"
    )]
    ChecksCalls,
    /// A registration would outlast this process.
    #[error(
        "registering a congestion control: with this kernel it would stay when this process is killed; it needs \
         Linux 6.4"
    )]
    Outlasts,
    /// A bound could not be written.
    #[error("writing a bound: {0}")]
    Bound(libbpf_rs::Error),
    /// The kernel's table of bounds is full.
    #[error("writing a bound: the kernel map holds {0} flows and is full; release some first")]
    TableFull(usize),
    /// The steering could not be set up, or the flows could not be iterated.
    #[error("{0}")]
    Steering(String),
}

impl From<MonitorError> for ControlError {
    fn from(error: MonitorError) -> ControlError {
        match error {
            // The monitor's advice does not apply here.
            MonitorError::NotPermitted(why) => ControlError::NotPermitted(why),
            MonitorError::Load(why) => ControlError::Kernel(why),
            other => ControlError::Kernel(other.to_string()),
        }
    }
}

/// How often a write is retried for which the kernel momentarily has no memory.
const MAX_TRIES: usize = 5;

impl CongestionControl {
    /// Registers a congestion control.
    ///
    /// # Errors
    /// If a constant is out of range, the name is taken, privilege is missing, or the kernel has no
    /// `struct_ops` for TCP (before 5.6).
    pub fn register(cubic: &CubicParams) -> Result<CongestionControl, ControlError> {
        CongestionControl::register_with_capacity(cubic, None)
    }

    /// As [`CongestionControl::register`], with room for the bounds of this many flows. `None`: as
    /// many as this machine may need, at least 65,536.
    ///
    /// # Errors
    /// As [`CongestionControl::register`].
    pub fn register_with_capacity(
        cubic: &CubicParams,
        capacity: Option<u32>,
    ) -> Result<CongestionControl, ControlError> {
        let capacity = capacity.unwrap_or_else(table_sizes::for_flows).max(1);
        cubic.check()?;
        if available().contains(&cubic.name) && (ends_with_link() || !leftover::remove(&cubic.name)) {
            return Err(ControlError::Taken(cubic.name.clone()));
        }
        let mut open = open()?;
        let hz = jiffies::per_second()?;
        let clock = KernelClock::measure()?;
        // Unique: no two registrations happen in the same nanosecond of the kernel's clock, which
        // all time namespaces share.
        let instance = clock.kernels(clock::mono_ns());
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            let part = |x: f64| (x * 1024.0).round() as u32;
            settings.c_1024 = part(cubic.c);
            settings.beta_1024 = part(cubic.beta);
            settings.fast_convergence = cubic.fast_convergence;
            settings.reno_friendly = cubic.reno_friendly;
            settings.hystart = cubic.hystart;
            settings.no_decrease = cubic.no_decrease;
            settings.hz = hz;
            settings.instance = instance;
            settings.lower_always = cubic.always.lower;
            settings.upper_always = cubic.always.upper;
        }
        let registered = &mut open.struct_ops.yuzuri_mut().name;
        registered.fill(0);
        for (to, from) in registered.iter_mut().zip(cubic.name.bytes()) {
            *to = from as _;
        }
        with_log("sizing the table of bounds", || open.maps.bounds.set_max_entries(capacity))?;
        let mut skel = with_log("loading the congestion control", || open.load())?;
        let link = with_log(&cubic.name, || skel.maps.yuzuri.attach_struct_ops()).map_err(|error| {
            // Another process may have registered the name since the check.
            if available().contains(&cubic.name) {
                ControlError::Taken(cubic.name.clone())
            } else {
                error.into()
            }
        })?;
        Ok(CongestionControl {
            link: Some(link),
            skel,
            cubic: cubic.clone(),
            clock,
            instance,
            bounds: HashMap::new(),
            capacity: capacity as usize,
        })
    }

    /// Its constants.
    pub fn cubic(&self) -> &CubicParams {
        &self.cubic
    }

    /// The id that distinguishes this registration from others of the same name. Its flows have it
    /// at the start of their private area.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Bounds the window of a flow from its next ACK on, for a limited time; callers renew it as
    /// long as it should last.
    ///
    /// # Errors
    /// [`ControlError::TableFull`], or the kernel's error.
    pub fn bound(&mut self, flow: FlowId, bound: Bound, lasts: Duration) -> Result<(), ControlError> {
        let before = self.bounds.get(&flow).copied().unwrap_or_default();
        let Bound { lower, upper } = bound;
        self.write_one(flow, types::bound { lower, upper, bound_expiry_ns: self.until(lasts), ..before })
    }

    /// Exempts a flow from the reduction at a loss that is no sign of congestion, for a limited
    /// time, or ends the exemption: its window and ssthresh stay, as in the mode of the kernel
    /// monitor's paper. The flow is still reduced at an ECN echo, at a packet refused by the
    /// device's own queue, at a timeout and under persistent loss.
    ///
    /// # Errors
    /// As [`CongestionControl::bound`].
    pub fn no_decrease(&mut self, flow: FlowId, on: bool, lasts: Duration) -> Result<(), ControlError> {
        let before = self.bounds.get(&flow).copied().unwrap_or_default();
        let no_decrease_expiry_ns = if on { self.until(lasts) } else { 0 };
        self.write_one(flow, types::bound { no_decrease_expiry_ns, ..before })
    }

    /// Writes the bounds of many flows in one system call, valid for a time, and removes expired
    /// entries from the kernel's map. If the map has no room for all, the first ones get it: the
    /// entries of the others are removed, and these flows are plain CUBIC. Returns how many were
    /// written.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn steer_all(&mut self, flows: &[(FlowId, Steered)], lasts: Duration) -> Result<usize, ControlError> {
        self.forget_expired();
        let wanted: HashSet<FlowId> = flows.iter().map(|(flow, _)| *flow).collect();
        let others = self.bounds.keys().filter(|flow| !wanted.contains(flow)).count();
        let fits = flows.len().min(self.capacity.saturating_sub(others));
        let (flows, without) = flows.split_at(fits);
        for (flow, _) in without {
            if self.bounds.contains_key(flow) {
                self.release(*flow);
            }
        }
        let expiry = self.until(lasts);
        let values =
            flows.iter().map(|(flow, Steered { bound: Bound { lower, upper }, no_decrease, burst })| {
                let no_decrease_expiry_ns = if *no_decrease { expiry } else { 0 };
                let value = types::bound {
                    lower: *lower,
                    upper: *upper,
                    bound_expiry_ns: expiry,
                    no_decrease_expiry_ns,
                    burst: *burst,
                    unused: 0,
                };
                (*flow, value)
            });
        self.write(&values.collect::<Vec<_>>())?;
        Ok(fits)
    }

    /// How many flows the kernel's map has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Removes a flow's entry: it is plain CUBIC from its next ACK on.
    pub fn release(&mut self, flow: FlowId) {
        self.bounds.remove(&flow);
        // A missing entry is no error.
        let _ = self.skel.maps.bounds.delete(&flow.0.to_ne_bytes());
        if self.bounds.is_empty() {
            self.look_for_bounds(false);
        }
    }

    /// Removes expired entries from the map: most of them belong to flows that are closed.
    fn forget_expired(&mut self) {
        let now = self.clock.kernels(clock::mono_ns());
        let is_over = |bound: &types::bound| bound.bound_expiry_ns.max(bound.no_decrease_expiry_ns) <= now;
        let over: Vec<FlowId> =
            self.bounds.iter().filter(|(_, bound)| is_over(bound)).map(|(flow, _)| *flow).collect();
        over.into_iter().for_each(|flow| self.release(flow));
    }

    fn write_one(&mut self, flow: FlowId, bound: types::bound) -> Result<(), ControlError> {
        if !self.bounds.contains_key(&flow) && self.bounds.len() >= self.capacity {
            self.forget_expired();
            if self.bounds.len() >= self.capacity {
                return Err(ControlError::TableFull(self.capacity));
            }
        }
        self.write(&[(flow, bound)])
    }

    fn write(&mut self, flows: &[(FlowId, types::bound)]) -> Result<(), ControlError> {
        if flows.is_empty() {
            return Ok(());
        }
        let keys: Vec<u8> = flows.iter().flat_map(|(flow, _)| flow.0.to_ne_bytes()).collect();
        let values: Vec<u8> = flows.iter().flat_map(|(_, bound)| bytes(bound)).collect();
        // If the kernel refuses one, those before it are written: one too many here is better than
        // one forgotten.
        self.bounds.extend(flows.iter().copied());
        self.look_for_bounds(true);
        let map = &self.skel.maps.bounds;
        let mut tries = 1;
        loop {
            match map.update_batch(&keys, &values, flows.len() as u32, MapFlags::ANY, MapFlags::ANY) {
                // The kernel takes memory from a pool that it refills concurrently: the pool may be
                // empty for a moment.
                Err(error) if error.kind() == ErrorKind::OutOfMemory && tries < MAX_TRIES => tries += 1,
                written => return written.map_err(ControlError::Bound),
            }
        }
    }

    /// The kernel's time after `lasts`, nanoseconds.
    fn until(&self, lasts: Duration) -> u64 {
        let now = self.clock.kernels(clock::mono_ns());
        now.saturating_add(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether an idle flow under the control has begun to send since the last call.
    pub(crate) fn take_tx_started(&mut self) -> bool {
        self.skel
            .maps
            .bss_data
            .as_deref_mut()
            .is_none_or(|state| crate::steer::take_signal(&mut state.tx_started))
    }

    fn look_for_bounds(&mut self, any: bool) {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.any_bounds = any;
        }
    }
}

impl Drop for CongestionControl {
    fn drop(&mut self) {
        // Flows that keep it are plain CUBIC from now on.
        self.look_for_bounds(false);
        if let Some(link) = self.link.take() {
            // Detach explicitly, since a new process of another thread may hold our descriptors
            // until it executes its program. A kernel before 6.11 cannot; there the registration
            // ends with the last descriptor.
            let _ = link.detach();
        }
    }
}

/// The memory layout of `struct bound` in `bpf/control.bpf.c`.
fn bytes(bound: &types::bound) -> [u8; size_of::<types::bound>()] {
    let mut bytes = [0; size_of::<types::bound>()];
    bytes[..4].copy_from_slice(&bound.lower.to_ne_bytes());
    bytes[4..8].copy_from_slice(&bound.upper.to_ne_bytes());
    bytes[8..16].copy_from_slice(&bound.bound_expiry_ns.to_ne_bytes());
    bytes[16..24].copy_from_slice(&bound.no_decrease_expiry_ns.to_ne_bytes());
    bytes[24..28].copy_from_slice(&bound.burst.to_ne_bytes());
    bytes
}

/// Whether the kernel accepts the control: loads it, and registers nothing.
///
/// # Errors
/// As [`CongestionControl::register`].
pub fn examine() -> Result<(), ControlError> {
    let open = open()?;
    with_log("loading the congestion control", || open.load())?;
    Ok(())
}

/// Registrations that end with their link exist since 6.4; before, one ends when libbpf deletes it
/// from its map.
pub(crate) fn ends_with_link() -> bool {
    kernel_version() >= (6, 4)
}

/// The object, not yet loaded, with the kind of registration that this kernel supports.
fn open() -> Result<OpenControlSkel<'static>, ControlError> {
    if !calls_programs(kernel_version(), checks_calls) {
        return Err(ControlError::ChecksCalls);
    }
    // As in Monitor::start.
    let object = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = with_log("opening the BPF object", || ControlSkelBuilder::default().open(object))?;
    if !ends_with_link() {
        with_log("choosing the kind of registration", || open.maps.yuzuri.set_map_flags(0))?;
    }
    Ok(open)
}

/// The congestion controls available in the kernel, including loaded modules.
pub fn available() -> Vec<String> {
    let list = first_line("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}
