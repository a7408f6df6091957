//! A sharing daemon in a namespace, and the program under test.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use crate::cell::{Cell, Traffic};
use parking_lot::Mutex;
use serde_json::Value;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use yuzuri_testnet::eventually;

pub const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

pub fn yuzuri(words: &[&str]) -> Output {
    Command::new(YUZURI).args(words).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A daemon in a host's namespace with its own folders; killed when dropped.
pub struct Daemon {
    pub child: Child,
    pub runtime: PathBuf,
    pub messages: Arc<Mutex<String>>,
}

impl Daemon {
    pub fn spawn(cell: &Cell, host: u32, folder: &Path, words: &[&str]) -> Daemon {
        let runtime = folder.join("run");
        let mut command = cell.command(host, YUZURI);
        command.args(["share", "--runtime"]).arg(&runtime).arg("--state").arg(folder.join("state"));
        command.args(words).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let messages = Arc::new(Mutex::new(String::new()));
        let (lines, into) = (BufReader::new(child.stderr.take().unwrap()), messages.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut messages = into.lock();
                messages.push_str(&line);
                messages.push('\n');
            }
        });
        Daemon { child, runtime, messages }
    }

    /// As [`Daemon::spawn`], and waits until it shares. `None`, with a printed reason, if the
    /// kernel does not allow struct_ops.
    pub fn or_skip(test: &str, cell: &Cell, folder: &Path, words: &[&str]) -> Option<Daemon> {
        let mut daemon = Daemon::spawn(cell, 1, folder, words);
        let ended = |daemon: &mut Daemon| daemon.child.try_wait().unwrap().is_some();
        assert!(eventually(|| daemon.reported("sharing;") || ended(&mut daemon)), "{}", daemon.all());
        if ended(&mut daemon) {
            assert!(
                daemon.reported("not permitted") || daemon.reported("it needs struct_ops"),
                "{}",
                daemon.all()
            );
            println!("{test}: skipped: {}", daemon.all());
            return None;
        }
        Some(daemon)
    }

    pub fn all(&self) -> String {
        self.messages.lock().clone()
    }

    pub fn reported(&self, words: &str) -> bool {
        self.messages.lock().contains(words)
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        // `ip netns exec` becomes the program, so the child process is the daemon itself.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn ask(&self, words: &[&str]) -> Output {
        let runtime = self.runtime.to_str().unwrap();
        let (verb, rest) = words.split_first().unwrap();
        yuzuri(&[&["share", verb, "--runtime", runtime], rest].concat())
    }

    pub fn status(&self) -> Value {
        let output = self.ask(&["status", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn flow(&self, traffic: &Traffic) -> Option<Value> {
        let local = traffic.local().to_string();
        let status = self.status();
        let flows = status["interfaces"].as_array()?.iter().filter_map(|i| i["flows"].as_array()).flatten();
        flows.into_iter().find(|flow| flow["local"] == local.as_str()).cloned()
    }

    pub fn until_rule(&self, traffic: &Traffic, rules: &[&str]) -> Value {
        let mut found = None;
        let is = |flow: &Value| rules.iter().any(|rule| flow["rule"] == *rule) && flow["obeys"] == true;
        let seen = eventually(|| {
            found = self.flow(traffic).filter(is);
            found.is_some()
        });
        assert!(seen, "never {rules:?}: {:#}\n{}", self.status(), self.all());
        found.unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
