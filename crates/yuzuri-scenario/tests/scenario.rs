//! Scenario files: parsing, error messages, and the expansion of sweeps.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use yuzuri_scenario::{Document, Scenario};

const GOOD: &str = r#"title = "two phones"
duration_s = 10
warm_up_s = 1
repetitions = 2

[path]
rtt_ms = 20
rate_mbps = 100

[[terminal]]
name = "phone"
count = 2
phy = { standard = "g", rate_mbps = 54 }

[[terminal]]
name = "tablet"
phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
window = 50
"#;

fn parse(text: &str) -> Result<Document, String> {
    Document::parse(Path::new("bad.toml"), text.to_owned()).map_err(|problems| problems.to_string())
}

/// The file with one line replaced.
fn with(line: &str, by: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replacen(line, by, 1)
}

#[test]
fn a_good_file_is_read() {
    let document = parse(GOOD).unwrap();
    let names: Vec<String> = document.base().terminals().map(|t| t.name()).collect();
    assert_eq!(names, ["phone-1", "phone-2", "tablet"]);
    assert_eq!(document.base().wire_config().up.delay_us, 10_000);
    assert_eq!(document.points().unwrap().len(), 1);
}

/// A terminal has another radio in the other cell, and is there from its move on.
#[test]
fn terminals_move_to_a_second_cell() {
    let there =
        "phy_there = { standard = \"g\", rate_mbps = 24 }\nmoves_s = 5\n[second_cell]\nretry_limit = 3\n";
    let document = parse(&(GOOD.to_owned() + there)).unwrap();
    let scenario = document.base();
    let [phone, tablet] = &scenario.terminal[..] else { panic!() };
    let second = [0.0, 4.9, 5.0].map(|at_s| scenario.is_in_second_cell(tablet, at_s));
    assert_eq!(second, [false, false, true]);
    assert!(!scenario.is_in_second_cell(phone, 9.0));
    let (first, second) = (scenario.cell_config().unwrap(), scenario.second_cell_config().unwrap().unwrap());
    assert_eq!((first.stations.len(), second.stations.len()), (3, 3));
    assert_eq!((first.stations[2].phy, second.stations[2].phy), (tablet.phy, tablet.phy_there.unwrap()));
    assert_eq!((first.stations[0].phy, second.stations[0].phy), (phone.phy, phone.phy));
    assert!(first.retry_limit != second.retry_limit);
    // A terminal that begins there has its usual radio there.
    let begins = parse(&(GOOD.to_owned() + "cell = 2\n" + there)).unwrap();
    let tablet = &begins.base().terminal[1];
    assert_eq!([0.0, 5.0].map(|at_s| begins.base().is_in_second_cell(tablet, at_s)), [true, false]);
    assert_eq!((tablet.phy_in(true), tablet.phy_in(false)), (tablet.phy, tablet.phy_there.unwrap()));
    let again = parse(&scenario.to_toml().unwrap()).unwrap();
    assert_eq!(again.base(), scenario);
    assert!(!parse(GOOD).unwrap().base().to_toml().unwrap().contains("second_cell"));
}

#[test]
fn an_access_point_may_share_for_its_terminals() {
    let plain = parse(GOOD).unwrap();
    assert!(
        !plain.base().to_toml().unwrap().contains("ap ="),
        "kept results would count as those of another"
    );
    let text =
        "ap = \"host\"\nalone = true\ngate = { objective = \"latency\", starts_s = 2 }\n".to_owned() + GOOD;
    let document = parse(&text).unwrap();
    let gate = document.base().gate.as_ref().unwrap();
    assert_eq!((gate.policy_config().objective.name(), gate.starts_s), ("latency", 2.0));
    let again = parse(&document.base().to_toml().unwrap()).unwrap();
    assert_eq!(again.base(), document.base());
    // A terminal that runs alone, as a reference, is not bounded.
    let points = document.points().unwrap();
    assert!(points.iter().filter(|p| p.scenario.gate.is_none()).count() == 2, "{points:?}");
}

