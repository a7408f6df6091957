//! For the fuzzer: two radios whose hostapd answers anything, on real sockets.

use super::super::rules::StationId;
use super::{Sending, Steerer, SteeringStatus};
use crate::RadioConfig;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use yuzuri_policy::Aggregation;

/// Separates datagrams in the fuzzer's input. It occurs in no UTF-8 text.
const SEPARATOR: u8 = 0xff;
/// The times of the ticks: a set of stations settles, one is asked to move, its move is evaluated
/// and undone.
const TICKS_AT_S: [u64; 6] = [0, 25, 30, 90, 400, 800];

/// The answers of all radios in one tick, in order, and the requests.
#[derive(Debug, Default)]
struct Script {
    datagrams: VecDeque<Vec<u8>>,
    /// The first command that hostapd does not have.
    unknown: Option<String>,
    /// Requests to move to another radio.
    requests: u64,
}

/// Whether hostapd has such a command. An answer must not be able to inject another one into a
/// request.
fn is_known(question: &str) -> bool {
    let is_station = |text: &str| text.parse::<StationId>().is_ok_and(|id| id.to_string() == text);
    match question.split(' ').collect::<Vec<_>>()[..] {
        ["ATTACH" | "STATUS" | "STA-FIRST"] => true,
        ["STA-NEXT", station] => is_station(station),
        ["BSS_TM_REQ", station, "pref=1", "abridged=1", "valid_int=100", neighbor] => {
            let fields = neighbor.strip_prefix("neighbor=").map(|text| text.split(',').collect::<Vec<_>>());
            let is_number = |text: &str| text.parse::<u8>().is_ok_and(|number| number > 0);
            is_station(station)
                && matches!(fields.as_deref(), Some([bssid, "0x0000", class, channel, "7" | "9" | "14"])
                    if is_station(bssid) && is_number(class) && is_number(channel))
        }
        _ => false,
    }
}

/// Answers requests at a socket according to the script. It answers every request, because timeouts
/// are not under test.
fn serve(socket: &UnixDatagram, script: &Mutex<Script>) {
    let mut buffer = [0; 4096];
    while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
        let question = String::from_utf8_lossy(&buffer[..bytes]);
        let mut script = script.lock();
        if !is_known(&question) && script.unknown.is_none() {
            script.unknown = Some(question.clone().into_owned());
        }
        script.requests += u64::from(question.starts_with("BSS_TM_REQ"));
        // The requester may be gone.
        let say = |text: &[u8]| drop(socket.send_to_addr(text, &from));
        if question == "ATTACH" {
            say(b"OK\n");
            continue;
        }
        loop {
            let datagram = script.datagrams.pop_front().unwrap_or_else(|| b"FAIL\n".to_vec());
            say(&datagram);
            // As the reader sees it: events precede the answer.
            let text = String::from_utf8_lossy(&datagram[..datagram.len().min(4096)]).into_owned();
            if !(text.starts_with('<') && text.contains('>')) {
                break;
            }
        }
    }
}

struct Radios {
    sockets: Vec<PathBuf>,
    script: Arc<Mutex<Script>>,
}

impl Radios {
    fn open() -> Radios {
        let script = Arc::new(Mutex::new(Script::default()));
        let thread = format!("{}-{:?}", std::process::id(), std::thread::current().id());
        let thread: String = thread.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let sockets = (0..2).map(|radio| {
            let path = std::env::temp_dir().join(format!("yuzuri-fuzz-hostapd-{thread}-{radio}"));
            let _ = std::fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path).expect("a socket in the temporary folder");
            let script = Arc::clone(&script);
            std::thread::spawn(move || serve(&socket, &script));
            path
        });
        Radios { sockets: sockets.collect(), script }
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        self.sockets.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Plays the datagrams in `bytes` (separated by 0xff) as the answers of two radios' hostapd, from
/// the start in each of six ticks. Returns the steering's counters.
pub fn fuzz_hostapd(bytes: &[u8]) -> SteeringStatus {
    thread_local! {
        static RADIOS: Radios = Radios::open();
    }
    let radio = RadioConfig { rate_mbps: 390.0, aggregation: Aggregation::Vht };
    let station = |n: u8| Sending {
        id: StationId([2, 0, 0, 0, 0, n]),
        rate_bps: 1e6 * f64::from(n),
        radio: Some(radio).filter(|_| n < 4),
    };
    let sending: Vec<Sending> = (1..=4).map(station).collect();
    RADIOS.with(|radios| {
        radios.script.lock().requests = 0;
        let mut steerer = Steerer::new(&radios.sockets);
        for seconds in TICKS_AT_S {
            let datagrams = bytes.split(|byte| *byte == SEPARATOR).map(<[u8]>::to_vec);
            radios.script.lock().datagrams = datagrams.collect();
            // An error is a valid result as well.
            let _ = steerer.tick(Duration::from_secs(seconds), true, &sending);
        }
        let script = radios.script.lock();
        assert_eq!(script.unknown, None, "hostapd knows every question");
        let status = steerer.status;
        assert!(status.asked <= script.requests && status.undone <= status.asked, "{status:?}");
        status
    })
}
