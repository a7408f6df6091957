//! Truncated, changed, newer and foreign files: an error message, never a panic.
#![allow(clippy::unwrap_used)]

mod common;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Metadata, Schema};
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use yuzuri_trace::recording::{Format, ReadError, Reader, Tail, Writer, convert};
use yuzuri_trace::{Account, Item};

/// A small recording with every kind of row, in two batches.
fn small() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrows");
        let mut traffic = common::Traffic::new(3, 50_000);
        let mut writer = Writer::create(&path, &common::session(), false).unwrap();
        let now = Instant::now();
        writer.write(&traffic.identities(), now).unwrap();
        for round in 0..2 {
            let items: Vec<Item> = (0..20).map(|_| Item::Event(traffic.next())).collect();
            writer.write(&items, now).unwrap();
            writer.write(&[traffic.account(20 * round, round)], now).unwrap();
            writer.flush(now).unwrap();
        }
        writer.finish();
        std::fs::read(path).unwrap()
    })
}

/// A recording from before the checksums: with them, hardly any changed byte would reach the
/// decoder.
fn old() -> &'static [u8] {
    include_bytes!("golden/v1.arrows")
}

/// Everything that the code does with a file.
fn all_of_it(bytes: &[u8]) -> Result<(Vec<Item>, Option<Tail>), ReadError> {
    for format in Format::ALL {
        if let Ok(reader) = Reader::new(bytes, "input") {
            let _ = convert(reader, format, std::io::sink(), None, |_, _| ());
        }
    }
    let mut reader = Reader::new(bytes, "input")?;
    let mut items = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        items.extend(batch);
    }
    Ok((items, reader.tail()))
}

#[test]
fn a_file_truncated_at_any_byte_keeps_its_earlier_rows() {
    let (whole, tail) = all_of_it(small()).unwrap();
    assert_eq!(tail, Some(Tail::Complete));
    let (mut seen, mut heads) = (0, 0);
    for end in 0..small().len() {
        match Reader::new(&small()[..end], "input") {
            Err(error) => {
                heads += 1;
                assert!(matches!(error, ReadError::NotARecording { .. }), "{error}");
                assert_eq!(seen, 0);
            }
            Ok(mut reader) => {
                let mut items = Vec::new();
                while let Some(batch) = reader.next_batch().unwrap() {
                    items.extend(batch);
                }
                assert!(whole.starts_with(&items));
                assert!(items.len() >= seen);
                seen = items.len();
                assert!(matches!(reader.tail(), Some(Tail::Truncated { .. })), "at {end}");
                assert_eq!(reader.complete(), Some(false));
            }
        }
    }
    assert!(heads > 8);
    // Without its end marker nothing is missing but the marker.
    assert_eq!(seen, whole.len());
    yuzuri_testnet::attack(
        "recording cut at any byte",
        small().len() as u64,
        "cuts",
        "nothing but what was cut off",
    );
}

#[test]
fn bytes_behind_the_end_do_not_matter() {
    let mut bytes = small().to_vec();
    bytes.extend_from_slice(&[0x5a; 1000]);
    assert_eq!(all_of_it(&bytes).unwrap(), all_of_it(small()).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn changed_bytes_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        sealed: bool,
    ) {
        let mut bytes = if sealed { small() } else { old() }.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = all_of_it(&bytes);
        yuzuri_testnet::attack("recording with changed bytes", 1, "files", "read or refused");
    }

    /// Lengths and offsets are the most critical: 32 and 64 bit numbers at aligned positions.
    #[test]
    fn changed_numbers_do_not_panic(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![
                Just(-1i64), Just(i64::MAX), Just(i64::MIN), Just(i64::from(i32::MAX)), Just(0), 0i64..5000, any::<i64>(),
            ], any::<bool>()), 1..4),
        sealed: bool,
    ) {
        let mut bytes = if sealed { small() } else { old() }.to_vec();
        for (place, number, wide) in changes {
            let place = place.index(bytes.len() / 8 - 1) * 8;
            let width = if wide { 8 } else { 4 };
            bytes[place..place + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        let _ = all_of_it(&bytes);
        yuzuri_testnet::attack("recording with changed lengths and offsets", 1, "files", "read or refused");
    }

    #[test]
    fn random_bytes_are_not_a_recording(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let error = all_of_it(&bytes).unwrap_err();
        prop_assert!(matches!(error, ReadError::NotARecording { .. }), "{}", error);
        yuzuri_testnet::attack("noise as a recording", 1, "files", "refused");
    }
}

/// Files that once made a reader panic (found by the fuzzer).
#[test]
fn inputs_of_former_faults_are_handled() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let error = all_of_it(&std::fs::read(&file).unwrap()).unwrap_err();
        println!("{}: {error}", file.display());
    }
}

