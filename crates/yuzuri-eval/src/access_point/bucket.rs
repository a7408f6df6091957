//! Limits traffic without a window to a rate: `bpf/police.h` for segments.

use yuzuri_gate::OtherTraffic;
use yuzuri_netmodel::Packet as _;
use yuzuri_sim::Segment;

/// The bucket holds this fraction of a second, and at least this many bytes.
const BURST_PARTS: f64 = 20.0;
const MIN_BURST: f64 = 32_768.0;
/// The prioritised part of each stream: bytes per second, and bytes in one burst.
const SMALL_PER_S: f64 = 65_536.0;
const SMALL_BURST: f64 = 32_768.0;
/// The Ethernet header, which is not part of the IP packet.
const ETHERNET_BYTES: u32 = 14;

/// A station's token bucket.
#[derive(Default)]
pub struct Bucket {
    /// The rate that may pass; `None`: unlimited.
    pub rate_bps: Option<u64>,
    tokens: f64,
    filled_ns: u64,
    allowance: Option<(f64, u64)>,
    last_ns: u64,
    bytes: u64,
    packets: u64,
    marked: u64,
    dropped: u64,
    all_passed: u64,
}

fn since(then_ns: u64, now_ns: u64, per_s: f64) -> f64 {
    (now_ns.saturating_sub(then_ns) as f64 / 1e9).min(1.0) * per_s
}

impl Bucket {
    /// Whether a packet passes; it may be marked. `all_passed`: the bytes of all stations that have
    /// passed.
    pub fn passes(&mut self, now_ns: u64, segment: &mut Segment, all_passed: &mut u64) -> bool {
        let conforms = self.conforms(now_ns, segment);
        if conforms {
            *all_passed += u64::from(segment.bytes() - ETHERNET_BYTES);
            self.all_passed = *all_passed;
        }
        conforms
    }

    fn conforms(&mut self, now_ns: u64, segment: &mut Segment) -> bool {
        let size = segment.bytes() - ETHERNET_BYTES;
        (self.last_ns, self.bytes, self.packets) = (now_ns, self.bytes + u64::from(size), self.packets + 1);
        let Some(rate_bps) = self.rate_bps else { return true };
        let (size, per_s) = (f64::from(size), rate_bps as f64 / 8.0);
        let small = self.is_small(now_ns, size);
        let burst = (per_s / BURST_PARTS).max(MIN_BURST);
        self.tokens = (self.tokens + since(self.filled_ns, now_ns, per_s)).min(burst);
        self.filled_ns = now_ns;
        if self.tokens < size && !(small && self.tokens > -per_s) {
            if self.tokens < -MIN_BURST || !segment.ect {
                self.dropped += 1;
                return false;
            }
            segment.ce = true;
            self.marked += 1;
        }
        self.tokens -= size;
        true
    }

    fn is_small(&mut self, now_ns: u64, size: f64) -> bool {
        let (tokens, filled_ns) = self.allowance.unwrap_or((SMALL_BURST, now_ns));
        let tokens = (tokens + since(filled_ns, now_ns, SMALL_PER_S)).min(SMALL_BURST);
        let small = tokens >= size;
        self.allowance = Some((if small { tokens - size } else { tokens }, now_ns));
        small
    }

    /// The bucket's counters, as the daemon reads them.
    pub fn seen(&self, mac: [u8; 6]) -> OtherTraffic {
        OtherTraffic {
            mac,
            last_ns: self.last_ns,
            bytes: self.bytes,
            packets: self.packets,
            marked: self.marked,
            dropped: self.dropped,
            all_passed: self.all_passed,
        }
    }
}
