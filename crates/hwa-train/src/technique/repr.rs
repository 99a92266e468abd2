//! RePr: filters that overlap with others are dropped for a while, and come back different.

use std::collections::BTreeMap;

use hwa_core::seed::{Purpose, Random};
use hwa_core::{OuterWeights, Role, Tensor, Values, Weights, WeightsError};
use hwa_data::{Batch, Position};

use super::filters::{is_convolution, layers};
use super::{Averaging, Technique, TechniqueError};
use crate::collective::Collective;
use crate::descent::Descent;
use crate::replica::{Replica, ReplicaError, Step, StepStats};

/// What is left of a direction that lies in the span of others, relative to it.
const NOTHING_LEFT: f64 = 1e-6;

/// Trains the whole network, then without the filters that overlap most with others of their
/// layer, ranked over the whole network, then with them again, begun anew and orthogonal to the
/// others; several times.
///
/// With the filters of a layer as rows of unit length in `W`, the overlap of filter `f` is the
/// sum of row `f` of `|W W' - 1|`, divided by the number of filters. The batch norm behind a
/// filter is dropped with it, and begins again as at first.
///
/// A. Prakash and others, "RePr: Improved Training of Convolutional Filters", CVPR 2019.
#[derive(Debug, Clone)]
pub struct RePr {
    share: f64,
    stages: Vec<Stage>,
    /// By the name of the convolution; empty while the whole network trains.
    dropped: BTreeMap<String, Dropped>,
}

/// When filters are dropped and when they come back, in steps that were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// After this many steps.
    pub drop: u64,
    /// After this many.
    pub revive: u64,
}

/// What is missing in a layer.
#[derive(Debug, Clone, PartialEq)]
struct Dropped {
    /// By filter.
    missing: Vec<bool>,
    /// The convolution when they were dropped.
    before: Tensor,
}

impl RePr {
    /// Drops this share of all filters in each stage.
    pub fn new(share: f64, stages: Vec<Stage>) -> Self {
        Self { share, stages, dropped: BTreeMap::new() }
    }

    fn drop_filters(&mut self, model: &mut dyn Replica) -> Result<(), ReplicaError> {
        let weights = model.weights()?;
        let mut ranking = Vec::new();
        for (name, tensor) in weights.iter().filter(|(_, tensor)| is_convolution(tensor)) {
            let overlaps = overlaps(&filters(tensor));
            ranking.extend(overlaps.into_iter().enumerate().map(|(f, o)| (o, name, f)));
        }
        // The greatest first; of equals the first by name.
        ranking.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(&b.2)));
        let mut left = (self.share * ranking.len() as f64) as usize;
        for (_, name, filter) in ranking {
            if left == 0 {
                break;
            }
            let before = weights.require(name)?;
            let entry = self.dropped.entry(name.to_owned()).or_insert_with(|| Dropped {
                missing: vec![false; before.shape()[0]],
                before: before.clone(),
            });
            // A layer without any filter would cut the network in two.
            if entry.missing.iter().filter(|missing| !**missing).count() > 1 {
                entry.missing[filter] = true;
                left -= 1;
            }
        }
        Ok(())
    }

    /// Keeps what is dropped at zero, and its momentum.
    fn silence(&self, model: &mut dyn Replica) -> Result<(), ReplicaError> {
        let names = model.parameters()?;
        let silent = |tensors: Weights| self.changed(&names, tensors, |_, _, _| 0.0);
        let weights = silent(model.weights()?)?;
        let momentum = silent(model.momentum()?)?;
        model.load(&weights)?;
        model.load_momentum(&momentum)
    }

    /// Brings filters back, orthogonal to those that stayed and to what they were.
    fn revive(&mut self, model: &mut dyn Replica, at: Position) -> Result<(), ReplicaError> {
        let weights = model.weights()?;
        let mut fresh = BTreeMap::new();
        for (number, (name, dropped)) in self.dropped.iter().enumerate() {
            let tensor = weights.require(name)?;
            let place = |filter: usize| [at.step, (number as u64) << 32 | filter as u64];
            let draw = |filter| Random::new(at.seed, at.replica, Purpose::Revive, place(filter));
            fresh.insert(name.as_str(), revived(tensor, dropped, draw));
        }
        let names = model.parameters()?;
        let back = self.changed(&names, weights, |name, filter, within| match fresh.get(name) {
            Some(filters) => filters[&filter][within],
            // Batch norm begins with factors of one and offsets of zero.
            None if name.ends_with("weight") => 1.0,
            None => 0.0,
        })?;
        model.load(&back)?;
        self.dropped.clear();
        Ok(())
    }

    /// Tensors with other values where filters are dropped: by name, filter, and place in it.
    fn changed(
        &self,
        names: &[String],
        tensors: Weights,
        value: impl Fn(&str, usize, usize) -> f64,
    ) -> Result<Weights, ReplicaError> {
        let mut affected: BTreeMap<String, &Dropped> = BTreeMap::new();
        for layer in layers(names, &tensors)? {
            let Some(dropped) = self.dropped.get(&layer.filters) else { continue };
            let is_of_filters = |name: &&String| {
                let shape = tensors.get(name).map(Tensor::shape);
                shape.is_some_and(|shape| shape == [dropped.missing.len()])
            };
            let norm = layer.followers.iter().take_while(is_of_filters);
            affected.extend(norm.map(|name| (name.clone(), dropped)));
            affected.insert(layer.filters, dropped);
        }
        let mut changed = Weights::new();
        for (name, tensor) in tensors {
            let Some(dropped) = affected.get(&name) else {
                changed.insert(name, tensor)?;
                continue;
            };
            let (role, shape) = (tensor.role(), tensor.shape().to_vec());
            let kind = tensor.values().value_type();
            let mut values = tensor.values().to_f64();
            let length = values.len() / dropped.missing.len().max(1);
            for (filter, part) in values.chunks_mut(length.max(1)).enumerate() {
                if dropped.missing[filter] {
                    for (within, x) in part.iter_mut().enumerate() {
                        *x = value(&name, filter, within);
                    }
                }
            }
            changed.insert(name, Tensor::new(role, shape, Values::rounded(kind, values))?)?;
        }
        Ok(changed)
    }
}

