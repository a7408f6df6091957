//! The page: a table of all flows, then a section for each.

use super::svg::{DARK, OTHER, REPLAYED, SEEN};
use super::{cycles, kato, limits, rates, sequence, windows, zoom};
use crate::batch::Totals;
use crate::error::IdentifyError;
use crate::report::{FileReport, FlowReport};
use crate::table::{anomalies, capture_point, sentence};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use yuzuri_infer::verdict::{Answer, Measured};
use yuzuri_plot::{DrawError, escaped, hex};
use yuzuri_stats::counted;

/// The maximum number of flows with a section of their own, and the maximum total size of the
/// sections and of pictures with flows on one axis, bytes. A page of 1000 flows then stays below 3
/// MB with the table of all flows (300 bytes each), the data of zoomable pictures and their script.
const MAX_SECTIONS: usize = 200;
const MAX_SECTION_BYTES: usize = 2_300_000;
/// The total size of pictures with flows on one axis, bytes.
const MAX_TOGETHER_BYTES: usize = 200_000;
/// Sections whose pictures are unfolded at first.
const UNFOLDED: usize = 4;
/// Candidates shown of a flow.
const MAX_BARS: usize = 6;

/// The page while it is being written: sections go to a temporary file, so that many flows take no
/// memory.
pub struct HtmlReport {
    path: PathBuf,
    part: PathBuf,
    sections: BufWriter<File>,
    rows: String,
    odd: String,
    /// Pictures of flows that share an axis, of the first files.
    together: String,
    flows: usize,
    /// Flows with a section, and the total size of these.
    shown: usize,
    shown_bytes: usize,
    /// Bytes left for the data of zoomable pictures.
    zoom_room: usize,
    files: usize,
}

