//! Tables: aligned for people, tab-separated for programs.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use super::Stream;
use super::style::harmless;

/// Rows under a header.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// A table with these columns and no rows yet.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), right: Vec::new() }
    }

    /// Aligns a column, counted from zero, to the right, as numbers want to be.
    #[must_use]
    pub fn align_right(mut self, column: usize) -> Self {
        self.right.push(column);
        self
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell.into())).collect());
    }

    /// Writes the table for people or for programs, depending on the stream.
    pub fn write(&self, stream: &mut Stream) -> io::Result<()> {
        if stream.is_terminal() { self.write_aligned(stream) } else { self.write_plain(stream) }
    }

    fn write_aligned(&self, stream: &mut Stream) -> io::Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        table.add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let paint = stream.paint();
        for (index, line) in table.lines().enumerate() {
            let line = line.trim_end();
            // The header is painted as a whole, after it was measured.
            let line = if index == 0 { paint.strong(line) } else { line.to_owned() };
            writeln!(stream, "{line}")?;
        }
        stream.flush()
    }

    fn write_plain(&self, stream: &mut Stream) -> io::Result<()> {
        for row in std::iter::once(&self.header).chain(&self.rows) {
            writeln!(stream, "{}", row.join("\t"))?;
        }
        stream.flush()
    }
}

/// A cell is one line: what would break the table becomes a space.
fn one_line(cell: &str) -> String {
    harmless(cell).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(terminal: bool, colour: bool) -> String {
        let mut table = Table::new(["NAME", "SIZE", "FROM"]).align_right(1);
        table.row(["debian", "297.0 MiB", "packages"]);
        table.row(["b", "1.0 MiB", "a\ttar\nball"]);
        let (mut stream, capture) = Stream::captured(terminal, colour);
        table.write(&mut stream).unwrap();
        capture.text()
    }

    #[test]
    fn a_person_gets_aligned_columns() {
        let expected = "\
NAME         SIZE  FROM
debian  297.0 MiB  packages
b         1.0 MiB  a tar ball
";
        assert_eq!(shown(true, false), expected);
        assert!(shown(true, true).starts_with("\x1b[1mNAME"));
    }

    #[test]
    fn a_program_gets_one_tab_between_cells_and_one_line_per_row() {
        assert_eq!(
            shown(false, false),
            "NAME\tSIZE\tFROM\ndebian\t297.0 MiB\tpackages\nb\t1.0 MiB\ta tar ball\n"
        );
    }
}