#[test]
fn errors_name_line_and_field() {
    let cases = [
        ("no such rate", with("rate_mbps = 54", "rate_mbps = 55")),
        ("no such MCS", with("mcs = 7", "mcs = 8")),
        ("no terminals", with("count = 2", "count = 0").replacen("window = 50", "count = 0", 1)),
        ("a gate that no packet passes", "gate = {}\n".to_owned() + GOOD),
        ("a gate that begins after the end", "ap = \"host\"\ngate = { starts_s = 10 }\n".to_owned() + GOOD),
        ("an unknown kind of access point", "ap = \"router\"\n".to_owned() + GOOD),
        ("no [[terminal]] at all", GOOD.split("[[terminal]]").next().unwrap().to_owned()),
        ("an unsupported processor", "processor_mips = 3000\n".to_owned() + GOOD),
        ("negative delay", with("rtt_ms = 20", "rtt_ms = -20")),
        ("a delay that is not a number", with("rtt_ms = 20", "rtt_ms = \"long\"")),
        ("an unknown field", with("rtt_ms = 20", "rtt = 20")),
        ("an unknown workload", GOOD.to_owned() + "workload = { kind = \"flood\" }\n"),
        ("warm-up longer than the run", with("warm_up_s = 1", "warm_up_s = 10")),
        ("a window of one", with("window = 50", "window = 1")),
        ("an MTU that is too small", with("rtt_ms = 20", "mtu_bytes = 100")),
        ("an algorithm and a control", GOOD.to_owned() + "control = \"cubic\"\ncubic = {}\n"),
        ("a beta above 1", GOOD.to_owned() + "cubic = { beta = 1.5 }\n"),
        ("an algorithm with a cap below its floor", GOOD.to_owned() + "cubic = { floor = 50, cap = 40 }\n"),
        ("an algorithm with an unknown field", GOOD.to_owned() + "cubic = { gamma = 0.7 }\n"),
        ("a control beside sharing", GOOD.to_owned() + "control = \"cubic\"\n[share]\n"),
        ("an algorithm beside sharing", GOOD.to_owned() + "cubic = {}\nshare = true\n"),
        (
            "pacing by a workload that cannot pace",
            GOOD.to_owned() + "paced = true\nworkload = { kind = \"iperf3\" }\n",
        ),
        ("no such policy", GOOD.to_owned() + "[share]\npolicy = \"fair\"\n"),
        ("no such objective", GOOD.to_owned() + "share = { objective = \"speed\" }\n"),
        ("an unknown field of sharing", GOOD.to_owned() + "[share]\nrule = \"count\"\n"),
        ("an invalid value of share", GOOD.to_owned() + "share = \"yes\"\n"),
        ("sharing that begins after the end", GOOD.to_owned() + "[share]\nstarts_s = 10\n"),
        ("a kind's sharing that begins after the end", GOOD.to_owned() + "share = { starts_s = 11 }\n"),
        ("a capacity of zero", GOOD.to_owned() + "[share]\ncapacity_mbps = 0\n"),
        ("a shaper that no packet passes", GOOD.to_owned() + "[shaper]\nqdisc = \"cake\"\nrate_mbps = 19\n"),
        ("an unknown queue of the shaper", GOOD.to_owned() + "[shaper]\nqdisc = \"sfq\"\nrate_mbps = 19\n"),
        (
            "a weight of an unknown terminal",
            format!("ap = \"host\"\ngate = {{ weight = {{ watch = 2 }} }}\n{GOOD}"),
        ),
        ("a weight of zero", format!("ap = \"host\"\ngate = {{ weight = {{ phone = 0 }} }}\n{GOOD}")),
        ("a call without frames", GOOD.to_owned() + "workload = { kind = \"call\", bytes = 0 }\n"),
        ("two terminals with one name", with("name = \"tablet\"", "name = \"phone\"")),
        ("a name with a space", with("name = \"tablet\"", "name = \"my tablet\"")),
        ("leaves before it joins", GOOD.to_owned() + "joins_s = 5\nleaves_s = 4\n"),
        ("a move between cells, with one cell only", GOOD.to_owned() + "moves_s = 5\ncell = 2\n"),
        ("a third cell", GOOD.to_owned() + "cell = 3\n[second_cell]\n"),
        ("a move before it joins", GOOD.to_owned() + "joins_s = 5\nmoves_s = 4\n[second_cell]\n"),
        ("a move as it leaves", GOOD.to_owned() + "moves_s = 9.95\n[second_cell]\n"),
        ("an unknown field of the second cell", GOOD.to_owned() + "[second_cell]\nretries = 3\n"),
        (
            "an invalid radio in the second cell",
            GOOD.to_owned() + "phy_there = { standard = \"g\", rate_mbps = 55 }\n[second_cell]\n",
        ),
        ("invalid TOML", with("[path]", "[path")),
        ("an unknown field of the cell", GOOD.to_owned() + "[cell]\nretries = 3\n"),
        ("an invalid basic rate", GOOD.to_owned() + "[cell]\nbasic_rates_mbps = [6, 7]\n"),
        ("a bad value in a sweep", GOOD.to_owned() + "[sweep]\n\"path.rtt_ms\" = [1, -1]\n"),
        ("an unknown field in a sweep", GOOD.to_owned() + "[sweep]\n\"path.rttms\" = [1]\n"),
        ("an unknown terminal in a sweep", GOOD.to_owned() + "[sweep]\n\"terminal.watch.window\" = [5]\n"),
        ("a sweep without values", GOOD.to_owned() + "[sweep]\n\"path.rtt_ms\" = []\n"),
        (
            "a bad value in a variant",
            GOOD.to_owned()
                + "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { \"terminal.tablet.phy.mcs\" = 9 }\n",
        ),
        (
            "two variants with one name",
            GOOD.to_owned() + "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"a\"\n",
        ),
        ("several at once", with("rtt_ms = 20", "rtt_ms = -20").replacen("window = 50", "window = 0", 1)),
    ];
    let mut text = String::new();
    for (what, file) in cases {
        let error = parse(&file).map(drop).expect_err(what);
        text += &format!("# {what}\n{error}\n\n");
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/problems.txt");
    if std::env::var_os("YUZURI_BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap(), "YUZURI_BLESS=1 updates it");
}

#[test]
fn each_kind_has_its_share_settings() {
    let text = GOOD.to_owned()
        + "share = { objective = \"latency\" }\n[share]\npolicy = \"count\"\ncapacity_mbps = 20\nstarts_s = 2\n";
    let document = parse(&text).unwrap();
    let [phone, tablet] = &document.base().terminal[..] else { panic!() };
    let general = document.base().share_of(phone).unwrap();
    assert_eq!(
        (general.policy.name(), general.objective.name(), general.starts_s),
        ("count", "balanced", 2.0)
    );
    assert_eq!(general.policy_config().capacity_bps, Some(20_000_000));
    let changed = document.base().share_of(tablet).unwrap();
    assert_eq!(
        (changed.policy, changed.objective.name(), changed.starts_s),
        (general.policy, "latency", 2.0)
    );
    // The file passed to a guest has the same contents.
    let written = document.base().to_toml().unwrap();
    assert_eq!(&toml::from_str::<Scenario>(&written).unwrap(), document.base());

    let some = parse(&(GOOD.to_owned() + "control = \"bbr\"\nshare = false\n[share]\n")).unwrap();
    let shares: Vec<bool> = some.base().terminal.iter().map(|t| some.base().share_of(t).is_some()).collect();
    assert_eq!(shares, [true, false]);
    let one = parse(&(GOOD.to_owned() + "share = true\n")).unwrap();
    let shares: Vec<bool> = one.base().terminal.iter().map(|t| one.base().share_of(t).is_some()).collect();
    assert_eq!(shares, [false, true]);
}

#[test]
fn runs_alone_are_without_sharing() {
    let text = GOOD.replacen("window = 50\n", "", 1) + "[share]\n";
    let document = parse(&format!("alone = true\n{text}")).unwrap();
    let points = document.points().unwrap();
    let alone: Vec<_> = points.iter().filter(|point| point.alone.is_some()).collect();
    assert_eq!(alone.len(), 2);
    for point in alone {
        for kind in &point.scenario.terminal {
            assert_eq!((point.scenario.share_of(kind), kind.control.as_deref()), (None, Some("cubic")));
        }
    }
}

#[test]
fn a_sweep_is_every_combination() {
    let text = GOOD.to_owned()
        + "[sweep]\n\"path.rtt_ms\" = [1, 2]\n\"path.loss\" = [0.0, 0.1, 0.2]\n\
           [[variant]]\nname = \"free\"\n[[variant]]\nname = \"held\"\nset = { \"terminal.phone.window\" = 9 }\n";
    let document = parse(&text).unwrap();
    let points = document.points().unwrap();
    assert_eq!(points.len(), 12);
    let last = points.last().unwrap();
    assert_eq!(last.name, "path.loss=0.2,path.rtt_ms=2,held");
    assert_eq!((last.scenario.path.rtt_ms, last.scenario.path.loss), (2.0, 0.2));
    assert_eq!(last.scenario.terminal[0].window, Some(9));
    assert_eq!(points[0].scenario.terminal[0].window, None);
    // A value given on the command line removes the field from the sweep.
    let with = |pairs: &[(&str, &str)]| {
        let values: Vec<_> = pairs.iter().map(|(f, v)| ((*f).to_owned(), Document::value(v))).collect();
        document.with(&values)
    };
    let fewer = with(&[("path.rtt_ms", "7")]).unwrap();
    assert_eq!(fewer.points().unwrap().len(), 6);
    assert!(fewer.points().unwrap().iter().all(|p| p.scenario.path.rtt_ms == 7.0));
    assert!(with(&[("path.rtt_ms", "-7")]).is_err());
    // Each value is invalid without the other.
    assert!(with(&[("warm_up_s", "20"), ("duration_s", "30")]).is_ok());
    assert!(with(&[("warm_up_s", "20")]).is_err());
}

#[test]
fn alone_is_run_once_for_each_kind_and_path() {
    let text = with("repetitions = 2", "repetitions = 2\nalone = true")
        + "[sweep]\n\"path.rtt_ms\" = [1, 2]\n[[variant]]\nname = \"free\"\n[[variant]]\nname = \"held\"\nset = { \"terminal.phone.window\" = 9 }\n";
    let points = parse(&text).unwrap().points().unwrap();
    let alone: Vec<_> = points.iter().filter(|p| p.alone.is_some()).collect();
    let names: Vec<&str> = alone.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "path.rtt_ms=1,alone-phone",
            "path.rtt_ms=1,alone-tablet",
            "path.rtt_ms=2,alone-phone",
            "path.rtt_ms=2,alone-tablet"
        ]
    );
    for point in alone {
        assert_eq!(point.scenario.terminals().count(), 1);
        assert!(point.scenario.terminals().all(|t| t.kind.window.is_none()));
    }
}

