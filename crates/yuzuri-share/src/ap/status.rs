//! The status of the access point's daemon: as JSON, and as text.

use super::air::{Air, AirStatus};
use super::bottleneck::{Bottleneck, Channel, Sharers};
use super::controller::{Controller, Station};
use super::figures::Figures;
use super::membership::MembershipState;
use super::other::UnwindowedSender;
use super::rules::StationId;
use super::steer::SteeringStatus;
use crate::show::mbps;
use crate::{MemberStatus, MessageCounts, PolicyStatus, SummaryStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use yuzuri_gate::{AttachMode, Counts, Gate};
use yuzuri_policy::{Member, Moment, Rule};
use yuzuri_stats::counted;

/// Maximum number of connections of a station in the status.
const MAX_ROWS: usize = 20;

/// The state of a running daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApStatus {
    /// The version of the daemon.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// When this was written, seconds of `CLOCK_BOOTTIME`.
    pub at_s: f64,
    /// Whether it only reports what it would do.
    pub dry_run: bool,
    /// The active policy.
    pub policy: PolicyStatus,
    /// The devices with the gate.
    pub devices: Vec<DeviceStatus>,
    /// The known stations.
    pub stations: Vec<StationStatus>,
    /// Capacity and shares, as announced by a leader; absent before the first tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryStatus>,
    /// Capacity and shares of each bottleneck, if stations on different radios have different ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bottlenecks: Vec<BottleneckStatus>,
    /// The stations' figures without bounds (`dry_run`, or bounds that do not help); absent: there
    /// were no such ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<Figures>,
    /// Their figures with bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Figures>,
    /// The gate's counters.
    pub segments: SegmentCounts,
    /// The results of requests to move to another radio; absent if no station is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering: Option<SteeringStatus>,
    /// The groups of stations that take part themselves; empty without their key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ApGroupStatus>,
    /// Problems at the last tick.
    pub problems: Vec<String>,
}

/// The bottleneck of a group of stations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BottleneckStatus {
    /// The centre frequency of their radio's channel, MHz; 0: wired stations, or not known. Absent:
    /// the stations are on several radios and share the wire behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_mhz: Option<u32>,
    /// Capacity and shares.
    pub summary: SummaryStatus,
}

fn bottlenecks(controller: &Controller) -> Vec<BottleneckStatus> {
    let status = |(at, sharers): (Bottleneck, &Sharers)| {
        let channel_mhz = match at {
            Bottleneck::Wire => None,
            Bottleneck::Channel(Channel(mhz)) => Some(mhz),
        };
        Some(BottleneckStatus { channel_mhz, summary: sharers.summary.as_ref()?.into() })
    };
    let all: Vec<_> = controller.in_use().filter_map(status).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

/// A group of stations that run yuzuri themselves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApGroupStatus {
    /// The device towards its members.
    pub device: String,
    /// Its id, 16 hexadecimal digits.
    pub group: String,
    /// This access point's node ID, 16 hexadecimal digits.
    pub node: String,
    /// Whether this access point leads it.
    pub leads: bool,
    /// The members heard within the last minute, without this access point.
    pub members: Vec<MemberStatus>,
    /// Message counters.
    pub messages: MessageCounts,
}

impl ApGroupStatus {
    pub(crate) fn of(device: &str, member: &Member, now: Moment) -> ApGroupStatus {
        ApGroupStatus {
            device: device.to_owned(),
            group: member.group().to_string(),
            node: member.node().to_string(),
            leads: member.is_leader(now),
            members: member.members(now).skip(1).map(MemberStatus::from).collect(),
            messages: member.counts().into(),
        }
    }
}

/// A device with the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// `tcx` or `clsact`.
    pub by: String,
}

