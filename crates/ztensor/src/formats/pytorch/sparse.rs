//! Sparse tensors: coordinates and compressed rows, whose parts are plain tensors themselves.

use std::borrow::Cow;

use super::globals::Known;
use super::pickle::{Id, Node};
use super::rebuild::{Dense, Reading, Rebuilder, skipped};
use crate::error::Error;
use crate::index::{Component, Object};
use crate::tensor::{Attributes, DType, ElementType, Layout, Shape, Value};

/// The object that `_rebuild_sparse_tensor(layout, parts)` makes.
pub(super) fn object(rebuilder: &Rebuilder<'_, '_>, arguments: &[Id]) -> Reading<Object> {
    let wrong = || Error::malformed("a sparse tensor in the pickle lacks parts");
    let [layout, parts] = arguments else { return Err(wrong().into()) };
    let parts = rebuilder.arena.items(*parts).ok_or_else(wrong)?;
    match (layout_name(rebuilder, *layout), parts) {
        (Some("torch.sparse_coo"), [indices, values, shape, rest @ ..]) => {
            let coalesced = rest.first().map(|id| rebuilder.arena.get(*id));
            coordinates(rebuilder, [*indices, *values, *shape], matches!(coalesced, Some(Node::Bool(true))))
        }
        (Some("torch.sparse_csr"), [pointers, columns, values, shape]) => {
            compressed_rows(rebuilder, [*pointers, *columns, *values, *shape])
        }
        (Some(name @ ("torch.sparse_coo" | "torch.sparse_csr")), _) => {
            Err(Error::malformed(format!("a tensor of layout {name} lacks parts")).into())
        }
        (Some(name), _) => Err(skipped(format!("its layout {name} is not read"))),
        (None, _) => Err(skipped("its sparse layout is not known")),
    }
}

fn layout_name<'p>(rebuilder: &Rebuilder<'p, '_>, id: Id) -> Option<&'p str> {
    let call = rebuilder.arena.call(id)?;
    let first = rebuilder.arena.items(call.arguments)?.first()?;
    (rebuilder.known(call.callable) == Known::LayoutName).then(|| rebuilder.arena.text(*first))?
}

fn coordinates(rebuilder: &Rebuilder<'_, '_>, parts: [Id; 3], coalesced: bool) -> Reading<Object> {
    let [indices, values, shape] = parts;
    let (indices, values) = (rebuilder.dense(indices)?, rebuilder.dense(values)?);
    let shape = Shape::from(rebuilder.dimensions(shape)?);
    let [count] = *values.shape else {
        return Err(skipped("its values are arrays of their own (a hybrid sparse tensor)"));
    };
    if *indices.shape != [shape.len() as u64, count] {
        return Err(Error::malformed(format!(
            "the coordinates of a sparse tensor have shape {}, but {count} values of {} dimensions need [{}, {count}]",
            indices.shape,
            shape.len(),
            shape.len()
        ))
        .into());
    }
    let components =
        vec![(Cow::Borrowed("values"), values.component), (Cow::Borrowed("coords"), positions(indices)?)];
    let attributes = Attributes::from([("coalesced".to_owned(), Value::Bool(coalesced))]);
    Ok(Object { shape, layout: Layout::SparseCoo, attributes, components: components.into() })
}

fn compressed_rows(rebuilder: &Rebuilder<'_, '_>, parts: [Id; 4]) -> Reading<Object> {
    let [pointers, columns, values, shape] = parts;
    let (pointers, columns) = (rebuilder.dense(pointers)?, rebuilder.dense(columns)?);
    let values = rebuilder.dense(values)?;
    let shape = Shape::from(rebuilder.dimensions(shape)?);
    let ([rows, _columns], [_], [count]) = (&*shape, &*pointers.shape, &*values.shape) else {
        return Err(skipped("it is a batch of sparse matrices or has blocks of values"));
    };
    if rows.checked_add(1) != Some(pointers.shape[0]) || *columns.shape != [*count] {
        return Err(Error::malformed("the parts of a sparse matrix differ in length").into());
    }
    let components = vec![
        (Cow::Borrowed("values"), values.component),
        (Cow::Borrowed("indices"), positions(columns)?),
        (Cow::Borrowed("indptr"), positions(pointers)?),
    ];
    Ok(Object {
        shape,
        layout: Layout::SparseCsr,
        attributes: Attributes::new(),
        components: components.into(),
    })
}

/// Positions are never negative, so they are unsigned elsewhere; the bytes are the same.
fn positions(dense: Dense) -> Reading<Component> {
    let storage = match (dense.component.element.storage, &dense.component.element.logical) {
        (DType::I64, None) => DType::U64,
        (DType::I32, None) => DType::U32,
        _ => return Err(Error::malformed("the positions in a sparse tensor are not integers").into()),
    };
    Ok(Component { element: ElementType::plain(storage), ..dense.component })
}