impl HtmlReport {
    /// Begins the page. It replaces an older one once it is complete.
    pub fn new(path: &Path) -> Result<HtmlReport, IdentifyError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(IdentifyError::write(path))?;
        let sections = BufWriter::new(file);
        let (rows, odd) = (String::new(), String::new());
        Ok(HtmlReport {
            path: path.to_owned(),
            part,
            sections,
            rows,
            odd,
            together: String::new(),
            flows: 0,
            shown: 0,
            shown_bytes: 0,
            zoom_room: zoom::MAX_BYTES,
            files: 0,
        })
    }

    /// Adds a file.
    pub fn add(&mut self, report: &FileReport) -> Result<(), IdentifyError> {
        self.files += 1;
        for odd in anomalies(report).into_iter().chain(report.error.clone()) {
            let _ = write!(self.odd, "<li>{}: {}", escaped(&report.path), escaped(&odd));
        }
        if report.counted.little_data > 0 {
            let few = counted(report.counted.little_data, "flow");
            let _ = write!(self.odd, "<li>{}: {few} with little data are not shown", escaped(&report.path));
        }
        if !report.flows.is_empty() {
            let _ = write!(self.rows, "<tr class=\"file\"><td colspan=\"11\">{}", escaped(&report.path));
        }
        if self.together.len() < MAX_TOGETHER_BYTES {
            self.together += &rates::together(&report.path, &report.flows).map_err(self.drawing())?;
        }
        for flow in &report.flows {
            self.flows += 1;
            let is_shown = self.shown + 1 == self.flows
                && self.shown < MAX_SECTIONS
                && self.shown_bytes + self.together.len() < MAX_SECTION_BYTES;
            self.row(flow, is_shown);
            if is_shown {
                let zooms = zoom::data(flow, self.zoom_room);
                self.zoom_room -= zooms.as_ref().map_or(0, String::len);
                let text = section(self.flows, report, flow, zooms.as_deref()).map_err(self.drawing())?;
                self.shown += 1;
                self.shown_bytes += text.len() - zooms.map_or(0, |data| data.len());
                self.sections.write_all(text.as_bytes()).map_err(IdentifyError::write(&self.part))?;
            }
        }
        Ok(())
    }

    /// For `map_err` on pictures.
    fn drawing(&self) -> impl FnOnce(DrawError) -> IdentifyError + use<> {
        let page = self.path.display().to_string();
        move |source| IdentifyError::Draw { page, source }
    }

    fn row(&mut self, flow: &FlowReport, is_shown: bool) {
        let constants = &flow.verdict.constants;
        let (name, also) = match &flow.verdict.answer {
            Answer::Named { name, set } => {
                let others: Vec<&str> =
                    set.iter().filter(|other| *other != name).map(String::as_str).collect();
                let also =
                    if others.is_empty() { String::new() } else { format!("or {}", others.join(", ")) };
                (name.as_str(), also)
            }
            Answer::Unknown { because } => ("unknown", because.clone()),
        };
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("–".into(), |value| format!("{value:.digits$}"))
        };
        let link = if is_shown {
            format!("<a href=\"#flow-{}\">{}</a>", self.flows, escaped(name))
        } else {
            escaped(name)
        };
        let _ = write!(
            self.rows,
            "<tr><td>{link}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{}<td class=\"wide\">{}",
            number(flow.probability().filter(|_| flow.name().is_some()), 2),
            escaped(&flow.from()),
            escaped(&flow.to()),
            number(constants.beta.map(|beta| beta.median), 2),
            number(flow.cubic_c(), 3),
            flow.summary.rounds,
            flow.summary.losses,
            flow.summary.seconds,
            capture_point(flow.verdict.capture_point),
            escaped(&also),
        );
    }

    /// Completes the page.
    pub fn finish(self, totals: &Totals) -> Result<(), IdentifyError> {
        let HtmlReport { path, part, sections, rows, odd, together, flows, shown, files, zoom_room, .. } =
            self;
        let zooms = zoom_room < zoom::MAX_BYTES;
        let written = (|| -> std::io::Result<()> {
            sections.into_inner()?.sync_data()?;
            let new = part.with_extension("new");
            let mut out = BufWriter::new(File::create(&new)?);
            let named = totals.named;
            write!(
                out,
                "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'\">\
                 <meta name=\"color-scheme\" content=\"light dark\"><title>Congestion control algorithms</title><style>{}</style>\
                 <h1>Congestion control algorithms</h1><p>{}, {} with a verdict, {named} named. Created by yuzuri {}.</p>",
                style() + &yuzuri_plot::limits::style(true) + if zooms { zoom::STYLE } else { "" },
                counted(files as u64, "file"),
                if flows == 1 {
                    "1 direction of a flow".to_owned()
                } else {
                    format!("{flows} directions of flows")
                },
                env!("CARGO_PKG_VERSION"),
            )?;
            if !rows.is_empty() {
                write!(
                    out,
                    "<div class=\"scroll\"><table><tr><th>name<th>p<th>from<th>to<th>beta<th>C<th>rounds<th>losses<th>seconds<th>watched\
                     <th class=\"wide\">alternatives, or why unknown{rows}</table></div>"
                )?;
            }
            if !odd.is_empty() {
                write!(
                    out,
                    "<details class=\"odd\"><summary>Anomalies of the files</summary><ul>{odd}</ul></details>"
                )?;
            }
            out.write_all(together.as_bytes())?;
            std::io::copy(&mut File::open(&part)?, &mut out)?;
            if flows > shown {
                write!(out, "<p>{} more are only in the table.</p>", flows - shown)?;
            }
            if zooms {
                writeln!(out, "<script>{}</script>", zoom::SCRIPT)?;
            }
            writeln!(out, "</html>")?;
            out.into_inner()?.sync_data()?;
            std::fs::rename(&new, &path)?;
            std::fs::remove_file(&part)
        })();
        written.map_err(IdentifyError::write(&path))
    }
}

