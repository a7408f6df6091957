//! Kernel traces reduced to what an algorithm needs: one line per ACK with differences to the
//! previous line.

use yuzuri_cca::CaState;

/// An ACK and the connection state before it was processed, as recorded by `tcp:tcp_probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Time since the first ACK, µs.
    pub t_us: u64,
    /// Sequence number in segments, starting at the first one of the connection.
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub cwnd: u32,
    /// ssthresh, only during a reduction. Otherwise the probe records `tcp_current_ssthresh`.
    pub ssthresh: Option<u32>,
    /// State after the ACK was processed.
    pub state: CaState,
}

/// A reduced trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Time from the first segment to the first ACK, µs.
    pub lead_us: u64,
    pub acks: Vec<Ack>,
}

const STATES: [CaState; 5] =
    [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];

/// The state with this number in the kernel (`enum tcp_ca_state`).
pub fn state(number: usize) -> Option<CaState> {
    STATES.get(number).copied()
}

impl Trace {
    /// Formats the trace: the lead, then one line per ACK with time, acknowledged and sent
    /// segments, change of the window and, if applicable, state and threshold.
    #[allow(dead_code)]
    pub fn write(&self) -> String {
        let mut text = format!("{}\n", self.lead_us);
        let mut before = START;
        for ack in &self.acks {
            let mut line = format!(
                "{},{},{},{}",
                ack.t_us - before.t_us,
                ack.snd_una - before.snd_una,
                ack.snd_nxt - before.snd_nxt,
                i64::from(ack.cwnd) - i64::from(before.cwnd)
            );
            if ack.state != before.state || ack.ssthresh != before.ssthresh {
                let number = STATES.iter().position(|state| *state == ack.state).unwrap_or(0);
                let ssthresh = ack.ssthresh.map_or(String::new(), |ssthresh| ssthresh.to_string());
                line.push_str(&format!(",{number},{ssthresh}"));
            }
            text.push_str(&line);
            text.push('\n');
            before = *ack;
        }
        text
    }

    /// Parses the output of [`write`](Trace::write).
    #[allow(dead_code)]
    pub fn read(text: &str) -> Trace {
        let mut lines = text.lines();
        let lead_us = lines.next().and_then(|line| line.parse().ok()).expect("the lead");
        let mut before = START;
        let mut acks = Vec::new();
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |n: usize| cells[n].parse::<i64>().unwrap_or_else(|error| panic!("{line}: {error}"));
            let mut ack = Ack {
                t_us: before.t_us + number(0) as u64,
                snd_una: before.snd_una + number(1) as u32,
                snd_nxt: before.snd_nxt + number(2) as u32,
                cwnd: (i64::from(before.cwnd) + number(3)) as u32,
                ..before
            };
            if cells.len() > 4 {
                ack.state = state(number(4) as usize).expect("a state");
                ack.ssthresh = (!cells[5].is_empty()).then(|| number(5) as u32);
            }
            acks.push(ack);
            before = ack;
        }
        Trace { lead_us, acks }
    }
}

const START: Ack = Ack { t_us: 0, snd_una: 0, snd_nxt: 0, cwnd: 0, ssthresh: None, state: CaState::Open };
