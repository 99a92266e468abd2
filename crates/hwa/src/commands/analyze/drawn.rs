//! What was found, as figures and files.

use std::path::PathBuf;

use hwa_report::{
    Axis, Chart, DataFile, ErrorBar, Figure, Lines, PageOptions, Part, SERIES, Series, Sheet, Tone,
};
use hwa_study::Gradients;

use super::cycles::Place;
use super::ratio::{groups, ratios, sentence};
use super::{Found, shown};
use crate::failure::Failure;
use crate::pages;

/// The places of a cycle, each with its colour. Of a pair, the second is dashed.
const PLACES: [(&str, usize); 3] = [("start", 5), ("end", 1), ("average", 0)];

/// Writes the page with tables and figures, and tells which files.
pub(crate) fn write(found: &Found) -> Result<Vec<PathBuf>, Failure> {
    let page = sheet(found).page(PageOptions { files: true, ..PageOptions::default() });
    pages::write(&page.map_err(|error| Failure::Run(error.into()))?, &found.folder)
}

fn sheet(found: &Found) -> Sheet {
    let mut parts = figures(found);
    parts.push(Part::Heading("Both sides".to_owned()));
    parts.extend(numbers(found));
    if !found.angles.is_empty() {
        parts.push(Part::Heading("Distances and angles".to_owned()));
        parts.push(table(shown::pairs(found, shown::short)));
        parts.push(Part::Text(shown::COSINE.to_owned()));
    }
    let file = |name: &str, text| DataFile { name: name.to_owned(), text };
    parts.push(Part::Files(vec![
        file("condition.csv", shown::condition_csv(found)),
        file("angles.csv", shown::angles_csv(found)),
    ]));
    Sheet {
        title: "The convergence condition".to_owned(),
        lead: format!(
            "{}. A step of SGD is expected to lower the training loss while the left side is below \
             the right one.",
            found.subject
        ),
        parts,
    }
}

/// What the run shows in a sentence, the figures and the table of the condition.
pub(crate) fn parts(found: &Found) -> Vec<Part> {
    let mut parts = vec![Part::Text(sentence(found))];
    parts.extend(figures(found));
    parts.extend(numbers(found));
    parts
}

fn figures(found: &Found) -> Vec<Part> {
    [sides(found), ratio(found), risks(found)].map(Part::Figure).into()
}

/// The table, what its columns are, and what the reader should know.
fn numbers(found: &Found) -> Vec<Part> {
    let texts = shown::legend(found).into_iter().chain(found.notes.iter().cloned());
    let table = table(shown::conditions(found));
    std::iter::once(table).chain(texts.map(Part::Text)).collect()
}

/// The first row is the head.
fn table(mut rows: Vec<Vec<String>>) -> Part {
    let head = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
    Part::Table { head, rows }
}

/// Both sides of the condition.
fn sides(found: &Found) -> Figure {
    let left = |place: &Place, gradients: &Gradients| gradients.condition(place.rate).left;
    let right = |place: &Place, gradients: &Gradients| gradients.condition(place.rate).right;
    let error = |place: &Place, gradients: &Gradients, side: usize| {
        side_errors(place.rate, gradients).map_or(f64::NAN, |errors| errors[side])
    };
    let left_error = |place: &Place, gradients: &Gradients| error(place, gradients, 0);
    let right_error = |place: &Place, gradients: &Gradients| error(place, gradients, 1);
    let (mut series, mut errors) = (Vec::new(), Bars::default());
    for (word, tone) in PLACES {
        let mut side = |name: &str, tone, of: Measured<'_>, error: Measured<'_>| {
            let (name, tone) = (format!("{name}, {}", place_name(word)), Tone::Series(tone));
            let points = by_cycle(found, word, of);
            let known = by_cycle(found, word, error).into_iter();
            let known: Vec<Option<f64>> =
                known.map(|(_, error)| Some(error).filter(|error| !error.is_nan())).collect();
            errors.add(tone, &points, &known);
            series.push(Series { name, tone, points });
        };
        side("left", tone, &left, &left_error);
        side("right", tone + SERIES, &right, &right_error);
    }
    let caption = "Left is (L/2) times the noise of a mini-batch, right is (1/rate - L/2) times \
                   the squared norm of the full gradient. Where left is above right, a step of SGD \
                   is expected to raise the training loss. A right side below zero is not drawn.";
    let y = Axis::measuring("side").logarithmic();
    errors.on(lines("sides", "Both sides of the convergence condition", caption, y, series))
}

