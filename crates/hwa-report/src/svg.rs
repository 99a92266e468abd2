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

/// What further series of the same colours are drawn with: lengths of dashes and of gaps.
const DASHES: [&str; 4] = ["", "7 4", "2 4", "11 4 2 4"];

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
    /// The n-th series; after the eighth the colours begin again, with dashes.
    Series(usize),
}

/// The colours of series by day. They began as those of Okabe and Ito, and were moved until all
/// are dark enough on paper and the colour-blind can tell any two apart (decision 0024).
const DAY: [(u8, u8, u8); SERIES] = [
    (17, 166, 102),
    (249, 100, 2),
    (29, 148, 228),
    (188, 129, 167),
    (154, 62, 25),
    (16, 62, 161),
    (110, 50, 243),
    (72, 72, 76),
];

/// And by night.
const NIGHT: [(u8, u8, u8); SERIES] = [
    (51, 225, 123),
    (232, 110, 43),
    (103, 204, 255),
    (254, 207, 214),
    (255, 227, 68),
    (95, 116, 200),
    (155, 75, 255),
    (120, 120, 124),
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
        let further = (SERIES..SERIES * DASHES.len()).map(Self::Series);
        Self::all().chain(further).find(|tone| {
            let RGBColor(r, g, b) = tone.colour();
            (r, g, b) == rgb
        })
    }

    /// How its lines are dashed: 0 is not at all.
    pub(crate) fn dashes(self) -> usize {
        match self {
            Self::Series(n) => n / SERIES % DASHES.len(),
            Self::Ink | Self::Faint | Self::Grid | Self::Paper => 0,
        }
    }

    /// The same colour, for lines without dashes.
    pub(crate) fn undashed(self) -> Self {
        match self {
            Self::Series(n) => Self::Series(n % SERIES),
            other => other,
        }
    }

    /// For `plotters`, which hands on nothing but a colour: that of further series is one shade
    /// off, so that the dashes are known when it comes back. It is never shown.
    pub fn colour(self) -> RGBColor {
        let (r, g, b) = self.day();
        RGBColor(r, g, b.saturating_add(self.dashes() as u8))
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
    let _ = write!(
        text,
        "@media screen and (prefers-color-scheme:dark){{{scope}{{{}}}}}",
        variables(Tone::night)
    );
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

/// Where a picture stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file of its own.
    File,
    /// In a page, which has the style sheet.
    Page,
    /// In a page on a narrow screen, or in columns on paper.
    NarrowPage,
}

/// What a figure begins with.
const HEAD: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" ";

/// Whether a file is a figure of this program.
pub fn is_our_figure(svg: &str) -> bool {
    svg.strip_prefix(HEAD).is_some_and(|rest| rest.starts_with("class=\"figure\" "))
}

/// A picture of its own: the elements in a frame, with a style sheet and words for those who
/// cannot see it.
pub(crate) fn framed(body: &str, (width, height): (u32, u32), title: &str, place: Place) -> String {
    let title = escaped(title);
    let (style, class) = match place {
        Place::File => (format!("<style>{}</style>\n", style_sheet("svg.figure")), "figure"),
        Place::Page => (String::new(), "figure wide"),
        Place::NarrowPage => (String::new(), "figure narrow"),
    };
    format!(
        "{HEAD}class=\"{class}\" role=\"img\" \
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

/// How wide a text of this size is, about: there is no font to ask. The widths are those of
/// DejaVu Sans, the widest of the usual ones.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let width = |letter: char| match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' => 0.32,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '-' => 0.39,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.70,
        _ => 0.62,
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
            let dashes = match DASHES[tone.dashes()] {
                "" => String::new(),
                dashes => format!(" stroke-dasharray=\"{dashes}\""),
            };
            let class = tone.class();
            format!("class=\"l-{class}\" stroke-width=\"{width}\"{dashes}{opacity}")
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
            let RGBColor(r, g, b) = tone.colour();
            assert_eq!(Tone::of((r, g, b)), Some(tone));
            let variable = format!("--{}:", tone.class());
            assert_eq!(sheet.matches(&variable).count(), 2, "{variable}");
        }
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escaped("<b a=\"1\">&'\u{1}"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39; ");
    }

    #[test]
    fn further_series_have_the_colours_of_the_first_ones_and_dashes() {
        for n in 0..SERIES * DASHES.len() {
            let RGBColor(r, g, b) = Tone::Series(n).colour();
            assert_eq!(Tone::of((r, g, b)), Some(Tone::Series(n)));
            assert_eq!(Tone::Series(n).class(), format!("s{}", n % SERIES));
        }
        let mut body = String::new();
        let mut canvas = Canvas::new(&mut body, (10, 10));
        for n in [3, 11] {
            let RGBColor(r, g, b) = Tone::Series(n).colour();
            let style = BackendColor { alpha: 1.0, rgb: (r, g, b) };
            canvas.draw_line((0, 0), (4, 4), &style).unwrap();
        }
        let lines: Vec<&str> = body.lines().collect();
        assert!(lines[0].contains("class=\"l-s3\"") && !lines[0].contains("dash"), "{body}");
        assert!(
            lines[1].contains("class=\"l-s3\"") && lines[1].contains("stroke-dasharray=\"7 4\"")
        );
    }

    fn linear((r, g, b): (u8, u8, u8)) -> [f64; 3] {
        [r, g, b].map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn light(rgb: (u8, u8, u8)) -> f64 {
        let [r, g, b] = linear(rgb);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// Between text and paper, and between lines and paper, as WCAG asks for: 4.5 and 3.
    #[test]
    fn colours_can_be_read_on_their_paper() {
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
                assert!(found > 3.0, "series {n}: {found}");
            }
        }
    }

    /// Machado, Oliveira and Fernandes (2009): what is seen without green cones, and without red
    /// ones.
    const BLIND: [[[f64; 3]; 3]; 2] = [
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ];

    /// A colour as it is seen, in CIE Lab: 2.3 is what can just be told apart side by side.
    fn seen(rgb: (u8, u8, u8), by: &[[f64; 3]; 3]) -> [f64; 3] {
        let rgb = linear(rgb);
        let mix = |row: &[f64; 3]| row.iter().zip(rgb).map(|(w, c)| w * c).sum::<f64>();
        let [r, g, b] = [mix(&by[0]), mix(&by[1]), mix(&by[2])].map(|c| c.clamp(0.0, 1.0));
        let root = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let y = root(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn the_colour_blind_can_tell_any_two_series_apart() {
        for colours in [DAY, NIGHT] {
            for by in &BLIND {
                for (index, a) in colours.iter().enumerate() {
                    for (other, b) in colours.iter().enumerate().skip(index + 1) {
                        let (a, b) = (seen(*a, by), seen(*b, by));
                        let far = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                        assert!(far.sqrt() > 25.0, "{index} and {other}: {}", far.sqrt());
                    }
                }
            }
        }
    }
}
