//! External links: names for objects of other HDF5 files, which are followed as far as they stay in the folder of the file or beneath it. Each file is
//! indexed once; what a link leads to is listed under the name of the link.

use std::collections::HashMap;
use std::sync::Arc;

use super::index_file;
use super::soft_links::join;
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{FileId, Index, Object};

/// Files that may lead to each other.
const LONGEST_CHAIN: usize = 16;

/// A link of the file that is being indexed.
pub(super) struct ExternalLink {
    /// The full path of the link.
    pub name: String,
    /// The file, as the link has it.
    pub file: String,
    /// The path there.
    pub path: String,
}

/// The files that were followed so far.
#[derive(Default)]
pub(super) struct Followed {
    /// Files whose links are being followed, the one that was asked for first.
    open: Vec<FileId>,
    known: HashMap<FileId, Arc<Index>>,
}

impl Followed {
    /// Lists what the links of `file` lead to.
    pub fn follow(
        &mut self,
        input: &mut Input,
        index: &mut Index,
        file: FileId,
        links: Vec<ExternalLink>,
    ) -> Result<()> {
        let follows = !self.open.contains(&file) && self.open.len() < LONGEST_CHAIN;
        self.open.push(file);
        for link in links {
            let target = if follows { self.target(input, &link.file) } else { Err(circle()) };
            match target {
                Ok(target) => graft(input, index, &link, &target)?,
                // A link that leads nowhere spoils no more than itself.
                Err(error) if error.kind() == Kind::Limit => return Err(error),
                Err(error) => {
                    let reason =
                        format!("a link to \"{}\" in \"{}\": {}", link.path, link.file, error.message());
                    index.skip(link.name, reason);
                }
            }
        }
        self.open.pop();
        Ok(())
    }

    fn target(&mut self, input: &mut Input, name: &str) -> Result<Arc<Index>> {
        let file = input.beneath(name)?;
        if let Some(known) = self.known.get(&file) {
            return Ok(Arc::clone(known));
        }
        let end = input.file(file)?.len();
        let index = Arc::new(index_file(input, self, file, 0, end)?);
        // Inside a circle this is first the file without what its own links lead to, and complete later.
        self.known.insert(file, Arc::clone(&index));
        Ok(index)
    }
}

fn circle() -> Error {
    Error::unsupported("the files lead to each other in a circle, or too many of them do")
}

/// Lists a tensor, or all that lies in a group, under the name of the link that leads to it.
fn graft(input: &mut Input, index: &mut Index, link: &ExternalLink, target: &Index) -> Result<()> {
    let path = join("", &link.path);
    let renamed = |name: &str| {
        let rest = name.strip_prefix(path.as_str())?;
        match rest.chars().next() {
            None | Some('@') => Some(format!("{}{rest}", link.name)),
            Some('/') => Some(format!("{}{rest}", link.name)),
            _ if path.is_empty() => Some(format!("{}/{rest}", link.name)),
            _ => None,
        }
    };
    let mut found = path.is_empty();
    for (name, object) in &target.objects {
        let Some(name) = renamed(name) else { continue };
        found = true;
        input.budget.charge_object()?;
        input.budget.charge((size_of::<Object>() + name.len()) as u64)?;
        index.insert(name, object.clone())?;
    }
    for skipped in &target.skipped {
        let Some(name) = renamed(&skipped.name) else { continue };
        found = true;
        input.budget.charge((name.len() + skipped.reason.len()) as u64)?;
        index.skip(name, &skipped.reason);
    }
    for (key, value) in &target.attributes {
        // Attributes of the root have no path before them.
        let name = match key.contains('@') {
            true => renamed(key),
            false => path.is_empty().then(|| format!("{}@{key}", link.name)),
        };
        let Some(name) = name else { continue };
        found = true;
        input.budget.charge(name.len() as u64)?;
        index.attributes.insert(name, value.clone());
    }
    if !found {
        let reason = format!("a link to \"{}\" in \"{}\", where nothing has that name", link.path, link.file);
        index.skip(link.name.as_str(), reason);
    }
    Ok(())
}
