//! `yuzuri share`: the daemon and the commands that talk to it.

use crate::authority::{self, AuthorityTask};
use crate::daemon::{self, Signals, Task, Tasks, Watchdog, notify};
use crate::{confine, memory, units};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use sd_notify::NotifyState;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::in_one_line;
use yuzuri_policy::{NodeId, Objective, PolicyName, TerminalName};
use yuzuri_share::{
    Answer, ConfigFile, ControlLoop, ControlSocket, ControlSocketOptions, DaemonFiles, Event,
    InterfaceConfig, KeySource, Question, Relay, ShareConfig, Status, WithoutKernel,
};
use yuzuri_stats::counted;

/// Read by default, if it exists.
const USUAL_CONFIG: &str = "/etc/yuzuri/share.toml";

pub type ShareArgs = Tasks<RunArgs, ShareTask>;

#[derive(Debug, Subcommand)]
pub enum ShareTask {
    /// Show the running daemon's members, flows and bounds, and the reason for each bound
    Status(StatusArgs),
    /// Change the running daemon's policy without interrupting flows
    Policy(PolicyArgs),
    /// Check a configuration file and the key files that it names
    Check {
        /// Configuration file
        #[arg(default_value = USUAL_CONFIG)]
        file: PathBuf,
    },
    /// Create a key file: terminals with the same key file share only with each other
    Key {
        /// File to create; an existing file is not replaced
        file: PathBuf,
    },
    /// Reload the running daemon's configuration and keys without interrupting flows
    Reload(ReloadArgs),
    /// Manage per-terminal keys, so that a single terminal can be excluded
    #[command(subcommand)]
    Authority(AuthorityTask),
    /// Run a relay for terminals that cannot receive each other's messages (needs no privilege)
    Rendezvous {
        /// Address and port to listen on, such as `[::]:48770`
        listen: SocketAddr,

        #[arg(long, value_name = "NAME|UID[:GID]", help = crate::confine::USER_HELP)]
        user: Option<String>,
    },
}

/// Options of the daemon.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Interface to share on; may be repeated
    ///
    /// Default: every interface that is up and has a default route or a broadcast address.
    #[arg(long, short, value_name = "NAME")]
    pub interface: Vec<String>,

    /// Policy that bounds the windows [default: yuzuri]
    #[arg(long, value_name = "NAME", value_parser = units::policy())]
    pub policy: Option<PolicyName>,

    /// Objective of the policy `yuzuri` [default: balanced]
    #[arg(long, value_name = "NAME", value_parser = units::objective())]
    pub objective: Option<Objective>,

    /// Key file that authenticates this member (`yuzuri share key` creates one)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// Second key file: messages with this key are accepted but not sent, for replacing a key step
    /// by step
    #[arg(long, value_name = "FILE")]
    pub accept_key_file: Option<PathBuf>,

    /// Notice file that distributes the group's next key (`yuzuri share authority exclude` creates
    /// one)
    #[arg(long, value_name = "FILE")]
    pub notice_file: Option<PathBuf>,

    /// Join groups without a key: anybody on the network can then forge messages
    #[arg(long, conflicts_with = "key_file")]
    pub keyless: bool,

    /// Name by which the other members show this terminal; anybody on the network can read it
    /// [default: no name is sent]
    #[arg(long, value_name = "NAME")]
    pub terminal_name: Option<TerminalName>,

    /// Group name, instead of a group derived from the access point
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,

    /// Relay, for terminals that cannot receive each other's messages
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub rendezvous: Option<SocketAddr>,

    /// UDP port of the group's messages; all members must use the same port [default: 48770]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Configuration file; options override it [default: /etc/yuzuri/share.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Name under which the congestion control is registered [default: yuzuri]
    #[arg(long, value_name = "NAME")]
    pub control: Option<String>,

    /// If the BPF programs cannot be loaded, watch the group without bounding anything instead of
    /// exiting
    #[arg(long)]
    pub watch_only_without_kernel: bool,

    /// Serve Prometheus metrics on this loopback address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Allow --metrics to use an address that other hosts can reach
    #[arg(long)]
    pub metrics_public: bool,

    /// Folder for the control socket, the lock and state until the next boot [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    pub runtime: Option<PathBuf>,

    /// Folder for persistent state [default: /var/lib/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List every flow, not just the 200 largest of each interface
    #[arg(long)]
    all: bool,

    /// Refresh every second until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Folder of the daemon's control socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Folder of the daemon's control socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Policy
    #[arg(value_parser = units::policy())]
    name: PolicyName,

    /// Objective of the policy `yuzuri` [default: unchanged]
    #[arg(long, value_name = "NAME", value_parser = units::objective())]
    objective: Option<Objective>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Folder of the daemon's control socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

