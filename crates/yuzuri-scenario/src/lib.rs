//! What an experiment is: terminals, radios, the path behind the access point, what the terminals do, and which
//! fields vary.
//!
//! A [`Document`] is read from a TOML file, checked, and expanded into [`Point`]s. The laboratory runs a point with
//! the kernel's TCP, in real or virtual time, and the simulator runs it with simulated TCP: all of them read the same
//! file. `docs/lab.md` describes the fields.
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

mod check;
mod cubic;
mod document;
mod expand;
pub mod fairness;
mod mips;
mod path;
mod share;
mod workload;

pub use cubic::CubicSpec;
pub use document::{Document, Problem, Problems};
pub use expand::{Label, Point};
pub use mips::Mips;
pub use path::PathSpec;
pub use share::{BoundBy, ShareChange, ShareChoice, ShareSpec};
pub use workload::{Direction, WorkloadSpec};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use yuzuri_netmodel::radio::{Band, CellConfig, Phy, StationConfig};
use yuzuri_netmodel::wire::WireConfig;

/// One experiment: what a run needs, and in a file what is varied of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// In one line.
    pub title: String,
    /// What it is for and what to expect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// How long the terminals work, seconds; 1 to 36,000.
    pub duration_s: f64,
    /// How much of that, from the start, does not count; 0.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Seed of the first repetition; each further one takes the next number. 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often it is repeated; 1.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Whether each kind of terminal also runs alone, without a bound and under the control that stands outside of variants (or CUBIC), so that
    /// shares can be weighed; false.
    #[serde(default)]
    pub alone: bool,
    /// How fast the processor is that all hosts share in virtual time, million instructions per second: 125 to 8000, 1000 halved or doubled; 1000. More for what
    /// late packets make invalid.
    #[serde(default, skip_serializing_if = "is_one_per_ns")]
    pub processor_mips: Mips,
    /// Least distance of two samples of a flow, milliseconds; 0 for each ACK; 1.
    #[serde(default = "one_ms")]
    pub sample_ms: f64,
    /// Distance of the samples of the queues, milliseconds; 20.
    #[serde(default = "twenty_ms")]
    pub queue_ms: f64,
    /// So many bytes of each packet are kept in captures at the terminals and at the server; no captures where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture_bytes: Option<u32>,
    /// Kernel parameters on all hosts, such as `"net.ipv4.tcp_ecn" = "1"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The radio cell without its stations: fields of `yuzuri_netmodel::radio::CellConfig`.
    #[serde(default)]
    pub cell: CellSpec,
    /// The path between access point and server.
    #[serde(default)]
    pub path: PathSpec,
    /// How the terminals share; they do not where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareSpec>,
    /// What terminals do that say nothing of their own; bulk upload.
    #[serde(default)]
    pub workload: WorkloadSpec,
    /// The terminals, by kind.
    pub terminal: Vec<TerminalSpec>,
    /// What a file varies: fields and their values. Empty in a point.
    #[serde(default, skip_serializing)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Named alternatives that a file has. Empty in a point.
    #[serde(default, skip_serializing)]
    pub variant: Vec<Variant>,
}

/// A named alternative: values of some fields.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Fields and their values, such as `"terminal.tablet.window" = 10`.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
}

/// The cell: everything of [`CellConfig`] but the stations, which the terminals make.
pub type CellSpec = toml::Table;

/// A kind of terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSpec {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// How many there are; 1. 0 takes the kind out.
    #[serde(default = "once")]
    pub count: u32,
    /// Its radio.
    pub phy: Phy,
    /// Other settings of the station: fields of `yuzuri_netmodel::radio::StationConfig`.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub station: toml::Table,
    /// Congestion control; the kernel's default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Whether its segments leave spread over the round trip, as behind the queueing discipline fq; false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paced: bool,
    /// A congestion control of its own, instead of `control`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cubic: Option<CubicSpec>,
    /// Whether and how it shares; as `[share]` says where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareChoice>,
    /// Upper bound of each flow's congestion window, segments (a locked `cwnd` of the route).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Initial congestion window, segments (`initcwnd` of the route); the kernel's (10) where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// When it associates and begins to work, seconds; 0.
    #[serde(default)]
    pub joins_s: f64,
    /// When it stops working and leaves, seconds; at the end where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_s: Option<f64>,
    /// What it does; the scenario's workload where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSpec>,
}

