//! A congestion control of our own in the kernel: CUBIC whose constants are settings, and whose window user space can
//! bound, flow by flow.
//!
//! It is registered by name and chosen as any other (`TCP_CONGESTION`, a route's `congctl`, a sysctl); it changes no flow
//! that did not choose it. Dropping a [`Control`] takes it out of the list of available ones; flows that use it keep it
//! until they end, as plain CUBIC once their bounds expire.

use crate::MonitorError;
use crate::clock;
use crate::features::{first_line, with_log};
use crate::skel::control::{ControlSkel, ControlSkelBuilder, types};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use yuzuri_trace::FlowId;

/// The constants of a control. The default is Linux's own CUBIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    /// The name to register: 1 to 15 letters, digits, `_` and `.` (`TCP_CA_NAME_MAX` with its end).
    pub name: String,
    /// C of RFC 9438 section 4.1, segments per cubic second; above 0, at most 4. Linux has 410/1024.
    pub c: f64,
    /// What a reduction keeps of the window, 0.1 to 0.95 (1 - beta of CUBIC's papers). Linux has 717/1024.
    pub keeps: f64,
    /// Whether a flow that was reduced below its last W_max gives way further (RFC 9438 section 4.7).
    pub fast_convergence: bool,
    /// Whether it grows at least as fast as Reno (RFC 9438 section 4.3).
    pub reno_friendly: bool,
    /// Whether slow start ends by HyStart, before loss.
    pub hystart: bool,
    /// The mode of paper 1: neither window nor ssthresh is cut on a sign of loss. An experiment, not for other people's
    /// networks.
    pub no_decrease: bool,
    /// A bound on every flow under this control, without expiry.
    pub always: Bound,
}

impl Default for Law {
    fn default() -> Law {
        Law {
            name: "yuzuri".into(),
            c: 410.0 / 1024.0,
            keeps: 717.0 / 1024.0,
            fast_convergence: true,
            reno_friendly: true,
            hystart: true,
            no_decrease: false,
            always: Bound::default(),
        }
    }
}

/// Bounds on a window, in segments; 0 is none.
///
/// At the upper one growth stops; a window beyond it shrinks by what is acknowledged. The lower one is approached by
/// growth per ACK, in Open state and while the window limits the flow, and not between a timeout and the end of the slow
/// start that follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// The least window.
    pub lower: u32,
    /// The largest window; 1 is taken as 2, and a lower bound above it as it.
    pub upper: u32,
}

/// A registered congestion control.
pub struct Control {
    // Before `skel`: the link must go first, or a kernel before 6.4 keeps the registration.
    link: Option<libbpf_rs::Link>,
    skel: ControlSkel<'static>,
    law: Law,
}

/// Why a control could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A constant is out of its range.
    #[error("congestion control {name:?}: {what}")]
    Law {
        /// Its name.
        name: String,
        /// Which constant, and its range.
        what: String,
    },
    /// Another one of this name is there.
    #[error(
        "congestion control {0:?} is registered already: end the program that did, or choose another name"
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
    /// A bound could not be written.
    #[error("writing a bound: {0}")]
    Bound(libbpf_rs::Error),
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

impl Control {
    /// Registers a congestion control.
    ///
    /// # Errors
    /// A constant out of range, a name that is taken, no privilege, or a kernel without `struct_ops` for TCP (before 5.6).
    pub fn register(law: &Law) -> Result<Control, ControlError> {
        law.check()?;
        if available().contains(&law.name) {
            return Err(ControlError::Taken(law.name.clone()));
        }
        // As in Monitor::start.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = with_log("opening the BPF object", || ControlSkelBuilder::default().open(object))?;
        let hz = jiffies_per_second()?;
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            let part = |x: f64| (x * 1024.0).round() as u32;
            settings.c_1024 = part(law.c);
            settings.keep_1024 = part(law.keeps);
            settings.fast_convergence = law.fast_convergence;
            settings.reno_friendly = law.reno_friendly;
            settings.hystart = law.hystart;
            settings.no_decrease = law.no_decrease;
            settings.hz = hz;
            settings.lower_always = law.always.lower;
            settings.upper_always = law.always.upper;
        }
        let registered = &mut open.struct_ops.yuzuri_mut().name;
        registered.fill(0);
        for (to, from) in registered.iter_mut().zip(law.name.bytes()) {
            *to = from as _;
        }
        // A registration that ends with its link exists since 6.4; before, it ends when libbpf takes it out of its map.
        let with_link = kernel_version() >= (6, 4);
        if !with_link {
            with_log("choosing the kind of registration", || open.maps.yuzuri.set_map_flags(0))?;
        }
        let mut skel = with_log("loading the congestion control", || open.load())?;
        let link = with_log(&law.name, || skel.maps.yuzuri.attach_struct_ops())?;
        Ok(Control { link: Some(link), skel, law: law.clone() })
    }

    /// Its constants.
    pub fn law(&self) -> &Law {
        &self.law
    }

    /// Bounds the window of a flow from its next ACK on, for a time; again and again renewed by whoever wants it to
    /// last.
    ///
    /// # Errors
    /// Where the kernel refuses: more than 16,384 flows.
    pub fn bound(&mut self, flow: FlowId, bound: Bound, lasts: Duration) -> Result<(), ControlError> {
        let lasts_ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        let value = types::bound {
            lower: bound.lower,
            upper: bound.upper,
            expiry_ns: clock::mono_ns().saturating_add(lasts_ns),
        };
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&value.lower.to_ne_bytes());
        bytes[4..8].copy_from_slice(&value.upper.to_ne_bytes());
        bytes[8..].copy_from_slice(&value.expiry_ns.to_ne_bytes());
        let key = flow.0.to_ne_bytes();
        self.skel.maps.bounds.update(&key, &bytes, MapFlags::ANY).map_err(ControlError::Bound)?;
        self.look_for_bounds(true);
        Ok(())
    }

    /// Takes a flow's bound away.
    pub fn release(&mut self, flow: FlowId) {
        // It may have none: that is as good.
        let _ = self.skel.maps.bounds.delete(&flow.0.to_ne_bytes());
        if self.skel.maps.bounds.keys().next().is_none() {
            self.look_for_bounds(false);
        }
    }

    fn look_for_bounds(&mut self, any: bool) {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.any_bounds = any;
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.link = None;
    }
}

