//! `yuzuri ap` leads the group of the stations that run `yuzuri share`: real daemons in network
//! namespaces.
#![allow(clippy::unwrap_used, missing_docs)]

mod ap_net;

use ap_net::{Daemon, RATE_MBIT, network};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_policy::{Body, GroupId, GroupKey, Message, NodeId};
use yuzuri_share::{ApStatus, MembershipState};
use yuzuri_testnet::{AccessPoint, Host, eventually};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");
const STATIONS: u8 = 4;
/// Number of stations that run `yuzuri share`: the first ones.
const MEMBERS: u8 = 2;
fn key(folder: &Path, name: &str) -> String {
    let file = folder.join(name).to_str().unwrap().to_owned();
    assert!(Command::new(YUZURI).args(["share", "key", &file]).status().unwrap().success());
    file
}

/// A bulk transfer to the server; dropping it stops it.
struct Upload {
    near: TcpStream,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Upload {
    fn begin(net: &AccessPoint, station: u8) -> Upload {
        let listener = net.inside(Host::Server, || TcpListener::bind("0.0.0.0:0").unwrap());
        let to = SocketAddr::new(net.v4(Host::Server), listener.local_addr().unwrap().port());
        let near = net.inside(Host::Station(station), || TcpStream::connect(to).unwrap());
        if station >= MEMBERS {
            // Independent of the machine's default. A member does not touch flows that choose their
            // own algorithm.
            socket2::SockRef::from(&near).set_tcp_congestion(b"cubic").unwrap();
        }
        let mut far = listener.accept().unwrap().0;
        let received = Arc::new(AtomicU64::new(0));
        let (mut sending, count) = (near.try_clone().unwrap(), received.clone());
        let threads = vec![
            std::thread::spawn(move || while sending.write_all(&[7; 16384]).is_ok() {}),
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok(length @ 1..) = far.read(&mut buffer) {
                    count.fetch_add(length as u64, Ordering::Relaxed);
                }
            }),
        ];
        Upload { near, received, threads }
    }

    fn address(&self) -> SocketAddr {
        self.near.local_addr().unwrap()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = self.near.shutdown(Shutdown::Both);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn asked(what: &str, runtime: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new(YUZURI);
    let output = command.args([what, "status", "--json", "--runtime"]).arg(runtime).output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// The access point's daemon on a host's device.
struct Ap {
    daemon: Daemon,
    runtime: std::path::PathBuf,
}

impl Ap {
    fn start(net: &AccessPoint, host: Host, device: &str, runtime: &Path, words: &[&str]) -> Ap {
        let mut command = net.command(host, YUZURI);
        command.args(["ap", "--runtime"]).arg(runtime).args(["-i", device]).args(words);
        let daemon = Daemon(command.stderr(Stdio::inherit()).spawn().unwrap());
        let ap = Ap { daemon, runtime: runtime.to_owned() };
        let its = || ap.status().is_some_and(|status| status.pid == ap.daemon.0.id());
        assert!(eventually(its), "the access point's daemon does not start");
        ap
    }

    fn status(&self) -> Option<ApStatus> {
        asked("ap", &self.runtime).map(|text| serde_json::from_slice(&text).unwrap())
    }

    fn until(&self, what: &str, shown: impl Fn(&ApStatus) -> bool) -> ApStatus {
        let seen = eventually(|| self.status().is_some_and(|status| shown(&status)));
        let status = self.status();
        assert!(seen, "never seen: {what}; the last status: {status:#?}");
        status.unwrap()
    }
}

/// A station's membership, its uploads, and how many of them the gate bounds.
fn of_station(status: &ApStatus, net: &AccessPoint, n: u8) -> Option<(MembershipState, u32, u32)> {
    let address: IpAddr = net.v4(Host::Station(n));
    let station = status.stations.iter().find(|s| s.addresses.contains(&address))?;
    Some((station.membership, station.uploads, station.bounded))
}

/// `yuzuri share` on a station.
struct Share {
    _daemon: Daemon,
    runtime: std::path::PathBuf,
}

impl Share {
    /// `None`, with a printed reason, if the kernel does not allow struct_ops.
    fn or_skip(test: &str, net: &AccessPoint, n: u8, folder: &Path, words: &[&str]) -> Option<Share> {
        let folder = folder.join(format!("share-{n}"));
        let runtime = folder.join("run");
        let mut command = net.command(Host::Station(n), YUZURI);
        command.args(["share", "--runtime"]).arg(&runtime).arg("--state").arg(folder.join("state"));
        // Unique, so that tests can run in parallel.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        command.args(["--control", &format!("yg{}n{number}", std::process::id() % 1_000_000)]).args(words);
        let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut ended = || daemon.0.try_wait().unwrap().is_some();
        assert!(eventually(|| asked("share", &runtime).is_some() || ended()));
        if ended() {
            let mut why = String::new();
            daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            assert!(why.contains("not permitted") || why.contains("it needs struct_ops"), "{why}");
            println!("{test}: skipped: {why}");
            return None;
        }
        // Drain its output, since the daemon must not block on it.
        let mut messages = daemon.0.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
        Some(Share { _daemon: daemon, runtime })
    }

    /// The state of its interface.
    fn state(&self) -> Value {
        let status: Value = serde_json::from_slice(&asked("share", &self.runtime).unwrap()).unwrap();
        status["interfaces"][0].clone()
    }

    fn until(&self, what: &str, shown: impl Fn(&Value) -> bool) -> Value {
        let seen = eventually(|| shown(&self.state()));
        let state = self.state();
        assert!(seen, "never seen: {what}; the last state: {state:#}");
        state
    }

    /// Whether the flow's bound is a share of the group's capacity.
    fn is_shared(state: &Value, flow: SocketAddr) -> bool {
        let flows = state["flows"].as_array().into_iter().flatten();
        flows.into_iter().any(|f| {
            f["local"] == flow.to_string().as_str()
                && matches!(f["rule"].as_str(), Some("share" | "probe" | "contend"))
                && f["bound"]["upper"].as_u64() > Some(0)
        })
    }
}

fn led_by<'a>(node: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |state| state["leader"] == node
}

/// Waits until the two members have elected one of themselves as leader.
fn lead_themselves(members: &[Share; 2]) {
    let agree = || {
        let states = members.each_ref().map(Share::state);
        let nodes = states.each_ref().map(|state| state["node"].clone());
        let leader = &states[0]["leader"];
        nodes.contains(leader) && states[1]["leader"] == *leader && states[0]["summary"]["senders"] == 2
    };
    assert!(eventually(agree), "{:#?}", members.each_ref().map(Share::state));
}

#[test]
fn an_access_point_leads_its_members_and_bounds_only_the_others() {
    let test = "an_access_point_leads_its_members_and_bounds_only_the_others";
    let Some(net) = network(test, STATIONS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), "key");
    let words = ["--key-file", &key];
    let Some(first) = Share::or_skip(test, &net, 0, folder.path(), &words) else { return };
    let Some(second) = Share::or_skip(test, &net, 1, folder.path(), &words) else { return };
    let members = [first, second];
    // These began before the gate, which never touches them.
    let _before = [0, 1].map(|n| Upload::begin(&net, n));
    lead_themselves(&members);

    let runtime = folder.path().join("ap");
    let ap = Ap::start(&net, Host::AccessPoint, "br0", &runtime, &words);
    let node = ap.until("a group that it leads", |s| s.groups.len() == 1 && s.groups[0].leads).groups[0]
        .node
        .clone();
    members.iter().for_each(|member| drop(member.until("the access point leads", led_by(&node))));

    let uploads: Vec<Upload> = (0..STATIONS).map(|n| Upload::begin(&net, n)).collect();
    let status = ap.until("members free, the others bounded", |status| {
        let of = |n| of_station(status, &net, n);
        let is_free = |n| matches!(of(n), Some((MembershipState::Member, 1, 0)));
        let is_bounded = |n| matches!(of(n), Some((MembershipState::None, 1, 1)));
        is_free(0)
            && is_free(1)
            && is_bounded(2)
            && is_bounded(3)
            && status.summary.as_ref().is_some_and(|s| s.senders == 4)
    });
    assert_eq!(status.groups[0].members.len(), 2, "{status:#?}");
    assert!(status.problems.is_empty(), "{status:#?}");
    // A member's bounds follow from the access point's summary, which covers stations that the
    // member cannot hear.
    for (member, upload) in members.iter().zip(&uploads) {
        member.until("a share among four", |state| {
            state["summary"]["senders"] == 4
                && Share::is_shared(state, upload.address())
                && led_by(&node)(state)
        });
    }
    let text = String::from_utf8(
        Command::new(YUZURI).args(["ap", "status", "--runtime"]).arg(&runtime).output().unwrap().stdout,
    )
    .unwrap();
    assert!(text.contains("leads group") && text.contains("(member: bounds itself)"), "{text}");

    // All stations have about the same rate. Members have two uploads each, one of which began
    // before the gate.
    let count = |of: &[&Upload]| of.iter().map(|u| u.received.load(Ordering::Relaxed)).sum::<u64>();
    let each =
        || (0..STATIONS.into()).map(|n| count(&[&uploads[n]]) + _before.get(n).map_or(0, |u| count(&[u])));
    let start: Vec<u64> = each().collect();
    std::thread::sleep(Duration::from_secs(10));
    let mbps: Vec<f64> =
        each().zip(&start).map(|(now, then)| (now - then) as f64 * 8.0 / 10.0 / 1e6).collect();
    let (sum, squares): (f64, f64) = (mbps.iter().sum(), mbps.iter().map(|x| x * x).sum());
    let fairness = sum * sum / (squares * mbps.len() as f64);
    println!("{test}: {mbps:.1?} Mbit/s, Jain {fairness:.3}");
    // 0.99 on an idle machine; thirds have been seen under load.
    assert!(fairness > 0.7 && sum > 0.6 * f64::from(RATE_MBIT), "{mbps:?} {:#?}", ap.status());

    // The access point dies: the members elect a leader. It returns, and leads; it leaves, and they
    // elect one immediately.
    drop(ap);
    lead_themselves(&members);
    let ap = Ap::start(&net, Host::AccessPoint, "br0", &runtime, &words);
    let node = ap.until("a group that it leads", |s| s.groups.len() == 1).groups[0].node.clone();
    members.iter().for_each(|member| drop(member.until("the access point leads again", led_by(&node))));
    assert_eq!(ap.daemon.end(), Some(0));
    lead_themselves(&members);
}

