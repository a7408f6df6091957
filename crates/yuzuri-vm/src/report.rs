//! Parses the output of Rust test programs (`--test-threads=1 --show-output`), several in sequence.

/// Result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The test passed.
    Passed,
    /// The test cannot run there, for this reason.
    Skipped(String),
    /// The test failed with this output.
    Failed(String),
}

impl Verdict {
    /// Text in the table.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped(_) => "skipped",
            Verdict::Failed(_) => "FAILED",
        }
    }
}

/// A test and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Program and test, as `program::test`.
    pub name: String,
    /// The result.
    pub verdict: Verdict,
}

/// Results of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The tests, in the order in which they ran.
    pub tests: Vec<Test>,
}

impl Report {
    /// Parses the text. Each program contributes `@program NAME`, its output and `@code N`.
    pub fn read(text: &str) -> Report {
        let mut report = Report::default();
        for part in text.split("\n@program ").skip(1) {
            let (program, output) = part.split_once('\n').unwrap_or((part, ""));
            report.program(program, output);
        }
        report
    }

    /// Whether at least one test ran and none failed.
    pub fn passed(&self) -> bool {
        !self.tests.is_empty() && self.tests.iter().all(|t| !matches!(t.verdict, Verdict::Failed(_)))
    }

    /// Records that the guest ended before all programs had run.
    pub fn broken(&mut self, programs: &[String], why: &str) {
        for program in programs {
            if !self.tests.iter().any(|t| t.name.split("::").next() == Some(program)) {
                self.tests
                    .push(Test { name: program.clone(), verdict: Verdict::Failed("was not run".into()) });
            }
        }
        self.tests.push(Test { name: "the guest".into(), verdict: Verdict::Failed(why.to_owned()) });
    }

    fn program(&mut self, program: &str, output: &str) {
        let before = self.tests.len();
        let mut running: Option<&str> = None;
        // The tests' output follows the results and may look like results.
        let results = output.split("\nsuccesses:\n").next().and_then(|t| t.split("\nfailures:\n").next());
        for line in results.unwrap_or_default().lines() {
            let rest = match line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")) {
                Some((name, rest)) => {
                    running = Some(name);
                    rest
                }
                // Output of a test's child processes appears between its name and its result.
                None => line,
            };
            let Some(name) = running else { continue };
            let said = || said(output, name);
            let verdict = match rest.rsplit(' ').next().unwrap_or(rest) {
                "ok" => match said().lines().find_map(|l| l.split_once("skipped: ")) {
                    Some((_, why)) => Verdict::Skipped(why.to_owned()),
                    None => Verdict::Passed,
                },
                "FAILED" => Verdict::Failed(said()),
                _ if rest.starts_with("ignored") => Verdict::Skipped("ignored".into()),
                _ => continue,
            };
            self.tests.push(Test { name: format!("{program}::{name}"), verdict });
            running = None;
        }
        let code = output.rsplit("\n@code ").next().and_then(|c| c.trim().parse::<i32>().ok());
        let failed = self.tests[before..].iter().any(|t| matches!(t.verdict, Verdict::Failed(_)));
        let why = match (running, code) {
            (Some(name), Some(code)) if code >= 124 => {
                format!("ended while {name} ran, with code {code} (124 and 143: it took too long)")
            }
            (_, Some(0)) => return,
            (_, Some(_)) if failed => return,
            (_, Some(code)) => format!("ended with code {code}: {}", last_lines(output)),
            (_, None) => format!("was running when the guest ended: {}", last_lines(output)),
        };
        self.tests.push(Test { name: program.to_owned(), verdict: Verdict::Failed(why) });
    }
}

/// Output of a test.
fn said(output: &str, test: &str) -> String {
    let start = format!("---- {test} stdout ----\n");
    let Some((_, rest)) = output.split_once(&start) else { return String::new() };
    let end = ["\n---- ", "\nsuccesses:\n", "\nfailures:\n", "\ntest result:"];
    let end = end.iter().filter_map(|e| rest.find(e)).min().unwrap_or(rest.len());
    rest[..end].trim().to_owned()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "boot\n\n@program a\n\nrunning 4 tests\ntest good ... ok\ntest told ... warning: x\nok\n\
        test never ... ignored\ntest bad ... FAILED\n\nsuccesses:\n\n---- told stdout ----\ntold: skipped: no nft\n\n\
        \nsuccesses:\n    good\n    told\n\nfailures:\n\n---- bad stdout ----\nthread 'bad' panicked\ntest x ... ok\n\n\
        failures:\n    bad\n\ntest result: FAILED. 1 passed\n\n@code 101\n\n@program b\nrunning 2 tests\ntest one ... ok\n\
        test two ... \n@code 143\n\n@program c\nerror while loading shared libraries: libx\n\n@code 127\n\n@program d\nhal";

    #[test]
    fn verdicts_are_read_from_what_test_programs_print() {
        let report = Report::read(TEXT);
        let seen: Vec<(&str, &str)> =
            report.tests.iter().map(|t| (t.name.as_str(), t.verdict.word())).collect();
        let expected = [
            ("a::good", "passed"),
            ("a::told", "skipped"),
            ("a::never", "skipped"),
            ("a::bad", "FAILED"),
            ("b::one", "passed"),
            ("b", "FAILED"),
            ("c", "FAILED"),
            ("d", "FAILED"),
        ];
        assert_eq!(seen, expected, "{report:#?}");
        assert!(!report.passed());
        assert_eq!(report.tests[1].verdict, Verdict::Skipped("no nft".into()));
        let why = |at: usize| match &report.tests[at].verdict {
            Verdict::Failed(why) => why.as_str(),
            _ => "",
        };
        assert!(why(3).starts_with("thread 'bad' panicked") && !why(3).contains("test result"));
        assert!(why(5).contains("two") && why(6).contains("libx") && why(7).contains("running when"));
    }

    #[test]
    fn a_run_without_tests_does_not_pass() {
        assert!(!Report::read("").passed());
        assert!(Report::read("\n@program a\ntest x ... ok\n\n@code 0\n").passed());
        let mut report = Report::read("\n@program a\ntest x ... ok\n\n@code 0\n");
        report.broken(&["a".into(), "b".into()], "panic");
        assert!(!report.passed());
        assert!(report.tests.iter().any(|t| t.name == "b") && !report.tests.iter().any(|t| t.name == "a"));
    }
}