/// The standard errors of both sides, from those of noise, squared norm and L.
fn side_errors(rate: f64, gradients: &Gradients) -> Option<[f64; 2]> {
    let bend = gradients.lipschitz / 2.0;
    let half = gradients.lipschitz_error? / 2.0;
    let left = (bend * gradients.noise_error()?).hypot(half * gradients.noise);
    let factor = 1.0 / rate - bend;
    let right = (factor * gradients.squared_norm_error()?).hypot(half * gradients.squared_norm);
    Some([left, right])
}

/// What a step is expected to lose over what it gains.
fn ratio(found: &Found) -> Figure {
    let (mut series, mut errors) = (Vec::new(), Bars::default());
    for (word, tone) in PLACES {
        let mut one = |name: String, tone, rate: &dyn Fn(f64) -> f64| {
            let tone = Tone::Series(tone);
            let all = ratios(found, word, rate);
            let points: Vec<(f64, f64)> =
                all.iter().map(|ratio| (ratio.cycle as f64, ratio.value)).collect();
            let known: Vec<Option<f64>> = all.iter().map(|ratio| ratio.error).collect();
            errors.add(tone, &points, &known);
            series.push(Series { name, tone, points });
        };
        let name = place_name(word);
        one(name.to_owned(), tone, &|rate| rate);
        one(format!("{name}, with momentum"), tone + SERIES, &|rate| found.lasting(rate));
    }
    series.extend(border(&series));
    let caption = "rate L (noise + |∇R|²) / (2 |∇R|²), which is the condition as one number: above \
                   1 the condition does not hold, and a step is expected to raise the training \
                   loss. Of several models, the mean above over the mean below. With momentum, the \
                   rate is rate / (1 - momentum), what a gradient moves the weights by in the end. \
                   Where |∇R|² is not above zero, nothing is drawn.";
    let y = Axis::measuring("loss by a step over gain by it").logarithmic();
    let title = "What a step loses over what it gains";
    errors.on(lines("ratio", title, caption, y, series))
}

/// Something that was measured at a place.
type Measured<'a> = &'a dyn Fn(&Place, &Gradients) -> f64;

/// Bars of one standard error.
#[derive(Default)]
struct Bars {
    bars: Vec<ErrorBar>,
    /// Whether some error is not known.
    unknown: bool,
}

impl Bars {
    fn add(&mut self, tone: Tone, points: &[(f64, f64)], errors: &[Option<f64>]) {
        for ((at, y), error) in points.iter().zip(errors).filter(|((_, y), _)| y.is_finite()) {
            self.unknown |= error.is_none();
            let error = error.filter(|error| *error > 0.0);
            let bar = |error| ErrorBar { tone, at: *at, from: y - error, to: y + error };
            self.bars.extend(error.map(bar));
        }
    }

    /// Draws them, and says what they are.
    fn on(self, mut figure: Figure) -> Figure {
        if !self.bars.is_empty() {
            figure.caption.push_str(
                " Bars are one standard error, of the sample of images and of L over steps; models \
                 are taken to be off together.",
            );
        }
        if self.unknown {
            figure.caption.push_str(
                " Where there is no bar, the error is not known: two mini-batches or one step tell \
                 none.",
            );
        }
        if let Chart::Lines(lines) = &mut figure.chart {
            lines.errors = self.bars;
        }
        figure
    }
}

/// Where what is lost is what is gained, from the first cycle to the last.
fn border(series: &[Series]) -> Option<Series> {
    let cycles = || series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let first = cycles().fold(f64::INFINITY, f64::min);
    let last = cycles().fold(f64::NEG_INFINITY, f64::max);
    // One cycle alone has no way from first to last.
    let (first, last) = if first == last { (first - 0.5, last + 0.5) } else { (first, last) };
    (first < last).then(|| Series {
        name: "1: below it the condition holds".to_owned(),
        tone: Tone::Ink,
        points: vec![(first, 1.0), (last, 1.0)],
    })
}

/// The training loss where a cycle starts, where its models end and of their average.
fn risks(found: &Found) -> Figure {
    let series = PLACES.map(|(word, tone)| Series {
        name: place_name(word).to_owned(),
        tone: Tone::Series(tone),
        points: by_cycle(found, word, &|_, gradients| gradients.risk),
    });
    lines(
        "risks",
        "Training loss within cycles",
        "The risk R on training images where a cycle starts, of its models at its end (their \
         mean), and of their average.",
        Axis::measuring("cross entropy").logarithmic(),
        series.into(),
    )
}

fn lines(name: &str, title: &str, caption: &str, y: Axis, mut series: Vec<Series>) -> Figure {
    series.retain(|series| !series.points.is_empty());
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        chart: Chart::Lines(Lines { x: Axis::counting("cycle"), y, series, ..Lines::default() }),
    }
}

fn place_name(word: &str) -> &'static str {
    match word {
        "start" => "start of the cycle",
        "end" => "models at its end",
        _ => "their average",
    }
}

