//! The source of a member's random numbers; passed in by the caller, like the time and the
//! messages.

use rand_core::{Rng as _, SeedableRng as _, TryRng};
use rand_pcg::Pcg32;
use std::convert::Infallible;

/// The source of random numbers of a [`Member`](super::Member).
#[derive(Debug, Clone, Copy)]
pub enum Randomness {
    /// A function that returns unpredictable numbers: the system's generator.
    System(fn() -> u64),
    /// A seed, for reproducible runs in tests and simulations only. An observer of a few challenges
    /// can compute the next ones.
    Seed(u64),
}

impl From<u64> for Randomness {
    fn from(seed: u64) -> Randomness {
        Randomness::Seed(seed)
    }
}

/// The generator in use.
#[derive(Debug, Clone)]
pub(super) enum Generator {
    System(fn() -> u64),
    Seeded(Pcg32),
}

impl Generator {
    /// Node and session make the sequences of generators with equal seeds differ.
    pub fn new(from: Randomness, node: u64, epoch: u64) -> Generator {
        match from {
            Randomness::System(draw) => Generator::System(draw),
            Randomness::Seed(number) => {
                let mut seed = [0; 16];
                seed[..8].copy_from_slice(&(number ^ epoch.rotate_left(32)).to_le_bytes());
                seed[8..].copy_from_slice(&node.to_le_bytes());
                let mut random = Pcg32::from_seed(seed);
                for _ in 0..8 {
                    random.next_u32();
                }
                Generator::Seeded(random)
            }
        }
    }
}

impl TryRng for Generator {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        match self {
            Generator::System(draw) => Ok((draw() >> 32) as u32),
            Generator::Seeded(random) => random.try_next_u32(),
        }
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        match self {
            Generator::System(draw) => Ok(draw()),
            Generator::Seeded(random) => random.try_next_u64(),
        }
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            let drawn = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}
