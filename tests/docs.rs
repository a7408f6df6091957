//! Checks that programs accept the command lines of the documentation. The programs' unit tests
//! include this file by `#[path]`.

use clap::Parser;
use clap::error::ErrorKind;
use std::path::{Path, PathBuf};

/// Parses the documentation's command lines. For a program that `yuzuri` executes (`program`), parses
/// only those of its command.
///
/// # Panics
/// If a command line is refused, or if at most `more_than` are found: then the search is broken.
pub fn assert_accepted<P: Parser>(program: Option<&str>, more_than: usize) {
    let lines = command_lines();
    let documented = || {
        let of_it = |line: &&Documented| {
            program.is_none_or(|name| line.words.get(1).is_some_and(|word| word == name))
        };
        lines.iter().filter(of_it)
    };
    assert!(documented().count() > more_than, "only {} were found", documented().count());
    // A program receives the words from its own name on.
    let begins = usize::from(program.is_some());
    let wrong = documented().filter_map(|line| match P::try_parse_from(&line.words[begins..]) {
        Err(error) if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Some(format!("{}: {}\n{error}", line.place, line.words.join(" ")))
        }
        _ => None,
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command line, with its file and line.
struct Documented {
    /// `docs/tutorial.md:12`
    place: String,
    /// Its words from `yuzuri` on.
    words: Vec<String>,
}

/// Every line that calls `yuzuri` in a fenced block of the README and of the pages in docs/ and
/// docs/howto.
fn command_lines() -> Vec<Documented> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = Vec::new();
    for folder in ["", "docs", "docs/howto"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the tree of the documentation");
        let names = entries.flatten().map(|entry| Path::new(folder).join(entry.file_name()));
        pages.extend(names.filter(|page| page.extension().is_some_and(|e| e == "md")));
    }
    pages.sort();
    pages.iter().flat_map(|page| of_page(&root, page)).collect()
}

fn of_page(root: &Path, page: &PathBuf) -> Vec<Documented> {
    let text = std::fs::read_to_string(root.join(page)).expect("a page");
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language.to_owned()) };
        } else if matches!(block.as_deref(), Some("" | "sh" | "console")) {
            let place = format!("{}:{number}", page.display());
            let calls = commands(line).into_iter().filter_map(call);
            found.extend(calls.map(|words| Documented { place: place.clone(), words }));
        }
    }
    found
}

/// The commands of a shell line, each as its words, up to a comment. Quotes work as in `sh`.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let (mut word, mut quote) = (None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                all.last_mut().expect("one is there").extend(word.take());
                all.push(Vec::new());
            }
            (None, _) if c.is_whitespace() => all.last_mut().expect("one is there").extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    all.last_mut().expect("one is there").extend(word);
    all
}

/// The words from `yuzuri` on, if the command calls it, directly or through another program.
fn call(words: Vec<String>) -> Option<Vec<String>> {
    let before: Vec<&str> = words.iter().map(String::as_str).take_while(|word| *word != "yuzuri").collect();
    let is_call = matches!(before[..], [] | ["$"] | ["sudo"] | ["ip", "netns", "exec", _]);
    let start = before.len();
    (is_call && start < words.len()).then(|| words[start..].to_vec())
}
