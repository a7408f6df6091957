//! The authority of a group. It issues the members' keys and replaces the group key to exclude a
//! member. Its file is kept where the group is administered, not on a member's device.

use crate::keys::{MemberFile, NoticesFile, from_hex, to_hex};
use crate::{ShareError, clock};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use yuzuri_policy::{Authority, KEY_BYTES, MAX_GENERATION};

/// The contents of an authority file.
#[derive(Debug)]
pub struct AuthorityFile {
    path: PathBuf,
    authority: Authority,
    content: Content,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    master: String,
    generation: u32,
    #[serde(default)]
    member: Vec<AuthorityMember>,
}

// Never prints the master key.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").field("generation", &self.generation).field("member", &self.member).finish()
    }
}

/// A member to which the authority issued a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityMember {
    /// The member number, from 1. A number is never reused.
    pub number: u32,
    /// The name given by the administrator.
    pub name: String,
    /// The first group key generation that this member did not receive; absent: the member has not
    /// been excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<u32>,
}

impl AuthorityFile {
    /// Creates an authority without members, in a file that only its owner can read.
    ///
    /// # Errors
    /// If the file already exists or cannot be written.
    pub fn create(path: &Path) -> Result<AuthorityFile, ShareError> {
        let master: [u8; KEY_BYTES] = clock::random()?;
        let content = Content { master: to_hex(&master), generation: 1, member: Vec::new() };
        let made = AuthorityFile { path: path.to_owned(), authority: Authority::from_bytes(master), content };
        write_new(path, &made.text()?, SECRET, "an authority is never replaced")?;
        Ok(made)
    }

    /// Reads an authority file.
    ///
    /// # Errors
    /// If the file cannot be read or is not an authority file.
    pub fn open(path: &Path) -> Result<AuthorityFile, ShareError> {
        let wrong = |why: String| file_error("reading the authority", path, why);
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                wrong("it does not exist; `yuzuri share authority new FILE` creates one".into())
            }
            _ => wrong(e.to_string()),
        })?;
        let content: Content = toml::from_str(&text).map_err(|e| wrong(e.message().replace('\n', "; ")))?;
        let master =
            from_hex(&content.master).ok_or_else(|| wrong("`master` is not 64 hexadecimal digits".into()))?;
        if !(1..=MAX_GENERATION).contains(&content.generation) {
            return Err(wrong(format!("`generation` is not from 1 to {MAX_GENERATION}")));
        }
        Ok(AuthorityFile { path: path.to_owned(), authority: Authority::from_bytes(master), content })
    }

    /// All members to which a key was ever issued, including those excluded since.
    pub fn members(&self) -> &[AuthorityMember] {
        &self.content.member
    }

    /// The current generation of the group key.
    pub fn generation(&self) -> u32 {
        self.content.generation
    }

    /// Writes a member's key file. A new name becomes a new member. An existing member gets the
    /// same member key again, with the current group key.
    ///
    /// # Errors
    /// If the member was excluded, or if the key file already exists or cannot be written.
    pub fn issue(&mut self, name: &str, key_file: &Path) -> Result<(), ShareError> {
        let doing = || format!("issuing a key to '{name}'");
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(ShareError::system(doing(), "a name is not blank and has no control characters"));
        }
        let known = self.content.member.iter().find(|member| member.name == name);
        if known.is_some_and(|member| member.excluded.is_some()) {
            return Err(ShareError::system(
                doing(),
                "it was excluded; to admit it again, give it another name",
            ));
        }
        let is_new = known.is_none();
        let next = self.content.member.iter().map(|member| member.number).max().unwrap_or(0) + 1;
        let number = known.map_or(next, |member| member.number);
        let generation = self.content.generation;
        let key = self.authority.member(number, generation);
        let Some((key, membership)) = key.as_ref().and_then(|key| Some((key, key.membership()?))) else {
            return Err(ShareError::system(doing(), "there are no more numbers"));
        };
        let file = MemberFile {
            number,
            name: name.into(),
            generation,
            own: to_hex(&membership.own),
            key: to_hex(key.secret()),
        };
        let text = toml::to_string(&file).map_err(|e| ShareError::system(doing(), e))?;
        let text = format!("# The key of one terminal: copy it to that terminal only.\n{text}");
        if is_new {
            // Save the number before writing the key file. A number that was used but not saved
            // could be issued twice.
            self.content.member.push(AuthorityMember { number, name: name.into(), excluded: None });
            self.save()?;
        }
        write_new(
            key_file,
            &text,
            SECRET,
            "an existing file is not replaced; choose another name or \
        remove it first",
        )
    }

    /// Replaces the group key and writes the notices that carry the new key to every member except
    /// `names`.
    ///
    /// # Errors
    /// If a name is unknown, if a member was already excluded, or if the file already exists or
    /// cannot be written.
    pub fn exclude(&mut self, names: &[String], notices: &Path) -> Result<(), ShareError> {
        let doing = || format!("excluding {}", names.join(", "));
        let generation = self.content.generation + 1;
        if generation > MAX_GENERATION {
            let why = "the authority has used its last key; create another authority";
            return Err(ShareError::system(doing(), why));
        }
        for name in names {
            let member = self.content.member.iter_mut().find(|member| member.name == *name);
            let why = match member {
                Some(AuthorityMember { excluded: excluded @ None, .. }) => {
                    *excluded = Some(generation);
                    continue;
                }
                Some(_) => format!("'{name}' is excluded already"),
                None => format!("there is no '{name}'; `yuzuri share authority list` lists the terminals"),
            };
            return Err(ShareError::system(doing(), why));
        }
        self.content.generation = generation;
        // Write the notices first. If saving the authority file fails, repeating the call produces
        // the same notices.
        self.write_notices(notices)?;
        self.save()
    }

    /// Writes the notices of the current generation again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_notices(&self, file: &Path) -> Result<(), ShareError> {
        let generation = self.content.generation;
        let stay = self.content.member.iter().filter(|member| member.excluded.is_none());
        let made = self.authority.notices(stay.map(|member| member.number), generation).unwrap_or_default();
        let notices =
            made.0.iter().map(|(number, notice)| (number.to_string(), to_hex(&notice.to_bytes()))).collect();
        let content = NoticesFile { generation, notices };
        let wrong = |why: String| file_error("writing the notices", file, why);
        let text = toml::to_string(&content).map_err(|e| wrong(e.to_string()))?;
        let text = format!("# Each line is useful to one terminal only: this file is not secret.\n{text}");
        replace(file, &text, PUBLIC)
    }

    fn text(&self) -> Result<String, ShareError> {
        let text = toml::to_string(&self.content)
            .map_err(|e| file_error("writing the authority", &self.path, e.to_string()))?;
        Ok(format!(
            "# This file decides who is in the group: keep it secret, and do not copy it to the \
             terminals.\n{text}"
        ))
    }

    /// Replaces the authority file atomically. Only its owner can read either version.
    fn save(&self) -> Result<(), ShareError> {
        replace(&self.path, &self.text()?, SECRET)
    }
}

