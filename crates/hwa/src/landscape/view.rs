//! What is looked at: a line or a plane, which of its points, and what is marked on it.

use std::num::NonZeroUsize;

use hwa_core::Weights;
use hwa_study::{Direction, Frame, Place, StudyError, principal};

use crate::failure::Failure;
use crate::shelf::{Name, Shelf};

/// Room around what is marked, as a share of its extent.
const ROOM: f64 = 0.35;
/// The narrower side of a picture is at least this share of the wider one.
const LEAST_SPAN: f64 = 0.6;
/// Weights of a run that its way is drawn through, at most.
const MOST_ON_A_PATH: usize = 64;
/// The bytes that they may take together, and those of an element: `f32`, and `f64` as a way.
const ROOM_FOR_A_PATH: usize = 4 << 30;
const BYTES_ON_A_PATH: usize = 12;

/// A part of a line or plane.
pub(crate) struct View {
    /// What it shows, in a few words.
    pub(crate) title: String,
    pub(crate) frame: Frame,
    /// The coordinates of its points; a line has no rows.
    pub(crate) columns: Vec<f64>,
    pub(crate) rows: Vec<f64>,
    /// What stands at its axes.
    pub(crate) labels: [String; 2],
    /// Whether both axes are lengths, so that the picture must not be stretched.
    pub(crate) lengths: bool,
    pub(crate) marks: Vec<Marked>,
    /// Ways over it.
    pub(crate) ways: Vec<Way>,
    /// What else there is to know.
    pub(crate) remarks: Vec<String>,
}

/// Where weights that follow each other are seen.
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) places: Vec<Place>,
}

/// Weights that are marked.
pub(crate) struct Marked {
    pub(crate) name: String,
    pub(crate) weights: Weights,
    pub(crate) place: Place,
    /// Whether they lie in the line or plane, but for rounding.
    pub(crate) inside: bool,
}

/// From where to where, and how many points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extent {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) count: NonZeroUsize,
}

impl Extent {
    /// The points, both ends among them. Written so that 0 and 1 are met exactly where they can be.
    fn points(&self) -> Vec<f64> {
        let last = (self.count.get() - 1).max(1) as f64;
        let at = |i: usize| (self.from * (last - i as f64) + self.to * i as f64) / last;
        (0..self.count.get()).map(at).collect()
    }
}

impl View {
    /// The line from some weights to others.
    pub(crate) fn line(
        shelf: &Shelf,
        [from, to]: [&Name; 2],
        extent: Extent,
    ) -> Result<Self, Failure> {
        let (first, second) = (shelf.get(from)?, shelf.get(to)?);
        let frame = Frame::line(&first, &second).map_err(|error| named(error, &[from, to]))?;
        let mut view = Self {
            title: format!("The line from {from} to {to}"),
            columns: extent.points(),
            rows: Vec::new(),
            labels: [format!("0 is {from}, 1 is {to}"), String::new()],
            lengths: false,
            marks: Vec::new(),
            ways: Vec::new(),
            remarks: Vec::new(),
            frame,
        };
        view.mark(from.to_string(), first)?;
        view.mark(to.to_string(), second)?;
        Ok(view)
    }

    /// The plane through three sets of weights, with others marked on it. Where three lie on a
    /// line, a random direction takes the place of the third.
    pub(crate) fn plane(
        shelf: &Shelf,
        through: [&Name; 3],
        others: &[Name],
        (size, seed): (NonZeroUsize, u64),
    ) -> Result<Self, Failure> {
        let weights = [shelf.get(through[0])?, shelf.get(through[1])?, shelf.get(through[2])?];
        let [first, second, third] = &weights;
        let mut remarks = Vec::new();
        let frame = match Frame::plane([first, second, third]) {
            Err(StudyError::OnALine) => {
                let [a, b, c] = through;
                remarks.push(format!(
                    "{a}, {b} and {c} lie on a line: the second axis is a random direction, \
                     filter by filter as long as the weights"
                ));
                let along = Direction::random(first, seed, 0);
                along.and_then(|along| Frame::spanned(first, second, along))
            }
            frame => frame,
        };
        let frame = frame.map_err(|error| named(error, &through))?;
        let [a, b, c] = through;
        let mut view = Self {
            title: format!("The plane through {a}, {b} and {c}"),
            columns: Vec::new(),
            rows: Vec::new(),
            labels: [format!("distance from {a} towards {b}"), "distance across".to_owned()],
            lengths: true,
            marks: Vec::new(),
            ways: Vec::new(),
            remarks,
            frame,
        };
        for (name, weights) in through.into_iter().zip(weights) {
            view.mark(name.to_string(), weights)?;
        }
        for name in others {
            view.mark(name.to_string(), shelf.get(name)?)?;
        }
        view.spread(size);
        Ok(view)
    }

