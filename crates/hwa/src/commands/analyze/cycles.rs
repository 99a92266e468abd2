//! Which weights of a run are looked at, where they stand in it, and what they are compared with.

use hwa_core::Plan;
use hwa_train::{Descent, Method, Settings};

use crate::failure::Failure;
use crate::shelf::{Name, Shelf};

/// Where weights stand in a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Where all models begin: the average of the cycle before.
    Start,
    /// A model at the end.
    End(usize),
    /// The average of the models at the end.
    Average,
}

/// Weights of a run that are looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub(crate) cycle: usize,
    pub(crate) position: Position,
    pub(crate) name: Name,
    /// Steps that were made before.
    pub(crate) step: u64,
    /// The rate of the step that comes next; at the end of the run, of the last one.
    pub(crate) rate: f64,
}

/// Weights of a cycle, and where they are seen from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) cycle: usize,
    pub(crate) from: Name,
    pub(crate) names: Vec<Name>,
}

/// What is looked at.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) places: Vec<Place>,
    pub(crate) views: Vec<View>,
    /// What the reader should know, a line each.
    pub(crate) notes: Vec<String>,
}

/// What a run keeps.
struct Stock {
    outer: Vec<usize>,
    /// Cycle and model of inner weights at the end of a cycle.
    inner: Vec<(usize, usize)>,
}

/// The weights of the cycles that are asked for; of those whose inner weights are kept, or of
/// the first, the middle and the last, if none are.
pub(crate) fn choose(
    asked: &[usize],
    method: Method,
    Settings { plan, descent, .. }: &Settings,
    shelf: &Shelf,
) -> Result<Chosen, Failure> {
    let ends = |cycle: usize, step: u64| plan.cycle(cycle).is_some_and(|c| c.end == step);
    let inner = shelf.inner_positions()?.into_iter().filter(|at| ends(at.cycle, at.step));
    let stock = Stock {
        outer: shelf.outer_cycles()?,
        inner: inner.map(|at| (at.cycle, at.replica)).collect(),
    };
    let mut chosen = Chosen::default();
    for cycle in stock.cycles(asked, &mut chosen.notes)? {
        stock.add(cycle, plan, &mut chosen)?;
    }
    chosen.notes.extend(beyond_the_condition(method, *descent));
    Ok(chosen)
}

/// Where training is not what the condition is about: plain SGD that goes on from averages.
fn beyond_the_condition(method: Method, descent: Descent) -> Vec<String> {
    let mut notes = Vec::new();
    if !method.restarts_from_the_average() {
        notes.push(format!(
            "models do not go on from the average with method {}: the start of a cycle is the \
             average of the one before, where no model stands",
            method.name()
        ));
    }
    if let Descent::SharpnessAware { rho } = descent {
        notes.push(format!(
            "steps were those of SAM, along gradients {rho} away: noise, L and curvature are of \
             steps along the gradient where the weights are, which this run has not made"
        ));
    }
    notes
}

impl Stock {
    fn cycles(&self, asked: &[usize], notes: &mut Vec<String>) -> Result<Vec<usize>, Failure> {
        let mut cycles = asked.to_vec();
        if asked.is_empty() {
            cycles = self.inner.iter().map(|(cycle, _)| *cycle).collect();
        }
        if cycles.is_empty() {
            let (Some(first), Some(last)) = (self.outer.first(), self.outer.last()) else {
                return Err(Failure::usage("the run keeps no weights yet: it has no whole cycle"));
            };
            cycles = vec![*first, self.outer[self.outer.len() / 2], *last];
            notes.push(
                "the ends of cycles are left out: inner weights were not kept \
                 (checkpoints.inner_cycles)"
                    .to_owned(),
            );
        }
        cycles.sort_unstable();
        cycles.dedup();
        Ok(cycles)
    }