/// A flow's section; `zooms`: the data for the script that draws it.
fn section(
    number: usize,
    report: &FileReport,
    flow: &FlowReport,
    zooms: Option<&str>,
) -> Result<String, DrawError> {
    let verdict = &flow.verdict;
    let mut text = String::new();
    let heading = flow.ends().map_or_else(|| report.path.clone(), |(from, to)| format!("{from} → {to}"));
    let _ = write!(
        text,
        "<section id=\"flow-{number}\"><h2>{}</h2><p class=\"small\">{}; watched at: {}</p><p class=\"verdict\">{}</p>",
        escaped(&heading),
        escaped(&report.path),
        capture_point(verdict.capture_point),
        escaped(&sentence(flow)),
    );
    text += "<div class=\"two\"><div><h3>Candidates</h3><div class=\"bars\">";
    let named = verdict.ranked.iter().take(MAX_BARS).map(|ranked| (ranked.name.as_str(), ranked.probability));
    for (name, probability) in named.chain([("none of these", verdict.none.probability)]) {
        let percent = probability * 100.0;
        let _ = write!(
            text,
            "<span>{}</span><i><b style=\"width:{percent:.1}%\"></b></i><span>{probability:.2}</span>",
            escaped(name),
        );
    }
    text += "</div></div><div><h3>Evidence</h3><ul>";
    let kernel = flow.kernel_name.as_ref().map(|name| format!("the sender's kernel reports {name}"));
    for line in verdict.evidence.iter().chain(&kernel) {
        let _ = write!(text, "<li>{}", escaped(line));
    }
    text += "</ul>";
    if !verdict.notes.is_empty() {
        text += "<ul class=\"notes\">";
        for note in &verdict.notes {
            let _ = write!(text, "<li>{}", escaped(note));
        }
        text += "</ul>";
    }
    text += "</div></div>";
    constants(&mut text, flow);
    let open = if number <= UNFOLDED { " open" } else { "" };
    let _ = write!(text, "<details{open}><summary>Charts</summary>");
    if let Some(data) = zooms {
        let _ = write!(text, "<script type=\"application/json\" class=\"zoom\">{data}</script>");
    }
    let best = verdict.ranked.first().map_or("the algorithm", |ranked| ranked.name.as_str());
    let _ = write!(
        text,
        "<figure data-lanes=\"window\">{}<figcaption>Window, round by round: <span class=\"key seen\">observed</span> <span class=\"key algorithm\">{} replayed</span> \
         <span class=\"key loss\">losses</span> <span class=\"key repair\">recovery</span> <span class=\"key limited\">limited by \
         application or receiver</span>.{} Below, the difference.</figcaption></figure>",
        windows::windows(verdict)?,
        escaped(best),
        match limits::legend(&verdict.window_trace.rounds) {
            legend if legend.is_empty() => legend,
            legend => format!(" The lane shows what limited the sender:{legend}."),
        }
    );
    if let Some(picture) = kato::kato(verdict) {
        let _ = write!(
            text,
            "<figure>{}<figcaption>What the next round adds to a window: <span class=\"key seen\">observed</span> <span class=\"key algorithm\">{} \
             replayed</span>; dashed, algorithms whose growth depends on the window alone.</figcaption></figure>",
            picture?,
            escaped(best)
        );
    }
    text += &rates::section(&verdict.window_trace)?;
    if let Some(passed) = &flow.sequence {
        text += &sequence::section(passed, zooms.is_some())?;
    }
    text += &cycles::section(verdict)?;
    text += "</details></section>\n";
    Ok(text)
}

