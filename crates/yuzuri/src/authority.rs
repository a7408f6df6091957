//! `yuzuri share authority`: issues the keys of a group's members and excludes members.

use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use yuzuri_share::AuthorityFile;

#[derive(Debug, Subcommand)]
pub enum AuthorityTask {
    /// Create an authority file, which issues keys. Keep it secret and do not copy it to the
    /// terminals
    New {
        /// File to create; an existing file is not replaced
        authority: PathBuf,
    },
    /// Issue a key to a terminal
    ///
    /// If the terminal already has a key, the same key is written again, for the group's current
    /// generation.
    Issue {
        /// Authority file
        authority: PathBuf,
        /// Name of the terminal
        name: String,
        /// Key file to create; an existing file is not replaced
        key_file: PathBuf,
    },
    /// Exclude terminals: the group gets a new key, which all other members receive
    ///
    /// Copy the notice file to one remaining terminal (`notice_file` in its configuration, then
    /// `yuzuri share reload`). It forwards the notices to the other members.
    Exclude {
        /// Authority file
        authority: PathBuf,
        /// Names of the terminals to exclude
        #[arg(required = true)]
        names: Vec<String>,
        /// Notice file to write; an existing file is replaced
        #[arg(long, value_name = "FILE")]
        notices: PathBuf,
    },
    /// Write the notices of the current key again
    Notices {
        /// Authority file
        authority: PathBuf,
        /// Notice file to write; an existing file is replaced
        notices: PathBuf,
    },
    /// List the terminals that have a key
    List {
        /// Authority file
        authority: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the chosen command.
pub fn run(task: AuthorityTask) -> anyhow::Result<ExitCode> {
    match task {
        AuthorityTask::New { authority } => {
            AuthorityFile::create(&authority)?;
            println!(
                "created {0}: keep it secret; `yuzuri share authority issue {0} NAME FILE` issues a key to a terminal",
                authority.display()
            );
        }
        AuthorityTask::Issue { authority, name, key_file } => {
            AuthorityFile::open(&authority)?.issue(&name, &key_file)?;
            println!("created {}: copy it to '{name}' only, and pass it with --key-file", key_file.display());
        }
        AuthorityTask::Exclude { authority, names, notices } => {
            let mut file = AuthorityFile::open(&authority)?;
            file.exclude(&names, &notices)?;
            println!(
                "created {}, generation {}: copy it to one remaining terminal, pass it with --notice-file (or notice_file) and reload",
                notices.display(),
                file.generation()
            );
        }
        AuthorityTask::Notices { authority, notices } => {
            let file = AuthorityFile::open(&authority)?;
            file.write_notices(&notices)?;
            println!("created {}, generation {}", notices.display(), file.generation());
        }
        AuthorityTask::List { authority, json } => {
            let file = AuthorityFile::open(&authority)?;
            if json {
                let list = serde_json::json!({ "generation": file.generation(), "members": file.members() });
                println!("{list}");
            } else {
                println!("the group's key is generation {}", file.generation());
                for member in file.members() {
                    let excluded = member
                        .excluded
                        .map_or(String::new(), |generation| format!("  excluded, generation {generation}"));
                    println!("{:>6}  {}{excluded}", member.number, member.name);
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
