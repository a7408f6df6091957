//! Loss on the path.

use crate::ConfigError;
use crate::error::check_range;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// How packets get lost behind the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossConfig {
    /// No loss.
    #[default]
    None,
    /// Each packet on its own with this probability.
    Random {
        /// 0 to 1.
        probability: f64,
    },
    /// Gilbert and Elliott's two states, stepped once per packet: few losses in the good one, many in the bad one.
    GilbertElliott {
        /// Probability per packet to go from good to bad.
        good_to_bad: f64,
        /// Probability per packet to go from bad to good; the mean burst lasts its reciprocal.
        bad_to_good: f64,
        /// Probability of loss in the good state (Gilbert: 0).
        #[serde(default)]
        loss_in_good: f64,
        /// Probability of loss in the bad state (Gilbert: 1).
        #[serde(default = "certain")]
        loss_in_bad: f64,
    },
}

fn certain() -> f64 {
    1.0
}

impl LossConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let all: &[(&str, f64)] = match self {
            LossConfig::None => &[],
            LossConfig::Random { probability } => &[("probability", *probability)],
            LossConfig::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => &[
                ("good_to_bad", *good_to_bad),
                ("bad_to_good", *bad_to_good),
                ("loss_in_good", *loss_in_good),
                ("loss_in_bad", *loss_in_bad),
            ],
        };
        all.iter().try_for_each(|(field, value)| check_range(field, *value, 0.0, 1.0))
    }
}

/// The process that decides about each packet.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    config: LossConfig,
    bad: bool,
}

impl Loss {
    pub(super) fn new(config: &LossConfig) -> Loss {
        Loss { config: config.clone(), bad: false }
    }

    /// Whether the next packet is lost.
    pub(super) fn strikes(&mut self, random: &mut Random) -> bool {
        match self.config {
            LossConfig::None => false,
            LossConfig::Random { probability } => random.happens(probability),
            LossConfig::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                if random.happens(if self.bad { bad_to_good } else { good_to_bad }) {
                    self.bad = !self.bad;
                }
                random.happens(if self.bad { loss_in_bad } else { loss_in_good })
            }
        }
    }
}
