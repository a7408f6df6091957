//! A named network namespace, removed on drop.

use crate::LabError;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAMED: &str = "/run/netns";

/// A network namespace in `/run/netns`, so that `ip netns exec NAME ...` can inspect a running
/// experiment.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    inode: u32,
}

impl Namespace {
    /// Creates namespaces with these names.
    ///
    /// # Errors
    /// Without root, or without iproute2.
    pub fn create(names: &[String]) -> Result<Vec<Namespace>, LabError> {
        let commands: String = names.iter().map(|name| format!("netns add {name}\n")).collect();
        // Constructed before the namespaces exist, so that whatever was created is removed in any
        // case.
        let mut made: Vec<Namespace> =
            names.iter().map(|name| Namespace { name: name.clone(), inode: 0 }).collect();
        ip(&["-batch", "-"], &commands)?;
        for namespace in &mut made {
            use std::os::unix::fs::MetadataExt;
            let path = namespace.path();
            let meta = std::fs::metadata(&path).map_err(LabError::file(&path))?;
            namespace.inode = meta.ino() as u32;
        }
        Ok(made)
    }

    /// Its name in `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its inode number; the field `netns` of recordings.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    fn path(&self) -> PathBuf {
        Path::new(NAMED).join(&self.name)
    }

    /// Runs iproute2 commands, one per line, inside the namespace.
    ///
    /// # Errors
    /// If `ip` fails, with its message.
    pub fn configure(&self, commands: &str) -> Result<(), LabError> {
        ip(&["-n", &self.name, "-batch", "-"], commands)
    }

    /// Runs `tc` commands, one per line, inside the namespace.
    ///
    /// # Errors
    /// Without the tool, or if the kernel rejects a command.
    pub fn traffic(&self, commands: &str) -> Result<(), LabError> {
        tool("tc", &["-n", &self.name, "-batch", "-"], commands)
    }

    /// Moves the calling thread into the namespace permanently; for threads created for that
    /// purpose.
    ///
    /// # Errors
    /// Without root.
    pub fn enter(&self) -> Result<(), LabError> {
        self.handle()?.enter()
    }

    /// A handle for a thread that cannot borrow the namespace. The kernel keeps the namespace as
    /// long as a handle exists.
    ///
    /// # Errors
    /// If the namespace is gone.
    pub fn handle(&self) -> Result<NamespaceHandle, LabError> {
        let path = self.path();
        let file = File::open(&path).map_err(LabError::file(&path))?;
        Ok(NamespaceHandle { name: self.name.clone(), file })
    }

    /// Runs a closure on a separate thread inside the namespace; sockets and devices that it
    /// creates remain there.
    ///
    /// # Errors
    /// As [`Namespace::enter`].
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| f()));
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets kernel parameters (`net.ipv4.tcp_ecn`) inside the namespace.
    ///
    /// # Errors
    /// If a parameter does not exist or the kernel rejects its value.
    pub fn set<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, &'a str)> + Send,
    ) -> Result<(), LabError> {
        self.inside(|| {
            for (name, value) in values {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                std::fs::write(&path, value).map_err(|e| {
                    LabError::Run(format!("setting {name} = {value} in {}: {e} ({path})", self.name))
                })?;
            }
            Ok(())
        })?
    }
}

/// A handle of a namespace; see [`Namespace::handle`].
#[derive(Debug)]
pub struct NamespaceHandle {
    name: String,
    file: File,
}

impl NamespaceHandle {
    /// As [`Namespace::enter`].
    ///
    /// # Errors
    /// Without root.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::network(format!("entering network namespace {}", self.name)))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.path().exists() {
            let _ = ip(&["netns", "del", &self.name], "");
        }
    }
}

/// The namespaces with this name prefix.
pub(super) fn names(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

/// Removes every namespace with this name prefix; returns their names.
pub(super) fn remove_all(prefix: &str) -> Result<Vec<String>, LabError> {
    let names = names(prefix);
    if !names.is_empty() {
        let commands: String = names.iter().map(|name| format!("netns del {name}\n")).collect();
        ip(&["-batch", "-"], &commands)?;
    }
    Ok(names)
}

fn ip(args: &[&str], commands: &str) -> Result<(), LabError> {
    tool("ip", args, commands)
}

/// Runs a tool of iproute2 with commands on its standard input.
fn tool(name: &str, args: &[&str], commands: &str) -> Result<(), LabError> {
    let missing = |e: io::Error| {
        LabError::Tool(format!(
            "`{name}` cannot be run: {e}; install iproute2 (Debian, Ubuntu: apt install iproute2)"
        ))
    };
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it exits early, its own message gives the reason.
        let _ = stdin.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = if said.contains("not permitted") || said.contains("Permission denied") {
        "; the lab makes network namespaces: run it as root"
    } else {
        ""
    };
    let commands = commands.trim().replace('\n', "; ");
    Err(LabError::Tool(format!("{name} {} ({commands}): {}{hint}", args.join(" "), said.trim())))
}
