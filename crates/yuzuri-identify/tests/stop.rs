//! Ctrl-C while a file is read that gives no results for a long time.

#![allow(clippy::unwrap_used)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use yuzuri_capture::{Framing, PcapWriter};

/// Far more than is read before the signal takes effect.
const FILE_BYTES: u64 = 64 << 30;

/// A sparse file that is almost endless and takes no disk space.
fn with_nothing(path: &Path, beginning: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(beginning).unwrap();
    file.set_len(FILE_BYTES).unwrap();
}

/// Bytes that a process has read.
fn read_bytes(id: u32) -> u64 {
    let counts = std::fs::read_to_string(format!("/proc/{id}/io")).unwrap();
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn a_stop_interrupts_any_reading() {
    let folder = tempfile::tempdir().unwrap();
    // Packets of no bytes, which hold no TCP.
    let capture = PcapWriter::new(Vec::new(), Framing::Ethernet, 96).unwrap().into_inner();
    with_nothing(&folder.path().join("none.pcap"), &capture);
    // Lines, each too long.
    let log = b"ESTAB 0 0 10.0.0.1:80 10.0.0.2:4000\n\t cubic wscale:7,7 rto:204 rtt:3/1 mss:1448 cwnd:10\n";
    with_nothing(&folder.path().join("ss.log"), log);

    for words in
        [&["none.pcap", "--jobs", "1"][..], &["none.pcap", "--jobs", "2"], &["-", "--jobs", "2"], &["ss.log"]]
    {
        let file = || OpenOptions::new().read(true).open(folder.path().join("none.pcap")).unwrap();
        let stdin = if words[0] == "-" { Stdio::from(file()) } else { Stdio::null() };
        let program = env!("CARGO_BIN_EXE_yuzuri-identify");
        let mut command = Command::new(program);
        command.args(words).current_dir(folder.path()).stdin(stdin);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // It is reading, and installed its signal handler long before.
        while read_bytes(child.id()) < 16 << 20 {
            assert_eq!(child.try_wait().unwrap(), None, "{words:?}");
            std::thread::yield_now();
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{words:?}: {messages}");
        assert!(messages.contains("read to their end: 0 of 1 file"), "{words:?}: {messages}");
    }
}