/// A member that used the whole link learns about two more stations only from the access point:
/// they send it no messages.
#[test]
fn a_member_learns_of_stations_without_messages_from_its_access_point() {
    let test = "a_member_learns_of_stations_without_messages_from_its_access_point";
    let Some(net) = network(test, STATIONS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), "key");
    let words = ["--key-file", &key];
    let ap = Ap::start(&net, Host::AccessPoint, "br0", &folder.path().join("ap"), &words);
    let Some(member) = Share::or_skip(test, &net, 0, folder.path(), &words) else { return };
    let upload = Upload::begin(&net, 0);
    let most_bps = f64::from(RATE_MBIT) * 1e6;
    let alone = |state: &Value| {
        Share::is_shared(state, upload.address()) && state["rate_bps"].as_f64() > Some(0.7 * most_bps)
    };
    member.until("the whole wire", alone);
    let _others = [2, 3].map(|n| Upload::begin(&net, n));
    ap.until("three that send", |s| s.summary.as_ref().is_some_and(|s| s.senders == 3));
    // Longer than a member takes to refute a leader that it does not believe.
    let mut rules = std::collections::BTreeMap::new();
    for _ in 0..60 {
        let state = member.state();
        for flow in state["flows"].as_array().into_iter().flatten() {
            *rules.entry(flow["rule"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    println!("{test}: {rules:?}");
    assert!(!rules.contains_key("mistrust") && !rules.contains_key("doubt"), "{rules:?}");
    // Its rate then depends on how long a busy machine delays packets; its bounds do not.
    member.until("a share among three", |state| {
        state["summary"]["senders"] == 3 && Share::is_shared(state, upload.address())
    });
}

/// The settings give a member and a station without yuzuri three times the others' weight, while
/// all of them send.
#[test]
fn members_have_the_weights_of_the_settings() {
    let test = "members_have_the_weights_of_the_settings";
    let Some(net) = network(test, STATIONS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), "key");
    let config = folder.path().join("ap.toml");
    let settings = format!("[members]\nkey_file = {key:?}\n");
    std::fs::write(&config, &settings).unwrap();
    let runtime = folder.path().join("ap");
    let ap = Ap::start(&net, Host::AccessPoint, "br0", &runtime, &["--config", config.to_str().unwrap()]);
    let words = ["--key-file", &key];
    let Some(first) = Share::or_skip(test, &net, 0, folder.path(), &words) else { return };
    let Some(second) = Share::or_skip(test, &net, 1, folder.path(), &words) else { return };
    let members = [first, second];
    let uploads: Vec<Upload> = (0..STATIONS).map(|n| Upload::begin(&net, n)).collect();
    for (member, upload) in members.iter().zip(&uploads) {
        member.until("a share among four", |state| {
            state["summary"]["senders"] == 4 && Share::is_shared(state, upload.address())
        });
    }
    let stations = ap.status().unwrap().stations;
    let mac = |n: u8| {
        let station = stations.iter().find(|s| s.addresses.contains(&net.v4(Host::Station(n)))).unwrap();
        format!("[[station]]\nmac = \"{}\"\nweight = 3.0\n", station.station)
    };
    std::fs::write(&config, settings + &mac(0) + &mac(2)).unwrap();
    let pid = nix::unistd::Pid::from_raw(ap.daemon.0.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();

    let upper = |n: usize| {
        let state = members[n].state();
        let flows = state["flows"].as_array().into_iter().flatten();
        let of = |f: &&Value| f["local"] == uploads[n].address().to_string().as_str();
        flows.into_iter().find(of).and_then(|f| f["bound"]["upper"].as_f64()).unwrap_or(0.0)
    };
    let near = |ratio: f64| (2.4..3.7).contains(&ratio);
    assert!(eventually(|| near(upper(0) / upper(1))), "{} and {} segments", upper(0), upper(1));
    let share = |status: &ApStatus, n: u8| {
        let station = status.stations.iter().find(|s| s.addresses.contains(&net.v4(Host::Station(n))));
        station.and_then(|s| s.share_bps).unwrap_or(0) as f64
    };
    let status = ap.until("shares by weight", |s| {
        near(share(s, 0) / share(s, 1))
            && near(share(s, 2) / share(s, 3))
            && (share(s, 0) / share(s, 2) - 1.0).abs() < 0.1
    });
    let of = |n| of_station(&status, &net, n);
    assert!(matches!(of(0), Some((MembershipState::Member, 1, 0))), "{status:#?}");
    let start: Vec<u64> = uploads.iter().map(|u| u.received.load(Ordering::Relaxed)).collect();
    std::thread::sleep(Duration::from_secs(10));
    let mbps: Vec<f64> = uploads
        .iter()
        .zip(start)
        .map(|(u, before)| (u.received.load(Ordering::Relaxed) - before) as f64 * 8.0 / 10.0 / 1e6)
        .collect();
    println!("{test}: {mbps:.1?} Mbit/s");
    // 3 on an idle machine.
    assert!(mbps[0] > 1.8 * mbps[1] && mbps[2] > 1.8 * mbps[3], "{mbps:?} {:#?}", ap.status());
}

#[test]
fn a_host_without_the_groups_key_cannot_claim_to_be_the_access_point() {
    let test = "a_host_without_the_groups_key_cannot_claim_to_be_the_access_point";
    let Some(net) = network(test, STATIONS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (key(folder.path(), "right"), key(folder.path(), "wrong"));
    let Some(first) = Share::or_skip(test, &net, 0, folder.path(), &["--key-file", &right]) else { return };
    let Some(second) = Share::or_skip(test, &net, 1, folder.path(), &["--key-file", &right]) else { return };
    let members = [first, second];
    let _uploads = [0, 1].map(|n| Upload::begin(&net, n));
    lead_themselves(&members);
    let before = members[0].state()["leader"].clone();
    // The real daemon with another key, and a neighbour without a key that claims to be the access
    // point.
    let ap = Ap::start(&net, Host::AccessPoint, "br0", &folder.path().join("ap"), &["--key-file", &wrong]);
    let group: [u8; 8] = {
        let text = members[0].state()["group"].as_str().unwrap().to_owned();
        u64::from_str_radix(&text, 16).unwrap().to_be_bytes()
    };
    let group = GroupId(group);
    let claim = |sequence| Message {
        group,
        node: NodeId(1),
        epoch: 1,
        sequence,
        rank: 0,
        sends: false,
        leads: true,
        access_point: true,
        asks: false,
        addressed: None,
        challenge: Some(1),
        body: Body::Hello { leader: Some(NodeId(1)) },
    };
    let neighbour = net.inside(Host::Station(3), || UdpSocket::bind("0.0.0.0:0").unwrap());
    let refused = |state: &Value, why: &str| state["messages"]["refused"][why].as_u64().unwrap_or(0);
    let mut sequence = 0;
    for member in &members {
        let address = if std::ptr::eq(member, &members[0]) {
            net.v4(Host::Station(0))
        } else {
            net.v4(Host::Station(1))
        };
        let seen = eventually(|| {
            sequence += 1;
            let bytes = claim(sequence).encode(&GroupKey::new(None, group));
            neighbour.send_to(&bytes, (address, yuzuri_share::DEFAULT_PORT)).unwrap();
            let state = member.state();
            refused(&state, "tag") > 2 && refused(&state, "keyless") > 2
        });
        assert!(seen, "{:#}", member.state());
    }
    lead_themselves(&members);
    assert_eq!(members[0].state()["leader"], before);
    // To that daemon the members are stations without yuzuri.
    let status = ap.until("it leads nobody", |s| s.groups.len() == 1);
    assert!(status.groups[0].members.is_empty(), "{status:#?}");
    assert!(status.stations.iter().all(|s| s.membership == MembershipState::None), "{status:#?}");
}

#[test]
fn of_two_access_points_one_leads_and_the_other_reports_it() {
    let test = "of_two_access_points_one_leads_and_the_other_reports_it";
    let Some(net) = network(test, STATIONS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), "key");
    let config = folder.path().join("ap.toml");
    std::fs::write(&config, format!("[members]\nkey_file = {key:?}\ngroup = \"office\"\n")).unwrap();
    let words = ["--config", config.to_str().unwrap()];
    let member = Share::or_skip(test, &net, 0, folder.path(), &["--key-file", &key, "--group", "office"]);
    let Some(member) = member else { return };
    let _upload = Upload::begin(&net, 0);
    let one = Ap::start(&net, Host::AccessPoint, "br0", &folder.path().join("one"), &words);
    let other = Ap::start(&net, Host::Station(3), "eth0", &folder.path().join("other"), &words);
    let leads = |ap: &Ap| ap.status().is_some_and(|s| s.groups.iter().any(|g| g.leads));
    assert!(eventually(|| leads(&one) != leads(&other)), "{:#?} {:#?}", one.status(), other.status());
    let (leader, follower) = if leads(&one) { (one, other) } else { (other, one) };
    let node = leader.status().unwrap().groups[0].node.clone();
    let words = format!("another access point leads group {}", leader.status().unwrap().groups[0].group);
    follower.until("clear words", |s| s.problems.iter().any(|p| p.contains(&words) && p.contains(&node)));
    assert!(leader.status().unwrap().problems.is_empty());
    member.until("the one that leads", led_by(&node));
    // Once it ends, the other daemon takes over.
    let node = follower.status().unwrap().groups[0].node.clone();
    assert_eq!(leader.daemon.end(), Some(0));
    member.until("the other one", led_by(&node));
    follower.until("no complaint", |s| s.problems.is_empty() && s.groups[0].leads);
}
