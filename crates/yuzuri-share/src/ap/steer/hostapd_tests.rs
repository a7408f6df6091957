#![allow(clippy::unwrap_used)]
use super::*;
use std::thread::JoinHandle;

/// The output of hostapd 2.10 on mac80211_hwsim.
const STATUS: &str = "state=ENABLED\nphy=phy0\nfreq=5180\nnum_sta_non_erp=0\nchannel=36\nsecondary_channel=1\nieee80211n=1\nieee80211ac=1\n\
    ieee80211ax=0\nvht_oper_chwidth=1\nvht_oper_centr_freq_seg0_idx=42\nbss[0]=wlan0\nbssid[0]=02:00:00:00:00:00\nssid[0]=net\nnum_sta[0]=2\n";
const CLASSES: &str = "80515354737475767778797a7b7c7d7e7f8081838482";
const STATION: &str = "flags=[AUTH][ASSOC][AUTHORIZED][WMM][HT][VHT]\naid=1\nsupp_op_classes=80515354737475767778797a7b7c7d7e7f8081838482\n\
    ext_capab=04004a0201404040000120\n";

/// A server of hostapd's protocol on a real socket, until it is stopped.
pub(crate) struct HostapdServer {
    path: PathBuf,
    thread: JoinHandle<Vec<String>>,
}

impl HostapdServer {
    /// Stops the server. Returns the requests received.
    pub(crate) fn end(self) -> Vec<String> {
        let name = format!("yuzuri-end-{}-{}", std::process::id(), self.path.display());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        socket.send_to(b"END", &self.path).unwrap();
        // The server answers this request as well, so the socket must exist until then.
        self.thread.join().unwrap()
    }
}

pub(crate) fn listening(path: &Path) -> HostapdServer {
    HostapdServer { path: path.to_owned(), thread: hostapd(path) }
}

/// Serves hostapd's protocol on a real socket until it is stopped; returns the requests received.
fn hostapd(path: &Path) -> JoinHandle<Vec<String>> {
    let socket = UnixDatagram::bind(path).unwrap();
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
            let text = String::from_utf8(buffer[..bytes].to_vec()).unwrap();
            let say = |text: &str| socket.send_to_addr(text.as_bytes(), &from).unwrap();
            asked.push(text.clone());
            match text.split_whitespace().collect::<Vec<_>>()[..] {
                ["ATTACH"] => say("OK\n"),
                ["STATUS"] => {
                    // An event between question and answer.
                    say("<3>AP-STA-CONNECTED 02:00:00:00:02:00");
                    say(STATUS)
                }
                ["STA-FIRST"] => say(&format!("02:00:00:00:02:00\n{STATION}")),
                ["STA-NEXT", "02:00:00:00:02:00"] => {
                    say("02:00:00:00:04:00\nflags=[AUTH]\nsupp_op_classes=5151\n")
                }
                ["STA-NEXT", _] => say("FAIL\n"),
                ["BSS_TM_REQ", station, ..] => {
                    say(&format!("<3>BSS-TM-RESP {station} status_code=7 bss_termination_delay=0"));
                    say("OK\n")
                }
                _ => {
                    say("UNKNOWN COMMAND\n");
                    return asked;
                }
            };
        }
    })
}

#[test]
fn stations_are_listed_and_asked_to_move_and_their_answers_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wlan0");
    let server = hostapd(&path);
    let mut client = Hostapd::open(&path).unwrap();
    let bss = client.bss().unwrap();
    assert_eq!(
        bss,
        Bss { bssid: StationId([2, 0, 0, 0, 0, 0]), band: Band::Ghz5, channel: 36, width: 80, is_vht: true }
    );
    let stations = client.stations().unwrap();
    let ids: Vec<u8> = stations.iter().map(|station| station.id.0[4]).collect();
    assert_eq!(ids, [2, 4]);
    assert!(stations[0].takes_requests && !stations[1].takes_requests);
    assert_eq!(stations[0].classes, bytes(CLASSES));
    // 2.4 GHz only.
    assert!(bss.can_have(&stations[0].classes) && !bss.can_have(&stations[1].classes));
    assert!(client.request_move(stations[0].id, &bss).unwrap());
    assert_eq!(client.answers().unwrap(), [(stations[0].id, 7)]);
    assert_eq!(client.answers().unwrap(), []);
    client.ask("END").unwrap();
    let asked = server.join().unwrap();
    let request = "BSS_TM_REQ 02:00:00:00:02:00 pref=1 abridged=1 valid_int=100 neighbor=02:00:00:00:00:00,0x0000,128,36,9";
    assert!(asked.iter().any(|text| text == request), "{asked:?}");
}

#[test]
fn without_hostapd_the_error_has_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wlan0");
    let error = Hostapd::open(&path).unwrap_err().to_string();
    assert!(error.contains("wlan0") && error.contains("ctrl_interface"), "{error}");
    // The server was running, and has stopped.
    let server = hostapd(&path);
    let mut client = Hostapd::open(&path).unwrap();
    client.ask("END").unwrap();
    server.join().unwrap();
    assert!(client.bss().is_err());
}

#[test]
fn malformed_hostapd_answers_are_rejected() {
    // Channel 5 of 6 GHz is not one of 2.4 GHz; a frequency of no band is no radio.
    let six = STATUS
        .replace("freq=5180", "freq=5975")
        .replace("channel=36", "channel=5")
        .replace("vht_oper", "he_oper");
    let six = six.replace("ieee80211ac=1", "ieee80211ac=0").replace("ieee80211ax=0", "ieee80211ax=1");
    let bss = read_bss(&six).unwrap();
    assert_eq!((bss.band, bss.channel, bss.width, bss.class()), (Band::Ghz6, 5, 80, 133));
    assert!(read_bss(&STATUS.replace("freq=5180", "freq=60480")).is_none());
    for text in ["", "FAIL", "bssid[0]=x\nchannel=1", "bssid[0]=02:00:00:00:00:00\nchannel=0", "channel=-1"] {
        assert_eq!(read_bss(text), None, "{text}");
    }
    for text in ["", "FAIL\n", "02:00", "\u{0}"] {
        assert_eq!(read_station(text), None, "{text}");
    }
    let odd = read_station("02:00:00:00:02:00\next_capab=zz\nsupp_op_classes=515\n").unwrap();
    assert_eq!((odd.takes_requests, odd.classes), (false, vec![0x51]));
    for text in ["BSS-TM-RESP", "BSS-TM-RESP x status_code=0", "BSS-TM-RESP 02:00:00:00:04:00", "OTHER"] {
        assert_eq!(read_answer(text), None, "{text}");
    }
}
