//! The program under test, and its auxiliary processes.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use yuzuri_testnet::{Net, Side, eventually};

pub const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

pub fn yuzuri(args: &[&str]) -> Output {
    Command::new(YUZURI).args(args).stdin(Stdio::null()).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line of an error.
pub fn error(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    let text = text(&output.stderr);
    assert!(!text.contains("panicked"), "{text}");
    text
}

pub fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("{test}: skipped: it needs root");
    }
    root
}

pub fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A pipe whose reader has stopped.
pub fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A child process that ends with the test, however the test ends.
pub struct Running(pub Child, pub Option<JoinHandle<Vec<u8>>>);

impl Running {
    /// Starts it and reads its standard output, so that it never blocks on us.
    pub fn start(command: &mut Command) -> Running {
        let mut child = spawn(command);
        let mut stdout = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Running(child, Some(reading))
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Reads standard error up to a line that contains `words`.
    pub fn wait_for_message(&mut self, words: &str) -> String {
        let stderr = self.0.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 {
            if byte[0] == b'\n' {
                let messages = text(&line);
                if messages.contains(words) {
                    return messages;
                }
                line.clear();
            } else {
                line.push(byte[0]);
            }
        }
        panic!("ended without saying '{words}'");
    }

    pub fn end(mut self) -> Output {
        let mut stderr = Vec::new();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        let stdout = self.1.take().unwrap().join().unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A receiver at B, listening.
pub fn receiver(net: &Net) -> Running {
    receiver_with(net, &[])
}

pub fn receiver_with(net: &Net, more: &[&str]) -> Running {
    let receiver = Running::start(net.command(Side::B, YUZURI).args(["receive", "--json"]).args(more));
    let to = (net.v4(Side::B), 4950).into();
    let listens = || TcpStream::connect_timeout(&to, std::time::Duration::from_secs(1)).is_ok();
    assert!(net.inside(Side::A, || eventually(listens)));
    receiver
}

/// Sends buffers of 100 kB from A to B with CUBIC.
pub fn send(net: &Net, buffers: u32) -> Output {
    let buffers = buffers.to_string();
    let to = net.v4(Side::B).to_string();
    let args = ["send", "--json", "--control", "cubic", "--buffer", "100k", "--buffers", &buffers, &to];
    net.command(Side::A, YUZURI).args(args).output().unwrap()
}

pub fn json_lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

pub fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// A file system of a few pages.
pub struct SmallDisk(pub tempfile::TempDir);

impl SmallDisk {
    pub fn mount() -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "none"])
            .arg(folder.path())
            .status();
        assert!(made.unwrap().success());
        SmallDisk(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
