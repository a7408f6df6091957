//! Cleans up after a killed process before Linux 6.4: its congestion control stays registered, and
//! its name would be unusable.

use libbpf_rs::libbpf_sys;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use std::fs;

/// Unregisters our congestion control of this name if no process holds it. Returns whether there
/// was one.
pub(super) fn remove(name: &str) -> bool {
    // The map is named after its variable in bpf/control.bpf.c; the control's name is in its value.
    let maps = MapInfoIter::default().filter(|map| map.ty == MapType::StructOps && map.name == "yuzuri");
    let ids: Vec<u32> = maps.map(|map| map.id).collect();
    let mut removed = false;
    for id in ids {
        // Check first: our own descriptor would count as a holder.
        if !is_in_use(id)
            && let Ok(map) = MapHandle::from_map_id(id)
            && map
                .lookup(&FIRST, MapFlags::ANY)
                .is_ok_and(|value| value.is_some_and(|value| is_named(&value, name)))
        {
            removed |= map.delete(&FIRST).is_ok();
        }
    }
    removed
}

/// The key of a control in its map.
const FIRST: [u8; size_of::<libbpf_sys::__u32>()] = [0; 4];

/// Whether the name occurs in a `tcp_congestion_ops`, at the offset that this kernel has.
fn is_named(value: &[u8], name: &str) -> bool {
    let mut field = [0; 16];
    field.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    value.windows(field.len()).any(|window| window == field)
}

/// Whether any process has the map open.
fn is_in_use(id: u32) -> bool {
    let line = format!("map_id:\t{id}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let descriptors =
        processes.filter_map(|process| fs::read_dir(process.path().join("fdinfo")).ok()).flatten().flatten();
    descriptors
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .any(|text| text.lines().any(|l| l == line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_match() {
        let mut value = vec![0xff; 40];
        value[17..33].copy_from_slice(b"yuzuri\0\0\0\0\0\0\0\0\0\0");
        assert!(is_named(&value, "yuzuri"));
        assert!(!is_named(&value, "yuzur") && !is_named(&value, "yuzuri2"));
    }
}
