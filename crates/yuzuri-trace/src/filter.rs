//! Selects flows: one syntax for the command line, the page and recordings.

use crate::Flow;
use std::net::{IpAddr, Ipv4Addr};

/// An address prefix. An IPv4-mapped IPv6 address is held as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address; bits beyond `len` are zero.
    pub addr: IpAddr,
    /// How many leading bits count: 0-32 for IPv4, 0-128 for IPv6.
    pub len: u8,
}

impl Prefix {
    /// Whether `addr` lies in the prefix.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                mask(a.to_bits().into(), 32, self.len) == mask(b.to_bits().into(), 32, self.len)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                mask(a.to_bits(), 128, self.len) == mask(b.to_bits(), 128, self.len)
            }
            _ => false,
        }
    }

    fn parse(text: &str) -> Option<Prefix> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let mut addr: IpAddr = addr.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        let mut len = len;
        if let IpAddr::V6(v6) = addr
            && let Some(v4) = v6.to_ipv4_mapped()
            && len.is_none_or(|l| l >= 96)
        {
            addr = IpAddr::V4(v4);
            len = len.map(|l| l - 96);
        }
        let (bits, most) = match addr {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let len = len.unwrap_or(most);
        if len > most {
            return None;
        }
        let bits = mask(bits, most, len);
        let addr = match addr {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        };
        Some(Prefix { addr, len })
    }
}

fn mask(bits: u128, width: u8, len: u8) -> u128 {
    if len == 0 { 0 } else { bits & (u128::MAX << (width - len)) }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = if self.addr.is_ipv4() { 32 } else { 128 };
        if self.len == whole { write!(f, "{}", self.addr) } else { write!(f, "{}/{}", self.addr, self.len) }
    }
}

/// The end of a flow to which a port or address term applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Either end.
    Either,
    /// This end.
    Local,
    /// The other end.
    Remote,
}

impl End {
    fn prefix(self) -> &'static str {
        match self {
            End::Either => "",
            End::Local => "l",
            End::Remote => "r",
        }
    }
}

/// Selects flows. Terms of one kind are alternatives, and all kinds must match:
/// `port:80 port:443 netns:a` selects flows in namespace *a* with port 80 or 443 at either end. An
/// empty filter selects every flow.
///
/// A bare number is a port, and a bare address or prefix is `addr:`. `port 443`, `host 192.0.2.1`
/// and `net 10.0.0.0/8` work as in tcpdump.
///
/// ```
/// use yuzuri_trace::Filter;
/// let filter: Filter = "port:5201 addr:10.0.0.0/8".parse()?;
/// assert_eq!(filter.to_string(), "port:5201 addr:10.0.0.0/8");
/// assert_eq!("5201 10.0.0.0/8".parse::<Filter>()?, filter);
/// assert!("prot:80".parse::<Filter>().is_err());
/// # Ok::<(), yuzuri_trace::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Ports.
    pub ports: Vec<(End, u16)>,
    /// Address prefixes.
    pub prefixes: Vec<(End, Prefix)>,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Whole process names (`/proc/PID/comm`, at most 15 bytes).
    pub names: Vec<String>,
    /// Control groups: paths below the cgroup mount point; each includes its descendants.
    pub cgroups: Vec<String>,
    /// Network namespaces: a name in `/run/netns`, an inode number, or `self`.
    pub netns: Vec<String>,
}

/// A filter that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("filter term '{term}': {why}; terms are {}", Filter::SYNTAX)]
pub struct FilterError {
    /// The term.
    pub term: String,
    /// What is wrong with it.
    pub why: FilterProblem,
}

