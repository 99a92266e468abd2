//! Where figures are drawn: SVG whose colours are named, so that a page can change them.
//!
//! `plotters` draws charts on anything that knows lines, rectangles and text. Its own SVG has
//! colours written into every element, which cannot follow a page into the dark. Here a colour
//! that a [`Tone`] has becomes a class, and the style sheet says what it looks like by day and by
//! night; only what is data itself, as in a heat map, keeps its colour.

use std::convert::Infallible;
use std::fmt::Write as _;

use plotters::prelude::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
};

/// How many series have a colour of their own.
pub const SERIES: usize = 8;

/// Coordinates are whole numbers: so many of them make a pixel.
pub(crate) const FINE: i32 = 4;

/// A colour by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Text and axes.
    Ink,
    /// Text that is less important.
    Faint,
    /// Lines of a grid.
    Grid,
    /// What is drawn on.
    Paper,
    /// The n-th series; after the eighth they begin again.
    Series(usize),
}

/// The colours of series by day: those of Okabe and Ito, which the colour-blind can tell apart,
/// the yellow darkened and the black left out.
const DAY: [(u8, u8, u8); SERIES] = [
    (0, 158, 115),
    (213, 94, 0),
    (86, 180, 233),
    (204, 121, 167),
    (230, 159, 0),
    (0, 114, 178),
    (120, 94, 240),
    (110, 110, 110),
];

/// And by night: lighter where they would be lost.
const NIGHT: [(u8, u8, u8); SERIES] = [
    (44, 190, 148),
    (240, 128, 48),
    (108, 190, 240),
    (220, 150, 190),
    (240, 180, 50),
    (70, 150, 220),
    (150, 130, 255),
    (160, 160, 160),
];

impl Tone {
    const FIXED: [Self; 4] = [Self::Ink, Self::Faint, Self::Grid, Self::Paper];

    fn day(self) -> (u8, u8, u8) {
        match self {
            Self::Ink => (32, 36, 44),
            Self::Faint => (98, 106, 118),
            Self::Grid => (224, 228, 234),
            Self::Paper => (255, 255, 255),
            Self::Series(n) => DAY[n % SERIES],
        }
    }

    fn night(self) -> (u8, u8, u8) {
        match self {
            Self::Ink => (228, 231, 236),
            Self::Faint => (150, 158, 170),
            Self::Grid => (52, 58, 68),
            Self::Paper => (22, 25, 31),
            Self::Series(n) => NIGHT[n % SERIES],
        }
    }

    /// The end of the names of its variable and its classes.
    pub(crate) fn class(self) -> String {
        match self {
            Self::Ink => "ink".to_owned(),
            Self::Faint => "faint".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Paper => "paper".to_owned(),
            Self::Series(n) => format!("s{}", n % SERIES),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        Self::FIXED.into_iter().chain((0..SERIES).map(Self::Series))
    }

    fn of(rgb: (u8, u8, u8)) -> Option<Self> {
        Self::all().find(|tone| tone.day() == rgb)
    }

    /// For `plotters`.
    pub fn colour(self) -> RGBColor {
        let (r, g, b) = self.day();
        RGBColor(r, g, b)
    }
}

/// The style sheet of figures: variables for both times of day, and what they are used for.
/// `scope` is what it is for: `svg` in a file of its own, a class in a page.
pub fn style_sheet(scope: &str) -> String {
    let variables = |colour: fn(Tone) -> (u8, u8, u8)| {
        let mut text = String::new();
        for tone in Tone::all() {
            let (r, g, b) = colour(tone);
            let _ = write!(text, "--{}:#{r:02x}{g:02x}{b:02x};", tone.class());
        }
        text
    };
    let mut text = format!("{scope}{{{}font-family:system-ui,sans-serif}}", variables(Tone::day));
    for tone in Tone::all() {
        let class = tone.class();
        let _ = write!(
            text,
            "{scope} .f-{class}{{fill:var(--{class});stroke:none}}\
             {scope} .l-{class}{{stroke:var(--{class});fill:none}}"
        );
    }
    let _ =
        write!(text, "@media (prefers-color-scheme:dark){{{scope}{{{}}}}}", variables(Tone::night));
    text
}

/// An SVG under way.
pub(crate) struct Canvas<'a> {
    body: &'a mut String,
    size: (u32, u32),
}

impl<'a> Canvas<'a> {
    /// Elements are added to `body`; the size is in pixels.
    pub(crate) fn new(body: &'a mut String, (width, height): (u32, u32)) -> Self {
        Self { body, size: (width * FINE as u32, height * FINE as u32) }
    }

    fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// A picture of its own: the elements in a frame, with a style sheet and words for those who
/// cannot see it.
pub(crate) fn framed(body: &str, (width, height): (u32, u32), title: &str, alone: bool) -> String {
    let title = escaped(title);
    let style = match alone {
        true => format!("<style>{}</style>\n", style_sheet("svg.figure")),
        false => String::new(),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\" \
         viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{title}</title>\n{style}{body}</svg>\n"
    )
}

/// Text as it stands in XML and HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in XML, however it is written.
            letter if letter.is_control() && !matches!(letter, '\n' | '\t') => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// How wide a text of this size is, about: there is no font to ask.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let width = |letter: char| match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' => 0.28,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '-' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.86,
        'A'..='Z' => 0.68,
        _ => 0.56,
    };
    size * text.chars().map(width).sum::<f64>()
}

/// A length in pixels, without needless digits.
fn pixels(fine: i32) -> String {
    let whole = fine.div_euclid(FINE);
    match fine.rem_euclid(FINE) {
        0 => whole.to_string(),
        rest => format!("{}", f64::from(whole) + f64::from(rest) / f64::from(FINE)),
    }
}

