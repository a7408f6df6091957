//! Tests of the report formats, which are part of the interface: programs read the JSON lines,
//! people read the tables.
#![allow(clippy::unwrap_used)]

use yuzuri_transfer::{
    Both, Buffer, BufferSource, Connected, ConnectionSummary, End, FailureKind, JsonLines, Note, Progress,
    ReceiveEvent, ReceiveSummary, ReceiveText, Received, Report, SendEvent, SendSummary, SendText, Shared,
    ThroughputSpread, WarningKind,
};

fn buffer() -> Buffer {
    Buffer {
        connection: 0,
        index: 4,
        bytes: 1_000_000,
        complete: true,
        first_write_mono_ns: 5_000_000_000,
        first_write_unix_ns: 1_700_000_000_000_000_000,
        sent_mono_ns: Some(5_600_000_000),
        wire_mono_ns: Some(5_610_000_000),
        acked_mono_ns: 5_700_000_000,
        throughput_bps: 11_428_571,
        carried_bps: 11_900_000,
        cwnd: 42,
        ssthresh: None,
        srtt_us: Some(20_500),
        min_rtt_us: Some(20_000),
        ca_state: "open",
        delivery_rate_bps: 11_800_000,
        total_retrans: 3,
        source: BufferSource::Timestamps,
        clock_stepped: false,
    }
}

fn summary() -> SendSummary {
    let per_buffer =
        Some(ThroughputSpread { min_bps: 9_000_000, median_bps: 11_000_000, max_bps: 12_000_000 });
    SendSummary {
        bytes_acked: 5_000_000,
        bytes_unacknowledged: 1448,
        buffers: 5,
        duration_ns: 3_500_000_000,
        throughput_bps: 11_428_571,
        per_buffer,
        total_retrans: 3,
        stopped: true,
        connections: vec![ConnectionSummary {
            connection: 0,
            cookie: 4117,
            local: "192.0.2.1:40000".parse().unwrap(),
            peer: "[2001:db8::2]:4950".parse().unwrap(),
            congestion_control: "cubic".to_owned(),
            bytes_acked: 5_000_000,
            bytes_unacknowledged: 1448,
            buffers: 5,
            buffers_by_tcp_info: 1,
            duration_ns: 3_500_000_000,
            throughput_bps: 11_428_571,
            per_buffer,
            total_retrans: 3,
            bytes_retrans: 4344,
            srtt_us: Some(20_500),
            min_rtt_us: Some(20_000),
            mss: 1448,
            busy_us: 3_500_000,
            rwnd_limited_us: 700_000,
            sndbuf_limited_us: 0,
        }],
    }
}

fn send_events() -> Vec<SendEvent> {
    vec![
        SendEvent::Connected(Connected {
            connection: 0,
            cookie: 4117,
            local: "192.0.2.1:40000".parse().unwrap(),
            peer: "[2001:db8::2]:4950".parse().unwrap(),
            congestion_control: "cubic".to_owned(),
            source: BufferSource::Timestamps,
        }),
        SendEvent::Buffer(buffer()),
        SendEvent::Progress(Progress {
            elapsed_ns: 1_200_000_000,
            bytes_acked: 1_600_000,
            rate_bps: 11_000_000,
            total_bytes: Some(5_000_000),
            left_ns: Some(2_500_000_000),
        }),
        SendEvent::Buffer(Buffer {
            index: 5,
            bytes: 2896,
            complete: false,
            sent_mono_ns: None,
            wire_mono_ns: None,
            ssthresh: Some(30),
            srtt_us: None,
            min_rtt_us: None,
            source: BufferSource::TcpInfo,
            clock_stepped: true,
            ..buffer()
        }),
        SendEvent::Note(Note { connection: 0, text: "something".to_owned() }),
        SendEvent::Summary(summary()),
        SendEvent::Warning { kind: WarningKind::Recording, message: "the disk is full".to_owned() },
        SendEvent::Shared(Shared {
            interface: "wlan0".to_owned(),
            others: 2,
            duration_ns: 10_000_000_000,
            bounded_ns: 1_500_000_000,
            messages: 41,
            messages_believed: 40,
        }),
        SendEvent::Failed { kind: FailureKind::ClosedByPeer, message: "it broke".to_owned() },
    ]
}