#[test]
fn alone_is_under_the_files_own_control_and_on_one_path() {
    let alone = |sets: &str| -> Result<Vec<(String, Option<String>)>, String> {
        let text = with("repetitions = 2", "repetitions = 2\nalone = true")
            + "[[variant]]\nname = \"plain\"\n[[variant]]\nname = \"other\"\nset = "
            + sets;
        let points = parse(&text)?.points().unwrap().into_iter().filter(|point| point.alone.is_some());
        let control = |scenario: &Scenario| scenario.terminals().next().and_then(|t| t.kind.control.clone());
        Ok(points.map(|point| (point.name, control(&point.scenario))).collect())
    };
    let cubic = |name: &str| (format!("alone-{name}"), Some("cubic".to_owned()));
    let expected = vec![cubic("phone"), cubic("tablet")];
    assert_eq!(alone("{ \"terminal.phone.control\" = \"bbr\" }").unwrap(), expected);
    let problem = alone("{ \"path.rate_mbps\" = 7 }").unwrap_err();
    assert!(problem.contains("alone") && problem.contains("depend on the variant"), "{problem}");
}

#[test]
fn a_scenario_round_trips_through_its_text() {
    let document = parse(&(GOOD.to_owned() + "[sweep]\n\"path.rtt_ms\" = [1, 2]\n")).unwrap();
    for point in document.points().unwrap() {
        let text = point.scenario.to_toml().unwrap();
        assert_eq!(toml::from_str::<Scenario>(&text).unwrap(), point.scenario);
    }
}

#[test]
fn every_scenario_of_the_repository_is_good() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut count = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "toml")) {
        let document = Document::open(file).unwrap_or_else(|problems| panic!("{problems}"));
        let points = document.points().unwrap();
        let mut names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), points.len());
        count += 1;
    }
    assert!(count >= 6);
}
