//! Packet loss on the path.

use crate::ConfigError;
use crate::error::check_range;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// Model of packet loss after the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossConfig {
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Random {
        /// Loss probability, 0 to 1.
        probability: f64,
    },
    /// Two-state Gilbert-Elliott model with one step per packet: few losses in the good state, many
    /// in the bad state.
    GilbertElliott {
        /// Transition probability per packet from the good to the bad state.
        good_to_bad: f64,
        /// Transition probability per packet from the bad to the good state. Its reciprocal is the
        /// mean burst length, packets.
        bad_to_good: f64,
        /// Loss probability in the good state (Gilbert: 0).
        #[serde(default)]
        loss_in_good: f64,
        /// Loss probability in the bad state (Gilbert: 1).
        #[serde(default = "default_loss_in_bad")]
        loss_in_bad: f64,
    },
}

fn default_loss_in_bad() -> f64 {
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

/// State of a loss process.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    config: LossConfig,
    bad: bool,
}

impl Loss {
    pub(super) fn new(config: &LossConfig) -> Loss {
        Loss { config: config.clone(), bad: false }
    }

    /// Steps the process and returns whether the next packet is lost.
    pub(super) fn loses_next(&mut self, random: &mut Random) -> bool {
        match self.config {
            LossConfig::None => false,
            LossConfig::Random { probability } => random.bernoulli(probability),
            LossConfig::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                if random.bernoulli(if self.bad { bad_to_good } else { good_to_bad }) {
                    self.bad = !self.bad;
                }
                random.bernoulli(if self.bad { loss_in_bad } else { loss_in_good })
            }
        }
    }
}
