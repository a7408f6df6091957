//! The sharing daemon's state, requested at its socket and passed on unchanged. The daemon defines
//! the fields (`yuzuri share status --json`); here the answer only has to be a JSON object of
//! bounded length that arrives in time.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Timeout for the whole exchange with the daemon.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of its answer, bytes: some thousand flows.
const MAX: u64 = 1024 * 1024;
/// An answer is reused for this long. The daemon publishes a new status every 500 ms, and many
/// browsers must not occupy its control socket.
const CACHE_TIME: Duration = Duration::from_millis(250);

/// The result of a status request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DaemonAnswer {
    /// Its status, a JSON object.
    Status(Arc<str>),
    /// No daemon answers: the reason, and the command that may help.
    NoDaemon { why: String, help: Option<String> },
    /// The answer is not a status; the text says why.
    Failed(String),
}

/// Connects to the daemon's socket on behalf of a process that may not do so itself.
#[derive(Clone)]
pub struct DaemonConnector(Arc<dyn Fn() -> io::Result<std::os::unix::net::UnixStream> + Send + Sync>);

impl DaemonConnector {
    /// Connects by a call that returns a connection with its writing side closed. The call may
    /// block.
    pub fn by(
        call: impl Fn() -> io::Result<std::os::unix::net::UnixStream> + Send + Sync + 'static,
    ) -> DaemonConnector {
        DaemonConnector(Arc::new(call))
    }
}

impl std::fmt::Debug for DaemonConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DaemonConnector(…)")
    }
}

/// The daemon's socket, and its last answer.
#[derive(Debug)]
pub(crate) struct DaemonStatus {
    socket: Option<PathBuf>,
    reach: Option<DaemonConnector>,
    last: Mutex<Option<(Instant, DaemonAnswer)>>,
}

impl DaemonStatus {
    /// For the daemon at this socket; `None` if the page does not show this host live, so that no
    /// daemon belongs to it.
    pub(crate) fn at(socket: Option<PathBuf>, reach: Option<DaemonConnector>) -> DaemonStatus {
        DaemonStatus { socket, reach, last: Mutex::new(None) }
    }

    /// Requests the status, or returns a recent answer. One request runs at a time; the others wait
    /// for its answer.
    pub(crate) async fn ask(&self) -> DaemonAnswer {
        let Some(socket) = &self.socket else {
            let why = "the page shows a recording, and the sharing status exists only live";
            return DaemonAnswer::NoDaemon { why: why.into(), help: None };
        };
        let mut last = self.last.lock().await;
        if let Some((at, latest)) = last.as_ref()
            && at.elapsed() < CACHE_TIME
        {
            return latest.clone();
        }
        let latest = ask(socket, self.reach.as_ref()).await;
        *last = Some((Instant::now(), latest.clone()));
        latest
    }
}

async fn ask(socket: &Path, reach: Option<&DaemonConnector>) -> DaemonAnswer {
    let at = socket.display();
    match tokio::time::timeout(TIMEOUT, exchange(socket, reach)).await {
        Err(_) => DaemonAnswer::Failed(format!("the sharing daemon at {at} did not answer within a second")),
        Ok(Err(error)) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => DaemonAnswer::NoDaemon {
                why: format!("no sharing daemon answers at {at}"),
                help: Some("sudo yuzuri share --key-file FILE".into()),
            },
            ErrorKind::PermissionDenied => DaemonAnswer::NoDaemon {
                why: format!("this program is not allowed to query the sharing daemon at {at}"),
                help: Some("sudo yuzuri watch --web".into()),
            },
            _ => DaemonAnswer::Failed(format!("asking the sharing daemon at {at}: {error}")),
        },
        Ok(Ok(bytes)) if bytes.len() as u64 > MAX => {
            DaemonAnswer::Failed(format!("the sharing daemon at {at} answers more than {MAX} bytes"))
        }
        Ok(Ok(bytes)) => match object(bytes) {
            Some(text) => DaemonAnswer::Status(text.into()),
            None => DaemonAnswer::Failed(format!(
                "the program at {at} is not a sharing daemon: it does not send a JSON object"
            )),
        },
    }
}

/// An empty request asks for the status.
async fn exchange(socket: &Path, reach: Option<&DaemonConnector>) -> io::Result<Vec<u8>> {
    let stream = match reach.cloned() {
        None => {
            let mut stream = UnixStream::connect(socket).await?;
            stream.shutdown().await?;
            stream
        }
        Some(DaemonConnector(call)) => {
            let stream = tokio::task::spawn_blocking(move || call()).await.map_err(io::Error::other)??;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)?
        }
    };
    let mut answer = Vec::new();
    stream.take(MAX + 1).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The text, if it is a JSON object.
fn object(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let whole = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
    (whole && text.trim_start().starts_with('{')).then_some(text)
}
