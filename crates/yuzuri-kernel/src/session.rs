//! Describes an observation on this machine.

use crate::clock;
use yuzuri_trace::{Density, Filter, Hook, Session, Source};

/// Describes a stream that begins now on this machine.
pub(crate) fn describe(source: Source, density: Density, filter: &Filter, hooks: Vec<Hook>) -> Session {
    let uname = nix::sys::utsname::uname();
    let word = |part: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        uname.as_ref().map(|u| part(u).to_string_lossy().into_owned()).unwrap_or_default()
    };
    let mono_ns = clock::mono_ns();
    Session {
        yuzuri: env!("CARGO_PKG_VERSION").to_owned(),
        host: word(|u| u.nodename()),
        kernel: format!("{} {}", word(|u| u.release()), word(|u| u.version())),
        machine: word(|u| u.machine()),
        source,
        density,
        filter: filter.to_string(),
        hooks,
        started_unix_ns: mono_ns as i64 + clock::wall_offset_ns(),
        started_mono_ns: mono_ns,
    }
}