/// What is wrong with a term of a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterProblem {
    /// The filter as a whole is too long.
    #[error("the filter is longer than {} bytes", Filter::MAX_LENGTH)]
    TooLong,
    /// A kind without a value: `port` or `port:`.
    #[error("nothing after it")]
    NoValue,
    /// A term without a kind.
    #[error("neither a port nor an address; for a process write name:{0}")]
    NoKind(String),
    /// A kind that does not exist.
    #[error("unknown kind '{0}'")]
    UnknownKind(String),
    /// More terms of one kind than the BPF filter has room for.
    #[error("more than {} terms of this kind", Filter::MAX_TERMS)]
    TooMany,
    /// Not a number, or out of range.
    #[error("{what} is a number from 1 to {max}")]
    Number {
        /// The meaning of the number.
        what: &'static str,
        /// The largest value.
        max: u32,
    },
    /// Neither an address nor a prefix.
    #[error("not an IPv4 or IPv6 address or prefix")]
    Address,
    /// A host name whose lookup failed.
    #[error("{0}")]
    LookUp(String),
    /// A host name without an address.
    #[error("it has no address")]
    NoAddress,
    /// A process name that is too long to exist.
    #[error("the kernel keeps 15 bytes of a process name")]
    ProcessName,
    /// A control group that leaves the mount point.
    #[error("a control group is a path below the mount point, without '.' and '..'")]
    Cgroup,
    /// A network namespace given as a path.
    #[error("a network namespace is a name in /run/netns, a number or 'self', and no path")]
    Netns,
}

impl Filter {
    /// The syntax in short, for help texts and errors.
    pub const SYNTAX: &'static str = "[port:]N, [addr:]ADDRESS[/BITS], pid:N, name:PROCESS, cgroup:PATH, netns:NAME; lport, rport, laddr, raddr for one end";
    /// Maximum number of terms of one kind: the BPF filter has room for no more.
    pub const MAX_TERMS: usize = 8;
    /// Maximum length of a filter's text, bytes.
    pub const MAX_LENGTH: usize = 2048;

    /// Whether every flow is selected.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether the decision depends on a flow's process.
    pub fn needs_owner(&self) -> bool {
        !self.pids.is_empty() || !self.names.is_empty()
    }

    /// Whether the flow is selected by addresses, ports, process and namespace. Only the kernel
    /// knows the tree of control groups; `in_cgroup` returns whether the flow's cgroup id lies
    /// below a path.
    pub fn matches(&self, flow: &Flow, in_cgroup: impl Fn(u64, &str) -> bool) -> bool {
        fn any<T>(terms: &[T], holds: impl Fn(&T) -> bool) -> bool {
            terms.is_empty() || terms.iter().any(holds)
        }
        let at = |end: End, local: bool, remote: bool| match end {
            End::Either => local || remote,
            End::Local => local,
            End::Remote => remote,
        };
        let owner = flow.owner.as_ref();
        any(&self.ports, |(end, port)| at(*end, flow.local.port() == *port, flow.remote.port() == *port))
            && any(&self.prefixes, |(end, prefix)| {
                at(*end, prefix.contains(flow.local.ip()), prefix.contains(flow.remote.ip()))
            })
            && any(&self.pids, |pid| owner.is_some_and(|o| o.pid == *pid))
            && any(&self.names, |name| owner.is_some_and(|o| o.name == *name))
            && any(&self.netns, |ns| flow.netns_name.as_ref() == Some(ns) || ns.parse() == Ok(flow.netns))
            && any(&self.cgroups, |path| in_cgroup(flow.cgroup, path))
    }

    /// Parses a filter in which `host` may be followed by a name, which `look_up` resolves to
    /// addresses.
    ///
    /// # Errors
    /// The first term that is not understood, or whose name is not found.
    pub fn parse_with(
        text: &str,
        look_up: impl Fn(&str) -> std::io::Result<Vec<IpAddr>>,
    ) -> Result<Filter, FilterError> {
        if text.len() > Filter::MAX_LENGTH {
            let term = text.chars().take(20).collect::<String>() + "...";
            return Err(FilterError { term, why: FilterProblem::TooLong });
        }
        let mut filter = Filter::default();
        let mut terms = text.split_whitespace();
        while let Some(term) = terms.next() {
            let value = if matches!(term, "host" | "net" | "port") { terms.next() } else { None };
            let added = match (term, value) {
                ("host", Some(name)) => filter.add_host(name, &look_up),
                ("net", Some(prefix)) => filter.add_pair("addr", prefix),
                ("port", Some(number)) => filter.add_pair("port", number),
                ("host" | "net" | "port", None) => Err(FilterProblem::NoValue),
                _ => filter.add(term),
            };
            let term = || value.map_or_else(|| term.to_owned(), |value| format!("{term} {value}"));
            added.map_err(|why| FilterError { term: term(), why })?;
        }
        Ok(filter)
    }

