//! A line or a plane in the space of all weights.

use hwa_core::{Role, Tensor, Values, Weights};

use crate::direction::{Direction, parameters};
use crate::error::StudyError;

/// What is left of a direction that lies in another one, at most: rounding.
const NOTHING: f64 = 1e-5;
/// What rounding to single precision moves weights by, as a share of their length, with room.
pub(crate) const ROUNDING: f64 = 1e-6;

/// An origin and the directions from there: one makes a line, two make a plane.
#[derive(Debug, Clone)]
pub struct Frame {
    origin: Weights,
    axes: Vec<Direction>,
}

/// Where weights are seen in a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The coordinates of the nearest point of the line or plane.
    pub at: Vec<f64>,
    /// How far that point is away.
    pub residual: f64,
}

impl Frame {
    /// The line through two sets of weights: the first is at 0, the second at 1.
    pub fn line(first: &Weights, second: &Weights) -> Result<Self, StudyError> {
        let axis = Direction::between(first, second)?;
        match axis.norm() > 0.0 {
            true => Ok(Self { origin: first.only(Role::Parameter), axes: vec![axis] }),
            false => Err(StudyError::Equal),
        }
    }

    /// The plane through three sets of weights. The first is its origin, the second lies on the
    /// first axis; the axes are at a right angle, and lengths are those of weights.
    pub fn plane(points: [&Weights; 3]) -> Result<Self, StudyError> {
        let [first, second, third] = points;
        Self::spanned(first, second, Direction::between(first, third)?)
    }

    /// The plane through two sets of weights along a direction, with axes as in [`Self::plane`].
    pub fn spanned(
        first: &Weights,
        second: &Weights,
        along: Direction,
    ) -> Result<Self, StudyError> {
        let u = Direction::between(first, second)?;
        let (length, reach) = (u.norm(), along.norm());
        if length == 0.0 {
            return Err(StudyError::Equal);
        }
        let u = u.times(1.0 / length);
        let inside = along.dot(&u);
        let v = along.plus(-inside, &u);
        let height = v.norm();
        // Models that are near each other differ from their average by little more than rounding.
        if height <= (NOTHING * length.max(reach)).max(ROUNDING * length_of(first)) {
            return Err(StudyError::OnALine);
        }
        let axes = vec![u, v.times(1.0 / height)];
        Ok(Self { origin: first.only(Role::Parameter), axes })
    }

    /// Directions from an origin, taken as they are.
    pub fn along(origin: &Weights, axes: Vec<Direction>) -> Self {
        Self { origin: origin.only(Role::Parameter), axes }
    }

    /// Its directions.
    pub fn axes(&self) -> &[Direction] {
        &self.axes
    }

    /// The weights at some coordinates: computed in `f64` and rounded once.
    pub fn at(&self, coordinates: &[f64]) -> Result<Weights, StudyError> {
        let mut weights = Weights::new();
        for (name, tensor) in self.origin.iter() {
            let mut wide = tensor.values().to_f64();
            for (axis, coordinate) in self.axes.iter().zip(coordinates) {
                let along = axis.get(name).unwrap_or_default();
                wide.iter_mut().zip(along).for_each(|(value, step)| *value += coordinate * step);
            }
            let values = Values::rounded(tensor.values().value_type(), wide);
            weights.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
        }
        Ok(weights)
    }

    /// Where weights are seen: their projection, and how far they are from it.
    pub fn place(&self, weights: &Weights) -> Result<Place, StudyError> {
        let way = Direction::between(&self.origin, weights)?;
        let at = match self.axes.as_slice() {
            [u, v] => {
                // Random directions are nearly, not quite, at a right angle.
                let (uu, uv, vv) = (u.dot(u), u.dot(v), v.dot(v));
                let (a, b) = (way.dot(u), way.dot(v));
                let area = uu * vv - uv * uv;
                vec![(a * vv - b * uv) / area, (b * uu - a * uv) / area]
            }
            axes => axes.iter().map(|axis| way.dot(axis) / axis.dot(axis)).collect(),
        };
        let rest = self.axes.iter().zip(&at).fold(way, |rest, (axis, c)| rest.plus(-c, axis));
        Ok(Place { at, residual: rest.norm() })
    }

    /// How far the origin is from zero, to tell how large a distance is.
    pub fn scale(&self) -> f64 {
        length_of(&self.origin)
    }

    /// Whether a distance is no more than rounding leaves of weights like those of the origin.
    pub fn is_rounding(&self, distance: f64) -> bool {
        distance <= ROUNDING * self.scale()
    }
}

