//! Creates an SVG picture.

use crate::compact::compact;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

/// A part of a picture.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Why a picture could not be drawn.
pub type DrawError = DrawingAreaErrorKind<std::io::Error>;
/// The result of drawing.
pub type Drawn = Result<(), DrawError>;

/// Draws into an SVG of this size. `words`: the description for screen readers. `ground`: the
/// background colour; `None`: that of the page. The page's style gives the font.
///
/// # Errors
/// If an element could not be drawn.
pub fn svg(
    (width, height): (u32, u32),
    words: &str,
    ground: Option<RGBColor>,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        if let Some(ground) = ground {
            area.fill(&ground)?;
        }
        draw(&area)?;
        area.present()?;
    }
    // Lets the picture fit its container, and gives screen readers a description.
    let words = escaped(words);
    Ok(compact(&text).replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{words}\" "), 1))
}

/// A text for the content or an attribute of an element of HTML or SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A colour as written in a picture.
pub fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}
