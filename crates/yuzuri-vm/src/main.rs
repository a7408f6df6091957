//! The `yuzuri-vm` command: builds images, pins packages, and runs a program or a test suite in a
//! guest.

mod report;
mod suite;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use suite::Suite;
use yuzuri_vm::{Arch, Cache, Equipment, Guest, Image, Kernel, Mips, Progress, Source, Time};

/// Run a program under a stock Debian kernel in QEMU, in virtual time (repeatable) or in real time.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch the pinned packages and build the missing images.
    Build {
        /// Kernels: 6.1-amd64, 6.12-amd64, 6.1-arm64 or 6.12-arm64; all by default.
        kernels: Vec<Kernel>,
        /// Build images with simulated radios (mac80211_hwsim, iw, hostapd).
        #[arg(long)]
        wireless: bool,
        /// Use the archive's current package versions instead of the pinned ones.
        #[arg(long)]
        latest: bool,
    },
    /// Run a program in a guest and exit with the program's exit code.
    Run(Run),
    /// Run test programs under several kernels and print a table of the results.
    Test(Test),
    /// Fetch the libraries for cross-building the monitor and print their folder.
    Cross {
        /// Target architecture, Debian's name.
        #[arg(value_parser = yuzuri_vm::CROSS_ARCHITECTURES)]
        arch: String,
    },
    /// Write a lock file with the archive's current versions of all packages.
    Lock {
        /// Path of the lock file.
        #[arg(long, default_value = "crates/yuzuri-vm/packages.lock")]
        file: PathBuf,
    },
}