/// Runs the chosen command.
pub fn run(args: ShareArgs) -> anyhow::Result<ExitCode> {
    let task = match args.chosen() {
        Task::Run(args) => return serve(&args),
        Task::Other(task) => task,
    };
    match task {
        ShareTask::Status(args) => status(&args),
        ShareTask::Policy(args) => policy(&args),
        ShareTask::Check { file } => check(&file),
        ShareTask::Key { file } => {
            yuzuri_share::new_key_file(&file)?;
            println!("created {}: copy it to each terminal, and pass it with --key-file", file.display());
            Ok(ExitCode::SUCCESS)
        }
        ShareTask::Reload(args) => reload(&args),
        ShareTask::Authority(task) => authority::run(task),
        ShareTask::Rendezvous { listen, user } => rendezvous(listen, user.as_deref()),
    }
}

/// The daemon's settings.
pub struct Settings {
    pub share: ShareConfig,
    metrics: Option<SocketAddr>,
}

/// Reads the configuration file and applies the options over it.
pub fn settings(args: &RunArgs) -> anyhow::Result<Settings> {
    let usual = Path::new(USUAL_CONFIG);
    let file = args.config.as_deref().or_else(|| usual.exists().then_some(usual));
    let file = file.map(yuzuri_share::read_config).transpose()?.unwrap_or_default();
    let mut share =
        ShareConfig { control_name: yuzuri_share::default_control_name(), ..ShareConfig::default() };
    file.apply(&mut share);
    over(args, &mut share);
    let metrics = metrics_address(args, &file)?;
    Ok(Settings { share, metrics })
}

/// Applies the options over the file's settings.
fn over(args: &RunArgs, share: &mut ShareConfig) {
    if !args.interface.is_empty() {
        let before = std::mem::take(&mut share.interfaces);
        let known = |name: &String| before.iter().find(|i| i.name == *name).cloned();
        let named =
            args.interface.iter().map(|name| known(name).unwrap_or_else(|| InterfaceConfig::named(name)));
        share.interfaces = named.collect();
    }
    if let Some(group) = &args.group {
        let group = InterfaceConfig::group_named(group);
        share.group = Some(group);
        share.interfaces.iter_mut().for_each(|interface| interface.group = Some(group));
    }
    share.policy.name = args.policy.unwrap_or(share.policy.name);
    share.policy.objective = args.objective.unwrap_or(share.policy.objective);
    if let Some(file) = &args.key_file {
        share.key = KeySource::File(file.clone());
    } else if args.keyless {
        share.key = KeySource::Keyless;
        share.accepts = None;
    }
    if let Some(file) = &args.accept_key_file {
        share.accepts = Some(KeySource::File(file.clone()));
    }
    share.notice_file = args.notice_file.clone().or(share.notice_file.take());
    share.rendezvous = args.rendezvous.or(share.rendezvous);
    share.terminal_name = args.terminal_name.or(share.terminal_name);
    share.port = args.port.unwrap_or(share.port);
    if let Some(control) = &args.control {
        share.control_name.clone_from(control);
    }
    if args.watch_only_without_kernel {
        share.without_kernel = WithoutKernel::Watch;
    }
}

