//! Loads keys and derives the key of each group.

use crate::config::KeySource;
use crate::{ShareConfig, ShareError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use yuzuri_policy::{GroupId, KEY_BYTES, Key, Keys, MAX_GENERATION, Membership, Notice, Notices};

/// Minimum length of a passphrase in characters. Shorter ones can be guessed from one captured
/// message.
const MIN_PASSPHRASE: usize = 12;
/// Number of derived keys that are cached, so that a roaming terminal derives each key once.
const MAX_DERIVED: usize = 64;
/// A key file may be writable by its owner and readable by its group, nothing more.
const WIDEST_MODE: u32 = 0o640;
/// Size limit of a key file.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// A configured secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// A key. Deriving a group's key from it costs nothing.
    Key(Box<Key>),
    /// A passphrase. It gives a different key for each group; the derivation takes a fraction of a
    /// second.
    Words(Arc<str>),
}

/// The secrets that authenticate this terminal.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// The secret used for sending; `None`: groups without a key are joined.
    pub(crate) sends: Option<Secret>,
    accepts: Option<Secret>,
    notices: Option<Arc<Notices>>,
    /// Conditions that work but should be fixed.
    pub(crate) warnings: Vec<String>,
}

impl Secrets {
    /// Loads the configured secrets.
    ///
    /// # Errors
    /// If no key is configured and `keyless` is not set, if a file cannot be used, or if a key is
    /// easily guessed.
    pub(crate) fn load(config: &ShareConfig) -> Result<Secrets, ShareError> {
        let mut warnings = Vec::new();
        let mut sends = config.key.load(&mut warnings)?;
        let accepts = match &config.accepts {
            None => None,
            Some(_) if sends.is_none() => {
                return Err(ShareError::Setting {
                    field: "accept_key_file".into(),
                    why: "a group without a key accepts no other key; name a key to send with, too".into(),
                });
            }
            Some(source) => source.load(&mut warnings)?,
        };
        let notices = config.notice_file.as_deref().map(read_notices).transpose()?.map(Arc::new);
        if notices.is_some() && membership(sends.as_ref()).is_none() {
            return Err(ShareError::Setting {
                field: "notice_file".into(),
                why: "notices replace keys that an authority issued (`yuzuri share authority`); the key in \
                use is not one of those"
                    .into(),
            });
        }
        // A notice received earlier remains valid, unless the key file is newer.
        if let (Some(Secret::Key(key)), Some(notice)) = (&mut sends, &config.known_notice)
            && let Some(next_key) = key.take(notice)
        {
            **key = next_key;
        }
        Ok(Secrets { sends, accepts, notices, warnings })
    }

    /// The node ID with the member number in its lower half, if the key is a member's key.
    pub(crate) fn bind(&self, node: yuzuri_policy::NodeId) -> yuzuri_policy::NodeId {
        match &self.sends {
            Some(Secret::Key(key)) => Keys::of(Some((**key).clone())).bind(node),
            _ => node,
        }
    }
}

impl ShareConfig {
    /// Loads the configured keys. Returns warnings about conditions that work but should be fixed.
    ///
    /// # Errors
    /// As at start-up: if no key is configured, if a key file cannot be read, or if a key is easily
    /// guessed.
    pub fn check_keys(&self) -> Result<Vec<String>, ShareError> {
        Secrets::load(self).map(|secrets| secrets.warnings)
    }
}

fn membership(secret: Option<&Secret>) -> Option<&Membership> {
    match secret {
        Some(Secret::Key(key)) => key.membership(),
        _ => None,
    }
}

type Derived = (Arc<str>, GroupId, Key);

/// The keys of the groups that this terminal has joined. Keys from passphrases are derived one
/// after the other on a separate thread.
#[derive(Default)]
pub(crate) struct KeyChain {
    pub(crate) secrets: Secrets,
    derived: BTreeMap<(Arc<str>, GroupId), Key>,
    wanted: Vec<(Arc<str>, GroupId)>,
    working: Option<Receiver<Derived>>,
}

impl KeyChain {
    pub(crate) fn new(secrets: Secrets) -> KeyChain {
        KeyChain { secrets, ..KeyChain::default() }
    }

    /// The keys of a group; `None`: not derived yet. [`work`](KeyChain::work) reports when they are
    /// ready.
    pub(crate) fn of(&mut self, group: GroupId) -> Option<Keys> {
        let Secrets { sends, accepts, notices, .. } = self.secrets.clone();
        let key = sends.as_ref().map(|secret| self.derive(secret, group));
        let accepts = accepts.as_ref().map(|secret| self.derive(secret, group));
        // Both derivations are requested before either is waited for.
        Some(Keys { key: all_or_none(key)?, accepts: all_or_none(accepts)?, notices })
    }