#[derive(Args)]
struct Run {
    /// Kernel: 6.1, 6.12 (amd64), 6.1-arm64 or 6.12-arm64.
    #[arg(long, default_value = "6.1")]
    kernel: Kernel,
    /// Run in real time instead of virtual time.
    #[arg(long, conflicts_with_all = ["seed", "mips"])]
    real: bool,
    /// Seed of all random numbers in the guest, in virtual time.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Speed of the guest's processor in virtual time, in million instructions per second of its
    /// clock: 125, 250, 500, 1000, 2000, 4000 or 8000. Values above 1000 need an amd64 kernel, and
    /// booting then takes 5 to 10 s of CPU time more.
    #[arg(long, default_value_t)]
    mips: Mips,
    /// Add simulated radios that receive each other (mac80211_hwsim), iw and hostapd.
    #[arg(long)]
    wireless: bool,
    /// Keep all run-time checks of Debian's kernel. Slower, but operations cost what they cost on
    /// Debian.
    #[arg(long)]
    as_shipped: bool,
    /// Memory in MB; it also holds the guest's files.
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// Copy a file or folder of the host into the guest.
    #[arg(long = "file", value_name = "HERE:THERE")]
    files: Vec<String>,
    /// Set an environment variable of the program.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Copy /results to this folder, with vm.json, which states how to reproduce them.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Limit of wall-clock time, in seconds.
    #[arg(long, default_value_t = 3600)]
    timeout: u64,
    /// Use the archive's current package versions instead of the pinned ones.
    #[arg(long)]
    latest: bool,
    /// Print only the program's output.
    #[arg(long, short)]
    quiet: bool,
    /// Program and its arguments: a file on the host, or otherwise a name in the guest.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

#[derive(Args)]
struct Test {
    /// Folder of test programs for an architecture. All programs in it are run; its subfolder `bin`
    /// is added to the PATH.
    #[arg(long = "programs", value_name = "ARCHITECTURE=FOLDER", required = true)]
    programs: Vec<String>,
    /// Kernels; by default all for which there are programs.
    #[arg(long = "kernel")]
    kernels: Vec<Kernel>,
    /// Run only programs whose name contains this text.
    #[arg(long)]
    only: Option<String>,
    /// Run in real time instead of virtual time.
    #[arg(long)]
    real: bool,
    /// Seed of all random numbers in the guest, in virtual time.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory in MB; it also holds the programs.
    #[arg(long, default_value_t = 1536)]
    memory: u32,
    /// Time limit of each program, in seconds of the guest's clock.
    #[arg(long, default_value_t = 600)]
    limit: u32,
    /// Write the guests' output to this folder.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// Arguments for each program.
    #[arg(last = true)]
    words: Vec<String>,
}

fn test(test: Test) -> anyhow::Result<ExitCode> {
    let mut programs = std::collections::BTreeMap::new();
    for word in &test.programs {
        let named =
            word.split_once('=').and_then(|(arch, folder)| Some((arch.parse::<Arch>().ok()?, folder)));
        let Some((arch, folder)) = named else {
            bail!("--programs {word}: expected amd64=FOLDER or arm64=FOLDER")
        };
        programs.insert(arch, PathBuf::from(folder));
    }
    let kernels = if test.kernels.is_empty() {
        Kernel::ALL.into_iter().filter(|k| programs.contains_key(&k.arch())).collect()
    } else {
        test.kernels
    };
    let time =
        if test.real { Time::Real } else { Time::Virtual { processor: Mips::default(), seed: test.seed } };
    let suite = Suite {
        kernels,
        programs,
        time,
        memory_mb: test.memory,
        limit_s: test.limit,
        only: test.only,
        words: test.words,
        logs: test.logs,
    };
    let passed = suite.run(&*yuzuri_exit::stop_flag()?, &say)?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn equipment(wireless: bool) -> Equipment {
    if wireless { Equipment::Wireless } else { Equipment::Plain }
}

fn source(latest: bool) -> Source {
    if latest { Source::Latest } else { Source::Pinned }
}

fn say(text: &str) {
    eprintln!("yuzuri-vm: {text}");
}

fn run(run: Run) -> anyhow::Result<ExitCode> {
    let time = if run.real { Time::Real } else { Time::Virtual { processor: run.mips, seed: run.seed } };
    let mut guest = Guest::new(run.kernel)
        .source(source(run.latest))
        .memory_mb(run.memory)
        .time(time)
        .equipment(equipment(run.wireless))
        .as_shipped(run.as_shipped)
        .timeout(Duration::from_secs(run.timeout));
    let mut program = run.program;
    let path = Path::new(&program[0]);
    if program[0].contains('/') && path.is_file() {
        let name = path.file_name().context("the program has no name")?.to_string_lossy();
        let there = format!("/root/{name}");
        guest = guest.file(path, &there);
        program[0] = there;
    }
    for file in &run.files {
        let Some((here, there)) = file.rsplit_once(':') else { bail!("--file {file}: expected HERE:THERE") };
        guest = guest.file(here, there);
    }
    for variable in &run.env {
        let Some((name, value)) = variable.split_once('=') else {
            bail!("--env {variable}: expected NAME=VALUE")
        };
        guest = guest.env(name, value);
    }
    if let Some(results) = run.results {
        guest = guest.results(results);
    }
    let stop = yuzuri_exit::stop_flag()?;
    let quiet = run.quiet;
    let (mut clock_s, mut printed_s) = (0.0, 0.0);
    let outcome = guest.program(program).run(
        &mut |progress| match progress {
            Progress::Output(text) => {
                use std::io::Write;
                print!("{text}");
                let _ = std::io::stdout().flush();
            }
            _ if quiet => {}
            Progress::Doing(text) => say(text),
            Progress::Booted { cpu_s } => say(&format!("booted in {cpu_s:.1} s of CPU")),
            Progress::Clock { guest_s } => clock_s = guest_s,
            Progress::Cost { cpu_s } if clock_s >= printed_s + 5.0 => {
                printed_s = clock_s;
                say(&format!("{clock_s:.0} s of the guest's time, {cpu_s:.1} s of CPU"));
            }
            Progress::Cost { .. } => {}
        },
        &stop,
    )?;
    if !quiet {
        say(&format!(
            "exit code {}; {:.2} s of the guest's time; {:.1} s of CPU ({:.1} to boot), {:.1} s wall-clock",
            outcome.code, outcome.guest_s, outcome.cpu_s, outcome.boot_cpu_s, outcome.wall_s
        ));
    }
    Ok(ExitCode::from(u8::try_from(outcome.code).unwrap_or(1)))
}

fn act(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Build { kernels, wireless, latest } => {
            let cache = Cache::open()?;
            let kernels = if kernels.is_empty() { Kernel::ALL.to_vec() } else { kernels };
            for kernel in kernels {
                let image =
                    Image::build(&cache, kernel, equipment(wireless), source(latest), &mut |text| say(text))?;
                say(&format!("{kernel}: {} is ready", image.made.kernel_package));
            }
        }
        Action::Run(words) => return run(words),
        Action::Test(words) => return test(words),
        Action::Cross { arch } => {
            let folder = yuzuri_vm::cross_libraries(&Cache::open()?, &arch, &mut |text| say(text))?;
            println!("{}", folder.display());
        }
        Action::Lock { file } => {
            let lock = yuzuri_vm::latest(&Cache::open()?, &mut |text| say(text))?;
            std::fs::write(&file, lock.text()).with_context(|| format!("writing {}", file.display()))?;
            say(&format!("wrote {}", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    act(Command::parse().action).unwrap_or_else(|error| yuzuri_exit::failed("yuzuri-vm", error.as_ref()))
}
