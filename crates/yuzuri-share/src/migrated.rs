//! Flows that were migrated to our congestion control and restored. The kernel permanently marks a
//! socket whose congestion control was set by socket option, and a migration sets that mark. A
//! controller that does not know these flows assumes that their programs chose the congestion
//! control, and leaves them alone.

use crate::{ShareError, folder};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use yuzuri_kernel::steer::SteerOptions;
use yuzuri_trace::FlowId;

/// The flows of all control loops of this process. A socket cookie is unique on the whole machine.
static OF_THIS_PROCESS: Mutex<Vec<FlowId>> = Mutex::new(Vec::new());

/// Identifies the boot of the machine. Socket cookies start again at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The record of restored flows, for this process and the next one.
#[derive(Debug, Default)]
pub(crate) struct MigratedFlows {
    file: Option<PathBuf>,
}

impl MigratedFlows {
    /// Creates the record; also kept in `file` if one is given.
    pub(crate) fn new(file: Option<PathBuf>) -> MigratedFlows {
        MigratedFlows { file }
    }

    /// All recorded flows, the latest last.
    pub(crate) fn before(&self) -> Vec<FlowId> {
        let stored = self.file.as_deref().map(|file| stored(file, boot_id().as_deref())).unwrap_or_default();
        joined(stored, &OF_THIS_PROCESS.lock()).0
    }

    /// Records flows that were restored.
    ///
    /// # Errors
    /// If the file cannot be written: the next process will leave these flows alone, this process
    /// will not. If there is no room for all flows: the next process will leave the oldest alone.
    pub(crate) fn store(&self, given_back: &[FlowId]) -> Result<(), ShareError> {
        if given_back.is_empty() {
            return Ok(());
        }
        {
            let mut known = OF_THIS_PROCESS.lock();
            *known = joined(std::mem::take(&mut *known), given_back).0;
        }
        let Some(file) = &self.file else { return Ok(()) };
        let written =
            boot_id().ok_or_else(|| std::io::Error::new(ErrorKind::NotFound, BOOT_ID)).and_then(|boot| {
                let (flows, left_out) = joined(stored(file, Some(&boot)), given_back);
                let lines: String = flows.iter().map(|flow| format!("{}\n", flow.0)).collect();
                folder::replace(file, &format!("{boot}\n{lines}")).map(|()| left_out)
            });
        let doing = || format!("storing in {} which flows were restored", file.display());
        match written.map_err(|e| ShareError::system(doing(), e))? {
            0 => Ok(()),
            left_out => Err(ShareError::system(
                doing(),
                format!(
                    "there was no room for the {left_out} oldest: the next daemon leaves alone those that \
                     are still open"
                ),
            )),
        }
    }
}

fn boot_id() -> Option<String> {
    std::fs::read_to_string(BOOT_ID).ok().map(|text| text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Reads the flows of this boot from a file: the boot ID, then one cookie per line. A missing or
/// invalid file gives no flows; the only cost is that a few flows are left alone.
fn stored(file: &Path, boot: Option<&str>) -> Vec<FlowId> {
    let text = folder::read(file).unwrap_or_default();
    let mut lines = text.lines();
    if boot.is_none() || lines.next() != boot {
        return Vec::new();
    }
    lines.map_while(|line| line.parse().ok()).map(FlowId).collect()
}

/// Merges both lists without duplicates, newer flows last. If a controller cannot be given that
/// many, the oldest are dropped. The kernel does not report which of them still exist. Also returns
/// how many were dropped.
fn joined(mut older: Vec<FlowId>, newer: &[FlowId]) -> (Vec<FlowId>, usize) {
    let again: HashSet<FlowId> = newer.iter().copied().collect();
    older.retain(|flow| !again.contains(flow));
    older.extend(newer);
    let left_out = older.len().saturating_sub(SteerOptions::MAX_MIGRATED_BEFORE);
    older.drain(..left_out);
    (older, left_out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn flows(ids: impl IntoIterator<Item = u64>) -> Vec<FlowId> {
        ids.into_iter().map(FlowId).collect()
    }

    #[test]
    fn flows_are_stored_across_processes_and_not_across_boots() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run/share.migrated");
        let boot = boot_id().unwrap();
        let migrated = MigratedFlows::new(Some(file.clone()));
        assert_eq!(stored(&file, Some(&boot)), []);
        migrated.store(&flows([u64::MAX, 7])).unwrap();
        migrated.store(&[]).unwrap();
        migrated.store(&flows([8, u64::MAX])).unwrap();
        assert_eq!(stored(&file, Some(&boot)), flows([7, 8, u64::MAX]));
        assert_eq!(stored(&file, Some("another")), []);
        assert_eq!(stored(&file, None), []);
        // The same process knows them without a file.
        let known = MigratedFlows::default().before();
        assert!(flows([7, 8, u64::MAX]).iter().all(|flow| known.contains(flow)), "{known:?}");
        // A full disk has truncated the file.
        std::fs::write(&file, format!("{boot}\n7\n8x\n9\n")).unwrap();
        assert_eq!(stored(&file, Some(&boot)), flows([7]));
    }

    #[test]
    fn a_record_that_cannot_be_stored_is_reported_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("share.migrated");
        std::fs::create_dir(&file).unwrap();
        let error = MigratedFlows::new(Some(file)).store(&flows([11])).unwrap_err().to_string();
        assert!(error.contains("share.migrated which flows were restored"), "{error}");
        assert!(MigratedFlows::default().before().contains(&FlowId(11)));
    }

    #[test]
    fn the_oldest_flows_are_dropped_from_a_full_record() {
        let most = SteerOptions::MAX_MIGRATED_BEFORE as u64;
        let (all, left_out) = joined(flows(0..most), &flows([3, most]));
        assert_eq!(left_out, 1);
        assert_eq!(all.len() as u64, most);
        assert_eq!(all[..4], flows([1, 2, 4, 5]));
        assert_eq!(all[all.len() - 2..], flows([3, most]));
    }
}