fn metrics_address(args: &RunArgs, file: &ConfigFile) -> anyhow::Result<Option<SocketAddr>> {
    let address = args.metrics.or(file.metrics);
    if let Some(address) =
        address.filter(|a| !a.ip().is_loopback() && !args.metrics_public && !file.metrics_public)
    {
        bail!(
            "serving metrics on {address}: other hosts on the network could read them; use a loopback address, or allow this with \
             --metrics-public (metrics_public = true in the configuration)"
        );
    }
    Ok(address)
}

fn serve(args: &RunArgs) -> anyhow::Result<ExitCode> {
    memory::release_after_bursts();
    let signals = Signals::take().context("preparing for signals")?;
    let Settings { mut share, metrics } = settings(args)?;
    if share.key == KeySource::Keyless {
        note("no key: anybody on the network can forge messages");
    }
    let files = DaemonFiles::new(args.runtime.clone());
    let instance_lock = files.take()?;
    let state = args.state.clone();
    share.node = Some(node(state.as_deref())?);
    share.known_notice = yuzuri_share::stored_notice(state.as_deref());
    share.migrated_file = Some(files.migrated_file());
    let log = move |event: &Event| {
        note(&event.to_string());
        let kept = match event {
            Event::Redrawn(node) => yuzuri_share::store_node(state.as_deref(), *node),
            Event::Notice(notice) => yuzuri_share::store_notice(state.as_deref(), notice),
            _ => Ok(()),
        };
        if let Err(error) = kept {
            note(&error.to_string());
        }
    };
    let mut share = ControlLoop::start_with(share, log)?;
    yuzuri_share::drop_privileges()?;
    let options = ControlSocketOptions { socket: files.socket(), metrics };
    let socket = ControlSocket::open(&options, share.status_cell(), share.orders())?;
    note(&format!("sharing; `yuzuri share status` connects to {}", options.socket.display()));
    if let Some(address) = socket.metrics() {
        note(&format!("metrics at http://{address}/metrics"));
    }
    yuzuri_share::give_back_memory();
    work(args, &mut share, &signals)?;
    notify(&[NotifyState::Stopping]);
    share.leave();
    drop(socket);
    drop(instance_lock);
    Ok(ExitCode::SUCCESS)
}

fn work(args: &RunArgs, share: &mut ControlLoop, signals: &Signals) -> anyhow::Result<()> {
    let mut watchdog = Watchdog::ready();
    while !signals.stopped() {
        share.step()?;
        watchdog.notify();
        if signals.take_reload() {
            let since = NotifyState::monotonic_usec_now();
            let mut states = vec![NotifyState::Reloading];
            states.extend(since.ok());
            notify(&states);
            match settings(args) {
                Ok(settings) => {
                    note("the configuration was read again");
                    share.reload(settings.share);
                }
                Err(error) => share.reload_failed(&in_one_line(error.as_ref())),
            }
            notify(&[NotifyState::Ready]);
        }
    }
    Ok(())
}

/// The node id from the state folder, or a new one.
fn node(state: Option<&Path>) -> anyhow::Result<NodeId> {
    if let Some(node) = yuzuri_share::stored_node(state) {
        return Ok(node);
    }
    let node = yuzuri_share::new_node()?;
    if let Err(error) = yuzuri_share::store_node(state, node) {
        // Without a stored ID, each start uses a new one; sharing still works.
        note(&error.to_string());
    }
    Ok(node)
}

