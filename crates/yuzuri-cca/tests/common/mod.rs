//! Traces of the kernel, thinned to what an algorithm needs: one line per acknowledgement, differences to the line before.

use yuzuri_cca::CaState;

/// One acknowledgement and the connection before it was processed, as `tcp:tcp_probe` saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Since the first acknowledgement, µs.
    pub t_us: u64,
    /// Segments, from the first of the connection.
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub cwnd: u32,
    /// The threshold, given only in a reduction: else the probe shows `tcp_current_ssthresh`.
    pub ssthresh: Option<u32>,
    /// The state that processing it led to.
    pub state: CaState,
}

/// A thinned trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// When the first segment left: so long before the first acknowledgement, µs.
    pub lead_us: u64,
    pub acks: Vec<Ack>,
}

const STATES: [CaState; 5] =
    [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];

/// The state the kernel writes as this number (`enum tcp_ca_state`).
pub fn state(number: usize) -> Option<CaState> {
    STATES.get(number).copied()
}

impl Trace {
    /// As text: the lead, then per line time, acknowledged, sent, change of the window, and where there is something to say state and threshold.
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

    /// From [`write`](Trace::write).
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
