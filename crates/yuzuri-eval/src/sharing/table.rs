//! Tables and verdicts.

use crate::sharing::comparison::{Figures, Row};
use crate::sharing::contender::Contender;
use std::fmt::Write as _;
use yuzuri_policy::{Objective, PolicyName};

/// One table per group of settings: total / Jain / RTT of each contender.
pub fn tables(rows: &[Row], contenders: &[Contender]) -> String {
    let mut text = String::new();
    let mut group = "";
    let mut groups: Vec<&str> = Vec::new();
    for row in rows {
        if !groups.contains(&row.setting.group) {
            groups.push(row.setting.group);
        }
    }
    for row in groups.iter().flat_map(|g| rows.iter().filter(move |r| r.setting.group == *g)) {
        if row.setting.group != group {
            group = row.setting.group;
            let inside = if row.setting.outsider_count > 0 {
                ", the rate of those that take part relative to an equal share of the total"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "\n### {group}\n\nTotal in Mbit/s, Jain's index, mean RTT in ms, retransmitted %{inside}.\n"
            );
            let heads: Vec<&str> = contenders.iter().map(|c| c.name()).collect();
            let _ =
                writeln!(text, "| setting | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
        }
        let cell = |f: &Figures| {
            let inside =
                if row.setting.outsider_count > 0 { format!(", {:.2}", f.inside) } else { String::new() };
            let lost = f.retransmitted * 100.0;
            format!("{:.1}, {:.2}, {:.0}, {lost:.1}{inside}", f.total_mbps, f.jain, f.rtt_ms)
        };
        let cells: Vec<String> = row.figures.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", row.setting.name(), cells.join(" | "));
    }
    text
}

/// Every figure as JSON, for other programs.
///
/// # Errors
/// None.
pub fn json_lines(rows: &[Row], contenders: &[Contender]) -> anyhow::Result<String> {
    let mut text = String::new();
    for row in rows {
        for (contender, figures) in contenders.iter().zip(&row.figures) {
            let line = serde_json::json!({
                "table": row.setting.group, "setting": row.setting.name(), "contender": contender.name(), "figures": figures,
            });
            let _ = writeln!(text, "{line}");
        }
    }
    Ok(text)
}

/// The policy's limits, and the settings in which it does not meet them.
pub fn verdicts(rows: &[Row], contenders: &[Contender]) -> String {
    let of = |row: &Row, contender: Contender| {
        contenders.iter().position(|c| *c == contender).map(|at| row.figures[at])
    };
    let ours = |objective| Contender::Policy(PolicyName::Yuzuri, objective);
    let mut text = String::from("\n### Limits\n\n");
    let mut limit = |name: &str, judge: &dyn Fn(&Row) -> Option<(bool, String)>| {
        let judged: Vec<(&Row, (bool, String))> =
            rows.iter().filter_map(|row| judge(row).map(|verdict| (row, verdict))).collect();
        if judged.is_empty() {
            return;
        }
        let held = judged.iter().filter(|(_, (held, _))| *held).count();
        let _ = writeln!(text, "- {name}: met in {held} of {} settings", judged.len());
        for (row, (_, why)) in judged.iter().filter(|(_, (held, _))| !held) {
            let _ = writeln!(text, "  - {}: {why}", row.setting.name());
        }
    };
    let harm = |objective, least: f64, min_g: f64| {
        move |row: &Row| {
            let (cubic, ours) = (of(row, Contender::Cubic)?, of(row, ours(objective))?);
            let ratio = ours.total_mbps / cubic.total_mbps;
            let least = if row.setting.is_behind_80211g_fifo() { min_g } else { least };
            Some((ratio >= least, format!("{ratio:.3} of CUBIC's total")))
        }
    };
    limit("throughput carries at least 0.98 of CUBIC", &harm(Objective::Throughput, 0.98, 0.98));
    limit(
        "balanced carries at least 0.95 of CUBIC (0.93 behind an 802.11g FIFO)",
        &harm(Objective::Balanced, 0.95, 0.93),
    );
    let balanced = ours(Objective::Balanced);
    limit("unequal radios, 1 Gbit/s: at least 1.3 times CUBIC's total, Jain at least 0.95", &|row| {
        let (cubic, ours) = (of(row, Contender::Cubic)?, of(row, balanced)?);
        let ratio = ours.total_mbps / cubic.total_mbps;
        let held = ratio >= 1.3 && ours.jain >= 0.95;
        let text = format!("{ratio:.2} times, Jain {:.3} (CUBIC {:.3})", ours.jain, cubic.jain);
        (row.setting.is_unequal() && row.setting.wire_mbps == 1000).then_some((held, text))
    });
    limit("unequal radios, 100 Mbit/s: no less than CUBIC's total, Jain at least 0.95", &|row| {
        let (cubic, ours) = (of(row, Contender::Cubic)?, of(row, balanced)?);
        let ratio = ours.total_mbps / cubic.total_mbps;
        let held = ratio >= 0.995 && ours.jain >= 0.95;
        let text = format!("{ratio:.2} times, Jain {:.3} (CUBIC {:.3})", ours.jain, cubic.jain);
        (row.setting.is_unequal() && row.setting.wire_mbps == 100).then_some((held, text))
    });
    limit(
        "long paths with 50 packets or loss 1e-3: 0.90 of the oracle, 1.3 times CUBIC where the oracle has 1.45, below 3 % retransmitted",
        &|row| {
            let (cubic, ours) = (of(row, Contender::Cubic)?, of(row, balanced)?);
            let oracle = of(row, Contender::Oracle)?;
            let setting = &row.setting;
            let long = setting.wire_mbps == 100 && setting.rtt_ms >= 128 && setting.wire_packets == 50;
            let lossy = setting.loss >= 1e-3;
            let of_oracle = ours.total_mbps / oracle.total_mbps;
            let (of_cubic, best) = (ours.total_mbps / cubic.total_mbps, oracle.total_mbps / cubic.total_mbps);
            let held = of_oracle >= 0.9 && (best < 1.45 || of_cubic >= 1.3) && ours.retransmitted < 0.03;
            let text = format!(
                "{of_oracle:.2} of the oracle, {of_cubic:.2} times CUBIC (oracle {best:.2}), {:.1} % retransmitted",
                ours.retransmitted * 100.0
            );
            ((long || lossy) && !setting.is_unequal()).then_some((held, text))
        },
    );
    limit(
        "many stations: Jain at least 0.98, RTT within 100 ms of the path's, at least 0.95 of CUBIC's total",
        &|row| {
            let (cubic, ours) = (of(row, Contender::Cubic)?, of(row, balanced)?);
            let setting = &row.setting;
            let many = if setting.is_80211g() { 16 } else { 8 };
            let (above_ms, ratio) = (ours.rtt_ms - setting.rtt_ms as f64, ours.total_mbps / cubic.total_mbps);
            let held = ours.jain >= 0.98 && above_ms <= 100.0 && ratio >= 0.95;
            let text = format!("Jain {:.3}, {above_ms:.0} ms above the path, {ratio:.3} of CUBIC", ours.jain);
            let begins = setting.outsider_count == 0 && setting.sharing_ms == 0;
            let counts = setting.phys.len() >= many && begins && setting.wire_mbps == 1000;
            counts.then_some((held, text))
        },
    );
    text
}
