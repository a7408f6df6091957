//! What a sharing tells, and what it is told, while it runs.

use crate::config::ShareConfig;
use crate::discover::GroupFrom;
use std::fmt;
use yuzuri_policy::{NodeId, Notice, PolicyConfig};

/// What happened, for a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A group was joined, or another one found behind an interface.
    Joined {
        /// The interface.
        interface: String,
        /// The group, 16 hexadecimal digits.
        group: String,
        /// What it was told from.
        from: GroupFrom,
    },
    /// An interface takes no part any more.
    Gone {
        /// The interface.
        interface: String,
    },
    /// Another leads.
    Leader {
        /// The interface.
        interface: String,
        /// Who.
        node: Option<NodeId>,
        /// It is this terminal.
        own: bool,
    },
    /// Nothing is bounded any more, or from the start.
    StoodDown {
        /// Why.
        why: String,
    },
    /// Another policy is in force.
    Policy(PolicyConfig),
    /// Somebody else had our id: we drew another one, worth keeping.
    Redrawn(NodeId),
    /// Something does not work, and is tried again.
    Problem(String),
    /// Something works, but should not stay as it is.
    Warning(String),
    /// Somebody was shut out: this is the group's next key for this terminal, worth keeping for the next start.
    Told(Notice),
    /// The flows are as they were.
    Left {
        /// Flows that have their former control again.
        migrated_back: usize,
        /// Flows that the kernel would not move back; they go on as plain CUBIC.
        stay: usize,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined { interface, group, from } => {
                write!(f, "{interface}: in group {group} (by {})", from.name())
            }
            Event::Gone { interface } => write!(f, "{interface}: takes no part any more"),
            Event::Leader { interface, own: true, .. } => write!(f, "{interface}: this terminal leads"),
            Event::Leader { interface, node: Some(node), .. } => write!(f, "{interface}: {node} leads"),
            Event::Leader { interface, node: None, .. } => write!(f, "{interface}: follows nobody"),
            Event::StoodDown { why } => write!(f, "bounds nothing: {why}"),
            Event::Policy(policy) => {
                write!(f, "policy {}", policy.name)?;
                write!(f, ", objective {}", policy.objective.name())
            }
            Event::Redrawn(node) => write!(f, "another member has our id; ours is {node} now"),
            Event::Problem(what) => f.write_str(what),
            Event::Warning(what) => write!(f, "warning: {what}"),
            Event::Told(notice) => {
                write!(f, "the group's key is generation {} now: somebody was shut out", notice.generation)
            }
            Event::Left { migrated_back, stay: 0 } => {
                write!(f, "left; {migrated_back} flows have their control again")
            }
            Event::Left { migrated_back, stay } => {
                write!(f, "left; {migrated_back} flows have their control again, {stay} go on as plain CUBIC")
            }
        }
    }
}

/// What is asked of a sharing while it runs.
#[derive(Debug, Clone)]
pub enum Order {
    /// Another policy.
    Policy(PolicyConfig),
    /// Other settings: the policy, the interfaces and the keys. What else differs needs a new start.
    Reload(Box<ShareConfig>),
}
