//! Invalid configurations are rejected with field, value and allowed values.

use yuzuri_netmodel::queue::{CodelConfig, FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{Access, Band, Cell, CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::{LineConfig, LossConfig, Wire, WireConfig};
use yuzuri_netmodel::{ConfigError, Packet};

#[derive(Clone, Debug)]
struct NoPacket;
impl Packet for NoPacket {
    fn bytes(&self) -> u32 {
        0
    }
    fn flow(&self) -> u64 {
        0
    }
}

fn cell_error(change: impl FnOnce(&mut CellConfig)) -> String {
    let mut config = CellConfig::new(vec![StationConfig::new(Phy::ac(80, 1, 9)); 3]);
    change(&mut config);
    let refused: Result<Cell<NoPacket>, ConfigError> = Cell::new(&config, 1);
    refused.expect_err("refused").to_string()
}

fn phy_error(phy: Phy) -> String {
    cell_error(|config| config.stations[2].phy = phy)
}

#[test]
fn nonexistent_rates_are_refused() {
    let field = "stations[2].phy";
    assert_eq!(
        phy_error(Phy::g(33)),
        format!("{field}.rate_mbps is 33: allowed are 6, 9, 12, 18, 24, 36, 48, 54")
    );
    assert_eq!(phy_error(Phy::n(80, 1, 7)), format!("{field}.width_mhz is 80: allowed are 20, 40"));
    assert_eq!(phy_error(Phy::n(20, 5, 7)), format!("{field}.streams is 5: allowed are 1 to 4"));
    assert_eq!(phy_error(Phy::n(20, 0, 7)), format!("{field}.streams is 0: allowed are 1 to 4"));
    assert_eq!(phy_error(Phy::n(20, 1, 8)), format!("{field}.mcs is 8: allowed are 0 to 7"));
    assert_eq!(phy_error(Phy::ac(80, 1, 10)), format!("{field}.mcs is 10: allowed are 0 to 9"));
    assert_eq!(
        phy_error(Phy::ac(20, 1, 9)),
        format!("{field}.mcs is 9: 802.11ac has no MCS 9 at 20 MHz with 1 streams (21.5)")
    );
    assert_eq!(phy_error(Phy::ax(80, 1, 12)), format!("{field}.mcs is 12: allowed are 0 to 11"));
    assert_eq!(phy_error(Phy::ax(0, 1, 11)), format!("{field}.width_mhz is 0: allowed are 20, 40, 80, 160"));
    let guard = Phy::Ax { width_mhz: 20, streams: 1, mcs: 0, guard_ns: 400 };
    assert_eq!(phy_error(guard), format!("{field}.guard_ns is 400: allowed are 800, 1600, 3200"));
    assert_eq!(
        cell_error(|config| config.band = Band::Ghz2),
        "stations[0].phy.standard is ac: 802.11ac is for 5 GHz only; allowed are g, n, ax"
    );
}

#[test]
fn inconsistent_cells_are_refused() {
    assert_eq!(cell_error(|config| config.retry_limit = 0), "retry_limit is 0: allowed are 1 to 255");
    assert_eq!(cell_error(|config| config.ampdu.mpdus = 0), "ampdu.mpdus is 0: allowed are 1 to 256");
    assert_eq!(cell_error(|config| config.ampdu.window = 300), "ampdu.window is 300: allowed are 1 to 256");
    assert_eq!(
        cell_error(|config| config.ampdu.duration_us = 6000),
        "ampdu.duration_us is 6000: allowed are 100 to 5484"
    );
    assert_eq!(
        cell_error(|config| config.stations[1].mpdu_error_rate = -0.1),
        "stations[1].mpdu_error_rate is -0.1: allowed are 0 to 1"
    );
    assert_eq!(
        cell_error(|config| config.stations[1].mpdu_error_rate = f64::NAN),
        "stations[1].mpdu_error_rate is NaN: allowed are 0 to 1"
    );
    assert_eq!(
        cell_error(|config| config.stations[0].access = Some(Access { cw_min: 16, ..Access::DCF })),
        "stations[0].access.cw_min is 16: allowed are 0, 1, 3, 7, 15 ... 32767 (10.23.2.2)"
    );
    assert_eq!(
        cell_error(|config| config.ap.access = Some(Access { aifsn: 3, cw_min: 31, cw_max: 15 })),
        "ap.access.cw_max is 15: allowed are 31 to 32767"
    );
    assert_eq!(
        cell_error(|config| config.ap.airtime_fairness = true),
        "ap.airtime_fairness is true: airtime fairness needs a queue per station: allowed with ap.queue.kind fq_codel only"
    );
    assert_eq!(
        cell_error(|config| config.group_rate_mbps = 54),
        "group_rate_mbps is 54: allowed are the basic rates, [6, 12, 24]"
    );
    assert_eq!(
        cell_error(|config| config.basic_rates_mbps = vec![6, 11]),
        "basic_rates_mbps is 11: allowed are [6, 9, 12, 18, 24, 36, 48, 54]"
    );
    assert_eq!(
        cell_error(|config| config.basic_rates_mbps = vec![]),
        "basic_rates_mbps is []: 6 must be among them: all stations can receive it"
    );
    assert_eq!(
        cell_error(|config| config.ap.queue = QueueConfig::drop_tail(0)),
        "ap.queue.packets is 0: allowed are 1 to 100000000"
    );
    assert_eq!(
        cell_error(|config| config.ap.queue = QueueConfig::DropTail { packets: None, bytes: None }),
        "ap.queue.packets is absent: a drop-tail queue needs packets, bytes or both"
    );
    let fq = FqCodelConfig { quantum_bytes: 0, ..FqCodelConfig::default() };
    assert_eq!(
        cell_error(|config| config.stations[0].queue = QueueConfig::FqCodel(fq)),
        "stations[0].queue.quantum_bytes is 0: allowed are 1 to 1048576"
    );
    assert_eq!(
        cell_error(|config| config.stations = vec![StationConfig::new(Phy::g(54)); 2008]),
        "stations is 2008: allowed are 0 to 2007"
    );
}

#[test]
fn inconsistent_wires_are_refused() {
    let error = |up: LineConfig| {
        let config = WireConfig { up, ..WireConfig::default() };
        let refused: Result<Wire<NoPacket>, ConfigError> = Wire::new(&config, 1);
        refused.expect_err("refused").to_string()
    };
    let line = LineConfig::default;
    assert_eq!(
        error(LineConfig { rate_bps: Some(0), ..line() }),
        "up.rate_bps is 0: allowed are 1000 to 1000000000000"
    );
    assert_eq!(
        error(LineConfig { delay_us: 100_000_001, ..line() }),
        "up.delay_us is 100000001: allowed are 0 to 100000000"
    );
    assert_eq!(
        error(LineConfig { loss: LossConfig::Random { probability: 1.5 }, ..line() }),
        "up.loss.probability is 1.5: allowed are 0 to 1"
    );
    let codel = QueueConfig::Codel(CodelConfig { target_us: 0, ..CodelConfig::default() });
    assert_eq!(
        error(LineConfig { queue: codel, ..line() }),
        "up.queue.target_us is 0: allowed are 1 to 10000000"
    );
}

#[test]
fn text_with_unknown_or_impossible_fields_is_refused() {
    let cell = |text: &str| serde_json::from_str::<CellConfig>(text).map_err(|error| error.to_string());
    let good = r#"{"stations": [{"phy": {"standard": "ac", "width_mhz": 80, "streams": 1, "mcs": 9}}],
        "ap": {"queue": {"kind": "fq_codel", "packets": 8192}, "airtime_fairness": true}}"#;
    assert_eq!(cell(good).expect("valid").stations[0].phy, Phy::ac(80, 1, 9));
    let unknown = cell(r#"{"stations": [], "retries": 7}"#).expect_err("unknown");
    assert!(unknown.contains("unknown field `retries`"), "{unknown}");
    let unknown = cell(r#"{"stations": [{"phy": {"standard": "g", "rate_mbps": 54, "mcs": 1}}]}"#)
        .expect_err("unknown");
    assert!(unknown.contains("unknown field `mcs`"), "{unknown}");
    let negative = cell(r#"{"stations": [], "retry_limit": -1}"#).expect_err("negative");
    assert!(negative.contains("-1"), "{negative}");
    let queue =
        cell(r#"{"stations": [], "ap": {"queue": {"kind": "codel", "depth": 3}}}"#).expect_err("unknown");
    assert!(queue.contains("depth"), "{queue}");
}
