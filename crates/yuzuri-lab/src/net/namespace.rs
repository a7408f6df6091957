//! A named network namespace, removed when dropped.

use crate::LabError;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAMED: &str = "/run/netns";

/// A network namespace in `/run/netns`, so that `ip netns exec NAME ...` can look into a running experiment.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    inode: u32,
}

impl Namespace {
    /// Makes namespaces of these names.
    ///
    /// # Errors
    /// Without root, or without iproute2.
    pub fn create(names: &[String]) -> Result<Vec<Namespace>, LabError> {
        let orders: String = names.iter().map(|name| format!("netns add {name}\n")).collect();
        // Made before they exist: what there is of them is removed whatever happens.
        let mut made: Vec<Namespace> =
            names.iter().map(|name| Namespace { name: name.clone(), inode: 0 }).collect();
        ip(&["-batch", "-"], &orders)?;
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

    /// Its inode number: what recordings call `netns`.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    fn path(&self) -> PathBuf {
        Path::new(NAMED).join(&self.name)
    }

    /// Gives iproute2 orders, one a line, that hold inside.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn configure(&self, orders: &str) -> Result<(), LabError> {
        ip(&["-n", &self.name, "-batch", "-"], orders)
    }

    /// Moves the calling thread into the namespace, for good: for threads made for this.
    ///
    /// # Errors
    /// Without root.
    pub fn enter(&self) -> Result<(), LabError> {
        self.door()?.enter()
    }

    /// A way in for a thread that may not borrow the namespace. The kernel keeps the namespace as long as there is one.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn door(&self) -> Result<Door, LabError> {
        let path = self.path();
        let file = File::open(&path).map_err(LabError::file(&path))?;
        Ok(Door { name: self.name.clone(), file })
    }

    /// Runs a closure inside, on a thread of its own: sockets and devices it makes stay there.
    ///
    /// # Errors
    /// As [`Namespace::enter`].
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| f()));
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets kernel parameters (`net.ipv4.tcp_ecn`) inside.
    ///
    /// # Errors
    /// Where there is no such parameter, or the value is refused.
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

/// See [`Namespace::door`].
#[derive(Debug)]
pub struct Door {
    name: String,
    file: File,
}

impl Door {
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

/// The namespaces whose name begins so.
pub(super) fn names(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

/// Removes every namespace whose name begins so; tells their names.
pub(super) fn remove_all(prefix: &str) -> Result<Vec<String>, LabError> {
    let names = names(prefix);
    if !names.is_empty() {
        let orders: String = names.iter().map(|name| format!("netns del {name}\n")).collect();
        ip(&["-batch", "-"], &orders)?;
    }
    Ok(names)
}

/// Runs `ip` with orders on its standard input.
fn ip(args: &[&str], orders: &str) -> Result<(), LabError> {
    let missing = |e: io::Error| {
        LabError::Tool(format!(
            "`ip` cannot be run: {e}; install iproute2 (Debian, Ubuntu: apt install iproute2)"
        ))
    };
    let mut command = Command::new("ip");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Where `ip` ends early its own words say why.
        let _ = stdin.write_all(orders.as_bytes());
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
    let orders = orders.trim().replace('\n', "; ");
    Err(LabError::Tool(format!("ip {} ({orders}): {}{hint}", args.join(" "), said.trim())))
}
