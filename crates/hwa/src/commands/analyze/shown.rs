//! What was found, for people and for programs: tables, JSON, comma-separated values.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hwa_study::{Condition, Gradients};
use serde_json::{Value, json};

use super::Found;
use super::cycles::{Place, Position};
use crate::table::aligned;

/// What the last column of the pairs is.
pub(crate) const COSINE: &str = "cosine: of their ways from the start of the cycle";

impl Position {
    /// One word for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End(_) => "end",
            Self::Average => "average",
        }
    }

    /// The model, if it is one.
    fn model(self) -> Option<usize> {
        match self {
            Self::End(model) => Some(model),
            Self::Start | Self::Average => None,
        }
    }
}

impl Place {
    fn title(&self) -> String {
        let cycle = self.cycle;
        match self.position {
            Position::Start => format!("start of cycle {cycle}"),
            Position::End(model) => format!("end of cycle {cycle}, model {model}"),
            Position::Average => format!("cycle {cycle} averaged"),
        }
    }
}

impl Found {
    /// The rate of a step with the momentum that it will get in later steps.
    pub(crate) fn lasting(&self, rate: f64) -> f64 {
        rate / (1.0 - self.momentum)
    }
}

/// What a terminal shows.
pub(crate) fn text(found: &Found) -> String {
    let mut text = aligned(&conditions(found));
    let _ = writeln!(text, "\n{}", legend(found).join("\n"));
    if !found.angles.is_empty() {
        let pairs = aligned(&pairs(found, short));
        let _ = write!(text, "\n{pairs}\n{COSINE}");
    }
    text.trim_end().to_owned()
}

/// The condition at each of the points, under heads.
pub(crate) fn conditions(found: &Found) -> Vec<Vec<String>> {
    let head = [
        "",
        "weights",
        "rate",
        "risk",
        "|∇R|²",
        "noise",
        "L",
        "curvature",
        "left",
        "right",
        "holds",
        "right, momentum",
        "holds",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (place, gradients) in &found.points {
        let plain = gradients.condition(place.rate);
        let lasting = gradients.condition(found.lasting(place.rate));
        let Gradients { risk, noise, lipschitz, curvature, .. } = *gradients;
        rows.push(vec![
            place.title(),
            place.name.to_string(),
            short(place.rate),
            short(risk),
            with_error(gradients.squared_norm, gradients.squared_norm_error()),
            short(noise),
            with_error(lipschitz, gradients.lipschitz_error),
            with_error(curvature, gradients.curvature_error),
            short(plain.left),
            short(plain.right),
            answer(plain).to_owned(),
            short(lasting.right),
            answer(lasting).to_owned(),
        ]);
    }
    rows
}

/// Whether the condition holds.
fn answer(condition: Condition) -> &'static str {
    match condition.holds() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unclear",
    }
}

/// A number with its standard error, if it has one.
pub(crate) fn with_error(number: f64, error: Option<f64>) -> String {
    match error {
        Some(0.0) => short(number),
        Some(error) => format!("{} ± {}", short(number), rounded(error, 2)),
        None => format!("{} ± ?", short(number)),
    }
}

/// What the columns are, a line each.
pub(crate) fn legend(found: &Found) -> Vec<String> {
    let mut lines = vec![
        "left (L/2) noise, right (1/rate - L/2) |∇R|²: a step is expected to lower the risk if \
         left <= right;"
            .to_owned(),
        "right, momentum: with rate / (1 - momentum)".to_owned(),
    ];
    let Some((_, gradients)) = found.points.first() else { return lines };
    let all = || found.points.iter().map(|(_, gradients)| gradients);
    let Gradients { images, batch, .. } = gradients;
    let steps = all().map(|g| g.steps).max().unwrap_or_default();
    let seen = if found.augmented { " (augmented)" } else { "" };
    lines.push(format!(
        "{images} of {} training images{seen}, mini-batches of {batch}, L over {steps} steps",
        found.population
    ));
    lines.push(
        "curvature: what the gradient changes by along the step; L: what it changes by in all, \
         which a sample of the images makes too large"
            .to_owned(),
    );
    lines.push(
        "±: the standard error, of |∇R|² from a sample, of L and curvature over steps; unclear: \
         left and right differ by less than two standard errors"
            .to_owned(),
    );
    if all().any(|g| g.covariance.is_none()) {
        lines.push("two mini-batches tell no standard error: take more --images".to_owned());
    }
    if all().any(|g| g.lipschitz_error.is_none()) {
        lines.push("one step tells no standard error of L: take more --steps".to_owned());
    }
    if all().any(|g| g.squared_norm <= 0.0) {
        lines.push(
            "|∇R|² is not above its own noise where it is not above 0: take more --images"
                .to_owned(),
        );
    }
    lines
}

