//! The tick rate of the running kernel.

use crate::MonitorError;
use crate::clock::Reader;
use std::time::{Duration, Instant};

/// CONFIG_HZ of the running kernel, from its own clocks: no interface reports it everywhere.
pub(crate) fn per_second() -> Result<u32, MonitorError> {
    let reader = Reader::load()?;
    // Measure from tick to tick, so that no fraction of a tick is left over: 20 ticks take 20 to
    // 200 ms.
    let next_tick = |after: u64| -> Result<(u64, u64), MonitorError> {
        let began = Instant::now();
        loop {
            let (ns, jiffies) = reader.read()?;
            if jiffies > after || began.elapsed() > Duration::from_secs(2) {
                return Ok((jiffies, ns));
            }
        }
    };
    let (_, start) = reader.read()?;
    let (first, first_ns) = next_tick(start)?;
    let (last, last_ns) = next_tick(first + 19)?;
    let hz = (last - first) as f64 * 1e9 / (last_ns - first_ns).max(1) as f64;
    // The values that Kconfig offers.
    let nearest = [100, 250, 300, 1000, 1024, 128, 24, 48, 200, 256, 500, 512]
        .into_iter()
        .min_by(|a, b| (f64::from(*a) - hz).abs().total_cmp(&(f64::from(*b) - hz).abs()));
    Ok(nearest.unwrap_or(250))
}
