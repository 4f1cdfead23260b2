//! The mark of an archive: the attribute that describes its original. Writers refuse to change such a file; [`crate::archive`] opens it.

use crate::error::{Error, Hints, Result};
use crate::tensor::Attributes;

/// The attribute's name.
pub(crate) const ATTRIBUTE: &str = "z4ai.archive";

/// What to do with an archive where its original is needed.
pub(crate) const RESTORE_FIRST: Hints = Hints::new(
    "Restore its original first: `ztensor::archive::restore`, or `ztensor::delta::apply`.",
    "Restore its original first: z4ai.safetensors.decompress_file, or z4ai.model_delta.decompress_file.",
    "Restore its original first: `ztensor restore`, or `ztensor delta apply`.",
);

/// Refuses to change a file that is an archive: what it holds is described once, and nothing that is added would be seen.
pub(crate) fn refuse_change(attributes: &Attributes) -> Result<()> {
    if attributes.contains_key(super::boxes::ATTRIBUTE) {
        let what = "the tensors of this file are in boxes of other files, which cannot be changed in place";
        return Err(Error::argument(what).with_hint("Convert it first."));
    }
    match attributes.contains_key(ATTRIBUTE) {
        true => Err(Error::argument("this is an archive, whose tensors cannot be changed in place")
            .with_hints(RESTORE_FIRST)),
        false => Ok(()),
    }
}
