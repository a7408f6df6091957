//! hostapd's control socket: lists the stations on a radio, and asks a station to move to another
//! one (802.11v).

use super::super::rules::StationId;
use std::collections::VecDeque;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// hostapd answers immediately, or not at all.
const ANSWERS_WITHIN: Duration = Duration::from_millis(300);
/// hostapd's own limit for an answer, bytes.
const MAX_ANSWER: usize = 4096;
/// The maximum number of stations on one radio in hostapd (`max_num_sta`).
const MAX_STATIONS: usize = 2007;
/// Maximum number of queued events; more are discarded.
const MAX_EVENTS: usize = 256;

/// A radio as hostapd describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bss {
    pub(crate) bssid: StationId,
    pub(crate) band: Band,
    pub(crate) channel: u8,
    /// MHz.
    pub(crate) width: u16,
    /// 802.11ac or later.
    pub(crate) is_vht: bool,
}

/// Channel numbers repeat: channel 1 is one of 2.4 GHz and one of 6 GHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Band {
    Ghz2,
    Ghz5,
    Ghz6,
}

impl Band {
    /// The band of a channel's frequency, MHz (IEEE 802.11-2020, annex E; 802.11ax, 27.3.23).
    fn of_frequency(mhz: i32) -> Option<Band> {
        match mhz {
            2400..=2500 => Some(Band::Ghz2),
            4900..=5925 => Some(Band::Ghz5),
            5926..=7125 => Some(Band::Ghz6),
            _ => None,
        }
    }
}

/// A station on a radio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RadioStation {
    pub(crate) id: StationId,
    /// It supports BSS transition requests (extended capabilities, bit 19).
    pub(crate) takes_requests: bool,
    /// The operating classes that it can use (IEEE 802.11-2020, annex E).
    pub(crate) classes: Vec<u8>,
}

/// A radio's control socket.
#[derive(Debug)]
pub(crate) struct Hostapd {
    path: PathBuf,
    socket: UnixDatagram,
    events: VecDeque<String>,
}

fn failed(path: &Path, what: &str, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "{what} at hostapd's socket {}: {why} (is hostapd running, with a ctrl_interface and \
         ctrl_interface_group that this user may use?)",
        path.display()
    ))
}

impl Hostapd {
    /// Connects, and subscribes to events.
    pub(crate) fn open(path: &Path) -> io::Result<Hostapd> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // hostapd answers to the sender's address; an abstract one leaves no file behind.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("yuzuri-ap-{}-{number}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        socket.connect(path).map_err(|e| failed(path, "connecting", e))?;
        let mut hostapd = Hostapd { path: path.to_owned(), socket, events: VecDeque::new() };
        match hostapd.ask("ATTACH")?.trim() {
            "OK" => Ok(hostapd),
            other => Err(failed(path, "asking for events", format!("it says '{}'", other.escape_debug()))),
        }
    }

    /// Sends a command and waits for the answer. Events that arrive meanwhile are queued.
    fn ask(&mut self, command: &str) -> io::Result<String> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_write_timeout(Some(ANSWERS_WITHIN))?;
        self.socket
            .send(command.as_bytes())
            .map_err(|e| failed(&self.path, &format!("sending {command}"), e))?;
        let until = Instant::now() + ANSWERS_WITHIN;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left))?;
            let text = self.receive().map_err(|e| failed(&self.path, &format!("asking {command}"), e))?;
            if !self.queue_event(&text) {
                return Ok(text);
            }
            if Instant::now() >= until {
                return Err(failed(&self.path, &format!("asking {command}"), "there are only events"));
            }
        }
    }

    fn receive(&self) -> io::Result<String> {
        let mut buffer = [0; MAX_ANSWER];
        let bytes = self.socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
    }

    /// Events begin with their priority: `<3>BSS-TM-RESP ...`.
    fn queue_event(&mut self, text: &str) -> bool {
        let Some((_, event)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) else {
            return false;
        };
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event.to_owned());
        }
        true
    }

    /// The radio.
    pub(crate) fn bss(&mut self) -> io::Result<Bss> {
        let answer = self.ask("STATUS")?;
        let known = read_bss(&answer);
        known.ok_or_else(|| failed(&self.path, "asking STATUS", "the answer has no bssid[0] and channel"))
    }

    /// The stations on the radio.
    pub(crate) fn stations(&mut self) -> io::Result<Vec<RadioStation>> {
        let mut stations: Vec<RadioStation> = Vec::new();
        let mut answer = self.ask("STA-FIRST")?;
        // The answer after the last station is empty, or FAIL.
        while let Some(station) = read_station(&answer) {
            let (id, seen) = (station.id, stations.iter().any(|before| before.id == station.id));
            if seen || stations.len() == MAX_STATIONS {
                break;
            }
            stations.push(station);
            answer = self.ask(&format!("STA-NEXT {id}"))?;
        }
        Ok(stations)
    }

    /// Asks a station to move to another radio. Returns whether hostapd sent the request.
    pub(crate) fn request_move(&mut self, station: StationId, to: &Bss) -> io::Result<bool> {
        // dot11PHYType: HE, VHT, HT.
        let phy = match to.band {
            Band::Ghz6 => 14,
            _ if to.is_vht => 9,
            _ => 7,
        };
        let (bssid, class, channel) = (to.bssid, to.class(), to.channel);
        let command = format!(
            "BSS_TM_REQ {station} pref=1 abridged=1 valid_int=100 neighbor={bssid},0x0000,{class},{channel},{phy}"
        );
        Ok(self.ask(&command)?.trim() == "OK")
    }

    /// The stations' answers since the last call, with their status.
    pub(crate) fn answers(&mut self) -> io::Result<Vec<(StationId, u8)>> {
        self.socket.set_nonblocking(true)?;
        loop {
            match self.receive() {
                Ok(text) => drop(self.queue_event(&text)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(failed(&self.path, "reading events", e)),
            }
        }
        Ok(self.events.drain(..).filter_map(|event| read_answer(&event)).collect())
    }
}

