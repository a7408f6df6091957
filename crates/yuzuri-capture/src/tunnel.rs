//! Follows tunnels from an IP packet to the innermost one: VXLAN (RFC 7348) and VXLAN-GPE, GENEVE
//! (RFC 8926), GTP-U (3GPP TS 29.281), GRE (RFC 2784, RFC 2890) with NVGRE (RFC 7637) and ERSPAN
//! (draft-foschiano-erspan), IP in IP (RFC 2003, RFC 2473, RFC 4213).
//!
//! A port alone does not make a tunnel: the inner headers must be there, up to a TCP header.

use crate::facts::{Skip, Tunnels};
use crate::ip::{self, IpPacket};
use crate::link::ether_type;

/// Maximum depth of nested tunnels that is followed.
const MAX_DEPTH: usize = 4;
/// Maximum number of extension headers followed in a GTP-U packet.
const MAX_GTP_EXTENSIONS: usize = 8;

const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;

/// A kind of tunnel, and the offset in its payload of the packet or frame that it carries.
struct TunnelKind {
    kind: Kind,
    at: usize,
    frame: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Vxlan,
    Geneve,
    GtpU,
    Gre,
    Erspan,
    IpInIp,
}

/// Decodes the TCP segment in the innermost packet of `bytes`, an IP packet that itself carries
/// another one.
#[inline(never)]
pub(crate) fn enter<'a>(
    mut bytes: &'a [u8],
    mut on_wire: u32,
    ip: &mut IpPacket<'a>,
    tunnels: &mut Tunnels,
) -> Result<(), Skip> {
    let mut outermost = None;
    for _ in 0..MAX_DEPTH {
        let outer = ip::payload(bytes, on_wire)?;
        let tunnel_kind = tunnel_kind(outer.protocol, outer.bytes)?.ok_or(Skip::NotTcp)?;
        outermost = outermost.or(Some(tunnel_kind.kind));
        let inside = outer.bytes.get(tunnel_kind.at..).ok_or(Skip::Cut)?;
        let header_bytes = match tunnel_kind.frame {
            true => ether_type(inside, 12, 14).map_err(not_tcp)?,
            false => 0,
        };
        bytes = inside.get(header_bytes..).ok_or(Skip::Cut)?;
        on_wire = outer.wire_bytes.saturating_sub((tunnel_kind.at + header_bytes) as u32);
        match ip::decode(bytes, on_wire, ip) {
            Ok(()) => {
                match outermost {
                    Some(Kind::Vxlan) => tunnels.vxlan += 1,
                    Some(Kind::Geneve) => tunnels.geneve += 1,
                    Some(Kind::GtpU) => tunnels.gtp_u += 1,
                    Some(Kind::Gre) => tunnels.gre += 1,
                    Some(Kind::Erspan) => tunnels.erspan += 1,
                    Some(Kind::IpInIp) => tunnels.ip_in_ip += 1,
                    None => {}
                }
                return Ok(());
            }
            Err(Skip::NotTcp) => {}
            Err(skip) => return Err(not_tcp(skip)),
        }
    }
    Err(Skip::TooDeep)
}

/// An inner packet that is not IP, or that contradicts itself, was most likely no tunnel: the outer
/// packet is IP without TCP.
fn not_tcp(skip: Skip) -> Skip {
    match skip {
        Skip::NotIp | Skip::BadHeader => Skip::NotTcp,
        other => other,
    }
}

/// The tunnel that begins with the payload of a packet of this protocol; `None` if it is not a
/// tunnel.
fn tunnel_kind(protocol: u8, payload: &[u8]) -> Result<Option<TunnelKind>, Skip> {
    match protocol {
        IPV4 | IPV6 => Ok(Some(TunnelKind { kind: Kind::IpInIp, at: 0, frame: false })),
        GRE => gre(payload),
        UDP => udp(payload),
        _ => Ok(None),
    }
}

fn byte(payload: &[u8], at: usize) -> Result<u8, Skip> {
    payload.get(at).copied().ok_or(Skip::Cut)
}

fn short(payload: &[u8], at: usize) -> Result<u16, Skip> {
    Ok(u16::from_be_bytes([byte(payload, at)?, byte(payload, at + 1)?]))
}

