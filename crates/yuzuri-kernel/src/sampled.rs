//! Converts a socket from `sock_diag` to the types of `yuzuri_trace`, and applies filters to it.

use crate::cgroups::{self, CgroupError};
use crate::diag::Socket;
use std::collections::{HashMap, HashSet};
use yuzuri_trace::{Event, Filter, Flow, FlowId, Marks, Place, Role};

/// The place of polled records.
pub(crate) const PLACE: &str = "sock_diag";

/// A filter for flows of namespaces that are already selected.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The filter without its namespaces.
    within: Filter,
    /// The same without the owner.
    without_owner_terms: Filter,
    cgroups: HashMap<String, HashSet<u64>>,
}

impl Scope {
    /// # Errors
    /// If the filter names a control group that does not exist.
    pub(crate) fn new(filter: &Filter) -> Result<Scope, CgroupError> {
        let groups = filter.cgroups.iter().map(|path| Ok((path.clone(), group_ids(path)?)));
        let within = Filter { netns: Vec::new(), ..filter.clone() };
        let without_owner_terms = Filter { pids: Vec::new(), names: Vec::new(), ..within.clone() };
        Ok(Scope { cgroups: groups.collect::<Result<_, CgroupError>>()?, within, without_owner_terms })
    }

    /// Whether the flow is selected.
    pub(crate) fn matches(&self, flow: &Flow) -> bool {
        self.within.matches(flow, |id, path| self.in_group(id, path))
    }

    /// Whether some owner would make it selected.
    pub(crate) fn may_match(&self, flow: &Flow) -> bool {
        self.without_owner_terms.matches(flow, |id, path| self.in_group(id, path))
    }

    fn in_group(&self, id: u64, path: &str) -> bool {
        self.cgroups.get(path).is_some_and(|group| group.contains(&id))
    }
}

/// Ids of a control group and all below it.
fn group_ids(path: &str) -> Result<HashSet<u64>, CgroupError> {
    use std::os::unix::fs::MetadataExt;
    let top = cgroups::folder(path)?;
    let mut ids = HashSet::new();
    let mut folders = vec![top];
    while let Some(folder) = folders.pop() {
        ids.extend(folder.metadata().map(|m| m.ino()));
        let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    Ok(ids)
}

/// The socket's identity, without its owner.
pub(crate) fn identity(socket: &Socket, netns: u32, netns_name: Option<&str>) -> Flow {
    Flow {
        id: FlowId(socket.cookie),
        local: socket.local,
        remote: socket.remote,
        netns,
        netns_name: netns_name.map(str::to_owned),
        owner: None,
        cgroup: socket.cgroup,
        congestion_control: socket.control.clone(),
        role: Role::Unknown,
        inode: socket.inode,
    }
}

/// A sample of the socket's state.
pub(crate) fn sample(socket: &Socket, mono_ns: u64, place: Place) -> Event {
    let mut marks = Marks::SAMPLED;
    if socket.app_limited {
        marks.insert(Marks::APP_LIMITED);
    }
    Event {
        mono_ns,
        flow: FlowId(socket.cookie),
        place,
        marks,
        ca_state: socket.ca_state,
        ca_before: socket.ca_state,
        snapshot: socket.snapshot,
        ..Event::default()
    }
}
