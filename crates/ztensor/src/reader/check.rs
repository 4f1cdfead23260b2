//! What is checked before and after tensors are read: that decoding is in proportion to what is stored,
//! stored checksums, and the values that formats promise.

use std::sync::PoisonError;

use rayon::prelude::*;

use super::Reader;
use crate::encoding;
use crate::error::{Error, Result};
use crate::index::{Component, Data, Format, Span};
use crate::limits::Limits;
use crate::sparse;

impl Reader {
    /// Refuses a component whose decoding, or that of all tensors of the file, would be out of proportion to
    /// what is stored, as every way of reading does. For those who allocate memory first.
    pub fn check_proportion(&self, name: &str, role: &str) -> Result<()> {
        self.with_component(name, role, |_, component| self.check_decoded(component))
    }

    /// Checks the indices of a sparse tensor: they lie inside its shape and row pointers rise, in every
    /// format; in version 2 of `.zt` no element occurs twice. Tensors of other layouts have nothing to check.
    pub fn check_sparse(&self, name: &str) -> Result<()> {
        let (_, object) = self.find(name)?;
        let once = self.index.format == Format::Zt && self.index.version == "2";
        sparse::check(object, once, |role| self.component_bytes(name, role))
            .map_err(|error| error.with_tensor(name))
    }

    /// Checks every stored checksum and decodes every component; returns the names of the tensors, and of the
    /// files beside the opened one, that fail, with the reasons.
    pub fn verify_all(&self) -> Vec<(String, Error)> {
        let checked: Vec<Option<(String, Error)>> = self
            .index
            .objects
            .par_iter()
            .map(|(name, object)| {
                let checked = object.components.iter().try_for_each(|(_, component)| {
                    self.check_decoded(component)?;
                    if component.checks_stored_bytes() {
                        encoding::verify(&self.files, component, None)?;
                    }
                    let bytes = encoding::bytes(&self.files, component)?;
                    if component.checks_stored_bytes() {
                        Ok(())
                    } else {
                        encoding::verify(&self.files, component, Some(&bytes))
                    }
                });
                let checked = checked.and_then(|()| self.check_sparse(name));
                checked.err().map(|error| (name.clone(), error.with_tensor(name)))
            })
            .collect();
        let mut failures: Vec<(String, Error)> = checked.into_iter().flatten().collect();
        failures.extend(self.index.file_digests.iter().filter_map(|(file, digest)| {
            let source = self.files.get(file.0 as usize)?;
            let whole = Span { file: *file, offset: 0, length: source.len() };
            let error = encoding::verify_span(&self.files, whole, digest).err()?;
            let name = source.path()?.file_name()?.to_string_lossy().into_owned();
            Some((name, error))
        }));
        failures
    }

    /// Refuses to decode, or to copy, what looks like a bomb: a tensor that is out of proportion by itself,
    /// or any of a file whose other tensors are so together.
    pub(super) fn check_decoded(&self, component: &Component) -> Result<()> {
        self.check_component(component)?;
        let (decoded, stored) = *self.totals.get_or_init(|| {
            let components = self.index.objects.values().flat_map(|object| &object.components);
            let sound = components.filter(|(_, component)| self.check_component(component).is_ok());
            (sound.map(|(_, component)| component.length).fold(0, u64::saturating_add), self.total_stored())
        });
        self.limits.check_decoded(decoded, stored)
    }

    /// The same for all bytes of the files, where they are put together from what an archive holds.
    pub(crate) fn check_sources(&self) -> Result<()> {
        let decoded = self.files.iter().map(|file| file.len()).fold(0, u64::saturating_add);
        self.limits.check_decoded(decoded, self.total_stored())
    }

    fn total_stored(&self) -> u64 {
        self.files.iter().map(|file| file.total_stored()).fold(0, u64::saturating_add)
    }

    fn check_component(&self, component: &Component) -> Result<()> {
        if component.length <= Limits::ALWAYS_DECODED.min(self.limits.decoded_bytes) {
            return Ok(());
        }
        let weight = |span: Span| match self.files.get(span.file.0 as usize) {
            Some(file) => file.weight(span.offset, span.length),
            None => span.length,
        };
        let stored = match (component.data.only_span(), &component.data) {
            (Some(span), _) => weight(span),
            (None, data @ Data::Boxes(_)) => {
                let mut length = 0u64;
                data.for_each_span(&mut |span| length = length.saturating_add(weight(span)));
                length
            }
            (None, data) => data.stored_length(),
        };
        self.limits.check_decoded(component.length, stored)
    }

    /// Checks a checksum over stored bytes before they are decoded: damage is then named as what it is.
    pub(super) fn verify_stored(&self, position: (usize, usize), component: &Component) -> Result<()> {
        if component.checks_stored_bytes() { self.verify(position, component, None) } else { Ok(()) }
    }

    pub(super) fn verify(
        &self,
        position: (usize, usize),
        component: &Component,
        decoded: Option<&[u8]>,
    ) -> Result<()> {
        let Some(verified) = self.verified.as_ref().filter(|_| component.is_checked()) else { return Ok(()) };
        if verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&position) {
            return Ok(());
        }
        encoding::verify(&self.files, component, decoded)?;
        verified.lock().unwrap_or_else(PoisonError::into_inner).insert(position);
        Ok(())
    }
}
