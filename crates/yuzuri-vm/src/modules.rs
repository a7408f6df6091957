//! The kernel modules of a guest.

use crate::Equipment;
use std::collections::{BTreeMap, BTreeSet};

/// Module names. A module that a kernel has built in or lacks is skipped without an error; a
/// program that needs it will fail.
const MODULES: &[&str] = &[
    // requested by other modules through an alias instead of the name
    "crc32c_generic",
    "crc32c-intel",
    // devices
    "virtio_mmio",
    "virtio_pci",
    "9p",
    "9pnet_virtio",
    "tun",
    "veth",
    "bridge",
    "dummy",
    "ifb",
    "macvlan",
    // queueing disciplines, classifiers, actions
    "sch_netem",
    "sch_fq",
    "sch_fq_codel",
    "sch_fq_pie",
    "sch_codel",
    "sch_pie",
    "sch_cake",
    "sch_red",
    "sch_sfq",
    "sch_tbf",
    "sch_htb",
    "sch_hfsc",
    "sch_prio",
    "sch_ingress",
    "cls_u32",
    "cls_flower",
    "cls_matchall",
    "cls_bpf",
    "cls_fw",
    "act_mirred",
    "act_bpf",
    "act_police",
    "act_gact",
    "act_skbedit",
    // congestion control algorithms
    "tcp_bbr",
    "tcp_bic",
    "tcp_cdg",
    "tcp_dctcp",
    "tcp_highspeed",
    "tcp_htcp",
    "tcp_hybla",
    "tcp_illinois",
    "tcp_lp",
    "tcp_nv",
    "tcp_scalable",
    "tcp_vegas",
    "tcp_veno",
    "tcp_westwood",
    "tcp_yeah",
    // diagnosis
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "raw_diag",
    "unix_diag",
    "netlink_diag",
    "af_packet_diag",
    "nlmon",
    // firewall
    "nf_tables",
    "nf_conntrack",
    "nf_nat",
    "nft_chain_nat",
    "nft_compat",
    "nft_counter",
    "nft_ct",
    "nft_hash",
    "nft_limit",
    "nft_log",
    "nft_masq",
    "nft_meta_bridge",
    "nft_nat",
    "nft_numgen",
    "nft_objref",
    "nft_queue",
    "nft_quota",
    "nft_reject",
    "nft_reject_inet",
    "nft_reject_ipv4",
    "nft_reject_ipv6",
    "nft_socket",
    "nft_tproxy",
    "ip_tables",
    "ip6_tables",
    "iptable_filter",
    "iptable_mangle",
    "x_tables",
    "xt_conntrack",
    "xt_ecn",
    "xt_statistic",
    "xt_tcpudp",
    "xt_u32",
];

/// Additional modules of a guest with [`Equipment::Wireless`]: radios that receive each other.
const WIRELESS: &[&str] = &["mac80211_hwsim"];

fn names(equipment: Equipment) -> impl Iterator<Item = &'static str> {
    let more = if equipment == Equipment::Wireless { WIRELESS } else { &[] };
    MODULES.iter().chain(more).copied()
}

/// Paths, relative to `lib/modules/RELEASE`, of the selected modules and their dependencies.
/// `modules_dep` is the text of `modules.dep`, with lines like "kernel/a.ko: kernel/b.ko
/// kernel/c.ko".
pub(crate) fn wanted(modules_dep: &str, equipment: Equipment) -> BTreeSet<String> {
    let entries: BTreeMap<&str, (&str, &str)> = modules_dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, needs)| (name(path), (path, needs)))
        .collect();
    let found = names(equipment).filter_map(|wanted| entries.get(wanted));
    found.flat_map(|(path, needs)| needs.split_whitespace().chain([*path])).map(str::to_owned).collect()
}

/// Removes the signature that Debian appends to a module (Linux,
/// Documentation/admin-guide/module-signing.rst). A guest trusts its image, and verifying a
/// signature takes longer than loading the module.
pub(crate) fn without_signature(mut module: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"~Module signature appended~\n";
    // Size of `struct module_signature`. Its last four bytes are the length of the signature that
    // precedes it, big-endian.
    const ABOUT: usize = 12;
    let whole = module.strip_suffix(MARK).and_then(|rest| {
        let (rest, length) = rest.split_last_chunk()?;
        rest.len().checked_sub(ABOUT - 4)?.checked_sub(u32::from_be_bytes(*length) as usize)
    });
    module.truncate(whole.unwrap_or(module.len()));
    module
}

/// File name without its suffix, which is the form that `MODULES` uses. The kernel's name of a
/// module has underscores in place of hyphens.
fn name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file)
}

/// Text that represents the module selection in the image's identity.
pub(crate) fn list(equipment: Equipment) -> String {
    names(equipment).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_include_their_dependencies() {
        let text = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                    kernel/fs/netfs/netfs.ko.xz:\nkernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
                    kernel/net/veth.ko:\nkernel/sound/snd.ko: kernel/sound/core.ko\n";
        let wanted = wanted(text, Equipment::Plain);
        let expected = [
            "kernel/fs/9p/9p.ko.xz",
            "kernel/fs/netfs/netfs.ko.xz",
            "kernel/net/9p/9pnet.ko.xz",
            "kernel/net/veth.ko",
        ];
        assert!(wanted.iter().map(String::as_str).eq(expected), "{wanted:?}");
    }

    #[test]
    fn only_a_complete_signature_is_removed() {
        let signed = |length: u32| {
            let mut module = b"\x7fELF...".to_vec();
            module.extend([7; 5]);
            module.extend([0; 8]);
            module.extend(length.to_be_bytes());
            module.extend(b"~Module signature appended~\n");
            module
        };
        assert_eq!(without_signature(signed(5)), b"\x7fELF...");
        assert_eq!(without_signature(signed(5000)), signed(5000));
        assert_eq!(without_signature(b"\x7fELF".to_vec()), b"\x7fELF");
        assert_eq!(without_signature(b"~Module signature appended~\n".to_vec()).len(), 28);
    }
}
