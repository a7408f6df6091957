//! `yuzuri why` with captures that do not show everything: it answers what they show, and reports
//! what is missing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two hosts, 20 ms apart.
const HOSTS: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
const ACK: u8 = 0x10;
const MS: u64 = 1000;

/// A TCP segment in a pcap record: time in microseconds, host that sends, numbers, payload.
fn packet(at_us: u64, from: usize, seq: u32, ack: u32, payload: u16) -> Vec<u8> {
    let length = 40 + payload;
    let mut bytes = Vec::new();
    let head = [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, length.into(), length.into()];
    head.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend([0x45, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(HOSTS[from]);
    bytes.extend(HOSTS[1 - from]);
    let ports: [u16; 2] = [40_000, 443];
    bytes.extend(ports[from].to_be_bytes());
    bytes.extend(ports[1 - from].to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, ACK, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.resize(bytes.len() + usize::from(payload), 0);
    bytes
}

/// Flights of two segments with their ACKs, each flight at the time that `at_us` gives.
fn transfer(at_us: impl Fn(u32) -> u64) -> Vec<[Vec<u8>; 3]> {
    let flight = |n: u32| {
        let (at, seq) = (at_us(n), 1 + n * 2000);
        [
            packet(at, 0, seq, 1, 1000),
            packet(at + 10, 0, seq + 1000, 1, 1000),
            packet(at + 20 * MS, 1, 1, seq + 2000, 0),
        ]
    };
    (0..100).map(flight).collect()
}

fn write(folder: &Path, packets: impl IntoIterator<Item = Vec<u8>>) -> PathBuf {
    let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    packets.into_iter().for_each(|packet| bytes.extend(packet));
    let file = folder.join("a.pcap");
    std::fs::write(&file, bytes).unwrap();
    file
}

fn why(file: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_yuzuri")).arg("why").arg(file).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_capture_of_one_direction_has_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let all = || transfer(|n| 1_000_000 + u64::from(n) * 21 * MS);
    let data = write(folder.path(), all().into_iter().flat_map(|[a, b, _]| [a, b]));
    let (code, answer, notes) = why(&data);
    assert_eq!((code, answer.as_str()), (Some(3), ""), "{notes}");
    assert!(notes.contains("1 connection captured in one direction only"), "{notes}");
    let acks = write(folder.path(), all().into_iter().map(|[_, _, ack]| ack));
    assert_eq!(why(&acks).0, Some(3));
    let (code, answer, notes) = why(&write(folder.path(), all().into_iter().flatten()));
    assert_eq!(code, Some(0), "{answer}{notes}");
    assert!(answer.contains(" of the time, ") && !notes.contains("direction"), "{answer}{notes}");
}

#[test]
fn a_capture_that_ends_early_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), transfer(|n| 1_000_000 + u64::from(n) * 21 * MS).into_iter().flatten());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let (code, answer, notes) = why(&file);
    assert_eq!(code, Some(1), "{answer}{notes}");
    assert!(
        answer.contains(" of the time, ") && notes.contains("it ends within the packet at byte"),
        "{notes}"
    );
}

#[test]
fn a_clock_step_is_not_attributed_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    // The clock steps an hour forwards within a flight, and back.
    let hour = 3_600_000_000;
    let mut flights = transfer(|n| 1_000_000 + u64::from(n) * 21 * MS + if n > 60 { hour } else { 0 });
    let [_, _, ack] = &mut flights[60];
    *ack = packet(1_000_000 + 61 * 21 * MS - 500 + hour, 1, 1, 1 + 61 * 2000, 0);
    let back = transfer(|n| 1_000_000 + u64::from(n) * 21 * MS).into_iter().skip(98);
    let file = write(folder.path(), flights.into_iter().take(98).chain(back).flatten());
    let (code, answer, notes) = why(&file);
    assert_eq!(code, Some(0), "{answer}{notes}");
    assert!(answer.contains("100 % of the time, the capture does not show what limits it"), "{answer}");
    assert!(notes.contains("its clock went back once, by up to"), "{notes}");
}