impl Bss {
    /// Its operating class (IEEE 802.11-2020, table E-4; 802.11ax for 6 GHz).
    pub(crate) fn class(&self) -> u8 {
        match (self.band, self.channel, self.width) {
            (Band::Ghz2, 14, _) => 82,
            (Band::Ghz2, ..) => 81,
            (Band::Ghz6, _, 20) => 131,
            (Band::Ghz6, _, 40) => 132,
            (Band::Ghz6, _, 80) => 133,
            (Band::Ghz6, ..) => 134,
            (Band::Ghz5, _, 80) => 128,
            (Band::Ghz5, _, 160) => 129,
            (Band::Ghz5, 36..=48, 40) => 116,
            (Band::Ghz5, 52..=64, 40) => 119,
            (Band::Ghz5, 100..=144, 40) => 122,
            (Band::Ghz5, _, 40) => 126,
            (Band::Ghz5, 36..=48, _) => 115,
            (Band::Ghz5, 52..=64, _) => 118,
            (Band::Ghz5, 100..=144, _) => 121,
            (Band::Ghz5, ..) => 125,
        }
    }

    /// Whether a station with these operating classes can use the radio: the band decides, at any
    /// width.
    pub(crate) fn can_have(&self, classes: &[u8]) -> bool {
        classes.iter().any(|class| match self.band {
            Band::Ghz2 => matches!(class, 81..=84),
            Band::Ghz5 => matches!(class, 115..=130),
            Band::Ghz6 => matches!(class, 131..=137),
        })
    }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::trim)
}

fn read_bss(status: &str) -> Option<Bss> {
    let number = |key: &str| value(status, key)?.parse::<i32>().ok();
    let is_vht = number("ieee80211ac") == Some(1) || number("ieee80211ax") == Some(1);
    let channel = u8::try_from(number("channel")?).ok().filter(|channel| *channel > 0)?;
    let by_channel = if channel <= 14 { Band::Ghz2 } else { Band::Ghz5 };
    let band = number("freq").map_or(Some(by_channel), Band::of_frequency)?;
    // There is no 802.11ac at 6 GHz.
    let width = number("he_oper_chwidth").or_else(|| number("vht_oper_chwidth"));
    let width = match width.filter(|_| is_vht) {
        Some(1) => 80,
        Some(2 | 3) => 160,
        _ if number("secondary_channel").is_some_and(|offset| offset != 0) => 40,
        _ => 20,
    };
    Some(Bss { bssid: value(status, "bssid[0]")?.parse().ok()?, band, channel, width, is_vht })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map_while(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn read_station(answer: &str) -> Option<RadioStation> {
    let id = answer.lines().next()?.trim().parse().ok()?;
    let capabilities = value(answer, "ext_capab").map(bytes).unwrap_or_default();
    Some(RadioStation {
        id,
        takes_requests: capabilities.get(2).is_some_and(|byte| byte & 1 << 3 != 0),
        // The first byte is the class in use.
        classes: value(answer, "supp_op_classes").map(bytes).unwrap_or_default(),
    })
}

/// `BSS-TM-RESP 02:00:00:00:04:00 status_code=7 bss_termination_delay=0`.
fn read_answer(event: &str) -> Option<(StationId, u8)> {
    let mut words = event.strip_prefix("BSS-TM-RESP ")?.split_whitespace();
    let id = words.next()?.parse().ok()?;
    let status = words.find_map(|word| word.strip_prefix("status_code="))?.parse().ok()?;
    Some((id, status))
}

#[cfg(test)]
#[path = "hostapd_tests.rs"]
mod tests;
#[cfg(test)]
pub(super) use tests::listening;
