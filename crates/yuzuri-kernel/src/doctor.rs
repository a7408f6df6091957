//! What this kernel and this user's privileges offer, determined by trying.

use crate::clock::KernelClock;
use crate::control::{self, ControlError};
use crate::features::{Tracepoints, first_line, with_log};
use crate::platform;
use crate::shielded::shielded;
use crate::skel::probe::ProbeSkelBuilder;
use crate::{Monitor, MonitorError, Options, Poller, Symbols, Watch};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use serde::Serialize;
use std::mem::MaybeUninit;
use yuzuri_trace::{Density, Filter};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckResult {
    /// Available.
    Ok,
    /// Missing; something else replaces it, or it is not needed.
    Fallback,
    /// Missing, and a function is unavailable.
    Missing,
}

impl CheckResult {
    /// The word in the table.
    pub fn name(self) -> &'static str {
        match self {
            CheckResult::Ok => "ok",
            CheckResult::Fallback => "fallback",
            CheckResult::Missing => "missing",
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check.
    pub what: String,
    /// The result.
    pub result: CheckResult,
    /// Details, in the kernel's words if it gave any.
    pub found: String,
    /// The feature that needs it.
    pub gives: String,
    /// The remedy if it is missing: a package, a capability, a kernel version, or the replacement.
    pub advice: String,
}

fn finding(what: &str, gives: &str, found: Result<String, (CheckResult, String, &str)>) -> Finding {
    let (result, found, advice) = match found {
        Ok(found) => (CheckResult::Ok, found, String::new()),
        Err((result, found, advice)) => (result, found, advice.to_owned()),
    };
    Finding { what: what.into(), result, found, gives: gives.into(), advice }
}

/// Examines this machine. Loads the monitor temporarily.
pub fn examine() -> Vec<Finding> {
    use CheckResult::{Fallback, Missing};
    let kernel = first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|e| e.to_string());
    let mut findings = vec![finding("system", "", Ok(platform::system())), finding("kernel", "", Ok(kernel))];
    findings.extend(guards());

    let mut watch = Monitor::start(&Options { filter: never(), ..Options::default() });
    let monitor = match &mut watch {
        Ok(_) => Ok("loads and attaches".to_owned()),
        Err(error) => {
            let advice = match error {
                MonitorError::NotPermitted(_) if platform::is_android() => {
                    "run it with `su` of the device's root manager: adb's own shell may not load BPF"
                }
                MonitorError::NotPermitted(_) => "run as root, or grant CAP_BPF, CAP_PERFMON and CAP_SYSLOG",
                MonitorError::NoBtf => {
                    "a kernel with CONFIG_DEBUG_INFO_BTF=y: Debian 11, Ubuntu 20.10 or later"
                }
                _ => "Linux 5.19 or later; `watch --poll` works without it",
            };
            Err((Missing, error.to_string(), advice))
        }
    };
    findings.push(finding("kernel monitor", "watch, top: every ACK and event", monitor));

    let btf = std::fs::metadata("/sys/kernel/btf/vmlinux").map(|m| format!("{} kB", m.len() / 1000));
    let btf = btf.map_err(|e| (Missing, e.to_string(), "a kernel with CONFIG_DEBUG_INFO_BTF=y"));
    findings.push(finding("BTF", "typed access to the kernel's structures", btf));

    let clock = KernelClock::measure().map(|clock| clock.to_string());
    let clock = clock.map_err(|e| (Missing, e.to_string(), "run as root, or grant CAP_BPF"));
    findings.push(finding("kernel clock", "the time of records and bounds", clock));

    let tracepoints = Tracepoints::read();
    for (name, gives, there, advice) in [
        (
            "tcp:tcp_probe",
            "state at each ACK",
            tracepoints.as_ref().map(|t| t.tcp_probe),
            "Linux 5.8 or later",
        ),
        (
            "tcp:tcp_cong_state_set",
            "state changes with their place",
            tracepoints.as_ref().map(|t| t.tcp_cong_state_set),
            "Linux 5.19 or later; without it the next ACK shows the change",
        ),
    ] {
        let found = match there {
            Some(true) => Ok("typed tracepoint".to_owned()),
            Some(false) => Err((Fallback, "not in this kernel".to_owned(), advice)),
            None => Err((Missing, "BTF cannot be read".to_owned(), advice)),
        };
        findings.push(finding(name, gives, found));
    }

    let symbols = Symbols::load().map(|s| format!("{} functions of TCP", s.len()));
    let symbols = symbols.map_err(|e| {
        (Fallback, e.to_string(), "run as root with kernel.kptr_restrict 0 or 1; else places are tracepoints")
    });
    findings.push(finding("kernel symbols", "the function where an event happened", symbols));

