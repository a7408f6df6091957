//! Shell completions and manual pages, generated from the clap definition of a program's command
//! line, so that they always agree with its help.

use clap::Command;
use clap_mangen::Man;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

pub use clap_complete::Shell;

/// Why a manual page could not be produced.
#[derive(Debug, thiserror::Error)]
pub enum ManualError {
    /// The program has no such command.
    #[error("{program} has no command '{command}': `{program} --help` lists the commands")]
    UnknownCommand {
        /// Name of the program, including the subcommands that were found.
        program: String,
        /// The argument that names no subcommand.
        command: String,
    },
    /// A page could not be written to its folder.
    #[error("writing the manual page {}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Standard output could not be written.
    #[error("writing to standard output: {0}")]
    Output(#[source] io::Error),
    /// `man` was found but did not show the page.
    #[error(
        "showing the page with man(1): {0}; without a terminal the page itself is printed: redirect it to a file"
    )]
    Viewer(String),
}

/// A manual page in roff with the macros of man(7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManPage {
    /// File name, such as `yuzuri-share-run.1`.
    pub file_name: String,
    /// The roff source.
    pub roff: Vec<u8>,
}

/// Generates the script that completes the program's commands and options in `shell`.
#[must_use]
pub fn completions(mut command: Command, shell: Shell) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, &name, &mut script);
    if shell == Shell::Bash { with_hyphens_in_one_way(script, &name) } else { script }
}

/// Works around clap_complete's Bash script, which encodes hyphens in the program name in two
/// different ways and therefore offers nothing after a subcommand
/// (<https://github.com/clap-rs/clap/issues/6421>).
fn with_hyphens_in_one_way(script: Vec<u8>, name: &str) -> Vec<u8> {
    const SEPARATOR: &str = "__subcmd__";
    let [wrong, right] = [SEPARATOR, "__"].map(|hyphen| name.replace('-', hyphen) + SEPARATOR);
    String::from_utf8(script)
        .map_or_else(|error| error.into_bytes(), |text| text.replace(&wrong, &right).into_bytes())
}

/// Generates the page of the subcommand at `path`, or of the program itself if `path` is empty.
///
/// # Errors
/// Returns [`ManualError::UnknownCommand`] if an element of `path` names no subcommand.
pub fn page<S: AsRef<str>>(command: Command, path: &[S]) -> Result<ManPage, ManualError> {
    let root = built(command);
    let mut found = &root;
    for word in path.iter().map(AsRef::as_ref) {
        found = found.find_subcommand(word).ok_or_else(|| ManualError::UnknownCommand {
            program: found.get_bin_name().unwrap_or_else(|| found.get_name()).to_owned(),
            command: word.to_owned(),
        })?;
    }
    Ok(rendered(found, &root))
}

/// Generates the pages of the program and of all its subcommands, except hidden ones and those
/// listed in `without`.
#[must_use]
pub fn pages(command: Command, without: &[&str]) -> Vec<ManPage> {
    fn collect(command: &Command, root: &Command, without: &[&str], pages: &mut Vec<ManPage>) {
        pages.push(rendered(command, root));
        for below in command.get_subcommands() {
            if !below.is_hide_set() && !without.contains(&below.get_name()) {
                collect(below, root, without, pages);
            }
        }
    }
    let root = built(command);
    let mut pages = Vec::new();
    collect(&root, &root, without, &mut pages);
    pages
}

/// Builds the command tree with full names (`yuzuri share run`) and without `help`, which needs no
/// page.
fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

fn rendered(command: &Command, root: &Command) -> ManPage {
    let name = root.get_name();
    let man = Man::new(command.clone())
        .source(format!("{name} {}", root.get_version().unwrap_or_default()).trim_end())
        .manual("Yuzuri");
    let mut roff = Vec::new();
    man.render(&mut roff).expect("memory takes all that is written");
    ManPage { file_name: man.get_filename(), roff }
}

/// Writes the pages to `folder`, which is created if it does not exist.
///
/// # Errors
/// Returns [`ManualError::File`] if the folder cannot be created or a file cannot be written.
pub fn write(pages: &[ManPage], folder: &Path) -> Result<(), ManualError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ManualError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for page in pages {
        let path = folder.join(&page.file_name);
        std::fs::write(&path, &page.roff).map_err(failed(&path))?;
    }
    Ok(())
}

/// Shows the page with man(1) if standard output is a terminal and man(1) is installed; otherwise
/// prints its source.
///
/// # Errors
/// Returns [`ManualError::Output`] if standard output cannot be written and [`ManualError::Viewer`]
/// if `man` fails.
pub fn show(page: &ManPage) -> Result<(), ManualError> {
    if io::stdout().is_terminal() && shown_by_man(page)? {
        return Ok(());
    }
    print(&page.roff)
}

/// Prints bytes to standard output.
///
/// # Errors
/// Returns [`ManualError::Output`] if standard output cannot be written.
pub fn print(bytes: &[u8]) -> Result<(), ManualError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(ManualError::Output)
}

/// Shows the page with `man`. Returns `false` if `man` is not installed.
fn shown_by_man(page: &ManPage) -> Result<bool, ManualError> {
    let viewer_failed = |error: io::Error| ManualError::Viewer(error.to_string());
    let mut man = match std::process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        result => result.map_err(viewer_failed)?,
    };
    if let Some(mut to) = man.stdin.take() {
        match to.write_all(&page.roff) {
            // `man` exited without reading its input. Its exit status gives the reason.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            result => result.map_err(viewer_failed)?,
        }
    }
    let status = man.wait().map_err(viewer_failed)?;
    if status.success() { Ok(true) } else { Err(ManualError::Viewer(status.to_string())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Arg;

    fn program() -> Command {
        Command::new("prog")
            .version("3")
            .subcommand(
                Command::new("group")
                    .about("Groups")
                    .subcommand(Command::new("join").arg(Arg::new("key").long("key"))),
            )
            .subcommand(Command::new("inside").hide(true))
            .subcommand(Command::new("other"))
    }

    #[test]
    fn a_path_leads_to_its_page() {
        let page = page(program(), &["group", "join"]).unwrap();
        assert_eq!(page.file_name, "prog-group-join.1");
        let text = String::from_utf8(page.roff).unwrap();
        assert!(
            text.contains(r"prog group join") && text.contains(r"\-\-key") && text.contains("prog 3"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_command_is_reported_with_what_was_found() {
        let error = page(program(), &["group", "leave"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "prog group has no command 'leave': `prog group --help` lists the commands"
        );
    }

    #[test]
    fn all_pages_but_hidden_and_excluded_ones() {
        let names: Vec<_> = pages(program(), &["other"]).into_iter().map(|page| page.file_name).collect();
        assert_eq!(names, ["prog.1", "prog-group.1", "prog-group-join.1"]);
    }
}
