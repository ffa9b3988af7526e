//! Tables for people: columns padded to their widest cell, no colours, no lines.

/// Rows of cells under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings. A heading that starts with `>` names a column of numbers,
    /// which is aligned to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|h| h.starts_with('>')).collect();
        let first = headings
            .iter()
            .map(|h| h.trim_start_matches('>').to_owned())
            .collect();
        Self {
            rows: vec![first],
            right,
        }
    }

    /// Adds a row. Control characters in a cell are shown escaped, since cells hold what guests
    /// and images are called.
    pub(crate) fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.rows
            .push(cells.into_iter().map(|cell| plain(cell.into())).collect());
    }

    /// The table as text, a line a row, without trailing blanks.
    pub(crate) fn render(&self) -> String {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let pad = " ".repeat(width - cell.chars().count());
                if *right {
                    line.push_str(&pad);
                }
                line.push_str(cell);
                if !*right {
                    line.push_str(&pad);
                }
                line.push_str("  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn plain(cell: String) -> String {
    if cell.chars().any(char::is_control) {
        cell.escape_debug().collect()
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_are_shown() {
        let mut table = Table::new(&["NAME", ">MS"]);
        table.row(["a", "1"]);
        table.row(["längere", "1234"]);
        table.row(["e\x1b[31m", ""]);
        assert_eq!(
            table.render(),
            "NAME           MS\na               1\nlängere      1234\ne\\u{1b}[31m\n"
        );
    }
}