/// A station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StationStatus {
    /// Its hardware address.
    pub station: String,
    /// Its observed IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it is exempt from all bounds.
    pub exempt: bool,
    /// Whether it takes part in the group itself.
    #[serde(default)]
    pub membership: MembershipState,
    /// The rate of its uploads, payload bit/s.
    pub rate_bps: u64,
    /// The rate that it would deliver alone on the air, payload bit/s; 0: unknown.
    pub alone_bps: u64,
    /// Its share, payload bit/s; absent while nothing is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_bps: Option<u64>,
    /// Largest mean round-trip time of its uploads since the previous tick, µs.
    pub srtt_us: u32,
    /// Uploads.
    pub uploads: u32,
    /// How many of these are bounded.
    pub bounded: u32,
    /// Its traffic without a window (QUIC and other UDP, tunnels), IP packets, bit/s.
    #[serde(default)]
    pub other_bps: u64,
    /// The limit for that traffic, bit/s; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_rate_bps: Option<u64>,
    /// The traffic was limited, its sender ignored the losses, and it is not limited any more.
    #[serde(default)]
    pub other_left_alone: bool,
    /// It sent more than its windows allow, so bounds have no effect on it, and it is not bounded.
    #[serde(default)]
    pub ignores_window: bool,
    /// The report of its radio's driver; absent: it is not associated with a radio of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air: Option<AirStatus>,
    /// The centre frequency of its radio's channel, MHz; 0: wired, or not known.
    #[serde(default)]
    pub channel_mhz: u32,
    /// The number of uploads by the rule that applies to them.
    pub rules: BTreeMap<String, u32>,
    /// The busiest uploads.
    pub flows: Vec<UploadStatus>,
}

/// An upload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UploadStatus {
    /// The station's end.
    pub station: SocketAddr,
    /// The server's end.
    pub server: SocketAddr,
    /// Payload acknowledged since its beginning, bytes.
    pub acked_bytes: u64,
    /// Round-trip time between the gate and the server since its beginning, µs; absent: not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_us: Option<u64>,
    /// Round-trip time between the gate and the station since its beginning, µs; absent: not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air_us: Option<u64>,
    /// Its bound on bytes in flight; absent: not bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_bytes: Option<u32>,
    /// The window that the station was last advertised, bytes.
    pub advertised_bytes: u32,
    /// The window offered by the server, bytes.
    pub offered_bytes: u32,
    /// Packets without new data.
    pub repeated: u64,
    /// Which rule set the bound.
    pub rule: Rule,
}

/// The gate's counters since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentCounts {
    /// TCP segments towards stations.
    pub down: u64,
    /// TCP segments from stations.
    pub up: u64,
    /// Windows lowered.
    pub lowered: u64,
    /// Segments of connections whose handshake was not observed.
    pub unknown_handshake: u64,
    /// Segments of connections that are never modified.
    pub never_modified: u64,
    /// Windows that could not be changed.
    pub failed: u64,
    /// ACKs dropped as redundant.
    #[serde(default)]
    pub thinned: u64,
    /// Packets from stations without a window (QUIC and other UDP, tunnels).
    #[serde(default)]
    pub other: u64,
    /// Of these, ECN-marked ones.
    #[serde(default)]
    pub marked: u64,
    /// Of these, dropped ones.
    #[serde(default)]
    pub dropped: u64,
}

impl From<Counts> for SegmentCounts {
    fn from(counts: Counts) -> SegmentCounts {
        SegmentCounts {
            down: counts.down,
            up: counts.up,
            lowered: counts.lowered,
            unknown_handshake: counts.unknown_handshake,
            never_modified: counts.never_modified,
            failed: counts.failed,
            thinned: counts.thinned,
            other: counts.other,
            marked: counts.marked,
            dropped: counts.dropped,
        }
    }
}

