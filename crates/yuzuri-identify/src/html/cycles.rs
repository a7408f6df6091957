//! CUBIC's cycles as Hozumi 2017 shows them: measured and computed windows (figures 8 to 10),
//! readings and constants (tables 3 to 6).

use super::svg::{OTHER, REPLAYED, SEEN};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write as _;
use yuzuri_infer::cubic::{Epoch, epochs};
use yuzuri_infer::verdict::{CubicEpoch, Verdict};
use yuzuri_plot::{DrawError, Drawn, FONT, INK, frame, short, svg};

const SIZE: (u32, u32) = (460, 300);
/// Maximum number of cycles drawn; the tables contain all.
const MAX_DRAWN: usize = 12;

/// A cycle with its points.
fn counted(verdict: &Verdict) -> Vec<(&CubicEpoch, Epoch)> {
    let mut all = epochs(&verdict.window_trace);
    let counted = verdict.constants.cubic_epochs.iter().filter(|epoch| epoch.counts);
    counted
        .filter_map(|epoch| {
            let place = all.iter().position(|points| points.reduction == epoch.reduction)?;
            Some((epoch, all.swap_remove(place)))
        })
        .collect()
}

/// The section's pictures and tables; empty if no cycle shows a cubic.
pub(super) fn section(verdict: &Verdict) -> Result<String, DrawError> {
    let cycles = counted(verdict);
    if cycles.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from("<h3>Cycles of CUBIC</h3><div class=\"grid\">");
    for (number, (epoch, points)) in cycles.iter().take(MAX_DRAWN).enumerate() {
        let picture = picture(epoch, points)?;
        let _ = write!(
            text,
            "<figure>{picture}<figcaption>Cycle {}, after loss {}</figcaption></figure>",
            number + 1,
            epoch.reduction + 1
        );
    }
    text += "</div>";
    if cycles.len() > MAX_DRAWN {
        let _ = write!(
            text,
            "<p class=\"small\">The tables list {}.</p>",
            yuzuri_stats::counted(cycles.len() - MAX_DRAWN, "more cycle")
        );
    }
    text += "<p class=\"small\"><span class=\"key seen\">measured</span> <span class=\"key algorithm\">W = C (t - K)³ + W<sub>max</sub> with C read \
             off the cycle (Hozumi 2017, equation 4)</span> <span class=\"key other\">the same by least squares over all of it</span></p>";
    text += &tables(&cycles);
    Ok(text)
}

fn picture(epoch: &CubicEpoch, points: &Epoch) -> Result<String, DrawError> {
    let span = points.points.last().map_or(1.0, |last| last.t_s).max(1e-3);
    let (mut least, mut most) = (f64::INFINITY, 1.0_f64);
    for point in &points.points {
        (least, most) = (least.min(point.window), most.max(point.window));
    }
    // The cubic fills the picture; a fifth below it remains for the text.
    let room = ((most - least) * 0.2).max(1.0);
    let (bottom, top) = ((least - room).max(0.0), most + room * 0.6);
    let right = span * 1.02;
    svg(SIZE, "A cycle of CUBIC", None, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(14)
            .x_label_area_size(38)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..right, bottom..top)?;
        frame(&mut chart, "t since the reduction, s", "segments", &short, (8, 6))?;
        let measured = points.points.iter().map(|point| (point.t_s, point.window));
        chart.draw_series(measured.map(|point| Circle::new(point, 2, SEEN.filled())))?;
        let mut line = |colour: RGBColor, dashes: bool, of: &dyn Fn(f64) -> f64| -> Drawn {
            let xs = (0..=80).map(|step| span * f64::from(step) / 80.0);
            let curve: Vec<(f64, f64)> =
                xs.map(|t| (t, of(t))).filter(|(_, w)| (bottom..=top).contains(w)).collect();
            if dashes {
                chart.draw_series(DashedLineSeries::new(curve, 6, 4, colour.stroke_width(1)))?;
            } else {
                chart.draw_series(LineSeries::new(curve, colour.stroke_width(2)))?;
            }
            Ok(())
        };
        if let Some(cycle) = epoch.cycle {
            line(REPLAYED, false, &|t| cycle.c() * (t - cycle.k_s).powi(3) + cycle.w_max)?;
        }
        if let Some(fit) = epoch.fit {
            line(OTHER, true, &|t| fit.window(t))?;
        }
        let marks =
            epoch.cycle.map(|cycle| (cycle.k_s, cycle.w_max)).or(epoch.fit.map(|fit| (fit.k_s, fit.w_max)));
        let Some((k_s, w_max)) = marks else { return Ok(()) };
        let style = INK.stroke_width(1);
        chart.draw_series(DashedLineSeries::new([(0.0, w_max), (right, w_max)], 3, 4, style))?;
        chart.draw_series(DashedLineSeries::new([(k_s, bottom), (k_s, top)], 3, 4, style))?;
        let words = |h, v| (FONT, 12).into_font().color(&INK).pos(Pos::new(h, v));
        let (x, y) = chart.backend_coord(&(k_s, bottom));
        // On the side of the line with more room.
        let (dx, side) = if k_s < span * 0.6 { (5, HPos::Left) } else { (-5, HPos::Right) };
        area.draw(&Text::new(format!("K = {k_s:.2} s"), (x + dx, y - 6), words(side, VPos::Bottom)))?;
        let (x, y) = chart.backend_coord(&(right, w_max));
        area.draw(&Text::new(format!("Wmax = {w_max:.1}"), (x - 4, y + 4), words(HPos::Right, VPos::Top)))?;
        Ok(())
    })
}

/// Tables 3 to 6 of the paper, for this flow.
fn tables(cycles: &[(&CubicEpoch, Epoch)]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table><tr><th>cycle<th>after loss<th>t, s<th>W<sub>CUBIC</sub><th>K, s<th>W<sub>max</sub><th>W'\
         <th>C<th>b<th>1/C<th>C, least squares<th>± <th>residual, segments",
    );
    for (number, (epoch, _)) in cycles.iter().enumerate() {
        let _ = write!(text, "<tr><td>{}<td>{}", number + 1, epoch.reduction + 1);
        match epoch.cycle {
            Some(cycle) => {
                let c = cycle.c();
                let _ = write!(
                    text,
                    "<td>{:.2}<td>{:.2}<td>{:.2}<td>{:.2}<td>{:.2}<td>{c:.3}<td>{:.2}<td>{:.2}",
                    cycle.t_s,
                    cycle.w_cubic,
                    cycle.k_s,
                    cycle.w_max,
                    cycle.w_min,
                    cycle.b(),
                    1.0 / c
                );
            }
            None => text += &"<td>–".repeat(8),
        }
        match epoch.fit {
            Some(fit) => {
                let _ = write!(text, "<td>{:.3}<td>{:.3}<td>{:.2}", fit.c, fit.c_error, fit.residual);
            }
            None => text += &"<td>–".repeat(3),
        }
    }
    text + "</table></div><p class=\"small\">Readings and constants as in tables 3 to 6 of Hozumi 2017; C in segments/s³, b in s³/segment; \
            in theory b = 1/C.</p>"
}
