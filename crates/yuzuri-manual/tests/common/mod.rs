//! Compares a program's completions and manual pages with its help, using the real shells and
//! man(1). The tests of each program include this file.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program under test and its command-line interface.
pub struct Program<'a> {
    /// Path of the executable.
    pub file: &'a str,
    /// Name of the program.
    pub name: &'a str,
    /// Argument that precedes the shell's name to print completions.
    pub completions: &'a str,
    /// Argument that precedes a subcommand to print its manual page.
    pub man: &'a str,
    /// Subcommands that are separate programs. Their help and pages are not checked here.
    pub foreign: &'a [&'a str],
}

/// Contents of one command's help.
struct Help {
    path: Vec<String>,
    commands: Vec<String>,
    options: BTreeSet<String>,
}

fn run(program: &str, args: &[&str]) -> std::io::Result<Output> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .env("LC_ALL", "C.UTF-8")
        .env("COLUMNS", "100")
        .output()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a program and returns its standard output. The program must succeed and write nothing to
/// standard error.
fn quiet(program: &str, args: &[&str]) -> String {
    let output = run(program, args).unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{program} {args:?}: {}: {errors}", output.status);
    text(&output.stdout)
}

/// Like [`quiet`], but returns `None` if the program is not installed.
fn quiet_if_installed(program: &str, args: &[&str]) -> Option<String> {
    match run(program, &["--version"]) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("{program}: skipped: it is not installed");
            None
        }
        _ => Some(quiet(program, args)),
    }
}

impl Program<'_> {
    /// The help of the program and of all its subcommands.
    fn helps(&self) -> Vec<Help> {
        let mut helps = Vec::new();
        let mut paths = vec![Vec::new()];
        while let Some(path) = paths.pop() {
            let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
            args.push("--help");
            let help = Help::of(&quiet(self.file, &args), path.clone());
            for command in help.commands.iter().filter(|c| !self.foreign.contains(&c.as_str())) {
                paths.push(path.iter().chain([command]).cloned().collect());
            }
            helps.push(help);
        }
        // Guards against a parser that finds nothing, with which every test would pass.
        assert!(helps.iter().all(|help| help.options.contains("--help")));
        helps
    }

    fn script(&self, shell: &str, folder: &Path) -> (String, String) {
        let script = quiet(self.file, &[self.completions, shell]);
        let path = folder.join(format!("{}.{shell}", self.name));
        std::fs::write(&path, &script).unwrap();
        (script, path.to_str().unwrap().to_owned())
    }

    /// Checks the offers of a completion, one per line, for all options of the help.
    fn offers(&self, help: &Help, offered: &str, shell: &str) {
        let offered: BTreeSet<&str> = offered.lines().map(|l| l.split('\t').next().unwrap()).collect();
        for option in &help.options {
            assert!(
                offered.contains(option.as_str()),
                "{shell}: {} {:?} lacks {option}: {offered:?}",
                self.name,
                help.path
            );
        }
    }

    /// Checks that Bash offers every command and option of the help.
    pub fn completes_in_bash(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (_, file) = self.script("bash", folder.path());
        let Some(_) = quiet_if_installed("bash", &["-n", &file]) else { return };
        // Bash passes the program, the word to complete and the preceding word.
        let ask = r#"set -eu; file=$1 name=$2; shift 2; source "$file"; set +eu
            words=$(complete -p "$name"); [[ $words =~ -F\ ([^ ]+) ]] || exit 9
            COMP_WORDS=("$name" "$@"); COMP_CWORD=$#; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
            "${BASH_REMATCH[1]}" "$name" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}""#;
        for help in self.helps() {
            let mut args = vec!["--norc", "-c", ask, "bash", &file, self.name];
            args.extend(help.path.iter().map(String::as_str));
            let with = |last: &'static str| quiet("bash", &[&args[..], &[last]].concat());
            self.offers(&help, &with("--"), "bash");
            let commands = with("");
            for command in &help.commands {
                assert!(
                    commands.lines().any(|l| l == command),
                    "bash: {:?} lacks {command}: {commands}",
                    help.path
                );
            }
        }
    }

    /// Checks that fish offers every command and option of the help, for commands of up to two
    /// words. clap_complete's fish script does not support deeper nesting.
    pub fn completes_in_fish(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (_, file) = self.script("fish", folder.path());
        let Some(_) = quiet_if_installed("fish", &["-n", &file]) else { return };
        for help in self.helps().iter().filter(|help| help.path.len() <= 2) {
            let ask = |last: &str| {
                let line = [&[self.name.to_owned()], &help.path[..], &[last.to_owned()]].concat().join(" ");
                quiet("fish", &["--no-config", "-c", &format!("source {file}; complete -C '{line}'")])
            };
            self.offers(help, &ask("--"), "fish");
            let commands = ask("");
            for command in &help.commands {
                let found = commands.lines().any(|l| l.split('\t').next() == Some(command));
                assert!(found, "fish: {:?} lacks {command}: {commands}", help.path);
            }
        }
    }

    /// Checks that zsh loads the script and that it contains every command and option of the help.
    pub fn completes_in_zsh(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (script, file) = self.script("zsh", folder.path());
        for help in self.helps() {
            for option in &help.options {
                let found = ["[", "=["].iter().any(|after| script.contains(&format!("{option}{after}")));
                assert!(found, "zsh: {:?} lacks {option}", help.path);
            }
            for command in &help.commands {
                assert!(script.contains(&format!("'{command}:")), "zsh: {:?} lacks {command}", help.path);
            }
        }
        let load = format!(
            "autoload -Uz compinit && compinit -u -D; source {file}; print -r -- $_comps[{}]",
            self.name
        );
        if let Some(printed) = quiet_if_installed("zsh", &["-f", "-c", &load]) {
            assert_eq!(printed.trim(), format!("_{}", self.name));
        }
    }

    /// Checks that each command has a page that man(1) renders without warnings and that contains
    /// all commands and options of the help.
    pub fn has_manual_pages(&self) {
        let folder = tempfile::tempdir().unwrap();
        for help in self.helps() {
            let mut args = vec![self.man];
            args.extend(help.path.iter().map(String::as_str));
            let page = quiet(self.file, &args);
            let file =
                folder.path().join([&[self.name.to_owned()], &help.path[..]].concat().join("-") + ".1");
            std::fs::write(&file, &page).unwrap();
            let rendered = ["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", file.to_str().unwrap()];
            let _ = quiet_if_installed("man", &rendered);
            let page = page.replace(r"\-", "-");
            for word in help.options.iter().chain(&help.commands) {
                assert!(
                    page.contains(word.as_str()),
                    "the page of {} {:?} lacks {word}",
                    self.name,
                    help.path
                );
            }
        }
    }
}

impl Help {
    fn of(help: &str, path: Vec<String>) -> Self {
        let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
        let commands = listed
            .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
            .filter_map(|l| l.split_whitespace().next())
            .filter(|word| *word != "help")
            .map(str::to_owned)
            .collect();
        // Options are indented less than their descriptions.
        let options = help
            .lines()
            .filter(|l| l.starts_with("  -") || l.starts_with("      --"))
            .filter_map(|l| l.split([' ', ',', '[', '=']).find(|word| word.starts_with("--")))
            .map(|word| word.trim_end_matches("...").to_owned())
            .collect();
        Self { path, commands, options }
    }
}
