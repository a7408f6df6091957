//! `yuzuri words FOLDER`: writes manual pages and shell completions, from the same description that the command line is
//! parsed by. Only in a build with the feature `words`, which is not given away.

use crate::cli::Cli;
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::Path;
use std::process::ExitCode;

/// What the command becomes: programs of their own, with pages of their own.
const PROGRAMS: [&str; 2] = ["yuzuri-identify", "yuzuri-lab"];

/// Writes them where they are asked for. Not one of the command's words: those are what is written about.
pub fn write_if_asked() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [word, folder] = &words[..] else { return None };
    (word == "words").then(|| match write(folder.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => yuzuri_exit::failed("yuzuri", error.as_ref()),
    })
}

fn write(folder: &Path) -> anyhow::Result<()> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&pages, &completions] {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "yuzuri", &completions)
            .with_context(|| format!("writing completions for {shell} into {}", completions.display()))?;
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &pages)
}

/// A page for the command and for each below it: yuzuri.1, yuzuri-share.1, yuzuri-share-run.1.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    if PROGRAMS.contains(&command.get_display_name().unwrap_or_default()) {
        return Ok(());
    }
    Man::new(command.clone())
        .source(concat!("yuzuri ", env!("CARGO_PKG_VERSION")))
        .manual("Yuzuri")
        .generate_to(folder)
        .with_context(|| format!("writing the page of {} into {}", command.get_name(), folder.display()))?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}
