//! The endpoints of a traffic process, as passed on its command line.

use anyhow::Context;
use clap::Args;
use socket2::Socket;
use std::net::IpAddr;
use yuzuri_testnet::{Net, Side};

/// The kernel's own congestion control.
pub const CUBIC: &str = "cubic";
/// Value that leaves a connection with the kernel's default algorithm.
pub const NOT_CHOSEN: &str = "none";

/// Where connections begin and end.
#[derive(Debug, Clone, Args)]
pub struct Ends {
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

impl Ends {
    /// From side A of a path to the IPv4 address of side B, with CUBIC, on any CPU.
    pub fn of(net: &Net) -> Ends {
        Ends {
            from: net.name(Side::A).to_owned(),
            into: net.name(Side::B).to_owned(),
            to: net.v4(Side::B),
            cpu: None,
            control: CUBIC.to_owned(),
        }
    }

    /// The same on one CPU.
    pub fn on_cpu(self, cpu: usize) -> Ends {
        Ends { cpu: Some(cpu), ..self }
    }

    /// The same with another algorithm.
    pub fn under(self, control: &str) -> Ends {
        Ends { control: control.to_owned(), ..self }
    }

    /// Selects the socket's algorithm, unless `control` is `none`.
    pub fn choose_control(&self, socket: &Socket) -> anyhow::Result<()> {
        if self.control == NOT_CHOSEN {
            return Ok(());
        }
        let chosen = socket.set_tcp_congestion(self.control.as_bytes());
        chosen.with_context(|| format!("choosing the congestion control {}", self.control))
    }

    /// The command-line arguments for these endpoints.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![
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
            words.extend(["--cpu".to_owned(), cpu.to_string()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Read {
        #[command(flatten)]
        ends: Ends,
    }

    #[test]
    fn the_traffic_process_is_told_what_was_meant() {
        let meant = Ends {
            from: "a".into(),
            into: "b".into(),
            to: "fd77::2".parse().unwrap(),
            cpu: None,
            control: CUBIC.into(),
        };
        for meant in [meant.clone(), meant.on_cpu(1).under(NOT_CHOSEN)] {
            let words = std::iter::once("program".to_owned()).chain(meant.words());
            let read = Read::try_parse_from(words).unwrap().ends;
            assert_eq!(format!("{read:?}"), format!("{meant:?}"));
        }
    }
}
