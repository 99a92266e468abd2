//! Contours: where a measured plane has a certain value, by marching squares.

use std::collections::BTreeMap;

/// Values over a rectangular grid, linear between neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid<'a> {
    /// The x of the grid, ascending.
    pub(crate) columns: &'a [f64],
    /// The y of the grid, ascending.
    pub(crate) rows: &'a [f64],
    /// Row by row; what is not a number, or missing, is not known.
    pub(crate) values: &'a [f64],
}

/// A side of a square: from a point of the grid to its neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// To the next column.
    Along { row: usize, column: usize },
    /// To the next row.
    Up { row: usize, column: usize },
}

impl Grid<'_> {
    /// The value at a point of the grid.
    pub(crate) fn value(&self, row: usize, column: usize) -> f64 {
        let index = row * self.columns.len() + column;
        self.values.get(index).copied().unwrap_or(f64::NAN)
    }

    /// The value anywhere on the grid, linear in both directions.
    pub(crate) fn between(&self, (x, y): (f64, f64)) -> Option<f64> {
        let ((column, right), (row, up)) = (share(self.columns, x)?, share(self.rows, y)?);
        let mix = |from: f64, to: f64, share: f64| from + share * (to - from);
        let along = |row| mix(self.value(row, column), self.value(row, column + 1), right);
        let value = mix(along(row), along(row + 1), up);
        value.is_finite().then_some(value)
    }

    /// The lines on which the value is `level`. One that is closed ends where it begins.
    pub(crate) fn contours(&self, level: f64) -> Vec<Vec<(f64, f64)>> {
        let mut links: BTreeMap<Edge, Vec<Edge>> = BTreeMap::new();
        for row in 1..self.rows.len() {
            for column in 1..self.columns.len() {
                for (from, to) in self.crossings((row - 1, column - 1), level) {
                    links.entry(from).or_default().push(to);
                    links.entry(to).or_default().push(from);
                }
            }
        }
        // Open lines from their ends; what is left are closed ones.
        let ends = links.iter().filter(|(_, to)| to.len() == 1).map(|(edge, _)| *edge);
        let starts: Vec<Edge> = ends.chain(links.keys().copied()).collect();
        let mut contours = Vec::new();
        for start in starts {
            let mut line = vec![start];
            let mut here = start;
            while let Some(next) = links.get_mut(&here).and_then(Vec::pop) {
                if let Some(back) = links.get_mut(&next) {
                    back.retain(|edge| *edge != here);
                }
                line.push(next);
                here = next;
            }
            if line.len() > 1 {
                contours.push(line.into_iter().map(|edge| self.crossed(edge, level)).collect());
            }
        }
        contours
    }

    /// How the level goes through a square: from which side to which.
    fn crossings(&self, (row, column): (usize, usize), level: f64) -> Vec<(Edge, Edge)> {
        let corners = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)]
            .map(|(row, column)| self.value(row, column));
        if corners.iter().any(|value| !value.is_finite()) {
            return Vec::new();
        }
        let sides = [
            Edge::Along { row, column },
            Edge::Up { row, column: column + 1 },
            Edge::Along { row: row + 1, column },
            Edge::Up { row, column },
        ];
        let high = corners.map(|value| value >= level);
        let crossed: Vec<Edge> =
            (0..4).filter(|i| high[*i] != high[(i + 1) % 4]).map(|i| sides[i]).collect();
        match crossed[..] {
            [from, to] => vec![(from, to)],
            [below, right, above, left] => {
                // A saddle: the middle goes with two of its corners, and parts the others.
                let middle = corners.iter().sum::<f64>() / 4.0 >= level;
                match middle == high[0] {
                    true => vec![(below, right), (above, left)],
                    false => vec![(below, left), (right, above)],
                }
            }
            _ => Vec::new(),
        }
    }

    /// Where an edge has the level, by the values at its ends.
    fn crossed(&self, edge: Edge, level: f64) -> (f64, f64) {
        let ((row, column), (to_row, to_column)) = match edge {
            Edge::Along { row, column } => ((row, column), (row, column + 1)),
            Edge::Up { row, column } => ((row, column), (row + 1, column)),
        };
        let (from, to) = (self.value(row, column), self.value(to_row, to_column));
        let share = (level - from) / (to - from);
        let mix = |from: f64, to: f64| from + share * (to - from);
        (mix(self.columns[column], self.columns[to_column]), mix(self.rows[row], self.rows[to_row]))
    }
}

