//! Sparse tensors: coordinates, and compressed rows or columns of elements or blocks, whose parts are plain tensors themselves.

use std::borrow::Cow;

use super::globals::Known;
use super::pickle::{Id, Node};
use super::rebuild::{Dense, Reading, Rebuilder, skipped};
use crate::error::Error;
use crate::index::{Component, Object};
use crate::tensor::{Attributes, Compressed, DType, ElementType, Layout, Shape, Value};

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
        (Some("torch.sparse_coo"), _) => {
            Err(Error::malformed("a tensor of layout torch.sparse_coo lacks parts").into())
        }
        (Some(name), parts) => match (compressed(name), parts) {
            (Some(kind), [pointers, indices, values, shape]) => {
                matrix(rebuilder, kind, [*pointers, *indices, *values, *shape])
            }
            (Some(_), _) => Err(Error::malformed(format!("a tensor of layout {name} lacks parts")).into()),
            (None, _) => Err(skipped(format!("its layout {name} is not read"))),
        },
        (None, _) => Err(skipped("its sparse layout is not known")),
    }
}

/// PyTorch's name of a compressed layout.
fn compressed(name: &str) -> Option<Compressed> {
    let (by_columns, in_blocks) = match name {
        "torch.sparse_csr" => (false, false),
        "torch.sparse_csc" => (true, false),
        "torch.sparse_bsr" => (false, true),
        "torch.sparse_bsc" => (true, true),
        _ => return None,
    };
    Some(Compressed { by_columns, in_blocks })
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

fn matrix(rebuilder: &Rebuilder<'_, '_>, kind: Compressed, parts: [Id; 4]) -> Reading<Object> {
    let [pointers, indices, values, shape] = parts;
    let (pointers, indices) = (rebuilder.dense(pointers)?, rebuilder.dense(indices)?);
    let values = rebuilder.dense(values)?;
    let shape = Shape::from(rebuilder.dimensions(shape)?);
    let (count, block) = match (kind.in_blocks, &*values.shape) {
        (false, &[count]) => (count, None),
        (true, &[count, rows, columns]) => (count, Some([rows, columns])),
        _ => return Err(skipped("it is a batch of sparse matrices, or its values are arrays of their own")),
    };
    let mut attributes = Attributes::new();
    if let Some(block) = block {
        attributes.insert(Compressed::BLOCK_SHAPE.to_owned(), Value::List(block.map(Value::from).to_vec()));
    }
    let wrong = || Error::malformed("the parts of a sparse matrix differ in length");
    let ([rows, columns], [pointer_count]) = (&*shape, &*pointers.shape) else {
        return Err(skipped("it is a batch of sparse matrices"));
    };
    let [block_rows, block_columns] = kind.block(&shape, &attributes).ok_or_else(wrong)?;
    let lines = if kind.by_columns { columns / block_columns } else { rows / block_rows };
    if lines.checked_add(1) != Some(*pointer_count) || *indices.shape != [count] {
        return Err(wrong().into());
    }
    let components = vec![
        (Cow::Borrowed("values"), values.component),
        (Cow::Borrowed("indices"), positions(indices)?),
        (Cow::Borrowed("indptr"), positions(pointers)?),
    ];
    Ok(Object { shape, layout: kind.layout(), attributes, components: components.into() })
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
