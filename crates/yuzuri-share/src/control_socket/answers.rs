//! Checks whether a request is complete, and answers it.

use super::client::Protocol;
use super::{Answer, Question};
use crate::event::LoopCommand;
use crate::show::metrics;
use crate::{Status, StatusCell, TextCell};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use yuzuri_policy::PolicyConfig;

/// Maximum size of a request, and of an HTTP request head, bytes.
pub(super) const MAX_ASKED_BYTES: usize = 8192;
/// Maximum number of header lines in a request.
const MAX_HEADERS: usize = 64;

/// The bytes to send to a client: its own, then bytes shared by all clients that asked at the same
/// time.
pub(super) struct Reply {
    pub(super) head: Vec<u8>,
    pub(super) body: Arc<[u8]>,
}

/// The outcome of a request.
pub(super) enum Answered {
    Now(Reply),
    /// The request needs the status with all flows; [`Responder::all`] returns the reply once it is
    /// available.
    WithAll(u64),
}

/// A status in serialised form. The bytes are freed with the last client that needs them, so that
/// slow readers cost one copy for each status of the last two seconds, regardless of their number.
#[derive(Default)]
struct SerializedStatus(Option<(Weak<Status>, Weak<[u8]>)>);

impl SerializedStatus {
    fn of(&mut self, status: &Arc<Status>, make: impl FnOnce(&Status) -> Vec<u8>) -> Arc<[u8]> {
        if let Some((before, bytes)) = &self.0
            && std::ptr::eq(before.as_ptr(), Arc::as_ptr(status))
            && let Some(bytes) = bytes.upgrade()
        {
            return bytes;
        }
        let bytes: Arc<[u8]> = make(status).into();
        self.0 = Some((Arc::downgrade(status), Arc::downgrade(&bytes)));
        bytes
    }
}

/// Answers requests.
pub(super) struct Responder {
    /// A daemon whose status is a text, and which takes no commands.
    text: Option<TextCell>,
    status_cell: StatusCell,
    orders: Sender<LoopCommand>,
    status: SerializedStatus,
    all: SerializedStatus,
    metrics: SerializedStatus,
}

/// Serialises [`Answer::Status`] without cloning the status.
fn line(status: &Status) -> Vec<u8> {
    let mut text = serde_json::to_vec(status).unwrap_or_default();
    text.push(b'\n');
    text
}

impl Responder {
    pub(super) fn new(status_cell: StatusCell, orders: Sender<LoopCommand>) -> Responder {
        let (status, all, metrics) =
            (SerializedStatus::default(), SerializedStatus::default(), SerializedStatus::default());
        Responder { text: None, status_cell, orders, status, all, metrics }
    }

    /// Answers the status alone.
    pub(super) fn of_text(text: TextCell) -> Responder {
        Responder { text: Some(text), ..Responder::new(StatusCell::default(), channel().0) }
    }

    /// Answers the request once it is complete. `ended`: the client will send nothing more.
    pub(super) fn answer(&mut self, protocol: Protocol, asked: &[u8], ended: bool) -> Option<Answered> {
        match protocol {
            Protocol::Json if asked.len() > MAX_ASKED_BYTES => {
                let why = format!("the request is longer than {MAX_ASKED_BYTES} bytes");
                Some(Answered::Now(json(&wrong(why))))
            }
            Protocol::Json => ended.then(|| self.reply(asked.trim_ascii())),
            Protocol::Http => self.scrape(asked).map(Answered::Now),
        }
    }

    /// The reply with all flows, once that status is available.
    pub(super) fn all(&mut self, number: u64) -> Option<Reply> {
        let status = self.status_cell.all_since(number)?;
        Some(Reply { head: Vec::new(), body: self.all.of(&status, line) })
    }

    /// Cancels the request for all flows, after its last client has gone.
    pub(super) fn forget_all(&self) {
        self.status_cell.forget_all();
    }

    fn reply(&mut self, asked: &[u8]) -> Answered {
        let question = match asked {
            [] => Ok(Question::Status),
            asked => serde_json::from_slice(asked),
        };
        if let Some(text) = &self.text {
            return Answered::Now(match question {
                Ok(Question::Status) => Reply { head: Vec::new(), body: text.read() },
                _ => json(&Answer::Error { error: "this daemon answers \"status\" only".into() }),
            });
        }
        Answered::Now(match question {
            Ok(Question::Status) => {
                Reply { head: Vec::new(), body: self.status.of(&self.status_cell.read(), line) }
            }
            Ok(Question::StatusAll) => return Answered::WithAll(self.status_cell.ask_for_all()),
            Ok(Question::Policy { name, objective }) => {
                let before = self.status_cell.read().policy;
                let objective = objective.unwrap_or(before.objective);
                let policy = PolicyConfig { name, objective, capacity_bps: before.capacity_bps };
                json(&match self.orders.send(LoopCommand::Policy(policy)) {
                    Ok(()) => Answer::Done { done: format!("policy {name}, objective {}", objective.name()) },
                    Err(_) => Answer::Error { error: "the daemon is ending".into() },
                })
            }
            Err(error) => json(&wrong(error.to_string())),
        })
    }

    /// Answers an HTTP request once its head is complete. A request body is ignored.
    fn scrape(&mut self, asked: &[u8]) -> Option<Reply> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(asked) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_ASKED_BYTES => {}
            Ok(httparse::Status::Partial) if asked.len() <= MAX_ASKED_BYTES => return None,
            Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                return Some(plain("431 Request Header Fields Too Large", "the request is too long\n"));
            }
            Err(error) => return Some(plain("400 Bad Request", &format!("not a request: {error}\n"))),
        }
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        Some(match (method, path(target)) {
            ("GET" | "HEAD", "/metrics") => {
                let body = self.metrics.of(&self.status_cell.read(), |status| metrics(status).into_bytes());
                let head = head("200 OK", "text/plain; version=0.0.4; charset=utf-8", body.len());
                Reply { head, body: if method == "HEAD" { Arc::default() } else { body } }
            }
            ("GET", _) => plain("404 Not Found", "metrics are at /metrics\n"),
            ("HEAD", _) => Reply { head: head("404 Not Found", PLAIN, 0), body: Arc::default() },
            _ => plain("405 Method Not Allowed", "GET /metrics\n"),
        })
    }
}

/// The path of a request target, which may be in absolute form (RFC 9112, section 3.2).
fn path(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

fn wrong(why: String) -> Answer {
    Answer::Error { error: format!("{why}; ask \"status\" or {{\"policy\": {{\"name\": \"yuzuri\"}}}}") }
}

fn json(answer: &Answer) -> Reply {
    let mut head = serde_json::to_vec(answer).unwrap_or_default();
    head.push(b'\n');
    Reply { head, body: Arc::default() }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn plain(code: &str, text: &str) -> Reply {
    let mut head = head(code, PLAIN, text.len());
    head.extend_from_slice(text.as_bytes());
    Reply { head, body: Arc::default() }
}

fn head(code: &str, kind: &str, length: usize) -> Vec<u8> {
    let allow = if code.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    )
    .into_bytes()
}
