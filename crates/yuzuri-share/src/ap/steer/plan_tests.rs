#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

const TICK: Duration = Duration::from_secs(2);

/// Stations that follow requests. On each radio, their rate is the forecast times the radio's
/// factor.
struct Cell {
    now: Duration,
    stations: Vec<Candidate>,
    steering: ClientSteering,
    /// Each radio's actual rate relative to the forecast.
    carries: Vec<f64>,
    obeys: bool,
    asked: Vec<(Duration, Request)>,
}

impl Cell {
    fn new(alone_mbps: &[&[f64]]) -> Cell {
        let stations = alone_mbps.iter().enumerate().map(|(n, alone)| Candidate {
            id: StationId([2, 0, 0, 0, 0, n as u8]),
            on: 0,
            alone_bps: alone.iter().map(|mbps| Some(mbps * 1e6).filter(|bps| *bps > 0.0)).collect(),
            rate_bps: 0.0,
        });
        Cell {
            now: Duration::ZERO,
            stations: stations.collect(),
            steering: ClientSteering::default(),
            carries: vec![1.0; 4],
            obeys: true,
            asked: Vec::new(),
        }
    }

    fn pass(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.now += TICK;
            let shares = forecast(&self.stations, None).unwrap();
            for (station, share) in self.stations.iter_mut().zip(shares) {
                station.rate_bps = share * self.carries[station.on];
            }
            let Some(request) = self.steering.tick(self.now, true, &self.stations) else { continue };
            self.asked.push((self.now, request));
            let station = self.stations.iter_mut().find(|c| c.id == request.id).unwrap();
            assert_eq!((station.on, station.alone_bps[request.to].is_some()), (request.from, true));
            if self.obeys {
                station.on = request.to;
            } else {
                self.steering.answered(self.now, request.id, 7);
            }
        }
    }

    fn total_mbps(&self) -> f64 {
        forecast(&self.stations, None).unwrap().iter().sum::<f64>() / 1e6
    }
}

/// Two fast and two slow stations on one radio: first one fast station moves, then the other.
#[test]
fn fast_stations_move_to_the_other_radio() {
    let mut cell = Cell::new(&[&[290.0, 290.0], &[290.0, 290.0], &[57.0, 57.0], &[57.0, 57.0]]);
    let start = cell.total_mbps();
    cell.pass(30);
    assert_eq!(cell.asked.len(), 1);
    assert!(cell.total_mbps() > 1.5 * start, "{start} -> {}", cell.total_mbps());
    cell.pass(1000);
    assert!(cell.total_mbps() > 1.9 * start, "{start} -> {}", cell.total_mbps());
    assert_eq!(cell.asked.len(), 2);
}

#[test]
fn no_station_is_moved_where_the_wire_is_the_limit() {
    let mut cell = Cell::new(&[&[290.0, 290.0], &[57.0, 57.0]]);
    for _ in 0..1000 {
        cell.now += TICK;
        assert_eq!(cell.steering.tick(cell.now, false, &cell.stations), None);
    }
}

#[test]
fn a_refusal_doubles_the_interval_between_requests() {
    let mut cell = Cell::new(&[&[290.0, 290.0], &[290.0, 0.0]]);
    cell.obeys = false;
    cell.pass(18_000);
    let hours: Vec<u64> = cell.asked.iter().map(|(at, _)| at.as_secs() / 3600).collect();
    assert_eq!(hours, [0, 1, 3, 7]);
}

/// The other radio carries a tenth of the forecast: a station that moved there returns after five
/// minutes, and is not asked to go there again.
#[test]
fn a_move_that_measurement_contradicts_is_undone() {
    let mut cell = Cell::new(&[&[290.0, 290.0], &[290.0, 0.0]]);
    cell.carries[1] = 0.1;
    cell.pass(3000);
    let [(first, there), (second, back)] = cell.asked[..] else { panic!("{:?}", cell.asked) };
    assert_eq!((there.to, back.to, back.is_undone), (1, 0, true));
    assert!(second - first >= ASKED_EACH && second - first < ASKED_EACH + 3 * TICK);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any radios and stations: no station is worse off at the end than at the start, each
    /// request increases the sum, no station is asked twice in five minutes, and requests come to
    /// an end.
    #[test]
    fn no_station_loses_and_requests_come_to_an_end(alone in prop::collection::vec(prop::collection::vec(1.0..500.0_f64, 3), 2..10)) {
        let rows: Vec<&[f64]> = alone.iter().map(Vec::as_slice).collect();
        let mut cell = Cell::new(&rows);
        let start = forecast(&cell.stations, None).unwrap();
        let mut sum = sum_log(&start);
        let mut asked = 0;
        for _ in 0..1200 {
            cell.pass(1);
            if cell.asked.len() > asked {
                asked = cell.asked.len();
                let now = forecast(&cell.stations, None).unwrap();
                prop_assert!(sum_log(&now) >= sum + MIN_GAIN - 1e-9);
                prop_assert!(start.iter().zip(&now).all(|(start, now)| now >= &(start * 0.999_999)));
                sum = sum_log(&now);
            }
        }
        let end = cell.asked.len();
        cell.pass(300);
        prop_assert_eq!(cell.asked.len(), end);
        for (at, request) in &cell.asked {
            let others = cell.asked.iter().filter(|(other, r)| r.id == request.id && other > at);
            prop_assert!(others.map(|(other, _)| *other - *at).all(|between| between >= ASKED_EACH));
        }
    }
}
