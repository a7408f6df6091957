//! `yuzuri send --share`: bounds only this program's connections, by socket options that need no
//! privilege.

use crate::share::{RunArgs, settings};
use crate::transfer::EventReporter;
use crate::units;
use clap::Args;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_policy::PolicyName;
use yuzuri_share::{
    Answer, ControlLoop, DaemonFiles, Event, MemberStatus, OwnSockets, Question, ShareError, Status,
};
use yuzuri_stats::counted;
use yuzuri_transfer::{SendEvent, Shared, Shown, WarningKind};

/// Options of sharing during a transfer.
#[derive(Debug, Args)]
pub struct OwnShareArgs {
    /// Share the link with other devices behind the same access point (needs no privilege)
    ///
    /// These connections join the group and bound the data they keep in flight. If this device runs
    /// the sharing daemon, the daemon already does this.
    #[arg(long)]
    share: bool,

    /// Key file that authenticates this member (`yuzuri share key` creates one)
    #[arg(long, value_name = "FILE", requires = "share")]
    share_key_file: Option<PathBuf>,

    /// Join groups without a key: anybody on the network can then forge messages
    #[arg(long, requires = "share", conflicts_with = "share_key_file")]
    share_keyless: bool,

    /// Group name, instead of a group derived from the access point
    #[arg(long, value_name = "NAME", requires = "share")]
    share_group: Option<String>,

    /// Relay, for terminals that cannot receive each other's messages
    #[arg(long, value_name = "ADDRESS:PORT", requires = "share")]
    share_rendezvous: Option<SocketAddr>,

    /// Policy that bounds the windows [default: yuzuri]
    #[arg(long, value_name = "NAME", requires = "share", value_parser = units::policy())]
    share_policy: Option<PolicyName>,

    /// Configuration file for all other settings [default: /etc/yuzuri/share.toml if it exists]
    #[arg(long, value_name = "FILE", requires = "share")]
    share_config: Option<PathBuf>,
}

/// Sharing during a transfer.
pub struct OwnShare {
    sockets: OwnSockets,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Arc<Status>, Ticks, Result<(), ShareError>)>,
}

/// The result of a request to share.
pub enum Sharing {
    /// It was not requested, or the device's daemon shares already.
    None,
    /// This system does not support it; that has been reported, and the transfer continues without.
    Unsupported,
    /// Sharing is in progress.
    Active(OwnShare),
}

impl Sharing {
    /// The sharing in progress, if any.
    pub fn active(self) -> Option<OwnShare> {
        if let Sharing::Active(share) = self { Some(share) } else { None }
    }
}

/// Interval between two ticks of the control loop.
const TICK: Duration = Duration::from_millis(500);

/// Number of ticks, and of those with a bounded connection; for each interface the
/// maximum number of other devices at a time, since some may leave before this one.
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
    /// Joins the group, if requested and if the device's daemon does not share already.
    /// `interface`: the outgoing one.
    ///
    /// # Errors
    /// If the request is invalid: there is no key, or the interface does not exist. A lack of
    /// support by the system is not an error.
    pub fn start(
        args: &OwnShareArgs,
        interface: Option<&str>,
        reporter: EventReporter,
    ) -> anyhow::Result<Sharing> {
        if !args.share {
            return Ok(Sharing::None);
        }
        let daemon = DaemonFiles::new(None).socket();
        if let Ok(Answer::Status(status)) = yuzuri_share::ask(&daemon, Question::Status)
            && status.steers
        {
            reporter.note(&format!(
                "this device's daemon shares already (process {}); its bounds apply",
                status.pid
            ));
            return Ok(Sharing::None);
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
        let report_event = move |event: &Event| match event {
            Event::StoppedBounding { why } => {
                reporter.warn(WarningKind::Sharing, &format!("sharing ended: {why}"));
            }
            // Only a daemon reports how many flows it moved back: these flows end with their
            // connections.
            Event::Left { .. } => {}
            _ => reporter.note(&format!("sharing: {event}")),
        };
        let mut share = match ControlLoop::start_with(config, report_event) {
            Ok(share) => share,
            Err(error @ (ShareError::System { .. } | ShareError::Control(_))) => {
                reporter.warn(WarningKind::Sharing, &format!("not shared: {error}"));
                return Ok(Sharing::Unsupported);
            }
            Err(error) => return Err(error.into()),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut ticks = Ticks::default();
            let mut result = Ok(());
            while result.is_ok() && !stopped.load(Ordering::Relaxed) {
                result = share.step();
                ticks.note(&share.status());
            }
            if let Err(error) = &result {
                reporter.warn(WarningKind::Sharing, &format!("sharing ended: {error}"));
            }
            let status = share.status();
            share.leave();
            (status, ticks, result)
        });
        Ok(Sharing::Active(OwnShare { sockets, stop, thread }))
    }

    /// Lets each connection take part.
    pub fn shown(&self) -> Shown {
        self.sockets.shown()
    }

    /// Leaves the group, and reports how many devices the program shared with; returns whether
    /// sharing lasted to the end.
    pub fn finish(self, reporter: EventReporter) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let Ok((status, ticks, result)) = self.thread.join() else {
            // A panic in the sharing thread must not lose the transfer's result.
            reporter.warn(WarningKind::Sharing, "sharing ended early: the sharing thread panicked");
            return false;
        };
        for interface in &status.interfaces {
            let messages = &interface.messages;
            let shared = Shared {
                interface: interface.name.clone(),
                others: ticks.others.get(&interface.name).copied().unwrap_or_default() as u64,
                duration_ns: ticks.all * TICK.as_nanos() as u64,
                bounded_ns: ticks.bounded * TICK.as_nanos() as u64,
                messages: messages.received,
                messages_believed: messages.accepted.values().sum(),
            };
            reporter.note(&format!(
                "shared on {} with {}, bounded for {:.1} of {:.1} s; {} of {} messages accepted",
                shared.interface,
                counted(shared.others, "other device"),
                shared.bounded_ns as f64 / 1e9,
                shared.duration_ns as f64 / 1e9,
                shared.messages_believed,
                shared.messages
            ));
            reporter.emit(&SendEvent::Shared(shared));
        }
        for problem in status.waits.iter().chain(&status.problems) {
            reporter.note(&format!("sharing: {problem}"));
        }
        if result.is_ok() && status.interfaces.is_empty() {
            let reasons: Vec<String> = status.waits.iter().chain(&status.problems).cloned().collect();
            let why = if reasons.is_empty() {
                "no interface of this host can share with others behind the same access point".to_owned()
            } else {
                reasons.join("; ")
            };
            reporter.warn(WarningKind::Sharing, &format!("not shared: {why}"));
            return false;
        }
        result.is_ok() && status.steers
    }
}