    /// Adds what is kept of a cycle.
    fn add(&self, number: usize, plan: &Plan, chosen: &mut Chosen) -> Result<(), Failure> {
        let Some(cycle) = plan.cycle(number) else {
            let last = plan.num_cycles();
            return Err(Failure::usage(format!(
                "--cycles: found {number}, expected cycles of the run, 1 to {last}"
            )));
        };
        let places = self.places(number, cycle.start, cycle.end);
        if places.is_empty() {
            return Err(Failure::usage(format!(
                "--cycles: the run keeps no weights of cycle {number}; checkpoints.outer_every and \
                 checkpoints.inner_cycles choose what is kept"
            )));
        }
        for (position, name, step) in places {
            let rate = plan.schedule.rate(step.min(plan.max_steps.get() - 1));
            chosen.places.push(Place { cycle: number, position, name, step, rate });
        }
        match self.before(number) {
            Some(before) => chosen.views.push(View {
                cycle: number,
                from: Name::Outer(Some(before)),
                names: self.names(number, plan),
            }),
            None => chosen.notes.push(no_start(number)),
        }
        Ok(())
    }

    /// The cycle whose average a cycle starts from, if it is kept.
    fn before(&self, cycle: usize) -> Option<usize> {
        cycle.checked_sub(1).filter(|before| self.outer.contains(before))
    }

    /// The models that are kept at the end of a cycle.
    fn models(&self, cycle: usize) -> impl Iterator<Item = usize> {
        self.inner.iter().filter(move |(c, _)| *c == cycle).map(|(_, model)| *model)
    }

    /// The weights of a cycle that are kept, with the steps made before.
    fn places(&self, cycle: usize, start: u64, end: u64) -> Vec<(Position, Name, u64)> {
        let before =
            self.before(cycle).map(|before| (Position::Start, Name::Outer(Some(before)), start));
        let models = self
            .models(cycle)
            .map(|model| (Position::End(model), Name::Inner(cycle, model, None), end));
        let average = self.outer.contains(&cycle).then_some((
            Position::Average,
            Name::Outer(Some(cycle)),
            end,
        ));
        before.into_iter().chain(models).chain(average).collect()
    }

    /// Inner, outer and HWA weights of a cycle, as far as they are kept.
    fn names(&self, cycle: usize, plan: &Plan) -> Vec<Name> {
        let inner = self.models(cycle).map(|model| Name::Inner(cycle, model, None));
        let outer = self.outer.contains(&cycle).then_some(Name::Outer(Some(cycle)));
        let window = plan.windows.first().filter(|window| {
            let members = window.oldest(cycle)..=cycle;
            let mut members = members.filter(|c| c.is_multiple_of(window.stride.get())).peekable();
            members.peek().is_some() && members.all(|member| self.outer.contains(&member))
        });
        let hwa = window.map(|_| Name::Hwa(Some(cycle), None));
        inner.chain(outer).chain(hwa).collect()
    }
}

