//! The program `yuzuri-identify`, which `yuzuri identify` runs: identifies congestion control
//! algorithms in files.

mod screen;

use clap::{CommandFactory, Parser};
use screen::Screen;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use yuzuri_exit::{UsageError, stop_flag, stopped};
use yuzuri_identify::analyse::Options;
use yuzuri_identify::batch::{self, Plan};
use yuzuri_identify::columns::Tables;
use yuzuri_identify::error::IdentifyError;
use yuzuri_identify::html::HtmlReport;
use yuzuri_identify::json::{self, Document};
use yuzuri_identify::live::Live;
use yuzuri_identify::table::{self, Table};
use yuzuri_identify::xplot::Folder;
use yuzuri_trace::Filter;

/// Thousands of flows grow their tables at the same time. This allocator packs them more densely
/// than the system's, which makes tracking a fifth faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes:
  0    all files were read, and at least one flow was identified (or no flow had enough data)
  1    a file could not be read or has an unsupported format; the other files were analysed
  2    usage error
  3    flows were analysed, but none was identified
  130  stopped by Ctrl-C; the results so far were printed";

/// Identify congestion control algorithms and their parameters in captures, recordings and logs
#[derive(Debug, Parser)]
#[command(name = "yuzuri-identify", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Identify {
    /// Captures (pcap, pcapng, snoop, ERF), recordings (*.arrows), tcp_probe traces or output of
    /// `ss -ti`, also compressed with gzip, zstd or xz; folders of these; - for standard input
    #[arg(required_unless_present_any = ["completions", "man"], value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,

    /// Include every round in the JSON
    #[arg(long, requires = "json", conflicts_with = "live")]
    all_rounds: bool,

    /// Write an HTML report with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write a time-sequence graph of each flow of a capture to this folder, for xplot (*.xpl)
    #[arg(long, value_name = "FOLDER")]
    xplot: Option<PathBuf>,

    /// Write flows.parquet and rounds.parquet to this folder
    #[arg(long, value_name = "FOLDER")]
    parquet: Option<PathBuf>,

    /// Only analyse these flows: port:N, addr:ADDRESS[/BITS]; lport: and laddr: match the sender,
    /// rport: and raddr: the receiver
    #[arg(long, value_name = "FILTER")]
    flow: Vec<String>,

    /// Include flows with little data
    #[arg(long)]
    all: bool,

    /// Minimum number of segments that a direction must have sent to be analysed
    #[arg(long, value_name = "COUNT", default_value_t = 100, conflicts_with = "all")]
    min_segments: u64,

    /// Report results as they change, while the file is still being written:
    /// `tcpdump -w - | yuzuri identify --live -`
    ///
    /// With --json, each change and each flow's final result is a line of JSON; no document is
    /// printed.
    #[arg(long)]
    live: bool,

    /// Number of threads, used for several files at once and for the flows of one capture
    /// [default: number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Print no table and no progress
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,

    /// Print the completion script for this shell
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<yuzuri_manual::Shell>,

    /// Show the manual page
    #[arg(long, exclusive = true)]
    man: bool,
}

fn main() -> ExitCode {
    let args = Identify::parse();
    let result = match args.completions {
        Some(shell) => {
            yuzuri_manual::print(&yuzuri_manual::completions(Identify::command(), shell)).map_err(Into::into)
        }
        None if args.man => manual(),
        None => return run(&args).unwrap_or_else(failed),
    };
    result.map_or_else(failed, |()| ExitCode::SUCCESS)
}

fn failed(error: anyhow::Error) -> ExitCode {
    yuzuri_exit::failed_unless_unread("yuzuri-identify", error.as_ref())
}

fn manual() -> anyhow::Result<()> {
    let page = yuzuri_manual::page::<&str>(Identify::command(), &[])?;
    Ok(yuzuri_manual::show(&page)?)
}

