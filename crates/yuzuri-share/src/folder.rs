//! A folder that only the daemon may write to. Files are opened relative to the open folder and
//! never through a symbolic link: the daemon may run as root, and a planted link would make it
//! write elsewhere.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// Size limit of files that are read, bytes; the daemon's own files are far smaller.
const MAX_BYTES: u64 = 16 << 20;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    open: File,
}

impl Folder {
    /// Opens the folder, creating it and its parents if necessary. Root takes ownership of a folder
    /// that belongs to another user, whose daemon ran before; the service manager restores the
    /// ownership when the service starts again.
    ///
    /// # Errors
    /// If other users may write to the folder, if it belongs to another user, or if it is a
    /// symbolic link of another user.
    pub(crate) fn make(path: &Path) -> Result<Folder> {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above)?;
        }
        let made = match DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => return Err(e),
        };
        let folder = Folder::open(path)?;
        if made {
            // Make the folder accessible whatever the umask is: other users must reach the socket
            // in it.
            folder.open.set_permissions(Permissions::from_mode(FOLDER_MODE))?;
        }
        let (owner, own) = (folder.open.metadata()?.uid(), geteuid().as_raw());
        if owner != own && own == 0 {
            fchown(&folder.open, Some(0), None).map_err(|e| {
                refused(format!("it belongs to user {owner}, and taking it over failed: {e}"))
            })?;
        }
        Ok(folder)
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    /// As [`Folder::make`], and if the folder does not exist.
    pub(crate) fn open(path: &Path) -> Result<Folder> {
        let own = geteuid().as_raw();
        let trusted = |uid: u32| uid == 0 || uid == own;
        let mut flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let link = std::fs::symlink_metadata(path)?;
        if link.is_symlink() {
            if !trusted(link.uid()) {
                return Err(refused(format!(
                    "it is a symbolic link of user {}: name the folder itself",
                    link.uid()
                )));
            }
            flags = libc::O_DIRECTORY;
        }
        let open = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let found = open.metadata()?;
        if found.mode() & 0o022 != 0 {
            return Err(refused(format!(
                "other users can write to it (mode {:04o}): prevent that with `chmod go-w`, or choose \
                 another folder",
                found.mode() & 0o7777
            )));
        }
        if !trusted(found.uid()) && own != 0 {
            return Err(refused(format!("it belongs to user {}: choose another folder", found.uid())));
        }
        Ok(Folder { path: path.to_owned(), open })
    }

    /// Opens a file for reading and writing, creating it if necessary, without truncating it.
    pub(crate) fn open_file(&self, name: &str) -> Result<File> {
        self.file(OsStr::new(name), OFlag::O_RDWR | OFlag::O_CREAT)
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &OsStr) -> Result<String> {
        let mut text = String::new();
        self.file(name, OFlag::O_RDONLY)?.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Replaces a file atomically: a concurrent reader sees the old contents or the new contents,
    /// never a mixture.
    pub(crate) fn replace(&self, name: &OsStr, text: &str) -> Result<()> {
        let mut new = name.to_owned();
        new.push(".new");
        // Remove the file of a run that was killed.
        match unlinkat(&self.open, new.as_os_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(e.into()),
        }
        self.file(&new, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)?.write_all(text.as_bytes())?;
        Ok(renameat(&self.open, new.as_os_str(), &self.open, name)?)
    }

    /// Opens a regular file that has no other hard link.
    fn file(&self, name: &OsStr, flags: OFlag) -> Result<File> {
        // Non-blocking: opening a FIFO would otherwise wait for its other end.
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = match openat(&self.open, name, flags, Mode::from_bits_truncate(FILE_MODE)) {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP) => return Err(refused("it is a symbolic link: remove it".into())),
            Err(e) => return Err(e.into()),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() != 1 {
            let place = self.path.join(name);
            return Err(refused(format!(
                "it is not a regular file, or has several hard links: remove {}",
                place.display()
            )));
        }
        Ok(file)
    }
}

