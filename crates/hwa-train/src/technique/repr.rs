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
/// filter is dropped with it, and begins again as the mean of those that stayed.
///
/// Short filters overlap more than long ones, whatever they have learned: among all filters of a
/// ResNet-20 nearly all of the first stages would be dropped. So the first convolution is left
/// out, depthwise ones are, whose filters see different images, and a layer loses at most half of
/// its filters.
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
        let (weights, names) = (model.weights()?, model.parameters()?);
        let mut ranking = Vec::new();
        for name in ranked(&names, &weights) {
            let overlaps = overlaps(&filters(weights.require(name)?));
            ranking.extend(overlaps.into_iter().enumerate().map(|(f, o)| (o, name, f)));
        }
        // The greatest first; of equals the first by name.
        ranking.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(&b.2)));
        let mut left = (self.share * ranking.len() as f64).round() as usize;
        for (_, name, filter) in ranking {
            if left == 0 {
                break;
            }
            let before = weights.require(name)?;
            let entry = self.dropped.entry(name.to_owned()).or_insert_with(|| Dropped {
                missing: vec![false; before.shape()[0]],
                before: before.clone(),
            });
            let missing = entry.missing.iter().filter(|missing| **missing).count();
            if 2 * (missing + 1) <= entry.missing.len() {
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
        let means = self.means_of_followers(&names, &weights)?;
        let back = self.changed(&names, weights, |name, filter, within| match fresh.get(name) {
            Some(filters) => filters[&filter][within],
            None => means.get(name).copied().unwrap_or_default(),
        })?;
        model.load(&back)?;
        self.dropped.clear();
        Ok(())
    }

    /// The mean over the filters that stayed, of what follows each layer.
    fn means_of_followers(
        &self,
        names: &[String],
        weights: &Weights,
    ) -> Result<BTreeMap<String, f64>, ReplicaError> {
        let mut means = BTreeMap::new();
        for (name, dropped) in self.affected(names, weights)? {
            let values = weights.require(&name)?.values().to_f64();
            let stayed = values.iter().zip(&dropped.missing).filter(|(_, missing)| !**missing);
            let (sum, count) =
                stayed.fold((0.0, 0u32), |(sum, count), (x, _)| (sum + x, count + 1));
            means.insert(name, sum / f64::from(count.max(1)));
        }
        Ok(means)
    }

    /// The tensors in which filters are dropped: convolutions, and the batch norms behind them.
    fn affected(
        &self,
        names: &[String],
        tensors: &Weights,
    ) -> Result<BTreeMap<String, &Dropped>, ReplicaError> {
        let mut affected: BTreeMap<String, &Dropped> = BTreeMap::new();
        for layer in layers(names, tensors)? {
            let Some(dropped) = self.dropped.get(&layer.filters) else { continue };
            let is_of_filters = |name: &&String| {
                let shape = tensors.get(name).map(Tensor::shape);
                shape.is_some_and(|shape| shape == [dropped.missing.len()])
            };
            let norm = layer.followers.iter().take_while(is_of_filters);
            affected.extend(norm.map(|name| (name.clone(), dropped)));
            affected.insert(layer.filters, dropped);
        }
        Ok(affected)
    }

    /// Tensors with other values where filters are dropped: by name, filter, and place in it.
    fn changed(
        &self,
        names: &[String],
        tensors: Weights,
        value: impl Fn(&str, usize, usize) -> f64,
    ) -> Result<Weights, ReplicaError> {
        let affected = self.affected(names, &tensors)?;
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

/// The convolutions whose filters are ranked, in the order of the network.
fn ranked<'a>(names: &'a [String], weights: &Weights) -> Vec<&'a String> {
    let convolution = |name: &&String| weights.get(name).is_some_and(is_convolution);
    let depthwise =
        |name: &String| weights.get(name).is_some_and(|t| t.shape()[1] == 1 && t.shape()[0] > 1);
    let mut ranked: Vec<&String> = names.iter().filter(convolution).collect();
    if ranked.len() > 1 {
        ranked.remove(0);
    }
    ranked.retain(|name| !depthwise(name));
    ranked
}

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
    let stayed: Vec<&Vec<f64>> = with(false).map(|f| &rows[f]).collect();
    // What a new filter is orthogonal to, as long as there are directions left: to those that
    // stayed, to what was dropped and to new ones; to the first and the last; to the first.
    let kept = extended(Vec::new(), &stayed);
    let before_too: Vec<&Vec<f64>> = with(true).map(|f| &before[f]).collect();
    let mut tiers = [extended(kept.clone(), &before_too), kept.clone(), kept];
    let mut fresh = BTreeMap::new();
    for filter in with(true) {
        let mut random = draw(filter);
        let drawn: Vec<f64> = (0..before[filter].len()).map(|_| random.normal()).collect();
        // A layer can have more filters than there are directions.
        let direction = tiers.iter().find_map(|basis| beside(&drawn, basis)).unwrap_or(drawn);
        for tier in &mut tiers[..2] {
            tier.extend(beside(&direction, tier));
        }
        fresh.insert(filter, scaled(&direction, length));
    }
    fresh
}