/// That a cycle has no start to look at.
fn no_start(cycle: usize) -> String {
    match cycle {
        0 | 1 => "cycle 1: its start, the initial weights, is not kept: no angles are seen from it"
            .to_owned(),
        _ => format!(
            "cycle {cycle}: its start, outer:{}, is not kept (checkpoints.outer_every)",
            cycle - 1
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU64, NonZeroUsize};

    use hwa_core::{Decay, Schedule, WindowSpec};

    use super::*;

    /// Four cycles of 5 steps, the last one shorter.
    fn plan() -> Plan {
        Plan {
            num_models: NonZeroUsize::MIN,
            max_steps: NonZeroU64::new(18).unwrap(),
            sync_period: NonZeroU64::new(5).unwrap(),
            schedule: Schedule::new(1.8, Decay::Linear { floor: 0.0 }, 18).unwrap(),
            windows: vec![WindowSpec::sliding(NonZeroUsize::new(2).unwrap())],
        }
    }

    fn chosen(stock: &Stock, cycles: &[usize]) -> Chosen {
        let mut chosen = Chosen::default();
        cycles.iter().for_each(|cycle| stock.add(*cycle, &plan(), &mut chosen).unwrap());
        chosen
    }

    #[test]
    fn a_cycle_has_its_start_its_models_and_its_average_with_the_rate_of_the_next_step() {
        let stock = Stock { outer: vec![1, 2, 3, 4], inner: vec![(3, 0), (3, 1), (4, 0)] };
        let Chosen { places, views, notes } = chosen(&stock, &[3, 4]);
        let told: Vec<(String, u64, f64)> =
            places.iter().map(|p| (p.name.to_string(), p.step, (p.rate * 10.0).round())).collect();
        let expected = [
            ("outer:2", 10, 8.0),
            ("inner:3:0", 15, 3.0),
            ("inner:3:1", 15, 3.0),
            ("outer:3", 15, 3.0),
            ("outer:3", 15, 3.0),
            ("inner:4:0", 18, 1.0), // there is no next step
            ("outer:4", 18, 1.0),
        ];
        assert_eq!(told, expected.map(|(name, step, rate)| (name.to_owned(), step, rate)));
        let names: Vec<String> = views[0].names.iter().map(Name::to_string).collect();
        assert_eq!(names, ["inner:3:0", "inner:3:1", "outer:3", "hwa:3"]);
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn what_is_not_kept_is_told() {
        let stock = Stock { outer: vec![1, 3], inner: vec![] };
        let Chosen { places, views, notes } = chosen(&stock, &[1, 3]);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(views.is_empty(), "nothing to see from");
        assert!(notes[0].starts_with("cycle 1: its start, the initial weights"), "{notes:?}");
        assert!(notes[1].starts_with("cycle 3: its start, outer:2, is not kept"), "{notes:?}");
        let error = |cycle| stock.add(cycle, &plan(), &mut Chosen::default()).unwrap_err();
        let none = Stock { outer: vec![1], inner: vec![] };
        let nothing = none.add(3, &plan(), &mut Chosen::default()).unwrap_err().to_string();
        assert!(nothing.contains("keeps no weights of cycle 3"), "{nothing}");
        for cycle in [0, 5, usize::MAX] {
            assert!(error(cycle).to_string().contains("1 to 4"));
        }
    }

    #[test]
    fn training_that_the_condition_is_not_about_is_told() {
        let (plain, sam) = (Descent::Plain, Descent::SharpnessAware { rho: 0.05 });
        assert!(beyond_the_condition(Method::Hwa, plain).is_empty());
        let one = beyond_the_condition(Method::Sam, sam);
        let [note] = &one[..] else { panic!("{one:?}") };
        assert!(note.starts_with("steps were those of SAM, along gradients 0.05 away"), "{note}");
        // Any method can descend like that.
        assert_eq!(beyond_the_condition(Method::Hwa, sam), one);
        let [average, steps] = &beyond_the_condition(Method::Ema, sam)[..] else { panic!("two") };
        assert!(average.contains("with method ema") && steps == note, "{average}");
    }

    #[test]
    fn without_inner_weights_the_first_the_middle_and_the_last_cycle_are_taken() {
        let mut notes = Vec::new();
        let stock = Stock { outer: (1..=9).collect(), inner: vec![] };
        assert_eq!(stock.cycles(&[], &mut notes).unwrap(), [1, 5, 9]);
        assert!(notes[0].contains("checkpoints.inner_cycles"));
        let inner = Stock { outer: vec![], inner: vec![(4, 0), (4, 1), (7, 0)] };
        assert_eq!(inner.cycles(&[], &mut notes).unwrap(), [4, 7]);
        assert_eq!(inner.cycles(&[7, 2, 7], &mut notes).unwrap(), [2, 7]);
        let nothing = Stock { outer: vec![], inner: vec![] };
        assert!(nothing.cycles(&[], &mut notes).is_err());
    }
}
