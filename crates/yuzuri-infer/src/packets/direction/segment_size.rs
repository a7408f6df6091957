//! The segment size of a flow whose SYNs were not captured, or whose path accepts less than they
//! allow.

/// Smaller common divisors arise by chance.
const MIN_DIVISOR: u32 = 512;
/// The largest packet of Ethernet, bytes.
const ETHERNET: u32 = 1500;
/// The largest jumbo frame, bytes.
const JUMBO: u32 = 9216;
/// Headers of IPv4 or IPv6 and TCP, with timestamps (RFC 7323) and without.
const HEADERS: [u32; 4] = [52, 72, 40, 60];
/// Usual MTUs: Ethernet, PPPoE, and the least of IPv6.
const MTUS: [u32; 3] = [1500, 1492, 1280];
/// The votes of one size: enough to outlast a few others, and few enough to be outvoted.
const MAX_VOTES: u8 = 32;

/// Votes that a size needs to replace a larger guess.
const ENOUGH_VOTES: u8 = 8;

/// The segment size, and what most packets larger than Ethernet's are multiples of: a device or the
/// receiver joins segments (TSO, GRO), so such a packet alone does not show their size. A vote
/// (Boyer and Moore) of common divisors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentSize {
    common: u32,
    votes: u8,
    /// No packet of one segment had the size.
    guessed: bool,
}

impl SegmentSize {
    /// The size after a packet with this many bytes of data, and of IP and TCP before them.
    pub(super) fn after(&mut self, size: u32, bytes: u32, headers: u32) -> u32 {
        if bytes.saturating_add(headers) <= ETHERNET {
            // It may be less than what fits into one.
            self.guessed &= bytes <= size;
            return size.max(bytes);
        }
        self.vote(bytes);
        let estimated = self.size(headers).unwrap_or(ETHERNET.saturating_sub(headers));
        if estimated > size || (self.guessed && self.votes >= ENOUGH_VOTES) {
            self.guessed = true;
            return estimated;
        }
        size
    }

    /// After a packet with more than the handshake allows in a segment: what such packets are
    /// multiples of, once enough of them are.
    pub(super) fn joined(&mut self, bytes: u32) -> Option<u32> {
        self.vote(bytes);
        (self.votes >= ENOUGH_VOTES).then_some(self.common)
    }

    fn vote(&mut self, bytes: u32) {
        if self.votes == 0 {
            self.common = bytes;
        }
        let divisor = gcd(self.common, bytes);
        if divisor == self.common {
            self.votes = (self.votes + 1).min(MAX_VOTES);
        } else if divisor >= MIN_DIVISOR {
            (self.common, self.votes) = (divisor, 1);
        } else {
            self.votes -= 1;
        }
    }

    fn size(&self, headers: u32) -> Option<u32> {
        let whole = |size: &u32| self.common.is_multiple_of(*size);
        if self.common.saturating_add(headers) <= ETHERNET {
            return Some(self.common);
        }
        let usual = MTUS.into_iter().flat_map(|mtu| HEADERS.into_iter().map(move |headers| mtu - headers));
        let exact = MTUS.into_iter().map(|mtu| mtu.saturating_sub(headers)).find(whole);
        let jumbo = (self.common.saturating_add(headers) <= JUMBO).then_some(self.common);
        exact.or_else(|| usual.into_iter().find(whole)).or(jumbo)
    }
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimated(headers: u32, packets: &[u32]) -> u32 {
        let mut sizes = SegmentSize::default();
        packets.iter().fold(0, |size, bytes| sizes.after(size, *bytes, headers))
    }

    #[test]
    fn packets_are_multiples_of_a_segment() {
        assert_eq!(estimated(52, &[1448]), 1448);
        assert_eq!(estimated(52, &[2896, 4344, 2896]), 1448);
        assert_eq!(estimated(72, &[28560]), 1428, "IPv6");
        assert_eq!(estimated(72, &[12 * 1208]), 1208, "the least MTU of IPv6");
        assert_eq!(estimated(52, &[8948, 8948]), 8948, "jumbo frames");
        assert_eq!(estimated(52, &[8948 * 3, 8948 * 2]), 8948);
        assert_eq!(estimated(52, &[65_003]), 1448);
        let tunnel: Vec<u32> = [2, 18, 13, 7, 5, 3, 11, 12, 4, 9].map(|count| count * 1348).into();
        assert_eq!(estimated(52, &tunnel), 1348, "a tunnel");
    }

    #[test]
    fn a_path_may_accept_less_than_the_handshake() {
        let mut sizes = SegmentSize::default();
        let joined = [2, 18, 13, 7, 5, 3, 11, 12, 4, 9].map(|count| sizes.joined(count * 1348));
        assert_eq!((joined[1], joined[9]), (None, Some(1348)));
    }

    #[test]
    fn short_packets_do_not_change_the_segment_size() {
        assert_eq!(estimated(52, &[100, 1448, 100, 731, 200, 200]), 1448);
        assert_eq!(estimated(52, &[2896, 1448, 100, 1448, 4344 + 80, 731, 2896]), 1448);
        assert_eq!(estimated(52, &[8948, 8948, 5000, 8948, 800]), 8948);
    }
}
