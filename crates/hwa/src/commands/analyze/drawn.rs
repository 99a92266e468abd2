//! What was found, as figures and files.

use std::path::PathBuf;

use hwa_report::{
    Axis, Chart, DataFile, ErrorBar, Figure, Lines, PageOptions, Part, SERIES, Series, Sheet, Tone,
};
use hwa_study::Gradients;

use super::cycles::Place;
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

/// The figures and the table of the condition.
pub(crate) fn parts(found: &Found) -> Vec<Part> {
    let mut parts = figures(found);
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
    let left_error = |_: &Place, gradients: &Gradients| {
        gradients.noise_error().map_or(f64::NAN, |error| gradients.lipschitz / 2.0 * error)
    };
    let right_error = |place: &Place, gradients: &Gradients| {
        let factor = (1.0 / place.rate - gradients.lipschitz / 2.0).abs();
        gradients.squared_norm_error().map_or(f64::NAN, |error| factor * error)
    };
    let (mut series, mut errors) = (Vec::new(), Vec::new());
    for (word, tone) in PLACES {
        let mut side = |name: &str, tone, of: Measured<'_>, error: Measured<'_>| {
            let (name, tone) = (format!("{name}, {}", place_name(word)), Tone::Series(tone));
            let points = by_cycle(found, word, of);
            errors.extend(bars(tone, &points, &by_cycle(found, word, error)));
            series.push(Series { name, tone, points });
        };
        side("left", tone, &left, &left_error);
        side("right", tone + SERIES, &right, &right_error);
    }
    let caption = "Left is (L/2) times the noise of a mini-batch, right is (1/rate - L/2) times \
                   the squared norm of the full gradient. Where left is above right, a step of SGD \
                   is expected to raise the training loss. A right side below zero is not drawn.";
    let caption = with_errors(caption, &errors);
    let y = Axis::measuring("side").logarithmic();
    let figure = lines("sides", "Both sides of the convergence condition", &caption, y, series);
    with_bars(figure, errors)
}

