//! The walk over a file's groups: every object once, without recursion, however the links are knotted. Paths joined by `/` become the names of
//! tensors.

use std::collections::HashMap;

use super::attributes::{AttributeReader, Found};
use super::header::{ObjectHeader, kind};
use super::image::Image;
use super::message::link::Target;
use super::soft_links::{self, SoftLinks};
use super::{dataset, group};
use crate::error::{Error, Kind, Result};
use crate::index::{Index, Object};
use crate::limits::Budget;

/// Walks a file from its root group and fills an index.
pub(super) struct Walk<'a, 'b> {
    image: &'b Image<'a>,
    budget: &'b mut Budget,
    index: &'b mut Index,
    attributes: AttributeReader<'a>,
    /// Groups by address, with the path they were first met at.
    groups: HashMap<u64, String>,
    /// Datasets with several names by address, with their first name.
    shared: HashMap<u64, String>,
    soft_links: SoftLinks,
    waiting: Vec<Waiting>,
}

/// An object still to be looked at.
struct Waiting {
    path: String,
    address: u64,
    depth: usize,
}

impl<'a, 'b> Walk<'a, 'b> {
    pub fn new(image: &'b Image<'a>, budget: &'b mut Budget, index: &'b mut Index) -> Self {
        Walk {
            image,
            budget,
            index,
            attributes: AttributeReader::new(),
            groups: HashMap::new(),
            shared: HashMap::new(),
            soft_links: SoftLinks::default(),
            waiting: Vec::new(),
        }
    }

    /// Walks everything that can be reached from the root group.
    pub fn run(mut self, root: u64) -> Result<()> {
        self.waiting.push(Waiting { path: String::new(), address: root, depth: 0 });
        while let Some(next) = self.waiting.pop() {
            let path = next.path.clone();
            self.visit(next)
                .map_err(|error| if path.is_empty() { error } else { error.with_tensor(&path) })?;
        }
        let groups: std::collections::HashSet<&str> = self.groups.values().map(String::as_str).collect();
        self.soft_links.resolve(self.image, self.budget, self.index, &groups)
    }

    fn visit(&mut self, Waiting { path, address, depth }: Waiting) -> Result<()> {
        if let Some(first) = self.groups.get(&address) {
            self.index.skip(&path, soft_links::another_name(first));
            self.soft_links.alias(path, first.clone());
            return Ok(());
        }
        if let Some(first) = self.shared.get(&address)
            && let Some(object) = self.index.objects.get(first).cloned()
        {
            return self.insert(path, object);
        }
        let header = match ObjectHeader::read(self.image, address) {
            Err(error) if error.kind() == Kind::Unsupported && depth > 0 => {
                self.index.skip(path, error.message());
                return Ok(());
            }
            header => header?,
        };
        if dataset::is_dataset(&header) {
            self.dataset(path, address, &header)
        } else if group::is_group(&header) {
            self.group(path, address, &header, depth)
        } else if depth == 0 {
            Err(Error::malformed("the root of the file is not a group")
                .with_offset(self.image.offset(address)))
        } else {
            let named = header.find(kind::DATATYPE).is_some();
            self.index.skip(
                path,
                if named { "a named datatype, not a tensor" } else { "an object of unknown kind" },
            );
            Ok(())
        }
    }

    fn dataset(&mut self, path: String, address: u64, header: &ObjectHeader<'a>) -> Result<()> {
        let Found { values, unread } = self.attributes.read(self.image, self.budget, header)?;
        self.note_unread(&path, unread);
        match dataset::tensor(self.image, self.budget, header, values) {
            Ok(object) => {
                if header.references > 1 {
                    self.shared.insert(address, path.clone());
                }
                self.insert(path, object)
            }
            Err(error) if error.kind() == Kind::Unsupported => {
                self.index.skip(path, error.message());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn insert(&mut self, path: String, object: Object) -> Result<()> {
        self.budget.charge_object()?;
        self.budget.charge((size_of::<Object>() + path.len()) as u64)?;
        self.index.insert(path, object)
    }

    fn group(&mut self, path: String, address: u64, header: &ObjectHeader<'a>, depth: usize) -> Result<()> {
        if depth > self.budget.limits().depth {
            return Err(Error::new(Kind::Limit, format!("groups are nested more than {depth} deep"))
                .with_hint("If the file is trusted, open it with larger limits."));
        }
        let Found { values, unread } = self.attributes.read(self.image, self.budget, header)?;
        self.note_unread(&path, unread);
        for (name, value) in values {
            let key = if path.is_empty() { name } else { format!("{path}@{name}") };
            self.budget.charge(key.len() as u64)?;
            self.index.attributes.insert(key, value);
        }

        let links = match group::links(self.image, self.budget, header) {
            Err(error) if error.kind() == Kind::Unsupported && depth > 0 => {
                self.index.skip(path, error.message());
                return Ok(());
            }
            links => links?,
        };
        let first = self.waiting.len();
        for link in links {
            let name = if path.is_empty() { link.name } else { format!("{path}/{}", link.name) };
            self.image.charge(name.len() as u64)?;
            self.budget.charge(name.len() as u64)?;
            match link.target {
                Target::Hard(address) => self.waiting.push(Waiting { path: name, address, depth: depth + 1 }),
                Target::Soft(target) => self.soft_links.add(&path, name, &target),
                Target::External => self.index.skip(name, "a link to another file, which is not followed"),
                Target::UserDefined => self.index.skip(name, "a link of a kind only its writer knows"),
            }
        }
        // The last one in is the first one out: turn them round, so that the file's order is kept.
        self.waiting.get_mut(first..).unwrap_or_default().reverse();
        self.groups.insert(address, path);
        Ok(())
    }

    fn note_unread(&mut self, path: &str, unread: Vec<(String, String)>) {
        for (name, reason) in unread {
            self.index.skip(format!("{path}@{name}"), format!("an attribute: {reason}"));
        }
    }
}
