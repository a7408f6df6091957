//! The endpoints of a traffic process, as passed on its command line.

use anyhow::Context;
use clap::Args;
use socket2::Socket;
use std::net::IpAddr;
use yuzuri_testnet::{Net, Side};

/// The kernel's own congestion control.
pub const CUBIC: &str = "cubic";
/// Value that leaves a connection with the kernel's default algorithm.
pub const DEFAULT_CCA: &str = "none";

/// Where connections begin and end.
#[derive(Debug, Clone, Args)]
pub struct Endpoints {
    /// Namespace of the connecting side
    #[arg(long)]
    pub from: String,
    /// Namespace of the accepting side
    #[arg(long)]
    pub into: String,
    /// Address of the accepting side
    #[arg(long)]
    pub to: IpAddr,
    /// CPU of all threads
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Congestion control of all connections: the machine's default may pace, and pacing is driven
    /// by timers instead of ACKs. `none`: the process does not select one
    #[arg(long, default_value = CUBIC)]
    pub control: String,
}

impl Endpoints {
    /// From side A of a path to the IPv4 address of side B, with CUBIC, on any CPU.
    pub fn of(net: &Net) -> Endpoints {
        Endpoints {
            from: net.name(Side::A).to_owned(),
            into: net.name(Side::B).to_owned(),
            to: net.v4(Side::B),
            cpu: None,
            control: CUBIC.to_owned(),
        }
    }

    /// The same on one CPU.
    pub fn on_cpu(self, cpu: usize) -> Endpoints {
        Endpoints { cpu: Some(cpu), ..self }
    }

    /// The same with another algorithm.
    pub fn with_control(self, control: &str) -> Endpoints {
        Endpoints { control: control.to_owned(), ..self }
    }

    /// Selects the socket's algorithm, unless `control` is `none`.
    pub fn set_congestion_control(&self, socket: &Socket) -> anyhow::Result<()> {
        if self.control == DEFAULT_CCA {
            return Ok(());
        }
        let result = socket.set_tcp_congestion(self.control.as_bytes());
        result.with_context(|| format!("selecting the congestion control {}", self.control))
    }

    /// The command-line arguments for these endpoints.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "--from".to_owned(),
            self.from.clone(),
            "--into".to_owned(),
            self.into.clone(),
            "--to".to_owned(),
            self.to.to_string(),
            "--control".to_owned(),
            self.control.clone(),
        ];
        if let Some(cpu) = self.cpu {
            args.extend(["--cpu".to_owned(), cpu.to_string()]);
        }
        args
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Parsed {
        #[command(flatten)]
        ends: Endpoints,
    }

    #[test]
    fn the_arguments_round_trip() {
        let ends = Endpoints {
            from: "a".into(),
            into: "b".into(),
            to: "fd77::2".parse().unwrap(),
            cpu: None,
            control: CUBIC.into(),
        };
        for ends in [ends.clone(), ends.on_cpu(1).with_control(DEFAULT_CCA)] {
            let args = std::iter::once("program".to_owned()).chain(ends.to_args());
            let parsed = Parsed::try_parse_from(args).unwrap().ends;
            assert_eq!(format!("{parsed:?}"), format!("{ends:?}"));
        }
    }
}
