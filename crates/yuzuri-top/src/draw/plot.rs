//! Draws lines on a grid of cells: thin ones in Braille dots, thick ones in half blocks, on one
//! canvas. The shapes distinguish two quantities without colour.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// Braille dots of the thin line and of the dashed line, as bits of the character.
    thin: u8,
    dashed: u8,
    /// Upper and lower half of the thick line.
    thick: u8,
}

/// The line that a dot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    Thin,
    Dashed,
}

/// A canvas of `columns` × `rows` cells; each has 2 × 4 dots.
pub(crate) struct Plot {
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
}

const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Plot {
    pub(crate) fn new(columns: usize, rows: usize) -> Plot {
        Plot { columns, rows, cells: vec![Cell::default(); columns * rows] }
    }

    /// The dot row of a fraction of the height (0 bottom, 1 top), including the lowest and highest
    /// dots.
    fn dot_row(&self, share: f64) -> usize {
        let most = self.rows * 4 - 1;
        most - (share.clamp(0.0, 1.0) * most as f64).round() as usize
    }

    /// Sets the dots of one dot column between two fractions of the height.
    pub(crate) fn dots(&mut self, dot_column: usize, low: f64, high: f64, stroke: Stroke) {
        let column = dot_column / 2;
        if column >= self.columns || self.rows == 0 {
            return;
        }
        for y in self.dot_row(high)..=self.dot_row(low) {
            let cell = &mut self.cells[y / 4 * self.columns + column];
            let bit = DOTS[dot_column % 2][y % 4];
            match stroke {
                Stroke::Thin => cell.thin |= bit,
                Stroke::Dashed => cell.dashed |= bit,
            }
        }
    }

    /// Draws a thick line through fractions of the height, one per column. Hysteresis: the line
    /// changes its half row only if the value is clearly in another one, so that a steady value
    /// does not flicker between two.
    pub(crate) fn thick_line(&mut self, shares: &[Option<f64>]) {
        let Some(most) = (self.rows * 2).checked_sub(1) else { return };
        let mut before: Option<usize> = None;
        for (column, share) in shares.iter().enumerate().take(self.columns) {
            let Some(share) = share else {
                before = None;
                continue;
            };
            let exact = most as f64 - share.clamp(0.0, 1.0) * most as f64;
            let here = match before {
                Some(row) if (exact - row as f64).abs() < 0.8 => row,
                _ => exact.round() as usize,
            };
            // Start from the midpoint: otherwise the steps of a thick line would merge into a
            // block.
            let from = before.map_or(here, |row| (row + here).div_ceil(2));
            for y in here.min(from)..=here.max(from) {
                self.cells[y / 2 * self.columns + column].thick |= 1 << (y % 2);
            }
            before = Some(here);
        }
    }

    /// Copies the plot into the area. A thin and a thick line in one cell alternate by column.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, thin: Style, dashed: Style, thick: Style) {
        for (n, cell) in self.cells.iter().enumerate() {
            let (row, column) = (n / self.columns, n % self.columns);
            if row >= area.height.into() || column >= area.width.into() {
                continue;
            }
            let is_thick = cell.thick != 0 && (cell.thin == 0 || column % 2 == 1);
            let (symbol, style) = if is_thick {
                (['▀', '▄', '█'][usize::from(cell.thick) - 1], thick)
            } else if cell.thin != 0 {
                (braille(cell.thin | cell.dashed), thin)
            } else if cell.dashed != 0 {
                (braille(cell.dashed), dashed)
            } else {
                continue;
            };
            buffer[(area.x + column as u16, area.y + row as u16)].set_char(symbol).set_style(style);
        }
    }
}

fn braille(dots: u8) -> char {
    char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ')
}

/// Draws a vertical line behind the plot; characters that it crosses become bold.
pub(crate) fn cursor(area: Rect, buffer: &mut Buffer, column: usize) {
    for y in area.y..area.bottom() {
        let cell = &mut buffer[(area.x + column as u16, y)];
        if cell.symbol() == " " {
            cell.set_char('│');
        }
        cell.modifier.insert(Modifier::BOLD);
    }
}

/// The smallest round number at or above a value, for readable axis labels that rarely change.
pub(crate) fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let share = value / power;
    steps.into_iter().find(|step| *step * 1.000_001 >= share).unwrap_or(10.0) * power
}

/// An axis label, at most five cells: `120`, `12.5`, `0.3`, `12k`.
pub(crate) fn tick(value: f64) -> String {
    let thousands = |v: f64, unit: &str| {
        let text = format!("{v:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value {
        v if v >= 1e9 => thousands(v / 1e9, "G"),
        v if v >= 1e6 => thousands(v / 1e6, "M"),
        v if v >= 1e4 => thousands(v / 1e3, "k"),
        v => {
            let text = if v >= 100.0 {
                format!("{v:.0}")
            } else if v >= 1.0 {
                format!("{v:.1}")
            } else {
                format!("{v:.3}")
            };
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0.0, 0.013, 1.0, 11.9, 12.1, 99.0, 2500.0, f64::NAN].map(round_up);
        assert_eq!(ends, [1.0, 0.016, 1.0, 12.0, 16.0, 100.0, 3000.0, 1.0]);
        let ticks = [0.0, 0.05, 0.5, 12.0, 12.5, 100.0, 1250.0, 12_000.0, 2.5e6].map(tick);
        assert_eq!(ticks, ["0", "0.05", "0.5", "12", "12.5", "100", "1250", "12k", "2.5M"]);
    }

    #[test]
    fn a_constant_thick_line_looks_the_same_in_every_column() {
        let mut plot = Plot::new(8, 4);
        let shares: Vec<Option<f64>> =
            (0..8).map(|n| Some(0.5 + if n % 2 == 0 { 0.01 } else { -0.01 })).collect();
        plot.thick_line(&shares);
        let rows: Vec<usize> =
            (0..4).filter(|row| plot.cells[row * 8..][..8].iter().any(|c| c.thick != 0)).collect();
        assert_eq!(rows.len(), 1);
        assert!(plot.cells.iter().filter(|c| c.thick != 0).all(|c| c.thick.count_ones() == 1));
    }

    #[test]
    fn thin_thick_and_dashed_lines_have_different_shapes() {
        let area = Rect::new(0, 0, 4, 2);
        let mut buffer = Buffer::empty(area);
        let mut plot = Plot::new(4, 2);
        for dot in 0..8 {
            plot.dots(dot, 0.0, 0.0, Stroke::Thin);
        }
        plot.thick_line(&[Some(0.0); 4]);
        plot.dots(2, 1.0, 1.0, Stroke::Dashed);
        plot.draw(area, &mut buffer, Style::new(), Style::new(), Style::new());
        let row = |y| (0..4).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert_eq!((row(0).as_str(), row(1).as_str()), (" ⠁  ", "⣀▄⣀▄"));
    }
}
