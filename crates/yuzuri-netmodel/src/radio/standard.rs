//! The standards of a radio, without its rate, and the rates that a lot draws.

use super::Phy;
use crate::random::Random;

/// A standard.
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
    /// Every standard.
    pub const ALL: [Standard; 4] = [Standard::G, Standard::N, Standard::Ac, Standard::Ax];

    /// A radio of this standard with one stream, at any of its rates, all equally likely: g at 6 to 54
    /// Mbit/s; n, 20 MHz; ac, 80 MHz; ax, 20 MHz.
    pub fn at_any_rate(self, random: &mut Random) -> Phy {
        match self {
            Standard::G => Phy::g(random.one(&[6, 9, 12, 18, 24, 36, 48, 54])),
            Standard::N => Phy::n(20, 1, random.below(8) as u8),
            Standard::Ac => Phy::ac(80, 1, random.below(10) as u8),
            Standard::Ax => Phy::ax(20, 1, random.below(12) as u8),
        }
    }
}

impl Phy {
    /// Its standard.
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
    fn a_drawn_radio_is_valid_and_of_its_standard() {
        let mut random = Random::new(1, 2);
        for standard in Standard::ALL {
            for _ in 0..100 {
                let phy = standard.at_any_rate(&mut random);
                assert_eq!(phy.standard(), standard);
                assert_eq!(phy.check(), Ok(()));
            }
        }
    }
}
