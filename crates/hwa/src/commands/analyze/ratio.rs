//! What a step is expected to lose over what it gains: the condition as one number.
//!
//! It is rate L (noise + |∇R|²) / (2 |∇R|²), and unlike the ratio of the sides it is above zero
//! wherever there is a gradient. Of several models it is the mean above over the mean below, and
//! so is its error: one model whose |∇R|² is lost in noise makes the whole uncertain.

use hwa_study::Gradients;

use super::Found;
use super::cycles::{Place, Position};
use super::shown::with_error;

/// The number at a place of a cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) cycle: usize,
    /// Not a number where nothing is gained.
    pub(crate) value: f64,
    /// Its standard error; nothing where it is not known.
    pub(crate) error: Option<f64>,
}

/// What was measured at a place, cycle by cycle: several points where there are several models.
pub(crate) fn groups<'a>(
    found: &'a Found,
    word: &str,
) -> Vec<(usize, Vec<(&'a Place, &'a Gradients)>)> {
    let mut groups: Vec<(usize, Vec<(&Place, &Gradients)>)> = Vec::new();
    for (place, gradients) in found.points.iter().filter(|(p, _)| p.position.word() == word) {
        match groups.last_mut().filter(|(cycle, _)| *cycle == place.cycle) {
            Some((_, points)) => points.push((place, gradients)),
            None => groups.push((place.cycle, vec![(place, gradients)])),
        }
    }
    groups
}

/// The number at a place, cycle by cycle, with the rate that counts.
pub(crate) fn ratios(found: &Found, word: &str, rate: &dyn Fn(f64) -> f64) -> Vec<Ratio> {
    let ratio = |(cycle, points): (usize, Vec<(&Place, &Gradients)>)| {
        let rated = points.into_iter().map(|(place, gradients)| (rate(place.rate), gradients));
        let (value, error) = of_all(&rated.collect::<Vec<_>>());
        Ratio { cycle, value, error }
    };
    groups(found, word).into_iter().map(ratio).collect()
}

/// The number of some models, each with its rate, and its standard error.
fn of_all(models: &[(f64, &Gradients)]) -> (f64, Option<f64>) {
    let lost = |(rate, g): &(f64, &Gradients)| rate * g.lipschitz * (g.noise + g.squared_norm);
    let gained: f64 = models.iter().map(|(_, g)| 2.0 * g.squared_norm).sum();
    if gained.is_nan() || gained <= 0.0 {
        return (f64::NAN, None);
    }
    let value = models.iter().map(lost).sum::<f64>() / gained;
    // By how much the number is off if this model is.
    let off = |(rate, g): &(f64, &Gradients)| {
        let [[of_norm, both], [_, of_noise]] = g.covariance?;
        let by_norm = (rate * g.lipschitz - 2.0 * value) / gained;
        let by_noise = rate * g.lipschitz / gained;
        let by_lipschitz = rate * (g.noise + g.squared_norm) / gained;
        let of_sample = by_norm.powi(2) * of_norm
            + 2.0 * by_norm * by_noise * both
            + by_noise.powi(2) * of_noise;
        Some((of_sample.max(0.0) + (by_lipschitz * g.lipschitz_error?).powi(2)).sqrt())
    };
    // All models see the same images, and may be off together.
    (value, models.iter().map(off).sum())
}

/// What one's own run shows, in a sentence: of the last cycle whose inner weights are kept.
pub(crate) fn sentence(found: &Found) -> String {
    let ends = found.points.iter().filter(|(p, _)| matches!(p.position, Position::End(_)));
    let Some(cycle) = ends.map(|(place, _)| place.cycle).max() else {
        return "Here: no inner weights are kept, so that models at the end of a cycle cannot be \
                compared with their average (checkpoints.inner_cycles)."
            .to_owned();
    };
    let at = |word: &str| {
        let all = ratios(found, word, &|rate| rate);
        all.into_iter().find(|ratio| ratio.cycle == cycle)
    };
    let [start, end, average] = ["start", "end", "average"].map(at);
    format!(
        "Here: in cycle {cycle} what a step loses over what it gains is {} at the start, {} where \
         the models end and {} at their average{}.",
        told(start),
        told(end),
        told(average),
        direction(end, average)
    )
}

fn told(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "not measured".to_owned(),
        Some(ratio) if ratio.value.is_nan() => "lost in noise".to_owned(),
        Some(ratio) => with_error(ratio.value, ratio.error),
    }
}

