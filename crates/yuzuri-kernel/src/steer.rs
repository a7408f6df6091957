//! Steering: puts our congestion control on the flows of a network namespace for which nobody chose
//! one, reports what each of them does, sets their bounds, and restores all of them at the end.
//!
//! ```no_run
//! use std::time::Duration;
//! use yuzuri_kernel::control::{Bound, Steered};
//! use yuzuri_kernel::steer::{SteerOptions, Steering};
//! let mut steering = Steering::start(&SteerOptions::default())?;
//! let mut flows = Vec::new();
//! steering.observe(&mut flows)?;
//! let own = flows.iter().filter(|flow| flow.control_state.is_ours());
//! let bounded = Steered { bound: Bound { lower: 0, upper: 40 }, ..Steered::default() };
//! let bounds: Vec<_> = own.map(|flow| (flow.id, bounded)).collect();
//! steering.steer_all(&bounds, Duration::from_millis(1500))?;
//! steering.leave()?;
//! # Ok::<(), yuzuri_kernel::control::ControlError>(())
//! ```
//!
//! See also: `docs/control.md`, `bpf/steer.bpf.c`.

#![expect(unsafe_code, reason = "calls of libbpf")]

mod cgroup;
mod flow;
mod scope;

pub use flow::{ControlState, FlowState, Name};
pub use scope::{Prefix, Scope};

use crate::control::{Bound, CongestionControl, ControlError, CubicParams, Steered};
use crate::features::with_log;
use crate::netns;
use crate::skel::steer::{SteerSkel, SteerSkelBuilder, types};
use flow::RECORD;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use yuzuri_trace::FlowId;

const OBSERVE: u32 = types::mode::MODE_OBSERVE.0;
const MIGRATE: u32 = types::mode::MODE_MIGRATE.0;
const MIGRATE_BACK: u32 = types::mode::MODE_MIGRATE_BACK.0;

/// How to steer.
#[derive(Debug, Clone)]
pub struct SteerOptions {
    /// The control to register, with its name.
    pub cubic: CubicParams,
    /// The flows in scope.
    pub scope: Scope,
    /// The control group (version 2) whose new flows are migrated immediately. `None`: the root,
    /// thus all.
    pub cgroup: Option<PathBuf>,
    /// The initial window of new flows under our congestion control, segments, 1 to
    /// [`SteerOptions::MAX_INITIAL`]. `None`: the kernel's 10. A route's own `initcwnd` stays.
    pub initial_window: Option<u32>,
    /// Whether flows are migrated to our congestion control from the start; see
    /// [`Steering::set_migrating`].
    pub migrates: bool,
    /// Flows that an earlier steering migrated and migrated back ([`LeaveResult::migrated_back`]).
    /// To the kernel, their programs chose their control, and there is no other way to distinguish
    /// them. At most [`SteerOptions::MAX_MIGRATED_BEFORE`]; entries of closed flows are harmless.
    pub migrated_before: Vec<FlowId>,
    /// Capacity of the table of bounds, flows. `None`: as many as this machine may need, at least
    /// 65,536.
    pub bounds_capacity: Option<u32>,
    /// A flow counts as idle after this many walks without activity (nothing written or in flight):
    /// walks no longer report it until something happens. 0: each walk reports every flow. See
    /// [`Steering::idle_flows`].
    pub idle_after_walks: u16,
}

impl SteerOptions {
    /// The largest initial window, segments.
    pub const MAX_INITIAL: u32 = 100;
    /// Maximum number of flows in `migrated_before`: each takes about 100 bytes of kernel memory.
    pub const MAX_MIGRATED_BEFORE: usize = 1 << 18;
}

impl Default for SteerOptions {
    fn default() -> SteerOptions {
        SteerOptions {
            cubic: CubicParams::default(),
            scope: Scope::default(),
            cgroup: None,
            initial_window: None,
            migrates: true,
            migrated_before: Vec::new(),
            bounds_capacity: None,
            idle_after_walks: 0,
        }
    }
}

/// When a new flow comes under our congestion control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewFlows {
    /// When it is established, before its first segment.
    AtOnce,
    /// At the next [`Steering::observe`], for this reason.
    AtNextWalk(String),
}

/// What happened to the flows at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaveResult {
    /// They have their previous congestion control again.
    pub migrated_back: Vec<FlowId>,
    /// The kernel refused, with an errno: they continue as plain CUBIC.
    pub not_migrated_back: Vec<(FlowId, i32)>,
}

