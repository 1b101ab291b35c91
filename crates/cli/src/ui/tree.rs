//! Drawing a tree.

/// For every item, given where its parent is in the list if it has one: the lines that lead to it, and where it is in
/// the list. Parents come before their children, children in the order of the list.
pub fn tree(parents: &[Option<usize>]) -> Vec<(String, usize)> {
    let mut drawn = Vec::with_capacity(parents.len());
    // What is still to be drawn, the next one last: a history may be deeper than the stack of this thread.
    let mut waiting: Vec<(String, String, usize)> = Vec::new();
    for root in children(parents, None).into_iter().rev() {
        waiting.push((String::new(), String::new(), root));
    }
    while let Some((branch, below, item)) = waiting.pop() {
        drawn.push((branch, item));
        let mut is_last = true;
        for child in children(parents, Some(item)).into_iter().rev() {
            let (corner, line) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            waiting.push((format!("{below}{corner}"), format!("{below}{line}"), child));
            is_last = false;
        }
    }
    drawn
}

fn children(parents: &[Option<usize>], of: Option<usize>) -> Vec<usize> {
    let matching = parents.iter().enumerate().filter(|(_, parent)| **parent == of);
    matching.map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_from_parents_to_children() {
        //  0 ─┬─ 1 ─── 3
        //     └─ 2          4
        let drawn = tree(&[None, Some(0), Some(0), Some(1), None]);
        let lines: Vec<String> = drawn.iter().map(|(branch, item)| format!("{branch}{item}")).collect();
        assert_eq!(lines, ["0", "├─ 1", "│  └─ 3", "└─ 2", "4"]);
    }

    #[test]
    fn every_item_is_drawn_once_however_deep() {
        let parents: Vec<Option<usize>> = (0..300usize).map(|index| index.checked_sub(1)).collect();
        let drawn = tree(&parents);
        assert_eq!(drawn.len(), 300);
        assert!(drawn[299].0.ends_with("└─ "));
    }
}