fn gre(payload: &[u8]) -> Result<Option<TunnelKind>, Skip> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let flags = short(payload, 0)?;
    let known = CHECKSUM | KEY | SEQUENCE;
    if flags & !known != 0 {
        // Source routing of RFC 1701, or version 1, which carries PPP (RFC 2637).
        return Ok(None);
    }
    let at = 4 + 4 * (flags & known).count_ones() as usize;
    let plain = |frame| TunnelKind { kind: Kind::Gre, at, frame };
    let erspan = |header_bytes| TunnelKind { kind: Kind::Erspan, at: at + header_bytes, frame: true };
    Ok(match short(payload, 2)? {
        0x0800 | 0x86dd => Some(plain(false)),
        0x6558 => Some(plain(true)),
        // Type I has no header, and GRE no sequence number.
        0x88be if flags & SEQUENCE == 0 => Some(erspan(0)),
        0x88be => Some(erspan(8)),
        // Type III: twelve bytes, and eight more if its last bit is set. Frames other than Ethernet
        // have their own types.
        0x22eb => {
            let word = short(payload, at + 10)?;
            (word >> 10 & 0x1f == 0).then(|| erspan(if word & 1 != 0 { 20 } else { 12 }))
        }
        _ => None,
    })
}

fn udp(payload: &[u8]) -> Result<Option<TunnelKind>, Skip> {
    const HEADER_BYTES: usize = 8;
    const GTP_U: u16 = 2152;
    let Some((header, payload)) = payload.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let ports = (short(header, 0)?, short(header, 2)?);
    let tunnel_kind = match ports {
        // The second port is what Linux used before the port was assigned, and still uses by
        // default.
        (_, 4789 | 8472) => vxlan(payload, false)?,
        (_, 4790) => vxlan(payload, true)?,
        (_, 6081) => geneve(payload)?,
        (GTP_U, _) | (_, GTP_U) => gtp_u(payload)?,
        _ => None,
    };
    Ok(tunnel_kind.map(|tunnel_kind| TunnelKind { at: tunnel_kind.at + HEADER_BYTES, ..tunnel_kind }))
}

fn vxlan(payload: &[u8], names_next: bool) -> Result<Option<TunnelKind>, Skip> {
    let flags = byte(payload, 0)?;
    if flags & 0x08 == 0 {
        return Ok(None);
    }
    let frame = match (names_next && flags & 0x04 != 0, byte(payload, 3)?) {
        (false, _) | (true, 3) => true,
        (true, 1 | 2) => false,
        _ => return Ok(None),
    };
    Ok(Some(TunnelKind { kind: Kind::Vxlan, at: 8, frame }))
}

fn geneve(payload: &[u8]) -> Result<Option<TunnelKind>, Skip> {
    let first = byte(payload, 0)?;
    if first >> 6 != 0 {
        return Ok(None);
    }
    let frame = match short(payload, 2)? {
        0x6558 => true,
        0x0800 | 0x86dd => false,
        _ => return Ok(None),
    };
    Ok(Some(TunnelKind { kind: Kind::Geneve, at: 8 + 4 * usize::from(first & 0x3f), frame }))
}

fn gtp_u(payload: &[u8]) -> Result<Option<TunnelKind>, Skip> {
    const G_PDU: u8 = 255;
    let flags = byte(payload, 0)?;
    // Version 1 and GTP, not GTP'.
    if flags >> 4 != 0b0011 || byte(payload, 1)? != G_PDU {
        return Ok(None);
    }
    let mut at = 8;
    if flags & 0x07 != 0 {
        // Sequence number, N-PDU number, and the type of the extension header that follows.
        at += 4;
        let mut next = if flags & 0x04 != 0 { byte(payload, 11)? } else { 0 };
        for _ in 0..MAX_GTP_EXTENSIONS {
            if next == 0 {
                break;
            }
            let length = 4 * usize::from(byte(payload, at)?);
            if length == 0 {
                return Ok(None);
            }
            next = byte(payload, at + length - 1)?;
            at += length;
        }
        if next != 0 {
            return Err(Skip::TooDeep);
        }
    }
    Ok(Some(TunnelKind { kind: Kind::GtpU, at, frame: false }))
}
