//! Making deltas: which tensor of the base a tensor is stored against, and whether that is worth it.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use z4ai::ReferenceId;

use crate::archive::{
    BaseDescription, BaseTensor, Encoded, Encoder, Original, Run, encode_alone, raw_or_frame,
};
use crate::encoding::z4ai_failure;
use crate::error::Result;
use crate::index::Component;
use crate::reader::Reader;

/// Shorter tensors are stored by themselves: naming a tensor of the base takes as many bytes.
const SHORTEST: u64 = 64;
/// What referring to a tensor of the base costs besides the delta: its name and a few numbers.
const REFERENCE: usize = 24;
/// Tensors up to this size are always tried without the base as well.
const SMALL: usize = 64 << 10;

/// Stores runs against the tensors of a base.
pub(super) struct AgainstBase {
    base: Arc<Reader>,
    name: String,
    /// The base's tensors by content.
    by_content: HashMap<ReferenceId, BaseTensor>,
}

impl AgainstBase {
    /// Reads all tensors of the base.
    pub(super) fn new(base: &Arc<Reader>) -> Result<AgainstBase> {
        let components: Vec<(&str, &str, &Component)> = base
            .objects()
            .flat_map(|(name, object)| {
                object.components.iter().map(move |(role, component)| (name, role.as_ref(), component))
            })
            .filter(|(_, _, component)| component.length >= SHORTEST)
            .collect();
        let identities: Vec<Option<ReferenceId>> = components
            .par_iter()
            .map(|(name, role, _)| {
                // What cannot be read is no base for anything; the target does not need it.
                base.component_bytes(name, role).ok().and_then(|bytes| ReferenceId::of(&bytes, 0).ok())
            })
            .collect();
        let mut by_content = HashMap::with_capacity(components.len());
        for ((name, role, _), identity) in components.iter().zip(identities) {
            let tensor = || BaseTensor { name: (*name).to_owned(), role: (*role).to_owned() };
            if let Some(identity) = identity {
                by_content.entry(identity).or_insert_with(tensor);
            }
        }
        let path = base.sources().first().and_then(|file| file.path());
        let name = path.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        Ok(AgainstBase { name: name.unwrap_or_default(), base: Arc::clone(base), by_content })
    }

    /// The base's tensor of the same name, type and shape.
    fn namesake(&self, run: &Run) -> Option<BaseTensor> {
        let (name, role) = run.tensor.as_ref()?;
        let object = self.base.index().objects.get(name)?;
        let component = object.component(role)?;
        let same = component.element == run.element
            && component.length == run.length
            && object.component_shape(role).as_ref() == Some(&run.shape);
        same.then(|| BaseTensor { name: name.clone(), role: role.clone() })
    }
}

impl Encoder for AgainstBase {
    fn base(&self) -> Result<Option<BaseDescription>> {
        let (identity, files) = Original::of_base(&self.base)?.identify()?;
        Ok(Some(BaseDescription { name: self.name.clone(), identity, files }))
    }

    fn base_reader(&self) -> Option<&Arc<Reader>> {
        Some(&self.base)
    }

    fn encode(&self, run: &Run, bytes: &[u8], options: &z4ai::Options) -> Result<Option<Encoded>> {
        if run.length < SHORTEST {
            return Ok(None);
        }
        let identity = ReferenceId::of(bytes, 0).map_err(z4ai_failure)?;
        let namesake = self.namesake(run);
        if let Some(twin) = self.by_content.get(&identity) {
            let tensor = match &namesake {
                // Of equal tensors in the base the one of the same name: names then repeat in the table's order.
                Some(namesake) if self.is_equal(namesake, bytes)? => namesake,
                _ => twin,
            };
            if self.is_equal(tensor, bytes)? {
                return Ok(Some(Encoded::Copy { tensor: tensor.clone(), digest: identity.digest }));
            }
        }
        let Some(tensor) = namesake else { return Ok(None) };
        let base = self.base.component_bytes(&tensor.name, &tensor.role)?;
        let (frame, is_delta) =
            z4ai::compress_delta_if_useful(bytes, &base, options).map_err(z4ai_failure)?;
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

impl AgainstBase {
    fn is_equal(&self, tensor: &BaseTensor, bytes: &[u8]) -> Result<bool> {
        Ok(*self.base.component_bytes(&tensor.name, &tensor.role)? == *bytes)
    }
}