/// A running steering: our congestion control on the flows of a network namespace.
///
/// Dropping it leaves as [`Steering::leave`] does. If its process is killed, the flows stay under
/// our congestion control, as plain CUBIC once their bounds expire, and the control ends with the
/// last of them (since Linux 6.4 its name is free immediately). The next steering of the same name
/// takes them over.
pub struct Steering {
    // Before `skel` and `control`: while it is attached, new flows arrive.
    new_flows: Option<libbpf_rs::Link>,
    walk: libbpf_rs::Link,
    skel: SteerSkel<'static>,
    control: CongestionControl,
    when: NewFlows,
    netns: File,
    netns_number: u32,
    buffer: Vec<u8>,
    /// The next walk reports all flows.
    reports_all: bool,
    /// The last walk reported all flows.
    reported_all: bool,
    /// The last walk reported no flow, and the kernel signals when that changes.
    all_idle: bool,
    /// The number of consecutive walks skipped since.
    not_walked: u32,
    /// Whether the kernel signals each flow opened in the namespace immediately.
    reports_new_flows: bool,
    has_left: bool,
}

impl Steering {
    /// Maximum number of consecutive walks that may be skipped.
    pub const MAX_NOT_WALKED: u32 = 3;

    /// Registers the control and sets up the walk in the calling thread's network namespace. No
    /// existing flow is migrated before the first [`Steering::observe`], but new ones are.
    ///
    /// # Errors
    /// As [`CongestionControl::register`]; also if the scope has too many prefixes, the initial
    /// window is out of range, `migrated_before` has too many flows, or the kernel has no BPF
    /// iterators for TCP that may set socket options (before 5.15).
    pub fn start(options: &SteerOptions) -> Result<Steering, ControlError> {
        let scope = options.scope.words()?;
        if let Some(window) = options.initial_window.filter(|w| !(1..=SteerOptions::MAX_INITIAL).contains(w))
        {
            return Err(ControlError::Steering(format!(
                "initial window of {window} segments: it must be from 1 to {}",
                SteerOptions::MAX_INITIAL
            )));
        }
        if options.migrated_before.len() > SteerOptions::MAX_MIGRATED_BEFORE {
            return Err(ControlError::Steering(format!(
                "{} flows were migrated before: at most {} can be passed on; leave out the oldest",
                options.migrated_before.len(),
                SteerOptions::MAX_MIGRATED_BEFORE
            )));
        }
        let netns =
            File::open("/proc/thread-self/ns/net").map_err(steering("opening the network namespace"))?;
        let netns_number = netns.metadata().map_err(steering("reading the network namespace"))?.ino() as u32;
        let cookie = netns_cookie();
        let control = CongestionControl::register_with_capacity(&options.cubic, options.bounds_capacity)?;
        // As in Monitor::start.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = with_log("opening the BPF object", || SteerSkelBuilder::default().open(object))?;
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            for (to, from) in settings.ours.iter_mut().zip(options.cubic.name.bytes()) {
                *to = from as _;
            }
            settings.instance = control.instance();
            settings.netns_cookie = *cookie.as_ref().unwrap_or(&0);
            settings.initial_window = options.initial_window.unwrap_or(0);
            settings.idle_after_walks = options.idle_after_walks.into();
        }
        if let Some(state) = open.maps.bss_data.as_deref_mut() {
            state.scopes[0] = scope;
        }
        let group = cookie
            .map_err(|e| format!("SO_NETNS_COOKIE: {e}"))
            .and_then(|_| cgroup::open(options.cgroup.as_deref()).map_err(|e| e.to_string()));
        open.progs.on_established.set_autoload(group.is_ok());
        with_log("sizing the table of flows that were migrated before", || {
            open.maps.migrated_before.set_max_entries(options.migrated_before.len().max(1) as u32)
        })?;
        let mut skel = with_log("loading the iterator over the flows", || open.load())?;
        for flow in &options.migrated_before {
            let key = flow.0.to_ne_bytes();
            skel.maps.migrated_before.update(&key, &[1], MapFlags::ANY).map_err(ControlError::Bound)?;
        }
        let walk = with_log("setting up the iterator over the flows", || skel.progs.walk.attach())?;
        if let Some(state) = skel.maps.bss_data.as_deref_mut() {
            state.mode = if options.migrates { MIGRATE } else { OBSERVE };
        }
        let attached = group.and_then(|group| {
            let link = with_log("attaching to the control group", || {
                skel.progs.on_established.attach_cgroup(group.as_raw_fd())
            });
            link.map_err(|e| e.to_string())
        });
        let (new_flows, when) = match attached {
            Ok(link) => (Some(link), NewFlows::AtOnce),
            Err(why) => (None, NewFlows::AtNextWalk(why)),
        };
        // If the control group is not the root, flows of other groups are not signalled.
        let reports_new_flows = new_flows.is_some() && options.cgroup.is_none();
        Ok(Steering {
            new_flows,
            walk,
            skel,
            control,
            when,
            netns,
            netns_number,
            buffer: Vec::new(),
            reports_all: false,
            reported_all: true,
            all_idle: false,
            not_walked: 0,
            reports_new_flows,
            has_left: false,
        })
    }

    /// The registered congestion control.
    pub fn control(&self) -> &CongestionControl {
        &self.control
    }

    /// When new flows come under our congestion control.
    pub fn new_flows(&self) -> &NewFlows {
        &self.when
    }

    /// Walks through the flows in scope that can send payload or have some in flight, and migrates
    /// those for which nobody chose a congestion control, if migration is enabled. Afterwards `out`
    /// holds the flows in order of their cookies, without those that are idle
    /// ([`SteerOptions::idle_after_walks`]). The namespace is that of the start, whichever thread
    /// calls.
    ///
    /// The cost of a walk grows with the host's number of sockets. If every flow is idle under our
    /// control, none has begun to send and none was opened since, there is nothing to report: the
    /// walk is skipped, at most [`Steering::MAX_NOT_WALKED`] times in a row. The only effect is
    /// that the end of a flow is noticed later. See [`Steering::walked`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn observe(&mut self, out: &mut Vec<FlowState>) -> Result<(), ControlError> {
        out.clear();
        // Read before the walk: the walk may miss activity during it, which the next one reports.
        let has_signal = self.take_signals();
        let is_known = self.all_idle && !has_signal && !self.reports_all;
        if is_known && self.not_walked < Self::MAX_NOT_WALKED {
            self.not_walked += 1;
            return Ok(());
        }
        (self.all_idle, self.not_walked) = (false, 0);
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.reports_all = self.reports_all.into();
            (state.idle_flows, state.unsignaled) = (0, 0);
        }
        self.read()?;
        self.reported_all = std::mem::take(&mut self.reports_all);
        out.extend(self.buffer.as_chunks::<RECORD>().0.iter().map(FlowState::of));
        // Frees memory after a walk with far more flows than usual.
        self.buffer.shrink_to(self.buffer.len() * 2);
        // When its buffer is full, the kernel continues from a position in its table; before 6.17 a
        // flow may then be reported twice.
        out.sort_unstable_by_key(|flow| flow.id.0);
        out.dedup_by_key(|flow| flow.id);
        let unsignaled = self.skel.maps.bss_data.as_deref().map_or(u32::MAX, |state| state.unsignaled);
        self.all_idle = out.is_empty() && unsignaled == 0 && self.reports_new_flows;
        Ok(())
    }

    /// Whether a flow under our congestion control has begun to send, or one was opened, since the
    /// last call.
    fn take_signals(&mut self) -> bool {
        let opened =
            self.skel.maps.bss_data.as_deref_mut().is_none_or(|state| take_signal(&mut state.opened));
        // Read both signals, always.
        self.control.take_tx_started() | opened
    }

    /// Whether the last [`Steering::observe`] walked; otherwise it knew that nothing had happened.
    pub fn walked(&self) -> bool {
        self.not_walked == 0
    }

    /// Makes the next walk include idle flows.
    pub fn report_all(&mut self) {
        self.reports_all = true;
    }

    /// Whether the last walk included idle flows.
    pub fn reported_all(&self) -> bool {
        self.reported_all
    }

    /// The number of flows that the last walk omitted because they are idle.
    pub fn idle_flows(&self) -> u32 {
        self.skel.maps.bss_data.as_deref().map_or(0, |state| state.idle_flows)
    }

    /// Enables or disables migration, by the walk and for new flows. Flows under our congestion
    /// control stay. The next walk reports all flows.
    pub fn set_migrating(&mut self, migrates: bool) {
        self.reports_all = true;
        self.set_mode(if migrates { MIGRATE } else { OBSERVE });
    }

    /// Changes the scope, since the interface has other addresses. Flows under our congestion
    /// control stay, but those out of scope are no longer reported. The next walk reports all flows
    /// in scope.
    ///
    /// # Errors
    /// If there are more than [`Scope::MAX`] prefixes.
    pub fn set_scope(&mut self, scope: &Scope) -> Result<(), ControlError> {
        let words = scope.words()?;
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            let other = 1 - (state.scope_now & 1);
            state.scopes[other as usize] = words;
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            state.scope_now = other;
        }
        self.reports_all = true;
        Ok(())
    }

    /// See [`CongestionControl::bound`].
    ///
    /// # Errors
    /// As [`CongestionControl::bound`].
    pub fn bound(&mut self, flow: FlowId, bound: Bound, lasts: Duration) -> Result<(), ControlError> {
        self.control.bound(flow, bound, lasts)
    }

    /// See [`CongestionControl::steer_all`].
    ///
    /// # Errors
    /// As [`CongestionControl::steer_all`].
    pub fn steer_all(&mut self, flows: &[(FlowId, Steered)], lasts: Duration) -> Result<usize, ControlError> {
        self.control.steer_all(flows, lasts)
    }

    /// See [`CongestionControl::no_decrease`].
    ///
    /// # Errors
    /// As [`CongestionControl::no_decrease`].
    pub fn no_decrease(&mut self, flow: FlowId, on: bool, lasts: Duration) -> Result<(), ControlError> {
        self.control.no_decrease(flow, on, lasts)
    }

    /// See [`CongestionControl::release`].
    pub fn release(&mut self, flow: FlowId) {
        self.control.release(flow);
    }

    /// Restores the previous congestion control of every flow that we migrated (the namespace's
    /// default if that is gone), and unregisters ours.
    ///
    /// # Errors
    /// The kernel's error; the control is gone nevertheless.
    pub fn leave(mut self) -> Result<LeaveResult, ControlError> {
        self.migrate_back()
    }

    fn migrate_back(&mut self) -> Result<LeaveResult, ControlError> {
        /// A program running on another CPU while it is detached may migrate one more.
        const WALKS: u32 = 5;
        self.has_left = true;
        if let Some(link) = self.new_flows.take() {
            // As in CongestionControl::drop; the mode stops it in any case.
            let _ = link.detach();
        }
        self.set_mode(MIGRATE_BACK);
        let mut left = LeaveResult::default();
        for _ in 0..WALKS {
            self.read()?;
            let records = self.buffer.as_chunks::<RECORD>().0;
            if records.is_empty() {
                break;
            }
            for flow in records.iter().map(FlowState::of) {
                match flow.control_state {
                    ControlState::Refused { errno } => left.not_migrated_back.push((flow.id, errno)),
                    _ => left.migrated_back.push(flow.id),
                }
            }
        }
        Ok(left)
    }

    fn set_mode(&mut self, mode: u32) {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.mode = mode;
        }
    }

    /// Makes one walk, with its records in the buffer.
    fn read(&mut self) -> Result<(), ControlError> {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.walks = state.walks.wrapping_add(1).max(1);
        }
        let (link, buffer) = (self.walk.as_fd(), &mut self.buffer);
        buffer.clear();
        let read = if netns::is_own(self.netns_number) {
            read_walk(link, buffer)
        } else {
            // The kernel walks through the namespace of the process that opens the walk.
            let path = PathBuf::from(format!("/proc/self/fd/{}", self.netns.as_raw_fd()));
            netns::enter(&path, || read_walk(link, buffer))
                .map_err(|error| ControlError::Steering(error.to_string()))?
        };
        read.map_err(steering("iterating over the flows"))
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if !self.has_left {
            // Drop cannot return the result.
            let _ = self.migrate_back();
        }
    }
}

