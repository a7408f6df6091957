//! `yuzuri share authority`: gives out the keys of a group's members, and shuts members out.

use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use yuzuri_share::AuthorityFile;

#[derive(Debug, Subcommand)]
pub enum AuthorityTask {
    /// Make an authority: a file that gives out keys. Keep it secret, and off the terminals
    New {
        /// Where to; nothing is replaced
        authority: PathBuf,
    },
    /// Give a terminal a key of its own
    ///
    /// For a terminal that has one already: write the same key again, as the group is now.
    Issue {
        /// The authority's file
        authority: PathBuf,
        /// What the terminal is called
        name: String,
        /// Where to write its key file; nothing is replaced
        key_file: PathBuf,
    },
    /// Shut terminals out: the group gets another key, and all others are told it
    ///
    /// Bring the notices to one terminal that stays (`notice_file` in its configuration, then `yuzuri share reload`). It tells those that it
    /// hears; they need nothing else.
    ShutOut {
        /// The authority's file
        authority: PathBuf,
        /// Which
        #[arg(required = true)]
        names: Vec<String>,
        /// Where to write the notices; one that is there is replaced
        #[arg(long, value_name = "FILE")]
        notices: PathBuf,
    },
    /// Write the notices of the present key again
    Notices {
        /// The authority's file
        authority: PathBuf,
        /// Where to; one that is there is replaced
        notices: PathBuf,
    },
    /// List the terminals that were given a key
    List {
        /// The authority's file
        authority: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does what the words say.
pub fn run(task: AuthorityTask) -> anyhow::Result<ExitCode> {
    match task {
        AuthorityTask::New { authority } => {
            AuthorityFile::create(&authority)?;
            println!(
                "made {0}: keep it secret; `yuzuri share authority issue {0} NAME FILE` gives a terminal its key",
                authority.display()
            );
        }
        AuthorityTask::Issue { authority, name, key_file } => {
            AuthorityFile::open(&authority)?.issue(&name, &key_file)?;
            println!("made {}: bring it to '{name}' alone, and name it with --key-file", key_file.display());
        }
        AuthorityTask::ShutOut { authority, names, notices } => {
            let mut file = AuthorityFile::open(&authority)?;
            file.shut_out(&names, &notices)?;
            println!(
                "made {}, generation {}: bring it to one terminal that stays, name it there with --notice-file (notice_file) and reload",
                notices.display(),
                file.generation()
            );
        }
        AuthorityTask::Notices { authority, notices } => {
            let file = AuthorityFile::open(&authority)?;
            file.write_notices(&notices)?;
            println!("made {}, generation {}", notices.display(), file.generation());
        }
        AuthorityTask::List { authority, json } => {
            let file = AuthorityFile::open(&authority)?;
            if json {
                let list = serde_json::json!({ "generation": file.generation(), "members": file.members() });
                println!("{list}");
            } else {
                println!("the group's key is generation {}", file.generation());
                for member in file.members() {
                    let shut_out = member
                        .shut_out
                        .map_or(String::new(), |generation| format!("  shut out, generation {generation}"));
                    println!("{:>6}  {}{shut_out}", member.number, member.name);
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
