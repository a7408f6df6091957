//! `yuzuri share`: the daemon, and what is asked of it.

use crate::authority::{self, AuthorityTask};
use crate::confine;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_exit::in_one_line;
use yuzuri_policy::{NodeId, Objective, PolicyName};
use yuzuri_share::{
    Answer, ConfigFile, ControlLoop, ControlSocket, ControlSocketOptions, Event, InterfaceConfig, KeySource,
    Places, Question, Relay, ShareConfig, Status, WithoutKernel,
};

/// Read without being named, where it exists.
const USUAL_CONFIG: &str = "/etc/yuzuri/share.toml";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShareArgs {
    #[command(subcommand)]
    task: Option<Task>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Share until a signal comes (the same as without a word)
    Run(Box<RunArgs>),
    /// Show what the running daemon does: members, flows, bounds and why
    Status(StatusArgs),
    /// Choose another policy in the running daemon; flows go on
    Policy(PolicyArgs),
    /// Check a configuration file, and the keys that it names
    Check {
        /// The file
        #[arg(default_value = USUAL_CONFIG)]
        file: PathBuf,
    },
    /// Make a key file: the same file on each terminal lets them share with each other and with nobody else
    Key {
        /// Where to; nothing is replaced
        file: PathBuf,
    },
    /// Let the running daemon read its configuration and keys again; flows go on
    Reload(ReloadArgs),
    /// Give each terminal a key of its own, so that one can be shut out
    #[command(subcommand)]
    Authority(AuthorityTask),
    /// Serve a relay for terminals that do not hear each other (no privilege needed)
    Rendezvous {
        /// Address and port to listen at, such as [::]:48770
        listen: SocketAddr,

        #[arg(long, value_name = "NAME|UID[:GID]", help = crate::confine::USER_HELP)]
        user: Option<String>,
    },
}

/// What a terminal that shares is told.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// An interface that takes part; again for more
    ///
    /// Without any: each that is up and has a default route or a broadcast address.
    #[arg(long, short, value_name = "NAME")]
    pub interface: Vec<String>,

    /// Which rules bound the windows: off, count, hayakawa2015, shimada2016, steady, yuzuri [default: yuzuri]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<PolicyName>,

    /// What yuzuri aims at: throughput, balanced, latency [default: balanced]
    #[arg(long, value_name = "NAME", value_parser = objective)]
    pub objective: Option<Objective>,

    /// File of the key that proves membership (`yuzuri share key` makes one)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// File of a second key that is accepted, and nothing is sent with: for changing keys step by step
    #[arg(long, value_name = "FILE")]
    pub accept_key_file: Option<PathBuf>,

    /// File of notices that tell other members the group's next key (`yuzuri share authority shut-out` makes one)
    #[arg(long, value_name = "FILE")]
    pub notice_file: Option<PathBuf>,

    /// Join groups without a key: anybody on the network can then say anything
    #[arg(long, conflicts_with = "key_file")]
    pub keyless: bool,

    /// The group by a name, where the access point shall not tell it
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,

    /// A relay, where terminals do not hear each other
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub rendezvous: Option<SocketAddr>,

    /// UDP port of the messages, the same at each member [default: 48770]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Configuration file; flags override it [default: /etc/yuzuri/share.toml where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Name of the congestion control that is registered [default: yuzuri]
    #[arg(long, value_name = "NAME")]
    pub control: Option<String>,

    /// Where the kernel part cannot be had: watch the group without bounding anything, instead of ending
    #[arg(long)]
    pub watch_only_without_kernel: bool,

    /// Serve Prometheus metrics at this loopback address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Let --metrics be an address that others reach
    #[arg(long)]
    pub metrics_public: bool,

    /// Folder of the socket, the lock and what lasts until the next boot [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    pub runtime: Option<PathBuf>,

    /// Folder of what is kept between starts [default: /var/lib/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List every flow, not only the 200 largest of each interface
    #[arg(long)]
    all: bool,

    /// Again each second, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Folder of the daemon's socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ReloadArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Folder of the daemon's socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct PolicyArgs {
    /// off, count, hayakawa2015, shimada2016, steady or yuzuri
    name: PolicyName,

    /// What yuzuri aims at: throughput, balanced, latency [default: as it is]
    #[arg(long, value_name = "NAME", value_parser = objective)]
    objective: Option<Objective>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Folder of the daemon's socket [default: /run/yuzuri]
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
}

