//! Texts that several commands print.

use yuzuri_trace::{Flow, visible};
use yuzuri_view::shared_bottleneck::SharedBottleneck;

/// Untrusted text on one line.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "?")
}

/// A flow's two ends and its process. `None`: its identity was lost.
pub fn flow_name(flow: Option<&Flow>) -> String {
    one_line(&match flow {
        Some(flow) => {
            let owner = flow.owner.as_ref().map(|o| format!("  {}[{}]", o.name, o.pid)).unwrap_or_default();
            format!("{flow}{owner}")
        }
        None => "a flow whose record was lost".to_owned(),
    })
}

/// Flows that share a bottleneck: the finding, and a line for each flow.
pub fn shared_bottleneck(found: &SharedBottleneck, names: impl Iterator<Item = String>) -> String {
    let names: String = names.map(|name| format!("  {name}\n")).collect();
    format!("{}\n{names}", found.sentence())
}

/// Breaks lines that are wider than the terminal at spaces; continuation lines are indented.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(30)) else { return text.to_owned() };
    let options = textwrap::Options::new(width)
        .subsequent_indent("    ")
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    text.lines().map(|line| textwrap::fill(line, &options) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        let text =
            "10.0.0.1:1 > 10.0.0.2:2  cubic\n  99 % of the time, the limit is the path, which is full.\n";
        let whole = "10.0.0.1:1 > 10.0.0.2:2  cubic\n  99 % of the time, the limit is\n    the path, which is full.\n";
        assert_eq!(wrapped(text, Some(32)), whole);
        assert_eq!(wrapped(text, None), text);
        assert_eq!(
            wrapped("0123456789012345678901234567890123456789 a\n", Some(30)),
            "0123456789012345678901234567890123456789\n    a\n"
        );
        assert!(wrapped(text, Some(1)).lines().all(|line| line.chars().count() <= 30));
    }
}
