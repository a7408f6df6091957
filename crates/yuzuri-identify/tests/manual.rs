//! Completions and manual pages of `yuzuri-identify` are generated from its help texts.

#[path = "../../yuzuri-manual/tests/common/mod.rs"]
mod common;

use common::Program;

const PROGRAM: Program = Program {
    file: env!("CARGO_BIN_EXE_yuzuri-identify"),
    name: "yuzuri-identify",
    completions: "--completions",
    man: "--man",
    foreign: &[],
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
