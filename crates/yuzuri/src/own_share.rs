//! `yuzuri send --share`: the connections of this program alone give way, by what a program may set of its own sockets.

use crate::share::{RunArgs, settings};
use clap::Args;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use yuzuri_policy::PolicyName;
use yuzuri_share::{Answer, Event, MemberStatus, OwnSockets, Places, Question, Share, ShareError, Status};
use yuzuri_transfer::Shown;

/// How the connections share.
#[derive(Debug, Args)]
pub struct OwnShareArgs {
    /// Give way to the uploads of other devices behind the same access point, as they do: no privilege needed
    ///
    /// Joins the group for these connections alone, and bounds what they leave outstanding. Where the daemon of this device
    /// runs it shares for them already.
    #[arg(long)]
    share: bool,

    /// File of the key that proves membership (`yuzuri share key` makes one)
    #[arg(long, value_name = "FILE", requires = "share")]
    share_key_file: Option<PathBuf>,

    /// Join groups without a key: anybody on the network can then say anything
    #[arg(long, requires = "share", conflicts_with = "share_key_file")]
    share_keyless: bool,

    /// The group by a name, where the access point shall not tell it
    #[arg(long, value_name = "NAME", requires = "share")]
    share_group: Option<String>,

    /// A relay, where terminals do not hear each other
    #[arg(long, value_name = "ADDRESS:PORT", requires = "share")]
    share_rendezvous: Option<SocketAddr>,

    /// Which rules bound the windows: off, count, hayakawa2015, shimada2016, steady, yuzuri [default: yuzuri]
    #[arg(long, value_name = "NAME", requires = "share")]
    share_policy: Option<PolicyName>,

    /// Configuration file of the rest [default: /etc/yuzuri/share.toml where it exists]
    #[arg(long, value_name = "FILE", requires = "share")]
    share_config: Option<PathBuf>,
}

/// A sharing beside a transfer.
pub struct OwnShare {
    sockets: OwnSockets,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Arc<Status>, Ticks), ShareError>>,
}

/// From one of a sharing's looks to the next.
const TICK_S: f64 = 0.5;

/// Half seconds, and those in which a connection was bounded; by interface the most other devices that there were at a time: at the end some
/// may have left before us.
#[derive(Default)]
struct Ticks {
    all: u64,
    bounded: u64,
    others: HashMap<String, usize>,
}

impl Ticks {
    fn note(&mut self, status: &Status) {
        if status.ticks > self.all {
            self.all = status.ticks;
            let mut flows = status.interfaces.iter().flat_map(|interface| &interface.flows);
            self.bounded += u64::from(flows.any(|flow| flow.bound.upper > 0));
            for interface in &status.interfaces {
                let is_other = |member: &&MemberStatus| Some(&member.node) != interface.node.as_ref();
                let others = interface.members.iter().filter(is_other).count();
                let most = self.others.entry(interface.name.clone()).or_default();
                *most = others.max(*most);
            }
        }
    }
}

impl OwnShare {
    /// Joins the group, where that was asked for and the device's daemon does not share already. `interface`: the one that is sent through.
    pub fn start(args: &OwnShareArgs, interface: Option<&str>) -> anyhow::Result<Option<OwnShare>> {
        if !args.share {
            return Ok(None);
        }
        let daemon = Places::new(None).socket();
        if let Ok(Answer::Status(status)) = yuzuri_share::ask(&daemon, Question::Status)
            && status.steers
        {
            eprintln!(
                "yuzuri: the daemon of this device shares already (process {}); its bounds hold",
                status.pid
            );
            return Ok(None);
        }
        let words = RunArgs {
            interface: interface.map(str::to_owned).into_iter().collect(),
            policy: args.share_policy,
            key_file: args.share_key_file.clone(),
            keyless: args.share_keyless,
            group: args.share_group.clone(),
            rendezvous: args.share_rendezvous,
            config: args.share_config.clone(),
            ..RunArgs::default()
        };
        let mut config = settings(&words)?.share;
        let sockets = OwnSockets::default();
        config.own = Some(sockets.clone());
        let say = |event: &Event| {
            // How many flows were moved back is the daemon's matter: these end with their connections.
            if !matches!(event, Event::Left { .. }) {
                eprintln!("yuzuri: sharing: {event}");
            }
        };
        let mut share = Share::start_with(config, say)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut ticks = Ticks::default();
            while !stopped.load(Ordering::Relaxed) {
                share.step()?;
                ticks.note(&share.status());
            }
            let status = share.status();
            share.leave();
            Ok((status, ticks))
        });
        Ok(Some(OwnShare { sockets, stop, thread }))
    }

    /// Takes each connection in.
    pub fn shown(&self) -> Shown {
        self.sockets.shown()
    }

    /// Leaves the group, and says with whom it was shared.
    pub fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let (status, ticks) = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        for interface in &status.interfaces {
            let members = ticks.others.get(&interface.name).copied().unwrap_or_default();
            let messages = &interface.messages;
            eprintln!(
                "yuzuri: shared on {} with {members} other device{}, bounded for {:.1} of {:.1} s; {} of {} messages believed",
                interface.name,
                if members == 1 { "" } else { "s" },
                ticks.bounded as f64 * TICK_S,
                ticks.all as f64 * TICK_S,
                messages.accepted.values().sum::<u64>(),
                messages.received
            );
        }
        for problem in &status.problems {
            eprintln!("yuzuri: sharing: {problem}");
        }
        Ok(())
    }
}
