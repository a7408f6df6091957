//! Replay protection: decides which session of a member is live and which of its messages were seen
//! before.
//!
//! A session (node, epoch) is proved once it has answered one of our challenges: it is then live,
//! whatever its clock shows. From then on its sequence numbers protect it. Another epoch of the
//! same node replaces it only by answering a challenge. If that epoch is not higher than every
//! proved one before, the challenge must have been drawn after the last message of the session that
//! it replaces, which no recorded message can answer.

use crate::{Moment, Refusal};
use rand_core::Rng;
use std::time::Duration;

/// How long a challenge is issued, how long it is valid, and how soon another one may be drawn.
const ISSUED_FOR: Duration = Duration::from_secs(30);
const VALID: Duration = Duration::from_secs(60);
const RENEWED_AFTER: Duration = Duration::from_secs(2);

/// The sequence numbers seen in a session: the highest and the 64 up to it, in one word (as in RFC
/// 6479).
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    highest: u32,
    seen: u64,
}

impl Window {
    pub fn starting(sequence: u32) -> Window {
        Window { highest: sequence, seen: 1 }
    }

    /// Records a sequence number. Returns whether it is the highest so far.
    pub fn note(&mut self, sequence: u32) -> Result<bool, Refusal> {
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.seen = if ahead < u64::BITS { self.seen << ahead | 1 } else { 1 };
            self.highest = sequence;
            return Ok(true);
        }
        let behind = self.highest - sequence;
        let bit = 1_u64.checked_shl(behind).ok_or(Refusal::Replay)?;
        if self.seen & bit != 0 {
            return Err(Refusal::Replay);
        }
        self.seen |= bit;
        Ok(false)
    }
}

#[derive(Debug, Clone, Copy)]
struct Session {
    epoch: u64,
    window: Window,
}

/// The state of one member's sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions {
    proved: Option<Session>,
    heard: Option<Session>,
    /// The highest epoch ever proved.
    highest: u64,
    /// Our challenge's generation at the time of the proved session's last message.
    generation: u64,
}

/// The status of an admitted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// Its session has answered one of our challenges.
    pub proved: bool,
    /// It is the latest message of its session so far.
    pub latest: bool,
}

impl Sessions {
    /// Checks a message of the group whose tag has been verified. `echoed`: the generation of our
    /// challenge that it answers.
    pub fn admit(
        &mut self,
        epoch: u64,
        sequence: u32,
        echoed: Option<u64>,
        generation: u64,
    ) -> Result<Admission, Refusal> {
        if let Some(session) = self.proved.as_mut().filter(|session| session.epoch == epoch) {
            let latest = session.window.note(sequence)?;
            self.generation = generation;
            return Ok(Admission { proved: true, latest });
        }
        let may_follow = self.proved.is_none() || epoch > self.highest;
        let believed = match echoed {
            Some(echoed) if may_follow || echoed > self.generation => true,
            Some(_) => return Err(Refusal::Epoch),
            None => false,
        };
        let (session, latest) = match self.heard.take_if(|session| session.epoch == epoch) {
            Some(mut session) => {
                let noted = session.window.note(sequence);
                if noted.is_err() {
                    self.heard = Some(session);
                }
                (session, noted?)
            }
            None => (Session { epoch, window: Window::starting(sequence) }, true),
        };
        if believed {
            self.proved = Some(session);
            self.highest = self.highest.max(epoch);
            self.generation = generation;
        } else {
            self.heard = Some(session);
        }
        Ok(Admission { proved: believed, latest })
    }

    pub fn is_proved(&self) -> bool {
        self.proved.is_some()
    }
}

/// Our challenges: numbers that other members echo.
#[derive(Debug, Clone)]
pub(super) struct Challenges {
    /// The latest last. Generations count all challenges ever drawn, from 1.
    drawn: Vec<(u32, Moment)>,
    generation: u64,
}

impl Challenges {
    pub fn new(random: &mut impl Rng, now: Moment) -> Challenges {
        let mut challenges = Challenges { drawn: Vec::new(), generation: 0 };
        challenges.draw(random, now);
        challenges
    }

