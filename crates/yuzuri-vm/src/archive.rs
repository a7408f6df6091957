//! Writes initial RAM file systems in the cpio format "newc", which the kernel unpacks
//! (Documentation/driver-api/early-userspace/buffer-format.rst). The output is reproducible:
//! entries are sorted, owned by root and dated 2020-01-01.

use std::collections::BTreeMap;
use std::io::Write;

/// 2020-01-01T00:00:00Z in seconds since the Unix epoch; the guest's clock also starts there.
pub(crate) const EPOCH_S: u32 = 1_577_836_800;

enum Entry {
    Folder,
    File { content: Vec<u8>, executable: bool },
    Symlink(String),
}

/// An archive under construction. Paths are relative to the root, without a leading slash.
#[derive(Default)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Adds a folder and its parents.
    pub(crate) fn folder(&mut self, path: &str) {
        let mut at = 0;
        while let Some(next) = path[at..].find('/') {
            self.entries.entry(path[..at + next].to_owned()).or_insert(Entry::Folder);
            at += next + 1;
        }
        self.entries.entry(path.to_owned()).or_insert(Entry::Folder);
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Adds a file. Replaces an existing entry with the same path.
    pub(crate) fn file(&mut self, path: &str, content: Vec<u8>, executable: bool) {
        self.put(path, Entry::File { content, executable });
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Symlink(target.to_owned()));
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Paths with the prefix `start`, sorted.
    pub(crate) fn paths_below(&self, start: &str) -> Vec<&str> {
        self.entries.keys().map(String::as_str).filter(|path| path.starts_with(start)).collect()
    }

    /// Writes the archive. The kernel accepts several concatenated archives; if a path occurs
    /// twice, the later entry wins.
    pub(crate) fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            let (mode, content): (u32, &[u8]) = match entry {
                Entry::Folder => (0o040_755, &[]),
                Entry::File { content, executable: true } => (0o100_755, content),
                Entry::File { content, executable: false } => (0o100_644, content),
                Entry::Symlink(target) => (0o120_777, target.as_bytes()),
            };
            let links = if matches!(entry, Entry::Folder) { 2 } else { 1 };
            write_entry(to, number as u32 + 1, path, mode, links, content)?;
        }
        write_entry(to, 0, "TRAILER!!!", 0, 1, &[])
    }
}

fn write_entry(
    to: &mut impl Write,
    inode: u32,
    path: &str,
    mode: u32,
    links: u32,
    content: &[u8],
) -> std::io::Result<()> {
    let too_long = || std::io::Error::other(format!("{path}: too long for an initial RAM file system"));
    let size = u32::try_from(content.len()).map_err(|_| too_long())?;
    let name_size = u32::try_from(path.len() + 1).map_err(|_| too_long())?;
    let mtime = if inode == 0 { 0 } else { EPOCH_S };
    write!(to, "070701")?;
    // inode, mode, uid, gid, links, mtime, size, device (2), device of a device node (2), name
    // length, checksum
    for field in [inode, mode, 0, 0, links, mtime, size, 0, 0, 0, 0, name_size, 0] {
        write!(to, "{field:08x}")?;
    }
    let pad = |length: usize| &[0; 3][..(4 - length % 4) % 4];
    to.write_all(path.as_bytes())?;
    to.write_all(&[0])?;
    to.write_all(pad(110 + path.len() + 1))?;
    to.write_all(content)?;
    to.write_all(pad(content.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::{Command, Stdio};

    fn bytes(archive: &Archive) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_order_of_adding_does_not_matter() {
        let (mut one, mut other) = (Archive::default(), Archive::default());
        one.file("/usr/bin/a", b"a".to_vec(), true);
        one.symlink("bin", "usr/bin");
        one.folder("proc");
        other.folder("proc");
        other.symlink("bin", "usr/bin");
        other.file("usr/bin/a", b"other".to_vec(), true);
        other.file("usr/bin/a", b"a".to_vec(), true);
        assert_eq!(bytes(&one), bytes(&other));
        assert_eq!(bytes(&one).len() % 4, 0, "another archive may follow");
    }

    #[test]
    fn cpio_reads_it() {
        let mut archive = Archive::default();
        archive.file("usr/bin/odd", b"12345".to_vec(), true);
        archive.symlink("bin", "usr/bin");
        let child = Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return println!("cpio_reads_it: skipped: cpio is not installed") };
        child.stdin.take().unwrap().write_all(&bytes(&archive)).unwrap();
        let listing = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<Vec<&str>> = listing.lines().map(|l| l.split_whitespace().collect()).collect();
        let seen: Vec<(&str, &str)> = lines.iter().map(|l| (l[0], l[8])).collect();
        assert_eq!(
            seen,
            [
                ("lrwxrwxrwx", "bin"),
                ("drwxr-xr-x", "usr"),
                ("drwxr-xr-x", "usr/bin"),
                ("-rwxr-xr-x", "usr/bin/odd")
            ]
        );
        assert!(listing.contains(" 5 Jan  1  2020 usr/bin/odd"), "{listing}");
    }
}