/// Constants that the flow showed.
fn constants(text: &mut String, flow: &FlowReport) {
    let constants = &flow.verdict.constants;
    let mut rows: Vec<(&str, String)> = Vec::new();
    let mut measured = |what: &'static str, value: Option<Measured>, digits: usize| {
        if let Some(m) = value {
            let range = format!(
                "{:.digits$} ({:.digits$} to {:.digits$}, {})",
                m.median,
                m.low,
                m.high,
                counted(m.count, "time")
            );
            rows.push((what, range));
        }
    };
    measured("beta", constants.beta, 3);
    measured("C by least squares, segments/s³", constants.cubic_c, 3);
    measured("C by the method of Hozumi 2017, segments/s³", constants.cubic_c_paper, 3);
    measured("b by the method of Hozumi 2017, s³/segment", constants.cubic_b, 2);
    measured("increase, segments per round", constants.increase, 2);
    measured("flight while probing over flight while cruising", constants.probe_gain, 2);
    measured("time between bandwidth probes, s", constants.probe_interval_s, 2);
    if let Some(part) = constants.paced_part {
        rows.push(("segments paced by a timer", format!("{:.0} %", part * 100.0)));
    }
    if let Some(window) = constants.initial_window {
        rows.push(("initial window, segments", format!("{window:.0}")));
    }
    if let Some((window, by_itself)) = constants.slow_start_end {
        let how = if by_itself { "without a loss" } else { "by loss" };
        rows.push(("slow start ended at, segments", format!("{window:.0} {how}")));
    }
    if let Some(yes) = constants.fast_convergence {
        rows.push(("fast convergence", if yes { "yes" } else { "no" }.into()));
    }
    if let Some(interval) = constants.probe_rtt_interval_s {
        rows.push(("time between PROBE_RTT dips, s", format!("{interval:.1}")));
    }
    let window_trace = &flow.verdict.window_trace;
    rows.push(("segment size, bytes", window_trace.mss_bytes.to_string()));
    rows.push(("minimum RTT, ms", format!("{:.2}", f64::from(window_trace.min_rtt_us) / 1e3)));
    *text += "<details><summary>Constants</summary><table class=\"plain\">";
    for (what, value) in rows {
        let _ = write!(text, "<tr><td>{what}<td>{value}");
    }
    *text += "</table></details>";
}