impl ApStatus {
    pub(super) fn of(controller: &Controller, gate: &Gate, air: &Air) -> ApStatus {
        let devices = gate.devices().map(|(name, mode)| DeviceStatus {
            name: name.to_owned(),
            by: if mode == AttachMode::Tcx { "tcx" } else { "clsact" }.into(),
        });
        let stations = controller.stations.iter().map(|(id, station)| StationStatus {
            air: air.status(id.0),
            ..StationStatus::of(*id, station, controller)
        });
        ApStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            devices: devices.collect(),
            stations: stations.collect(),
            summary: controller.summary().as_ref().map(SummaryStatus::from),
            bottlenecks: bottlenecks(controller),
            segments: gate.counts().unwrap_or_default().into(),
            ..ApStatus::default()
        }
    }

    /// As text for a terminal.
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let policy = self.policy;
        write!(out, "yuzuri ap {}, process {}: ", self.version, self.pid)?;
        match self.dry_run {
            true => write!(out, "only reports what it would do")?,
            false => write!(out, "bounds uploads")?,
        }
        writeln!(out, ", policy {} ({})", policy.name, policy.objective.name())?;
        let devices: Vec<String> = self.devices.iter().map(|d| format!("{} ({})", d.name, d.by)).collect();
        writeln!(out, "gate at {}", devices.join(", "))?;
        for problem in &self.problems {
            writeln!(out, "problem: {problem}")?;
        }
        if let Some(summary) = &self.summary {
            let limit =
                if summary.wire_bps > 0 { "the wire limits" } else { "the air limits, or nothing does yet" };
            writeln!(
                out,
                "{}: sending: {} of {}, capacity {} Mbit/s, {limit}",
                summary.phase.name(),
                summary.senders,
                counted(summary.members, "station"),
                mbps(summary.capacity_bps),
            )?;
        }
        for BottleneckStatus { channel_mhz, summary } in &self.bottlenecks {
            let place = match channel_mhz {
                None => "wire behind the radios".to_owned(),
                Some(0) => "wired, or channel not known".to_owned(),
                Some(mhz) => format!("{mhz} MHz"),
            };
            writeln!(
                out,
                "  {place}: {}, sending: {} of {}, capacity {} Mbit/s",
                summary.phase.name(),
                summary.senders,
                counted(summary.members, "station"),
                mbps(summary.capacity_bps),
            )?;
        }
        for (what, figures) in [("without bounds", self.plain), ("with bounds", self.shared)] {
            if let Some(Figures { seconds, rate_bps, rtt_us, fairness }) = figures {
                let (mbps, ms) = (rate_bps / 1e6, rtt_us / 1e3);
                writeln!(
                    out,
                    "{what}: {mbps:.1} Mbit/s, RTT {ms:.1} ms, Jain's index {fairness:.3} ({seconds:.0} s)"
                )?;
            }
        }
        for group in &self.groups {
            let does = if group.leads { "leads" } else { "does not lead" };
            let (group_id, members) = (&group.group, group.members.len());
            writeln!(out, "{does} group {group_id} on {}: {}", group.device, counted(members, "member"))?;
        }
        let counts = self.segments;
        writeln!(
            out,
            "windows lowered {}, ACKs dropped {}; segments of connections whose handshake was not observed {}, \
             never modified {}\n\
             packets without a TCP window {}, marked {}, dropped {}",
            counts.lowered,
            counts.thinned,
            counts.unknown_handshake,
            counts.never_modified,
            counts.other,
            counts.marked,
            counts.dropped
        )?;
        if let Some(steering) = &self.steering {
            writeln!(
                out,
                "requests to change the radio {} ({} to undo a move), accepted {}, refused {}",
                steering.asked, steering.undone, steering.accepted, steering.refused
            )?;
        }
        if self.stations.is_empty() {
            return writeln!(out, "\nno station has uploaded anything yet");
        }
        writeln!(
            out,
            "\n{:<17}  {:>10}  {:>10}  {:>10}  {:>10}  {:>8}  {:>6}  {:>6}  {:>5}  {:>7}  rules",
            "station", "Mbit/s", "no TCP", "share", "alone", "RTT ms", "air %", "again", "waits", "bounded"
        )?;
        for s in &self.stations {
            let some = |bps: Option<u64>| bps.filter(|b| *b > 0).map_or("-".to_owned(), mbps);
            let rules: Vec<String> = s.rules.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
            writeln!(
                out,
                "{:<17}  {:>10}  {:>10}  {:>10}  {:>10}  {:>8.1}  {:>6}  {:>6}  {:>5}  {:>7}  {}{}",
                s.station,
                mbps(s.rate_bps),
                some(Some(s.other_bps)),
                some(s.share_bps),
                some(Some(s.alone_bps)),
                f64::from(s.srtt_us) / 1e3,
                percent(s.air.and_then(|air| air.airtime)),
                percent(s.air.and_then(|air| air.retries)),
                s.air.and_then(|air| air.queue_packets).map_or("-".to_owned(), |n| n.to_string()),
                format!("{}/{}", s.bounded, s.uploads),
                rules.join(", "),
                match (s.membership, s.exempt, s.other_left_alone) {
                    _ if s.ignores_window => " (sends beyond its window: not bounded)",
                    (MembershipState::Member, ..) => " (member: bounds itself)",
                    (MembershipState::Exceeds, ..) => " (member that exceeds its share)",
                    (_, true, _) => " (exempt)",
                    (_, _, true) => " (does not respond to losses)",
                    _ => "",
                }
            )?;
        }
        Ok(())
    }
}

