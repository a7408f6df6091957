//! How every program of ours ends: by a signal, or by an error told in one line.

mod failure;
mod signals;

pub use failure::{failed, failed_unless_unread, in_one_line};
pub use signals::{stop_flag, stopped};
