//! Boots guests, runs programs and checks that results are copied and nothing is left behind. Needs
//! QEMU and a built image.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{ready, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use yuzuri_vm::{Guest, Kernel};

const KERNEL: Kernel = Kernel::Linux6_1Amd64;

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_program_runs_with_its_words_variables_and_libraries_and_its_results_come_out() {
    if !ready("a_program_runs", KERNEL) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("out, of it");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/text"), "handed in\n").unwrap();
    let script = r#"uname -r; printf '%s|' "$@" "$WORD"; echo
        mkdir /results/deeper; cp /data/text /results/deeper/; echo "it's out" > /results/file
        /root/here --list > /results/tests || exit 9
        exit 3"#;
    let outcome = run(&Guest::new(KERNEL)
        .file(folder.path().join("data"), "/data")
        // A dynamically linked host program: this test itself.
        .file(std::env::current_exe().unwrap(), "/root/here")
        .env("WORD", "a $variable 'of' \"mine\"")
        .program(["sh", "-c", script, "sh", "two words", "", "*"])
        .results(&results))
    .unwrap();
    assert_eq!(outcome.code, 3, "{}", outcome.output);
    let read = |name: &str| std::fs::read_to_string(results.join(name)).unwrap();
    assert_eq!((read("deeper/text").as_str(), read("file").as_str()), ("handed in\n", "it's out\n"));
    assert!(read("tests").contains("an_interrupt_and_a_kill_leave_no_guest_behind: test"));
    let about: serde_json::Value = serde_json::from_str(&read("vm.json")).unwrap();
    let release = about["image"]["release"].as_str().unwrap();
    assert_eq!(outcome.output, format!("{release}\ntwo words||*|a $variable 'of' \"mine\"|\n"));
    assert!(release.starts_with("6.1."), "{release}");
    assert_eq!(about["image"]["pinned"], true);
    assert_eq!(about["time"]["virtual"]["seed"], 1);
    assert_eq!(about["outcome"]["code"], 3);
    assert!(outcome.cpu_s > outcome.boot_cpu_s && outcome.boot_cpu_s > 0.0, "{outcome:?}");
}

#[test]
fn an_interrupt_and_a_kill_leave_no_guest_behind() {
    if !ready("an_interrupt_and_a_kill_leave_no_guest_behind", KERNEL) {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_yuzuri-vm"));
        command
            .args(["run", "--kernel", "6.1", "sleep", "100000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut ours = command.spawn().unwrap();
        let pid = ours.id();
        // Child processes of the main thread.
        let children = || -> Vec<u32> {
            let text =
                std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            text.split_whitespace().map(|p| p.parse().unwrap()).collect()
        };
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut qemu = None;
        let started = eventually(|| {
            // The first QEMU process only prints its version.
            qemu = children().into_iter().find(|child| {
                let words = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                words.contains("-initrd")
            });
            qemu.is_some()
        });
        assert!(started, "QEMU never started");
        let qemu = qemu.unwrap();
        let words = std::fs::read_to_string(format!("/proc/{qemu}/cmdline")).unwrap();
        let initrd = words.split('\0').skip_while(|w| *w != "-initrd").nth(1).unwrap();
        let folder = PathBuf::from(initrd).parent().unwrap().to_owned();
        kill(Pid::from_raw(pid as i32), signal).unwrap();
        let status = ours.wait().unwrap();
        assert!(!status.success());
        assert!(eventually(|| !name(qemu).starts_with("qemu")), "QEMU outlived {signal}");
        if signal == Signal::SIGINT {
            assert!(!folder.exists(), "{} was left behind", folder.display());
        }
        // After SIGKILL the next run removes the folder (tested in cache.rs). The test removes it
        // as well.
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[test]
fn a_program_for_another_architecture_is_refused_before_anything_boots() {
    if !ready("a_program_for_another_architecture_is_refused", Kernel::Linux6_1Arm64) {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let error =
        run(&Guest::new(Kernel::Linux6_1Arm64).file(own, "/root/x").program(["/root/x"])).unwrap_err();
    assert!(error.to_string().contains("build it for that architecture"), "{error}");
}

#[test]
#[ignore = "boots two guests: make test-kernels"]
fn a_panic_and_a_full_memory_are_reported() {
    if !ready("a_panic_and_a_full_memory_are_reported", KERNEL) {
        return;
    }
    let panic = Guest::new(KERNEL).program(["sh", "-c", "echo dying; echo c > /proc/sysrq-trigger; sleep 9"]);
    let error = run(&panic).unwrap_err().to_string();
    assert!(error.contains("kernel panicked") && error.contains("dying"), "{error}");
    // tail keeps every byte in memory.
    let eater = Guest::new(KERNEL).memory_mb(256).program(["sh", "-c", "tail /dev/zero"]);
    let error = run(&eater).unwrap_err().to_string();
    assert!(error.contains("ran out of memory") && error.contains("--memory"), "{error}");
    let long = Guest::new(KERNEL).program(["sleep", "1000000000"]).timeout(Duration::from_secs(1));
    let error = run(&long).unwrap_err().to_string();
    assert!(error.contains("had not finished after 1 s"), "{error}");
}
