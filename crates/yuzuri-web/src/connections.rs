//! Limits connections. Connections that have not shown the token are limited in number and time,
//! and a new one displaces the oldest. A client that opens thousands therefore displaces its own
//! connections. A client with the token needs such a place only until its first request has
//! arrived; from then on it counts against a separate limit.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum number of connections that have shown the token; the server answers further ones
/// with 503.
pub(crate) const MAX_AUTHENTICATED: usize = 128;
/// Maximum number of connections that have not shown it.
const MAX_UNAUTHENTICATED: usize = 512;
/// Maximum number of these from one source.
const MAX_PER_SOURCE: usize = MAX_UNAUTHENTICATED / 4;
/// Descriptors reserved for the rest of this process.
const RESERVED_DESCRIPTORS: usize = 256;
/// Time within which a connection without the token must send a complete request head.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The presumed owner of an address: the owner of one IPv6 address has its whole /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Source(IpAddr);

impl Source {
    fn of(ip: IpAddr) -> Source {
        match ip.to_canonical() {
            IpAddr::V6(v6) => Source(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into()),
            v4 => Source(v4),
        }
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    max_unauthenticated: usize,
    max_of_one_source: usize,
    unauthenticated: Mutex<Unauthenticated>,
    authenticated: AtomicUsize,
}

#[derive(Debug, Default)]
struct Unauthenticated {
    number: u64,
    /// By number; numbers increase, so the first slot is the oldest.
    slots: BTreeMap<u64, (Source, Arc<Notify>)>,
    of_source: HashMap<Source, usize>,
}

impl Unauthenticated {
    fn remove(&mut self, number: u64) -> Option<Arc<Notify>> {
        let (source, evicted) = self.slots.remove(&number)?;
        if let Some(count) = self.of_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&source);
            }
        }
        Some(evicted)
    }

    /// Closes the oldest connection of a source.
    fn evict(&mut self, of: Source) {
        let oldest = self.slots.iter().find(|(_, (source, _))| *source == of).map(|(number, _)| *number);
        if let Some(evicted) = oldest.and_then(|number| self.remove(number)) {
            evicted.notify_one();
        }
    }
}

impl Connections {
    /// Room for as many connections as the process may have descriptors.
    pub(crate) fn new(descriptors: u64) -> Arc<Connections> {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let left = descriptors.saturating_sub(MAX_AUTHENTICATED + RESERVED_DESCRIPTORS);
        let max_unauthenticated = left.clamp(16, MAX_UNAUTHENTICATED);
        Arc::new(Connections {
            max_unauthenticated,
            max_of_one_source: (max_unauthenticated / 4).clamp(8, MAX_PER_SOURCE),
            unauthenticated: Mutex::default(),
            authenticated: AtomicUsize::new(0),
        })
    }

    /// After this many accepts, accepted connections are served: well before the first of them
    /// could be displaced.
    pub(crate) fn accepts_in_a_row(&self) -> usize {
        self.max_of_one_source / 4
    }

    /// Admits a new connection. If there is no room, it displaces the oldest connection of its own
    /// source, or of the source with the most.
    pub(crate) fn admit(self: &Arc<Connections>, ip: IpAddr) -> Arc<ConnectionSlot> {
        let source = Source::of(ip);
        let mut unauthenticated = self.unauthenticated.lock();
        if unauthenticated.of_source.get(&source).copied().unwrap_or(0) >= self.max_of_one_source {
            unauthenticated.evict(source);
        } else if unauthenticated.slots.len() >= self.max_unauthenticated {
            let most =
                unauthenticated.of_source.iter().max_by_key(|(_, count)| **count).map(|(source, _)| *source);
            unauthenticated.evict(most.unwrap_or(source));
        }
        unauthenticated.number += 1;
        let number = unauthenticated.number;
        let evicted = Arc::new(Notify::new());
        unauthenticated.slots.insert(number, (source, evicted.clone()));
        *unauthenticated.of_source.entry(source).or_default() += 1;
        Arc::new(ConnectionSlot {
            connections: self.clone(),
            number,
            evicted,
            authenticated: AtomicBool::new(false),
            waiting_since: Mutex::new(Some(Instant::now())),
        })
    }

    /// Closes the oldest connection that has not shown the token: descriptors have run out.
    pub(crate) fn evict_one(&self) {
        let mut unauthenticated = self.unauthenticated.lock();
        if let Some(source) = unauthenticated.slots.values().next().map(|(source, _)| *source) {
            unauthenticated.evict(source);
        }
    }
}

/// A connection's place; released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    evicted: Arc<Notify>,
    authenticated: AtomicBool,
    /// Since when the connection has waited for a request head; `None` while a request is answered.
    waiting_since: Mutex<Option<Instant>>,
}

/// There is no room for another connection, even with the token.
#[derive(Debug)]
pub(crate) struct TooManyConnections;