    /// Two random directions from some weights, each filter as long as that of the weights, and
    /// the way of the run.
    pub(crate) fn random(
        shelf: &Shelf,
        centre: &Name,
        extent: Extent,
        seed: u64,
    ) -> Result<Self, Failure> {
        let weights = shelf.get(centre)?;
        let axes = (0..2).map(|number| Direction::random(&weights, seed, number));
        let axes = axes.collect::<Result<_, _>>().map_err(|error| named(error, &[centre]))?;
        let label = |which: &str| format!("{which} random direction, in lengths of the filters");
        let mut view = Self {
            title: format!("Around {centre}, in random directions"),
            frame: Frame::along(&weights, axes),
            columns: extent.points(),
            rows: extent.points(),
            labels: [label("first"), label("second")],
            lengths: true,
            marks: Vec::new(),
            ways: Vec::new(),
            remarks: Vec::new(),
        };
        let outer = outer_weights(shelf, &weights)?;
        view.remarks.extend(outer.remark);
        view.walk(way_of(&outer.cycles), &outer.weights)?;
        view.compare_with_the_grid();
        view.mark(centre.to_string(), weights)?;
        Ok(view)
    }

    /// The plane in which the outer weights of a run have moved most, and their way in it.
    pub(crate) fn principal(
        shelf: &Shelf,
        centre: &Name,
        size: NonZeroUsize,
    ) -> Result<Self, Failure> {
        let weights = shelf.get(centre)?;
        let outer = outer_weights(shelf, &weights)?;
        let found = principal(&weights, &outer.weights).map_err(|error| named(error, &[centre]))?;
        let [first, second] = found.explained.map(|share| 100.0 * share);
        let mut view = Self {
            title: "The plane in which the run has moved most".to_owned(),
            frame: Frame::along(&weights, found.axes.to_vec()),
            columns: Vec::new(),
            rows: Vec::new(),
            labels: [
                format!("first principal direction ({first:.1} %)"),
                format!("second ({second:.1} %)"),
            ],
            lengths: true,
            marks: Vec::new(),
            ways: Vec::new(),
            remarks: vec![format!(
                "the two directions account for {first:.1} % and {second:.1} % of the squared \
                 distances of {} outer weights from {centre}",
                outer.weights.len()
            )],
        };
        view.remarks.extend(outer.remark);
        view.walk(way_of(&outer.cycles), &outer.weights)?;
        view.mark(centre.to_string(), weights)?;
        view.spread(size);
        Ok(view)
    }

    /// The number of its points.
    pub(crate) fn num_points(&self) -> usize {
        self.columns.len() * self.rows.len().max(1)
    }

    /// The coordinates of a point, row by row.
    pub(crate) fn coordinates(&self, point: usize) -> Vec<f64> {
        let (row, column) = (point / self.columns.len(), point % self.columns.len());
        let x = self.columns[column];
        self.rows.get(row).map_or(vec![x], |y| vec![x, *y])
    }

    /// Marks weights, once under each name.
    pub(crate) fn mark(&mut self, name: String, weights: Weights) -> Result<(), Failure> {
        if self.marks.iter().any(|marked| marked.name == name) {
            return Ok(());
        }
        let place = self.frame.place(&weights)?;
        let inside = self.frame.is_rounding(place.residual);
        self.marks.push(Marked { name, weights, place, inside });
        Ok(())
    }

    /// Finds where weights that follow each other are seen.
    pub(crate) fn walk(&mut self, name: String, weights: &[Weights]) -> Result<(), Failure> {
        let places = weights.iter().map(|weights| self.frame.place(weights));
        let places = places.collect::<Result<Vec<Place>, _>>()?;
        let (Some(first), Some(last)) = (weights.first(), weights.last()) else { return Ok(()) };
        let beside = places.iter().map(|place| place.residual).fold(0.0, f64::max);
        if !self.frame.is_rounding(beside) {
            let length = Direction::between(first, last)?.norm();
            self.remarks.push(format!(
                "{name}: up to {} beside the plane, where its ends are {} apart; what is drawn is \
                 its projection, and the loss there is not its own",
                short(beside),
                short(length)
            ));
        }
        self.ways.push(Way { name, places });
        Ok(())
    }

    /// Says so, if the ways are too small to be seen.
    fn compare_with_the_grid(&mut self) {
        let cell = |numbers: &[f64]| match numbers {
            [first, second, ..] => second - first,
            _ => f64::INFINITY,
        };
        let cells = [cell(&self.columns), cell(&self.rows)];
        let in_a_cell = |way: &Way| {
            let near = |place: &Place| place.at.iter().zip(cells).all(|(x, cell)| x.abs() < cell);
            way.places.iter().all(near)
        };
        if !self.ways.is_empty() && self.ways.iter().all(in_a_cell) {
            self.remarks.push(
                "random directions are nearly at a right angle to the way of the run: all of it is \
                 seen within a cell of the grid; `pca` shows it"
                    .to_owned(),
            );
        }
    }

