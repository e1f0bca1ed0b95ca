//! Tables: columns as wide as they need to be, two spaces apart.

/// Lines of a table; nothing when there are no rows.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    // Whatever others wrote commands no terminal.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| super::safe_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in std::iter::once(&head).chain(&rows) {
        for (i, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(i) {
                Some(known) => *known = width.max(*known),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padding = width.saturating_sub(cell.chars().count()) + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(padding));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["agent:a".into(), "é".into()], vec!["x".into(), "long".into()]];
        expect![[r#"
            address  role
            agent:a  é
            x        long
        "#]]
        .assert_eq(&table(&["address", "role"], &rows));
        assert_eq!(table(&["a"], &[]), "");
    }
}
