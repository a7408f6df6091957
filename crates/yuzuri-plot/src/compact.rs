//! The same picture in fewer bytes: consecutive elements of one colour become one element.

use std::fmt::Write as _;

/// Elements that are drawn one after the other with the same attributes.
#[derive(Default)]
struct Group {
    /// Attributes of all of them.
    attributes: String,
    /// A path's data, or texts.
    content: String,
    /// The position of the path's pen.
    pen: (i64, i64),
    is_text: bool,
}

/// Joins the elements of a picture drawn by plotters. Unknown elements stay unchanged, except for
/// the position of text.
pub(crate) fn compact(svg: &str) -> String {
    let (mut out, mut words_out) = (String::new(), String::new());
    let (mut group, mut words_group) = (Group::default(), Group::default());
    let mut lines = svg.lines();
    while let Some(line) = lines.next() {
        if let Some(opening) = line.strip_prefix("<text ") {
            let mut words = String::new();
            for line in lines.by_ref().take_while(|line| *line != "</text>") {
                words += line;
            }
            words_group.text(&mut words_out, opening, words.trim());
        } else if line == "</svg>" {
            // Text last, above all lines: an axis' labels are drawn between its ticks.
            group.end(&mut out);
            words_group.end(&mut words_out);
            out += &words_out;
            out += "</svg>\n";
        } else if group.shape(&mut out, line).is_none() {
            group.end(&mut out);
            out += line;
            out.push('\n');
        }
    }
    group.end(&mut out);
    out
}

/// The value of an attribute.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let from = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[from..].split('"').next()
}

fn number(element: &str, name: &str) -> Option<i64> {
    attribute(element, name)?.parse().ok()
}

/// Attributes that an element keeps as they are.
fn kept(element: &str, names: &[&str]) -> String {
    let mut kept = String::new();
    for name in names {
        match attribute(element, name) {
            None => {}
            Some("1") if matches!(*name, "opacity" | "stroke-width") => {}
            Some(value) => {
                let _ = write!(kept, " {name}=\"{value}\"");
            }
        }
    }
    kept
}

impl Group {
    /// Adds a line or an area; `None` if it is neither.
    fn shape(&mut self, out: &mut String, element: &str) -> Option<()> {
        let stroked = || format!(" fill=\"none\"{}", kept(element, &["opacity", "stroke", "stroke-width"]));
        let filled = || kept(element, &["opacity", "fill"]);
        let tag = element.strip_prefix('<')?.split(' ').next()?;
        let is_area = matches!(attribute(element, "stroke"), None | Some("none"));
        let get = |name| number(element, name);
        match tag {
            "circle" if is_area => {
                // A line of no length with a round end.
                let (x, y, width) = (get("cx")?, get("cy")?, get("r")? * 2);
                let colour = attribute(element, "fill")?;
                let faint = kept(element, &["opacity"]);
                let attributes = format!(
                    " fill=\"none\"{faint} stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linecap=\"round\""
                );
                self.begin(out, attributes, false);
                self.points([(x, y)]);
                self.content += "h0";
            }
            "line" => {
                let ends = [(get("x1")?, get("y1")?), (get("x2")?, get("y2")?)];
                self.begin(out, stroked(), false);
                self.points(ends);
            }
            "polyline" if attribute(element, "fill") == Some("none") => {
                let points = points(attribute(element, "points")?)?;
                self.begin(out, stroked(), false);
                self.points(points);
            }
            "polygon" if is_area => {
                let points = points(attribute(element, "points")?)?;
                let first = *points.first()?;
                self.begin(out, filled(), false);
                self.points(points);
                self.content.push('z');
                self.pen = first;
            }
            "rect" if is_area => {
                let (x, y, width, height) = (get("x")?, get("y")?, get("width")?, get("height")?);
                self.begin(out, filled(), false);
                self.points([(x, y)]);
                let _ = write!(self.content, "h{width}v{height}h{}z", -width);
                self.pen = (x, y);
            }
            _ => return None,
        }
        Some(())
    }

    fn text(&mut self, out: &mut String, opening: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        let element = format!(" {opening}");
        let size = attribute(&element, "font-size").and_then(|size| size.parse::<f64>().ok());
        let size =
            size.map_or(String::new(), |size| format!(" font-size=\"{}\"", (size * 10.0).round() / 10.0));
        let attributes = kept(&element, &["opacity", "text-anchor", "fill", "font-weight"]) + &size;
        self.begin(out, attributes, true);
        let _ =
            write!(self.content, "<text{}>{words}</text>", kept(&element, &["x", "y", "dy", "transform"]));
    }