/// How far weights are from zero.
pub(crate) fn length_of(weights: &Weights) -> f64 {
    let squares = parameters(weights)
        .map(|(_, tensor)| tensor.values().to_f64().iter().map(|value| value * value).sum::<f64>());
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(values: [f32; 3]) -> Weights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![3], values.to_vec()).unwrap()).unwrap();
        weights
    }

    fn near(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn a_line_has_its_weights_at_zero_and_one() {
        let (a, b) = (at([1.0, 2.0, 3.0]), at([3.0, 2.0, 1.0]));
        let line = Frame::line(&a, &b).unwrap();
        assert_eq!(line.at(&[0.0]).unwrap(), a);
        assert_eq!(line.at(&[1.0]).unwrap(), b);
        assert_eq!(line.at(&[-1.0]).unwrap(), at([-1.0, 2.0, 5.0]));
        assert_eq!(line.place(&b).unwrap(), Place { at: vec![1.0], residual: 0.0 });
        assert!(matches!(Frame::line(&a, &a), Err(StudyError::Equal)));
    }

    #[test]
    fn a_plane_measures_in_lengths_of_weights_and_tells_what_is_beside_it() {
        let plane = Frame::plane([&at([0.0; 3]), &at([2.0, 0.0, 0.0]), &at([1.0, 3.0, 0.0])]);
        let plane = plane.unwrap();
        let place = |values| plane.place(&at(values)).unwrap();
        assert!(near(&place([1.0, 3.0, 0.0]).at, &[1.0, 3.0]));
        let beside = place([1.0, -1.0, 5.0]);
        assert!(near(&beside.at, &[1.0, -1.0]) && (beside.residual - 5.0).abs() < 1e-9);
        assert_eq!(plane.at(&[1.0, 3.0]).unwrap(), at([1.0, 3.0, 0.0]));
    }

    #[test]
    fn two_weights_and_their_average_span_no_plane() {
        let (a, b) = (at([0.1, 0.2, 0.3]), at([0.7, 0.9, 0.4]));
        let middle = hwa_core::mean(&[&a, &b], hwa_core::Statistics::Omit).unwrap();
        assert!(matches!(Frame::plane([&a, &b, &middle]), Err(StudyError::OnALine)));
        // However near they are: what is left of the average is rounding.
        for apart in [1e-1, 1e-2, 1e-3, 1e-4] {
            let many = |offset: f32| {
                let values: Vec<f32> = (0..2000)
                    .map(|i| 1.0 + (i % 17) as f32 / 7.0 + offset * (i as f32).sin())
                    .collect();
                let mut weights = Weights::new();
                weights.insert("w", Tensor::parameter(vec![2000], values).unwrap()).unwrap();
                weights
            };
            let (a, b) = (many(0.0), many(apart));
            let middle = hwa_core::mean(&[&a, &b], hwa_core::Statistics::Omit).unwrap();
            let plane = Frame::plane([&a, &b, &middle]);
            assert!(matches!(plane, Err(StudyError::OnALine | StudyError::Equal)), "{apart}");
        }
        // A direction of one's own helps.
        let along = Direction::between(&at([0.0; 3]), &at([0.0, 0.0, 1.0])).unwrap();
        let plane = Frame::spanned(&a, &b, along).unwrap();
        assert!(plane.place(&middle).unwrap().residual < 1e-6);
    }

    #[test]
    fn weights_that_are_not_finite_are_neither_equal_nor_on_a_line() {
        let (a, b, c) = (at([0.0; 3]), at([2.0, 0.0, 0.0]), at([0.0, 1.0, 0.0]));
        for value in [f32::NAN, f32::INFINITY] {
            let bad = at([1.0, value, 0.0]);
            let along = Direction::between(&a, &c).unwrap();
            let refused = [
                Frame::line(&a, &bad),
                Frame::line(&bad, &a),
                Frame::plane([&a, &b, &bad]),
                Frame::plane([&a, &bad, &b]),
                Frame::plane([&bad, &a, &b]),
                Frame::spanned(&a, &bad, along),
            ];
            let places = [
                Frame::line(&a, &b).unwrap().place(&bad),
                Frame::plane([&a, &b, &c]).unwrap().place(&bad),
                Frame::along(&bad, vec![Direction::between(&a, &b).unwrap()]).place(&a),
            ];
            let frames = refused.into_iter().map(Result::err);
            for error in frames.chain(places.into_iter().map(Result::err)) {
                let error = error.unwrap();
                assert!(
                    matches!(&error, StudyError::Diverged { tensor } if tensor == "w"),
                    "{error}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_in_the_plane_is_found_again(
            a: [f32; 3], b: [f32; 3], c: [f32; 3], x in -3.0..3.0, y in -3.0..3.0,
        ) {
            let bounded = |v: [f32; 3]| v.map(|x| if x.is_finite() { x % 8.0 } else { 1.0 });
            let points = [bounded(a), bounded(b), bounded(c)].map(at);
            let Ok(plane) = Frame::plane([&points[0], &points[1], &points[2]]) else {
                return Ok(());
            };
            let place = plane.place(&plane.at(&[x, y]).unwrap()).unwrap();
            prop_assert!((place.at[0] - x).abs() < 1e-4 && (place.at[1] - y).abs() < 1e-4);
            prop_assert!(place.residual < 1e-4);
        }

        #[test]
        fn axes_that_are_not_at_a_right_angle_still_find_what_they_made(
            x in -2.0..2.0, y in -2.0..2.0,
        ) {
            let zero = at([0.0; 3]);
            let way = |to| Direction::between(&zero, &at(to)).unwrap();
            let frame = Frame::along(&zero, vec![way([2.0, 0.0, 0.0]), way([1.0, 1.0, 0.0])]);
            let place = frame.place(&frame.at(&[x, y]).unwrap()).unwrap();
            prop_assert!((place.at[0] - x).abs() < 1e-5 && (place.at[1] - y).abs() < 1e-5);
        }
    }
}