    let functions = with_log("fentry/tcp_enter_loss", || {
        let mut object = MaybeUninit::uninit();
        let skel = ProbeSkelBuilder::default().open(&mut object)?.load()?;
        skel.progs.on_function.attach().map(drop)
    });
    // The advice for a monitor that cannot load does not fit here, since the monitor works without
    // it.
    let functions = functions.map(|()| "attaches".to_owned()).map_err(|error| match error {
        MonitorError::NotPermitted(why) | MonitorError::Load(why) => why,
        other => other.to_string(),
    });
    let advice = "nothing: the stacks of the tracepoints show the function";
    findings.push(finding("fentry", "not needed", functions.map_err(|why| (Fallback, why, advice))));

    // perf's list of supported probes, which is available without tracefs and without privilege.
    let probes = first_line("/sys/bus/event_source/devices/kprobe/type").map(|_| "available".to_owned());
    let probes = probes
        .map_err(|_| (Fallback, "not in this kernel".to_owned(), "nothing: Yuzuri does not use kprobes"));
    findings.push(finding("kprobes", "not needed", probes));

    findings.push(finding("window control (struct_ops)", "share: bounds in the kernel", window_control()));

    let polled = Poller::start(&Filter::default(), Density::default(), "doctor").map(|mut poller| {
        let mut items = Vec::new();
        poller.read(&mut items);
        "answers".to_owned()
    });
    let polled = polled
        .map_err(|e| (Missing, e.to_string(), "a kernel with CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG"));
    findings.push(finding("sock_diag", "watch --poll: without privilege", polled));

    let jit = first_line("/proc/sys/net/core/bpf_jit_enable");
    let jit = match jit.as_deref() {
        Ok("0") => Err((
            Fallback,
            "off".to_owned(),
            "sysctl net.core.bpf_jit_enable=1 makes the monitor several times cheaper",
        )),
        Ok(_) => Ok("on".to_owned()),
        // Only root may read it; kernels with CONFIG_BPF_JIT_ALWAYS_ON always have it on.
        Err(e) => Err((Fallback, e.to_string(), "run as root to see it")),
    };
    findings.push(finding("BPF JIT", "speed", jit));

    let kept: Vec<String> = shielded().into_iter().map(|p| format!("{} ({})", p.pid, p.name)).collect();
    let kept = if kept.is_empty() {
        Ok("none".to_owned())
    } else {
        let advice = "nothing: while such a process has the CPU, this kernel runs no BPF program for arriving \
                      packets, and does not count these events as missed; totals stay correct";
        Err((Fallback, kept.join(", "), advice))
    };
    findings.push(finding("processes shielded from root", "every event is seen", kept));

    let controls = first_line("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let controls = controls.map_err(|e| (Missing, e.to_string(), "a kernel with TCP"));
    findings.push(finding("congestion controls", "send --control", controls));
    if let Ok(monitor) = watch {
        drop(monitor);
    }
    findings
}

/// Protections that may restrict even root; only those in use.
fn guards() -> Vec<Finding> {
    let selinux = platform::selinux().map(|found| finding("SELinux", "", Ok(found)));
    let lockdown = platform::lockdown().map(|found| {
        let found = if found == "confidentiality" {
            let advice =
                "boot with lockdown=integrity or without: confidentiality prevents BPF from reading the kernel";
            Err((CheckResult::Missing, found, advice))
        } else {
            Ok(found)
        };
        finding("kernel lockdown", "", found)
    });
    selinux.into_iter().chain(lockdown).collect()
}

/// Whether the congestion control of `yuzuri share` is available. Without it, `send --share`
/// still keeps to the device's share.
fn window_control() -> Result<String, (CheckResult, String, &'static str)> {
    let advice = |error: &ControlError| match error {
        ControlError::NotPermitted(_) => "run as root; without it, `send --share` bounds its own connections",
        ControlError::ChecksCalls => {
            "Linux 6.9 on x86_64, 6.18 on arm64; else `send --share` bounds its own connections"
        }
        _ => "Linux 5.6 with BTF and the BPF JIT; else `send --share` bounds its own connections",
    };
    match control::examine() {
        Ok(()) => Ok("loads".to_owned()),
        Err(error) => Err((CheckResult::Fallback, error.to_string(), advice(&error))),
    }
}

/// A filter that selects no flow.
fn never() -> Filter {
    Filter { pids: vec![u32::MAX], ..Filter::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_missing_thing_comes_with_advice() {
        let findings = examine();
        for finding in &findings {
            assert!(finding.result == CheckResult::Ok || !finding.advice.is_empty(), "{finding:?}");
        }
        let polled = findings.iter().find(|f| f.what == "sock_diag").unwrap();
        assert_eq!(polled.result, CheckResult::Ok, "every Linux answers sock_diag");
    }
}