impl Technique for RePr {
    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        descent: Descent,
    ) -> Result<StepStats, ReplicaError> {
        let stats = descent.step(model, batch, at)?;
        let made = at.position.step + 1;
        let (drops, revives) = (
            self.stages.iter().any(|stage| stage.drop == made),
            self.stages.iter().any(|stage| stage.revive == made),
        );
        if drops {
            self.drop_filters(model)?;
        }
        if !self.dropped.is_empty() {
            self.silence(model)?;
        }
        if revives {
            self.revive(model, at.position)?;
        }
        Ok(stats)
    }

    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        Averaging::default().go_on(model, outer, others)
    }

    fn state(&self) -> Result<Weights, WeightsError> {
        let mut state = Weights::new();
        for (name, Dropped { missing, before }) in &self.dropped {
            let missing: Vec<i64> = missing.iter().map(|missing| i64::from(*missing)).collect();
            let missing = Tensor::new(Role::Counter, vec![missing.len()], Values::I64(missing))?;
            state.insert(format!("{MISSING}{name}"), missing)?;
            state.insert(format!("{BEFORE}{name}"), before.clone())?;
        }
        Ok(state)
    }

    fn restore(&mut self, state: Weights) -> Result<(), WeightsError> {
        self.dropped.clear();
        for (name, tensor) in state.iter() {
            let Some(layer) = name.strip_prefix(MISSING) else { continue };
            let before = state.require(&format!("{BEFORE}{layer}"))?.clone();
            let missing: Vec<bool> = tensor.values().to_f64().iter().map(|x| *x != 0.0).collect();
            if before.shape().first() != Some(&missing.len()) {
                return Err(WeightsError::ShapesDiffer {
                    name: name.to_owned(),
                    expected: before.shape().iter().take(1).copied().collect(),
                    found: vec![missing.len()],
                });
            }
            self.dropped.insert(layer.to_owned(), Dropped { missing, before });
        }
        Ok(())
    }
}

const MISSING: &str = "missing.";
const BEFORE: &str = "before.";

/// The filters of a convolution as rows.
fn filters(tensor: &Tensor) -> Vec<Vec<f64>> {
    let values = tensor.values().to_f64();
    let length = values.len() / tensor.shape()[0].max(1);
    values.chunks(length.max(1)).map(<[f64]>::to_vec).collect()
}

/// How much each filter overlaps with the others.
fn overlaps(filters: &[Vec<f64>]) -> Vec<f64> {
    let unit: Vec<Vec<f64>> = filters.iter().map(|filter| scaled(filter, 1.0)).collect();
    let others = |f: usize| {
        let products = unit.iter().enumerate().filter(move |(g, _)| *g != f);
        products.map(|(_, other)| dot(&unit[f], other).abs()).sum::<f64>() / unit.len() as f64
    };
    (0..unit.len()).map(others).collect()
}

