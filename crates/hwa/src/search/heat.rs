//! A map of the scores over where windows end and how long they are.

use hwa_core::search::{Candidate, Worth};
use hwa_report::{Axis, Between, Chart, Figure, Map, Spot};

use crate::table::aligned;

/// Cells beside each other, at most.
const COLUMNS: usize = 10;
/// From the worst to the best.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The best score in each cell, over all strides.
pub(crate) struct Heat {
    columns: Vec<Cell>,
    /// The ends that a column is for; the first may be cut off.
    width: usize,
    rows: Vec<Cell>,
    /// Row by row, from the shortest windows on.
    best: Vec<Option<(Worth, f64)>>,
}

/// The numbers from here to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    from: usize,
    to: usize,
}

impl Cell {
    fn holds(self, number: usize) -> bool {
        (self.from..=self.to).contains(&number)
    }

    fn label(self) -> String {
        match self.from == self.to {
            true => self.to.to_string(),
            false => format!("{}-{}", self.from, self.to),
        }
    }
}

impl Heat {
    /// A map of scores as they are shown, and of what they are worth.
    pub(crate) fn new(scored: &[(Candidate, Worth, f64)]) -> Self {
        let (columns, width) = columns(scored.iter().map(|(window, ..)| window.at));
        let rows = octaves(scored.iter().map(|(window, ..)| window.length.get()).max());
        let mut best: Vec<Option<(Worth, f64)>> = vec![None; columns.len() * rows.len()];
        for (window, worth, score) in scored.iter().filter(|(_, worth, _)| worth.is_finite()) {
            let column = columns.iter().position(|cell| cell.holds(window.at));
            let row = rows.iter().position(|cell| cell.holds(window.length.get()));
            let (Some(column), Some(row)) = (column, row) else { continue };
            let place = &mut best[row * columns.len() + column];
            if place.is_none_or(|(other, _)| worth.compare(&other).is_gt()) {
                *place = Some((*worth, *score));
            }
        }
        Self { columns, width, rows, best }
    }

    /// For a terminal: numbers, with the darker behind the better.
    pub(crate) fn text(&self, digits: usize) -> String {
        let worths = || self.best.iter().flatten().map(|(worth, _)| worth.score);
        let low = worths().fold(f64::INFINITY, f64::min);
        let span = worths().fold(f64::NEG_INFINITY, f64::max) - low;
        let shade = |worth: &Worth| match span > 0.0 {
            true => SHADES[((worth.score - low) / span * 4.0).round() as usize],
            false => SHADES[4],
        };
        let head = std::iter::once("I \\ e".to_owned());
        let mut lines = vec![head.chain(self.columns.iter().map(|cell| cell.label())).collect()];
        for (row, cell) in self.rows.iter().enumerate().rev() {
            let places = &self.best[row * self.columns.len()..][..self.columns.len()];
            let shown = places.iter().map(|place| match place {
                Some((worth, score)) => format!("{score:.digits$}{}", shade(worth)),
                None => "· ".to_owned(),
            });
            lines.push(std::iter::once(cell.label()).chain(shown).collect());
        }
        aligned(&lines)
    }

    /// For a file.
    pub(crate) fn figure(&self, unit: &str, spots: Vec<(String, Candidate)>) -> Figure {
        let middle = |cell: &Cell| cell.to as f64 - (self.width - 1) as f64 / 2.0;
        let between = |cell: &Cell| ((cell.from * cell.to) as f64).sqrt();
        let spot = |(label, window): (String, Candidate)| Spot {
            label,
            at: (window.at as f64, window.length.get() as f64),
        };
        let map = Map {
            x: Axis::counting("newest checkpoint, e"),
            y: Axis::measuring("length of the window, I").logarithmic(),
            value: Axis::measuring(unit),
            columns: self.columns.iter().map(middle).collect(),
            rows: self.rows.iter().map(between).collect(),
            values: self.best.iter().map(|b| b.map_or(f64::NAN, |(_, score)| score)).collect(),
            spots: spots.into_iter().map(spot).collect(),
            // Cells hold what happened to be scored in them.
            between: Between::Nothing,
            ..Map::default()
        };
        Figure {
            name: "scores".to_owned(),
            title: "The best window of each cell; in blank ones none was scored".to_owned(),
            caption: "The best score of the windows in each cell, over all strides; blank cells \
                      hold none that was scored."
                .to_owned(),
            chart: Chart::Map(map),
        }
    }
}

