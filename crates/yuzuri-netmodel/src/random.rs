//! Seedable random number generator: PCG32 (XSH RR 64/32), whose output its crate keeps stable. The
//! distributions are implemented here, because those of the `rand` crate may change between
//! versions and a seed must reproduce the same run permanently.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;

/// A random number generator. The same seed always produces the same sequence.
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

/// Wraps a generator whose state the caller has set.
impl From<Pcg32> for Random {
    fn from(generator: Pcg32) -> Random {
        Random(generator)
    }
}

impl Random {
    /// Creates a generator. `stream` separates the generators of one experiment.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        let mut generator = Pcg32::from_seed(bytes);
        // Seeds that differ in few bits produce similar first values; discarding some separates
        // them.
        for _ in 0..8 {
            generator.next_u32();
        }
        Random(generator)
    }

    /// Uniform integer in `0..=most`. The bias of the multiplication is below 2^-16 for all
    /// contention windows.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * (u64::from(most) + 1)) >> 32) as u32
    }

    /// Uniform integer in `0..=most`.
    pub(crate) fn up_to_u64(&mut self, most: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Returns true with this probability (0 to 1). Probabilities of 0 and 1 consume no random
    /// number.
    pub fn bernoulli(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || f64::from(self.0.next_u32()) < probability * 4_294_967_296.0
    }

    /// Uniform number from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    /// Number from `low` to below `high`, both positive, with a uniform logarithm.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.uniform())
    }

    /// Uniform integer in `0..n`.
    pub fn uniform_index(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// Picks an element. Panics if there is none.
    pub fn choose<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.uniform_index(of.len())].clone()
    }
}