impl ConnectionSlot {
    /// The client has shown the token.
    pub(crate) fn authenticate(&self) -> Result<(), TooManyConnections> {
        if self.authenticated.load(Ordering::Acquire) {
            return Ok(());
        }
        let taken = self.connections.authenticated.fetch_update(
            Ordering::AcqRel,
            Ordering::Acquire,
            |authenticated| (authenticated < MAX_AUTHENTICATED).then_some(authenticated + 1),
        );
        taken.map_err(|_| TooManyConnections)?;
        self.authenticated.store(true, Ordering::Release);
        self.connections.unauthenticated.lock().remove(self.number);
        Ok(())
    }

    /// A request head has arrived.
    pub(crate) fn asked(&self) {
        *self.waiting_since.lock() = None;
    }

    /// The request was answered; the connection waits for the next one.
    pub(crate) fn answered(&self) {
        *self.waiting_since.lock() = Some(Instant::now());
    }

    /// Returns once the connection must close: it was displaced, or has been without a request head
    /// for too long. With the token this never returns.
    pub(crate) async fn leave(&self) {
        loop {
            let since = *self.waiting_since.lock();
            let until = since.unwrap_or_else(Instant::now) + HEAD_TIMEOUT;
            tokio::select! {
                () = self.evicted.notified() => {}
                () = tokio::time::sleep_until(until) => {
                    // A request arrived or was answered meanwhile: the timeout starts again.
                    if *self.waiting_since.lock() != since || since.is_none() {
                        continue;
                    }
                }
            }
            if self.authenticated.load(Ordering::Acquire) {
                return std::future::pending().await;
            }
            return;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if self.authenticated.load(Ordering::Acquire) {
            self.connections.authenticated.fetch_sub(1, Ordering::AcqRel);
        } else {
            self.connections.unauthenticated.lock().remove(self.number);
        }
    }
}

/// Raises the limit of descriptors to this process's maximum; returns it.
#[allow(clippy::useless_conversion)] // `rlim_t` is 32 bits wide on some architectures
pub(crate) fn raise_descriptor_limit() -> u64 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    // If that fails, the limit stays lower.
    let is_raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    u64::from(if is_raised { hard } else { soft })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ip(n: u16) -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 1).into()
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        !slot.connections.unauthenticated.lock().slots.contains_key(&slot.number)
    }

    #[test]
    fn a_sources_oldest_connection_is_evicted_and_others_stay() {
        let connections = Connections::new(u64::MAX);
        let other = connections.admit(ip(1));
        let held: Vec<_> = (0..MAX_PER_SOURCE + 5).map(|_| connections.admit(ip(2))).collect();
        assert!(
            held[..5].iter().all(|slot| is_evicted(slot)) && !is_evicted(&held[5]) && !is_evicted(&other)
        );
        // All addresses of a /64 are one source, and IPv4 is IPv4 in any notation.
        assert_eq!(
            Source::of("2001:db8::1".parse().unwrap()),
            Source::of("2001:db8::2:0:1".parse().unwrap())
        );
        assert_eq!(Source::of("::ffff:10.0.0.1".parse().unwrap()), Source::of("10.0.0.1".parse().unwrap()));
        assert_ne!(Source::of("10.0.0.1".parse().unwrap()), Source::of("10.0.0.2".parse().unwrap()));
    }

    #[test]
    fn when_all_slots_are_taken_the_source_with_most_loses_one() {
        let connections = Connections::new(0);
        assert_eq!((connections.max_unauthenticated, connections.max_of_one_source), (16, 8));
        let few: Vec<_> = (0..4).map(|_| connections.admit(ip(1))).collect();
        let many: Vec<_> = (0..8).map(|_| connections.admit(ip(2))).collect();
        let rest: Vec<_> = (3..11).map(|n| connections.admit(ip(n))).collect();
        assert!(few.iter().all(|slot| !is_evicted(slot)));
        assert_eq!(many.iter().filter(|slot| is_evicted(slot)).count(), 4);
        assert!(rest.iter().all(|slot| !is_evicted(slot)));
    }

    #[test]
    fn connections_with_the_token_have_slots_of_their_own() {
        let connections = Connections::new(0);
        let authenticated: Vec<_> = (0..MAX_AUTHENTICATED)
            .map(|_| {
                let slot = connections.admit(ip(1));
                slot.authenticate().unwrap();
                slot.authenticate().unwrap();
                slot
            })
            .collect();
        assert!(
            connections.unauthenticated.lock().slots.is_empty()
                && connections.unauthenticated.lock().of_source.is_empty()
        );
        let more = connections.admit(ip(1));
        assert!(more.authenticate().is_err());
        drop(authenticated);
        more.authenticate().unwrap();
        drop(more);
        assert_eq!(connections.authenticated.load(Ordering::Acquire), 0);
    }
}
