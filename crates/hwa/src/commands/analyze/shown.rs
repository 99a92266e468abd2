//! What was found, for people and for programs: tables, JSON, comma-separated values.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hwa_study::Gradients;
use serde_json::{Value, json};

use super::Found;
use super::cycles::{Place, Position};
use crate::table::aligned;

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
    let _ = writeln!(text, "\n{}", legend(found));
    if !found.angles.is_empty() {
        let pairs = aligned(&pairs(found, short));
        let _ = write!(text, "\n{pairs}\ncosine: of their ways from the start of the cycle");
    }
    text.trim_end().to_owned()
}

/// The condition at each of the points, under heads.
pub(crate) fn conditions(found: &Found) -> Vec<Vec<String>> {
    let head = ["", "weights", "rate", "risk", "|∇R|²", "noise", "L", "left", "right", "holds"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows[0].extend(["right, momentum".to_owned(), "holds".to_owned()]);
    for (place, gradients) in &found.points {
        let plain = gradients.condition(place.rate);
        let lasting = gradients.condition(found.lasting(place.rate));
        let yes = |holds| if holds { "yes" } else { "no" }.to_owned();
        let mut row = vec![place.title(), place.name.to_string()];
        let Gradients { risk, squared_norm, noise, lipschitz, .. } = *gradients;
        row.extend([place.rate, risk, squared_norm, noise, lipschitz].map(short));
        row.extend([short(plain.left), short(plain.right), yes(plain.holds())]);
        row.extend([short(lasting.right), yes(lasting.holds())]);
        rows.push(row);
    }
    rows
}

/// What the columns are.
fn legend(found: &Found) -> String {
    let mut text = "left (L/2) noise, right (1/rate - L/2) |∇R|²: a step is expected to lower the \
                    risk if left <= right;\nright, momentum: with rate / (1 - momentum)"
        .to_owned();
    if let Some((_, gradients)) = found.points.first() {
        let Gradients { images, batch, .. } = gradients;
        let steps = found.points.iter().map(|(_, g)| g.steps).max().unwrap_or_default();
        let _ = write!(
            text,
            "\n{images} of {} training images, mini-batches of {batch}, L over {steps} steps",
            found.population
        );
    }
    if found.points.iter().any(|(_, gradients)| gradients.squared_norm <= 0.0) {
        text.push_str(
            "\n|∇R|² is not above its own noise where it is not above 0: take more --images",
        );
    }
    text
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
        "noise": gradients.noise, "lipschitz": gradients.lipschitz,
        "left": plain.left, "right": plain.right, "holds": plain.holds(),
        "with_momentum": { "rate": rate, "right": lasting.right, "holds": lasting.holds() },
        "images": gradients.images, "batch": gradients.batch, "steps": gradients.steps,
    })
}

/// `condition.csv`
pub(crate) fn condition_csv(found: &Found) -> String {
    let mut text = "cycle,position,model,weights,step,rate,risk,squared_norm,noise,lipschitz,left,\
                    right,holds,momentum_rate,momentum_right,momentum_holds,images,batch,steps\n"
        .to_owned();
    for (place, gradients) in &found.points {
        let plain = gradients.condition(place.rate);
        let rate = found.lasting(place.rate);
        let lasting = gradients.condition(rate);
        let model = place.position.model().map(|model| model.to_string()).unwrap_or_default();
        let Place { cycle, position, name, step, .. } = place;
        let Gradients { risk, squared_norm, noise, lipschitz, images, batch, steps } = gradients;
        let _ = writeln!(
            text,
            "{cycle},{},{model},{name},{step},{},{risk},{squared_norm},{noise},{lipschitz},{},{},\
             {},{rate},{},{},{images},{batch},{steps}",
            position.word(),
            place.rate,
            plain.left,
            plain.right,
            plain.holds(),
            lasting.right,
            lasting.holds(),
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
    let size = number.abs();
    match size {
        0.0 => "0".to_owned(),
        1e-3..1e4 => {
            let digits = (3 - size.log10().floor() as i32).max(0) as usize;
            format!("{number:.digits$}")
        }
        _ => format!("{number:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

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
}
