//! Random transfers with a known limit, and how well the limit is found: for `make why-figures`.
//!
//!     why_lot make --seed N --rounds N [--only KIND,...] --yuzuri PROGRAM FOLDER
//!     why_lot judge [--list] [--captures] FOLDER...
//!
//! `make` makes each transfer between two network namespaces, records it at every ACK, in the
//! default density and by polling, and captures it at both ends. `judge` reads the stored files, so
//! a change of the rules can be judged on the same transfers. Only a seed that nobody has looked at
//! before judges a rule fairly. `--captures` omits the recordings and tshark.
#![allow(clippy::unwrap_used, reason = "a program for measuring: what fails stops it, with the place")]

mod case;
mod judge;
mod make;
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;

struct Args {
    seed: u64,
    rounds: u64,
    only: Vec<String>,
    yuzuri: PathBuf,
    list: bool,
    captures: bool,
    folders: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let mut args = Args {
        seed: 1,
        rounds: 1,
        only: Vec::new(),
        yuzuri: "target/release/yuzuri".into(),
        list: false,
        captures: false,
        folders: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} takes a value"));
        match word.as_str() {
            "--seed" => args.seed = value().parse().unwrap(),
            "--rounds" => args.rounds = value().parse().unwrap(),
            "--only" => args.only = value().split(',').map(str::to_owned).collect(),
            "--yuzuri" => args.yuzuri = value().into(),
            "--list" => args.list = true,
            "--captures" => args.captures = true,
            folder => args.folders.push(folder.into()),
        }
    }
    match (what.as_str(), &args.folders[..]) {
        ("make", [folder]) => make::all(&args, folder),
        ("judge", [_, ..]) => judge::all(&args),
        _ => {
            eprintln!(
                "why_lot make --seed N --rounds N [--only KIND,...] --yuzuri PROGRAM FOLDER, or why_lot judge [--list] [--captures] FOLDER..."
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
