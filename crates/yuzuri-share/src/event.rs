//! The events that a control loop reports, and the commands that it accepts, while it runs.

use crate::config::ShareConfig;
use crate::discover::GroupFrom;
use std::fmt;
use yuzuri_policy::{NodeId, Notice, PolicyConfig};
use yuzuri_stats::counted;

/// An event, for a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A group was joined, or the group behind an interface changed.
    Joined {
        /// The interface.
        interface: String,
        /// The group, 16 hexadecimal digits.
        group: String,
        /// The source of the group.
        from: GroupFrom,
    },
    /// An interface no longer takes part.
    Gone {
        /// The interface.
        interface: String,
    },
    /// The leader has changed.
    Leader {
        /// The interface.
        interface: String,
        /// The new leader.
        node: Option<NodeId>,
        /// This terminal is the leader.
        own: bool,
    },
    /// Flows are no longer bounded, or never were bounded.
    StoppedBounding {
        /// The reason.
        why: String,
    },
    /// The policy has changed.
    Policy(PolicyConfig),
    /// Another terminal used our node ID. This is the new one; store it.
    Redrawn(NodeId),
    /// An operation failed; it will be retried.
    Problem(String),
    /// A condition that will resolve without action.
    Waits(String),
    /// A condition that works but should be fixed.
    Warning(String),
    /// A member was excluded. This is the notice with the next group key; store it for the next
    /// start.
    Notice(Notice),
    /// Sharing ended; the flows' former congestion control was restored.
    Left {
        /// Flows whose former congestion control was restored.
        migrated_back: usize,
        /// Flows that the kernel could not restore; they continue as plain CUBIC.
        not_migrated_back: usize,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined { interface, group, from } => {
                write!(f, "{interface}: in group {group} (by {})", from.name())
            }
            Event::Gone { interface } => write!(f, "{interface}: no longer takes part"),
            Event::Leader { interface, own: true, .. } => write!(f, "{interface}: this terminal leads"),
            Event::Leader { interface, node: Some(node), .. } => write!(f, "{interface}: {node} leads"),
            Event::Leader { interface, node: None, .. } => write!(f, "{interface}: has no leader"),
            Event::StoppedBounding { why } => write!(f, "bounds nothing: {why}"),
            Event::Policy(policy) => {
                write!(f, "policy {}", policy.name)?;
                write!(f, ", objective {}", policy.objective.name())
            }
            Event::Redrawn(node) => write!(
                f,
                "another member had the same id; this terminal's new id is \
            {node}"
            ),
            Event::Problem(what) | Event::Waits(what) => f.write_str(what),
            Event::Warning(what) => write!(f, "warning: {what}"),
            Event::Notice(notice) => {
                write!(f, "the group's key is now generation {}: a member was excluded", notice.generation)
            }
            Event::Left { migrated_back, not_migrated_back: 0 } => {
                write!(f, "left; former congestion control again: {}", counted(migrated_back, "flow"))
            }
            Event::Left { migrated_back, not_migrated_back } => {
                write!(
                    f,
                    "left; former congestion control again: {}; plain CUBIC: {not_migrated_back}",
                    counted(migrated_back, "flow")
                )
            }
        }
    }
}

/// A command to a running control loop.
#[derive(Debug, Clone)]
pub enum LoopCommand {
    /// Changes the policy.
    Policy(PolicyConfig),
    /// Applies the policy, the interfaces and the keys of new settings. Any other change needs a
    /// restart.
    Reload(Box<ShareConfig>),
}
