//! The definition of an experiment: terminals, radios, the path behind the access point, workloads,
//! and the fields to vary.
//!
//! A [`Document`] is parsed from a TOML file, validated, and expanded into [`Point`]s. The
//! laboratory runs a point with the kernel's TCP, in real or virtual time; the simulator runs it
//! with simulated TCP. Both read the same file. `docs/lab.md` describes the fields.
//!
//! ```
//! use yuzuri_scenario::Document;
//!
//! let text = r#"
//!     title = "two phones"
//!     duration_s = 10
//!     [[terminal]]
//!     name = "phone"
//!     count = 2
//!     phy = { standard = "g", rate_mbps = 54 }
//!     [sweep]
//!     "path.rtt_ms" = [10, 100]
//! "#;
//! let document = Document::parse("two.toml".as_ref(), text.to_owned())?;
//! let points = document.points()?;
//! assert_eq!(points.len(), 2);
//! assert_eq!(points[1].scenario.path.rtt_ms, 100.0);
//! # Ok::<(), yuzuri_scenario::Problems>(())
//! ```

mod access_point;
mod check;
mod cubic;
mod document;
mod expand;
mod mips;
mod path;
mod share;
mod workload;

pub use access_point::{ApForwarding, GateSpec, Qdisc, ShaperSpec};
pub use cubic::CubicSpec;
pub use document::{Document, Problem, Problems};
pub use expand::{Label, Point};
pub use mips::{Mips, MipsError};
pub use path::PathSpec;
pub use share::{BoundBy, ShareChange, ShareChoice, ShareSpec};
pub use workload::{Direction, WorkloadSpec};
pub use yuzuri_netmodel::fairness;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use yuzuri_netmodel::radio::{Band, CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::WireConfig;

/// One experiment: everything needed for a run, and in a file also the variations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The title, one line.
    pub title: String,
    /// The purpose and the expected result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// How long the terminals are active, seconds; 1 to 36,000.
    pub duration_s: f64,
    /// Time from the start that is not evaluated, seconds; default: 0.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Seed of the first repetition; it increases by 1 for each further one. Default: 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of repetitions; default: 1.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Whether each kind of terminal also runs alone, without bounds and with the congestion
    /// control that the file sets outside of variants (or CUBIC), as a reference for its share;
    /// default: false.
    #[serde(default)]
    pub alone: bool,
    /// Speed of the processor that all hosts share in virtual time, million instructions per
    /// second: 125, 250, 500, 1000, 2000, 4000 or 8000; default: 1000. Increase it if late packets
    /// make runs invalid.
    #[serde(default, skip_serializing_if = "is_one_per_ns")]
    pub processor_mips: Mips,
    /// Minimum interval between samples of a flow, ms; 0: one sample per ACK; default: 1.
    #[serde(default = "one_ms")]
    pub sample_ms: f64,
    /// Sampling interval of the queues, ms; default: 20.
    #[serde(default = "twenty_ms")]
    pub queue_ms: f64,
    /// Bytes of each packet captured at the terminals and at the server; absent: no captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture_bytes: Option<u32>,
    /// Kernel parameters for all hosts, such as `"net.ipv4.tcp_ecn" = "1"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The radio cell without its stations: fields of `yuzuri_netmodel::radio::CellConfig`.
    #[serde(default)]
    pub cell: CellSpec,
    /// A second radio cell of the same access point, on a channel that the first one does not hear:
    /// fields as in `cell`. Absent: there is one cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_cell: Option<CellSpec>,
    /// The path between access point and server.
    #[serde(default)]
    pub path: PathSpec,
    /// What forwards packets at the access point; default: `driver`.
    #[serde(default, skip_serializing_if = "ApForwarding::is_usual")]
    pub ap: ApForwarding,
    /// Sharing; absent: terminals do not share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareSpec>,
    /// Sharing by the access point on behalf of terminals without Yuzuri; absent: it does not
    /// share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSpec>,
    /// A queueing discipline before the wire; absent: the device's own, which never builds a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperSpec>,
    /// The default workload of terminals; default: bulk upload.
    #[serde(default)]
    pub workload: WorkloadSpec,
    /// The terminals, by kind.
    pub terminal: Vec<TerminalSpec>,
    /// The swept fields and their values; empty in a point.
    #[serde(default, skip_serializing)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// The named variants; empty in a point.
    #[serde(default, skip_serializing)]
    pub variant: Vec<Variant>,
}

