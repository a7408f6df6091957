//! Compares durations with values computed by hand from IEEE Std 802.11-2020 (HE: 802.11ax-2021).

use yuzuri_netmodel::radio::{Band, Phy, Timing};

const G: Timing = Timing::new(Band::Ghz2);
const A: Timing = Timing::new(Band::Ghz5);

#[test]
fn inter_frame_spaces() {
    assert_eq!((G.sifs_ns(), A.sifs_ns()), (10_000, 16_000));
    assert_eq!((G.aifs_ns(2), A.aifs_ns(2)), (28_000, 34_000), "DIFS");
    assert_eq!((G.aifs_ns(3), A.aifs_ns(3)), (37_000, 43_000), "AIFS of best effort");
    // EIFS - DIFS = SIFS + Ack at 6 Mbit/s: 20 + ceil((16 + 112 + 6) / 24) * 4 = 44 µs, and 6 of
    // signal extension.
    assert_eq!((G.eifs_extra_ns(), A.eifs_extra_ns()), (60_000, 60_000));
    // AckTimeout = SIFS + slot + 20 µs.
    assert_eq!((G.response_timeout_ns(), A.response_timeout_ns()), (39_000, 45_000));
}

#[test]
fn ofdm_frames_of_80211g() {
    // (16 + 8 * 1536 + 6) / 216 = 56.99: 57 symbols; 20 + 228 + 6.
    assert_eq!(G.legacy_ns(54, 1536), 254_000);
    // One bit more than 57 symbols hold: 1539 bytes are 12334 bits, 57.1.
    assert_eq!(G.legacy_ns(54, 1539), 258_000);
    // Ack: 134 bits at 6, 12, 24 Mbit/s: 6, 3, 2 symbols.
    assert_eq!([6, 12, 24].map(|rate| G.legacy_ns(rate, 14)), [50_000, 38_000, 34_000]);
    assert_eq!([6, 12, 24].map(|rate| A.legacy_ns(rate, 14)), [44_000, 32_000, 28_000]);
    // BlockAck of 32 bytes at 24 Mbit/s: 278 / 96 = 2.9. BlockAckReq of 24 bytes: 214 / 96 = 2.2.
    assert_eq!((A.legacy_ns(24, 32), A.legacy_ns(24, 24)), (32_000, 32_000));
    // RTS of 20 bytes at 24 Mbit/s: 182 / 96 = 1.9.
    assert_eq!(A.legacy_ns(24, 20), 28_000);
    // A broadcast of 1500 bytes at 6 Mbit/s: 12310 / 24 = 512.9.
    assert_eq!(A.legacy_ns(6, 1536), 20_000 + 513 * 4_000);
}

#[test]
fn rates() {
    let mbps = |phy: Phy| phy.rate_bps() as f64 / 1e6;
    let short = |width_mhz, streams, mcs| Phy::Ac { width_mhz, streams, mcs, guard_ns: 400 };
    for (phy, rate) in [
        (Phy::g(54), 54.0),
        (Phy::n(20, 1, 7), 65.0),
        (Phy::n(40, 1, 7), 135.0),
        (Phy::N { width_mhz: 40, streams: 4, mcs: 7, guard_ns: 400 }, 600.0),
        (Phy::ac(80, 1, 9), 390.0),
        (Phy::ac(80, 1, 0), 29.25),
        (short(80, 1, 9), 433.333_333),
        (short(160, 8, 9), 6_933.333_333),
        (Phy::ax(20, 1, 11), 143.382_352),
        (Phy::ax(80, 1, 11), 600.441_176),
        (Phy::ax(160, 2, 11), 2_401.911_764),
        (Phy::Ax { width_mhz: 20, streams: 1, mcs: 0, guard_ns: 3200 }, 7.3125),
    ] {
        assert!((mbps(phy) - rate).abs() < 1e-3, "{phy:?}: {} instead of {rate}", mbps(phy));
    }
}

