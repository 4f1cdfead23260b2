//! Floats that were something narrower before: fp16 weights of a model that was trained in bf16, fp32 files with bf16, fp16 or fp8 in them. The
//! bits that the narrower type lacks say nothing, so elements are coded as those of that type, with all that is known about it, and widened
//! again. The few that are no numbers of it are listed.

mod convert;
mod decode;
mod encode;
mod fit;
mod model;

pub(crate) use fit::Narrowed;
pub(crate) use model::CastModel;