/// A variant: a name and the values of some fields.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Fields and their values, such as `"terminal.tablet.window" = 10`.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
}

/// The cell: every field of [`CellConfig`] except the stations, which the terminals define.
pub type CellSpec = toml::Table;

/// A kind of terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSpec {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The number of such terminals; default: 1. 0 removes the kind.
    #[serde(default = "once")]
    pub count: u32,
    /// Its radio.
    pub phy: Phy,
    /// Other settings of the station: fields of `yuzuri_netmodel::radio::StationConfig`.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub station: toml::Table,
    /// Congestion control; absent: the kernel's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Whether its segments are paced, as by the queueing discipline fq; default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paced: bool,
    /// A custom congestion control, instead of `control`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cubic: Option<CubicSpec>,
    /// Whether and how it shares; absent: as in `[share]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareChoice>,
    /// Maximum congestion window of each flow, segments (a locked `cwnd` of the route).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Initial congestion window, segments (`initcwnd` of the route); absent: the kernel's (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// When it associates and starts its workload, seconds; default: 0.
    #[serde(default)]
    pub joins_s: f64,
    /// The cell in which it associates, 1 or 2; default: 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub cell: u8,
    /// Its radio in the cell to which it moves; absent: `phy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phy_there: Option<Phy>,
    /// When it moves to the other cell, seconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_s: Option<f64>,
    /// How long it is in no cell while it moves, ms; default: 80.
    #[serde(default = "eighty_ms", skip_serializing_if = "is_eighty_ms")]
    pub away_ms: f64,
    /// When it stops and leaves, seconds; absent: at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_s: Option<f64>,
    /// Its workload; absent: the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSpec>,
}

impl TerminalSpec {
    /// Its radio in the first or the second cell.
    pub fn phy_in(&self, is_second: bool) -> Phy {
        let is_elsewhere = is_second != (self.cell == 2);
        self.phy_there.filter(|_| is_elsewhere).unwrap_or(self.phy)
    }

    /// Converts it to the reference terminal that runs alone: for the whole duration, without
    /// sharing and without bounds, with the congestion control that the file sets outside of
    /// variants (`base`), or CUBIC. Settings that equal the kernel's own CUBIC are replaced by it,
    /// so that the same experiment is not run twice.
    fn free(&mut self, base: Option<&TerminalSpec>) {
        (self.share, self.window, self.joins_s, self.leaves_s) = (None, None, 0.0, None);
        self.moves_s = None;
        self.paced = base.is_some_and(|base| base.paced);
        (self.control, self.cubic) = base.map(|b| (b.control.clone(), b.cubic.clone())).unwrap_or_default();
        if let Some(cubic) = &mut self.cubic {
            (cubic.floor, cubic.cap) = (None, None);
        }
        if self.control.is_none() && self.cubic.as_ref().is_none_or(|cubic| *cubic == CubicSpec::default()) {
            (self.cubic, self.control) = (None, Some("cubic".into()));
        }
    }
}

fn one() -> u64 {
    1
}

fn once() -> u32 {
    1
}

fn is_one_per_ns(mips: &Mips) -> bool {
    *mips == Mips::ONE_PER_NS
}

fn first() -> u8 {
    1
}

fn is_first(cell: &u8) -> bool {
    *cell == first()
}

// The duration of a move on mac80211_hwsim (70 to 80 ms).
fn eighty_ms() -> f64 {
    80.0
}

fn is_eighty_ms(ms: &f64) -> bool {
    *ms == eighty_ms()
}

fn one_ms() -> f64 {
    1.0
}

fn twenty_ms() -> f64 {
    20.0
}

/// One terminal of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Terminal<'a> {
    /// Its kind.
    pub kind: &'a TerminalSpec,
    /// The index of its kind in the scenario.
    pub kind_number: usize,
    /// Its number within its kind, from 0.
    pub number: u32,
}