    /// Moves the pen to the first point, and draws to the others.
    fn points(&mut self, points: impl IntoIterator<Item = (i64, i64)>) {
        for (place, (x, y)) in points.into_iter().enumerate() {
            let (right, down) = (x - self.pen.0, y - self.pen.1);
            // The first point of a path is always relative to the origin.
            let pen = match place {
                0 => "m",
                1 => "l",
                _ if right < 0 => "",
                _ => " ",
            };
            let between = if down < 0 { "" } else { " " };
            let _ = write!(self.content, "{pen}{right}{between}{down}");
            self.pen = (x, y);
        }
    }

    /// Continues the previous elements if they have the same attributes.
    fn begin(&mut self, out: &mut String, attributes: String, is_text: bool) {
        if self.attributes != attributes || self.is_text != is_text {
            self.end(out);
            *self = Group { attributes, is_text, ..Group::default() };
        }
    }

    fn end(&mut self, out: &mut String) {
        let Group { attributes, content, is_text, .. } = std::mem::take(self);
        if content.is_empty() {
            return;
        }
        let _ = if is_text {
            writeln!(out, "<g{attributes}>{content}</g>")
        } else {
            writeln!(out, "<path{attributes} d=\"{content}\"/>")
        };
    }
}

/// Points of a polygon or polyline; `None` if one is not a pair of whole numbers, or there is none.
fn points(text: &str) -> Option<Vec<(i64, i64)>> {
    let point = |pair: &str| {
        let (x, y) = pair.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let points: Option<Vec<_>> = text.split_whitespace().map(point).collect();
    points.filter(|points| !points.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_one_colour_become_one() {
        let picture = "<svg width=\"9\" xmlns=\"http://www.w3.org/2000/svg\">\n\
            <circle cx=\"70\" cy=\"193\" r=\"2\" opacity=\"1\" fill=\"#0072B2\" stroke=\"none\" stroke-width=\"1\"/>\n\
            <circle cx=\"73\" cy=\"101\" r=\"2\" opacity=\"1\" fill=\"#0072B2\" stroke=\"none\" stroke-width=\"1\"/>\n\
            <line opacity=\"1\" stroke=\"#E1E1E1\" stroke-width=\"1\" x1=\"70\" y1=\"285\" x2=\"70\" y2=\"8\"/>\n\
            <polyline fill=\"none\" opacity=\"1\" stroke=\"#E1E1E1\" stroke-width=\"1\" points=\"64,285 69,285 68,280 \"/>\n\
            <rect x=\"73\" y=\"8\" width=\"18\" height=\"277\" opacity=\"1\" fill=\"#F5D6BE\" stroke=\"none\"/>\n\
            <polygon opacity=\"1\" fill=\"#F5D6BE\" points=\"78,23 75,29 82,29 \"/>\n\
            <text x=\"60\" y=\"285\" dy=\"0.5ex\" text-anchor=\"end\" font-family=\"sans-serif\" font-size=\"9.677\" opacity=\"1\" fill=\"#5A5A5A\">\n\
            0\n</text>\n\
            <text x=\"60\" y=\"193\" dy=\"0.5ex\" text-anchor=\"end\" font-family=\"sans-serif\" font-size=\"9.677\" opacity=\"1\" fill=\"#5A5A5A\">\n\
            5\n</text>\n</svg>\n";
        let expected = "<svg width=\"9\" xmlns=\"http://www.w3.org/2000/svg\">\n\
            <path fill=\"none\" stroke=\"#0072B2\" stroke-width=\"4\" stroke-linecap=\"round\" d=\"m70 193h0m3-92h0\"/>\n\
            <path fill=\"none\" stroke=\"#E1E1E1\" d=\"m70 285l0-277m-6 277l5 0-1-5\"/>\n\
            <path fill=\"#F5D6BE\" d=\"m73 8h18v277h-18zm5 15l-3 6 7 0z\"/>\n\
            <g text-anchor=\"end\" fill=\"#5A5A5A\" font-size=\"9.7\"><text x=\"60\" y=\"285\" dy=\"0.5ex\">0</text>\
            <text x=\"60\" y=\"193\" dy=\"0.5ex\">5</text></g>\n</svg>\n";
        assert_eq!(compact(picture), expected);
    }

    #[test]
    fn unrecognised_svg_is_unchanged() {
        let picture = "<image href=\"x\"/>\n<circle cx=\"1.5\" cy=\"2\" r=\"1\" fill=\"#000\" stroke=\"none\"/>\n\
            <polygon fill=\"#000\" points=\"\"/>\n";
        assert_eq!(compact(picture), picture);
    }
}
