//! Parts shared by the charts of all reports: SVG, axes, and the lane of a sender's limits.
//!
//! ```
//! use plotters::prelude::*;
//! use yuzuri_plot::{INK, ceiling, frame, short, steps, svg};
//! let window = [(0.0, 10.0), (0.5, 20.0), (2.0, 14.0)];
//! let picture = svg((600, 200), "Window over time", None, |area| {
//!     let mut chart = ChartBuilder::on(area)
//!         .x_label_area_size(30)
//!         .y_label_area_size(50)
//!         .build_cartesian_2d(0.0..2.0, 0.0..ceiling(20.0))?;
//!     frame(&mut chart, "time, s", "segments", &short, (10, 6))?;
//!     chart.draw_series(LineSeries::new(steps(&window), INK.stroke_width(1)))?;
//!     Ok(())
//! })?;
//! assert!(picture.starts_with("<svg role=\"img\" aria-label=\"Window over time\""));
//! # Ok::<(), yuzuri_plot::DrawError>(())
//! ```

mod axes;
mod compact;
pub mod limits;
mod svg;

pub use axes::{FONT, GRID, INK, axis_quantile, ceiling, ceiling_without_spikes, frame, short, steps};
pub use svg::{Area, DrawError, Drawn, escaped, hex, svg};
