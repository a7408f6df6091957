//! Looks up host names on a separate thread, because an answer may take seconds.

#![expect(unsafe_code, reason = "the standard library looks up addresses of names only")]

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Maximum number of addresses looked up; further ones are shown as numbers.
const MAX: usize = 4096;

/// Looks names up, each once.
#[derive(Debug)]
pub(crate) struct Names {
    ask: Sender<IpAddr>,
    /// `None`: requested but not known yet, or without a name.
    known: Arc<Mutex<HashMap<IpAddr, Option<Arc<str>>>>>,
}

impl Names {
    /// Starts the thread, which ends when the sender of requests is dropped.
    pub(crate) fn start(look_up: impl Fn(IpAddr) -> Option<String> + Send + 'static) -> Names {
        let (ask, asked) = channel();
        let known: Arc<Mutex<HashMap<IpAddr, Option<Arc<str>>>>> = Arc::default();
        let found = known.clone();
        std::thread::spawn(move || {
            for ip in asked {
                if let Some(name) = look_up(ip) {
                    found.lock().insert(ip, Some(name.into()));
                }
            }
        });
        Names { ask, known }
    }

    /// The name, if it is known by now; otherwise it is requested.
    pub(crate) fn of(&self, ip: IpAddr) -> Option<Arc<str>> {
        let ip = ip.to_canonical();
        let mut known = self.known.lock();
        if let Some(name) = known.get(&ip) {
            return name.clone();
        }
        if known.len() < MAX {
            known.insert(ip, None);
            // The thread ends only with this sender.
            let _ = self.ask.send(ip);
        }
        None
    }
}

/// The host name of an address according to the system (/etc/hosts, DNS).
pub(crate) fn look_up(ip: IpAddr) -> Option<String> {
    let mut name = [0u8; libc::NI_MAXHOST as usize];
    let length = name.len() as libc::socklen_t;
    let at = name.as_mut_ptr().cast::<libc::c_char>();
    let failed = match ip {
        IpAddr::V4(ip) => {
            // SAFETY: a sockaddr_in of zeros is a valid one.
            let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            let size = std::mem::size_of_val(&address) as libc::socklen_t;
            // SAFETY: address and buffer are valid for their lengths during the call; no service
            // name is requested.
            unsafe {
                let address = (&raw const address).cast();
                libc::getnameinfo(address, size, at, length, std::ptr::null_mut(), 0, libc::NI_NAMEREQD)
            }
        }
        IpAddr::V6(ip) => {
            // SAFETY: a sockaddr_in6 of zeros is a valid one.
            let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            address.sin6_addr.s6_addr = ip.octets();
            let size = std::mem::size_of_val(&address) as libc::socklen_t;
            // SAFETY: as above.
            unsafe {
                let address = (&raw const address).cast();
                libc::getnameinfo(address, size, at, length, std::ptr::null_mut(), 0, libc::NI_NAMEREQD)
            }
        }
    };
    if failed != 0 {
        return None;
    }
    let end = name.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&name[..end]).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn each_address_is_looked_up_once_without_waiting() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let names = Names::start(move |ip| {
            count.fetch_add(1, Ordering::SeqCst);
            (ip.to_string() == "10.0.0.1").then(|| "one.example".to_owned())
        });
        let [one, mapped, two] =
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        while (names.of(one).is_none() || asked.load(Ordering::SeqCst) < 2) && Instant::now() < until {
            names.of(two);
            std::thread::yield_now();
        }
        assert_eq!(names.of(mapped).as_deref(), Some("one.example"));
        assert_eq!((names.of(two), asked.load(Ordering::SeqCst)), (None, 2));
    }

    #[test]
    fn the_system_knows_its_own_loopback_address() {
        // From /etc/hosts, which each machine has.
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        if hosts.lines().any(|line| line.split_whitespace().next() == Some("127.0.0.1")) {
            let name = look_up("127.0.0.1".parse().unwrap()).unwrap();
            assert!(hosts.contains(&name), "{name}");
        }
        // TEST-NET-1 has no names.
        assert_eq!(look_up("192.0.2.77".parse().unwrap()), None);
    }
}
