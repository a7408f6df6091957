//! Decides on which channels ACKs are thinned.

use super::Controller;
use crate::ap::bottleneck::Channel;
use std::collections::BTreeMap;
use yuzuri_gate::MAX_ACK_GAP;

impl Controller {
    /// A thinned ACK waits for the next one, so that the station's data waits as well. With the
    /// same window in flight, that costs nothing if the data would wait for the air at least as
    /// long otherwise; if it would not, the station carries less. So ACKs are thinned on a channel
    /// from the time on at which its queue for the air is as long as an ACK may wait, until that
    /// queue is shorter than they did wait on average.
    pub(super) fn thin_where_air_has_a_queue(&mut self) {
        let mut waits_us: BTreeMap<Channel, Vec<u64>> = BTreeMap::new();
        for station in self.stations.values().filter(|station| station.is_thinned) {
            let waits = waits_us.entry(station.channel).or_default();
            let sending = station.rows.iter().filter(|row| row.seen.in_flight > 0);
            waits.extend(sending.map(|row| self.view.wait_us(&row.key)));
        }
        let is_queued = |(channel, waits_us): (&Channel, &Vec<u64>)| {
            let mean_s = waits_us.iter().sum::<u64>() as f64 / waits_us.len().max(1) as f64 / 1e6;
            let least_s = if self.thinned.contains(channel) { mean_s } else { MAX_ACK_GAP.as_secs_f64() };
            (self.radios.air_queue_s(*channel) >= least_s).then_some(*channel)
        };
        self.thinned = waits_us.iter().filter_map(is_queued).collect();
        for station in self.stations.values_mut() {
            station.is_thinned &= self.thinned.contains(&station.channel);
        }
    }
}