fn note(what: &str) {
    yuzuri_exit::note!("yuzuri share: {what}");
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let socket = DaemonFiles::new(args.runtime.clone()).socket();
    let question = || if args.all { Question::StatusAll } else { Question::Status };
    daemon::show(args.watch, !args.json, || match yuzuri_share::ask(&socket, question())? {
        Answer::Status(status) if args.json => Ok(format!("{}\n", serde_json::to_string(&status)?)),
        Answer::Status(status) => Ok(yuzuri_share::table(&status)),
        Answer::Error { error } => bail!("asking the daemon at {}: {error}", socket.display()),
        other => bail!("asking the daemon at {}: it answered {other:?}", socket.display()),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn policy(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    let socket = DaemonFiles::new(args.runtime.clone()).socket();
    let question = Question::Policy { name: args.name, objective: args.objective };
    let answer = yuzuri_share::ask(&socket, question)?;
    match &answer {
        Answer::Done { .. } if args.json => println!("{}", serde_json::to_string(&answer)?),
        Answer::Done { done } => println!("{done}"),
        Answer::Error { error } => bail!("choosing policy {}: {error}", args.name),
        Answer::Status(_) => bail!("choosing policy {}: the daemon did not understand", args.name),
    }
    Ok(ExitCode::SUCCESS)
}

/// Timeout for the daemon's answer: deriving a key from a passphrase is its slowest task.
const RELOADED_WITHIN: Duration = Duration::from_secs(5);

fn reload(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let socket = DaemonFiles::new(args.runtime.clone()).socket();
    let status = || match yuzuri_share::ask(&socket, Question::Status)? {
        Answer::Status(status) => Ok(status),
        other => bail!("asking the daemon at {}: it answered {other:?}", socket.display()),
    };
    let before = status()?;
    let count = |status: &Status| status.reload.as_ref().map_or(0, |reload| reload.count);
    let pid = nix::unistd::Pid::from_raw(before.pid as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGHUP)
        .with_context(|| format!("requesting process {pid} to reload its configuration"))?;
    let until = Instant::now() + RELOADED_WITHIN;
    let after = loop {
        let after = status()?;
        if count(&after) > count(&before) {
            break after;
        }
        if Instant::now() > until {
            bail!(
                "process {pid} did not report the result within {} s; see its log",
                RELOADED_WITHIN.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if let Some(error) = after.reload.as_ref().and_then(|reload| reload.error.clone()) {
        bail!("the daemon keeps its previous configuration: {error}");
    }
    if args.json {
        println!("{}", serde_json::json!({ "reloaded": true, "warnings": after.warnings }));
    } else {
        println!("the configuration was read again");
        after.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    let read = yuzuri_share::read_config(file)?;
    let mut share = ShareConfig::default();
    read.apply(&mut share);
    match share.key {
        KeySource::Missing => {
            println!("{}: valid, but names no key: --key-file or --keyless is needed", file.display())
        }
        _ => {
            let warnings = share.check_keys()?;
            println!("{}: valid", file.display());
            warnings.iter().for_each(|warning| println!("warning: {warning}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rendezvous(listen: SocketAddr, user: Option<&str>) -> anyhow::Result<ExitCode> {
    let identity = Identity::chosen(user)?;
    let stop = yuzuri_exit::stop_flag()?;
    let relay = Relay::bind(listen)?;
    notify(&[NotifyState::Ready]);
    confine::to(identity, &SystemCalls::of_open_sockets())?;
    note(&format!("rendezvous at {}", relay.address()));
    let mut printed = None;
    let counts = relay.serve(&stop, |_, (groups, members)| {
        if printed.is_some_and(|before| before != (groups, members)) {
            note(&format!("{} in {}", counted(members, "member"), counted(groups, "group")));
        }
        printed = Some((groups, members));
    })?;
    let refused = counts.malformed + counts.rate_limited + counts.crowded;
    note(&format!(
        "{} received: {} forwarded, {} consumed, {} answered with cookies, {refused} refused; {} \
         sent",
        counted(counts.received, "datagram"),
        counts.passed_on,
        counts.kept,
        counts.cookies,
        counts.sent
    ));
    Ok(ExitCode::SUCCESS)
}