    fn derive(&mut self, secret: &Secret, group: GroupId) -> Option<Key> {
        match secret {
            Secret::Key(key) => Some((**key).clone()),
            Secret::Words(words) => {
                let wanted = (words.clone(), group);
                let derived = self.derived.get(&wanted).cloned();
                if derived.is_none() && !self.wanted.contains(&wanted) {
                    self.wanted.push(wanted);
                }
                derived
            }
        }
    }

    /// Continues the pending derivations. Returns whether a new key is available.
    pub(crate) fn work(&mut self) -> bool {
        let done = match self.working.as_ref().map(Receiver::try_recv) {
            None => None,
            Some(Err(TryRecvError::Empty)) => return false,
            // The thread could not be started or ended without a result: start it again.
            Some(Err(TryRecvError::Disconnected)) => None,
            Some(Ok(done)) => Some(done),
        };
        self.working = None;
        let news = done.is_some();
        if let Some((words, group, key)) = done {
            if self.derived.len() >= MAX_DERIVED {
                self.derived.clear();
            }
            self.wanted.retain(|wanted| *wanted != (words.clone(), group));
            self.derived.insert((words, group), key);
        }
        if let Some((words, group)) = self.wanted.first().cloned() {
            let (sender, derived) = channel();
            let work = move || {
                let key = Key::from_passphrase(&words, group);
                // If the receiver is gone, sharing has ended.
                let _ = sender.send((words, group, key));
            };
            // If no thread can be created, try again at the next call.
            if std::thread::Builder::new().name("passphrase".into()).spawn(work).is_ok() {
                self.working = Some(derived);
            }
        }
        news
    }

    /// Applies a notice that one interface received. The next key is valid for all groups.
    pub(crate) fn take(&mut self, notice: &Notice) -> bool {
        let Some(Secret::Key(key)) = &mut self.secrets.sends else { return false };
        let next_key = key.take(notice);
        if let Some(next_key) = &next_key {
            (**key).clone_from(next_key);
        }
        next_key.is_some()
    }

    /// Replaces the secrets. Keys that were derived from the same passphrases are kept.
    pub(crate) fn replace(&mut self, mut secrets: Secrets) {
        // A notice may have carried a newer key than the file.
        if let (Some(Secret::Key(new)), Some(Secret::Key(now))) = (&mut secrets.sends, &self.secrets.sends)
            && std::iter::successors(now.before(), Key::before).any(|key| key == **new)
        {
            new.clone_from(now);
        }
        self.wanted.clear();
        self.secrets = secrets;
    }
}

fn all_or_none(key: Option<Option<Key>>) -> Option<Option<Key>> {
    match key {
        None => Some(None),
        Some(Some(key)) => Some(Some(key)),
        Some(None) => None,
    }
}

impl KeySource {
    /// Loads the key; `None`: groups without a key are joined.
    ///
    /// # Errors
    /// If no key is configured and `keyless` is not set, if a file cannot be used, or if a key or
    /// passphrase is easily guessed.
    pub(crate) fn load(&self, warnings: &mut Vec<String>) -> Result<Option<Secret>, ShareError> {
        let setting = |field: &str, why: String| ShareError::Setting { field: field.into(), why };
        match self {
            KeySource::Missing => Err(ShareError::NoKey),
            KeySource::Keyless => Ok(None),
            KeySource::Key(key) => match yuzuri_policy::check_key(key.secret()) {
                Ok(()) => Ok(Some(Secret::Key(Box::new(key.clone())))),
                Err(weak) => {
                    Err(setting("key", format!("this key is easy to guess: {weak}; use 32 random bytes")))
                }
            },
            KeySource::Passphrase(words) if words.chars().count() < MIN_PASSPHRASE => Err(setting(
                "passphrase",
                format!(
                    "it must have at least {MIN_PASSPHRASE} characters; a key file is better (`yuzuri \
                     share key FILE`)"
                ),
            )),
            KeySource::Passphrase(words) => match yuzuri_policy::check_pattern(words.as_bytes()) {
                Ok(()) => Ok(Some(Secret::Words(words.as_str().into()))),
                Err(weak) => Err(setting(
                    "passphrase",
                    format!(
                        "this passphrase is easy to guess: {weak}; use four unrelated words, or a key file"
                    ),
                )),
            },
            KeySource::File(file) => {
                let key = read_key(file, warnings)?;
                Ok(Some(Secret::Key(Box::new(key))))
            }
        }
    }
}