/// The status in Prometheus' text format.
pub fn ap_metrics(status: &ApStatus) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP yuzuri_ap_{name} {help}\n# TYPE yuzuri_ap_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(out, "yuzuri_ap_{name}{labels} {value}");
        }
    };
    let of_all = |of: &dyn Fn(&StationStatus) -> Option<f64>| -> Vec<(String, f64)> {
        let row = |s: &StationStatus| Some((format!("{{station=\"{}\"}}", s.station), of(s)?));
        status.stations.iter().filter_map(row).collect()
    };
    let of_group =
        |group: &ApGroupStatus| format!("{{device=\"{}\",group=\"{}\"}}", group.device, group.group);
    let one = |value: f64| vec![(String::new(), value)];
    let summary = status.summary.as_ref();
    family(
        "capacity_bps",
        "gauge",
        "Maximum payload rate that all stations together were seen to carry, bit/s.",
        one(summary.map_or(0.0, |s| s.capacity_bps as f64)),
    );
    family("senders", "gauge", "Stations that send.", one(summary.map_or(0.0, |s| s.senders.into())));
    let leads: Vec<_> = status.groups.iter().map(|group| (of_group(group), f64::from(group.leads))).collect();
    family("group_leads", "gauge", "Whether this access point leads a group of its stations.", leads);
    let members = |group: &ApGroupStatus| (of_group(group), group.members.len() as f64);
    let members = status.groups.iter().map(members).collect();
    family("group_members", "gauge", "Members of a group that were heard within the last minute.", members);
    family("problems", "gauge", "Problems at the last tick.", one(status.problems.len() as f64));
    let rate = of_all(&|s| Some(s.rate_bps as f64));
    family("station_rate_bps", "gauge", "Payload rate of a station's uploads, bit/s.", rate);
    let share = of_all(&|s| s.share_bps.map(|bps| bps as f64));
    family("station_share_bps", "gauge", "A station's share, payload bit/s.", share);
    let rtt = of_all(&|s| Some(f64::from(s.srtt_us) / 1e6));
    family("station_rtt_seconds", "gauge", "Largest mean round-trip time of a station's uploads.", rtt);
    let uploads = of_all(&|s| Some(s.uploads.into()));
    family("station_uploads", "gauge", "A station's uploads.", uploads);
    let bounded = of_all(&|s| Some(s.bounded.into()));
    family("station_bounded", "gauge", "Of these, bounded ones.", bounded);
    let ignores = of_all(&|s| Some(f64::from(s.ignores_window)));
    family(
        "station_ignores_window",
        "gauge",
        "Whether a station sends beyond its window, and is not bounded.",
        ignores,
    );
    let other = of_all(&|s| Some(s.other_bps as f64));
    family("station_other_bps", "gauge", "Rate of a station's traffic without a TCP window, bit/s.", other);
    let airtime = of_all(&|s| s.air?.airtime);
    family(
        "station_airtime",
        "gauge",
        "Fraction of the time in which a station has the air, by its driver.",
        airtime,
    );
    let again = of_all(&|s| s.air?.retries);
    family("station_retries", "gauge", "Fraction of the frames to a station that are retransmitted.", again);
    let waits = of_all(&|s| s.air?.queue_packets.map(f64::from));
    family("station_queue_packets", "gauge", "Packets that wait for a station in its radio's queue.", waits);
    let counts = status.segments;
    for (name, help, value) in [
        ("segments_down", "TCP segments towards stations.", counts.down),
        ("segments_up", "TCP segments from stations.", counts.up),
        ("windows_lowered", "Windows lowered.", counts.lowered),
        ("windows_failed", "Windows that could not be changed.", counts.failed),
        ("acks_left_out", "ACKs dropped as redundant.", counts.thinned),
        (
            "segments_unknown_handshake",
            "Segments of connections whose handshake was not observed.",
            counts.unknown_handshake,
        ),
        (
            "segments_never_modified",
            "Segments of connections that are never modified.",
            counts.never_modified,
        ),
        ("other_packets", "Packets from stations without a TCP window.", counts.other),
        ("other_marked", "Of these, marked.", counts.marked),
        ("other_dropped", "Of these, dropped.", counts.dropped),
    ] {
        family(&format!("{name}_total"), "counter", help, one(value as f64));
    }
    out
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1}", part * 100.0))
}

