//! The capacities of the tables in the kernel, which the programs cannot enlarge later.

/// The smallest capacity of a table, flows. Its index takes 1 MiB (16 bytes each, kernel memory); a
/// flow in it takes about 100 bytes more.
pub(crate) const MIN_FLOWS: u32 = 1 << 16;
/// The largest: an index of 16 MiB.
const MAX_FLOWS: u32 = 1 << 20;

/// Room for the flows that this machine may have: the size of the kernel's own table of
/// connections, which depends on the memory, and four times the current number of TCP sockets,
/// within limits. A table that is too small cannot be replaced without losing what the programs
/// write meanwhile, so it is sized in advance. At first only its index is allocated.
pub(crate) fn for_flows() -> u32 {
    flows_of(tcp_sockets(), established_buckets())
}

fn flows_of(sockets: u32, established_buckets: u32) -> u32 {
    sockets.saturating_mul(4).max(established_buckets).clamp(MIN_FLOWS, MAX_FLOWS).next_power_of_two()
}

/// Buckets of the kernel's table of established connections; 0 if the kernel does not report it
/// (before Linux 6.1).
fn established_buckets() -> u32 {
    buckets(&std::fs::read_to_string("/proc/sys/net/ipv4/tcp_ehash_entries").unwrap_or_default())
}

/// Negative: the buckets of the machine's table, for a namespace without its own.
fn buckets(tcp_ehash_entries: &str) -> u32 {
    tcp_ehash_entries.trim().parse().map_or(0, i32::unsigned_abs)
}

/// TCP sockets of the whole machine, in all network namespaces; 0 if the kernel does not report it.
fn tcp_sockets() -> u32 {
    allocated(&std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default())
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 2`: only `alloc` counts all namespaces.
fn allocated(sockstat: &str) -> u32 {
    let mut words =
        sockstat.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or("").split_whitespace();
    words.find(|word| *word == "alloc");
    words.next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_with_the_number_of_sockets() {
        let of = |sockets| flows_of(sockets, 0);
        assert_eq!([0, 16_384, 16_385, 40_000].map(of), [1 << 16, 1 << 16, 1 << 17, 1 << 18]);
        assert_eq!(of(u32::MAX), 1 << 20);
    }

    #[test]
    fn tables_have_room_for_all_flows_the_kernel_may_have() {
        assert_eq!(
            [0, 4_096, 262_144, u32::MAX].map(|buckets| flows_of(100, buckets)),
            [1 << 16, 1 << 16, 1 << 18, 1 << 20]
        );
        assert_eq!(["262144\n", "-262144\n", "", "x"].map(buckets), [262_144, 262_144, 0, 0]);
    }

    #[test]
    fn sockets_are_counted_over_all_namespaces() {
        let text = "sockets: used 211\nTCP: inuse 5 orphan 0 tw 0 alloc 19502 mem 2\nUDP: inuse 2 mem 0\n";
        assert_eq!(allocated(text), 19_502);
        assert_eq!(allocated("rubbish"), 0);
        let _listener = std::net::TcpListener::bind("127.0.0.1:0");
        assert!(tcp_sockets() > 0);
    }
}
