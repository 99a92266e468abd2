//! Small tables for terminals.

/// Rows under headings, columns aligned; the first column to the left.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        let cells = rows.iter().filter_map(|row| row.get(c));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            let cell = if c == 0 { format!("{cell}{gap}") } else { format!("  {gap}{cell}") };
            line.push_str(&cell);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Rows with as many columns from the left as have a place in a line of so many letters, at least
/// three, and the names of the others.
pub(crate) fn fitting(rows: &[Vec<String>], width: usize) -> (Vec<Vec<String>>, Vec<String>) {
    const FEWEST: usize = 3;
    let all = rows.iter().map(Vec::len).max().unwrap_or(0);
    let first = |count: usize| -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().take(count).cloned().collect()).collect()
    };
    let fits = |count: &usize| aligned(&first(*count)).lines().all(|l| l.chars().count() <= width);
    let count = (FEWEST..=all).rev().find(fits).unwrap_or(FEWEST.min(all));
    let left_out = rows.first().map_or(&[][..], |head| head.get(count..).unwrap_or_default());
    (first(count), left_out.to_vec())
}

/// A text in lines of at most so many letters, broken at spaces, the further ones indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split(' ') {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            lines.push_str("\n  ");
            length = 2;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += letters;
    }
    lines
}

/// The digits behind the point that tell numbers apart of which nothing is known: two of their
/// spread, or of their size if they are equal.
pub(crate) fn digits(numbers: impl Iterator<Item = f64> + Clone) -> usize {
    const FEWEST: f64 = 4.0;
    const MOST: f64 = 12.0;
    let numbers = numbers.filter(|number| number.is_finite());
    let high = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
    let low = numbers.fold(f64::INFINITY, f64::min);
    let size = if high > low { high - low } else { high.abs() };
    // Of nothing, or of zeros, the logarithm is no number.
    let digits = (-size.log10()).ceil() + 2.0;
    if digits.is_finite() { digits.clamp(FEWEST, MOST) as usize } else { FEWEST as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_digits_are_shown_as_tell_numbers_apart() {
        let of = |numbers: &[f64]| digits(numbers.iter().copied());
        assert_eq!((of(&[]), of(&[f64::NAN]), of(&[0.0, 0.0])), (4, 4, 4));
        assert_eq!((of(&[0.5, 0.9]), of(&[93.0, 12.0])), (4, 4));
        assert_eq!((of(&[0.0038, 0.0045]), of(&[1e-7, 2e-7]), of(&[1e-300])), (6, 9, 12));
        assert_eq!(format!("{:.1$}", 1.25e-7, of(&[1.25e-7])), "0.000000125");
    }

    #[test]
    fn what_is_too_wide_loses_its_last_columns_and_breaks_at_spaces() {
        let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "bb", "c", "ddd", "e"]), row(["1", "2", "3", "4", "5"])];
        // 1 + 2 + 2 + 2 + 1 + 2 + 3 + 2 + 1 letters.
        assert_eq!(fitting(&rows, 16), (rows.to_vec(), vec![]));
        let (kept, left_out) = fitting(&rows, 15);
        assert_eq!((kept[0].len(), left_out), (4, vec!["e".to_owned()]));
        assert_eq!(fitting(&rows, 1).1, ["ddd", "e"]);
        assert_eq!(fitting(&[], 1), (vec![], vec![]));
        assert_eq!(wrapped("one two three", 7), "one two\n  three");
        assert_eq!(wrapped("one", 1), "one");
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["", "test"], ["HWA", "97.50 %"], ["größer", "–"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|r| r.map(str::to_owned).into()).collect();
        assert_eq!(aligned(&rows), "           test\nHWA     97.50 %\ngrößer        –\n");
    }
}
