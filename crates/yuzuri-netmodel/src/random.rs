//! The seedable generator: PCG32 (XSH RR 64/32), whose values its crate keeps stable. The distributions are our own few lines,
//! because those of the `rand` crate may change between versions, and a seed must give the same run for ever.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;

#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg32);

impl Random {
    /// `stream` keeps the generators of one experiment apart.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        let mut generator = Pcg32::from_seed(bytes);
        // Seeds that differ in few bits begin alike; a few steps part them.
        for _ in 0..8 {
            generator.next_u32();
        }
        Random(generator)
    }

    /// One of `0..=most`, all equally likely (the bias of the multiplication is below 2^-16 for every window there is).
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * (u64::from(most) + 1)) >> 32) as u32
    }

    /// One of `0..=most`.
    pub(crate) fn up_to_u64(&mut self, most: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Whether something of this probability (0 to 1) happens. Certain and impossible things draw no number.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || f64::from(self.0.next_u32()) < probability * 4_294_967_296.0
    }
}
