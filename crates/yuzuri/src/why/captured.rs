//! Flows of a packet capture, each direction with its sender's limit.

use super::flows::{Flows, MAX_FLOWS};
use anyhow::Context;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use yuzuri_capture::{Capture, End, FlowKey, FlowSlot, Item, Options};
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

/// Reads a capture; also returns what ended it early.
pub fn read(path: &Path, filter: &Filter, stop: &AtomicBool) -> anyhow::Result<(Flows, Option<String>)> {
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
    for (slot, key) in keys {
        if let Some(ended) = tracker.end(slot) {
            take(&mut flows, &ended, key, &mut number);
        }
    }
    Ok((flows, broke))
}

/// Takes both directions of a flow in.
fn take(flows: &mut Flows, ended: &Ended, key: FlowKey, number: &mut u64) {
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