/// Reports results as they change: as text on standard error, or as JSON lines on standard output.
fn listener(as_json: bool, quiet: bool) -> Live {
    Live::new(move |flow| {
        if as_json {
            // A closed output is reported at the end.
            let _ = json::line(flow, false).map(|line| print(&line));
        } else if !quiet {
            yuzuri_exit::note!("{}", table::news(&flow));
        }
    })
}

/// Writes a line as a whole.
fn print(line: &str) -> Result<(), IdentifyError> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(IdentifyError::Closed)
}

fn run(args: &Identify) -> anyhow::Result<ExitCode> {
    let filter: Filter =
        args.flow.join(" ").parse().map_err(|error| UsageError::new(format!("--flow: {error}")))?;
    let stop = stop_flag()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = args.jobs.map_or(cores, usize::from);
    let plan = Plan::of(&args.files);
    let options = Options {
        min_segments: if args.all { 1 } else { args.min_segments },
        filter,
        rounds: args.all_rounds || args.html.is_some() || args.parquet.is_some(),
        spill: args.json
            && !args.live
            && args.html.is_none()
            && args.parquet.is_none()
            && args.xplot.is_none(),
        sequences: args.html.is_some() || args.xplot.is_some(),
        threads: jobs / plan.entries.len().clamp(1, jobs),
        live: args.live.then(|| listener(args.json, args.quiet)),
    };
    // A progress bar and printed lines would overwrite each other.
    let screen = Screen::new(&plan, args.quiet || args.live);
    let mut table = Table::default();
    let out = BufWriter::new(std::io::stdout());
    let mut json = if args.json && !args.live { Some(Document::new(out, args.all_rounds)?) } else { None };
    let mut page = args.html.as_deref().map(HtmlReport::new).transpose()?;
    let mut graphs = args.xplot.as_deref().map(Folder::new).transpose()?;
    let mut tables = args.parquet.as_deref().map(Tables::new).transpose()?;
    let totals = batch::run(&plan, &options, jobs, &stop, &screen, |mut report| {
        if let Some(error) = &report.error {
            screen.line(&format!("yuzuri-identify: {error}"));
        }
        if let Some(json) = &mut json {
            json.add(&mut report)?;
        }
        if let Some(page) = &mut page {
            page.add(&report)?;
        }
        if let Some(graphs) = &mut graphs {
            graphs.add(&report)?;
        }
        if let Some(tables) = &mut tables {
            tables.add(&report)?;
        }
        if !args.json {
            table.add(&report);
        }
        if args.live && args.json {
            for flow in report.flows {
                print(&json::line(flow, true)?)?;
            }
        }
        Ok(())
    });
    screen.clear();
    let totals = totals?;
    if let Some(json) = json {
        json.finish(&totals)?;
    }
    if let Some(page) = page {
        page.finish(&totals)?;
    }
    if let Some(tables) = tables {
        tables.finish()?;
    }
    if graphs.is_some_and(|graphs| graphs.graphs() == 0) {
        yuzuri_exit::note!(
            "yuzuri-identify: --xplot: no flow of a capture had enough data for a graph (--all includes \
             smaller flows)"
        );
    }
    if !args.json && !args.quiet {
        let out = std::io::stdout();
        let width = out.is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        out.lock().write_all(table.text(width).as_bytes())?;
    }
    if stopped(&stop) {
        let all = plan.entries.len();
        yuzuri_exit::note!(
            "yuzuri-identify: stopped; read to their end: {} of {}",
            totals.files + totals.others,
            yuzuri_stats::counted(all, "file")
        );
        return Ok(ExitCode::from(130));
    }
    Ok(match (totals.failed, totals.flows, totals.named) {
        (1.., ..) => ExitCode::from(1),
        (_, 1.., 0) => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

#[cfg(test)]
#[path = "../../../tests/docs.rs"]
mod docs;

#[cfg(test)]
mod documented {
    use super::*;

    /// As `yuzuri identify` passes the arguments on.
    #[test]
    fn every_command_line_in_the_documentation_is_accepted() {
        docs::assert_accepted::<Identify>(Some("identify"), 5);
    }
}
