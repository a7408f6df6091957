//! Checks for `yuzuri doctor` whether this machine can run `yuzuri ap`.

use super::drivers;
use yuzuri_gate::{AttachMode, Gate, GateError, Options};
use yuzuri_kernel::doctor::{CheckResult, Finding};

/// Loads the gate temporarily, and attaches it in a network namespace of its own only; looks for
/// mechanisms that forward packets past it, and checks what the drivers of radios report about
/// stations.
pub fn examine_gate() -> Vec<Finding> {
    let gate = match Gate::load(&Options { flows: 1, ..Options::default() }) {
        Ok(gate) => attaching(gate.try_attach()),
        Err(GateError::NotPermitted(why)) => {
            (CheckResult::Fallback, why, "run as root, or grant CAP_BPF and CAP_NET_ADMIN")
        }
        Err(error) => (CheckResult::Fallback, error.to_string(), "Linux 5.12 or later"),
    };
    let finding = |what: &str, (result, found, advice): (CheckResult, String, &str)| Finding {
        what: what.into(),
        result,
        found,
        gives: "ap: sharing for stations without Yuzuri".into(),
        advice: advice.into(),
    };
    let mut findings = vec![finding("gate", gate)];
    if forwards_by_flow_table() {
        let found = "nf_flow_table is loaded".to_owned();
        let advice = "connections that a flow table forwards in hardware bypass the gate: on an access \
        point, switch hardware flow offload off";
        findings.push(finding("flow offload", (CheckResult::Fallback, found, advice)));
    }
    findings.extend(drivers::examine());
    findings
}

/// The finding about a loaded gate, from the result of attaching it.
fn attaching(attached: Result<AttachMode, GateError>) -> (CheckResult, String, &'static str) {
    match attached {
        Ok(AttachMode::Tcx) => (CheckResult::Ok, "loads, and is attached by tcx".into(), ""),
        Ok(AttachMode::Clsact) => (CheckResult::Ok, "loads, and is attached by clsact".into(), ""),
        Err(GateError::NotPermitted(why)) => {
            let found =
                format!("loads; whether it can be attached is not known (new network namespace: {why})");
            (CheckResult::Fallback, found, "run as root to find out")
        }
        Err(error) => (
            CheckResult::Fallback,
            format!("loads, but {error}"),
            "a kernel with CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS (OpenWrt: kmod-sched-core, kmod-sched-bpf)",
        ),
    }
}

/// Whether the kernel supports forwarding connections past its programs.
pub(super) fn forwards_by_flow_table() -> bool {
    has_flow_tables(&std::fs::read_to_string("/proc/modules").unwrap_or_default())
}

/// Whether the kernel's list of modules has the one for flow tables.
fn has_flow_tables(modules: &str) -> bool {
    modules.lines().any(|line| line.split(' ').next() == Some("nf_flow_table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_table_is_found_by_its_module() {
        assert!(has_flow_tables(
            "nf_tables 1 0 - Live 0x0\nnf_flow_table 65536 1 nf_flow_table_inet, Live 0x0\n"
        ));
        assert!(!has_flow_tables("nf_flow_table_inet 1 0 - Live 0x0\n"));
        assert!(!has_flow_tables(""));
    }

    #[test]
    fn a_kernel_without_tc_is_told_apart_from_missing_privilege() {
        let refused = || GateError::Attach { device: "lo".into(), why: "Operation not supported".into() };
        let (result, found, advice) = attaching(Err(refused()));
        assert_eq!(result, CheckResult::Fallback);
        assert_eq!(found, "loads, but attaching the gate to lo: Operation not supported");
        assert!(advice.contains("CONFIG_NET_CLS_BPF"), "{advice}");
        let (_, found, advice) = attaching(Err(GateError::NotPermitted("EPERM".into())));
        assert!(found.contains("not known") && advice.contains("root"), "{found}; {advice}");
        assert_eq!(attaching(Ok(AttachMode::Clsact)).0, CheckResult::Ok);
    }

    #[test]
    fn the_gate_is_among_the_findings() {
        let findings = examine_gate();
        assert_eq!(findings[0].what, "gate");
        let is_attached = findings[0].found.contains("is attached by");
        assert_eq!(findings[0].result == CheckResult::Ok, is_attached, "{findings:?}");
        // Neither watching nor sharing needs it.
        assert!(findings.iter().all(|f| f.result != CheckResult::Missing), "{findings:?}");
        let advised = |f: &Finding| f.result == CheckResult::Ok || !f.advice.is_empty();
        assert!(findings.iter().all(advised), "{findings:?}");
    }
}