    fn add_host(
        &mut self,
        name: &str,
        look_up: &impl Fn(&str) -> std::io::Result<Vec<IpAddr>>,
    ) -> Result<(), FilterProblem> {
        if Prefix::parse(name).is_some() {
            return self.add_pair("addr", name);
        }
        let addresses = look_up(name).map_err(|error| FilterProblem::LookUp(error.to_string()))?;
        if addresses.is_empty() {
            return Err(FilterProblem::NoAddress);
        }
        addresses.into_iter().try_for_each(|address| self.add_pair("addr", &address.to_string()))
    }

    fn add(&mut self, term: &str) -> Result<(), FilterProblem> {
        if Prefix::parse(term).is_some() {
            return self.add_pair("addr", term);
        }
        if term.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.add_pair("port", term);
        }
        match term.split_once(':') {
            Some((key, value)) => self.add_pair(key, value),
            None => Err(FilterProblem::NoKind(term.to_owned())),
        }
    }

    fn add_pair(&mut self, key: &str, value: &str) -> Result<(), FilterProblem> {
        if value.is_empty() {
            return Err(FilterProblem::NoValue);
        }
        let end = match key {
            "lport" | "laddr" => End::Local,
            "rport" | "raddr" => End::Remote,
            _ => End::Either,
        };
        let number = |what: &'static str, max: u32| {
            let number = value.parse::<u32>().ok().filter(|n| (1..=max).contains(n));
            number.ok_or(FilterProblem::Number { what, max })
        };
        fn push<T: PartialEq>(list: &mut Vec<T>, value: T) -> Result<(), FilterProblem> {
            if list.contains(&value) {
                return Ok(());
            }
            if list.len() == Filter::MAX_TERMS {
                return Err(FilterProblem::TooMany);
            }
            list.push(value);
            Ok(())
        }
        match key {
            "port" | "lport" | "rport" => push(&mut self.ports, (end, number("a port", 65535)? as u16)),
            "addr" | "laddr" | "raddr" => {
                let prefix = Prefix::parse(value).ok_or(FilterProblem::Address)?;
                push(&mut self.prefixes, (end, prefix))
            }
            "pid" => push(&mut self.pids, number("a process id", u32::MAX)?),
            "name" if value.len() > 15 => Err(FilterProblem::ProcessName),
            "name" => push(&mut self.names, value.to_owned()),
            // A privileged process looks these paths up on behalf of the page's users, so none may
            // leave its folder.
            "cgroup" if value.contains('\0') || value.split('/').any(|part| matches!(part, "." | "..")) => {
                Err(FilterProblem::Cgroup)
            }
            "cgroup" => push(&mut self.cgroups, value.to_owned()),
            "netns" if value.contains(['/', '\0']) || matches!(value, "." | "..") => {
                Err(FilterProblem::Netns)
            }
            "netns" => push(&mut self.netns, value.to_owned()),
            _ => Err(FilterProblem::UnknownKind(key.to_owned())),
        }
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    /// As [`Filter::parse_with`], but looks up no names.
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let refuse = |_: &str| {
            Err(std::io::Error::other("host names are looked up on the command line only; write the address"))
        };
        Filter::parse_with(text, refuse)
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut terms = Vec::new();
        terms.extend(self.ports.iter().map(|(end, port)| format!("{}port:{port}", end.prefix())));
        terms.extend(self.prefixes.iter().map(|(end, prefix)| format!("{}addr:{prefix}", end.prefix())));
        terms.extend(self.pids.iter().map(|pid| format!("pid:{pid}")));
        terms.extend(self.names.iter().map(|name| format!("name:{name}")));
        terms.extend(self.cgroups.iter().map(|path| format!("cgroup:{path}")));
        terms.extend(self.netns.iter().map(|ns| format!("netns:{ns}")));
        f.write_str(&terms.join(" "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Owner;
    use proptest::prelude::*;

    fn flow() -> Flow {
        Flow {
            local: "10.1.2.3:4000".parse().unwrap(),
            remote: "[2001:db8::1]:5201".parse().unwrap(),
            netns: 7,
            owner: Some(Owner { pid: 12, name: "iperf3".into() }),
            ..Flow::default()
        }
    }

    fn matches(text: &str) -> bool {
        text.parse::<Filter>().unwrap().matches(&flow(), |_, _| false)
    }

    #[test]
    fn terms_of_one_kind_are_alternatives_and_kinds_must_all_hold() {
        assert!(matches(""));
        assert!(matches("port:80 port:5201"));
        assert!(matches("rport:5201 lport:9 laddr:10.0.0.0/8 pid:12 name:iperf3 netns:7"));
        assert!(!matches("lport:5201"));
        assert!(!matches("port:5201 pid:13"));
        assert!(!matches("laddr:2001:db8::/32"));
        assert!(matches("raddr:2001:db8::/32"));
        assert!(matches("addr:::ffff:10.1.0.0/112"));
        assert!(!matches("cgroup:/user.slice"));
    }

    #[test]
    fn terms_of_other_tools_mean_the_same() {
        for (ours, others) in [
            ("port:443", "443"),
            ("port:443 port:80", "port 443 port 80"),
            ("addr:10.0.0.0/8", "10.0.0.0/8"),
            ("addr:10.0.0.0/8", "net 10.0.0.0/8"),
            ("addr:2001:db8::1 port:22", "2001:db8::1 22"),
            ("addr:192.0.2.1", "host 192.0.2.1"),
        ] {
            assert_eq!(others.parse::<Filter>(), ours.parse::<Filter>(), "{others}");
        }
        let found = |name: &str| {
            assert_eq!(name, "example");
            Ok(vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()])
        };
        let filter = Filter::parse_with("host example 443", found).unwrap();
        assert_eq!(filter.to_string(), "port:443 addr:192.0.2.1 addr:2001:db8::1");
        assert!(Filter::parse_with("host example", |_| Ok(Vec::new())).is_err());
    }

    #[test]
    fn a_bad_term_is_named() {
        for (text, part) in [
            ("port:0", "a port is a number"),
            ("port:x", "a port is a number"),
            ("addr:10.0.0.0/33", "not an IPv4 or IPv6"),
            ("name:", "nothing after"),
            ("name:sixteen-bytes-xx", "15 bytes"),
            ("cgroup:../../etc", "below the mount point"),
            ("cgroup:/a/../../b", "below the mount point"),
            ("cgroup:..", "below the mount point"),
            ("cgroup:a/./b", "below the mount point"),
            ("cgroup:a\0b", "below the mount point"),
            ("netns:../../etc/passwd", "and no path"),
            ("netns:/proc/1/ns/net", "and no path"),
            ("netns:..", "and no path"),
            ("foo:1", "unknown kind 'foo'"),
            ("foo", "write name:foo"),
            ("70000", "a port is a number"),
            ("host", "nothing after it"),
            ("host example.org", "write the address"),
            ("pid:1 pid:2 pid:3 pid:4 pid:5 pid:6 pid:7 pid:8 pid:9", "more than 8"),
        ] {
            let error = text.parse::<Filter>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_refused(text in "\\PC{0,80}") {
            if let Ok(filter) = text.parse::<Filter>() {
                prop_assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
            }
        }

        #[test]
        fn a_filter_round_trips_through_its_text(ports in prop::collection::vec(1u16.., 0..4), len in 0u8..=32, a: u32) {
            let mut text: String = ports.iter().map(|p| format!("rport:{p} ")).collect();
            text += &format!("addr:{}/{len}", Ipv4Addr::from_bits(a));
            let filter: Filter = text.parse().unwrap();
            prop_assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        }

        #[test]
        fn a_prefix_contains_what_shares_its_bits(a: u128, b: u128, len in 0u8..=128) {
            let prefix = Prefix { addr: IpAddr::V6(a.into()), len };
            let shares = len == 0 || (a ^ b) >> (128 - len) == 0;
            prop_assert_eq!(prefix.contains(IpAddr::V6(b.into())), shares);
        }
    }
}
