//! How large the tables in the kernel are made, which the programs cannot enlarge later.

/// Flows that a table has room for at least. Its index takes 1 MiB for these (16 bytes each, kernel memory);
/// a flow in it takes about 100 bytes more, while it is in it.
pub(crate) const MIN_FLOWS: u32 = 1 << 16;
/// At most: an index of 16 MiB.
const MAX_FLOWS: u32 = 1 << 20;

/// Room for the flows of this machine: four times the TCP sockets that there are now, within bounds.
pub(crate) fn for_flows() -> u32 {
    flows_of(tcp_sockets())
}

fn flows_of(sockets: u32) -> u32 {
    sockets.saturating_mul(4).clamp(MIN_FLOWS, MAX_FLOWS).next_power_of_two()
}

/// TCP sockets of the whole machine, in all network namespaces; 0 where the kernel does not tell.
fn tcp_sockets() -> u32 {
    allocated(&std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default())
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 2`: of these only `alloc` counts all namespaces.
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
    fn tables_grow_with_what_is_there() {
        assert_eq!([0, 16_384, 16_385, 40_000].map(flows_of), [1 << 16, 1 << 16, 1 << 17, 1 << 18]);
        assert_eq!(flows_of(u32::MAX), 1 << 20);
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
