//! The target of a transfer: host and port as the user writes them.

use crate::DEFAULT_PORT;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A host (name, or IPv4 or IPv6 address with or without a zone) and a port.
///
/// Accepted forms are `server`, `server:5000`, `192.0.2.1:5000`, `2001:db8::1`,
/// `[2001:db8::1]:5000` and `[fe80::1%eth0]:5000`. The default port is [`DEFAULT_PORT`].
///
/// ```
/// use yuzuri_transfer::Target;
///
/// let target: Target = "[2001:db8::1]:5000".parse()?;
/// assert_eq!((target.host.as_str(), target.port), ("2001:db8::1", 5000));
/// assert_eq!("server".parse::<Target>()?.to_string(), "server:4950");
/// assert!("server:99999".parse::<Target>().is_err());
/// # Ok::<(), yuzuri_transfer::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port, 1 to 65535.
    pub port: u16,
}

/// Why a `HOST:PORT` could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The host is missing.
    #[error(
        "`{0}` names no host: write HOST or HOST:PORT, such as server:{DEFAULT_PORT} or [2001:db8::1]:{DEFAULT_PORT}"
    )]
    NoHost(String),
    /// The port is not a number from 1 to 65535.
    #[error(
        "`{port}` in `{text}` is not a port: write a number from 1 to 65535, or leave it out for {DEFAULT_PORT}"
    )]
    BadPort {
        /// The complete input.
        text: String,
        /// The part in place of the port.
        port: String,
    },
    /// An unmatched bracket, or text between the bracket and the colon.
    #[error(
        "`{0}` has a misplaced bracket: write an IPv6 address with a port as [2001:db8::1]:{DEFAULT_PORT}"
    )]
    BadBracket(String),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let bracket = || TargetError::BadBracket(text.to_owned());
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(bracket)?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or_else(bracket)?)),
            }
        } else if text.parse::<Ipv6Addr>().is_ok()
            || text.split_once('%').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
        {
            (text, None)
        } else {
            match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.contains(['[', ']']) {
            return Err(bracket());
        }
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(TargetError::NoHost(text.to_owned()));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| TargetError::BadPort { text: text.to_owned(), port: port.to_owned() })?,
        };
        Ok(Target { host: host.to_owned(), port })
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        let zone = match address {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("%{}", v6.scope_id()),
            _ => String::new(),
        };
        Target { host: format!("{}{zone}", address.ip()), port: address.port() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Address family of the target's addresses that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Family {
    /// All addresses, in the resolver's order.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Whether the address belongs to the family.
    pub fn includes(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

impl Target {
    /// Resolves the host to the addresses of the family, without duplicates, in the resolver's
    /// order.
    pub(crate) fn resolve(&self, family: Family) -> std::io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            if family.includes(&address) && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_target_notations_are_parsed() {
        for (text, host, port) in [
            ("server", "server", DEFAULT_PORT),
            ("server:80", "server", 80),
            ("192.0.2.1:5000", "192.0.2.1", 5000),
            ("::1", "::1", DEFAULT_PORT),
            ("[::1]", "::1", DEFAULT_PORT),
            ("[::1]:7", "::1", 7),
            ("fe80::1%eth0", "fe80::1%eth0", DEFAULT_PORT),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", 7),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn the_error_names_the_problem() {
        assert!(matches!("".parse::<Target>(), Err(TargetError::NoHost(_))));
        assert!(matches!(":80".parse::<Target>(), Err(TargetError::NoHost(_))));
        assert!(matches!("a b:80".parse::<Target>(), Err(TargetError::NoHost(_))));
        assert!(matches!("a:0".parse::<Target>(), Err(TargetError::BadPort { .. })));
        assert!(matches!("a:65536".parse::<Target>(), Err(TargetError::BadPort { .. })));
        assert!(matches!("a:".parse::<Target>(), Err(TargetError::BadPort { .. })));
        assert!(matches!("[::1".parse::<Target>(), Err(TargetError::BadBracket(_))));
        assert!(matches!("[::1]80".parse::<Target>(), Err(TargetError::BadBracket(_))));
    }

    proptest! {
        #[test]
        fn a_parsed_target_round_trips(text in "\\PC{0,40}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }

        #[test]
        fn an_address_round_trips(address: SocketAddr) {
            prop_assume!(address.port() != 0);
            let target = Target::from(address);
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target.clone()));
            let SocketAddr::V4(_) = address else { return Ok(()) };
            prop_assert_eq!(target.resolve(Family::Any).unwrap(), vec![address]);
        }
    }
}
