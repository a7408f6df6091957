//! The user that a process started by root changes to.

use crate::ConfineError;
use std::collections::HashSet;
use std::fs;

/// User ids that no distribution assigns (systemd, "Users, Groups, UIDs and GIDs": unused).
const FREE_UIDS: std::ops::RangeInclusive<u32> = 60_578..=61_183;

/// User and group to change to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Identity {
    /// Chooses a random user id that no process and no user of this machine has. Returns `None` if
    /// the caller is not root or this user namespace maps no such id. With an id of its own, no
    /// other process can signal the daemon; if it ran as `nobody`, any other process of `nobody`
    /// could.
    ///
    /// # Errors
    /// Returns an error if the system's random source cannot be read.
    pub fn of_its_own() -> Result<Option<Identity>, ConfineError> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(None);
        }
        let maps = ["uid_map", "gid_map"]
            .map(|map| fs::read_to_string(format!("/proc/self/{map}")).unwrap_or_default());
        let taken = taken();
        let free: Vec<u32> = FREE_UIDS
            .filter(|id| !taken.contains(id) && maps.iter().all(|map| is_mapped(map, *id)))
            .collect();
        if free.is_empty() {
            return Ok(None);
        }
        let random = getrandom::u32()
            .map_err(|e| ConfineError::system("choosing a user id", std::io::Error::other(e)))?;
        let id = free[random as usize % free.len()];
        Ok(Some(Identity { uid: id, gid: id }))
    }

    /// The user given by `--user`, or a user id of its own without that option.
    ///
    /// # Errors
    /// Returns an error if the user does not exist or the caller is not root.
    pub fn chosen(user: Option<&str>) -> Result<Option<Identity>, ConfineError> {
        let Some(user) = user else { return Identity::of_its_own() };
        let identity = Identity::named(user)?;
        if !nix::unistd::geteuid().is_root() {
            return Err(ConfineError::NotRoot(user.to_owned()));
        }
        Ok(Some(identity))
    }

    /// Looks up a user by its name in /etc/passwd, by `UID` or by `UID:GID`. The file is parsed
    /// here, because a statically linked program cannot load the sources that /etc/nsswitch.conf
    /// names.
    ///
    /// # Errors
    /// Returns an error if the user does not exist.
    pub fn named(user: &str) -> Result<Identity, ConfineError> {
        let unknown = || ConfineError::NoSuchUser(user.to_owned());
        let (uid, gid) = user.split_once(':').map_or((user, None), |(uid, gid)| (uid, Some(gid)));
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let identity = match (uid.parse(), gid) {
            (Ok(uid), Some(gid)) => Identity { uid, gid: gid.parse().map_err(|_| unknown())? },
            (Ok(uid), None) => {
                let group = entries(&passwd).find(|(_, entry)| entry.uid == uid).map(|(_, entry)| entry.gid);
                Identity { uid, gid: group.unwrap_or(uid) }
            }
            (Err(_), Some(_)) => return Err(unknown()),
            (Err(_), None) => entries(&passwd)
                .find(|(name, _)| *name == user)
                .map(|(_, entry)| entry)
                .ok_or_else(unknown)?,
        };
        // setresuid(2) takes -1 as "leave unchanged".
        if identity.uid == u32::MAX || identity.gid == u32::MAX { Err(unknown()) } else { Ok(identity) }
    }
}

fn entries(passwd: &str) -> impl Iterator<Item = (&str, Identity)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some((name, Identity { uid: uid.parse().ok()?, gid: gid.parse().ok()? }))
    })
}

/// Ids used by entries in /etc/passwd and by running processes.
fn taken() -> HashSet<u32> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut taken: HashSet<u32> = entries(&passwd).flat_map(|(_, entry)| [entry.uid, entry.gid]).collect();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        let ids = status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"));
        taken.extend(
            ids.flat_map(|line| line.split_whitespace().skip(1)).filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    taken
}

/// Whether a user namespace's map (user_namespaces(7): inside, outside, length) contains an id.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(length))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (first..first + length).contains(&u64::from(id))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn users_by_name_and_number() {
        assert_eq!(Identity::named("root").unwrap(), Identity { uid: 0, gid: 0 });
        assert_eq!(Identity::named("70000").unwrap(), Identity { uid: 70_000, gid: 70_000 });
        assert_eq!(Identity::named("70000:5").unwrap(), Identity { uid: 70_000, gid: 5 });
        for user in ["", "no such user", "root:5", "5:x", "-1", "4294967295", "1:4294967295"] {
            let error = Identity::named(user).unwrap_err().to_string();
            assert!(error.contains(&format!("'{user}'")) && error.contains("UID:GID"), "{error}");
        }
    }

    #[test]
    fn its_own_id_is_nobody_elses() {
        let Some(own) = Identity::of_its_own().unwrap() else { return println!("skipped: not root") };
        assert!(FREE_UIDS.contains(&own.uid) && own.uid == own.gid);
        assert!(!taken().contains(&own.uid));
        assert!(taken().contains(&0), "root has processes");
    }

    #[test]
    fn a_namespace_has_the_ids_of_its_map() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert!(is_mapped(map, 0) && is_mapped(map, 60_578) && is_mapped(map, 65_536));
        assert!(!is_mapped(map, 65_537) && !is_mapped("         0  1000  1\n", 60_578) && !is_mapped("", 0));
    }
}
