//! Soft links: names for paths of the same file. They are resolved when all hard links are known, by looking paths up, so chains and
//! circles of them cost no more than their text.

use std::collections::{HashMap, HashSet};

use super::image::Image;
use crate::error::Result;
use crate::index::Index;
use crate::limits::Budget;

/// How many soft links may lead to each other, as in the HDF5 library.
const LONGEST_CHAIN: usize = 16;

/// The soft links of a file, and the hard links that give a group a second name.
#[derive(Default)]
pub(super) struct SoftLinks {
    names: Vec<String>,
    targets: HashMap<String, String>,
}

/// Where a path leads.
enum End {
    Tensor(String),
    Group(String),
    Unread(String),
    Nowhere,
}

impl SoftLinks {
    /// Adds a link `name` (a full path) of the group at `group`.
    pub fn add(&mut self, group: &str, name: String, target: &str) {
        let base = if target.starts_with('/') { "" } else { group };
        self.targets.insert(name.clone(), join(base, target));
        self.names.push(name);
    }

    /// Notes that a hard link `name` leads to the group that is listed as `first`.
    pub fn alias(&mut self, name: String, first: String) {
        self.targets.insert(name, first);
    }

    /// Lists each link: as a tensor where it leads to one, otherwise as not read.
    pub fn resolve(
        &self,
        image: &Image<'_>,
        budget: &mut Budget,
        index: &mut Index,
        groups: &HashSet<String>,
    ) -> Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        let unread: HashSet<String> = index.skipped.iter().map(|skipped| skipped.name.clone()).collect();
        for name in &self.names {
            let target = self.targets.get(name).map(String::as_str).unwrap_or_default();
            match self.follow(image, index, groups, &unread, target)? {
                End::Tensor(path) => {
                    if let Some(object) = index.objects.get(&path).cloned() {
                        budget.charge_object()?;
                        budget.charge(name.len() as u64)?;
                        index.insert(name.clone(), object)?;
                    }
                }
                End::Group(path) => index.skip(name, another_name(&path)),
                End::Unread(path) => index.skip(name, format!("a link to \"{path}\", which is not read")),
                End::Nowhere => {
                    index.skip(name, format!("a link to \"{target}\", which leads nowhere in this file"))
                }
            }
        }
        Ok(())
    }

    fn follow(
        &self,
        image: &Image<'_>,
        index: &Index,
        groups: &HashSet<String>,
        unread: &HashSet<String>,
        target: &str,
    ) -> Result<End> {
        let mut path = target.to_owned();
        for _ in 0..=LONGEST_CHAIN {
            image.charge(path.len() as u64)?;
            if index.objects.contains_key(&path) {
                return Ok(End::Tensor(path));
            } else if groups.contains(path.as_str()) {
                return Ok(End::Group(path));
            }
            // The first part of the path that is itself a soft link is replaced by what it stands for.
            let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
            let replaced = ends.into_iter().find_map(|end| {
                let (link, rest) = path.split_at(end);
                self.targets.get(link).map(|target| join(target, rest))
            });
            match replaced {
                Some(next) => path = next,
                None if unread.contains(&path) => return Ok(End::Unread(path)),
                None => return Ok(End::Nowhere),
            }
        }
        Ok(End::Nowhere)
    }
}

/// Why a second name of a group is not walked into.
pub(super) fn another_name(first: &str) -> String {
    match first {
        "" => "another name of the file's root, whose tensors are listed there".to_owned(),
        _ => format!("another name of the group \"{first}\", whose tensors are listed there"),
    }
}

/// A path in the form of tensor names: no leading, doubled or trailing separators, no `.`.
pub(super) fn join(base: &str, path: &str) -> String {
    let parts = base.split('/').chain(path.split('/')).filter(|part| !part.is_empty() && *part != ".");
    let mut joined = String::with_capacity(base.len() + path.len() + 1);
    for part in parts {
        if !joined.is_empty() {
            joined.push('/');
        }
        joined.push_str(part);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn paths_are_joined_as_names() {
        assert_eq!(join("", "/a//b/"), "a/b");
        assert_eq!(join("a", "./b"), "a/b");
        assert_eq!(join("", "/"), "");
    }
}
