//! The capabilities and users with which the program works: with capabilities on the file, and as
//! in the service's unit.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../yuzuri-share/tests/cell/mod.rs"]
mod cell;

use cell::{Cell, control_name};
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use yuzuri_testnet::eventually;

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/yuzuri-share.service");
const AP_UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/yuzuri-ap.service");
/// An unprivileged user; any user but root would do.
const NOBODY: u32 = 65534;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a program can be executed; prints a note if not.
fn has(test: &str, program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_err() {
        println!("{test}: skipped: {program} is not installed");
    }
    there.is_ok()
}

/// The values of a setting of the unit, from all of its lines.
fn unit(setting: &str) -> Vec<String> {
    let unit = std::fs::read_to_string(UNIT).unwrap();
    let values = unit.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

#[test]
fn the_units_have_the_documented_exposure() {
    const TEST: &str = "the_units_have_the_documented_exposure";
    // Tenths, of at most 10.0.
    const MAX_EXPOSURE_TENTHS: &str = "15";
    if !has(TEST, "systemd-analyze") {
        return;
    }
    for unit in [UNIT, AP_UNIT] {
        let words = ["security", "--no-pager", "--offline=true", "--threshold", MAX_EXPOSURE_TENTHS, unit];
        let output = Command::new("systemd-analyze").args(words).output().unwrap();
        let messages = text(&output.stdout) + &text(&output.stderr);
        if messages.contains("unrecognized option") {
            println!("{TEST}: skipped: systemd-analyze is older than 250: {messages}");
            return;
        }
        let costs: Vec<&str> = messages.lines().filter(|line| !line.starts_with('\u{2713}')).collect();
        assert!(output.status.success(), "{}", costs.join("\n"));
        println!("{TEST}: {}", messages.lines().last().unwrap());
    }
}

/// A copy of the program that this user may execute, with capabilities on it; `None`, with a
/// printed reason, if files cannot have any.
fn copy_with(test: &str, folder: &Path, capabilities: &str) -> Option<PathBuf> {
    let copy = folder.join("yuzuri");
    std::fs::copy(YUZURI, &copy).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let set = Command::new("setcap").arg(format!("{capabilities}+ep")).arg(&copy).output();
    match set {
        Ok(output) if output.status.success() => Some(copy),
        other => {
            println!("{test}: skipped: setcap: {other:?}");
            None
        }
    }
}

/// A command only in a host's network namespace: `ip netns exec` mounts /sys again, without control
/// groups.
fn inside(cell: &Cell, host: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", cell.name(host))).arg(program);
    command
}

/// A command at a host, as nobody.
fn as_nobody(cell: &Cell, host: u32, program: &Path) -> Command {
    let mut command = inside(cell, host, "setpriv");
    command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
    command.arg(program).stdin(Stdio::null());
    command
}

/// A process that ends with the test, however the test ends.
struct Ended(Option<Child>);

impl Ended {
    fn end(mut self) -> Output {
        let child = self.0.take().unwrap();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn watch_needs_three_capabilities_and_not_root() {
    const TEST: &str = "watch_needs_three_capabilities_and_not_root";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let capabilities = "cap_bpf,cap_perfmon,cap_syslog";
    let Some(copy) = copy_with(TEST, folder.path(), capabilities) else { return };
    let traffic = cell.traffic(1);
    let filter = format!("lport:{}", traffic.local().port());
    // Root knows whether this kernel supports the monitor.
    let by_root = cell.command(1, YUZURI).args(["watch", &filter, "--json", "--for", "2s"]).output().unwrap();
    if text(&by_root.stderr).contains("SAMPLED") {
        println!("{TEST}: skipped: {}", text(&by_root.stderr));
        return;
    }
    let watch =
        as_nobody(&cell, 1, &copy).args(["watch", &filter, "--json", "--for", "4s"]).output().unwrap();
    let messages = text(&watch.stderr);
    assert!(watch.status.success() && !messages.contains("SAMPLED"), "{messages}");
    let lines: Vec<Value> =
        text(&watch.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert!(of("sample") > 10, "{} samples: {messages}", of("sample"));
    // CAP_SYSLOG: places are named after functions of the kernel.
    assert!(!messages.contains("kallsyms"), "{messages}");
    // With fewer capabilities the program fails, and reports which are missing.
    let Some(copy) = copy_with(TEST, folder.path(), "cap_bpf") else { return };
    let watch =
        as_nobody(&cell, 1, &copy).args(["watch", &filter, "--json", "--for", "1s"]).output().unwrap();
    let messages = text(&watch.stderr);
    assert!(messages.contains("SAMPLED") || messages.contains("not permitted"), "{messages}");
}

/// A daemon at host 1 that runs as nobody and owns its folders.
fn daemon(folder: &Path, mut command: Command) -> (Ended, PathBuf) {
    let runtime = folder.join("run");
    for path in [&runtime, &folder.join("state")] {
        std::fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    command.args(["share", "--keyless", "--control", &control_name(), "--runtime"]).arg(&runtime);
    command.arg("--state").arg(folder.join("state"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    (Ended(Some(child)), runtime)
}

fn status(runtime: &Path) -> Option<Value> {
    let words = ["share", "status", "--json", "--runtime", runtime.to_str().unwrap()];
    let output = Command::new(YUZURI).args(words).output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Asserts that the daemon shares as nobody without a missing privilege, and that nobody owns all
/// files that it leaves.
fn shares_as_nobody(test: &str, cell: &Cell, folder: &Path, command: Command) {
    let traffic = cell.traffic(1);
    let (mut daemon, runtime) = daemon(folder, command);
    let ended = |daemon: &mut Ended| daemon.0.as_mut().unwrap().try_wait().unwrap().is_some();
    assert!(eventually(|| status(&runtime).is_some() || ended(&mut daemon)));
    if ended(&mut daemon) {
        let output = daemon.0.take().unwrap().wait_with_output().unwrap();
        let messages = text(&output.stderr);
        assert!(messages.contains("needs struct_ops"), "{test}: {messages}");
        println!("{test}: skipped: {messages}");
        return;
    }
    let local = traffic.local().to_string();
    let bounded = || {
        let status = status(&runtime)?;
        assert_eq!((&status["steers"], &status["new_flows_wait"]), (&Value::Bool(true), &Value::Null));
        let flows = status["interfaces"].as_array()?.iter().filter_map(|i| i["flows"].as_array()).flatten();
        flows.into_iter().find(|flow| flow["local"] == local.as_str() && flow["obeys"] == true).cloned()
    };
    assert!(eventually(|| bounded().is_some_and(|flow| flow["bound"]["upper"].as_u64().unwrap() > 0)));
    let pid = daemon.0.as_ref().unwrap().id();
    let lines = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert!(lines.contains(&format!("{set}:\t0000000000000000")), "{lines}");
    }
    assert!(lines.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")), "{lines}");
    let found = |path: PathBuf| {
        let meta = path.symlink_metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (meta.uid(), meta.mode() & 0o777)
    };
    assert_eq!(found(runtime.join("share.sock")), (NOBODY, 0o660));
    assert_eq!(found(runtime.join("share.lock")).0, NOBODY);
    assert_eq!(found(folder.join("state/node")).0, NOBODY);
    let output = daemon.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(found(runtime.join("share.migrated")).0, NOBODY);
    assert!(!runtime.join("share.sock").exists());
}

#[test]
fn the_daemon_works_as_a_user_of_its_own_with_what_the_unit_gives_it() {
    const TEST: &str = "the_daemon_works_as_a_user_of_its_own_with_what_the_unit_gives_it";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    if !has(TEST, "setpriv") {
        return;
    }
    assert_eq!(unit("AmbientCapabilities"), unit("CapabilityBoundingSet"));
    let given: Vec<String> = unit("AmbientCapabilities")
        .iter()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let sets = format!("-all,{}", given.join(","));
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("yuzuri");
    std::fs::copy(YUZURI, &copy).unwrap();
    let mut command = inside(&cell, 1, "setpriv");
    command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
    command.args(["--bounding-set", &sets, "--inh-caps", &sets, "--ambient-caps", &sets, "--no-new-privs"]);
    command.arg(&copy);
    shares_as_nobody(TEST, &cell, folder.path(), command);
}

#[test]
fn share_works_with_capabilities_on_the_file() {
    const TEST: &str = "share_works_with_capabilities_on_the_file";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(copy) = copy_with(TEST, folder.path(), "cap_bpf,cap_perfmon,cap_net_admin") else { return };
    let command = as_nobody(&cell, 1, &copy);
    shares_as_nobody(TEST, &cell, folder.path(), command);
}

/// The socket path at which the client looks for the daemon, from its error.
fn socket(mut command: Command) -> String {
    let output = command.args(["share", "status"]).output().unwrap();
    let messages = text(&output.stderr);
    let place = messages.split("asking the daemon at ").nth(1).unwrap_or_else(|| panic!("{messages}"));
    place.split(':').next().unwrap().to_owned()
}

#[test]
fn status_finds_the_folder_of_the_namespace_with_and_without_privilege() {
    const TEST: &str = "status_finds_the_folder_of_the_namespace_with_and_without_privilege";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("yuzuri");
    std::fs::copy(YUZURI, &copy).unwrap();
    let by_root = [1, 2].map(|host| socket(cell.command(host, copy.to_str().unwrap())));
    let by_nobody = [1, 2].map(|host| socket(as_nobody(&cell, host, &copy)));
    assert_eq!(by_root, by_nobody);
    assert_ne!(by_root[0], by_root[1]);
    assert!(by_root[0].contains("/netns-"), "{by_root:?}");
    // In a container, process 1 is the container's own and in its namespace.
    let contained = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--pid", "--fork", "--mount-proc"]).arg(&copy);
        socket(command)
    };
    assert!(contained().contains("/netns-"), "{}", contained());
}
