//! The lineage of checkpoints as a tree. A line of descent stays in its column, however long the run is; what branches off it stands indented
//! before the line goes on.

use std::collections::{HashMap, HashSet};

use ztensor_store::Listing;

use crate::display::size;

/// Who was stored against whom.
pub(super) struct Lineage<'a> {
    /// In the order in which they were added.
    listed: &'a [Listing],
    children: HashMap<&'a str, Vec<&'a Listing>>,
    roots: Vec<&'a Listing>,
    /// How many descend from each.
    descendants: HashMap<&'a str, usize>,
}

impl<'a> Lineage<'a> {
    pub(super) fn of(listed: &'a [Listing]) -> Lineage<'a> {
        let names: HashSet<&str> = listed.iter().map(|listing| listing.name.as_str()).collect();
        // What was removed, or is the checkpoint itself, is no parent to draw below.
        let parent = |listing: &'a Listing| {
            let parent = listing.parent.as_ref().map(|parent| parent.as_str());
            parent.filter(|parent| names.contains(parent) && *parent != listing.name.as_str())
        };
        let mut lineage =
            Lineage { listed, children: HashMap::new(), roots: Vec::new(), descendants: HashMap::new() };
        for listing in listed {
            match parent(listing) {
                Some(parent) => lineage.children.entry(parent).or_default().push(listing),
                None => lineage.roots.push(listing),
            }
        }
        // Children come after their parents, so from the end every count is complete before it is added to another.
        for listing in listed.iter().rev() {
            let below = lineage.descendants.get(listing.name.as_str()).copied().unwrap_or_default();
            if let Some(parent) = parent(listing) {
                *lineage.descendants.entry(parent).or_default() += below + 1;
            }
        }
        lineage
    }

    pub(super) fn draw(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut shown = HashSet::new();
        // Names that were added again can make a circle, which has no root.
        for root in self.roots.iter().copied().chain(self.listed) {
            if !shown.contains(root.name.as_str()) {
                if !lines.is_empty() {
                    lines.push(String::new());
                }
                self.draw_below(root, &mut shown, &mut lines);
            }
        }
        lines
    }

    fn draw_below(&self, root: &'a Listing, shown: &mut HashSet<&'a str>, lines: &mut Vec<String>) {
        // A stack, not a recursion: a run of ten thousand checkpoints is a chain as long.
        let mut stack = vec![(root, String::new(), false)];
        while let Some((listing, indent, branches)) = stack.pop() {
            let name = listing.name.as_str();
            if !shown.insert(name) {
                continue;
            }
            let (mark, below) = if branches { ("├─", "│ ") } else { ("", "") };
            lines.push(format!("{indent}{mark}● {}", describe(listing)));
            let children = self.children.get(name).map(Vec::as_slice).unwrap_or_default();
            // The line goes on with whom most descend from, drawn last.
            let weight =
                |child: &&&Listing| self.descendants.get(child.name.as_str()).copied().unwrap_or_default();
            let Some(heir) = children.iter().max_by_key(weight).copied() else { continue };
            let inner = format!("{indent}{below}");
            stack.push((heir, inner.clone(), false));
            let others = children.iter().rev().filter(|child| child.name != heir.name);
            stack.extend(others.map(|child| (*child, inner.clone(), true)));
        }
    }
}

fn describe(listing: &Listing) -> String {
    format!("{}  {}, {} added", listing.name, size(listing.logical), size(listing.added))
}

#[cfg(test)]
mod tests {
    use ztensor_store::Name;

    use super::*;

    fn listing(name: &str, parent: Option<&str>) -> Listing {
        Listing {
            name: Name::new(name).unwrap(),
            generation: 0,
            time: 0,
            parent: parent.map(|parent| Name::new(parent).unwrap()),
            metadata: Default::default(),
            files: 1,
            tensors: 1,
            logical: 10,
            referred: 1,
            exclusive: 1,
            added: 1,
            deepest: 0,
        }
    }

    fn drawn(pairs: &[(&str, Option<&str>)]) -> Vec<String> {
        let listed: Vec<Listing> = pairs.iter().map(|(name, parent)| listing(name, *parent)).collect();
        let lines = Lineage::of(&listed).draw();
        lines.iter().map(|line| line.split("  ").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_line_stays_in_its_column_and_branches_are_indented() {
        let lines = drawn(&[
            ("run/1", None),
            ("run/2", Some("run/1")),
            ("tuned/1", Some("run/1")),
            ("run/3", Some("run/2")),
            ("tuned/2", Some("tuned/1")),
            ("run/4", Some("run/3")),
            ("other", None),
            ("orphan", Some("removed")),
        ]);
        let expected = [
            "● run/1",
            "├─● tuned/1",
            "│ ● tuned/2",
            "● run/2",
            "● run/3",
            "● run/4",
            "",
            "● other",
            "",
            "● orphan",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn circles_and_long_chains_end() {
        assert_eq!(drawn(&[("a", Some("b")), ("b", Some("a")), ("c", Some("c"))]), ["● c", "", "● a", "● b"]);
        let names: Vec<String> = (0..10_000).map(|number| format!("run/{number}")).collect();
        let pairs: Vec<(&str, Option<&str>)> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (name.as_str(), number.checked_sub(1).map(|before| names[before].as_str())))
            .collect();
        assert_eq!(drawn(&pairs).len(), 10_000);
    }
}