/// Replaces a file atomically: a concurrent reader sees the old contents or the new contents, never
/// a mixture.
fn replace(file: &Path, text: &str, mode: u32) -> Result<(), ShareError> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let _ = std::fs::remove_file(&new);
    write_new(Path::new(&new), text, mode, "another command is changing it")?;
    std::fs::rename(&new, file).map_err(|e| file_error("writing", file, e.to_string()))
}

fn file_error(doing: &str, file: &Path, why: String) -> ShareError {
    ShareError::System { doing: format!("{doing} {}", file.display()), why }
}

/// File modes: readable by the owner only, and readable by everyone.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Creates a file; fails if it exists.
fn write_new(file: &Path, text: &str, mode: u32, exists: &str) -> Result<(), ShareError> {
    let wrong = |e: std::io::Error| {
        let why = match e.kind() {
            ErrorKind::AlreadyExists => format!("it exists already; {exists}"),
            _ => e.to_string(),
        };
        file_error("writing", file, why)
    };
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(wrong)?;
    opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::keys::Secrets;
    use crate::{KeySource, ShareConfig};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn keys_are_issued_and_one_member_is_excluded() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        AuthorityFile::create(&at("authority")).unwrap();
        assert!(AuthorityFile::create(&at("authority")).unwrap_err().to_string().contains("exists already"));
        let mut authority = AuthorityFile::open(&at("authority")).unwrap();
        for name in ["lab 1", "lab 2", "lab 3"] {
            authority.issue(name, &at(name)).unwrap();
            assert_eq!(at(name).metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(at("authority").metadata().unwrap().mode() & 0o777, 0o600);
        let mut authority = AuthorityFile::open(&at("authority")).unwrap();
        authority.exclude(&["lab 2".into()], &at("notices")).unwrap();
        let again = authority.exclude(&["lab 2".into()], &at("notices")).unwrap_err().to_string();
        assert!(again.contains("already"), "{again}");
        let nobody = authority.exclude(&["lab 9".into()], &at("notices")).unwrap_err().to_string();
        assert!(nobody.contains("authority list"), "{nobody}");
        let authority_again = AuthorityFile::open(&at("authority")).unwrap();
        assert_eq!((authority_again.generation(), authority_again.members()[1].excluded), (2, Some(2)));
        assert!(authority.issue("lab 2", &at("back")).unwrap_err().to_string().contains("excluded"));

        let load = |name: &str| {
            let config = ShareConfig {
                key: KeySource::File(at(name)),
                notice_file: Some(at("notices")),
                ..ShareConfig::default()
            };
            let secrets = Secrets::load(&config).unwrap();
            assert_eq!(secrets.warnings, Vec::<String>::new());
            let mut chain = crate::keys::KeyChain::new(secrets);
            chain.of(yuzuri_policy::GroupId::of(b"x")).unwrap()
        };
        let numbers: Vec<u32> = load("lab 1").notices.unwrap().0.keys().copied().collect();
        assert_eq!(numbers, [1, 3]);
        // A new member gets the current key immediately.
        let mut authority = AuthorityFile::open(&at("authority")).unwrap();
        authority.issue("lab 4", &at("lab 4")).unwrap();
        let newcomer = load("lab 4").key.unwrap();
        assert_eq!(newcomer.membership().map(|m| (m.number, m.generation)), Some((4, 2)));
        let first = load("lab 1");
        let next_key = first.key.unwrap().take(&first.notices.unwrap().0[&1]).unwrap();
        assert_eq!(next_key.secret(), newcomer.secret());
    }
}
