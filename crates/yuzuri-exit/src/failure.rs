//! Reporting of the error that ends a program.

use std::error::Error;
use std::io;
use std::process::ExitCode;

/// Formats an error and its causes as one line. Causes whose text already appears in the line are
/// omitted; Yuzuri's own messages include their cause when advice follows it.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for cause in chain(error).skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

/// The arguments contradict each other or name something that does not exist. Programs exit with
/// code 2, as they do for arguments that the command line parser refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// `message` names the wrong argument and says what to use instead.
    pub fn new(message: impl Into<String>) -> UsageError {
        UsageError(message.into())
    }
}

/// Prints a line to standard error like `eprintln!`, but without a panic if its reader has stopped
/// (`yuzuri watch --record FILE 2>&1 | head`): the program continues.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($text)*);
    }};
}

/// Prints the error to standard error and returns the exit code for `main`: 2 for a [`UsageError`],
/// else 1.
pub fn failed(program: &str, error: &(dyn Error + 'static)) -> ExitCode {
    note!("{program}: {}", in_one_line(error));
    if chain(error).any(|cause| cause.is::<UsageError>()) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Like [`failed`], but treats a broken pipe as success, because the reader of the output may stop
/// early (`yuzuri watch --json | head`). Not for programs that write to other pipes.
pub fn failed_unless_unread(program: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let broken_pipe = |cause: &(dyn Error + 'static)| {
        // An error of serde_json does not have the error of its writer as its source.
        let kind = match cause.downcast_ref::<serde_json::Error>() {
            Some(error) => error.io_error_kind(),
            None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    };
    if chain(error).any(broken_pipe) { ExitCode::SUCCESS } else { failed(program, error) }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct TestError(&'static str, Option<io::Error>);

    impl fmt::Display for TestError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for TestError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_ref().map(|e| e as _)
        }
    }

    #[test]
    fn a_cause_is_printed_once() {
        let cause = || Some(io::Error::other("full"));
        assert_eq!(in_one_line(&TestError("writing", cause())), "writing: full");
        assert_eq!(in_one_line(&TestError("writing: full; make room", cause())), "writing: full; make room");
        assert_eq!(in_one_line(&TestError("writing", None)), "writing");
    }

    #[test]
    fn an_unread_pipe_is_a_success() {
        struct Closed;
        impl io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let code = |error: &(dyn Error + 'static)| format!("{:?}", failed_unless_unread("test", error));
        let success = format!("{:?}", ExitCode::SUCCESS);
        let closed = TestError("writing", Some(io::ErrorKind::BrokenPipe.into()));
        assert_eq!(code(&closed), success);
        let json = serde_json::to_writer(Closed, &1).err();
        assert_eq!(json.as_ref().map(|error| code(error)), Some(success.clone()));
        assert_ne!(code(&TestError("writing", Some(io::Error::other("full")))), success);
    }
}
