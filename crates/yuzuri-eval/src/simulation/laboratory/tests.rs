//! Compares totals and fairness with the kernel's TCP over the same radio and wire
//! (`scenarios/check`, `data/kernel_lab.csv`). `scripts/compare-simulation.sh` repeats the
//! laboratory's runs.

use super::{Figures, JAIN_LIMIT, Setting, TOTAL_LIMIT, points};
use std::path::Path;
use yuzuri_scenario::Document;

/// Seeds for Jain's index; single runs of kernel and simulation differ by up to 0.1.
const SEEDS: u64 = 30;

/// File, point, seed and figures of a row. The point is quoted because it contains commas.
fn row(line: &str) -> (String, String, u64, Figures) {
    let parts: Vec<&str> = line.splitn(3, '"').collect();
    let cells: Vec<&str> = parts[2].trim_start_matches(',').split(',').collect();
    let figures: Vec<f64> = cells[2..].iter().map(|cell| cell.parse().expect("a number")).collect();
    let figures = Figures::of_cells(figures.try_into().expect("all figures"));
    let seed = cells[1].parse().expect("a seed");
    (parts[0].trim_end_matches(',').to_owned(), parts[1].to_owned(), seed, figures)
}

#[test]
fn totals_within_5_percent_and_jain_within_0_05_of_the_kernel() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(crate_dir.join("data/kernel_lab.csv")).expect("the kernel's figures");
    let rows: Vec<_> = text.lines().skip(1).map(row).collect();
    let mut files: Vec<&str> = rows.iter().map(|(file, ..)| file.as_str()).collect();
    files.dedup();
    let (mut compared, mut used) = (0, 0);
    for file in files {
        let document = Document::open(&crate_dir.join(format!("../../scenarios/check/{file}.toml")))
            .unwrap_or_else(|problems| panic!("{problems}"));
        for point in points(&document) {
            let kernel: Vec<(u64, Figures)> = rows
                .iter()
                .filter(|(of, name, ..)| of == file && *name == point.name)
                .map(|(_, _, seed, figures)| (*seed, *figures))
                .collect();
            if kernel.is_empty() {
                continue;
            }
            used += kernel.len();
            let setting =
                Setting::of(&point.scenario, &kernel, SEEDS).unwrap_or_else(|what| panic!("{what}"));
            let (total, jain) = (setting.total_error(), setting.jain_error());
            let label = format!("{file} {}: total {total:+.3}, Jain {jain:+.3}", point.name);
            println!("{label}");
            assert!(total.abs() <= TOTAL_LIMIT, "{label}");
            assert!(jain.abs() <= JAIN_LIMIT, "{label}");
            compared += 1;
        }
    }
    assert_eq!(used, rows.len(), "rows whose point is in no scenario");
    assert!(compared >= 12, "only {compared} settings compared");
}
