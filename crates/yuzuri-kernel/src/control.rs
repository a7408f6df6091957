//! A congestion control of our own in the kernel: CUBIC whose constants are settings, and whose window user space can
//! bound, flow by flow.
//!
//! It is registered by name and chosen as any other (`TCP_CONGESTION`, a route's `congctl`, a sysctl); it changes no flow
//! that did not choose it. Dropping a [`Control`] takes it out of the list of available ones; flows that use it keep it
//! until they end, as plain CUBIC once their bounds expire.

pub(crate) mod jiffies;
mod leftover;
mod steered;

pub use steered::Steered;
pub use yuzuri_cca::{Bound, CubicParams, CubicParamsError};

use crate::MonitorError;
use crate::clock::{self, KernelClock};
use crate::features::{first_line, with_log};
use crate::platform::{calls_programs, checks_calls, kernel_version};
use crate::room;
use crate::skel::control::{ControlSkel, ControlSkelBuilder, OpenControlSkel, types};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::time::Duration;
use yuzuri_trace::FlowId;

/// A registered congestion control.
pub struct Control {
    // Before `skel`: the link must go first, or a kernel before 6.4 keeps the registration.
    link: Option<libbpf_rs::Link>,
    skel: ControlSkel<'static>,
    cubic: CubicParams,
    /// Bounds expire by the kernel's clock.
    clock: KernelClock,
    instance: u64,
    /// What the kernel's map holds.
    bounds: HashMap<FlowId, types::bound>,
    /// Flows that the kernel's map has room for.
    room: usize,
}

/// Why a control could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A parameter is out of its range.
    #[error(transparent)]
    CubicParams(#[from] CubicParamsError),
    /// Another one of this name is there.
    #[error(
        "congestion control {0:?} is already registered: stop the program that registered it, or choose another name"
    )]
    Taken(String),
    /// The kernel refuses BPF to us.
    #[error(
        "registering a congestion control: not permitted ({0}); run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NotPermitted(String),
    /// The kernel refused it.
    #[error(
        "registering a congestion control: {0}; it needs struct_ops for TCP (Linux 5.6 with CONFIG_BPF_JIT and \
         CONFIG_DEBUG_INFO_BTF)"
    )]
    Kernel(String),
    /// The kernel would stop at the first call of our programs.
    #[error(
        "registering a congestion control: this kernel checks indirect calls (kCFI) but does not support BPF programs \
         with it: it would panic; this needs Linux 6.9 on x86_64, 6.18 on arm64"
    )]
    ChecksCalls,
    /// A bound could not be written.
    #[error("writing a bound: {0}")]
    Bound(libbpf_rs::Error),
    /// The kernel's table of bounds is full.
    #[error("writing a bound: the kernel map holds {0} flows and is full; release some first")]
    NoRoom(usize),
    /// The flows could not be walked through, or the programs that do it could not be set up.
    #[error("{0}")]
    Steering(String),
}

impl From<MonitorError> for ControlError {
    fn from(error: MonitorError) -> ControlError {
        match error {
            // The monitor's advice is for the monitor.
            MonitorError::NotPermitted(why) => ControlError::NotPermitted(why),
            MonitorError::Load(why) => ControlError::Kernel(why),
            other => ControlError::Kernel(other.to_string()),
        }
    }
}

/// How often a write is tried for which the kernel has no memory at the moment.
const MAX_TRIES: usize = 5;

impl Control {
    /// Registers a congestion control.
    ///
    /// # Errors
    /// A constant out of range, a name that is taken, no privilege, or a kernel without `struct_ops` for TCP (before 5.6).
    pub fn register(cubic: &CubicParams) -> Result<Control, ControlError> {
        Control::register_with_room(cubic, None)
    }

    /// As [`Control::register`], with room for the bounds of so many flows. `None`: as many as this machine
    /// may need, at least 65,536.
    ///
    /// # Errors
    /// As [`Control::register`].
    pub fn register_with_room(cubic: &CubicParams, room: Option<u32>) -> Result<Control, ControlError> {
        let room = room.unwrap_or_else(room::for_flows).max(1);
        cubic.check()?;
        if available().contains(&cubic.name) && (ends_with_link() || !leftover::remove(&cubic.name)) {
            return Err(ControlError::Taken(cubic.name.clone()));
        }
        let mut open = open()?;
        let hz = jiffies::per_second()?;
        let clock = KernelClock::measure()?;
        // Nobody registers twice in a nanosecond of the kernel's clock, which all time namespaces have in
        // common.
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
        with_log("sizing the table of bounds", || open.maps.bounds.set_max_entries(room))?;
        let mut skel = with_log("loading the congestion control", || open.load())?;
        let link = with_log(&cubic.name, || skel.maps.yuzuri.attach_struct_ops()).map_err(|error| {
            // Another was quicker since we looked.
            if available().contains(&cubic.name) {
                ControlError::Taken(cubic.name.clone())
            } else {
                error.into()
            }
        })?;
        Ok(Control {
            link: Some(link),
            skel,
            cubic: cubic.clone(),
            clock,
            instance,
            bounds: HashMap::new(),
            room: room as usize,
        })
    }

    /// Its constants.
    pub fn cubic(&self) -> &CubicParams {
        &self.cubic
    }

