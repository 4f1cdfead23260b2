//! Making deltas: which tensor of the bases a tensor is stored against, and whether that is worth it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use z4ai::ReferenceId;

use crate::archive::{
    BaseDescription, BaseTensor, Encoded, Encoder, MOST_BASES, Original, Run, encode_alone, raw_or_frame,
};
use crate::encoding::z4ai_failure;
use crate::error::{Error, Result};
use crate::reader::Reader;

/// Shorter tensors are stored by themselves: naming a tensor of the base takes as many bytes.
const SHORTEST: u64 = 64;
/// What referring to a tensor of the base costs besides the delta: its name and a few numbers.
const REFERENCE: usize = 24;
/// Tensors up to this size are always tried without the base as well.
const SMALL: usize = 64 << 10;

/// Stores runs against the tensors of bases.
pub(super) struct AgainstBases<'a> {
    bases: &'a [Arc<Reader>],
    /// The bases' tensors by content.
    by_content: HashMap<ReferenceId, BaseTensor>,
}

impl<'a> AgainstBases<'a> {
    /// Reads all tensors of the bases.
    pub(super) fn new(bases: &'a [Arc<Reader>]) -> Result<AgainstBases<'a>> {
        if bases.is_empty() || bases.len() > MOST_BASES {
            return Err(Error::argument(format!("a delta has 1 to {MOST_BASES} bases, not {}", bases.len())));
        }
        let components: Vec<(usize, &str, &str)> = bases
            .iter()
            .enumerate()
            .flat_map(|(base, reader)| reader.objects().map(move |(name, object)| (base, name, object)))
            .flat_map(|(base, name, object)| {
                let long = object.components.iter().filter(|(_, component)| component.length >= SHORTEST);
                long.map(move |(role, _)| (base, name, role.as_ref()))
            })
            .collect();
        let identities: Vec<Option<ReferenceId>> = components
            .par_iter()
            .map(|(base, name, role)| {
                // What cannot be read is no base for anything; the target does not need it.
                let bytes = bases.get(*base)?.component_bytes(name, role).ok()?;
                ReferenceId::of(&bytes, 0).ok()
            })
            .collect();
        let mut by_content = HashMap::with_capacity(components.len());
        for ((base, name, role), identity) in components.iter().zip(identities) {
            let tensor = || BaseTensor { base: *base, name: (*name).to_owned(), role: (*role).to_owned() };
            if let Some(identity) = identity {
                by_content.entry(identity).or_insert_with(tensor);
            }
        }
        Ok(AgainstBases { bases, by_content })
    }

    /// The bases' tensors of the same name, type and shape.
    fn namesakes(&self, run: &Run) -> Vec<BaseTensor> {
        let Some((name, role)) = &run.tensor else { return Vec::new() };
        let of = |(base, reader): (usize, &Arc<Reader>)| {
            let object = reader.index().objects.get(name)?;
            let component = object.component(role)?;
            let same = component.element == run.element
                && component.length == run.length
                && object.component_shape(role).as_ref() == Some(&run.shape);
            same.then(|| BaseTensor { base, name: name.clone(), role: role.clone() })
        };
        self.bases.iter().enumerate().filter_map(of).collect()
    }

    /// Of tensors of several bases, the one that takes the fewest bytes on a sample.
    fn nearest(
        &self,
        mut tensors: Vec<BaseTensor>,
        bytes: &[u8],
        options: &z4ai::Options,
    ) -> Result<Option<BaseTensor>> {
        if tensors.len() < 2 {
            return Ok(tensors.pop());
        }
        let options = z4ai::Options { shape: None, threads: 1, ..options.clone() };
        let start = bytes.len().saturating_sub(SMALL) / 2 / 16 * 16;
        let sample = start..(start + SMALL).min(bytes.len());
        let mut nearest: Option<(usize, BaseTensor)> = None;
        for tensor in tensors {
            let base = self.bytes(&tensor)?;
            let (Some(sample), Some(base)) = (bytes.get(sample.clone()), base.get(sample.clone())) else {
                continue;
            };
            let taken = z4ai::compress_delta(sample, base, &options).map_err(z4ai_failure)?.len();
            if nearest.as_ref().is_none_or(|(least, _)| taken < *least) {
                nearest = Some((taken, tensor));
            }
        }
        Ok(nearest.map(|(_, tensor)| tensor))
    }

    fn bytes(&self, tensor: &BaseTensor) -> Result<Cow<'_, [u8]>> {
        match self.bases.get(tensor.base) {
            Some(base) => base.component_bytes(&tensor.name, &tensor.role),
            None => Err(Error::argument("there is no such base")),
        }
    }

    fn is_equal(&self, tensor: &BaseTensor, bytes: &[u8]) -> Result<bool> {
        Ok(*self.bytes(tensor)? == *bytes)
    }
}

impl Encoder for AgainstBases<'_> {
    fn describe(&self) -> Result<Vec<BaseDescription>> {
        let describe = |base: &Arc<Reader>| {
            let path = base.sources().first().and_then(|file| file.path());
            let name = path.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
            let (identity, files) = Original::of_base(base)?.identify()?;
            Ok(BaseDescription { name: name.unwrap_or_default(), identity, files })
        };
        self.bases.iter().map(describe).collect()
    }

    fn bases(&self) -> &[Arc<Reader>] {
        self.bases
    }

    fn encode(&self, run: &Run, bytes: &[u8], options: &z4ai::Options) -> Result<Option<Encoded>> {
        if run.length < SHORTEST {
            return Ok(None);
        }
        let identity = ReferenceId::of(bytes, 0).map_err(z4ai_failure)?;
        let namesakes = self.namesakes(run);
        if let Some(twin) = self.by_content.get(&identity) {
            // Of equal tensors in the bases the one of the same name: names then repeat in the table's order.
            for tensor in namesakes.iter().chain([twin]) {
                if self.is_equal(tensor, bytes)? {
                    return Ok(Some(Encoded::Copy { tensor: tensor.clone(), digest: identity.digest }));
                }
            }
        }
        let Some(tensor) = self.nearest(namesakes, bytes, options)? else { return Ok(None) };
        let (frame, is_delta) =
            z4ai::compress_delta_if_useful(bytes, &self.bytes(&tensor)?, options).map_err(z4ai_failure)?;
        if !is_delta {
            return Ok(Some(raw_or_frame(bytes, frame)));
        }
        // The delta has looked at every section without the base; only what naming that costs can make it the longer one.
        if bytes.len() <= SMALL || frame.len() < 64 * REFERENCE {
            let alone = encode_alone(bytes, options)?;
            if alone.length(bytes.len()) <= frame.len() + REFERENCE {
                return Ok(Some(alone));
            }
        }
        Ok(Some(Encoded::Delta { tensor, frame }))
    }
}