fn receive_events() -> Vec<ReceiveEvent> {
    vec![
        ReceiveEvent::Listening {
            address: "[::]:4950".parse().unwrap(),
            max_bytes: Some(100_000_000_000),
            max_total_bytes: None,
        },
        ReceiveEvent::Accepted {
            connection: 0,
            peer: "192.0.2.1:40000".parse().unwrap(),
            local: "192.0.2.2:4950".parse().unwrap(),
            cookie: 7,
            open: 1,
        },
        ReceiveEvent::Refused { peer: "192.0.2.9:1".parse().unwrap(), reason: "full".to_owned() },
        ReceiveEvent::Progress { open: 1, bytes: 2_000_000_000, rate_bps: 11_000_000 },
        ReceiveEvent::Closed(Received {
            connection: 0,
            peer: "192.0.2.1:40000".parse().unwrap(),
            bytes: 5_000_000,
            sent_bytes: 0,
            duration_ns: 3_500_000_000,
            throughput_bps: 11_428_571,
            end: End::Closed,
        }),
        ReceiveEvent::Note { text: "something".to_owned() },
        ReceiveEvent::Summary(ReceiveSummary {
            accepted: 1,
            refused: 1,
            bytes: 5_000_000,
            sent_bytes: 0,
            duration_ns: 3_500_000_000,
            throughput_bps: 11_428_571,
            limit_reached: false,
        }),
    ]
}

/// Compares `text` with the golden file. `YUZURI_BLESS=1` writes the file.
fn golden(name: &str, text: &[u8]) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("YUZURI_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(String::from_utf8(text.to_vec()).unwrap(), expected, "{path}");
}

fn written<E>(events: &[E], report: &mut dyn Report<E>) {
    for event in events {
        report.report(event).unwrap();
    }
}

#[test]
fn json_lines_match_the_golden_file() {
    let mut lines = Vec::new();
    written(&send_events(), &mut JsonLines(&mut lines));
    golden("send.jsonl", &lines);
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert!(value["type"].is_string());
    }
    let mut lines = Vec::new();
    written(&receive_events(), &mut JsonLines(&mut lines));
    golden("receive.jsonl", &lines);
}

#[test]
fn tables_match_the_golden_file() {
    let (mut table, mut status) = (Vec::new(), Vec::new());
    written(&send_events(), &mut SendText::new(&mut table, Some(&mut status), None));
    golden("send.txt", &table);
    assert_eq!(
        String::from_utf8(status).unwrap(),
        "\r\x1b[K1.2 s  1.6 MB of 5.0 MB  11.00 Mbit/s  2.5 s left\r\x1b[K"
    );
    let (mut table, mut status) = (Vec::new(), Vec::new());
    written(&receive_events(), &mut ReceiveText::new(&mut table, Some(&mut status)));
    golden("receive.txt", &table);
    assert_eq!(String::from_utf8(status).unwrap(), "\r\x1b[K1 open  2.00 GB  11.00 Mbit/s\r\x1b[K");
}

#[test]
fn rows_beyond_the_limit_are_counted() {
    let mut table = Vec::new();
    let mut report = SendText::new(&mut table, None::<Vec<u8>>, Some(3));
    for index in 0..10 {
        report.report(&SendEvent::Buffer(Buffer { index, ..buffer() })).unwrap();
    }
    report.report(&SendEvent::Summary(summary())).unwrap();
    let table = String::from_utf8(table).unwrap();
    // Ten rows appear in far less than a second, unless the machine stalls.
    let rows = table.lines().filter(|line| line.contains("1000000")).count();
    assert!((3..10).contains(&rows), "{table}");
    assert!(table.contains(&format!("(not shown: {} buffers", 10 - rows)), "{table}");
}

#[test]
fn two_reports_get_the_same_events() {
    let (mut one, mut two) = (Vec::new(), 0);
    let mut count = |_: &SendEvent| {
        two += 1;
        Ok(())
    };
    written(&send_events(), &mut Both(&mut JsonLines(&mut one), &mut count));
    assert_eq!(one.iter().filter(|&&byte| byte == b'\n').count(), two);
}

#[test]
fn the_log_is_limited_and_says_so() {
    use yuzuri_transfer::MaxLines;
    let [listening, accepted, _, progress, closed, _, summary] =
        <[ReceiveEvent; 7]>::try_from(receive_events()).unwrap();
    let run = |limit, progress_is_a_line| {
        let mut lines = Vec::new();
        let mut json = JsonLines(&mut lines);
        let mut report = MaxLines::new(&mut json, limit, progress_is_a_line);
        report.report(&listening).unwrap();
        for _ in 0..1000 {
            for event in [&accepted, &progress, &closed] {
                report.report(event).unwrap();
            }
        }
        report.report(&summary).unwrap();
        String::from_utf8(lines).unwrap()
    };
    assert_eq!(run(None, true).lines().count(), 3002);
    let bounded = run(Some(10), true);
    // The listening event, ten events, the note about the limit, the number of suppressed events
    // and the summary.
    assert_eq!(bounded.lines().count(), 14, "{bounded}");
    let lines: Vec<&str> = bounded.lines().collect();
    assert!(lines[11].contains("limit of 10 lines"), "{bounded}");
    assert!(lines[12].contains("2990 further lines were not written"), "{bounded}");
    assert!(lines[13].contains("\"summary\""), "{bounded}");
    // Progress that overwrites itself does not count as a line.
    let over = run(Some(10), false);
    assert_eq!(over.lines().filter(|line| line.contains("\"progress\"")).count(), 1000);
    assert!(over.contains("1990 further lines were not written"));
}