/// A value by cycle at some place; the mean over models where there are several.
fn by_cycle(found: &Found, word: &str, of: Measured<'_>) -> Vec<(f64, f64)> {
    let mean = |points: &[(&Place, &Gradients)]| {
        points.iter().map(|(place, gradients)| of(place, gradients)).sum::<f64>()
            / points.len() as f64
    };
    groups(found, word).iter().map(|(cycle, points)| (*cycle as f64, mean(points))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cycles::Position;
    use super::*;
    use crate::shelf::Name;

    pub(in super::super) fn point(
        position: Position,
        squared_norm: f64,
        lipschitz: f64,
    ) -> (Place, Gradients) {
        let name = Name::Outer(Some(1));
        let place = Place { cycle: 1, position, name, step: 0, rate: 0.5 };
        let gradients = Gradients {
            risk: 1.0,
            squared_norm,
            noise: 3.0,
            covariance: Some([[0.0; 2]; 2]),
            lipschitz,
            lipschitz_error: Some(0.0),
            curvature: 0.75,
            curvature_error: Some(0.25),
            images: 8,
            batch: 2,
            steps: 1,
        };
        (place, gradients)
    }

    pub(in super::super) fn found(points: Vec<(Place, Gradients)>) -> Found {
        Found {
            folder: PathBuf::new(),
            subject: "run: resnet8 on digits".to_owned(),
            momentum: 0.5,
            population: 16,
            augmented: true,
            notes: vec!["a note".to_owned()],
            points,
            angles: Vec::new(),
        }
    }

    #[test]
    fn the_ratio_has_its_border_and_pairs_of_one_colour() {
        let found = found(vec![point(Position::Start, 1.0, 2.0)]);
        let Chart::Lines(lines) = ratio(&found).chart else { panic!("lines") };
        let [plain, momentum, border] = &lines.series[..] else { panic!("{:?}", lines.series) };
        assert_eq!((plain.tone, momentum.tone), (Tone::Series(5), Tone::Series(5 + SERIES)));
        assert_eq!(border.points, [(0.5, 1.0), (1.5, 1.0)]);
    }

    #[test]
    fn what_is_uncertain_has_bars_and_what_is_exact_has_none() {
        let figures = |covariance, lipschitz_error| {
            let (place, gradients) = point(Position::Start, 1.0, 2.0);
            let found =
                found(vec![(place, Gradients { covariance, lipschitz_error, ..gradients })]);
            [ratio(&found), sides(&found)].map(|figure| {
                let Chart::Lines(lines) = figure.chart else { panic!("lines") };
                let text = if figure.caption.contains("is not known") { "unknown" } else { "" };
                (lines.errors.len(), text)
            })
        };
        let exact = Some([[0.0; 2]; 2]);
        // Without and with momentum; left and right.
        assert_eq!(figures(Some([[4.0, 1.0], [1.0, 9.0]]), Some(0.0)), [(2, ""), (2, "")]);
        assert_eq!(figures(exact, Some(0.1)), [(2, ""), (2, "")], "L is uncertain too");
        assert_eq!(figures(exact, Some(0.0)), [(0, ""), (0, "")]);
        assert_eq!(figures(exact, None), [(0, "unknown"), (0, "unknown")]);
        assert_eq!(figures(None, Some(0.1)), [(0, "unknown"), (0, "unknown")]);
    }

    #[test]
    fn the_sides_have_the_errors_of_their_factors() {
        // noise 3, norm 1, L 2, rate 0.5: left is L/2 · 3 and right (2 - L/2) · 1. Variances 4 and
        // 9, and 0.01 of L: 1² · 9 + 1.5² · 0.01, and 1² · 4 + 0.5² · 0.01.
        let (_, gradients) = point(Position::Start, 1.0, 2.0);
        let covariance = Some([[4.0, 1.0], [1.0, 9.0]]);
        let gradients = Gradients { covariance, lipschitz_error: Some(0.1), ..gradients };
        let [left, right] = side_errors(0.5, &gradients).unwrap();
        assert!((left - 9.0225f64.sqrt()).abs() < 1e-12, "{left}");
        assert!((right - 4.0025f64.sqrt()).abs() < 1e-12, "{right}");
    }

    #[test]
    fn the_page_says_what_the_terminal_says() {
        let found = found(vec![point(Position::Start, -1.0, 2.0)]);
        let page = sheet(&found).page(PageOptions::default()).unwrap().html;
        for part in [
            "run: resnet8 on digits. A step of SGD",
            "<h2>Both sides</h2>",
            "8 of 16 training images (augmented), mini-batches of 2, L over 1 steps",
            "not above its own noise",
            "a note",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(shown::text(&found).contains("8 of 16 training images (augmented)"));
    }
}