/// A member's key file, as written by an authority.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberFile {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) generation: u32,
    pub(crate) own: String,
    pub(crate) key: String,
}

fn read_key(file: &Path, warnings: &mut Vec<String>) -> Result<Key, ShareError> {
    let wrong = |why: String| ShareError::KeyFile { file: file.to_owned(), why };
    let opened = std::fs::File::open(file).map_err(|e| match e.kind() {
        ErrorKind::NotFound => wrong("it does not exist; `yuzuri share key FILE` creates one".into()),
        _ => wrong(e.to_string()),
    })?;
    let mode = opened.metadata().map_err(|e| wrong(e.to_string()))?.permissions().mode() & 0o777;
    let mut bytes = Vec::new();
    opened.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    let key = key_of(&bytes).map_err(|why| wrong(why.to_string()))?;
    yuzuri_policy::check_key(key.secret()).map_err(|weak| {
        wrong(format!(
            "this key is easy to guess: {weak}; create another one with `yuzuri share key FILE` and copy \
             it to every terminal"
        ))
    })?;
    // The owner's permissions other than read and write do not expose the key.
    if mode & !WIDEST_MODE & 0o077 != 0 {
        let who = if mode & 0o007 != 0 { "every user of this machine" } else { "its group" };
        warnings.push(format!(
            "key file {}: its mode {mode:04o} lets {who} read or change the key; set it to 0600 or 0640 \
             (`chmod 0640 {0}`), and replace a key that others may have read",
            file.display(),
        ));
    }
    Ok(key)
}

/// Why the content of a key file is no key.
#[derive(Debug, thiserror::Error)]
enum NotAKey {
    #[error(
        "it holds {bytes} bytes; a key is {KEY_BYTES} bytes or their {digits} hexadecimal digits, as `yuzuri share key FILE` writes them, or what \
         `yuzuri share authority issue` writes",
        digits = 2 * KEY_BYTES
    )]
    Length { bytes: usize },
    #[error("it is not a key file that `yuzuri share authority issue` wrote: {}", .0.message().replace('\n', "; "))]
    Toml(toml::de::Error),
    #[error(
        "it is not a key file that `yuzuri share authority issue` wrote: `{0}` is not 64 hexadecimal digits"
    )]
    Digits(&'static str),
    #[error(
        "it is not a key file that `yuzuri share authority issue` wrote: number or generation is out of range"
    )]
    Range,
}

fn key_of(bytes: &[u8]) -> Result<Key, NotAKey> {
    let raw = <[u8; KEY_BYTES]>::try_from(bytes).ok();
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if let Some(key) = raw.or_else(|| from_hex(text.trim())) {
        return Ok(Key::from_bytes(key));
    }
    if !text.contains("own") {
        return Err(NotAKey::Length { bytes: bytes.len() });
    }
    let member: MemberFile = toml::from_str(text).map_err(NotAKey::Toml)?;
    let hex = |field: &'static str, text: &str| from_hex::<KEY_BYTES>(text).ok_or(NotAKey::Digits(field));
    let (own, key) = (hex("own", &member.own)?, hex("key", &member.key)?);
    if member.number == 0 || !(1..=MAX_GENERATION).contains(&member.generation) {
        return Err(NotAKey::Range);
    }
    Ok(Key::of_member(key, Membership { number: member.number, own, generation: member.generation }))
}

/// A file of notices.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticesFile {
    pub(crate) generation: u32,
    /// By member number; TOML keys are strings.
    pub(crate) notices: BTreeMap<String, String>,
}