    /// What tells this registration from another of the same name; its flows have it first in their private area.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Bounds the window of a flow from its next ACK on, for a time; again and again renewed by whoever wants it to
    /// last.
    ///
    /// # Errors
    /// [`ControlError::NoRoom`], or what the kernel says.
    pub fn bound(&mut self, flow: FlowId, bound: Bound, lasts: Duration) -> Result<(), ControlError> {
        let before = self.bounds.get(&flow).copied().unwrap_or_default();
        let Bound { lower, upper } = bound;
        self.write_one(flow, types::bound { lower, upper, bound_expiry_ns: self.until(lasts), ..before })
    }

    /// Spares a flow the reduction at a loss that is no sign of congestion, for a time, or no longer: its window and ssthresh
    /// stay, as in the mode of the kernel monitor's paper. At an ECN echo, at a packet that the device's own queue
    /// refused, at a timeout and under persistent loss it is cut all the same.
    ///
    /// # Errors
    /// As [`Control::bound`].
    pub fn no_decrease(&mut self, flow: FlowId, on: bool, lasts: Duration) -> Result<(), ControlError> {
        let before = self.bounds.get(&flow).copied().unwrap_or_default();
        let no_decrease_expiry_ns = if on { self.until(lasts) } else { 0 };
        self.write_one(flow, types::bound { no_decrease_expiry_ns, ..before })
    }

    /// Writes the bounds of many flows in one system call, valid for a time, and removes expired entries from
    /// the kernel's map. If the map has no room for all, the first ones get it: the entries of the others are
    /// removed, and these flows are plain CUBIC. Returns how many were written.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn steer_all(&mut self, flows: &[(FlowId, Steered)], lasts: Duration) -> Result<usize, ControlError> {
        self.forget_expired();
        let wanted: HashSet<FlowId> = flows.iter().map(|(flow, _)| *flow).collect();
        let others = self.bounds.keys().filter(|flow| !wanted.contains(flow)).count();
        let fits = flows.len().min(self.room.saturating_sub(others));
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
    pub fn room(&self) -> usize {
        self.room
    }

    /// Removes a flow's entry: it is plain CUBIC from its next ACK on.
    pub fn release(&mut self, flow: FlowId) {
        self.bounds.remove(&flow);
        // It may have none: that is as good.
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
        if !self.bounds.contains_key(&flow) && self.bounds.len() >= self.room {
            self.forget_expired();
            if self.bounds.len() >= self.room {
                return Err(ControlError::NoRoom(self.room));
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
        // If the kernel refuses one, those before it are written: one too many here is better than one
        // forgotten.
        self.bounds.extend(flows.iter().copied());
        self.look_for_bounds(true);
        let map = &self.skel.maps.bounds;
        let mut tries = 1;
        loop {
            match map.update_batch(&keys, &values, flows.len() as u32, MapFlags::ANY, MapFlags::ANY) {
                // The kernel takes memory from a store that it fills up at the same time: it may be empty in
                // the middle of many.
                Err(error) if error.kind() == ErrorKind::OutOfMemory && tries < MAX_TRIES => tries += 1,
                written => return written.map_err(ControlError::Bound),
            }
        }
    }

    /// The kernel's time after a while, nanoseconds.
    fn until(&self, lasts: Duration) -> u64 {
        let now = self.clock.kernels(clock::mono_ns());
        now.saturating_add(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether a flow under the control that had nothing under way has begun to send since the last call.
    pub(crate) fn take_began(&mut self) -> bool {
        self.skel.maps.bss_data.as_deref_mut().is_none_or(|state| crate::steer::take_sign(&mut state.began))
    }

    fn look_for_bounds(&mut self, any: bool) {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.any_bounds = any;
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Flows that keep it are plain CUBIC from now on.
        self.look_for_bounds(false);
        if let Some(link) = self.link.take() {
            // Now, even while another thread's new process has our descriptors until it runs its program. Before 6.11 the
            // kernel cannot; then it ends with the last descriptor.
            let _ = link.detach();
        }
    }
}

/// As `struct bound` of `bpf/control.bpf.c` lies in memory.
fn bytes(bound: &types::bound) -> [u8; size_of::<types::bound>()] {
    let mut bytes = [0; size_of::<types::bound>()];
    bytes[..4].copy_from_slice(&bound.lower.to_ne_bytes());
    bytes[4..8].copy_from_slice(&bound.upper.to_ne_bytes());
    bytes[8..16].copy_from_slice(&bound.bound_expiry_ns.to_ne_bytes());
    bytes[16..24].copy_from_slice(&bound.no_decrease_expiry_ns.to_ne_bytes());
    bytes[24..28].copy_from_slice(&bound.burst.to_ne_bytes());
    bytes
}

/// Whether the kernel takes the control: loads it, and registers nothing.
///
/// # Errors
/// As [`Control::register`].
pub fn examine() -> Result<(), ControlError> {
    let open = open()?;
    with_log("loading the congestion control", || open.load())?;
    Ok(())
}

/// A registration that ends with its link exists since 6.4; before, it ends when libbpf takes it out of its map.
fn ends_with_link() -> bool {
    kernel_version() >= (6, 4)
}

/// The object, not yet loaded, with the kind of registration that this kernel has.
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

/// The congestion controls that the kernel has, loaded ones.
pub fn available() -> Vec<String> {
    let list = first_line("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}
