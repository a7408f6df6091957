//! Determines the shared libraries that a program needs.

use crate::error::{AtPath, output};
use crate::{Arch, VmError};
use object::elf::{DT_NEEDED, DT_STRTAB, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Requirements of an ELF file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Architecture; `None` if no guest has it.
    pub(crate) arch: Option<Arch>,
    /// Names of the shared libraries, such as `libc.so.6`.
    pub(crate) libraries: Vec<String>,
    /// Whether a dynamic loader starts it. If not, it is a static program or a library.
    pub(crate) has_loader: bool,
}

/// Reads the requirements of a file. Returns `None` if it is not a 64-bit ELF file, for example a
/// script.
///
/// # Errors
/// Returns an error if the ELF file is malformed.
pub(crate) fn needs(content: &[u8]) -> Result<Option<Needs>, object::Error> {
    if !content.starts_with(b"\x7fELF\x02") {
        return Ok(None);
    }
    let header = FileHeader64::<Endianness>::parse(content)?;
    let endian = header.endian()?;
    let arch = match header.e_machine(endian) {
        elf::EM_X86_64 => Some(Arch::Amd64),
        elf::EM_AARCH64 => Some(Arch::Arm64),
        _ => None,
    };
    let segments = header.program_headers(endian, content)?;
    let mut needs = Needs { arch, libraries: Vec::new(), has_loader: false };
    for segment in segments {
        needs.has_loader |= segment.p_type(endian) == PT_INTERP;
        let Some(dynamic) = segment.dynamic(endian, content)? else { continue };
        let strings = dynamic.iter().find(|d| d.tag(endian) == DT_STRTAB).map(|d| d.val(endian));
        for entry in dynamic.iter().filter(|d| d.tag(endian) == DT_NEEDED) {
            // The string table is given by its address in memory.
            let address = strings.unwrap_or_default() + entry.val(endian);
            let name = segments.iter().find_map(|s| {
                let data = s.data(endian, content).ok()?;
                let start = usize::try_from(address.checked_sub(s.p_vaddr(endian))?).ok()?;
                data.get(start..)?.split(|b| *b == 0).next()
            });
            needs.libraries.extend(name.map(|n| String::from_utf8_lossy(n).into_owned()));
        }
    }
    Ok(Some(needs))
}

/// The shared libraries and the dynamic loader with which the host would start a program.
///
/// # Errors
/// Returns an error if a library is missing on the host.
pub(crate) fn of_host_program(program: &Path) -> Result<BTreeSet<PathBuf>, VmError> {
    // Lines have the form "libz.so.1 => /lib/.../libz.so.1 (0x...)",
    // "/lib64/ld-linux-x86-64.so.2 (0x...)" or "libz.so.1 => not found".
    let text = output(Command::new("ldd").arg(program), "the program cannot be started here either")?;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some((name, "not found")) = line.split_once(" => ") {
            return Err(VmError::Unfit(format!(
                "{} needs {name}, which is not installed here: install it, or link the program statically",
                program.display()
            )));
        }
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Reads the version of a GNU C library, such as (2, 36), from its text "GNU C Library (...) stable
/// release version 2.36.".
pub(crate) fn glibc_version(libc: &Path) -> Result<(u32, u32), VmError> {
    let content = std::fs::read(libc).at("reading", libc)?;
    let mark = b"release version ";
    let at = content.windows(mark.len()).position(|w| w == mark);
    let text = at.map(|at| String::from_utf8_lossy(&content[at + mark.len()..][..16]).into_owned());
    let version = text.and_then(|text| {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    version.ok_or_else(|| VmError::Unfit(format!("{} contains no version", libc.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_test_needs_libc() {
        let path = std::env::current_exe().unwrap();
        let needs = needs(&std::fs::read(&path).unwrap()).unwrap().unwrap();
        assert!(needs.arch.is_some_and(Arch::is_native));
        assert!(needs.has_loader && needs.libraries.iter().any(|l| l == "libc.so.6"), "{needs:?}");
        let found = of_host_program(&path).unwrap();
        let libc = found.iter().find(|p| p.ends_with("libc.so.6")).unwrap();
        assert!(glibc_version(libc).unwrap() >= (2, 17));
        // All libraries that ldd lists, without the kernel's vDSO.
        for library in &needs.libraries {
            assert!(found.iter().any(|p| p.file_name().unwrap().to_str() == Some(library)), "{library}");
        }
    }

    #[test]
    fn a_script_needs_nothing_and_a_broken_file_is_an_error() {
        assert_eq!(needs(b"#!/bin/sh\n").unwrap(), None);
        assert!(needs(b"\x7fELF\x02\x01").is_err());
    }
}
