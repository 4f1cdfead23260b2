//! Quantised tensors: integers with a scale and a zero point, for the whole tensor or for each channel.

use std::borrow::Cow;

use super::globals::Known;
use super::pickle::{Id, Node};
use super::rebuild::{Reading, Rebuilder, skipped};
use super::view;
use crate::error::Error;
use crate::index::Object;
use crate::tensor::{Layout, Value};

/// Integers in `data`; `scheme` and either `scale` and `zero_point` or `axis` as attributes, with `scales` and `zeros` beside the data.
pub(super) const LAYOUT: &str = "torch.quantized/1";

/// The object that `_rebuild_qtensor(storage, offset, shape, strides, quantizer, …)` makes.
pub(super) fn object(rebuilder: &Rebuilder<'_, '_>, arguments: &[Id]) -> Reading<Object> {
    let [storage, offset, shape, strides, quantizer, ..] = arguments else {
        return Err(Error::malformed("a quantised tensor in the pickle lacks arguments").into());
    };
    let view = rebuilder.view(*offset, *shape, *strides)?;
    let storage = rebuilder.required_storage(*storage)?;
    let dense = view::dense(&storage, storage.scalar, view, rebuilder.storages.big_endian)?;
    let dtype = dense.scalar.name;
    let mut object = Object::dense(dense.shape, dense.component);
    object.layout = Layout::Other(LAYOUT.into());

    let wrong = || Error::malformed("the quantisation of a tensor is not of the known form");
    let quantizer = rebuilder.arena.items(*quantizer).ok_or_else(wrong)?;
    let scheme = quantizer.first().ok_or_else(wrong)?;
    let mut attributes = vec![("dtype", Value::from(dtype))];
    match (rebuilder.known(*scheme), quantizer) {
        (Known::PerTensorAffine, [_, scale, zero_point, ..]) => {
            let Node::Float(scale) = *rebuilder.arena.get(*scale) else { return Err(wrong().into()) };
            attributes.push(("scheme", Value::from("per_tensor_affine")));
            attributes.push(("scale", Value::Float(scale)));
            attributes
                .push(("zero_point", Value::from(rebuilder.arena.integer(*zero_point).ok_or_else(wrong)?)));
        }
        (Known::PerChannelAffine, [_, scales, zeros, axis, ..]) => {
            let (scales, zeros) = (rebuilder.dense(*scales)?, rebuilder.dense(*zeros)?);
            attributes.push(("scheme", Value::from("per_channel_affine")));
            attributes.push(("axis", Value::from(rebuilder.arena.integer(*axis).ok_or_else(wrong)?)));
            object.components.push((Cow::Borrowed("scales"), scales.component));
            object.components.push((Cow::Borrowed("zeros"), zeros.component));
        }
        _ => return Err(skipped("its quantisation scheme is not known")),
    }
    object.attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Ok(object)
}