fn objective(text: &str) -> Result<Objective, String> {
    let found = Objective::ALL.into_iter().find(|objective| objective.name() == text);
    found.ok_or_else(|| {
        let names = Objective::ALL.map(Objective::name).join(", ");
        format!("there is no objective '{text}': choose one of {names}")
    })
}

/// Does what the words say.
pub fn run(args: ShareArgs) -> anyhow::Result<ExitCode> {
    match args.task {
        None => daemon(&args.run),
        Some(Task::Run(args)) => daemon(&args),
        Some(Task::Status(args)) => status(&args),
        Some(Task::Policy(args)) => policy(&args),
        Some(Task::Check { file }) => check(&file),
        Some(Task::Key { file }) => {
            yuzuri_share::new_key_file(&file)?;
            println!("made {}: bring it to each terminal, and name it with --key-file", file.display());
            Ok(ExitCode::SUCCESS)
        }
        Some(Task::Reload(args)) => reload(&args),
        Some(Task::Authority(task)) => authority::run(task),
        Some(Task::Rendezvous { listen, user }) => rendezvous(listen, user.as_deref()),
    }
}

/// What a daemon is made of.
pub struct Settings {
    pub share: ShareConfig,
    metrics: Option<SocketAddr>,
}

/// The configuration file, and the flags over it.
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

/// Flags over a file's settings.
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
            "serving metrics at {address}: others on the network could read them; give a loopback address, or allow it with \
             --metrics-public (metrics_public = true in the configuration)"
        );
    }
    Ok(address)
}

/// Signals: the end, and another configuration.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn take() -> std::io::Result<Signals> {
        let signals = Signals { stop: Arc::default(), reload: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            // A second one ends the process at once; bounds then expire by themselves.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, signals.stop.clone())?;
            signal_hook::flag::register(signal, signals.stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, signals.reload.clone())?;
        Ok(signals)
    }
}

/// Tells the service manager, where there is one.
fn notify(states: &[NotifyState]) {
    // Without one there is nobody to tell; one that does not listen will see for itself.
    let _ = sd_notify::notify(states);
}

fn daemon(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::take().context("preparing for signals")?;
    let Settings { mut share, metrics } = settings(args)?;
    if share.key == KeySource::Keyless {
        say("without a key: anybody on the network can say anything");
    }
    let places = Places::new(args.runtime.clone());
    let sole = places.take()?;
    let state = args.state.clone();
    share.node = Some(node(state.as_deref())?);
    share.told = yuzuri_share::kept_notice(state.as_deref());
    share.migrated_file = Some(places.migrated_file());
    let log = move |event: &Event| {
        say(&event.to_string());
        let kept = match event {
            Event::Redrawn(node) => yuzuri_share::keep_node(state.as_deref(), *node),
            Event::Told(notice) => yuzuri_share::keep_notice(state.as_deref(), notice),
            _ => Ok(()),
        };
        if let Err(error) = kept {
            say(&error.to_string());
        }
    };
    let mut share = ControlLoop::start_with(share, log)?;
    yuzuri_share::drop_privileges()?;
    let options = ControlSocketOptions { socket: places.socket(), metrics };
    let socket = ControlSocket::open(&options, share.status_cell(), share.orders())?;
    say(&format!("sharing; `yuzuri share status` asks at {}", options.socket.display()));
    if let Some(address) = socket.metrics() {
        say(&format!("metrics at http://{address}/metrics"));
    }
    yuzuri_share::give_back_memory();
    notify(&[NotifyState::Ready]);
    work(args, &mut share, &signals)?;
    notify(&[NotifyState::Stopping]);
    share.leave();
    drop(socket);
    drop(sole);
    Ok(ExitCode::SUCCESS)
}

