//! How Yuzuri's programs end: on a signal, or with an error in one line.

mod failure;
mod signals;

pub use failure::{UsageError, failed, failed_unless_unread, in_one_line};
pub use signals::{stop_flag, stopped};