fn read_notices(file: &Path) -> Result<Notices, ShareError> {
    let wrong =
        |why: String| ShareError::System { doing: format!("reading the notices {}", file.display()), why };
    let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
    let not_so = "it is not a notice file that `yuzuri share authority exclude` wrote";
    let read: NoticesFile =
        toml::from_str(&text).map_err(|e| wrong(format!("{not_so}: {}", e.message().replace('\n', "; "))))?;
    let notice = |(number, hex): (&String, &String)| {
        let notice = Notice::from_bytes(&from_hex(hex)?);
        Some((number.parse().ok()?, notice)).filter(|_| notice.generation == read.generation)
    };
    let all: Option<BTreeMap<u32, Notice>> = read.notices.iter().map(notice).collect();
    all.map(Notices).ok_or_else(|| wrong(not_so.into()))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<Vec<u8>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::{Duration, Instant};

    /// 32 bytes that look random.
    fn random(byte: u8) -> [u8; 32] {
        *yuzuri_policy::Authority::from_bytes([byte; 32]).member(1, 1).unwrap().secret()
    }

    fn load(source: &KeySource) -> Result<Option<Secret>, ShareError> {
        source.load(&mut Vec::new())
    }

    fn key(bytes: [u8; 32]) -> Option<Secret> {
        Some(Secret::Key(Box::new(Key::from_bytes(bytes))))
    }

    #[test]
    fn keys_are_read_as_bytes_and_as_digits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let source = KeySource::File(file.clone());
        std::fs::write(&file, random(1)).unwrap();
        assert!(load(&source).unwrap() == key(random(1)));
        std::fs::write(&file, format!("{}\n", to_hex(&random(1)))).unwrap();
        assert!(load(&source).unwrap() == key(random(1)));
        for wrong in [vec![1; 31], b"a5a5".to_vec(), "zz".repeat(32).into_bytes(), vec![0xff; 10_000]] {
            std::fs::write(&file, wrong).unwrap();
            let error = load(&source).err().unwrap().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
        std::fs::write(&file, "number = 1\nown = \"00\"\n").unwrap();
        let error = load(&source).err().unwrap().to_string();
        assert!(error.contains("authority issue"), "{error}");
        let error = load(&KeySource::File(folder.path().join("none"))).err().unwrap().to_string();
        assert!(error.contains("does not exist"), "{error}");
    }

    #[test]
    fn a_missing_key_is_reported() {
        assert!(matches!(load(&KeySource::Missing), Err(ShareError::NoKey)));
        assert!(matches!(load(&KeySource::Keyless), Ok(None)));
        assert!(matches!(load(&KeySource::Passphrase("short".into())), Err(ShareError::Setting { .. })));
        assert!(!format!("{:?}", KeySource::Passphrase("hidden words".into())).contains("hidden"));
    }

    #[test]
    fn keys_that_are_easily_guessed_are_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let counting: [u8; 32] = std::array::from_fn(|n| n as u8);
        for (weak, why) in [
            (vec![0; 32], "a pattern of 1 bytes"),
            ("5a".repeat(32).into_bytes(), "a pattern of 1 bytes"),
            (counting.to_vec(), "it is a sequence"),
            (to_hex(&counting).into_bytes(), "it is a sequence"),
            (b"correct horse battery staple 123".to_vec(), "as a `passphrase`"),
        ] {
            std::fs::write(&file, weak).unwrap();
            let error = load(&KeySource::File(file.clone())).err().unwrap().to_string();
            assert!(error.contains(why) && error.contains("yuzuri share key FILE"), "{error}");
        }
        let error = load(&KeySource::Passphrase("aaaaaaaaaaaaaaaa".into())).err().unwrap().to_string();
        assert!(error.contains("passphrase") && error.contains("four unrelated words"), "{error}");
        assert!(load(&KeySource::Key(Key::from_bytes([7; 32]))).is_err());
    }

    #[test]
    fn a_key_file_that_others_can_read_gives_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, random(1)).unwrap();
        for (mode, warned) in
            [(0o600, 0), (0o640, 0), (0o400, 0), (0o700, 0), (0o644, 1), (0o660, 1), (0o604, 1), (0o777, 1)]
        {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut warnings = Vec::new();
            KeySource::File(file.clone()).load(&mut warnings).unwrap();
            assert_eq!(warnings.len(), warned, "{mode:o} {warnings:?}");
            assert!(warnings.iter().all(|w| w.contains("chmod 0640") && w.contains(&format!("{mode:04o}"))));
        }
    }

    fn until(chain: &mut KeyChain, group: GroupId) -> Keys {
        let begun = Instant::now();
        loop {
            chain.work();
            if let Some(keys) = chain.of(group) {
                return keys;
            }
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_passphrase_gives_each_group_its_own_key_derived_once() {
        let words = "four words or more please";
        let secrets = Secrets { sends: Some(Secret::Words(words.into())), ..Secrets::default() };
        let mut chain = KeyChain::new(secrets.clone());
        let (one, other) = (GroupId::of(b"one"), GroupId::of(b"other"));
        // Nothing blocks.
        assert!(chain.of(one).is_none() && chain.of(other).is_none());
        let (first, second) = (until(&mut chain, one), until(&mut chain, other));
        assert!(first.key != second.key);
        assert!(first.key == Some(Key::from_passphrase(words, one)));
        assert!(chain.of(one).is_some_and(|keys| keys.key == first.key));
        chain.replace(secrets);
        assert!(chain.of(other).is_some(), "a reload computes nothing anew");
    }
}
