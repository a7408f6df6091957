//! Message bodies: encoding, decoding and plausibility checks.

use super::wire::{Reader, Writer};
use super::{
    Body, MAX_AIR_PPM, MAX_BPS, MAX_RTT_US, Message, Notice, REPORT_INTERVAL_DS, Refusal, TerminalName,
    WEIGHT_PERMILLE,
};
use crate::{Destination, MAX_DESTINATIONS, NodeId, Phase, Report, Summary};

/// Largest loss in a report, per mille.
const MAX_LOST_PERMILLE: u16 = 1000;
/// A flag in the byte with the number of destinations.
const ELASTIC: u8 = 0x80;
const PACED: u8 = 0x80;

pub(super) fn write(body: &Body, out: &mut Writer) {
    match body {
        Body::Hello { leader } => node(*leader, out),
        Body::Report(report) => {
            let report = report.bounded();
            out.u40(report.rate_bps);
            out.u40(report.alone_bps);
            out.u16(report.flows);
            out.u24(report.queue_us);
            out.u24(report.srtt_us);
            out.u16(report.lost_permille);
            destinations(&report.destinations, if report.elastic { ELASTIC } else { 0 }, out);
        }
        Body::Summary { deputy, report_interval_ds, summary } => {
            let summary = summary.bounded();
            node(*deputy, out);
            out.u8((*report_interval_ds).clamp(*REPORT_INTERVAL_DS.start(), *REPORT_INTERVAL_DS.end()));
            out.u16(summary.members);
            out.u16(summary.senders);
            out.u8(phase_number(summary.phase));
            out.u40(summary.capacity_bps);
            out.u32(summary.air_share_ppm);
            out.u40(summary.share_bps);
            out.u40(summary.alone_max_bps);
            out.u24(summary.queue_us);
            out.u24(summary.srtt_us);
            destinations(&summary.destinations, if summary.paced { PACED } else { 0 }, out);
        }
        Body::Goodbye { successor } => node(*successor, out),
        Body::Notice(notice) => out.bytes(&notice.to_bytes()),
        Body::Weight { permille } => {
            out.u16((*permille).clamp(*WEIGHT_PERMILLE.start(), *WEIGHT_PERMILLE.end()));
        }
        Body::Name(name) => {
            out.u8(name.as_bytes().len() as u8);
            out.bytes(name.as_bytes());
        }
    }
}

pub(super) fn read(kind: u8, from: &mut Reader) -> Result<Body, Refusal> {
    Ok(match kind {
        1 => Body::Hello { leader: read_node(from)? },
        2 => {
            let mut report = Report {
                rate_bps: from.u40()?,
                alone_bps: from.u40()?,
                flows: from.u16()?,
                queue_us: from.u24()?,
                srtt_us: from.u24()?,
                lost_permille: from.u16()?,
                ..Report::default()
            };
            let counted = from.u8()?;
            report.elastic = counted & ELASTIC != 0;
            report.destinations = read_destinations(counted & !ELASTIC, from)?;
            Body::Report(report)
        }
        3 => {
            let deputy = read_node(from)?;
            let report_interval_ds = from.u8()?;
            let mut summary = Summary {
                members: from.u16()?,
                senders: from.u16()?,
                phase: phase(from.u8()?)?,
                capacity_bps: from.u40()?,
                air_share_ppm: from.u32()?,
                share_bps: from.u40()?,
                alone_max_bps: from.u40()?,
                queue_us: from.u24()?,
                paced: false,
                srtt_us: from.u24()?,
                destinations: Vec::new(),
            };
            let counted = from.u8()?;
            summary.paced = counted & PACED != 0;
            summary.destinations = read_destinations(counted & !PACED, from)?;
            Body::Summary { deputy, report_interval_ds, summary }
        }
        4 => Body::Goodbye { successor: read_node(from)? },
        5 => Body::Notice(Notice::from_bytes(&from.array()?)),
        6 => Body::Weight { permille: from.u16()? },
        10 => {
            let length = from.u8()?;
            Body::Name(TerminalName::of(from.bytes(length.into())?).ok_or(Refusal::Range)?)
        }
        _ => return Err(Refusal::Malformed),
    })
}