/// Columns of one width from the first end to the last, whatever lies between.
fn columns(ends: impl Iterator<Item = usize> + Clone) -> (Vec<Cell>, usize) {
    let (Some(first), Some(last)) = (ends.clone().min(), ends.max()) else {
        return (Vec::new(), 1);
    };
    let width = (last - first + 1).div_ceil(COLUMNS);
    // From the last back: the latest ends have a whole column.
    let mut cells: Vec<Cell> = (0..COLUMNS)
        .filter_map(|i| last.checked_sub(i * width).filter(|to| *to >= first))
        .map(|to| Cell { from: (to + 1).saturating_sub(width).max(first), to })
        .collect();
    cells.reverse();
    (cells, width)
}

/// 1, 2 to 3, 4 to 7, and so on.
fn octaves(longest: Option<usize>) -> Vec<Cell> {
    let longest = longest.unwrap_or(0);
    let begins = std::iter::successors(Some(1usize), |from| from.checked_mul(2));
    let begins = begins.take_while(|from| *from <= longest);
    begins.map(|from| Cell { from, to: from.saturating_mul(2) - 1 }).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn scored(at: usize, length: usize, stride: usize, score: f64) -> (Candidate, Worth, f64) {
        let whole = |n| NonZeroUsize::new(n).unwrap();
        (Candidate { at, length: whole(length), stride: whole(stride) }, Worth::from(score), score)
    }

    #[test]
    fn a_cell_shows_its_best_and_what_was_not_scored_is_blank() {
        let heat = Heat::new(&[
            scored(4, 1, 1, 1.0),
            scored(8, 5, 1, 2.0),
            scored(8, 6, 2, 3.0),
            scored(8, 1, 1, f64::NAN),
        ]);
        let expected = [
            "I \\ e      4   5   6   7      8",
            "4-7       ·   ·   ·   ·   3.00█",
            "2-3       ·   ·   ·   ·      ·",
            "1      1.00   ·   ·   ·      ·",
        ];
        assert_eq!(heat.text(2).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn many_ends_share_columns_of_one_width() {
        let (cells, width) = columns(1..=200);
        assert_eq!(width, 20);
        assert_eq!(cells.len(), 10);
        assert_eq!((cells[0], cells[9]), (Cell { from: 1, to: 20 }, Cell { from: 181, to: 200 }));
        let (uneven, _) = columns(1..=23);
        assert_eq!((uneven[0].from, uneven[uneven.len() - 1].to), (1, 23));
        assert!((1..=23).all(|n| uneven.iter().filter(|cell| cell.holds(n)).count() == 1));
        // Those between them that nobody has scored have their place too.
        assert_eq!(columns([7, 3, 7].into_iter()).0.len(), 5);
        assert_eq!(columns(std::iter::empty()).0.len(), 0);
        assert_eq!(octaves(Some(5)).len(), 3);
    }

    #[test]
    fn maps_of_anything_can_be_drawn() {
        for scores in [vec![], vec![scored(1, 1, 1, f64::NAN)], vec![scored(9, 3, 1, -0.5)]] {
            let heat = Heat::new(&scores);
            let spots = scores.iter().map(|(window, ..)| ("found".to_owned(), *window)).collect();
            let svg = heat.figure("score", spots).to_svg().unwrap();
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
            heat.text(2);
        }
    }
}
