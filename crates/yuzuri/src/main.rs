//! The command: parses arguments, connects sources with user interfaces, prints.

mod ap;
mod authority;
mod cli;
mod confine;
#[cfg(feature = "convert")]
mod convert;
mod daemon;
mod doctor;
mod identify;
mod lab;
mod manual;
mod memory;
mod names;
mod own_record;
mod own_share;
mod probe;
mod program;
mod replay;
mod share;
mod transfer;
mod units;
mod watch;
mod why;
mod words;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    names::without_libraries();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Watch(args) => watch::run(args),
        Command::Top(args) => watch::top(args),
        Command::Why(args) => why::run(args),
        Command::Replay(args) => replay::run(args),
        #[cfg(feature = "convert")]
        Command::Convert(args) => convert::run(&args),
        #[cfg(not(feature = "convert"))]
        Command::Convert(_) => Err(anyhow::anyhow!(
            "this program was built for the demo, without conversion: build it with `make yuzuri`, or install a package"
        )),
        Command::Send(args) => transfer::send(args),
        Command::Receive(args) => transfer::receive(args),
        Command::Lab(args) => lab::run(&args),
        Command::Identify(args) => identify::run(&args),
        Command::Share(args) => share::run(*args),
        Command::Ap(args) => ap::run(*args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    };
    result.unwrap_or_else(|error| yuzuri_exit::failed_unless_unread("yuzuri", error.as_ref()))
}

#[cfg(test)]
#[path = "../../../tests/docs.rs"]
mod docs;

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments after `lab` and `identify` belong to those programs, which test them alike.
    #[test]
    fn every_command_line_in_the_documentation_is_accepted() {
        docs::assert_accepted::<Cli>(None, 50);
    }
}
