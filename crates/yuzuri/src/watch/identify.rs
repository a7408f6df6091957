//! Verdicts while watching: `yuzuri-identify` reads from a pipe the stream that a recording would
//! contain.

use crate::program;
use anyhow::Context;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;
use yuzuri_trace::recording::PipeWriter;
use yuzuri_trace::{Item, Session};
use yuzuri_watch::Sink;

/// Feeds the program that identifies congestion control algorithms.
pub struct Identify {
    child: Child,
    /// `None`: the program has ended, which was reported.
    pipe: Option<PipeWriter<ChildStdin>>,
    printing: JoinHandle<()>,
}

impl Identify {
    /// Starts the program. It prints verdicts as lines of JSON, or as text and a table at the end;
    /// with `quiet` only the table.
    pub fn start(session: &Session, json: bool, quiet: bool) -> anyhow::Result<Identify> {
        let mut child = program::spawn(program::IDENTIFY, program::IDENTIFY_IS, |command| {
            command.args(["--live", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            if json {
                command.arg("--json");
            }
            if quiet {
                command.stderr(Stdio::null());
            }
            // Only this program receives Ctrl-C. Its end closes the pipe, and the identifying
            // program then prints its last lines.
            command.process_group(0);
        })?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("opening its pipes")?;
        let printing = std::thread::spawn(move || {
            yuzuri_kernel::helper::drop_capabilities_of_thread();
            print(stdout);
        });
        let mut identify = Identify { child, pipe: None, printing };
        match PipeWriter::new(stdin, session) {
            Ok(pipe) => identify.pipe = Some(pipe),
            Err(error) => identify.note(Err(error)),
        }
        Ok(identify)
    }

    /// Watching continues if identification fails.
    fn note(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.pipe = None;
            yuzuri_exit::note!(
                "yuzuri: {} ended ({error}); watching continues without verdicts",
                program::IDENTIFY
            );
        }
    }
}

/// Copies complete lines to standard output, so that they do not interrupt those of the printer.
fn print(stdout: ChildStdout) {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let mut out = std::io::stdout().lock();
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

impl Sink for Identify {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        if let Some(pipe) = &mut self.pipe {
            let result = pipe.write(items, Instant::now());
            self.note(result);
        }
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        if let Some(pipe) = &mut self.pipe {
            let result = pipe.flush_due(Instant::now());
            self.note(result);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        if let Some(pipe) = self.pipe.take() {
            let result = pipe.finish().map(drop);
            self.note(result);
        }
        let status = self.child.wait().with_context(|| format!("waiting for {}", program::IDENTIFY))?;
        self.printing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Exit code 3: nothing could be identified, which the table shows.
        anyhow::ensure!(
            status.success() || status.code() == Some(3),
            "{} ended with {status}; its messages are above",
            program::IDENTIFY
        );
        Ok(())
    }
}