    fn draw(&mut self, random: &mut impl Rng, now: Moment) {
        self.drawn.retain(|(_, at)| now.since(*at) <= VALID);
        // 0 means none. Within 60 s at most 31 challenges are drawn.
        self.drawn.push((random.next_u32().max(1), now));
        self.generation += 1;
    }

    /// Draws a new challenge when the current one has been in use for its time.
    pub fn refresh(&mut self, random: &mut impl Rng, now: Moment) {
        if self.drawn.last().is_none_or(|(_, at)| now.since(*at) >= ISSUED_FOR) {
            self.draw(random, now);
        }
    }

    /// Draws a new challenge early, but not too often.
    pub fn renew(&mut self, random: &mut impl Rng, now: Moment) {
        if self.drawn.last().is_none_or(|(_, at)| now.since(*at) >= RENEWED_AFTER) {
            self.draw(random, now);
        }
    }

    /// The challenge to issue, and its generation.
    pub fn current(&self) -> (u32, u64) {
        (self.drawn.last().map_or(0, |(value, _)| *value), self.generation)
    }

    /// The generation of an echoed challenge; `None`: it is not ours or too old.
    pub fn generation_of(&self, echo: u32, now: Moment) -> Option<u64> {
        let back =
            self.drawn.iter().rev().position(|(value, at)| *value == echo && now.since(*at) <= VALID)?;
        Some(self.generation - back as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_takes_each_number_once_within_64() {
        let mut window = Window::starting(100);
        assert_eq!(window.note(100), Err(Refusal::Replay));
        assert_eq!(window.note(103), Ok(true));
        assert_eq!(window.note(101), Ok(false));
        assert_eq!(window.note(101), Err(Refusal::Replay));
        assert_eq!(window.note(100), Err(Refusal::Replay));
        assert_eq!(window.note(40), Ok(false), "63 behind");
        assert_eq!(window.note(39), Err(Refusal::Replay), "64 behind: nobody knows");
        assert_eq!(window.note(1_000_000), Ok(true));
        assert_eq!(window.note(999_999), Ok(false));
        assert_eq!(window.note(103), Err(Refusal::Replay));
        assert_eq!(window.note(u32::MAX), Ok(true));
        assert_eq!(window.note(u32::MAX), Err(Refusal::Replay));
    }

    fn admission(proved: bool, latest: bool) -> Result<Admission, Refusal> {
        Ok(Admission { proved, latest })
    }

    #[test]
    fn a_session_is_proved_once_it_echoes_a_challenge() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.admit(7, 1, None, 1), admission(false, true));
        assert_eq!(sessions.admit(7, 1, None, 1), Err(Refusal::Replay));
        assert_eq!(sessions.admit(7, 2, Some(1), 1), admission(true, true));
        assert_eq!(sessions.admit(7, 1, Some(1), 1), Err(Refusal::Replay), "seen before it was believed");
        assert_eq!(sessions.admit(7, 4, None, 1), admission(true, true));
        assert_eq!(sessions.admit(7, 3, None, 1), admission(true, false));
    }

    #[test]
    fn a_higher_epoch_follows_and_the_lower_one_never_returns() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.admit(7, 1, Some(1), 1), admission(true, true));
        assert_eq!(sessions.admit(8, 1, None, 1), admission(false, true), "not without a challenge");
        assert_eq!(sessions.admit(8, 2, Some(1), 1), admission(true, true));
        assert_eq!(sessions.admit(7, 2, Some(1), 1), Err(Refusal::Epoch));
    }

    #[test]
    fn a_session_with_a_clock_in_1970_needs_a_new_challenge_and_does_not_readmit_the_old_one() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.admit(1_000, 50, Some(1), 1), admission(true, true));
        assert_eq!(sessions.admit(1_000, 51, None, 2), admission(true, true));
        assert_eq!(sessions.admit(3, 1, Some(2), 2), Err(Refusal::Epoch), "may have been recorded before");
        assert_eq!(sessions.admit(3, 2, Some(3), 3), admission(true, true));
        // Messages of the old session answer earlier challenges, even messages that it never
        // delivered.
        assert_eq!(sessions.admit(1_000, 60, Some(2), 3), Err(Refusal::Epoch));
        assert_eq!(sessions.admit(1_000, 61, None, 3), admission(false, true), "heard, not believed");
    }
}