impl TerminalSpec {
    /// Makes it what runs alone: from beginning to end, without sharing and without bounds, under the control that the file gives it outside of
    /// variants (`base`), or CUBIC. A algorithm that then is the kernel's own CUBIC becomes that, so that the same experiment is not run twice.
    fn free(&mut self, base: Option<&TerminalSpec>) {
        (self.share, self.window, self.joins_s, self.leaves_s) = (None, None, 0.0, None);
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

fn one_ms() -> f64 {
    1.0
}

fn twenty_ms() -> f64 {
    20.0
}

/// A single terminal of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Terminal<'a> {
    /// Its kind.
    pub kind: &'a TerminalSpec,
    /// Place of its kind in the scenario.
    pub kind_number: usize,
    /// Its number among its kind, from 0.
    pub number: u32,
}

impl Terminal<'_> {
    /// `phone`, or `phone-1`, `phone-2`, ... where there are more of the kind.
    pub fn name(&self) -> String {
        if self.kind.count == 1 {
            self.kind.name.clone()
        } else {
            format!("{}-{}", self.kind.name, self.number + 1)
        }
    }
}

impl Scenario {
    /// Most terminals: their addresses are one /24.
    pub const MAX_TERMINALS: u32 = 240;
    /// Most bytes of a packet that a capture keeps: the MTU, the Ethernet header, and room for one VLAN tag.
    pub const MAX_CAPTURE_BYTES: u32 = PathSpec::MAX_MTU_BYTES + 18;

    /// As a file that says the same, without what is varied.
    ///
    /// # Errors
    /// None for a scenario that was read from a file.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The single terminals, in the order of their stations.
    pub fn terminals(&self) -> impl Iterator<Item = Terminal<'_>> {
        self.terminal.iter().enumerate().flat_map(|(kind_number, kind)| {
            (0..kind.count).map(move |number| Terminal { kind, kind_number, number })
        })
    }

    /// What a terminal does.
    pub fn workload_of<'a>(&'a self, terminal: &'a TerminalSpec) -> &'a WorkloadSpec {
        terminal.workload.as_ref().unwrap_or(&self.workload)
    }

    /// When a terminal leaves, seconds.
    pub fn leaves_s(&self, terminal: &TerminalSpec) -> f64 {
        terminal.leaves_s.unwrap_or(self.duration_s)
    }

    /// The radio model's configuration.
    ///
    /// # Errors
    /// Where `cell` or a terminal's `station` have fields that the model does not know, or of another type.
    pub fn cell_config(&self) -> Result<CellConfig, Problem> {
        let mut stations = Vec::new();
        for terminal in self.terminals() {
            let mut table = terminal.kind.station.clone();
            let phy = toml::Value::try_from(terminal.kind.phy).map_err(|e| {
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
        let mut table = self.cell.clone();
        if table.insert("stations".into(), stations).is_some() {
            return Err(Problem::new("cell.stations", "stations are made from [[terminal]]"));
        }
        let only_g = self.terminals().all(|terminal| !terminal.kind.phy.is_qos());
        if only_g && !table.contains_key("band") {
            // As `CellConfig::new` has it: 802.11g is at home in 2.4 GHz.
            let band =
                toml::Value::try_from(Band::Ghz2).map_err(|e| Problem::new("cell.band", e.to_string()))?;
            table.insert("band".into(), band);
        }
        table.try_into().map_err(|e: toml::de::Error| Problem::new("cell", e.message()))
    }

    /// The wire model's configuration.
    pub fn wire_config(&self) -> WireConfig {
        self.path.wire_config()
    }
}