fn style() -> String {
    let mut dark = String::new();
    for (colour, instead) in DARK.into_iter().chain(yuzuri_plot::limits::dark()) {
        let hex = hex(colour);
        let _ =
            write!(dark, "svg [fill=\"{hex}\"]{{fill:{instead}}}svg [stroke=\"{hex}\"]{{stroke:{instead}}}");
    }
    let (seen, cca, other) = (hex(SEEN), hex(REPLAYED), hex(OTHER));
    format!(
        ":root{{color-scheme:light dark;--ground:#fafafa;--card:#fff;--ink:#222;--soft:#555;--line:#ddd;--head:#f0f0f0;--seen:{seen};\
         --algorithm:{cca};--other:{other};--loss:#cc3311;--repair:#f5d6be;--limited:#dee2e8;--note:#fbe3d6}}\
         body{{font:16px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--ground)}}\
         h1{{font-size:1.6rem}}h2{{font-size:1.25rem;margin-top:2.5rem;overflow-wrap:anywhere}}h3{{font-size:1rem;margin:1rem 0 .3rem}}\
         a{{color:var(--seen)}}figure{{margin:1rem 0;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.5rem}}\
         figure svg{{width:100%;height:auto;display:block;font-family:sans-serif}}figcaption,.small{{color:var(--soft);font-size:.9rem}}\
         .file td{{white-space:normal;overflow-wrap:anywhere;color:var(--soft);background:var(--head)}}.verdict{{font-size:1.1rem;font-weight:600}}.scroll{{overflow-x:auto}}\
         table{{border-collapse:collapse;font-size:.9rem;background:var(--card)}}\
         th,td{{border:1px solid var(--line);padding:.25rem .6rem;text-align:right;white-space:nowrap}}th{{background:var(--head)}}\
         td:first-child,th:first-child{{text-align:left}}.plain td{{white-space:normal;overflow-wrap:anywhere}}.wide{{white-space:normal;overflow-wrap:anywhere;text-align:left;min-width:10rem}}\
         .two{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(300px,100%),1fr));gap:0 2rem}}\
         .grid{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:0 1rem}}ul{{padding-left:1.2rem;margin:.3rem 0}}\
         .bars{{display:grid;grid-template-columns:max-content 1fr max-content;gap:.2rem .6rem;align-items:center;font-size:.9rem}}\
         .bars i{{background:var(--head);border-radius:3px;height:.8rem}}.bars b{{display:block;background:var(--seen);border-radius:3px;\
         height:100%;min-width:1px}}.notes{{background:var(--note);border-radius:6px;padding:.4rem .4rem .4rem 1.6rem}}\
         details{{margin:.6rem 0}}summary{{cursor:pointer;color:var(--soft)}}\
         .key::before{{content:\"\";display:inline-block;width:.8em;height:.8em;margin-right:.3em;border-radius:2px;background:var(--key)}}\
         .seen{{--key:var(--seen)}}.algorithm{{--key:var(--algorithm)}}.other{{--key:var(--other)}}.loss{{--key:var(--loss)}}\
         .repair{{--key:var(--repair)}}.limited{{--key:var(--limited)}}.key{{margin-left:.4em}}\
         @media(prefers-color-scheme:dark){{:root{{--ground:#161616;--card:#1f1f1f;--ink:#e6e6e6;--soft:#a8a8a8;--line:#3a3a3a;--head:#2a2a2a;\
         --seen:#56b4e9;--algorithm:#ff9248;--other:#35c99a;--loss:#ff6b57;--repair:#4d3422;--limited:#31353b;--note:#43291c}}{dark}}}"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_infer::identify;
    use yuzuri_infer::window_trace::{Cause, Reduction, Round, WindowTrace};
    use yuzuri_limits::Limit;

    /// Reno for 300 rounds, with a loss every 20 rounds.
    fn flow() -> FlowReport {
        let mut trace = WindowTrace { mss_bytes: 1448, min_rtt_us: 20_000, ..WindowTrace::default() };
        for n in 0..300u32 {
            let start_ns = i64::from(n) * 20_000_000;
            let window = 20.0 + (n % 20) as f32;
            if n % 20 == 0 && n > 0 {
                let begun = Reduction::begun(start_ns, Cause::Recovery, 39.0);
                trace.reductions.push(Reduction { after: 20.0, round: n, ..begun });
            }
            trace.rounds.push(Round {
                start_ns,
                end_ns: start_ns + 20_000_000,
                window,
                acked: window,
                acks: window as u32,
                sent: window as u32,
                rtt_min_us: 20_000,
                limited_by: Some(if n % 20 < 12 { Limit::Loss } else { Limit::Path }),
                ..Round::default()
            });
        }
        FlowReport::new(identify(trace, None, None, None), None)
    }

    fn page(reports: &[FileReport]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let mut page = HtmlReport::new(&path).unwrap();
        for report in reports {
            page.add(report).unwrap();
        }
        page.finish(&Totals::default()).unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn a_page_of_a_thousand_flows_with_long_reasons_is_smaller_than_three_megabytes() {
        // The longest reasons, and pictures of flows on one axis.
        let mut flow = flow();
        flow.verdict.answer = Answer::Unknown { because: "limited by the network ".repeat(9) };
        let report = FileReport { path: "a.pcap".into(), flows: vec![flow; 1000], ..FileReport::default() };
        let text = page(&[report]);
        assert!((2_600_000..3_000_000).contains(&text.len()), "{} bytes", text.len());
    }

    #[test]
    fn a_page_of_a_thousand_flows_is_smaller_than_three_megabytes() {
        let report = FileReport { path: "a.pcap".into(), flows: vec![flow()], ..FileReport::default() };
        let text = page(&vec![report; 1000]);
        assert!(text.len() < 3_000_000, "{} bytes", text.len());
        assert_eq!(text.matches("</script>").count(), text.matches("<script").count(), "none ends early");
        let shown = text.matches("<section").count();
        assert!((90..=MAX_SECTIONS).contains(&shown), "{shown} sections");
        assert_eq!(text.matches("href=\"#flow-").count(), shown, "a link for each of them");
        assert!(text.contains(&format!("{} more are only in the table", 1000 - shown)));
        assert!(text.contains("class=\"key loss\"") && text.contains("path 40 %"), "the lane has a legend");
        let zooms: Vec<&str> = text.split("class=\"zoom\">").skip(1).collect();
        let bytes: usize = zooms.iter().filter_map(|rest| rest.find("</script>")).sum();
        assert!((3..shown).contains(&zooms.len()), "the first ones zoom: {}", zooms.len());
        assert!((100_000..=zoom::MAX_BYTES).contains(&bytes), "{bytes} bytes");
    }
}