fn work(args: &RunArgs, share: &mut ControlLoop, signals: &Signals) -> anyhow::Result<()> {
    let watchdog = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut fed = Instant::now();
    while !signals.stop.load(Ordering::Relaxed) {
        share.step()?;
        if watchdog.is_some_and(|each| fed.elapsed() >= each) {
            fed = Instant::now();
            notify(&[NotifyState::Watchdog]);
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            let since = NotifyState::monotonic_usec_now();
            let mut states = vec![NotifyState::Reloading];
            states.extend(since.ok());
            notify(&states);
            match settings(args) {
                Ok(settings) => {
                    say("the configuration was read again");
                    share.reload(settings.share);
                }
                Err(error) => share.reload_failed(&in_one_line(error.as_ref())),
            }
            notify(&[NotifyState::Ready]);
        }
    }
    Ok(())
}

/// The id that was kept, or a new one.
fn node(state: Option<&Path>) -> anyhow::Result<NodeId> {
    if let Some(node) = yuzuri_share::kept_node(state) {
        return Ok(node);
    }
    let node = yuzuri_share::new_node()?;
    if let Err(error) = yuzuri_share::keep_node(state, node) {
        // It works with a new one each time.
        say(&error.to_string());
    }
    Ok(node)
}

fn say(what: &str) {
    eprintln!("yuzuri share: {what}");
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let socket = Places::new(args.runtime.clone()).socket();
    let stop = yuzuri_exit::stop_flag()?;
    loop {
        let question = if args.all { Question::StatusAll } else { Question::Status };
        let status = match yuzuri_share::ask(&socket, question)? {
            Answer::Status(status) => status,
            Answer::Error { error } => bail!("asking the daemon at {}: {error}", socket.display()),
            other => bail!("asking the daemon at {}: it answered {other:?}", socket.display()),
        };
        show(&status, args)?;
        let next = Instant::now() + Duration::from_secs(1);
        while args.watch && !yuzuri_exit::stopped(&stop) && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(50));
        }
        if !args.watch || yuzuri_exit::stopped(&stop) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn show(status: &Status, args: &StatusArgs) -> anyhow::Result<()> {
    const HOME_AND_CLEAR: &str = "\x1b[H\x1b[2J";
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, status)?;
        writeln!(out)?;
    } else {
        if args.watch && out.is_terminal() {
            write!(out, "{HOME_AND_CLEAR}")?;
        }
        write!(out, "{}", yuzuri_share::table(status))?;
    }
    out.flush()?;
    Ok(())
}

fn policy(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    let socket = Places::new(args.runtime.clone()).socket();
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

/// How long a daemon is waited for: it does nothing that takes longer than a passphrase.
const RELOADED_WITHIN: Duration = Duration::from_secs(5);

fn reload(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let socket = Places::new(args.runtime.clone()).socket();
    let status = || match yuzuri_share::ask(&socket, Question::Status)? {
        Answer::Status(status) => Ok(status),
        other => bail!("asking the daemon at {}: it answered {other:?}", socket.display()),
    };
    let before = status()?;
    let count = |status: &Status| status.reload.as_ref().map_or(0, |reload| reload.count);
    let pid = nix::unistd::Pid::from_raw(before.pid as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGHUP)
        .with_context(|| format!("asking process {pid} to read its configuration again"))?;
    let until = Instant::now() + RELOADED_WITHIN;
    let after = loop {
        let after = status()?;
        if count(&after) > count(&before) {
            break after;
        }
        if Instant::now() > until {
            bail!(
                "process {pid} did not say within {} s how it went; its log may",
                RELOADED_WITHIN.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if let Some(error) = after.reload.as_ref().and_then(|reload| reload.error.clone()) {
        bail!("the daemon keeps the configuration that it had: {error}");
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
            println!("{}: right, but names no key: --key-file or --keyless is needed", file.display())
        }
        _ => {
            let warnings = share.check_keys()?;
            println!("{}: right", file.display());
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
    say(&format!("rendezvous at {}", relay.address()));
    let mut told = None;
    let counts = relay.serve(&stop, |_, (groups, members)| {
        if told.is_some_and(|before| before != (groups, members)) {
            say(&format!("{members} members in {groups} groups"));
        }
        told = Some((groups, members));
    })?;
    let refused = counts.malformed + counts.rate_limited + counts.crowded;
    say(&format!(
        "{} datagrams came: {} passed on, {} kept, {} answered with cookies, {refused} refused; {} sent",
        counts.received, counts.passed_on, counts.kept, counts.cookies, counts.sent
    ));
    Ok(ExitCode::SUCCESS)
}