/// Resets a signal that our programs in the kernel set to 1; returns whether it was set.
pub(crate) fn take_signal(signal: &mut u32) -> bool {
    // SAFETY: aligned, in a mapping that lives as long as the reference, and accessed only as a
    // whole.
    unsafe { AtomicU32::from_ptr(signal) }.swap(0, Ordering::SeqCst) != 0
}

fn steering(doing: &'static str) -> impl Fn(std::io::Error) -> ControlError {
    move |error| ControlError::Steering(format!("{doing}: {error}"))
}

fn read_walk(link: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    // SAFETY: an open descriptor.
    let walk = unsafe { libbpf_rs::libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if walk < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and owned from here on.
    let mut walk = File::from(unsafe { OwnedFd::from_raw_fd(walk) });
    // The kernel returns at most its own buffer of 8 pages, and never a part of a record.
    const PART: usize = 64 * 1024;
    let mut length = 0;
    loop {
        if buffer.len() < length + PART {
            buffer.resize(length + PART, 0);
        }
        match walk.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            // A million sockets without output (bpf_seq_read): there are more.
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
    buffer.truncate(length);
    Ok(())
}

/// The calling thread's namespace as BPF programs identify it (Linux 5.14).
fn netns_cookie() -> std::io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    // A kind of socket that needs no address.
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into an integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &mut length,
        )
    };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(cookie) }
}
