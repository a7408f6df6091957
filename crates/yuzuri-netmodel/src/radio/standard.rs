//! The 802.11 standards, and random selection of a rate within a standard.

use super::Phy;
use crate::random::Random;

/// An 802.11 standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// 802.11g.
    G,
    /// 802.11n.
    N,
    /// 802.11ac.
    Ac,
    /// 802.11ax.
    Ax,
}

impl Standard {
    /// All standards.
    pub const ALL: [Standard; 4] = [Standard::G, Standard::N, Standard::Ac, Standard::Ax];

    /// Draws one of the standard's rates for a single stream with equal probability: g at 6 to 54
    /// Mbit/s; n at 20 MHz; ac at 80 MHz; ax at 20 MHz.
    pub fn random(self, random: &mut Random) -> Phy {
        match self {
            Standard::G => Phy::g(random.choose(&[6, 9, 12, 18, 24, 36, 48, 54])),
            Standard::N => Phy::n(20, 1, random.uniform_index(8) as u8),
            Standard::Ac => Phy::ac(80, 1, random.uniform_index(10) as u8),
            Standard::Ax => Phy::ax(20, 1, random.uniform_index(12) as u8),
        }
    }
}

impl Phy {
    /// The standard of this PHY.
    pub fn standard(&self) -> Standard {
        match self {
            Phy::G { .. } => Standard::G,
            Phy::N { .. } => Standard::N,
            Phy::Ac { .. } => Standard::Ac,
            Phy::Ax { .. } => Standard::Ax,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_radio_is_valid_and_of_its_standard() {
        let mut random = Random::new(1, 2);
        for standard in Standard::ALL {
            for _ in 0..100 {
                let phy = standard.random(&mut random);
                assert_eq!(phy.standard(), standard);
                assert_eq!(phy.check(), Ok(()));
            }
        }
    }
}
