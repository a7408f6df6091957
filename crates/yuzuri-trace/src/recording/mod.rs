//! Recordings: an observation in a file.
//!
//! A recording is an Arrow IPC stream with one schema (`.arrows`), compressed with zstd. pandas,
//! Polars, DuckDB and all other readers of Arrow open it without this code. Each row is a flow's
//! record, a flow's identity, an account or a setting, distinguished by the column `kind`; see
//! [`COLUMNS`] and `docs/recording-format.md`.
//!
//! - [`Writer`] keeps the file valid at every moment, and marks its end.
//! - [`PipeWriter`] writes the same stream into a pipe.
//! - [`Reader`] returns the [`crate::Session`] and the [`crate::Item`]s, also from untrusted files.
//! - [`convert`] writes it as CSV, JSON lines or Parquet.

mod checksum;
mod columns;
#[cfg(feature = "convert")]
mod convert;
mod decode;
mod encoder;
mod error;
mod events;
mod frames;
mod gather;
mod pack;
#[cfg(feature = "convert")]
mod parquet;
mod pipe;
mod reader;
mod reserve;
mod rows;
mod tail;
#[cfg(feature = "convert")]
mod text;
mod typed;
mod writer;

pub use columns::{COLUMNS, Column, ColumnType, FORMAT, FORMAT_VERSION, InRows};
#[cfg(feature = "convert")]
pub use convert::{Converted, ExtraColumn, Format, convert};
pub use error::{ConvertError, ReadError, RecordError};
pub use frames::{MAX_BATCH_BYTES, MAX_BATCH_ROWS};
pub use pipe::PipeWriter;
pub use reader::{Reader, is_being_written};
pub use rows::BATCH_ROWS;
pub use tail::Tail;
pub use writer::{FLUSH_AFTER, RETRY_AFTER, Summary, Writer};
