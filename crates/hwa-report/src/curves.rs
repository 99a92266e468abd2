//! Accuracy by cycle, read from events.

use hwa_train::{Event, Judged};

use crate::ReportError;

/// What a curve's weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The models' own weights.
    Inner,
    /// Their averages; of one model, its weights.
    Outer,
    /// The averages of these, by the plan's window.
    Hwa(usize),
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What it shows.
    pub level: Level,
    /// Its name in the legend.
    pub name: String,
    /// Cycle and top-1 accuracy in percent, in the order of the cycles.
    pub points: Vec<(usize, f64)>,
}

/// The validation accuracy of inner, outer and HWA weights by cycle.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curves {
    /// Inner weights (if they were judged), outer weights, then each window.
    pub curves: Vec<Curve>,
    /// The chosen cycle and its accuracy.
    pub chosen: Option<(usize, f64)>,
    /// Models trained; 0 if the events do not say.
    pub num_models: usize,
    /// What one model is judged by; empty if the events do not say.
    pub offers: String,
}

impl Curves {
    /// Reads the text of an `events.jsonl`.
    pub fn from_events(text: &str) -> Result<Self, ReportError> {
        let mut curves = Self::default();
        for (index, line) in text.lines().enumerate() {
            let event = serde_json::from_str(line)
                .map_err(|source| ReportError::Event { line: index + 1, source })?;
            curves.add(&event);
        }
        Ok(curves)
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Started(started) => {
                self.num_models = started.num_models;
                self.offers.clone_from(&started.offers);
            }
            Event::Judged(judged) => self.add_judged(judged),
            _ => {}
        }
    }

    fn add_judged(&mut self, judged: &Judged) {
        let cycle = judged.cycle;
        // One model has no hierarchy: its levels go by other names.
        let single = self.num_models == 1;
        if !judged.inner.is_empty() {
            let sum: f64 = judged.inner.iter().map(|e| e.top1).sum();
            let name = if single { "model, running statistics" } else { "inner (mean)" };
            self.push(Level::Inner, name, (cycle, sum / judged.inner.len() as f64));
        }
        if let Some(outer) = judged.outer {
            let name = match (single, self.offers.clone()) {
                (false, _) => "outer".to_owned(),
                (true, unsaid) if unsaid.is_empty() => "model".to_owned(),
                (true, offers) => offers,
            };
            self.push(Level::Outer, &name, (cycle, outer.top1));
        }
        for window in &judged.hwa {
            let averaged = if single { "average" } else { "HWA" };
            let name = match window.length {
                Some(length) => format!("{averaged}, window {length}"),
                None => "average of all samples".to_owned(),
            };
            self.push(Level::Hwa(window.window), &name, (cycle, window.evaluation.top1));
        }
        self.chosen = judged.chosen.map(|c| (c.cycle, 100.0 * c.score.accuracy)).or(self.chosen);
    }

    fn push(&mut self, level: Level, name: &str, point: (usize, f64)) {
        match self.curves.iter_mut().find(|curve| curve.level == level) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve { level, name: name.to_owned(), points: vec![point] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = concat!(
        r#"{"event":"stopped_early","cycle":9}"#,
        "\n",
        r#"{"event":"judged","cycle":2,"inner":[],"outer":{"top1":50.0,"top5":90.0,"loss":1.0,"#,
        r#""images":10,"recalibration":null},"hwa":[{"window":0,"length":5,"members":2,"#,
        r#""evaluation":{"top1":60.0,"top5":90.0,"loss":"NaN","images":10,"recalibration":null}}],"#,
        r#""chosen":{"cycle":2,"window":0,"score":{"accuracy":0.6,"loss":1.0}},"#,
        r#""time":{"seconds":1.0}}"#,
        "\n",
    );

    #[test]
    fn curves_are_read_by_level_and_window() {
        let curves = Curves::from_events(EVENTS).unwrap();
        let curve = |level, name: &str, top1| {
            let (name, points) = (name.to_owned(), vec![(2, top1)]);
            Curve { level, name, points }
        };
        let outer = curve(Level::Outer, "outer", 50.0);
        assert_eq!(curves.curves, [outer, curve(Level::Hwa(0), "HWA, window 5", 60.0)]);
        assert_eq!(curves.chosen, Some((2, 60.0)));
    }

    #[test]
    fn one_model_has_no_outer_weights() {
        let text = format!("{}\n{EVENTS}", r#"{"event":"started","num_models":1}"#);
        let names = Curves::from_events(&text).unwrap().curves;
        let names: Vec<&str> = names.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["model", "average, window 5"]);
        let started = r#"{"event":"started","num_models":1,"offers":"slow weights"}"#;
        let named = Curves::from_events(&format!("{started}\n{EVENTS}")).unwrap().curves;
        assert_eq!(named[0].name, "slow weights");
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = Curves::from_events("{}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 1 of the events: "), "{error}");
    }

    #[test]
    fn the_figure_shows_every_curve_and_the_choice() {
        let svg = Curves::from_events(EVENTS).unwrap().to_svg("digits").unwrap();
        for text in ["<svg", "</svg>", "outer", "HWA, window 5", "digits", "chosen", "cycle"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(Curves::default().to_svg("empty").unwrap().contains("</svg>"));
    }
}
