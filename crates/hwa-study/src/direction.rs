//! Directions in the space of all parameters.

use std::collections::BTreeMap;

use hwa_core::seed::{Purpose, Random};
use hwa_core::{Role, Tensor, Weights, WeightsError};

use crate::error::StudyError;

/// A direction: for every parameter of a network, how far each of its elements moves. In `f64`,
/// so that a grid of points far out is as exact as the weights themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    tensors: BTreeMap<String, Vec<f64>>,
}

impl Direction {
    /// The way from some weights to others. Statistics and counters are no part of it. Weights
    /// that are not finite are refused: they would seem equal to others, or on a line with them.
    ///
    /// ```
    /// use hwa_core::{Tensor, Weights};
    /// use hwa_study::Direction;
    ///
    /// let weights = |values: [f32; 2]| {
    ///     let mut weights = Weights::new();
    ///     weights.insert("w", Tensor::parameter(vec![2], values.to_vec())?)?;
    ///     Ok::<_, hwa_core::WeightsError>(weights)
    /// };
    /// let way = Direction::between(&weights([1.0, 1.0])?, &weights([4.0, 5.0])?)?;
    /// assert_eq!(way.norm(), 5.0); // 3, 4, 5
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn between(from: &Weights, to: &Weights) -> Result<Self, StudyError> {
        finite(from)?;
        finite(to)?;
        let mut tensors = BTreeMap::new();
        for (name, start) in parameters(from) {
            let end = to.require(name)?;
            if start.shape() != end.shape() {
                let (expected, found) = (start.shape().to_vec(), end.shape().to_vec());
                let name = name.to_owned();
                return Err(WeightsError::ShapesDiffer { name, expected, found }.into());
            }
            let pairs = start.values().to_f64().into_iter().zip(end.values().to_f64());
            tensors.insert(name.to_owned(), pairs.map(|(start, end)| end - start).collect());
        }
        match parameters(to).find(|(name, _)| !tensors.contains_key(*name)) {
            Some((name, _)) => Err(WeightsError::Unexpected { name: name.to_owned() }.into()),
            None => Ok(Self { tensors }),
        }
    }

    /// A random direction on the scale of some weights, filter by filter: each filter of it is as
    /// long as that of the weights. So a network whose weights are scaled, which batch norm
    /// cannot feel, has the same picture. Vectors (biases, batch norm) do not move.
    ///
    /// The n-th direction of a seed is always the same. Weights that are not finite have no
    /// scale, and are refused.
    pub fn random(like: &Weights, seed: u64, number: u64) -> Result<Self, StudyError> {
        finite(like)?;
        let mut tensors = BTreeMap::new();
        for (place, (name, tensor)) in parameters(like).enumerate() {
            let mut random = Random::new(seed, 0, Purpose::Direction, [number, place as u64]);
            let values = tensor.values().to_f64();
            let filters = if tensor.shape().len() > 1 { tensor.shape()[0] } else { 0 };
            let mut drawn: Vec<f64> = match filters {
                0 => vec![0.0; values.len()],
                _ => values.iter().map(|_| random.normal()).collect(),
            };
            let size = values.len().checked_div(filters).unwrap_or(0).max(1);
            for (filter, own) in drawn.chunks_mut(size).zip(values.chunks(size)) {
                let length = norm(filter);
                let scale = if length > 0.0 { norm(own) / length } else { 0.0 };
                filter.iter_mut().for_each(|value| *value *= scale);
            }
            tensors.insert(name.to_owned(), drawn);
        }
        Ok(Self { tensors })
    }

    /// A gradient as a direction. What it does not name does not move.
    pub(crate) fn along(gradient: &Weights) -> Self {
        let tensors = parameters(gradient).map(|(name, t)| (name.to_owned(), t.values().to_f64()));
        Self { tensors: tensors.collect() }
    }

    /// Nowhere.
    pub(crate) fn zero(like: &Weights) -> Self {
        let zeros = |tensor: &Tensor| vec![0.0; tensor.values().len()];
        let tensors = parameters(like).map(|(name, tensor)| (name.to_owned(), zeros(tensor)));
        Self { tensors: tensors.collect() }
    }

    /// Its Euclidean length.
    pub fn norm(&self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The inner product with another direction of the same network.
    pub fn dot(&self, other: &Self) -> f64 {
        let products = self.tensors.iter().map(|(name, mine)| {
            let theirs = other.tensors.get(name).map_or(&[][..], |theirs| theirs);
            mine.iter().zip(theirs).map(|(a, b)| a * b).sum::<f64>()
        });
        products.sum()
    }

    /// The cosine of the angle to another direction; `None` if one of them has no length.
    pub fn cosine(&self, other: &Self) -> Option<f64> {
        let lengths = self.norm() * other.norm();
        (lengths > 0.0).then(|| (self.dot(other) / lengths).clamp(-1.0, 1.0))
    }

    /// Itself, so many times as long.
    pub fn times(mut self, factor: f64) -> Self {
        self.tensors.values_mut().flatten().for_each(|value| *value *= factor);
        self
    }

    /// Itself with so much of another direction added.
    pub fn plus(mut self, factor: f64, other: &Self) -> Self {
        for (name, mine) in &mut self.tensors {
            let theirs = other.tensors.get(name).map_or(&[][..], |theirs| theirs);
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += factor * b);
        }
        self
    }