impl Terminal<'_> {
    /// `phone`, or `phone-1`, `phone-2`, ... if there are several of the kind.
    pub fn name(&self) -> String {
        if self.kind.count == 1 {
            self.kind.name.clone()
        } else {
            format!("{}-{}", self.kind.name, self.number + 1)
        }
    }
}

impl Scenario {
    /// Maximum number of terminals: their addresses are in one /24.
    pub const MAX_TERMINALS: u32 = 240;
    /// Maximum number of bytes captured per packet: the MTU, the Ethernet header, and one VLAN tag.
    pub const MAX_CAPTURE_BYTES: u32 = PathSpec::MAX_MTU_BYTES + 18;

    /// Formats the scenario as a file without its variations.
    ///
    /// # Errors
    /// None for a scenario parsed from a file.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The terminals, in the order of their stations.
    pub fn terminals(&self) -> impl Iterator<Item = Terminal<'_>> {
        self.terminal.iter().enumerate().flat_map(|(kind_number, kind)| {
            (0..kind.count).map(move |number| Terminal { kind, kind_number, number })
        })
    }

    /// The workload of a terminal.
    pub fn workload_of<'a>(&'a self, terminal: &'a TerminalSpec) -> &'a WorkloadSpec {
        terminal.workload.as_ref().unwrap_or(&self.workload)
    }

    /// When a terminal leaves, seconds.
    pub fn leaves_s(&self, terminal: &TerminalSpec) -> f64 {
        terminal.leaves_s.unwrap_or(self.duration_s)
    }

    /// Whether a terminal is in the second cell at a time, or on its way there.
    pub fn is_in_second_cell(&self, kind: &TerminalSpec, at_s: f64) -> bool {
        (kind.cell == 2) != kind.moves_s.is_some_and(|moves_s| at_s >= moves_s)
    }

    /// The configuration of the second cell's radio model, if there is one. As in the first one,
    /// each terminal is a station, whether it ever goes there or not.
    ///
    /// # Errors
    /// As for the first one.
    pub fn second_cell_config(&self) -> Result<Option<CellConfig>, Problem> {
        let Some(table) = &self.second_cell else { return Ok(None) };
        self.config_of("second_cell", table, true).map(Some)
    }

    /// The configuration of the radio model.
    ///
    /// # Errors
    /// If `cell` or a terminal's `station` has fields that the model does not know, or a value of
    /// the wrong type.
    pub fn cell_config(&self) -> Result<CellConfig, Problem> {
        self.config_of("cell", &self.cell, false)
    }

    fn config_of(&self, field: &str, cell: &CellSpec, is_second: bool) -> Result<CellConfig, Problem> {
        let mut stations = Vec::new();
        for terminal in self.terminals() {
            let mut table = terminal.kind.station.clone();
            let phy = toml::Value::try_from(terminal.kind.phy_in(is_second)).map_err(|e| {
                Problem::new(format!("terminal[{}].phy", terminal.kind_number), e.to_string())
            })?;
            table.insert("phy".into(), phy);
            let station: StationConfig = table.try_into().map_err(|e: toml::de::Error| {
                Problem::new(format!("terminal[{}].station", terminal.kind_number), e.message())
            })?;
            stations.push(station);
        }
        let stations =
            toml::Value::try_from(&stations).map_err(|e| Problem::new("terminal", e.to_string()))?;
        let mut table = cell.clone();
        if table.insert("stations".into(), stations).is_some() {
            return Err(Problem::new(format!("{field}.stations"), "stations are made from [[terminal]]"));
        }
        let only_g = self.terminals().all(|terminal| !terminal.kind.phy_in(is_second).is_qos());
        if only_g && !table.contains_key("band") {
            // As in `CellConfig::new`: 802.11g operates at 2.4 GHz.
            let band = toml::Value::try_from(Band::Ghz2)
                .map_err(|e| Problem::new(format!("{field}.band"), e.to_string()))?;
            table.insert("band".into(), band);
        }
        table.try_into().map_err(|e: toml::de::Error| Problem::new(field, e.message()))
    }

    /// The configuration of the wire model.
    pub fn wire_config(&self) -> WireConfig {
        self.path.wire_config()
    }
}
