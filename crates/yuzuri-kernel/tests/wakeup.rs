//! A reader that nobody waits for sleeps long; the programs wake it before records or owners are
//! lost.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use yuzuri_kernel::Watch;
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::Density;

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(60);

/// Reads until the monitor awaits no more results, and so waits as long as requested.
fn settle(watched: &mut Watched) {
    const WAIT: Duration = Duration::from_millis(50);
    let waits = eventually(|| {
        watched.read();
        let began = Instant::now();
        watched.monitor.wait(WAIT);
        began.elapsed() >= WAIT
    });
    assert!(waits, "it never waited for {WAIT:?}");
}

/// Waits until that thread of this process sleeps.
fn until_asleep(thread: &Receiver<i32>) {
    let stat = format!("/proc/self/task/{}/stat", thread.recv().unwrap());
    let asleep = || std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S");
    assert!(eventually(asleep));
}

/// How long the monitor waits, at most [`LONG`], while `traffic` runs that begins once it waits.
fn waited(watched: &mut Watched, traffic: impl FnOnce() + Send) -> Duration {
    let (sender, thread) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            until_asleep(&thread);
            traffic();
        });
        sender.send(nix::unistd::gettid().as_raw()).unwrap();
        let began = Instant::now();
        watched.monitor.wait(LONG);
        began.elapsed()
    })
}

#[test]
fn a_ring_that_fills_ends_the_wait_before_it_is_full() {
    let Some(net) = Net::or_skip("a_ring_that_fills_ends_the_wait") else { return };
    let filter = format!("netns:{}", net.name(Side::A));
    // 1024 records.
    let mut watched = Watched::with_ring(&filter, Density::EveryAck, Some(160 * 1024));
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    settle(&mut watched);
    let waits = waited(&mut watched, || {
        // Each exchange causes one or two records; the kernel may skip some.
        for _ in 0..600 {
            pair.exchange();
        }
    });
    assert!(waits < LONG / 2, "it waited for {waits:?}");
    watched.finish_whole();
}

#[test]
fn a_flow_of_an_unknown_process_ends_the_wait() {
    let Some(net) = Net::or_skip("a_flow_of_an_unknown_process") else { return };
    let mut watched = Watched::of(&net, Side::B, Density::default());
    settle(&mut watched);
    // The kernel does not know whose process will accept them. It may skip the programs for some.
    let mut pairs = Vec::new();
    let connect = |_| Pair::new(&net, Side::A, net.v6(Side::B), "cubic");
    let waits = waited(&mut watched, || pairs.extend((0..5).map(connect)));
    assert!(waits < LONG / 2, "it waited for {waits:?}");
    assert_eq!(pairs.len(), 5);
    watched.finish_whole();
}

#[test]
fn a_few_records_do_not_end_the_wait() {
    let Some(net) = Net::or_skip("a_few_records_do_not_end_the_wait") else { return };
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    settle(&mut watched);
    let wait = Duration::from_millis(300);
    let began = Instant::now();
    pair.exchange();
    watched.monitor.wait(wait);
    assert!(began.elapsed() >= wait);
    watched.finish_whole();
}