    /// The elements of one parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&[f64]> {
        self.tensors.get(name).map(Vec::as_slice)
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Refuses parameters that are not finite, by name.
pub(crate) fn finite(weights: &Weights) -> Result<(), StudyError> {
    let found = parameters(weights).find(|(_, t)| t.values().first_non_finite().is_some());
    match found {
        Some((name, _)) => Err(StudyError::Diverged { tensor: name.to_owned() }),
        None => Ok(()),
    }
}

pub(crate) fn parameters(weights: &Weights) -> impl Iterator<Item = (&str, &Tensor)> {
    weights.iter().filter(|(_, tensor)| tensor.role() == Role::Parameter)
}

#[cfg(test)]
mod tests {
    use hwa_core::Values;

    use super::*;

    fn weights() -> Weights {
        let mut weights = Weights::new();
        let filters = (0..12).map(|x| x as f32 - 4.0).collect();
        weights.insert("conv.weight", Tensor::parameter(vec![3, 2, 2], filters).unwrap()).unwrap();
        let vector = Tensor::parameter(vec![3], vec![1.0, 2.0, 3.0]).unwrap();
        weights.insert("bn.weight", vector).unwrap();
        let statistic = Tensor::new(Role::Statistic, vec![1], Values::F32(vec![9.0])).unwrap();
        weights.insert("bn.running_mean", statistic).unwrap();
        weights
    }

    #[test]
    fn every_filter_of_a_random_direction_is_as_long_as_that_of_the_weights() {
        let weights = weights();
        let drawn = |seed, number| Direction::random(&weights, seed, number).unwrap();
        let direction = drawn(1, 0);
        let own = weights.require("conv.weight").unwrap().values().to_f64();
        let filters = direction.get("conv.weight").unwrap();
        for (a, b) in own.chunks(4).zip(filters.chunks(4)) {
            assert!((norm(a) - norm(b)).abs() < 1e-12);
        }
        assert_eq!(direction.get("bn.weight"), Some(&[0.0; 3][..]), "vectors do not move");
        assert_eq!(direction.get("bn.running_mean"), None, "statistics are no part of it");
        assert_eq!(direction, drawn(1, 0));
        assert_ne!(direction, drawn(1, 1));
        assert_ne!(direction, drawn(2, 0));
    }

    #[test]
    fn a_filter_of_zeros_stays() {
        let mut weights = Weights::new();
        let zeros = Tensor::parameter(vec![2, 2], vec![0.0, 0.0, 1.0, 0.0]).unwrap();
        weights.insert("w", zeros).unwrap();
        let direction = Direction::random(&weights, 1, 0).unwrap();
        assert_eq!(direction.get("w").unwrap()[..2], [0.0, 0.0]);
    }

    #[test]
    fn weights_of_other_networks_are_refused_by_name() {
        let (mine, mut more) = (weights(), weights());
        more.insert("fc.weight", Tensor::parameter(vec![1], vec![0.0]).unwrap()).unwrap();
        let text = |a: &Weights, b: &Weights| Direction::between(a, b).unwrap_err().to_string();
        let why = "the weights do not belong together: ";
        assert_eq!(text(&mine, &more), format!("{why}`fc.weight` is not expected here"));
        assert_eq!(text(&more, &mine), format!("{why}`fc.weight` is missing"));
    }

    #[test]
    fn weights_that_are_not_finite_are_refused_by_the_name_of_their_tensor() {
        let fine = weights();
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bad = Weights::new();
            for (name, tensor) in fine.iter() {
                let tensor = match name {
                    "bn.weight" => Tensor::parameter(vec![3], vec![1.0, value, 3.0]).unwrap(),
                    _ => tensor.clone(),
                };
                bad.insert(name, tensor).unwrap();
            }
            let found = [
                Direction::between(&fine, &bad),
                Direction::between(&bad, &fine),
                Direction::random(&bad, 1, 0),
            ];
            for error in found.map(Result::unwrap_err) {
                let text = "`bn.weight` holds a NaN or an infinity, expected finite weights";
                assert_eq!(error.to_string(), text);
            }
        }
        // Statistics are no part of directions.
        let mut statistics = fine.only(Role::Parameter);
        let nan = Tensor::new(Role::Statistic, vec![1], Values::F32(vec![f32::NAN])).unwrap();
        statistics.insert("bn.running_mean", nan).unwrap();
        assert_eq!(Direction::between(&fine, &statistics).unwrap().norm(), 0.0);
    }

    #[test]
    fn angles_are_those_of_geometry() {
        let at = |x: f32, y: f32| {
            let mut weights = Weights::new();
            weights.insert("w", Tensor::parameter(vec![2], vec![x, y]).unwrap()).unwrap();
            weights
        };
        let way = |x, y| Direction::between(&at(0.0, 0.0), &at(x, y)).unwrap();
        let cosine = way(1.0, 0.0).cosine(&way(1.0, 1.0)).unwrap();
        assert!((cosine - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(way(1.0, 0.0).cosine(&way(0.0, 0.0)), None);
        assert_eq!(way(1.0, 2.0).times(3.0), way(3.0, 6.0));
        assert_eq!(way(1.0, 2.0).plus(-1.0, &way(1.0, 1.0)), way(0.0, 1.0));
    }
}