/// Sets the mode of our socket to 0660, whatever the umask was when the socket was bound.
pub(crate) fn set_group_mode(socket: &Path) -> Result<()> {
    // Open the socket itself rather than the target of a link, and change the mode through this
    // descriptor.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(socket)?;
    let found = open.metadata()?;
    if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() {
        return Err(refused("it was replaced meanwhile".into()));
    }
    std::fs::set_permissions(format!("/proc/self/fd/{}", open.as_raw_fd()), Permissions::from_mode(0o660))
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, why)
}

/// Splits a path into its folder and its file name.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or_else(|| Error::new(ErrorKind::InvalidInput, "it names no file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder, name))
}

/// Replaces a file atomically and creates its folder if necessary, like [`Folder::replace`].
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let (folder, name) = split(path)?;
    Folder::make(folder)?.replace(name, text)
}

/// Reads a file from a folder that other users may not write to.
pub(crate) fn read(path: &Path) -> Result<String> {
    let (folder, name) = split(path)?;
    Folder::open(folder)?.read(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn planted_links_are_not_followed() {
        let own = tempfile::tempdir().unwrap();
        let victim = own.path().join("victim");
        std::fs::write(&victim, "whole").unwrap();
        let at = own.path().join("run");
        let folder = Folder::make(&at).unwrap();
        for name in ["share.lock", "node", "node.new"] {
            symlink(&victim, at.join(name)).unwrap();
        }
        let error = folder.open_file("share.lock").unwrap_err().to_string();
        assert!(error.contains("it is a symbolic link"), "{error}");
        folder.replace(OsStr::new("node"), "fe\n").unwrap();
        assert_eq!(folder.read(OsStr::new("node")).unwrap(), "fe\n");
        assert!(at.join("node").symlink_metadata().unwrap().is_file());
        symlink(&victim, at.join("migrated")).unwrap();
        assert!(folder.read(OsStr::new("migrated")).is_err());
        std::fs::hard_link(&victim, at.join("hard")).unwrap();
        let error = folder.open_file("hard").unwrap_err().to_string();
        assert!(error.contains("several hard links"), "{error}");
        nix::unistd::mkfifo(&at.join("pipe"), Mode::S_IRWXU).unwrap();
        assert!(folder.read(OsStr::new("pipe")).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "whole");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let own = tempfile::tempdir().unwrap();
        let at = own.path().join("run");
        Folder::make(&at).unwrap();
        assert_eq!(mode(&at), 0o755);
        for wide in [0o777, 0o1777, 0o775] {
            std::fs::set_permissions(&at, Permissions::from_mode(wide)).unwrap();
            let error = Folder::make(&at).unwrap_err().to_string();
            assert!(error.contains("other users can write to it") && error.contains("chmod go-w"), "{error}");
            assert!(replace(&at.join("node"), "1").is_err() && !at.join("node").exists());
        }
    }

    #[test]
    fn only_root_takes_ownership_of_another_users_folder() {
        if !geteuid().is_root() {
            println!("a_folder_of_another_user: skipped: giving a folder away needs root");
            return;
        }
        let own = tempfile::tempdir().unwrap();
        let at = own.path().join("run");
        std::fs::create_dir(&at).unwrap();
        std::os::unix::fs::chown(&at, Some(65534), Some(65534)).unwrap();
        let link = own.path().join("link");
        symlink(&at, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        let error = Folder::make(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link of user 65534"), "{error}");
        Folder::make(&at).unwrap();
        assert_eq!(at.metadata().unwrap().uid(), 0);
        std::os::unix::fs::lchown(&link, Some(0), None).unwrap();
        Folder::make(&link).unwrap();
    }

    #[test]
    fn only_a_socket_of_ours_is_opened_to_the_group() {
        let own = tempfile::tempdir().unwrap();
        let (victim, socket) = (own.path().join("victim"), own.path().join("share.sock"));
        std::fs::write(&victim, "").unwrap();
        std::fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        symlink(&victim, &socket).unwrap();
        assert!(set_group_mode(&socket).is_err() && set_group_mode(&victim).is_err());
        assert_eq!(mode(&victim), 0o600);
        std::fs::remove_file(&socket).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        set_group_mode(&socket).unwrap();
        assert_eq!(mode(&socket), 0o660);
    }
}