fn line_style(style: &impl BackendStyle) -> String {
    let BackendColor { alpha, rgb } = style.color();
    let width = pixels(style.stroke_width() as i32);
    let opacity = opacity(alpha);
    match Tone::of(rgb) {
        Some(tone) => {
            format!("class=\"l-{}\" stroke-width=\"{width}\"{opacity}", tone.class())
        }
        None => {
            let (r, g, b) = rgb;
            format!(
                "fill=\"none\" stroke=\"#{r:02x}{g:02x}{b:02x}\" stroke-width=\"{width}\"{opacity}"
            )
        }
    }
}

fn fill_style(colour: BackendColor) -> String {
    let opacity = opacity(colour.alpha);
    match Tone::of(colour.rgb) {
        Some(tone) => format!("class=\"f-{}\"{opacity}", tone.class()),
        None => {
            let (r, g, b) = colour.rgb;
            format!("fill=\"#{r:02x}{g:02x}{b:02x}\"{opacity}")
        }
    }
}

fn opacity(alpha: f64) -> String {
    if alpha < 1.0 { format!(" opacity=\"{alpha:.3}\"") } else { String::new() }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_rect(at, (at.0 + FINE, at.1 + FINE), &colour, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        if style.color().alpha == 0.0 {
            return Ok(());
        }
        let look = if fill { fill_style(style.color()) } else { line_style(style) };
        // What is data has neighbours, and no seams between them.
        let crisp = match fill && Tone::of(style.color().rgb).is_none() {
            true => " shape-rendering=\"crispEdges\"",
            false => "",
        };
        let (x, y) = (pixels(left), pixels(top));
        let (width, height) = (pixels((right - left).max(0)), pixels((bottom - top).max(0)));
        self.add(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {look}{crisp}/>"
        ));
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        if style.color().alpha == 0.0 {
            return Ok(());
        }
        let points = points(path);
        if !points.is_empty() {
            let look = line_style(style);
            self.add(&format!("<polyline points=\"{points}\" {look}/>"));
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        if style.color().alpha == 0.0 {
            return Ok(());
        }
        let look = if fill { fill_style(style.color()) } else { line_style(style) };
        let (x, y, radius) = (pixels(x), pixels(y), pixels(radius as i32));
        self.add(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" {look}/>"));
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        if style.color().alpha == 0.0 {
            return Ok(());
        }
        let (points, look) = (points(corners), fill_style(style.color()));
        self.add(&format!("<polygon points=\"{points}\" {look}/>"));
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        let colour = style.color();
        if colour.alpha == 0.0 || text.is_empty() {
            return Ok(());
        }
        let size = style.size() / f64::from(FINE);
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // From the line that letters stand on.
        let shift = match style.anchor().v_pos {
            VPos::Top => 0.76,
            VPos::Center => 0.34,
            VPos::Bottom => -0.16,
        };
        let turn = match style.transform() {
            FontTransform::None => 0,
            FontTransform::Rotate90 => 90,
            FontTransform::Rotate180 => 180,
            FontTransform::Rotate270 => 270,
        };
        let (x, y) = (pixels(x), pixels(y));
        let place = match turn {
            0 => format!("x=\"{x}\" y=\"{y}\""),
            turn => format!("transform=\"translate({x} {y}) rotate({turn})\""),
        };
        let look = fill_style(colour);
        let weight = match style.style().as_str() {
            "bold" => " font-weight=\"600\"",
            _ => "",
        };
        let shift = size * shift;
        let text = escaped(text);
        self.add(&format!(
            "<text {place} dy=\"{shift:.1}\" font-size=\"{size}\"{weight} \
             text-anchor=\"{anchor}\" {look}>{text}</text>"
        ));
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok((text_width(text, style.size()).ceil() as u32, style.size().ceil() as u32))
    }
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let points: Vec<String> =
        path.into_iter().map(|(x, y)| format!("{},{}", pixels(x), pixels(y))).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_quarters_of_pixels() {
        assert_eq!((pixels(8), pixels(9), pixels(-1)), ("2".into(), "2.25".into(), "-0.25".into()));
    }

    #[test]
    fn every_tone_is_known_by_its_colour_and_has_both_times_of_day() {
        let sheet = style_sheet("svg");
        for tone in Tone::all() {
            assert_eq!(Tone::of(tone.day()), Some(tone));
            let variable = format!("--{}:", tone.class());
            assert_eq!(sheet.matches(&variable).count(), 2, "{variable}");
        }
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escaped("<b a=\"1\">&'\u{1}"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39; ");
    }

    /// Between text and paper, and between lines and paper, as WCAG asks for: 4.5 and 3 (2 for
    /// the lightest series by day, which have dots and words as well).
    #[test]
    fn colours_can_be_read_on_their_paper() {
        fn light((r, g, b): (u8, u8, u8)) -> f64 {
            let linear = |c: u8| {
                let c = f64::from(c) / 255.0;
                if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
        }
        let contrast = |a, b| {
            let (a, b) = (light(a), light(b));
            (f64::max(a, b) + 0.05) / (f64::min(a, b) + 0.05)
        };
        for colour in [Tone::day, Tone::night] {
            let paper = colour(Tone::Paper);
            for tone in [Tone::Ink, Tone::Faint] {
                assert!(contrast(colour(tone), paper) > 4.5, "{tone:?}");
            }
            for n in 0..SERIES {
                let found = contrast(colour(Tone::Series(n)), paper);
                assert!(found > 2.0, "series {n}: {found}");
            }
        }
    }
}