#[test]
fn ht_ppdus() {
    // 65 Mbit/s: one MPDU of 1538 bytes: 12326 / 260 = 47.4; preamble 20 + 8 + 4 + 4.
    assert_eq!(A.ppdu_ns(&Phy::n(20, 1, 7), 1538), 36_000 + 48 * 4_000);
    // 28 subframes of 1544 bytes, the last without padding: 43230 bytes, 345862 bits, 1330.2
    // symbols.
    assert_eq!(A.ppdu_ns(&Phy::n(20, 1, 7), 43_230), 36_000 + 1331 * 4_000);
    // Two streams have two HT-LTF. 130 Mbit/s: 520 bits per symbol; 12326 / 520 = 23.7.
    assert_eq!(A.ppdu_ns(&Phy::n(20, 2, 7), 1538), 40_000 + 24 * 4_000);
    // Three streams need four HT-LTF.
    assert_eq!(Phy::n(20, 3, 7).preamble_ns(), 48_000);
    // Short guard interval: 48 symbols of 3.6 µs take 172.8 µs, extended to 176.
    let short = Phy::N { width_mhz: 20, streams: 1, mcs: 7, guard_ns: 400 };
    assert_eq!(A.ppdu_ns(&short, 1538), 36_000 + 176_000);
    // In 2.4 GHz the signal extension is added.
    assert_eq!(G.ppdu_ns(&Phy::n(20, 1, 7), 1538), 36_000 + 48 * 4_000 + 6_000);
}

#[test]
fn vht_ppdus() {
    // 390 Mbit/s: 64 subframes of 1544 bytes less 2 of padding: 98814 bytes, 790534 bits, 506.8
    // symbols; preamble 40.
    assert_eq!(A.ppdu_ns(&Phy::ac(80, 1, 9), 98_814), 40_000 + 507 * 4_000);
    // Eight streams have eight VHT-LTF.
    assert_eq!(Phy::ac(80, 8, 9).preamble_ns(), 20_000 + 8_000 + 4_000 + 32_000 + 4_000);
}

#[test]
fn he_ppdus() {
    // MCS 11, 80 MHz, 0.8 µs: 8166 bits per symbol of 13.6 µs. 98814 bytes: 790528 bits, 96.8
    // symbols. Preamble 20 + 4 + 8 + 4 and one HE-LTF of 7.2.
    assert_eq!(A.ppdu_ns(&Phy::ax(80, 1, 11), 98_814), 43_200 + 97 * 13_600);
    let long = Phy::Ax { width_mhz: 20, streams: 2, mcs: 0, guard_ns: 3200 };
    // 234 bits per symbol of 16 µs; 100 bytes: 816 bits, 3.5 symbols; two HE-LTF of 16.
    assert_eq!(A.ppdu_ns(&long, 100), 36_000 + 32_000 + 4 * 16_000);
}

#[test]
fn bytes_within_is_the_longest_frame_of_at_most_the_duration() {
    for phy in [
        Phy::g(54),
        Phy::n(20, 1, 7),
        Phy::N { width_mhz: 40, streams: 2, mcs: 3, guard_ns: 400 },
        Phy::ac(80, 1, 9),
        Phy::Ac { width_mhz: 160, streams: 4, mcs: 8, guard_ns: 400 },
        Phy::ax(80, 2, 11),
    ] {
        for timing in [G, A] {
            for nanos in [200_000, 1_000_000, 5_484_000] {
                let bytes = timing.bytes_within(&phy, nanos);
                assert!(timing.ppdu_ns(&phy, bytes) <= nanos, "{phy:?}, {bytes} bytes in {nanos} ns");
                assert!(timing.ppdu_ns(&phy, bytes + 1) > nanos, "{phy:?}, one byte more than {bytes}");
            }
        }
    }
}

#[test]
fn control_responses_follow_the_reference_rate() {
    let rates = (0..10).map(|mcs| Phy::ac(80, 2, mcs).reference_rate_mbps());
    assert_eq!(rates.collect::<Vec<_>>(), [6, 12, 18, 24, 36, 48, 54, 54, 54, 54]);
}