/// Rejects contents that no correct member sends, even if signed. An access point leads
/// without sending, and reports nothing.
pub(super) fn check(message: &Message) -> Result<(), Refusal> {
    let &Message { sends, leads, access_point, .. } = message;
    let addressed = message.addressed.is_some();
    let within = |ok: bool| if ok { Ok(()) } else { Err(Refusal::Range) };
    let agrees = |ok: bool| if ok { Ok(()) } else { Err(Refusal::Contradictory) };
    agrees(!(access_point && sends))?;
    let may_lead = sends || access_point;
    match &message.body {
        Body::Hello { .. } => agrees(may_lead || !leads),
        Body::Report(report) => {
            within(report.rate_bps <= MAX_BPS && report.alone_bps <= MAX_BPS)?;
            within(report.lost_permille <= MAX_LOST_PERMILLE)?;
            agrees(sends && addressed && !leads)?;
            agrees(!report.elastic || report.flows > 0)?;
            agrees(distinct(&report.destinations))
        }
        Body::Summary { report_interval_ds, summary, .. } => {
            within(summary.capacity_bps <= MAX_BPS && summary.share_bps <= MAX_BPS)?;
            within(summary.alone_max_bps <= MAX_BPS)?;
            within(summary.air_share_ppm <= MAX_AIR_PPM)?;
            within(REPORT_INTERVAL_DS.contains(report_interval_ds))?;
            agrees(leads && may_lead && !addressed)?;
            agrees(summary.members > 0 && summary.senders <= summary.members)?;
            agrees(summary.share_bps <= max_share_bps(summary.capacity_bps))?;
            agrees(distinct(&summary.destinations))
        }
        Body::Goodbye { .. } => agrees(!leads && !sends && !addressed),
        Body::Notice(_) => agrees(addressed),
        Body::Weight { permille } => {
            within(WEIGHT_PERMILLE.contains(permille))?;
            agrees(access_point && leads && addressed)
        }
        Body::Name(_) => agrees((may_lead || !leads) && !addressed),
    }
}

/// The largest valid share: a probe assigns at most twice the known capacity.
fn max_share_bps(capacity_bps: u64) -> u64 {
    capacity_bps.saturating_mul(2).min(MAX_BPS)
}

/// Whether no destination occurs twice and no round-trip time is 0.
fn distinct(destinations: &[(Destination, u32)]) -> bool {
    destinations.iter().enumerate().all(|(i, (destination, us))| {
        *us > 0 && destinations[..i].iter().all(|(other, _)| other != destination)
    })
}

impl Report {
    /// Limits every value to the range that receivers accept: rates up to 100 Gbit/s, times up to
    /// 16.8 s, losses up to 100 %, not elastic without flows, at most [`MAX_DESTINATIONS`]
    /// different destinations.
    pub fn bounded(&self) -> Report {
        Report {
            rate_bps: self.rate_bps.min(MAX_BPS),
            alone_bps: self.alone_bps.min(MAX_BPS),
            flows: self.flows,
            elastic: self.elastic && self.flows > 0,
            queue_us: self.queue_us.min(MAX_RTT_US),
            srtt_us: self.srtt_us.min(MAX_RTT_US),
            lost_permille: self.lost_permille.min(MAX_LOST_PERMILLE),
            destinations: bounded(&self.destinations),
        }
    }
}

impl Summary {
    /// Limits every value to the range that receivers accept: as [`Report::bounded`], and at least
    /// one member, no more senders than members, no share above twice the capacity.
    pub fn bounded(&self) -> Summary {
        let members = self.members.max(1);
        let capacity_bps = self.capacity_bps.min(MAX_BPS);
        Summary {
            members,
            senders: self.senders.min(members),
            phase: self.phase,
            capacity_bps,
            air_share_ppm: self.air_share_ppm.min(MAX_AIR_PPM),
            share_bps: self.share_bps.min(max_share_bps(capacity_bps)),
            alone_max_bps: self.alone_max_bps.min(MAX_BPS),
            queue_us: self.queue_us.min(MAX_RTT_US),
            paced: self.paced,
            srtt_us: self.srtt_us.min(MAX_RTT_US),
            destinations: bounded(&self.destinations),
        }
    }
}

fn bounded(destinations: &[(Destination, u32)]) -> Vec<(Destination, u32)> {
    let mut kept: Vec<(Destination, u32)> = Vec::with_capacity(MAX_DESTINATIONS);
    for (destination, us) in destinations {
        if kept.len() < MAX_DESTINATIONS && *us > 0 && kept.iter().all(|(other, _)| other != destination) {
            kept.push((*destination, (*us).min(MAX_RTT_US)));
        }
    }
    kept
}

fn node(node: Option<NodeId>, out: &mut Writer) {
    out.u64(node.map_or(0, |node| node.0));
}

fn read_node(from: &mut Reader) -> Result<Option<NodeId>, Refusal> {
    Ok(Some(NodeId(from.u64()?)).filter(|node| node.0 != 0))
}

fn destinations(destinations: &[(Destination, u32)], flags: u8, out: &mut Writer) {
    out.u8(destinations.len() as u8 | flags);
    for (destination, us) in destinations {
        out.u32(destination.0);
        out.u24(*us);
    }
}

fn read_destinations(count: u8, from: &mut Reader) -> Result<Vec<(Destination, u32)>, Refusal> {
    if usize::from(count) > MAX_DESTINATIONS {
        return Err(Refusal::Malformed);
    }
    (0..count).map(|_| Ok((Destination(from.u32()?), from.u24()?))).collect()
}

fn phase_number(phase: Phase) -> u8 {
    match phase {
        Phase::StartUp => 0,
        Phase::Hold => 1,
        Phase::Probe => 2,
        Phase::Off => 3,
        Phase::Contend => 4,
    }
}

fn phase(number: u8) -> Result<Phase, Refusal> {
    [Phase::StartUp, Phase::Hold, Phase::Probe, Phase::Off, Phase::Contend]
        .get(usize::from(number))
        .copied()
        .ok_or(Refusal::Malformed)
}
