//! Flows of a packet capture, each direction with its sender's limit.

use super::flows::{Flows, MAX_FLOWS};
use anyhow::Context;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use yuzuri_capture::{Capture, End, Ending, FlowKey, FlowSlot, Item, Options};
use yuzuri_exit::stopped;
use yuzuri_infer::packets::{Ended, Tracker};
use yuzuri_trace::{Filter, Flow, FlowId};

/// Whether a file is a recording, as far as that can be determined: then its reader reports what is
/// wrong with it.
pub fn is_recording(path: &Path) -> bool {
    let mut beginning = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    // An Arrow stream.
    read.is_err() || beginning == [0xff; 4]
}

/// The result of reading a capture.
pub struct Captured {
    pub flows: Flows,
    /// The error that ended reading early.
    pub broke: Option<String>,
    /// The clock's backward steps, as text: they bound the accuracy of all times.
    pub steps: Option<String>,
}

/// Reads a capture.
pub fn read(path: &Path, filter: &Filter, stop: &AtomicBool) -> anyhow::Result<Captured> {
    let mut capture = Capture::open(path, &Options::default())
        .with_context(|| format!("{} is not a recording", path.display()))?;
    let mut tracker = Tracker::new();
    let mut keys: HashMap<FlowSlot, FlowKey> = HashMap::new();
    let mut flows = Flows::chosen_by(filter.clone());
    let mut number = 0;
    let mut broke = None;
    while !stopped(stop) {
        match capture.next_item() {
            Ok(Some(Item::Segment(segment))) => {
                let segment = *segment;
                if segment.first
                    && let Some(key) = capture.key(segment.flow)
                {
                    keys.insert(segment.flow, key);
                }
                tracker.segment(&segment);
            }
            Ok(Some(Item::Ended(slot))) => {
                if let (Some(ended), Some(key)) = (tracker.end(slot), keys.remove(&slot)) {
                    take(&mut flows, &ended, key, &mut number);
                }
            }
            Ok(None) => break,
            // Everything before the error is valid.
            Err(error) => {
                broke = Some(error.to_string());
                break;
            }
        }
    }
    // Everything before that was read, too.
    if broke.is_none() && !stopped(stop) {
        broke = early_end(capture.facts().ending);
    }
    for (slot, key) in keys {
        if let Some(ended) = tracker.end(slot) {
            take(&mut flows, &ended, key, &mut number);
        }
    }
    let clock = &capture.facts().clock;
    let largest_ms = clock.largest_step_back_ns as f64 / 1e6;
    let steps = (clock.steps_back > 0).then(|| {
        let times = if clock.steps_back == 1 { "once".into() } else { format!("{} times", clock.steps_back) };
        format!(
            "its clock went back {times}, by up to {largest_ms:.3} ms: times across these steps are wrong"
        )
    });
    Ok(Captured { flows, broke, steps })
}

/// How a capture ended, if it is not whole.
fn early_end(ending: Ending) -> Option<String> {
    match ending {
        Ending::Whole | Ending::Open => None,
        Ending::Cut { offset_bytes } => Some(format!("it ends within the packet at byte {offset_bytes}")),
        Ending::BadCompression { offset_bytes } => {
            Some(format!("its compression ends early or is damaged, after {offset_bytes} bytes"))
        }
        Ending::Damaged { offset_bytes, .. } => Some(format!("it is damaged at byte {offset_bytes}")),
    }
}

/// Adds both directions of a flow.
fn take(flows: &mut Flows, ended: &Ended, key: FlowKey, number: &mut u64) {
    if ended.seen.by_end.contains(&0) {
        let flow = Flow { local: key.end(End::Lower), remote: key.end(End::Higher), ..Flow::default() };
        flows.leave_out_one_way(&flow);
        return;
    }
    for end in [End::Lower, End::Higher] {
        let Some(limits) = ended.limits(end).filter(|limits| !limits.observations.is_empty()) else {
            continue;
        };
        if *number as usize >= MAX_FLOWS {
            flows.leave_out();
            continue;
        }
        *number += 1;
        let id = FlowId(*number);
        let flow = Flow { id, local: key.end(end), remote: key.end(end.other()), ..Flow::default() };
        flows.take_packets(Arc::new(flow), &limits);
    }
}