    /// Chooses points around what is to be seen.
    fn spread(&mut self, size: NonZeroUsize) {
        let seen = || {
            let marks = self.marks.iter().map(|marked| &marked.place.at);
            marks.chain(self.ways.iter().flat_map(|way| &way.places).map(|place| &place.at))
        };
        let bounds = |axis: usize| {
            let values = seen().filter_map(|at| at.get(axis).copied());
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        };
        let spans = [bounds(0), bounds(1)];
        let widest = spans.iter().map(|(low, high)| high - low).fold(0.0, f64::max);
        let extents = spans.map(|(low, high)| {
            let span = (high - low).max(LEAST_SPAN * widest);
            let (middle, half) = ((low + high) / 2.0, span * (0.5 + ROOM));
            Extent { from: middle - half, to: middle + half, count: size }
        });
        self.columns = extents[0].points();
        self.rows = extents[1].points();
    }
}

/// The outer weights that a run's way is drawn through.
struct Outer {
    cycles: Vec<usize>,
    weights: Vec<Weights>,
    /// What has to be said of those that are left out.
    remark: Option<String>,
}

/// As many of them as there is room for: they and the ways to them are in memory together.
fn outer_weights(shelf: &Shelf, centre: &Weights) -> Result<Outer, Failure> {
    let all = shelf.outer_cycles()?;
    let elements = centre.num_elements();
    let most = (ROOM_FOR_A_PATH / (BYTES_ON_A_PATH * elements.max(1))).clamp(2, MOST_ON_A_PATH);
    let cycles = on_the_way(&all, most);
    let weights = cycles.iter().map(|cycle| shelf.get(&Name::Outer(Some(*cycle))));
    let weights = weights.collect::<Result<_, _>>()?;
    let remark = (most < MOST_ON_A_PATH && cycles.len() < all.len()).then(|| {
        format!(
            "of {} outer weights {} are looked at: more would need more than {} GiB of memory",
            all.len(),
            cycles.len(),
            ROOM_FOR_A_PATH >> 30
        )
    });
    Ok(Outer { cycles, weights, remark })
}

fn way_of(cycles: &[usize]) -> String {
    match cycles {
        [first, .., last] => format!("outer weights, cycle {first} to {last}"),
        _ => "outer weights".to_owned(),
    }
}

/// The cycles that a way is drawn through, at most so many, first and last among them.
fn on_the_way(cycles: &[usize], most: usize) -> Vec<usize> {
    if cycles.len() <= most {
        return cycles.to_vec();
    }
    let last = most.max(2) - 1;
    (0..=last).map(|i| cycles[i * (cycles.len() - 1) / last]).collect()
}

/// A distance for people.
pub(super) fn short(number: f64) -> String {
    if number == 0.0 { "0".to_owned() } else { alike(number, number.abs()) }
}

/// A number with as many digits as the largest beside it has.
pub(super) fn alike(number: f64, largest: f64) -> String {
    match largest {
        0.0 => format!("{number}"),
        size if !(1e-3..1e4).contains(&size) => format!("{number:.1e}"),
        size if size < 1.0 => format!("{number:.4}"),
        _ => format!("{number:.2}"),
    }
}

fn named(error: StudyError, names: &[&Name]) -> Failure {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    Failure::usage(format!("{}: {error}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(from: f64, to: f64, count: usize) -> Extent {
        Extent { from, to, count: count.try_into().unwrap() }
    }

    #[test]
    fn the_ends_of_a_line_and_its_weights_are_met_exactly() {
        let points = extent(-1.0, 2.0, 61).points();
        assert_eq!((points[0], points[60]), (-1.0, 2.0));
        assert!(points.contains(&0.0) && points.contains(&1.0));
        assert_eq!(extent(-1.0, 1.0, 1).points(), [-1.0]);
        assert_eq!(extent(-1.0, 1.0, 3).points(), [-1.0, 0.0, 1.0]);
    }

    #[test]
    fn numbers_beside_each_other_have_as_many_digits() {
        let written = [0.0, 0.0123, -12.5].map(|number| alike(number, 12.5));
        assert_eq!(written, ["0.00", "0.01", "-12.50"]);
        assert_eq!([0.0, 0.0123, 12.5, 2e5].map(short), ["0", "0.0123", "12.50", "2.0e5"]);
    }

    #[test]
    fn a_long_way_keeps_its_ends() {
        let cycles: Vec<usize> = (1..=200).collect();
        let way = on_the_way(&cycles, MOST_ON_A_PATH);
        assert_eq!((way.len(), way[0], way[63]), (64, 1, 200));
        assert!(way.is_sorted_by(|a, b| a < b));
        assert_eq!(on_the_way(&[3, 9], 64), [3, 9]);
        assert_eq!(on_the_way(&cycles, 3), [1, 100, 200]);
    }
}