/// What a step is expected to lose over what it gains. Unlike the ratio of the sides, it is
/// above zero wherever there is a gradient.
fn ratio(found: &Found) -> Figure {
    let (mut series, mut errors) = (Vec::new(), Vec::new());
    for (word, tone) in PLACES {
        let mut one = |name: String, tone, rate: &dyn Fn(f64) -> f64| {
            let (tone, points) = (Tone::Series(tone), lost_over_gained(found, word, rate));
            let error = |place: &Place, gradients: &Gradients| {
                ratio_error(gradients, rate(place.rate)).unwrap_or(f64::NAN)
            };
            errors.extend(bars(tone, &points, &by_cycle(found, word, &error)));
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
    let caption = with_errors(caption, &errors);
    let y = Axis::measuring("loss by a step over gain by it").logarithmic();
    let figure = lines("ratio", "What a step loses over what it gains", &caption, y, series);
    with_bars(figure, errors)
}

/// Something that was measured at a place.
type Measured<'a> = &'a dyn Fn(&Place, &Gradients) -> f64;

/// The standard error of what a step loses over what it gains, from those of noise and squared
/// norm and their covariance, with L as it was measured.
fn ratio_error(gradients: &Gradients, rate: f64) -> Option<f64> {
    let [[of_norm, both], [_, of_noise]] = gradients.covariance?;
    let (noise, norm) = (gradients.noise, gradients.squared_norm);
    if norm <= 0.0 {
        return None;
    }
    // Of noise / norm: its slopes are 1 / norm and -noise / norm².
    let share = noise / norm;
    let variance = of_noise - 2.0 * share * both + share.powi(2) * of_norm;
    Some(rate * gradients.lipschitz / 2.0 * variance.max(0.0).sqrt() / norm)
}

/// Bars of one standard error, where there is one.
fn bars(tone: Tone, points: &[(f64, f64)], errors: &[(f64, f64)]) -> Vec<ErrorBar> {
    let both = points.iter().zip(errors).map(|((x, y), (_, error))| (*x, *y, *error));
    let known = both.filter(|(_, y, error)| y.is_finite() && *error > 0.0 && error.is_finite());
    known.map(|(at, y, error)| ErrorBar { tone, at, from: y - error, to: y + error }).collect()
}

fn with_errors(caption: &str, errors: &[ErrorBar]) -> String {
    match errors.is_empty() {
        true => caption.to_owned(),
        false => format!(
            "{caption} Bars are one standard error of the sample; of several models, its mean."
        ),
    }
}

fn with_bars(figure: Figure, errors: Vec<ErrorBar>) -> Figure {
    match figure.chart {
        Chart::Lines(lines) => Figure { chart: Chart::Lines(Lines { errors, ..lines }), ..figure },
        _ => figure,
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

/// By cycle; not a number where nothing is gained.
fn lost_over_gained(found: &Found, word: &str, rate: &dyn Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let lost = by_cycle(found, word, &|place, gradients| {
        rate(place.rate) * gradients.lipschitz * (gradients.noise + gradients.squared_norm)
    });
    let gained = by_cycle(found, word, &|_, gradients| 2.0 * gradients.squared_norm);
    let share = |lost: f64, gained: f64| if gained > 0.0 { lost / gained } else { f64::NAN };
    lost.iter().zip(gained).map(|((x, lost), (_, gained))| (*x, share(*lost, gained))).collect()
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
    let mut points: Vec<(usize, Vec<f64>)> = Vec::new();
    for (place, gradients) in found.points.iter().filter(|(p, _)| p.position.word() == word) {
        match points.last_mut().filter(|(cycle, _)| *cycle == place.cycle) {
            Some((_, values)) => values.push(of(place, gradients)),
            None => points.push((place.cycle, vec![of(place, gradients)])),
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    points.iter().map(|(cycle, values)| (*cycle as f64, mean(values))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cycles::Position;
    use super::*;
    use crate::shelf::Name;

    fn point(position: Position, squared_norm: f64, lipschitz: f64) -> (Place, Gradients) {
        let name = Name::Outer(Some(1));
        let place = Place { cycle: 1, position, name, step: 0, rate: 0.5 };
        let (images, batch, steps) = (8, 2, 1);
        let covariance = Some([[0.0; 2]; 2]);
        let (risk, noise) = (1.0, 3.0);
        let gradients =
            Gradients { risk, squared_norm, noise, covariance, lipschitz, images, batch, steps };
        (place, gradients)
    }

    fn found(points: Vec<(Place, Gradients)>) -> Found {
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
    fn what_is_lost_over_what_is_gained_is_above_one_where_the_condition_does_not_hold() {
        // With L = 8 and rate 0.5, 1/rate - L/2 = -2: the right side is below zero. With L = 1
        // it is 1.5, and both sides are 1.5: the border.
        for (lipschitz, expected) in [(8.0, 8.0), (1.0, 1.0), (0.25, 0.25)] {
            let (place, gradients) = point(Position::Start, 1.0, lipschitz);
            let found = found(vec![(place, gradients)]);
            let holds = gradients.condition(0.5).holds().unwrap();
            let [(_, ratio)] = lost_over_gained(&found, "start", &|rate| rate)[..] else {
                panic!("one point")
            };
            assert_eq!((ratio, holds), (expected, expected <= 1.0));
            let momentum = lost_over_gained(&found, "start", &|rate| found.lasting(rate));
            assert_eq!(momentum, [(1.0, 2.0 * expected)]);
        }
    }

    #[test]
    fn models_are_averaged_above_and_below_and_without_a_gradient_there_is_nothing() {
        // 0.5 · 2 · (3 + 2) = 5 over 4, and 0.5 · 2 · (3 - 1) = 2 over -2: 3.5 over 1.
        let ends = [(0, 2.0), (1, -1.0)];
        let points = ends.map(|(model, square)| point(Position::End(model), square, 2.0));
        assert_eq!(lost_over_gained(&found(points.into()), "end", &|rate| rate), [(1.0, 3.5)]);
        let nothing = found(vec![point(Position::Start, 0.0, 2.0)]);
        assert!(lost_over_gained(&nothing, "start", &|rate| rate)[0].1.is_nan());
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
    fn a_sample_has_bars_and_all_images_have_none() {
        // noise 3, squared norm 1, L 2, rate 0.5: 0.5 times the error of the ratio 3. Variances
        // 4 and 9 and a covariance of 1: 9 - 2 · 3 · 1 + 9 · 4 = 39.
        let (place, mut gradients) = point(Position::Start, 1.0, 2.0);
        gradients.covariance = Some([[4.0, 1.0], [1.0, 9.0]]);
        assert_eq!(ratio_error(&gradients, 0.5), Some(0.5 * 39f64.sqrt()));
        let Figure { chart: Chart::Lines(lines), caption, .. } =
            ratio(&found(vec![(place, gradients)]))
        else {
            panic!("lines")
        };
        assert_eq!(lines.errors.len(), 2, "without and with momentum");
        assert!(caption.ends_with("its mean."), "{caption}");
        let all = found(vec![point(Position::Start, 1.0, 2.0)]);
        for figure in [ratio(&all), sides(&all)] {
            let Chart::Lines(lines) = figure.chart else { panic!("lines") };
            assert!(lines.errors.is_empty());
        }
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