impl Law {
    /// Whether all constants are in their ranges.
    ///
    /// # Errors
    /// [`ControlError::Law`] with the first that is not.
    pub fn check(&self) -> Result<(), ControlError> {
        // `bpf_obj_name_cpy` takes no other characters.
        let name_fits = (1..16).contains(&self.name.len())
            && self.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let what = if !name_fits {
            "a name has 1 to 15 ASCII letters, digits, underscores and dots"
        } else if !(self.c >= 1.0 / 1024.0 && self.c <= 4.0) {
            "C must be from 1/1024 to 4"
        } else if !(self.keeps >= 0.1 && self.keeps <= 0.95) {
            "what a reduction keeps must be from 0.1 to 0.95"
        } else {
            return Ok(());
        };
        Err(ControlError::Law { name: self.name.clone(), what: what.into() })
    }
}

/// The congestion controls that the kernel has, loaded ones.
pub fn available() -> Vec<String> {
    let list = first_line("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// The running kernel's version, (0, 0) where it cannot be told.
fn kernel_version() -> (u32, u32) {
    let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// CONFIG_HZ of the running kernel, from its own clocks: no interface tells it everywhere.
fn jiffies_per_second() -> Result<u32, MonitorError> {
    let object = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = with_log("opening the BPF object", || ControlSkelBuilder::default().open(object))?;
    // Only the program that reads the clocks.
    for program in [
        &mut open.progs.yuzuri_init,
        &mut open.progs.yuzuri_cwnd_event,
        &mut open.progs.yuzuri_cong_avoid,
        &mut open.progs.yuzuri_ssthresh,
        &mut open.progs.yuzuri_set_state,
        &mut open.progs.yuzuri_undo_cwnd,
        &mut open.progs.yuzuri_pkts_acked,
    ] {
        program.set_autoload(false);
    }
    with_log("leaving the control out", || open.maps.yuzuri.set_autocreate(false))?;
    let skel = with_log("loading the reader of clocks", || open.load())?;
    let read = || -> Result<(u64, u64), MonitorError> {
        with_log("reading the kernel's clocks", || {
            skel.progs.read_clocks.test_run(libbpf_rs::ProgramInput::default()).map(drop)
        })?;
        let state = skel.maps.bss_data.as_deref();
        Ok(state.map_or((0, 0), |s| (s.clock_jiffies, s.clock_ns)))
    };
    // From a tick's beginning to a tick's beginning, so that no part of a tick is left over: 20 of them are 20 to 200 ms.
    let next_tick = |after: u64| -> Result<(u64, u64), MonitorError> {
        let patience = Instant::now();
        loop {
            let (jiffies, ns) = read()?;
            if jiffies > after || patience.elapsed() > Duration::from_secs(2) {
                return Ok((jiffies, ns));
            }
        }
    };
    let (start, _) = read()?;
    let (first, first_ns) = next_tick(start)?;
    let (last, last_ns) = next_tick(first + 19)?;
    let hz = (last - first) as f64 * 1e9 / (last_ns - first_ns).max(1) as f64;
    // What Kconfig offers.
    let nearest = [100, 250, 300, 1000, 1024, 128, 24, 48, 200, 256, 500, 512]
        .into_iter()
        .min_by(|a, b| (f64::from(*a) - hz).abs().total_cmp(&(f64::from(*b) - hz).abs()));
    Ok(nearest.unwrap_or(250))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn constants_out_of_range_are_named() {
        let bad = [
            Law { name: String::new(), ..Law::default() },
            Law { name: "sixteen-letters-".into(), ..Law::default() },
            Law { name: "a b".into(), ..Law::default() },
            Law { name: "a-b".into(), ..Law::default() },
            Law { c: 0.0, ..Law::default() },
            Law { c: f64::NAN, ..Law::default() },
            Law { keeps: 1.0, ..Law::default() },
        ];
        for law in bad {
            assert!(matches!(law.check(), Err(ControlError::Law { .. })), "{law:?}");
        }
        Law::default().check().unwrap();
    }
}
