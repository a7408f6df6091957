//! The tick of the running kernel.

use crate::MonitorError;
use crate::features::with_log;
use crate::skel::control::ControlSkelBuilder;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// CONFIG_HZ of the running kernel, from its own clocks: no interface tells it everywhere.
pub(super) fn per_second() -> Result<u32, MonitorError> {
    let object = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = with_log("opening the BPF object", || ControlSkelBuilder::default().open(object))?;
    // Only the program that reads the clocks.
    for program in [
        &mut open.progs.yuzuri_init,
        &mut open.progs.yuzuri_cwnd_event,
        &mut open.progs.yuzuri_cong_avoid,
        &mut open.progs.yuzuri_ssthresh,
        &mut open.progs.yuzuri_set_state,
        &mut open.progs.yuzuri_undo_cwnd,
        &mut open.progs.yuzuri_pkts_acked,
        &mut open.progs.yuzuri_min_tso_segs,
    ] {
        program.set_autoload(false);
    }
    with_log("leaving the control out", || open.maps.yuzuri.set_autocreate(false))?;
    let skel = with_log("loading the reader of clocks", || open.load())?;
    let read = || -> Result<(u64, u64), MonitorError> {
        with_log("reading the kernel's clocks", || {
            skel.progs.read_clocks.test_run(libbpf_rs::ProgramInput::default()).map(drop)
        })?;
        let state = skel.maps.bss_data.as_deref();
        Ok(state.map_or((0, 0), |s| (s.clock_jiffies, s.clock_ns)))
    };
    // From a tick's beginning to a tick's beginning, so that no part of a tick is left over: 20 of them are 20 to 200 ms.
    let next_tick = |after: u64| -> Result<(u64, u64), MonitorError> {
        let patience = Instant::now();
        loop {
            let (jiffies, ns) = read()?;
            if jiffies > after || patience.elapsed() > Duration::from_secs(2) {
                return Ok((jiffies, ns));
            }
        }
    };
    let (start, _) = read()?;
    let (first, first_ns) = next_tick(start)?;
    let (last, last_ns) = next_tick(first + 19)?;
    let hz = (last - first) as f64 * 1e9 / (last_ns - first_ns).max(1) as f64;
    // What Kconfig offers.
    let nearest = [100, 250, 300, 1000, 1024, 128, 24, 48, 200, 256, 500, 512]
        .into_iter()
        .min_by(|a, b| (f64::from(*a) - hz).abs().total_cmp(&(f64::from(*b) - hz).abs()));
    Ok(nearest.unwrap_or(250))
}
