//! Any input of a local user to the daemon's socket, and any answer of a false daemon: each request
//! gets one JSON document, and a client that shows an answer never fails.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use yuzuri_share::{Answer, ControlSocket, ControlSocketOptions, LoopCommand, StatusCell, metrics, table};

/// A control socket, and the requests that it passes on.
struct Served {
    _control_socket: ControlSocket,
    socket: PathBuf,
    orders: Receiver<LoopCommand>,
}

impl Served {
    fn open() -> Served {
        let socket =
            std::env::temp_dir().join(format!("yuzuri-fuzz-control-socket-{}.sock", std::process::id()));
        let (sender, orders) = channel();
        let options = ControlSocketOptions { socket: socket.clone(), metrics: None };
        let control_socket = ControlSocket::open(&options, StatusCell::default(), sender)
            .expect("a socket in the temporary folder");
        Served { _control_socket: control_socket, socket, orders }
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(&self.socket).expect("the control socket listens");
        stream.set_read_timeout(Some(Duration::from_secs(8))).expect("a timeout above zero");
        // The server may close after the request or at the size limit, before everything is
        // written.
        let _ = stream.write_all(question);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

thread_local! {
    static SERVED: RefCell<Served> = RefCell::new(Served::open());
}

fuzz_target!(|bytes: &[u8]| {
    SERVED.with_borrow(|served| {
        let answer = served.answer(bytes);
        // The server closes connections with too long requests; all others receive a document.
        if bytes.len() <= 4096 {
            let answer: Answer = serde_json::from_slice(&answer).expect("one document of JSON");
            let ordered = served.orders.try_iter().count();
            assert_eq!(ordered, usize::from(matches!(answer, Answer::Done { .. })));
        }
        while served.orders.try_recv().is_ok() {}
    });
    // The other direction: a client shows the answer.
    if let Ok(Answer::Status(status)) = serde_json::from_slice::<Answer>(bytes) {
        let _ = table(&status);
        let text = metrics(&status);
        assert!(text.is_empty() || text.ends_with('\n'));
    }
});