/// Between which neighbours a number lies, and how far from the first.
fn share(numbers: &[f64], number: f64) -> Option<(usize, f64)> {
    let (first, last) = (numbers.first()?, numbers.last()?);
    if numbers.len() < 2 || !(*first..=*last).contains(&number) {
        return None;
    }
    let before = numbers.partition_point(|n| *n <= number).saturating_sub(1);
    let before = before.min(numbers.len() - 2);
    Some((before, (number - numbers[before]) / (numbers[before + 1] - numbers[before])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(count: usize) -> Vec<f64> {
        (0..count).map(|i| -1.0 + 2.0 * i as f64 / (count - 1) as f64).collect()
    }

    fn measured(columns: &[f64], rows: &[f64], value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        rows.iter()
            .flat_map(|y| columns.iter().map(|x| value(*x, *y)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn the_contours_of_a_bowl_are_circles() {
        let (columns, rows) = (steps(41), steps(31));
        let values = measured(&columns, &rows, |x, y| x * x + y * y);
        let grid = Grid { columns: &columns, rows: &rows, values: &values };
        for level in [0.09, 0.25, 0.81] {
            let contours = grid.contours(level);
            assert_eq!(contours.len(), 1, "one line");
            assert_eq!(contours[0].first(), contours[0].last(), "closed");
            for (x, y) in &contours[0] {
                // Linear between points h apart, a square is off by at most h²/4.
                let off = (x * x + y * y - level).abs();
                assert!(off <= (2.0f64 / 30.0).powi(2) / 4.0 + 1e-12, "{level}: {off}");
            }
            // All the way around: the length is that of the circle, but for the corners.
            let length: f64 =
                contours[0].windows(2).map(|w| (w[0].0 - w[1].0).hypot(w[0].1 - w[1].1)).sum();
            let circle = std::f64::consts::TAU * level.sqrt();
            assert!((length / circle - 1.0).abs() < 0.02, "{length} for {circle}");
        }
    }

    #[test]
    fn every_vertex_has_the_level() {
        // Noise: saddles, open lines, loops.
        let (columns, rows) = (steps(17), steps(13));
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        let values: Vec<f64> = (0..columns.len() * rows.len()).map(|_| random()).collect();
        let grid = Grid { columns: &columns, rows: &rows, values: &values };
        for level in [0.1, 0.5, 0.9] {
            let contours = grid.contours(level);
            assert!(!contours.is_empty());
            for (x, y) in contours.iter().flatten() {
                let value = grid.between((*x, *y)).unwrap();
                assert!((value - level).abs() < 1e-9, "{value} instead of {level}");
            }
            for line in contours {
                let on_border = |(x, y): (f64, f64)| x.abs() == 1.0 || y.abs() == 1.0;
                let closed = line.first() == line.last();
                assert!(closed || (on_border(line[0]) && on_border(line[line.len() - 1])));
            }
        }
    }

    #[test]
    fn a_saddle_is_parted_by_its_middle() {
        // Two high corners of four; the mean, 0.5, is below 0.6 and above 0.4.
        let grid = Grid { columns: &[0.0, 1.0], rows: &[0.0, 1.0], values: &[1.0, 0.0, 0.0, 1.0] };
        for (level, around) in [(0.6, (0.0, 0.0)), (0.4, (1.0, 0.0))] {
            let contours = grid.contours(level);
            assert_eq!(contours.len(), 2);
            let near = |line: &Vec<(f64, f64)>| {
                line.iter().all(|(x, y)| (x - around.0).hypot(y - around.1) < 0.5)
            };
            assert!(contours.iter().any(near), "{contours:?}");
        }
    }

    #[test]
    fn nothing_is_drawn_where_nothing_is_known() {
        let columns = [0.0, 1.0, 2.0];
        let values = [0.0, 1.0, f64::NAN, 0.0, 1.0];
        let grid = Grid { columns: &columns, rows: &[0.0, 1.0], values: &values };
        assert_eq!(grid.contours(0.5), [vec![(0.5, 0.0), (0.5, 1.0)]]);
        assert_eq!(grid.between((0.25, 0.5)), Some(0.25));
        assert_eq!((grid.between((1.5, 0.5)), grid.between((3.0, 0.5))), (None, None));
        for (columns, rows, values) in [(vec![], vec![], vec![]), (vec![1.0], vec![1.0], vec![3.0])]
        {
            let grid = Grid { columns: &columns, rows: &rows, values: &values };
            assert!(grid.contours(1.0).is_empty() && grid.between((1.0, 1.0)).is_none());
        }
        let flat = Grid { columns: &columns, rows: &columns, values: &[2.0; 9] };
        assert!(flat.contours(2.0).is_empty());
    }
}
