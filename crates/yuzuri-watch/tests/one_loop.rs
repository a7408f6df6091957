//! The loop on the kernel: a recording, a live model and the account agree about the same
//! connections, even if the filter is changed through the remote meanwhile.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use yuzuri_kernel::Options;
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{Account, Density, Event, Item};
use yuzuri_view::Control;
use yuzuri_watch::{
    Ended, Live, Pump, Recorder, RecordingObserver, Remote, SinkPurpose, Sinks, model, source,
};

/// Passes on how the recording ended.
struct EndSender(mpsc::Sender<Ended>);

impl RecordingObserver for EndSender {
    fn write_failed(&mut self, error: &yuzuri_trace::recording::RecordError) {
        panic!("{error}");
    }

    fn ended(&mut self, ended: Ended) -> anyhow::Result<()> {
        self.0.send(ended)?;
        Ok(())
    }
}

/// A connection from side A to side B.
struct Pair {
    near: TcpStream,
    far: TcpStream,
}

impl Pair {
    fn new(net: &Net) -> Pair {
        let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 0)).unwrap());
        let at = listener.local_addr().unwrap();
        let near = net.inside(Side::A, || TcpStream::connect(at).unwrap());
        Pair { near, far: listener.accept().unwrap().0 }
    }

    /// Sends, and returns once the peer answered the last byte: all bytes have been acknowledged.
    fn send(&self, bytes: usize) {
        let mut received = vec![0; bytes];
        std::thread::scope(|scope| {
            scope.spawn(|| (&self.near).write_all(&vec![0; bytes]).unwrap());
            (&self.far).read_exact(&mut received).unwrap();
        });
        (&self.far).write_all(b"!").unwrap();
        (&self.near).read_exact(&mut [0]).unwrap();
    }

    fn local(&self) -> SocketAddr {
        self.near.local_addr().unwrap()
    }
}

/// Ends the loop even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn recording_model_and_account_agree_while_the_filter_changes() {
    let test = "recording_model_and_account_agree_while_the_filter_changes";
    let Some(net) = Net::or_skip(test) else { return };
    let everything = format!("netns:{}", net.name(Side::A));
    let options =
        Options { filter: everything.parse().unwrap(), density: Density::EveryAck, ring_bytes: None };
    let watch = source(&options, false).unwrap();
    let session = watch.session().clone();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.arrows");
    let (sender, ended) = mpsc::channel();
    let mut sinks = Sinks::default();
    sinks.add(Recorder::create(&file, &session, false, EndSender(sender)).unwrap(), SinkPurpose::Recording);
    let live = model(&session);
    sinks.add(Live::now(live.clone()), SinkPurpose::View("the model"));
    let (remote, requests) = Remote::new();
    let stop = AtomicBool::new(false);
    let accounts = AtomicU64::new(0);
    let count_accounts = |_: &Account| {
        accounts.fetch_add(1, Ordering::Relaxed);
    };

    let (first, second) = (Pair::new(&net), Pair::new(&net));
    let acked_of = |local: SocketAddr| {
        let model = live.lock();
        model.rows().find(|row| row.flow.local == local).map_or(0, |row| row.last.snapshot.bytes_acked)
    };
    let account = std::thread::scope(|scope| {
        let pump = Pump::new(&sinks, &stop).with_requests(requests).reporting(count_accounts);
        let pumping = scope.spawn(move || pump.run(watch));
        let ends = Stop(&stop);
        // Wait for the hooks to see it: connections opened earlier are known from their next event
        // on.
        assert!(eventually(|| {
            first.send(10_000);
            acked_of(first.local()) > 0
        }));
        second.send(10_000);
        assert!(eventually(|| acked_of(second.local()) >= 10_000));
        remote.set_filter(format!("{everything} port:{}", first.local().port()).parse().unwrap()).unwrap();
        let before = acked_of(second.local());
        second.send(100_000);
        first.send(100_000);
        assert!(eventually(|| acked_of(first.local()) >= 100_000));
        assert_eq!(acked_of(second.local()), before, "it is not chosen any more");
        assert!(remote.set_filter("netns:no-such-namespace".parse().unwrap()).is_err());
        drop(ends);
        pumping.join().unwrap()
    });
    sinks.finish().unwrap();

    let ended = ended.recv().unwrap();
    assert_eq!((ended.lacks, account.lost()), (0, 0), "{account}");
    let mut reader = Reader::open(&file).unwrap();
    let mut events: Vec<Event> = Vec::new();
    let (mut flows, mut last) = (0, None);
    while let Some(items) = reader.next_batch().unwrap() {
        for item in items {
            match item {
                Item::Event(event) => events.push(event),
                Item::Account(account) => last = Some(account),
                Item::Flow(_) => flows += 1,
                Item::Setting(_) => {}
            }
        }
    }
    assert_eq!(reader.complete(), Some(true));
    assert_eq!(events.len() as u64 + flows, account.kept(), "{account}");
    assert_eq!(
        last.as_deref().map(|last| (last.seen(), last.kept())),
        Some((account.seen(), account.kept()))
    );
    let model = live.lock();
    for row in model.rows() {
        let of_row: Vec<&Event> = events.iter().filter(|event| event.flow == row.flow.id).collect();
        assert_eq!(of_row.last().map(|event| event.snapshot), Some(row.last.snapshot), "{:?}", row.flow);
    }
    assert!(accounts.load(Ordering::Relaxed) >= 1);
    assert!(remote.set_density(Density::EveryAck).is_err(), "watching has ended");
}