/// Whether the average raises the number, as far as that can be told.
fn direction(end: Option<Ratio>, average: Option<Ratio>) -> String {
    let known = |ratio: Option<Ratio>| ratio.filter(|ratio| !ratio.value.is_nan());
    let (Some(end), Some(average)) = (known(end), known(average)) else { return String::new() };
    let Some((before, after)) = end.error.zip(average.error) else {
        return ". How far the numbers are off is not known, nor is the direction".to_owned();
    };
    let (apart, error) = (average.value - end.value, before.hypot(after));
    // As everywhere: two standard errors are needed for an answer.
    if apart.abs() < 2.0 * error {
        return ". That the average changes it is within two standard errors".to_owned();
    }
    match apart > 0.0 {
        true => ": the average raises it, the direction that the paper describes".to_owned(),
        false => {
            ": the average lowers it, against the direction that the paper describes".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::drawn::tests::{found, point};
    use super::*;

    fn plain(found: &Found, word: &str) -> Vec<f64> {
        ratios(found, word, &|rate| rate).iter().map(|ratio| ratio.value).collect()
    }

    #[test]
    fn it_is_above_one_where_the_condition_does_not_hold() {
        // With L = 8 and rate 0.5, 1/rate - L/2 = -2: the right side is below zero. With L = 1
        // it is 1.5, and both sides are 1.5: the border.
        for (lipschitz, expected) in [(8.0, 8.0), (1.0, 1.0), (0.25, 0.25)] {
            let (place, gradients) = point(Position::Start, 1.0, lipschitz);
            let found = found(vec![(place, gradients)]);
            let holds = gradients.condition(0.5).holds().unwrap();
            assert_eq!((plain(&found, "start"), holds), (vec![expected], expected <= 1.0));
            let momentum = ratios(&found, "start", &|rate| found.lasting(rate));
            assert_eq!((momentum[0].cycle, momentum[0].value), (1, 2.0 * expected));
        }
    }

    #[test]
    fn models_are_averaged_above_and_below_and_without_a_gradient_there_is_nothing() {
        // 0.5 · 2 · (3 + 2) = 5 over 4, and 0.5 · 2 · (3 - 1) = 2 over -2: 3.5 over 1.
        let ends = [(0, 2.0), (1, -1.0)];
        let points = ends.map(|(model, square)| point(Position::End(model), square, 2.0));
        assert_eq!(plain(&found(points.into()), "end"), [3.5]);
        let nothing = found(vec![point(Position::Start, 0.0, 2.0)]);
        assert!(plain(&nothing, "start")[0].is_nan());
    }

    #[test]
    fn the_error_is_that_of_norm_noise_and_lipschitz_constant() {
        // noise 3, squared norm 1, L 2, rate 0.5: 0.5 times the error of the ratio 3. Variances
        // 4 and 9 and a covariance of 1: 9 - 2 · 3 · 1 + 9 · 4 = 39. The number is 2 for L = 2, so
        // it is 0.3 off if L is by 0.3.
        let (_, mut gradients) = point(Position::Start, 1.0, 2.0);
        gradients.covariance = Some([[4.0, 1.0], [1.0, 9.0]]);
        let error = |gradients: &Gradients| of_all(&[(0.5, gradients)]).1;
        let near = |found: Option<f64>, square: f64| (found.unwrap() - square.sqrt()).abs() < 1e-12;
        assert!(near(error(&gradients), 0.25 * 39.0));
        gradients.lipschitz_error = Some(0.3);
        assert!(near(error(&gradients), 0.25 * 39.0 + 0.09));
        gradients.lipschitz_error = None;
        assert_eq!(error(&gradients), None, "one step");
        gradients.covariance = None;
        assert_eq!(error(&gradients), None, "two batches");
    }

    #[test]
    fn a_model_without_a_gradient_of_its_own_makes_the_whole_uncertain() {
        // Squared norms 2 and -1: 5 + 2 is lost and 4 - 2 gained, 3.5. By each of the norms it
        // falls by (0.5 · 2 - 2 · 3.5) / 2 = -3, and each is off by 2: 6 + 6.
        let models = [2.0, -1.0].map(|square| {
            let (_, mut gradients) = point(Position::End(0), square, 2.0);
            gradients.covariance = Some([[4.0, 0.0], [0.0, 0.0]]);
            gradients
        });
        let (value, error) = of_all(&[(0.5, &models[0]), (0.5, &models[1])]);
        assert_eq!((value, error), (3.5, Some(12.0)));
    }

    fn cycle(start: f64, end: f64, average: f64, error: Option<f64>) -> Found {
        // With noise 3, squared norm 1 and rate 0.5 the number is L, and so is its error.
        let places =
            [(Position::Start, start), (Position::End(0), end), (Position::Average, average)];
        found(Vec::from(places.map(|(position, lipschitz)| {
            let (place, gradients) = point(position, 1.0, lipschitz);
            (place, Gradients { lipschitz_error: error, ..gradients })
        })))
    }

    #[test]
    fn a_sentence_tells_the_direction_only_where_it_is_clear() {
        let start = "Here: in cycle 1 what a step loses over what it gains is ";
        let risen = sentence(&cycle(0.5, 0.25, 0.5, Some(0.01)));
        let numbers = "0.5000 ± 0.010 at the start, 0.2500 ± 0.010 where the models end and \
                       0.5000 ± 0.010 at their average";
        let raises = ": the average raises it, the direction that the paper describes.";
        assert_eq!(risen, format!("{start}{numbers}{raises}"));
        let fallen = sentence(&cycle(0.5, 0.5, 0.25, Some(0.01)));
        assert!(fallen.ends_with("lowers it, against the direction that the paper describes."));
        // 0.25 apart, with 0.1 · √2 = 0.14 of error.
        let open = sentence(&cycle(0.5, 0.25, 0.5, Some(0.1)));
        assert!(
            open.ends_with("average. That the average changes it is within two standard errors."),
            "{open}"
        );
        let unknown = sentence(&cycle(0.5, 0.25, 0.5, None));
        assert!(unknown.contains("0.2500 ± ? where"), "{unknown}");
        assert!(unknown.ends_with("is not known, nor is the direction."), "{unknown}");
    }

    #[test]
    fn a_sentence_names_what_is_missing() {
        let none = sentence(&found(vec![point(Position::Start, 1.0, 1.0)]));
        assert!(none.starts_with("Here: no inner weights are kept"), "{none}");
        let lost = sentence(&found(vec![
            point(Position::End(0), -1.0, 1.0),
            point(Position::Average, 1.0, 1.0),
        ]));
        let text = "not measured at the start, lost in noise where the models end and 1.000 at \
                    their average.";
        assert!(lost.ends_with(text), "{lost}");
    }
}
