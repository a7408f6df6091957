//! The live page: HTTP, server-sent events, and the page itself.
//!
//! A [`Page`] reads a [`yuzuri_view::LiveModel`] that another thread fills; [`serve()`] serves it
//! on a port. The page changes settings through a [`Control`]. While no browser is connected it
//! costs almost no CPU time.
//!
//! ```no_run
//! use parking_lot::Mutex;
//! use std::sync::Arc;
//! use yuzuri_web::{NoControl, Options, Page, serve};
//! # fn model() -> yuzuri_view::LiveModel { unimplemented!() }
//!
//! let model = Arc::new(Mutex::new(model()));
//! let page = Page::new(model.clone(), Arc::new(NoControl));
//! let server = serve(Options::new(([127, 0, 0, 1], 8080).into()), page.clone())?;
//! println!("{}", server.url());
//! // The source thread applies each item to the model, then calls page.ingest(&items).
//! server.stop();
//! # Ok::<(), yuzuri_web::ServeError>(())
//! ```
//!
//! See also: the crate's `README.md` describes requests and messages.

mod api;
mod assets;
mod bottlenecks;
mod broadcast;
mod client;
mod connections;
mod daemon_status;
mod encode;
mod feed;
mod fields;
#[cfg(any(fuzzing, debug_assertions))]
mod fuzz;
mod guard;
mod page;
mod serve;
mod stall;

pub use daemon_status::DaemonConnector;
#[cfg(any(fuzzing, debug_assertions))]
#[doc(hidden)]
pub use fuzz::Fuzzed;
pub use guard::Token;
pub use page::Page;
pub use serve::{Bound, Options, ServeError, Server, serve};
pub use yuzuri_view::{Control, NoControl, Refused, Replay};
