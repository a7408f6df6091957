//! Congestion controls of Linux before 5.7, on real flows: registered while their handles live, and
//! the fraction of the window that each keeps at a reduction.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use yuzuri_kernel::before_5_7::{Before57, NAMES};
use yuzuri_kernel::control::{ControlError, available};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{CaState, Density, Kind};

#[test]
fn each_exists_while_in_use_and_has_the_beta_of_linux_5_6() {
    let test = "each_exists_while_in_use_and_has_the_beta_of_linux_5_6";
    let Some(net) = Net::or_skip(test) else { return };
    let controls = match Before57::register(&NAMES) {
        Ok(controls) => controls,
        Err(error @ (ControlError::NotPermitted(_) | ControlError::Outlasts)) => {
            return println!("{test}: skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    assert!(NAMES.iter().all(|name| available().contains(&(*name).to_owned())), "{:?}", available());
    assert!(matches!(Before57::register(&NAMES[..1]), Err(ControlError::Taken(taken)) if taken == NAMES[0]));
    net.shape(Side::A, 8, 60_000).unwrap();
    for name in NAMES {
        let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), name);
        pair.send(3_000_000);
        watched.read();
        let near = pair.near_addr();
        let seen = watched.finish();
        let reductions: Vec<(u32, u32)> = seen
            .of(near)
            .iter()
            .filter(|event| {
                event.kind == Kind::State
                    && matches!(event.ca_before, CaState::Open | CaState::Disorder)
                    && matches!(event.ca_state, CaState::Cwr | CaState::Recovery)
            })
            .map(|event| (event.snapshot.cwnd, event.snapshot.ssthresh))
            .collect();
        assert!(!reductions.is_empty(), "{name}: nothing was lost");
        for (cwnd, ssthresh) in reductions {
            let kept = match name {
                "bic_5_6" if cwnd <= 14 => vec![cwnd / 2],
                "bic_5_6" => vec![cwnd * 819 / 1024],
                "scalable_5_6" => vec![cwnd - (cwnd >> 3)],
                "veno_5_6" => vec![cwnd / 2, cwnd * 4 / 5],
                // It subtracts its estimate of the queue, at least an eighth and at most half of
                // the window.
                _ => (cwnd - cwnd / 2..=cwnd - (cwnd >> 3)).collect(),
            };
            assert!(kept.iter().any(|kept| (*kept).max(2) == ssthresh), "{name}: {ssthresh} of {cwnd}");
        }
    }
    drop(controls);
    assert!(NAMES.iter().all(|name| !available().contains(&(*name).to_owned())), "{:?}", available());
}