/// Distances and cosines, pair by pair, with numbers as they are to be written.
pub(crate) fn pairs(found: &Found, number: fn(f64) -> String) -> Vec<Vec<String>> {
    let head = ["cycle", "from", "to", "distance", "cosine"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (view, angles) in &found.angles {
        let mut row = |from: &dyn ToString, to: &dyn ToString, distance, cosine: Option<f64>| {
            let cosine = cosine.map(number).unwrap_or_default();
            let cells = [view.cycle.to_string(), from.to_string(), to.to_string()];
            rows.push([&cells[..], &[number(distance), cosine]].concat());
        };
        for (name, length) in view.names.iter().zip(&angles.lengths) {
            row(&view.from, name, *length, None);
        }
        for (i, from) in view.names.iter().enumerate() {
            for (j, to) in view.names.iter().enumerate().skip(i + 1) {
                row(from, to, angles.distances[i][j], angles.cosines[i][j]);
            }
        }
    }
    rows
}

/// Everything, as one object.
pub(crate) fn json(run: &Path, found: &Found, files: &[PathBuf]) -> Value {
    let points: Vec<Value> = found.points.iter().map(|point| point_json(found, point)).collect();
    let angles = found.angles.iter().map(|(view, angles)| {
        let names: Vec<String> = view.names.iter().map(ToString::to_string).collect();
        json!({
            "cycle": view.cycle, "from": view.from.to_string(), "weights": names,
            "lengths": angles.lengths, "distances": angles.distances, "cosines": angles.cosines,
        })
    });
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    json!({
        "run": run.display().to_string(), "training_images": found.population,
        "augmented": found.augmented, "notes": found.notes,
        "momentum": found.momentum, "points": points, "angles": angles.collect::<Vec<_>>(),
        "files": files,
    })
}

fn point_json(found: &Found, (place, gradients): &(Place, Gradients)) -> Value {
    let plain = gradients.condition(place.rate);
    let rate = found.lasting(place.rate);
    let lasting = gradients.condition(rate);
    json!({
        "cycle": place.cycle, "position": place.position.word(), "model": place.position.model(),
        "weights": place.name.to_string(), "step": place.step, "rate": place.rate,
        "risk": gradients.risk, "squared_norm": gradients.squared_norm,
        "squared_norm_error": gradients.squared_norm_error(),
        "noise": gradients.noise, "noise_error": gradients.noise_error(),
        "lipschitz": gradients.lipschitz, "lipschitz_error": gradients.lipschitz_error,
        "curvature": gradients.curvature, "curvature_error": gradients.curvature_error,
        "left": plain.left, "right": plain.right, "difference_error": plain.error,
        "holds": answer(plain),
        "with_momentum": {
            "rate": rate, "right": lasting.right, "difference_error": lasting.error,
            "holds": answer(lasting),
        },
        "images": gradients.images, "batch": gradients.batch, "steps": gradients.steps,
    })
}

/// `condition.csv`
pub(crate) fn condition_csv(found: &Found) -> String {
    let mut text = "cycle,position,model,weights,step,rate,risk,squared_norm,squared_norm_error,\
                    noise,noise_error,lipschitz,lipschitz_error,curvature,curvature_error,left,\
                    right,difference_error,holds,momentum_rate,momentum_right,\
                    momentum_difference_error,momentum_holds,images,batch,steps\n"
        .to_owned();
    let known = |number: Option<f64>| number.map(|n| n.to_string()).unwrap_or_default();
    let sides = |condition: Condition| {
        format!("{},{},{}", condition.right, known(condition.error), answer(condition))
    };
    for (place, gradients) in &found.points {
        let plain = gradients.condition(place.rate);
        let lasting = found.lasting(place.rate);
        let model = place.position.model().map(|model| model.to_string()).unwrap_or_default();
        let Place { cycle, position, name, step, rate } = place;
        let Gradients { risk, squared_norm, noise, images, batch, steps, .. } = gradients;
        let Gradients { lipschitz, curvature, .. } = gradients;
        let _ = writeln!(
            text,
            "{cycle},{},{model},{name},{step},{rate},{risk},{squared_norm},{},{noise},{},\
             {lipschitz},{},{curvature},{},{},{},{lasting},{},{images},{batch},{steps}",
            position.word(),
            known(gradients.squared_norm_error()),
            known(gradients.noise_error()),
            known(gradients.lipschitz_error),
            known(gradients.curvature_error),
            plain.left,
            sides(plain),
            sides(gradients.condition(lasting)),
        );
    }
    text
}

/// `angles.csv`
pub(crate) fn angles_csv(found: &Found) -> String {
    let mut text = "cycle,from,to,distance,cosine\n".to_owned();
    for row in pairs(found, |number| number.to_string()).iter().skip(1) {
        let _ = writeln!(text, "{}", row.join(","));
    }
    text
}

/// A number with four digits that count.
pub(crate) fn short(number: f64) -> String {
    rounded(number, 4)
}

/// A number with so many digits that count.
fn rounded(number: f64, digits: usize) -> String {
    let size = number.abs();
    let behind = digits.saturating_sub(1);
    match size {
        0.0 => "0".to_owned(),
        1e-3..1e4 => {
            let behind = (behind as i32 - size.log10().floor() as i32).max(0) as usize;
            format!("{number:.behind$}")
        }
        _ => format!("{number:.behind$e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_that_count() {
        let cases = [(0.0, "0"), (1.0, "1.000"), (-12.3456, "-12.35"), (9999.0, "9999")];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
        assert_eq!(
            [0.001, 0.000_123_45, 123_456.0].map(short),
            ["0.001000", "1.234e-4", "1.235e5"]
        );
    }

    #[test]
    fn an_error_is_shown_where_there_is_one() {
        assert_eq!(with_error(0.75, Some(0.0)), "0.7500", "all images");
        assert_eq!(with_error(0.75, Some(0.0123)), "0.7500 ± 0.012");
        assert_eq!(with_error(-12.0, Some(345.6)), "-12.00 ± 346");
        assert_eq!(with_error(1e-5, Some(1.26e-6)), "1.000e-5 ± 1.3e-6");
        assert_eq!(with_error(0.75, None), "0.7500 ± ?");
    }
}
