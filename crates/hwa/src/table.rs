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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["", "test"], ["HWA", "97.50 %"], ["größer", "–"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|r| r.map(str::to_owned).into()).collect();
        assert_eq!(aligned(&rows), "           test\nHWA     97.50 %\ngrößer        –\n");
    }
}
