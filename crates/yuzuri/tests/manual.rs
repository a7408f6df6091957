//! Completions and manual pages of `yuzuri` match its help.

#[path = "../../yuzuri-manual/tests/common/mod.rs"]
mod common;

use common::Program;

const PROGRAM: Program = Program {
    file: env!("CARGO_BIN_EXE_yuzuri"),
    name: "yuzuri",
    completions: "completions",
    man: "man",
    foreign: &["identify", "lab"],
};

#[test]
fn bash_offers_all_of_the_help() {
    PROGRAM.completes_in_bash();
}

#[test]
fn fish_offers_all_of_the_help() {
    PROGRAM.completes_in_fish();
}

#[test]
fn zsh_loads_all_of_the_help() {
    PROGRAM.completes_in_zsh();
}

#[test]
fn each_command_has_a_page() {
    PROGRAM.has_manual_pages();
}

#[test]
fn pages_are_written_into_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man");
    let run = |args: &[&std::ffi::OsStr]| {
        std::process::Command::new(PROGRAM.file).args(args).output().expect("the program starts")
    };
    let written = run(&["man".as_ref(), "--folder".as_ref(), pages.as_ref()]);
    assert!(written.status.success(), "{written:?}");
    let page = |name: &str| std::fs::read(pages.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(page("yuzuri.1"), run(&["man".as_ref()]).stdout);
    assert_eq!(page("yuzuri-share-run.1"), run(&["man", "share", "run"].map(AsRef::as_ref)).stdout);
    assert!(!pages.join("yuzuri-lab.1").exists(), "that of another program");
}

#[test]
fn a_command_that_is_none_is_a_usage_error() {
    let finished =
        std::process::Command::new(PROGRAM.file).args(["man", "share", "ran"]).output().expect("it starts");
    assert_eq!(finished.status.code(), Some(2));
    let error = String::from_utf8_lossy(&finished.stderr);
    assert!(error.contains("yuzuri share has no command 'ran'"), "{error}");
}
