//! Where the connections of a traffic process begin and end, as it is told.

use anyhow::Context;
use clap::Args;
use socket2::Socket;
use std::net::IpAddr;
use yuzuri_testnet::{Net, Side};

/// The kernel's own congestion control.
pub const CUBIC: &str = "cubic";
/// A word for the congestion control that the kernel gives to a connection whose program chooses none.
pub const NOT_CHOSEN: &str = "none";

/// Where connections begin and end.
#[derive(Debug, Clone, Args)]
pub struct Ends {
    /// Namespace of the side that connects.
    #[arg(long)]
    pub from: String,
    /// Namespace of the side that accepts.
    #[arg(long)]
    pub into: String,
    /// Address of the side that accepts.
    #[arg(long)]
    pub to: IpAddr,
    /// CPU of all threads.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Congestion control of all connections: the machine's default may pace, which timers and not ACKs then drive.
    /// `none`: the process chooses no control.
    #[arg(long, default_value = CUBIC)]
    pub control: String,
}

impl Ends {
    /// From side A of a path to the IPv4 address of side B, under CUBIC, on any CPU.
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

    /// The same under another control.
    pub fn under(self, control: &str) -> Ends {
        Ends { control: control.to_owned(), ..self }
    }

    /// Chooses the control for a socket, where one is to be chosen.
    pub fn choose_control(&self, socket: &Socket) -> anyhow::Result<()> {
        if self.control == NOT_CHOSEN {
            return Ok(());
        }
        let chosen = socket.set_tcp_congestion(self.control.as_bytes());
        chosen.with_context(|| format!("choosing the congestion control {}", self.control))
    }

    /// The flags that say so.
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