/// An orthonormal basis that spans these directions as well.
fn extended(mut basis: Vec<Vec<f64>>, directions: &[&Vec<f64>]) -> Vec<Vec<f64>> {
    for direction in directions {
        basis.extend(beside(direction, &basis));
    }
    basis
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
        let before = convolution(&[[1., 0., 0., 0.], [1., 1., 2., 0.], [0., 3., 0., 0.]]);
        let now = convolution(&[[2., 0., 0., 0.], [0., 0., 0., 0.], [0., 4., 0., 0.]]);
        let dropped = Dropped { missing: vec![false, true, false], before };
        let draw = |filter| Random::new(1, 0, Purpose::Revive, [7, filter as u64]);
        let fresh = revived(&now, &dropped, draw);
        assert_eq!(fresh.keys().copied().collect::<Vec<_>>(), [1]);
        // Two directions are taken by filters that stayed, a third by what was dropped.
        assert!(fresh[&1][..3].iter().all(|x| x.abs() < 1e-12), "{fresh:?}");
        assert!((norm(&fresh[&1]) - 3.0).abs() < 1e-12, "the mean length of the others");
    }

    #[test]
    fn where_directions_are_few_new_filters_are_orthogonal_to_those_that_stayed() {
        // Two stayed, and what was dropped spans the rest.
        let before = convolution(&[
            [1., 0., 0., 0.],
            [0., 1., 0., 0.],
            [1., 0., 1., 0.],
            [0., 1., 0., 1.],
            [0., 0., 1., 1.],
        ]);
        let missing = vec![false, false, true, true, true];
        let draw = |filter| Random::new(1, 0, Purpose::Revive, [7, filter as u64]);
        let fresh = revived(&before, &Dropped { missing, before: before.clone() }, draw);
        for filter in [2, 3, 4] {
            assert!(fresh[&filter][..2].iter().all(|x| x.abs() < 1e-12), "{fresh:?}");
        }
        // And to each other, as long as that goes: two directions are left for three.
        assert!(dot(&fresh[&2], &fresh[&3]).abs() < 1e-12, "{fresh:?}");
    }

    #[test]
    fn the_first_convolution_and_depthwise_ones_are_not_ranked() {
        let mut weights = Weights::new();
        for (name, shape) in [
            ("stem", vec![4, 3, 1, 1]),
            ("norm", vec![4]),
            ("depthwise", vec![4, 1, 3, 3]),
            ("pointwise", vec![8, 4, 1, 1]),
            ("linear", vec![2, 8]),
        ] {
            let values = vec![1.0; shape.iter().product()];
            weights.insert(name, Tensor::parameter(shape, values).unwrap()).unwrap();
        }
        let names: Vec<String> =
            ["stem", "norm", "depthwise", "pointwise", "linear"].map(str::to_owned).into();
        assert_eq!(ranked(&names, &weights), ["pointwise"]);
        assert_eq!(ranked(&names[..2], &weights), ["stem"], "where there is no other");
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
        // In the direction that comes out of the generator, as long as the others.
        let mut random = draw(4);
        let drawn: Vec<f64> = (0..4).map(|_| random.normal()).collect();
        let expected = drawn.iter().map(|x| x / norm(&drawn));
        assert!(fresh[&4].iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12), "{fresh:?}");
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