#[test]
fn a_column_of_a_type_that_no_version_has_is_named() {
    let list = Field::new("list", DataType::Binary, false);
    let values: ArrayRef = Arc::new(arrow_array::BinaryArray::from(vec![&b"x"[..]]));
    let columns = vec![texts("kind", vec!["sample"]), numbers("mono_ns", vec![1]), (list, values)];
    let error = Reader::new(&foreign(head("1"), columns)[..], "x").err().unwrap().to_string();
    assert!(error.ends_with("its column list is Binary"), "{error}");
}

#[test]
fn other_files_are_named() {
    let why = |bytes: &[u8]| Reader::new(bytes, "x.arrows").err().unwrap().to_string();
    assert_eq!(why(b""), "x.arrows is not a yuzuri recording: it is empty");
    assert_eq!(
        why(&[0; 3]),
        "x.arrows is not a yuzuri recording: it ends within its header: it was truncated, or is other data"
    );
    for other in [&b"PAR1............"[..], b"ARROW1\0\0........", b"\x1f\x8b\x08.........."] {
        let why = why(other);
        assert!(why.contains("is not a yuzuri recording"), "{why}");
    }
}

/// A recording of another origin: same format, other columns.
fn foreign(metadata: Metadata, columns: Vec<(Field, ArrayRef)>) -> Vec<u8> {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &schema).unwrap();
    writer.write(&RecordBatch::try_new(schema.clone(), arrays).unwrap()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    out
}

fn head(version: &str) -> Metadata {
    Metadata::from([
        ("format", "yuzuri-recording".to_owned()),
        ("format_version", version.to_owned()),
        ("yuzuri", "7.0.0".to_owned()),
        ("session", serde_json::to_string(&common::session()).unwrap()),
    ])
}

fn texts(name: &str, values: Vec<&str>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::Utf8, false), Arc::new(StringArray::from(values)))
}

fn numbers(name: &str, values: Vec<u64>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::UInt64, false), Arc::new(UInt64Array::from(values)))
}

#[test]
fn a_later_minor_version_is_read_as_far_as_it_is_known() {
    let bytes = foreign(
        head("1"),
        vec![
            numbers("gravity", vec![9, 8, 7, 6]),
            texts("kind", vec!["sample", "levitation", "account", "state"]),
            numbers("mono_ns", vec![1, 2, 3, 4]),
            texts("reason", vec!["", "", "", "levity"]),
        ],
    );
    let mut reader = Reader::new(&bytes[..], "input").unwrap();
    let items = reader.next_batch().unwrap().unwrap();
    let known: Vec<_> = items
        .iter()
        .map(|item| match item {
            Item::Event(event) => (event.kind.name(), event.mono_ns, event.reason.name()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(known, [("sample", 1, ""), ("state", 4, "")]);
    // The unknown kind, and the account without a first row.
    assert_eq!(reader.unknown_rows(), 2);
}

#[test]
fn a_newer_format_is_refused_with_advice() {
    let bytes = foreign(head("2"), vec![texts("kind", vec![]), numbers("mono_ns", vec![])]);
    let error = Reader::new(&bytes[..], "x.arrows").err().unwrap();
    assert!(matches!(error, ReadError::Newer { .. }));
    assert_eq!(
        error.to_string(),
        "x.arrows has recording format 2, written by yuzuri 7.0.0; this yuzuri reads up to 1: update yuzuri, \
         or open the file with any tool that reads Arrow streams"
    );
}

#[test]
fn wrong_types_and_missing_columns_are_named() {
    let error = |columns| Reader::new(&foreign(head("1"), columns)[..], "x").err().unwrap().to_string();
    let text = error(vec![texts("kind", vec![]), texts("mono_ns", vec![])]);
    assert!(text.ends_with("its column mono_ns is Utf8"), "{text}");
    let text = error(vec![texts("kind", vec![])]);
    assert!(text.ends_with("it has no column mono_ns"), "{text}");
    let bytes = foreign(Metadata::default(), vec![texts("kind", vec![])]);
    let text = Reader::new(&bytes[..], "x").err().unwrap().to_string();
    assert!(text.ends_with("it is an Arrow stream of another kind"), "{text}");
}

/// An account with losses for several reasons keeps its sum when rows are added up.
#[test]
fn account_rows_add_up() {
    let items = all_of_it(small()).unwrap().0;
    let accounts: Vec<&Account> = items
        .iter()
        .filter_map(|item| if let Item::Account(account) = item { Some(account.as_ref()) } else { None })
        .collect();
    assert_eq!(accounts.len(), 2);
    for account in accounts {
        assert_eq!(account.seen(), account.kept() + account.lost());
    }
}