/// New filters by number, as long as those that stayed are on average.
fn revived(
    now: &Tensor,
    dropped: &Dropped,
    draw: impl Fn(usize) -> Random,
) -> BTreeMap<usize, Vec<f64>> {
    let (rows, before) = (filters(now), filters(&dropped.before));
    let with = |missing: bool| (0..rows.len()).filter(move |f| dropped.missing[*f] == missing);
    let length = with(false).map(|f| norm(&rows[f])).sum::<f64>() / with(false).count() as f64;
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let stayed = with(false).map(|f| &rows[f]);
    for direction in stayed.chain(with(true).map(|f| &before[f])) {
        basis.extend(beside(direction, &basis));
    }
    let mut fresh = BTreeMap::new();
    for filter in with(true) {
        let mut random = draw(filter);
        let drawn: Vec<f64> = (0..before[filter].len()).map(|_| random.normal()).collect();
        let direction = match beside(&drawn, &basis) {
            Some(direction) => {
                basis.push(direction.clone());
                direction
            }
            // A layer can have more filters than there are directions.
            None => drawn,
        };
        fresh.insert(filter, scaled(&direction, length));
    }
    fresh
}

/// The part of a direction that is orthogonal to all others, of unit length; `None` if there is
/// none.
fn beside(direction: &[f64], basis: &[Vec<f64>]) -> Option<Vec<f64>> {
    let mut left = direction.to_vec();
    // Twice: once leaves rounding errors.
    for other in basis.iter().chain(basis) {
        let share = dot(&left, other);
        left.iter_mut().zip(other).for_each(|(x, y)| *x -= share * y);
    }
    (norm(&left) > NOTHING_LEFT * norm(direction)).then(|| scaled(&left, 1.0))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// In the same direction, of this length; zero stays zero.
fn scaled(a: &[f64], length: f64) -> Vec<f64> {
    let factor = length / norm(a).max(f64::MIN_POSITIVE);
    a.iter().map(|x| x * factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(filters: &[[f32; 4]]) -> Tensor {
        let values = filters.iter().flatten().copied().collect();
        Tensor::parameter(vec![filters.len(), 1, 2, 2], values).unwrap()
    }

    #[test]
    fn overlap_is_the_sum_of_a_row_of_products() {
        // Two that are parallel, of opposite signs and other lengths, and one orthogonal to both.
        let layer = convolution(&[[2., 0., 0., 0.], [-5., 0., 0., 0.], [0., 0., 3., 0.]]);
        let found = overlaps(&filters(&layer));
        assert_eq!(found, [1.0 / 3.0, 1.0 / 3.0, 0.0]);
        let halfway = convolution(&[[1., 0., 0., 0.], [1., 1., 0., 0.]]);
        let found = overlaps(&filters(&halfway));
        assert!(found.iter().all(|o| (o - 0.5f64.sqrt() / 2.0).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn revived_filters_are_orthogonal_to_the_others_and_to_what_they_were() {
        let before = convolution(&[[1., 0., 0., 0.], [1., 1., 0., 0.], [0., 3., 0., 0.]]);
        let now = convolution(&[[2., 0., 0., 0.], [0., 0., 0., 0.], [0., 4., 0., 0.]]);
        let dropped = Dropped { missing: vec![false, true, false], before };
        let draw = |filter| Random::new(1, 0, Purpose::Revive, [7, filter as u64]);
        let fresh = revived(&now, &dropped, draw);
        assert_eq!(fresh.keys().copied().collect::<Vec<_>>(), [1]);
        // The first two directions are taken by filters that stayed.
        assert!(fresh[&1][..2].iter().all(|x| x.abs() < 1e-12), "{fresh:?}");
        assert!((norm(&fresh[&1]) - 3.0).abs() < 1e-12, "the mean length of the others");
    }

    #[test]
    fn where_no_direction_is_left_filters_are_drawn() {
        let before = convolution(&[
            [1., 0., 0., 0.],
            [0., 1., 0., 0.],
            [0., 0., 1., 0.],
            [0., 0., 0., 1.],
            [1., 1., 1., 1.],
        ]);
        let missing = vec![false, false, false, false, true];
        let dropped = Dropped { missing, before: before.clone() };
        let draw = |filter| Random::new(1, 0, Purpose::Revive, [7, filter as u64]);
        let fresh = revived(&before, &dropped, draw);
        assert!((norm(&fresh[&4]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_dropped_is_remembered() {
        let mut repr = RePr::new(0.3, Vec::new());
        let before = convolution(&[[1., 0., 0., 0.], [1., 1., 0., 0.]]);
        repr.dropped.insert("c".into(), Dropped { missing: vec![false, true], before });
        let mut again = RePr::new(0.3, Vec::new());
        again.restore(repr.state().unwrap()).unwrap();
        assert_eq!(again.dropped, repr.dropped);
        assert!(RePr::new(0.3, Vec::new()).state().unwrap().is_empty());
    }
}