impl StationStatus {
    fn of(id: StationId, station: &Station, controller: &Controller) -> StationStatus {
        let mut rules = BTreeMap::new();
        for row in &station.rows {
            *rules.entry(row.why.name().to_owned()).or_default() += 1;
        }
        let mut busiest: Vec<_> = station.rows.iter().collect();
        busiest.sort_by_key(|row| std::cmp::Reverse(row.gated.acked_bytes));
        let flows = busiest.into_iter().take(MAX_ROWS).map(|row| UploadStatus {
            station: row.key.station(),
            server: row.key.server(),
            acked_bytes: row.gated.acked_bytes,
            wire_us: row.gated.wire.mean_us(),
            air_us: row.gated.air.mean_us(),
            bound_bytes: row.bytes,
            advertised_bytes: row.gated.advertised_bytes,
            offered_bytes: row.gated.offered_bytes,
            repeated: row.gated.repeated_segments,
            rule: row.why,
        });
        let report = station.report.as_ref();
        let other = station.other.as_ref();
        let shares = report.and(station.share_bps).map(|bps| bps as u64);
        StationStatus {
            station: id.to_string(),
            addresses: station.addresses.iter().copied().collect(),
            exempt: controller.is_exempt(id),
            membership: station.membership.state(),
            rate_bps: report.map_or(0, |report| report.rate_bps),
            alone_bps: station.radio.alone_bps,
            share_bps: shares,
            srtt_us: report.map_or(0, |report| report.srtt_us),
            uploads: station.rows.len() as u32,
            bounded: station.rows.iter().filter(|row| row.bytes.is_some()).count() as u32,
            other_bps: other.map_or(0, |other| other.passed_bps as u64),
            other_rate_bps: other.and_then(|other| other.rate_bps),
            other_left_alone: other.is_some_and(UnwindowedSender::is_left_alone),
            ignores_window: station.windows.is_ignored(),
            air: None,
            channel_mhz: station.channel.0,
            rules,
            flows: flows.collect(),
        }
    }
}
