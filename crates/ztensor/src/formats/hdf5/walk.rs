//! The walk over a file's groups: every object once, without recursion, however the links are knotted. Paths joined by `/` become the names of
//! tensors.

use std::collections::{HashMap, HashSet};
use std::mem::take;

use super::ahead::{Ahead, Dataset};
use super::attributes::{AttributeReader, Found};
use super::external_links::ExternalLink;
use super::header::{ObjectHeader, kind};
use super::image::Image;
use super::message::link::Target;
use super::soft_links::{self, SoftLinks};
use super::{dataset, group};
use crate::error::{Error, Hints, Kind, Result};
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
    external_links: Vec<ExternalLink>,
    waiting: Vec<Waiting>,
    /// What was read ahead of those that wait, group by group.
    ahead: Vec<Ahead>,
}

/// What is left when everything in the file has been listed: links by name.
pub(super) struct Links {
    /// The paths of all groups.
    pub groups: HashSet<String>,
    pub soft: SoftLinks,
    pub external: Vec<ExternalLink>,
}

/// An object still to be listed.
pub(super) struct Waiting {
    path: String,
    pub address: u64,
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
            external_links: Vec::new(),
            waiting: Vec::new(),
            ahead: Vec::new(),
        }
    }

    /// Walks everything that can be reached from the root group.
    pub fn run(mut self, root: u64) -> Result<Links> {
        self.waiting.push(Waiting { path: String::new(), address: root, depth: 0 });
        let mut header = ObjectHeader::default();
        while let Some(mut next) = self.waiting.pop() {
            self.visit(&mut next, &mut header).map_err(|error| match next.path.as_str() {
                "" => error,
                path => error.with_tensor(path),
            })?;
        }
        Ok(Links {
            groups: self.groups.into_values().collect(),
            soft: self.soft_links,
            external: self.external_links,
        })
    }

    /// Looks at one object. Its path is taken when the object is listed, and left for the error when it is not.
    fn visit(&mut self, next: &mut Waiting, header: &mut ObjectHeader<'a>) -> Result<()> {
        let (address, depth) = (next.address, next.depth);
        if let Some(dataset) = self.read_ahead() {
            return self.list(next, dataset?);
        }
        if let Some(first) = self.groups.get(&address) {
            self.image.charge((next.path.len() + first.len()) as u64)?;
            self.index.skip(&next.path, soft_links::another_name(first));
            self.soft_links.alias(take(&mut next.path), first.clone());
            return Ok(());
        }
        if let Some(first) = self.shared.get(&address)
            && let Some(object) = self.index.objects.get(first).cloned()
        {
            return self.insert(take(&mut next.path), object);
        }
        match header.reread(self.image, address) {
            Err(error) if error.kind() == Kind::Unsupported && depth > 0 => {
                self.index.skip(take(&mut next.path), error.message());
                return Ok(());
            }
            other => other?,
        }
        if dataset::is_dataset(header) {
            let dataset = Dataset::read(self.image, self.budget, &mut self.attributes, header)?;
            self.list(next, dataset)
        } else if group::is_group(header) {
            self.group(next, header)
        } else if depth == 0 {
            Err(Error::malformed("the root of the file is not a group")
                .with_offset(self.image.offset(address)))
        } else {
            let named = header.find(kind::DATATYPE).is_some();
            let reason = if named { "a named datatype, not a tensor" } else { "an object of unknown kind" };
            self.index.skip(take(&mut next.path), reason);
            Ok(())
        }
    }

    /// The object that has just been taken from those that wait, if it was read ahead and is a dataset.
    fn read_ahead(&mut self) -> Option<Result<Dataset>> {
        let place = self.waiting.len();
        while self.ahead.last().is_some_and(|ahead| !ahead.covers(place)) {
            self.ahead.pop();
        }
        self.ahead.last_mut()?.take(place)
    }

    fn list(&mut self, next: &mut Waiting, dataset: Dataset) -> Result<()> {
        self.note_unread(&next.path, dataset.unread)?;
        match dataset.tensor {
            Ok(object) => {
                if dataset.references > 1 {
                    self.budget.charge(next.path.len() as u64)?;
                    self.shared.insert(next.address, next.path.clone());
                }
                self.insert(take(&mut next.path), object)
            }
            Err(error) => {
                self.index.skip(take(&mut next.path), error.message());
                Ok(())
            }
        }
    }

    fn insert(&mut self, path: String, object: Object) -> Result<()> {
        self.budget.charge_object()?;
        self.budget.charge((size_of::<Object>() + path.len()) as u64)?;
        self.index.insert(path, object)
    }

    fn group(&mut self, next: &mut Waiting, header: &ObjectHeader<'a>) -> Result<()> {
        let (path, depth) = (&next.path, next.depth);
        if depth > self.budget.limits().depth {
            return Err(Error::new(Kind::Limit, format!("groups are nested more than {depth} deep"))
                .with_hints(Hints::new(
                    "If the file is trusted, raise the limit \"depth\" in OpenOptions::limits.",
                    "Read it with h5py and save it with fewer groups inside each other.",
                    "Write it with fewer groups inside each other, for example with h5py.",
                )));
        }
        let Found { values, unread } = self.attributes.read(self.image, self.budget, header)?;
        self.note_unread(path, unread)?;
        for (name, value) in values {
            self.image.charge((path.len() + name.len()) as u64)?;
            let key = if path.is_empty() { name } else { format!("{path}@{name}") };
            self.index.attributes.insert(key, value);
        }

        let links = match group::links(self.image, self.budget, header) {
            Err(error) if error.kind() == Kind::Unsupported && depth > 0 => {
                self.index.skip(take(&mut next.path), error.message());
                return Ok(());
            }
            links => links?,
        };
        let first = self.waiting.len();
        self.index.objects.reserve(links.len());
        for link in links {
            self.image.charge((path.len() + link.name.len()) as u64)?;
            let name = if path.is_empty() { link.name } else { [path, "/", &link.name].concat() };
            match link.target {
                Target::Hard(address) => {
                    self.waiting.push(Waiting { path: name, address, depth: depth + 1 });
                }
                Target::Soft(target) => self.soft_links.add(path, name, &target),
                Target::External { file, path } => {
                    self.image.charge((file.len() + path.len()) as u64)?;
                    self.external_links.push(ExternalLink { name, file, path });
                }
                Target::UserDefined => self.index.skip(name, "a link of a kind only its writer knows"),
            }
        }
        // The last one in is the first one out: turn them round, so that the file's order is kept.
        self.waiting.get_mut(first..).unwrap_or_default().reverse();
        self.groups.insert(next.address, take(&mut next.path));
        self.ahead.extend(Ahead::read(self.image, self.budget, &self.waiting, first)?);
        Ok(())
    }

    fn note_unread(&mut self, path: &str, unread: Vec<(String, String)>) -> Result<()> {
        for (name, reason) in unread {
            self.image.charge((path.len() + name.len()) as u64)?;
            self.index.skip(format!("{path}@{name}"), format!("an attribute: {reason}"));
        }
        Ok(())
    }
}
