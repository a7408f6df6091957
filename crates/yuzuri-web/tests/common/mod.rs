//! Shared by the server's tests.
#![allow(dead_code)]

use parking_lot::Mutex;
use std::sync::Arc;
use yuzuri_trace::{Density, Session, Source};
use yuzuri_view::{Limits, LiveModel};

/// When the session below began, monotonic time, ns.
pub const STARTED_NS: u64 = 5_000_000_000;

/// An empty model of a session on a fictitious machine.
pub fn model() -> Arc<Mutex<LiveModel>> {
    let session = Session {
        yuzuri: "0.1.0".into(),
        host: "host".into(),
        kernel: "6.1".into(),
        machine: "x86_64".into(),
        source: Source::Sampled,
        density: Density::default(),
        filter: String::new(),
        hooks: vec![],
        started_unix_ns: 1_700_000_000_000_000_000,
        started_mono_ns: STARTED_NS,
    };
    Arc::new(Mutex::new(LiveModel::new(Arc::new(session), Limits::default())))
}
