//! Guesses the type of a file that is not a capture.

/// The beginnings of other files that users pass by mistake.
const KNOWN: [(&[u8], &str); 21] = [
    (b"\x7fELF", "is an ELF program or library"),
    (b"MZ", "is a Windows program"),
    (b"ARROW1", "is an Arrow file, such as a recording of yuzuri"),
    (b"\xff\xff\xff\xff", "is an Arrow stream, such as a recording of yuzuri"),
    (b"PAR1", "is a Parquet file, such as a recording of yuzuri"),
    (b"GMBU", "is a capture of Microsoft Network Monitor, which is not supported; convert it with editcap"),
    (b"RTSS", "is a capture of Microsoft Network Monitor, which is not supported; convert it with editcap"),
    (b"iptrace ", "is a capture of AIX iptrace, which is not supported; convert it with editcap"),
    (b"TRSNIFF data", "is a capture of Sniffer, which is not supported; convert it with editcap"),
    (b"BZh", "is compressed with bzip2, which is not supported; decompress it with bunzip2"),
    (b"\x04\x22\x4d\x18", "is compressed with LZ4, which is not supported; decompress it with lz4 -d"),
    (b"\x1f\x9d", "is compressed with compress, which is not supported; decompress it with uncompress"),
    (b"\x1f\x8b", "is compressed with gzip twice; decompress it once with gunzip"),
    (b"\x28\xb5\x2f\xfd", "is compressed twice; decompress it once"),
    (b"\xfd7zXZ\0", "is compressed twice; decompress it once"),
    (b"\x5d\0\0", "is compressed with lzma, which is not supported; decompress it with unlzma"),
    (b"PK\x03\x04", "is a ZIP archive; unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it"),
    (b"%PDF", "is a PDF"),
    (b"\x89PNG", "is a PNG picture"),
    (b"#!", "is a script"),
];

/// Describes a file by its decompressed beginning. `unsound`: no more of it can be decompressed.
pub(crate) fn looks_like(beginning: &[u8], packed: bool, unsound: bool) -> String {
    let looks = if beginning.is_empty() && unsound {
        return "is compressed, but cut or damaged: nothing in it can be decompressed".into();
    } else if beginning.is_empty() {
        "is an empty file"
    } else if let Some((_, looks)) = KNOWN.iter().find(|(magic, _)| beginning.starts_with(magic)) {
        looks
    } else if beginning.get(257..262) == Some(b"ustar") {
        "is a tar archive; unpack it"
    } else if beginning.len() < 24 && is_capture(beginning) {
        "is truncated within the header of a capture"
    } else if text(beginning) {
        let trimmed = beginning.trim_ascii_start();
        if trimmed.starts_with(b"{") { "is text (JSON)" } else { "is text" }
    } else {
        let bytes: Vec<String> = beginning.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        return format!(
            "begins with the bytes {}{}",
            bytes.join(" "),
            if packed { ", unpacked" } else { "" }
        );
    };
    if packed { format!("{looks}, after decompression") } else { looks.into() }
}

/// Whether a decompressed file with this beginning is a capture. ERF has no magic number and is not
/// recognised.
pub fn is_capture(beginning: &[u8]) -> bool {
    let Some(&magic) = beginning.first_chunk() else { return false };
    let magic = u32::from_le_bytes(magic);
    [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34]
        .into_iter()
        .any(|known| magic == known || magic.swap_bytes() == known)
        || magic == 0x0a0d_0d0a
        || beginning.starts_with(b"snoop\0\0\0")
}

fn text(beginning: &[u8]) -> bool {
    // The end of the available bytes may split a character.
    let valid = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    valid && beginning.iter().all(|byte| !byte.is_ascii_control() || b"\t\n\r\x0c\x1b".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_given_by_mistake_are_recognised() {
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        for (beginning, packed, looks) in [
            (&b""[..], false, "is an empty file"),
            (b"", true, "is an empty file, after decompression"),
            (b"\x7fELF\x02\x01", false, "is an ELF program or library"),
            (b"ARROW1\0\0", false, "is an Arrow file, such as a recording of yuzuri"),
            (b"{\"flow\":1}\n", true, "is text (JSON), after decompression"),
            ("time,cwnd \u{b5}s\n".as_bytes(), false, "is text"),
            // Ends within a character.
            (b"cwnd \xc2", false, "is text"),
            (b"\xa1\xb2\x3c\x4d\0\x02", false, "is truncated within the header of a capture"),
            (b"\x0a\x0d\x0d\x0a\x1c\0", false, "is truncated within the header of a capture"),
            (&tar, false, "is a tar archive; unpack it"),
            (b"\0\x01\xff", true, "begins with the bytes 00 01 ff, unpacked"),
        ] {
            assert_eq!(looks_like(beginning, packed, false), looks);
        }
    }
}
